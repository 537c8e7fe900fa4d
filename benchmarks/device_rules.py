"""The cost of the device's rules: an edit's loop and a checked run, with RULES=show and RULES=off in turns.

    python -m benchmarks.device_rules [--kernels 3 50] [--repeat 15]

Each edit changes the text of one kernel. The commands are those of users: `pypto-build`, which a resident process
serves. The ratio of a pair of medians is of one run, so that the load of the machine counts for both. Budgets: an
edit's loop 5 % longer, a run with CHECK=1 10 %.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.edit_loop import _RESIDENT, _await_server, _seconds, write_sconstruct
from benchmarks.generated import write_chain

_EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "artifacts"
_NAMES = ("_jit_softmax", "_jit_gemm_silu")
_EDIT = itertools.count()


def main() -> int:
    """Measure and print a line for each pair."""
    parser = argparse.ArgumentParser(description="the cost of the device's rules")
    parser.add_argument("--kernels", type=int, nargs="*", default=[3, 50])
    parser.add_argument("--repeat", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="device_rules") as base:
        os.environ["XDG_RUNTIME_DIR"] = base  # the resident process of this benchmark alone
        directory = Path(base, "workspace")
        directory.mkdir()
        write_sconstruct(directory)
        for kernels in arguments.kernels:
            artifact = write_chain(directory / f"{kernels}", kernels)
            _pair(f"edit, {kernels} kernels", artifact, directory, arguments.repeat)
        for name in _NAMES:
            artifact = directory / "build_output" / name
            shutil.copytree(_EXAMPLES / name, artifact)
            _pair(f"edit, {name}", artifact, directory, arguments.repeat)
            _pair(f"CHECK=1, {name}", artifact, directory, arguments.repeat, ("CHECK=1", "FORCE=1"))
        _seconds(directory, [*_RESIDENT, "shutdown"])
    return 0


def _pair(name: str, artifact: Path, directory: Path, repeat: int, words: Sequence[str] = ()) -> None:
    """Print the medians with rules and without, and their ratio. Only a pair without words edits a kernel."""
    source = sorted(artifact.glob("kernels/aiv/*.cpp"))[0]
    commands = {rules: [*_RESIDENT, "replay", str(artifact), f"RULES={rules}", *words] for rules in ("off", "show")}
    for command in commands.values():
        _await_server(directory, command)
    seconds: dict[str, list[float]] = {rules: [] for rules in commands}
    for _ in range(repeat):
        for rules, command in commands.items():
            if not words:
                with source.open("a", encoding="utf-8") as file:
                    file.write(f'extern "C" int edit_{next(_EDIT)}() {{ return 0; }}\n')
            seconds[rules].append(_seconds(directory, command))
    off, show = (statistics.median(seconds[rules]) for rules in commands)
    print(f"{name}: {off:.3f} s without rules, {show:.3f} s with, ratio {show / off:.3f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
