"""A worker of the farm: describes itself, stores files by their digests, and runs jobs in separate processes."""

from __future__ import annotations

import hashlib
import marshal
import os
import platform
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pypto_build import __version__
from pypto_build.artifact.files import read_bytes
from pypto_build.facts.jobs import FarmJob, FarmResult
from pypto_build.toolchain import forks
from pypto_build.toolchain.forks import NUMBER, signal_group
from pypto_build.toolchain.python import own_environment, own_tool, start_kept

# Commands of ``pypto-build`` as forks of one process, which loads what they need once.


class Forks:
    """Client of the worker's fork server, which starts with the first job and ends with this process. Several
    threads may run jobs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def run(
        self,
        words: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        output: int,
        memory: int,
        begun: Callable[[int], None],
    ) -> tuple[int, int] | None:
        """Run a command line and return its exit status, negative for a signal, and its peak memory in bytes.

        The command writes to the descriptor ``output``. ``begun`` gets its process group. ``memory`` limits the address
        space of each of its processes in bytes; 0 is no limit. Returns None if the command did not start: the fork
        server is out of date or cannot start.
        """
        message = marshal.dumps((memory, list(words), str(directory), dict(environment)))
        try:
            with self._lock:
                answers = forks.send(self._started(), message, [output])
        except OSError:
            return None
        with open(answers, "rb", buffering=0) as news:
            if not (packed := news.read(NUMBER.size)):
                return None
            (group,) = NUMBER.unpack(packed)
            begun(group)
            ended = news.read(2 * NUMBER.size)
        if len(ended) < 2 * NUMBER.size:  # that process was killed
            forks.signal_group(group, signal.SIGKILL)
            return -signal.SIGKILL, 0
        status, peak = (number for (number,) in NUMBER.iter_unpack(ended))
        return status, peak << 10

    def start(self) -> None:
        """Start the fork server, so that it loads modules before the first job."""
        with self._lock:
            self._started()

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._process, self._socket = forks.start("pypto_build.resident.jobs", [], own_environment())
        return self._socket

    def close(self) -> None:
        """End the fork server and its processes."""
        with self._lock:
            if self._socket is not None and self._process is not None:
                self._socket.close()
                self._process.wait()
            self._socket = self._process = None


_LOG = 200_000
#: Bytes of a file that comes back.
_LARGEST = 64 << 20
#: Process groups of jobs, by the batch that they belong to and their labels; for each batch, where its commands are
#: forked from, and directories by who works there.
_running: dict[str, dict[str, int]] = {}
_forks: dict[str, Forks] = {}
_scratch: dict[str, dict[str, tempfile.TemporaryDirectory[str]]] = {}
_lock = threading.Lock()


def describe() -> dict[str, str]:
    """Return the facts about this machine that must be equal for two machines to produce equal results."""
    return {
        "pypto-build": f"{__version__} {_sources()}",
        "Python": platform.python_version(),
        "processor": platform.machine(),
        "C library": " ".join(platform.libc_ver()),
        "compiler": _compiler(),
    }


def _sources() -> str:
    """Return a digest of this package: two checkouts of one version may differ."""
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


def prepare(batch: str) -> None:
    """Load the modules for the jobs of a batch while the jobs are in transit."""
    with suppress(OSError):  # each job has a process of its own then
        _forks_of(batch).start()


def keep(data: bytes) -> bytes:
    """Return a file's content. As a task, it can be recomputed by a worker that lost it."""
    return data


def run_job(
    job: FarmJob, batch: str, memory: int, neighbours: Mapping[str, int], files: Mapping[str, str], *contents: bytes
) -> FarmResult:
    """Run a job and return its result.

    Only a failure of the worker itself raises. ``files`` maps the names in the job's directory to digests, in the order
    of ``contents``. ``neighbours`` is the number of workers on each machine.
    """
    with tempfile.TemporaryDirectory(prefix="pypto-farm-") as directory:
        scratch = Path(directory)
        root = Path(scratch, "build_output", PurePosixPath(job.root).name)
        for (name, digest), content in zip(files.items(), contents, strict=True):
            _write(root, name, digest, content)
        processors = len(os.sched_getaffinity(0)) // neighbours.get(platform.node(), 1)
        begun = time.monotonic()
        with Path(scratch, "log").open("w+b") as output:
            attempt = _Attempt(scratch, output.fileno(), batch, job.label, memory)
            status, peak = _do(job, root, attempt, max(1, processors))
            seconds = time.monotonic() - begun
            output.seek(max(0, os.fstat(output.fileno()).st_size - _LOG))  # the name may be another file's by now
            log = output.read(_LOG).decode(errors="replace").replace(str(root), job.root)
        verdicts = [_left(scratch, path) for path in Path(scratch, "build").glob("*/*/verdict.json")]
        back = {name: data for name in job.returns if (data := _left(scratch, scratch / name)) is not None}
        return FarmResult(
            job.label, status, seconds, peak, log, next(filter(None, verdicts), b""), platform.node(), files=back
        )


