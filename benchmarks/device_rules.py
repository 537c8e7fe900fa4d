"""The cost of the device's rules: an edit's loop and a checked run, with RULES=show and RULES=off in turns.

    python -m benchmarks.device_rules [--kernels 3 50] [--repeat 15]

Each edit changes the text of one kernel. The ratio of a pair of medians is of one run, so that the load of the machine
counts for both. Budgets: an edit's loop 5 % longer, a run with CHECK=1 10 %.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.edit_loop import write_sconstruct
from benchmarks.generated import write_chain

_EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "artifacts"
_EXAMPLE = "_jit_softmax"
_SCONS = ("env", "PYPTO_BUILD_SERVER=0", sys.executable, "-m", "SCons", "-Q")
_EDIT = itertools.count()


def main() -> int:
    """Measure and print a line for each pair."""
    parser = argparse.ArgumentParser(description="the cost of the device's rules")
    parser.add_argument("--kernels", type=int, nargs="*", default=[3, 50])
    parser.add_argument("--repeat", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="device_rules") as base:
        for kernels in arguments.kernels:
            directory = Path(base, str(kernels))
            artifact = write_chain(directory / "build_output", kernels)
            _pair(f"edit, {kernels} kernels", directory, artifact, arguments.repeat)
        directory = Path(base, "example")
        artifact = directory / "build_output" / _EXAMPLE
        shutil.copytree(_EXAMPLES / _EXAMPLE, artifact)
        _pair(f"edit, {_EXAMPLE}", directory, artifact, arguments.repeat)
        _pair(f"CHECK=1, {_EXAMPLE}", directory, artifact, arguments.repeat, ("CHECK=1", "FORCE=1"))
    return 0


def _pair(name: str, directory: Path, artifact: Path, repeat: int, words: Sequence[str] = ()) -> None:
    """Print the medians with rules and without, and their ratio. Only a pair without words edits a kernel."""
    write_sconstruct(directory)
    source = sorted(artifact.glob("kernels/aiv/*.cpp"))[0]
    seconds: dict[str, list[float]] = {"off": [], "show": []}
    for number in range(repeat + 1):
        for rules, measured in seconds.items():
            if not words:
                with source.open("a", encoding="utf-8") as file:
                    file.write(f'// edit {next(_EDIT)}\nextern "C" int edit_{next(_EDIT)}() {{ return 0; }}\n')
            began = time.perf_counter()
            command = [*_SCONS, "replay", f"JIT={artifact.name}", f"RULES={rules}", *words]
            subprocess.run(command, cwd=directory, check=True, capture_output=True, env=dict(os.environ))
            if number:  # the first one builds
                measured.append(time.perf_counter() - began)
    off, show = (statistics.median(seconds[rules]) for rules in ("off", "show"))
    print(f"{name}: {off:.3f} s without rules, {show:.3f} s with, ratio {show / off:.3f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
