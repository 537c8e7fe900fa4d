"""Commands of `SCRIPT=`: what each does, and a runner that prints plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.step import text
from pypto_build.diagnose.step.session import Session

Lines = Iterator[str]


@dataclass(frozen=True)
class Command:
    """One command: its syntax and its function."""

    usage: str
    doc: str
    run: Callable[[Session, str], Lines]


def _moved(session: Session, by: int, word: str) -> Lines:
    if word and not word.isdecimal():
        raise ArtifactError("", f"'{word}' is not a number of steps", "write a number, such as next 3")
    if not session.move(by * (int(word[:9]) if word else 1)):
        yield "  there is nothing more"
    yield from text.where_lines(session)


def _goto(session: Session, where: str) -> Lines:
    session.goto(where)
    yield from text.where_lines(session)


def _wrong(session: Session, _: str) -> Lines:
    parting = session.now.parting
    if parting is None:
        has_reference = bool(session.now.call.expected.values)
        yield (
            "  no step writes something else than PyTorch"
            if has_reference
            else "  PyTorch does not tell of this kernel"
        )
        return
    session.at = parting
    yield from text.where_lines(session)


def _kernel(session: Session, name: str) -> Lines:
    session.choose(name)
    yield from text.where_lines(session)


def _list(session: Session, word: str) -> Lines:
    around = int(word[:9]) if word.isdecimal() else 0
    return text.list_lines(session, around) if around else text.list_lines(session)


def _help(session: Session, _: str) -> Lines:
    for command in COMMANDS.values():
        yield f"  {command.usage:<28} {command.doc}"


COMMANDS: dict[str, Command] = {
    name: Command(usage, doc, run)
    for name, usage, doc, run in (
        ("next", "next [N]", "on by one instruction, flag or barrier, or by N", lambda s, word: _moved(s, 1, word)),
        ("back", "back [N]", "back by one, or by N", lambda s, word: _moved(s, -1, word)),
        ("goto", "goto 69|TADD#4|v17|#12|last", "to a line (x.pto:69), an instruction, what writes a tile next", _goto),
        ("wrong", "wrong", "to the first instruction that writes something else than PyTorch", _wrong),
        ("where", "where", "where one stands", lambda s, _: text.where_lines(s)),
        ("list", "list [N]", "the steps around", _list),
        ("print", "print v17[3, 0:8] [before]", "a tile, tensor or scalar as it is then, or was", text.print_lines),
        ("tile", "tile dst|src0|tmp [before]", "an operand of the instruction", text.print_lines),
        ("tiles", "tiles", "all tiles, and how they stand to PyTorch", lambda s, _: text.tile_lines(s)),
        ("scalars", "scalars", "numbers in variables, PyTorch's beside them", lambda s, _: text.scalar_lines(s)),
        ("flags", "flags", "which flags are set, and who waited for them", lambda s, _: text.flag_lines(s)),
        ("pipes", "pipes", "what each pipe has done, and what it is ordered after", lambda s, _: text.pipe_lines(s)),
        ("kernel", "kernel NAME|aic|aiv0|aiv1", "to another kernel of the task", _kernel),
        ("help", "help", "these commands", _help),
    )
}  # fmt: skip
_SHORT = {"n": "next", "b": "back", "g": "goto", "p": "print", "l": "list", "w": "where"}


def run_command(session: Session, command: str) -> Lines:
    """Run a command and return the lines it prints. Raises ArtifactError for an invalid command."""
    name, _, rest = command.partition(" ")
    entry = COMMANDS.get(_SHORT.get(name, name))
    if entry is None:
        raise ArtifactError("", f"'{name}' is not a command", f"the commands are {', '.join(COMMANDS)}")
    if rest and " " not in entry.usage:
        raise ArtifactError("", f"'{entry.usage}' takes no argument '{rest.strip()}'", "leave the argument out")
    return entry.run(session, rest.strip())