def _left(scratch: Path, path: Path) -> bytes | None:
    """Return the content of a file that a job wrote; None for a file that is missing, too large or outside
    ``scratch``.
    """
    real = path.resolve()
    if not real.is_relative_to(scratch.resolve()):
        return None
    try:
        return read_bytes(real, _LARGEST)
    except OSError:
        return None


def _write(root: Path, name: str, digest: str, data: bytes) -> None:
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or name.startswith("/"):
        raise ValueError(f"{name}: is not a path inside the artifact")
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{name}: was damaged in transfer")
    path = root.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@dataclass(frozen=True)
class _Attempt:
    """A running job: its directory, output descriptor, batch, label, and the memory limit of each process in bytes."""

    directory: Path
    log: int
    batch: str
    label: str
    memory: int

    def begun(self, group: int) -> None:
        """Record the process group, by which the job can be ended."""
        with _lock:
            _running.setdefault(self.batch, {})[self.label] = group

    def ended(self) -> None:
        """Forget the process group."""
        with _lock:
            _running.get(self.batch, {}).pop(self.label, None)


def _do(job: FarmJob, root: Path, attempt: _Attempt, processors: int) -> tuple[int, int]:
    """Run a job; return its exit status and its peak memory in bytes."""
    environment = {**own_environment(), "PYPTO_BUILD_SERVER": "0"}
    try:
        if job.module:
            return _run([*own_tool(job.module), str(root), "--scratch", _kept(attempt.batch)], attempt, environment)
        options = [f"{name}={value}" for name, value in job.options.items()]
        words = [job.verb, str(root), f"BUILD_DIR={attempt.directory / 'build'}", f"-j{processors}", *options]
        forked = _forks_of(attempt.batch).run(
            words, attempt.directory, environment, attempt.log, attempt.memory, attempt.begun
        )
        return forked or _run([*own_tool("pypto_build.cli"), *words], attempt, environment)
    finally:
        attempt.ended()


def _forks_of(batch: str) -> Forks:
    with _lock:
        return _forks.setdefault(batch, Forks())


def _kept(batch: str) -> str:
    """Return a directory that exists until a batch ends; it lies in the worker's directory, which is removed with
    the worker.
    """
    name, own = "", None
    with suppress(ImportError, ValueError):  # outside of a worker
        from distributed import get_worker

        name, own = get_worker().address, get_worker().local_directory
    with _lock:
        directories = _scratch.setdefault(batch, {})
        if name not in directories:
            directories[name] = tempfile.TemporaryDirectory(prefix="pypto-batch-", dir=own)
        return directories[name].name


def _run(command: list[str], attempt: _Attempt, environment: Mapping[str, str]) -> tuple[int, int]:
    """Run a command in a process group that ends with this process; return its status and peak memory in bytes."""
    process = start_kept(command, environment, attempt.log, attempt.memory, attempt.directory)
    attempt.begun(process.pid)
    try:
        _, ended, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(ended)
    finally:
        if process.stdin:
            process.stdin.close()
    return process.returncode, usage.ru_maxrss << 10


def cancel(batch: str, label: str = "") -> int:
    """End all jobs of a batch that run here, or the one with ``label``; return the number of ended jobs."""
    with _lock:
        running = dict(_running.get(batch, {}))
    groups = [group for name, group in running.items() if not label or name == label]
    for group in groups:
        signal_group(group, signal.SIGKILL)
    return len(groups)


def forget(batch: str) -> None:
    """Remove the files of a batch whose jobs have ended."""
    with _lock:
        forks, directories = _forks.pop(batch, None), _scratch.pop(batch, {})
    if forks:
        forks.close()
    for directory in directories.values():
        directory.cleanup()
