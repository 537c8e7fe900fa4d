"""Says of each planted bug whether `triage` finds it.

`python -m tests.diagnose.planted [NAME…]` prints the table. Every bug is looked for in an artifact that was never
replayed before; `test_planted.py` runs a sample.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pypto_build.toolchain.python import own_tool
from tests.diagnose.planted_bugs import FRESH, PLANTED, PROGRAMS, Planted


@dataclass(frozen=True)
class Answer:
    """The answer of triage: its first line, whether it was called the cause, processor seconds and replays."""

    text: str
    line: str
    certain: bool
    processor_s: float
    replays: int

    @property
    def position(self) -> str:
        """Return the file and line that it begins with."""
        return self.line.partition(": error:")[0]

    def names(self, expected: str) -> bool:
        """Return whether it names a position: first, or as one of two of which it says that either may be wrong."""
        return self.position == expected or (not self.certain and f" {expected}: or change the" in self.text)


def plant(bug: Planted, directory: Path) -> tuple[Path, str]:
    """Compile the program with the bug; the artifact, and the position that has to be named."""
    line = 0
    program, artifact = directory / f"{bug.program}.py", directory / "build_output" / f"_jit_{bug.program}"
    text = PROGRAMS[bug.program]
    if bug.file == program.name:
        line = _line(text, bug)
        text = _edited(text, bug)
    program.write_text(text)
    command = [*own_tool("pypto_build.compiler"), str(program), "--output", str(artifact)]
    subprocess.run(command, check=True, capture_output=True, cwd=directory)
    if bug.file == program.name:
        return artifact, f"{program.name}:{line}"
    target = artifact / bug.file
    if bug.file.startswith("data/"):
        data = bytearray(target.read_bytes())
        import torch

        torch.save(torch.load(target, weights_only=True) * 1.25, target)
        assert target.read_bytes() != data
        return artifact, bug.file
    text = target.read_text()
    if not bug.old:
        text = re.sub(r'("func_id": )([01])', lambda match: f"{match[1]}{1 - int(match[2])}", text)
        line = text[: text.index('"func_id"')].count("\n") + 1
        target.write_text(text)
        return artifact, f"{bug.file}:{line}"
    target.write_text(_edited(text, bug))
    if bug.file == "golden.py":
        subprocess.run([*own_tool("pypto_build.compiler.golden"), str(artifact)], check=True, capture_output=True)
    return artifact, f"{bug.file}:{_line(text, bug)}"


def _edited(text: str, bug: Planted) -> str:
    assert bug.old in text, bug
    return text.replace(bug.old, bug.new, 1)


def _line(text: str, bug: Planted) -> int:
    return text.count("\n", 0, text.index(bug.old)) + 1


def triage(artifact: Path) -> Answer:
    """Ask triage about an artifact. What stops it before its first instrument is an answer too."""
    before = _of_children()
    command = [*own_tool("pypto_build.cli"), "triage", str(artifact)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=artifact.parents[1])
    seconds = _of_children() - before
    _, _, answer = run.stdout.partition("[triage]")
    if not answer:
        _, _, refused = run.stderr.partition(f"scons: *** {artifact}/")
        return Answer(run.stderr, refused.replace(": ", ": error: ", 1), True, seconds, 0)
    lines = answer.splitlines()
    first = next((line for line in lines if ": error: " in line), "")
    replays = re.search(r"(\d+) replays?", answer)
    return Answer(answer, first, lines[0].endswith("the cause:"), seconds, int(replays[1]) if replays else -1)


def _of_children() -> float:
    """Return the processor time of all processes that were waited for, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def examine(bug: Planted) -> tuple[str, Answer]:
    """Plant a bug in an artifact of its own. Return the position that has to be named, and the answer."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        artifact, expected = plant(bug, Path(directory))
        return expected, triage(artifact)


def main(names: list[str]) -> int:
    """Print a row for each bug."""
    right = wrong = 0
    for number, bug in enumerate((*PLANTED, *FRESH), 1):
        if names and not any(name in bug.name for name in names):
            continue
        expected, answer = examine(bug)
        named = answer.names(expected)
        right += named
        wrong += answer.certain and not named
        sure = "cause" if answer.certain else "likely"
        cells = (number, bug.name, f"`{expected}`", f"`{answer.position}`", sure, "yes" if named else "no")
        print(f"| {' | '.join(map(str, cells))} | {answer.processor_s:.1f} | {answer.replays} |", flush=True)
        if not named:
            print("\n".join(f"    {line}" for line in answer.text.splitlines()[:12]), file=sys.stderr, flush=True)
    print(f"{right} at the line, {wrong} wrong and called certain")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
