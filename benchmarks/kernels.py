"""Time of whole compiled kernels, beside the same kernels compiled with another library of instructions.

    python -m benchmarks.kernels --pto-isa CHECKOUT [--peer-compiler g++-15] [--repeat 50] [ARTIFACT …]

Each artifact, by default the examples, is built and run by the embedded runtime, task after task on its own data.
Then its kernels are compiled once more with the headers of pto-isa, as simpler's simulator compiles them. The same
runtime runs these. A kernel's time is that of a task, the best of the repeats on its data and a warm cache, averaged
over its first tasks. Outputs of both are compared: the greatest difference stands beside the artifact. Kernels that
talk to each other are left out, since the peer's pipes need its own runtime.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peer import CORE_MACRO, PEER_FLAGS, PEER_MEMORY
from pypto_build.artifact import artifact_name
from pypto_build.artifact.interface import Interface, read_interface
from pypto_build.artifact.snapshot import snapshot
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import bind
from pypto_build.replay.child import tensor_buffers
from pypto_build.replay.loading import load_embedded
from pypto_build.replay.values import decode, storage
from pypto_build.toolchain.host import INCLUDE_DIR
from tests.replay.builder import embedded_module

_REPOSITORY = Path(__file__).resolve().parents[1]
_TIMEOUT_S = 120
_TASKS_OF_A_KERNEL = 4
# A call costs a few thousand nanoseconds, which are measured and taken off; what is left of less than this is noise.
_SHORTEST_NS = 1000

#: nanoseconds a task by kernel, and the outputs
Measured = tuple[dict[str, float], dict[str, bytes]]


class Left(Exception):
    """Why an artifact cannot be measured."""


def _build(artifact: Path, directory: Path) -> Path:
    command = [sys.executable, "-m", "pypto_build.cli", "build", str(artifact), "--build-dir", str(directory)]
    done = subprocess.run(command, cwd=_REPOSITORY, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Left((done.stderr or done.stdout).strip().splitlines()[-1])
    return directory / "a2a3sim" / artifact_name(artifact)


def _build_peer(artifact: Path, interface: Interface, directory: Path, isa: Path, compiler: str) -> None:
    """Compiles every kernel with the peer's headers, two at a time; its own runtime's headers are not needed."""
    running: list[tuple[str, subprocess.Popen[bytes]]] = []
    for kernel in interface.kernels:
        target = directory / f"{kernel.binary}.so"
        target.parent.mkdir(parents=True, exist_ok=True)
        includes = [f"-I{isa}/include", f"-I{isa}/include/pto", f"-I{INCLUDE_DIR}"]
        command = [compiler, *PEER_FLAGS, CORE_MACRO[kernel.core_type], "-shared", *includes]
        command += [str(artifact / kernel.source), "-o", str(target)]
        running.append((kernel.name, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)))
        if len(running) >= (os.cpu_count() or 1):
            _finished(*running.pop(0))
    for name, process in running:
        _finished(name, process)


def _build_nothing(interface: Interface, directory: Path) -> Path:
    """Kernels that return at once, for what a call costs whatever it calls."""
    library = directory / "nothing.so"
    if not library.exists():
        directory.mkdir()
        source = library.with_suffix(".cpp")
        source.write_text('extern "C" void kernel_entry(long *) {}\n', encoding="utf-8")
        subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    for kernel in interface.kernels:
        link = directory / f"{kernel.binary}.so"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(library)
    return directory


def _finished(kernel: str, process: subprocess.Popen[bytes]) -> None:
    if process.wait():
        raise Left(f"{kernel} does not compile with the peer's headers")


def _measure(artifact: Path, out: Path, kernels: Path, repeat: int, module: Path) -> Measured:
    """Runs an artifact with the kernels below `kernels`. In a process of its own: the peer's may crash."""
    os.environ.update(PEER_MEMORY)
    interface = read_interface(out / "interface.json")
    binding = bind(interface, snapshot(artifact, None))
    arena = Arena([tensor.nbytes for tensor in binding.tensors])
    runtime = load_embedded(module).Runtime("a2a3sim", 1)
    for kernel in interface.kernels:
        runtime.load_kernel(kernel.func_id, kernel.name, kernel.core_type, str(kernels / f"{kernel.binary}.so"))
    entry = interface.orchestration
    runtime.load_orchestration(str(out / f"{entry.binary}.so"), entry.function_name, entry.config_name)

    def run(options: dict[str, Any]) -> None:
        for index, tensor in enumerate(binding.tensors):
            arena.fill(index, tensor.initial)
        scalars = [scalar.bits for scalar in binding.scalars]
        runtime.run(tensors=tensor_buffers(binding, arena), scalars=scalars, options={"serial": True, **options})

    run({})
    outputs = {t.name: bytes(arena.tensor(i)) for i, t in enumerate(binding.tensors) if t.direction != "IN"}
    best: dict[str, list[float]] = defaultdict(list)

    def timed(call: Any) -> None:
        call.run()
        (_, _, name), *others = call.kernels
        if others or len(best[name]) >= _TASKS_OF_A_KERNEL:
            return
        spent: list[float] = []
        while len(spent) < repeat:
            start = time.thread_time_ns()
            call.run()
            spent.append(time.thread_time_ns() - start)
        best[name].append(min(spent))

    run({"on_task": timed})
    return {name: sum(times) / len(times) for name, times in best.items()}, outputs


