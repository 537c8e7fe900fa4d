"""Time of `scons hazards` beside that of a replay: the whole command, from process start to end.

    python -m benchmarks.hazards [--repeat 5] [--rounds 1000] [--artifact DIR ...]

Measured on the examples, on any artifact given, and on the graph of `_jit_vector_dag` repeated ROUNDS times (five tasks
each). Wanted: at most three times the replay. Each artifact is built both ways first, which does not count.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pypto_build.rules.machinery.runtime_module import module_path
from pypto_build.runtime.build import build
from pypto_build.toolchain.host import find_compiler

_REPOSITORY = Path(__file__).resolve().parents[1]
_EXAMPLES = _REPOSITORY / "examples" / "artifacts"
_SCONSTRUCT = "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
_BUDGET = 3.0


def repeated_graph(directory: Path, rounds: int) -> Path:
    """`_jit_vector_dag` with its tasks submitted `rounds` times; every round waits for the last one's output."""
    copied = directory / f"_jit_vector_dag_x{rounds}"
    shutil.copytree(_EXAMPLES / "_jit_vector_dag", copied)
    source = copied / "orchestration" / "vector_dag.cpp"
    text = source.read_text(encoding="utf-8")
    loop = f"for (int64_t round = 0; round < {rounds}; ++round) PTO2_SCOPE() {{"
    text = text.replace("PTO2_SCOPE() {", loop, 1).replace("add_output(ext_f)", "add_inout(ext_f)")
    source.write_text(text, encoding="utf-8")
    return copied


def _best(command: Sequence[str], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        subprocess.run(command, cwd=_REPOSITORY, check=False, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def _measure(artifact: Path, directory: Path, embedded: Path, repeat: int) -> tuple[float, float]:
    """Seconds of the replay and of the hazards tool."""
    for more in ((), ("CHECK=1",)):
        command = [sys.executable, "-m", "SCons", "-Q", "build", f"JIT={artifact}", *more]
        subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL, env=_environment())
    out = directory / "build" / "a2a3sim" / artifact.name
    common = [str(artifact), "--platform", "a2a3sim", "--build-dir", str(out), "--embedded", str(embedded)]
    return (
        _best([sys.executable, "-m", "pypto_build.replay", *common], repeat),
        _best([sys.executable, "-m", "pypto_build.diagnose.hazards", *common], repeat),
    )


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(_REPOSITORY), "PYPTO_BUILD_SERVER": "0"}


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line an artifact."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--artifact", type=Path, action="append", default=[])
    options = parser.parse_args(argv)
    embedded = module_path(find_compiler())
    if not embedded.exists():
        embedded = build(embedded.parent)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "SConstruct").write_text(_SCONSTRUCT, encoding="utf-8")
        artifacts = [*sorted(_EXAMPLES.glob("_jit_*")), repeated_graph(root, options.rounds), *options.artifact]
        print(f"{'artifact':36s} {'replay s':>9s} {'hazards s':>9s} {'times':>6s}  (wanted: at most {_BUDGET:g})")
        for artifact in artifacts:
            replay, hazards = _measure(artifact.resolve(), root, embedded, options.repeat)
            print(f"{artifact.name:36s} {replay:9.3f} {hazards:9.3f} {hazards / replay:6.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
