"""What a worker does: tells what it is, keeps files by their digests, runs jobs in processes of their own."""

from __future__ import annotations

import hashlib
import os
import platform
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from pypto_build import __version__
from pypto_build.facts.jobs import FarmJob, FarmResult
from pypto_build.toolchain.python import kept, own_environment, own_tool

_LOG = 200_000
#: Processes of jobs, by the batch that they belong to and their labels; directories that last as long as a batch.
_running: dict[str, dict[str, subprocess.Popen[bytes]]] = {}
_scratch: dict[str, tempfile.TemporaryDirectory[str]] = {}
_lock = threading.Lock()


def describe() -> dict[str, str]:
    """What has to be the same on two machines for their results to be."""
    return {
        "pypto-build": f"{__version__} {_sources()}",
        "Python": platform.python_version(),
        "processor": platform.machine(),
        "C library": " ".join(platform.libc_ver()),
        "compiler": _compiler(),
    }


def _sources() -> str:
    """A digest of this package: two checkouts of one version may differ."""
    root, digest = Path(__file__).resolve().parents[1], hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".cpp", ".hpp", ".h") and path.is_file():
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _compiler() -> str:
    for name in ("g++", "clang++"):
        with suppress(OSError):
            run = subprocess.run([name, "--version"], capture_output=True, text=True, check=False)
            return run.stdout.partition("\n")[0]
    return "none"


def keep(data: bytes) -> bytes:
    """A file's content, as a task: a worker that lost it computes it again."""
    return data


def run_job(
    job: FarmJob, batch: str, memory: int, neighbours: Mapping[str, int], files: Mapping[str, str], *contents: bytes
) -> FarmResult:
    """Do a job. ``files`` are the digests of its directory's files by their names, ``contents`` the files in that
    order; ``neighbours`` says how many workers there are on each machine.

    Whatever the job comes to is a result; only what a worker cannot do at all is an error.
    """
    with tempfile.TemporaryDirectory(prefix="pypto-farm-") as directory:
        place = Path(directory)
        root = Path(place, "build_output", PurePosixPath(job.root).name)
        for (name, digest), data in zip(files.items(), contents, strict=True):
            _write(root, name, digest, data)
        processors = len(os.sched_getaffinity(0)) // neighbours.get(platform.node(), 1)
        begun = time.monotonic()
        status, peak = _run(_command(job, root, place, batch, max(1, processors)), place, batch, job.label, memory)
        seconds = time.monotonic() - begun
        log = Path(place, "log").read_bytes()[-_LOG:].decode(errors="replace").replace(str(root), job.root)
        verdicts = list(Path(place, "build").glob("*/*/verdict.json"))
        verdict = verdicts[0].read_bytes() if verdicts else b""
        back = {name: Path(place, name).read_bytes() for name in job.returns if Path(place, name).is_file()}
        return FarmResult(job.label, status, seconds, peak, log, verdict, platform.node(), files=back)


def _write(root: Path, name: str, digest: str, data: bytes) -> None:
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or name.startswith("/"):
        raise ValueError(f"{name}: is no file of an artifact")
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{name}: arrived damaged")
    path = root.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _command(job: FarmJob, root: Path, place: Path, batch: str, processors: int) -> list[str]:
    if job.module:
        return [*own_tool(job.module), str(root), "--scratch", _kept(batch)]
    options = [f"{name}={value}" for name, value in job.options.items()]
    words = [job.verb, str(root), f"BUILD_DIR={place / 'build'}", f"-j{processors}", *options]
    return [*own_tool("pypto_build.cli"), *words]


def _kept(batch: str) -> str:
    """A directory that stays for the jobs of a batch; the worker's own is removed with it, however it ends."""
    with _lock:
        if batch not in _scratch:
            own = None
            with suppress(ImportError, ValueError):  # there is no worker
                from distributed import get_worker

                own = get_worker().local_directory
            _scratch[batch] = tempfile.TemporaryDirectory(prefix="pypto-batch-", dir=own)
        return _scratch[batch].name


def _run(command: list[str], place: Path, batch: str, label: str, memory: int) -> tuple[int, int]:
    """Run a command in a process group that ends with this process; its status, and the peak of its memory in bytes."""
    environment = {**own_environment(), "PYPTO_BUILD_SERVER": "0"}
    keeper = kept(command, memory)
    with Path(place, "log").open("wb") as log:
        process = subprocess.Popen(
            keeper, cwd=place, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )
    with _lock:
        _running.setdefault(batch, {})[label] = process
    try:
        _, ended, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(ended)
    finally:
        with _lock:
            del _running[batch][label]
        if process.stdin:
            process.stdin.close()
    return process.returncode, usage.ru_maxrss << 10


def cancel(batch: str, label: str = "") -> int:
    """End all jobs of a batch that run here, or one of them; how many there were."""
    with _lock:
        running = dict(_running.get(batch, {}))
    processes = [process for name, process in running.items() if not label or name == label]
    for process in processes:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    return len(processes)


def forget(batch: str) -> None:
    """Remove what was kept for the jobs of a batch."""
    with _lock:
        kept = _scratch.pop(batch, None)
    if kept:
        kept.cleanup()
