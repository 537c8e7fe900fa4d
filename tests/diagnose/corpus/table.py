"""The corpus as a table for the documentation: `python -m tests.diagnose.corpus.table` writes it into the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.diagnose.corpus import Bug, faults, flaky, hazards, lint, logs, memory, orchestration, passes, traps, why
from tests.diagnose.seeds import SEEDS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "dev" / "instruments.md"
BEGIN, END = "<!-- corpus: begin -->", "<!-- corpus: end -->"

#: What is typed for each tool.
_COMMANDS = {"hang": "scons hang LOG=dir", **{name: f"scons {name}" for name in ("lint", "passes", "hazards", "flaky")}}
_ALL = (hazards.BUGS, faults.BUGS, flaky.BUGS, lint.BUGS, logs.BUGS, passes.BUGS)


def bugs() -> Iterator[Bug]:
    """Every bug but those of `diverge`, in the order of the table."""
    for part in _ALL:
        yield from part


def table() -> str:
    """One row a bug: what is planted, the command, where it is found, the finding, whether its edit repairs it."""
    rows = ["| planted bug | command | found at | finding | edit |", "|---|---|---|---|---|"]
    rows += [_row(bug.name, _COMMANDS[bug.tool], bug.file, bug.at, bug.rule, bug.fixed) for bug in bugs()]
    rows += [_row(bug.name, f"scons hazards TRAP={trap}", bug.file, bug.at, bug.rule) for trap, bug in traps.BUGS]
    rows += [
        _row(bug.name, "scons hazards MEMORY=weak", bug.file, bug.at, bug.rule, bug.fixed)
        for bug in (*memory.BUGS, *memory.OF_RANKS)
    ]
    rows += [_row(bug.name, "scons why", bug.file, bug.line, "the link that parts") for bug in why.BUGS]
    rows += [_row(seed.name, "scons diverge", seed.file, seed.at, seed.rule) for seed in SEEDS]
    rows += [_row(bug.name, "scons diverge", bug.file, bug.at, bug.rule, bug.fixed) for bug in orchestration.BUGS]
    return "\n".join(rows) + "\n"


def _row(name: str, command: str, file: str, at: str, rule: str, fixed: bool = False) -> str:
    position = f"`{file}`" + (f": `{at.strip()}`" if at else "") if file else "the run"
    return (
        f"| {name} | `{command}` | {position.replace('|', chr(92) + '|')} | `{rule}` | {'applies' if fixed else ''} |"
    )


def page(text: str) -> str:
    """The page with the table that it should have, and the number of bugs in front of it."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