def _apart(*arguments: object) -> Measured:
    """`_measure` in a process of its own. Raises `Left` if it crashes, hangs or fails."""
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    try:
        return pool.submit(_told, *arguments).result(_TIMEOUT_S)
    except BrokenExecutor:
        raise Left("crashes") from None
    except TimeoutError:
        raise Left(f"did not come back within {_TIMEOUT_S} s") from None
    finally:
        for process in pool._processes.values():
            process.kill()
        pool.shutdown()


def _told(*arguments: Any) -> Measured:
    """`_measure`, whose errors a parent without the runtime's module can read."""
    try:
        return _measure(*arguments)
    except Exception as error:
        raise Left(str(error)) from None


def _difference(interface: Interface, ours: Mapping[str, bytes], peer: Mapping[str, bytes]) -> float:
    """The greatest difference between two runs' outputs, relative to the greatest value of each tensor."""
    worst = 0.0
    dtypes = {param.name: param.dtype for param in interface.params}
    for name, data in ours.items():
        dtype = dtypes[name] or "uint8"
        left, right = (decode(storage(part, dtype, (-1,)), dtype).astype(np.float64) for part in (data, peer[name]))
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        if not same.all():
            scale = np.nanmax(np.abs(left[~same]), initial=1.0)
            worst = max(worst, float(np.nan_to_num(np.abs(left - right)[~same] / scale, nan=np.inf).max()))
    return worst


def _compare(artifact: Path, directory: Path, options: argparse.Namespace) -> Iterator[tuple[str, float, float]]:
    """The kernels of an artifact: name, nanoseconds a task of ours and of the peer's. Raises `Left`."""
    out = _build(artifact, directory / "build")
    interface = read_interface(out / "interface.json")
    peer = directory / "peer" / artifact_name(artifact)
    _build_peer(artifact, interface, peer, options.pto_isa, options.peer_compiler)
    module = embedded_module()
    nothing, _ = _apart(artifact, out, _build_nothing(interface, directory / "nothing"), options.repeat, module)
    ours, outputs = _apart(artifact, out, out, options.repeat, module)
    theirs, others = _apart(artifact, out, peer, max(2, options.repeat // 10), module)
    print(f"{artifact_name(artifact)}: outputs differ by at most {_difference(interface, outputs, others):.1e}")
    for name, floor in nothing.items():
        yield name, max(ours[name] - floor, 0.0), max(theirs[name] - floor, 0.0)


def _report(artifact: Path, directory: Path, options: argparse.Namespace) -> list[float]:
    """Prints an artifact's kernels; how many times as fast they are."""
    factors = []
    try:
        for name, ours, peer in _compare(artifact, directory, options):
            short = max(ours, peer) < 5 * _SHORTEST_NS
            ours, peer = max(ours, _SHORTEST_NS), max(peer, _SHORTEST_NS)
            print(
                f"  {name:42} {ours / 1e3:11.1f} {peer / 1e3:11.1f} "
                + ("  too short to compare" if short else f"{peer / ours:7.1f}"),
                flush=True,
            )
            factors += [] if short else [peer / ours]
    except Left as reason:
        print(f"{artifact.name}: left out, {reason}", flush=True)
    return factors


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifacts", nargs="*", type=Path, metavar="ARTIFACT", help="directories, with a snapshot")
    parser.add_argument("--pto-isa", type=Path, default=os.environ.get("PTO_ISA"), metavar="CHECKOUT")
    parser.add_argument("--peer-compiler", default="g++-15", metavar="CXX")
    parser.add_argument("--repeat", type=int, default=50)
    options = parser.parse_args(argv)
    if options.pto_isa is None or not (options.pto_isa / "include" / "pto").is_dir():
        sys.exit(f"--pto-isa {options.pto_isa}: has no include/pto; name a checkout of pto-isa, or set PTO_ISA")
    factors: list[float] = []
    artifacts = options.artifacts or sorted((_REPOSITORY / "examples" / "artifacts").iterdir())
    print(f"{'kernel':44} {'us':>11} {'peer us':>11} {'times':>7}")
    with tempfile.TemporaryDirectory() as directory:
        for artifact in artifacts:
            factors += _report(artifact.resolve(), Path(directory), options)
    if not factors:
        return 1
    mean = math.exp(sum(map(math.log, factors)) / len(factors))
    print(
        f"{len(factors)} kernels: {mean:.1f} times as fast as the peer's in the geometric mean, "
        f"{sum(factor >= 10 for factor in factors)} at least 10 times, least {min(factors):.1f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
