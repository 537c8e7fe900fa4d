"""Console output of the diagnostic tools: tables, progress lines, command lines, and the reports of errors."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from keyword import iskeyword
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pypto_build import terminal
from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_text
from pypto_build.facts.options import OPTIONS
from pypto_build.facts.verbs import VERBS
from pypto_build.replay.run_options import number
from pypto_build.toolchain.forks import outlive_readers

# Commands of `SCRIPT=`: text with semicolons, or a file.


def script_text(text: str) -> str:
    """Return the commands of a script, given as text or as the name of a file. Raises ArtifactError."""
    path = Path(text)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):
        is_file = False
    if not text or not is_file:
        return text
    try:
        return read_text(path)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "name another file") from None


def commands_in(text: str) -> list[str]:
    """The commands: one a line, or with semicolons between them; a line that begins with `# ` is a comment."""
    lines = [line for line in script_text(text).splitlines() if not line.lstrip().startswith("# ")]
    return [command.strip() for line in lines for command in line.split(";") if command.strip()]


Item = TypeVar("Item")


def tool_parser(name: str, text: str | None) -> argparse.ArgumentParser:
    """Return the parser of a tool. Its description is the first paragraph of `text`, the module's docstring."""
    return argparse.ArgumentParser(prog=f"pypto_build.diagnose.{name}", description=(text or "").split("\n\n")[0])


def add_run_options(parser: argparse.ArgumentParser, *, always: bool = True) -> None:
    """Add the flags that name a built artifact. Without `always`, the flag `--embedded` is optional."""
    add = parser.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR")
    add("--platform", default="a2a3sim", metavar="P", help="a2a3sim or a5sim")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="where the artifact was built")
    add("--embedded", type=Path, required=always, metavar="PATH", help="the embedded runtime's extension module")
    add("--binaries", type=Path, metavar="DIR", help="where kernels/ and orchestration/ are, if not in OUT")


def add_options_of(parser: argparse.ArgumentParser, verb: str, **defaults: float) -> None:
    """Add the options that a verb takes, by their rows; `defaults` has those defaults that differ for this verb."""
    row = VERBS[verb]
    for name, flag in row.flags.items():
        option, needed = OPTIONS[name], name in row.required
        default = defaults.get(name, option.default)
        text = option.doc_for(verb).removeprefix("1: ").replace("%", "%%")
        if option.kind.type is bool:
            parser.add_argument(flag, action="store_true", help=text)
            continue
        kind: Any = Path if option.kind.is_path else str if option.kind.type is str else number(option.kind)
        if option.kind.is_path or needed:
            default = default or None
        word = flag.removeprefix("--").replace("-", "_")
        about: dict[str, Any] = {"dest": f"{word}_" if iskeyword(word) else word, "metavar": "VALUE", "help": text}
        choices = None if option.uses else option.kind.choices or None  # what differs by verb is the tool's to check
        parser.add_argument(flag, type=kind, default=default, required=needed, choices=choices, **about)


def add_chips(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names the chip programs of a distributed artifact."""
    parser.add_argument(
        "--chip", action="append", default=[], metavar="NAME=DIR", help="where a chip program was built"
    )


def add_beside(parser: argparse.ArgumentParser) -> None:
    """Add the flag `--usual`, for a tool that runs its own binaries and the usual ones."""
    what = "where the usual kernels/ and orchestration/ are, if not in OUT"
    parser.add_argument("--usual", type=Path, metavar="DIR", help=what)


def run_tool(name: str, tool: Callable[[], int]) -> int:
    """Run the body of a tool and return its exit status. An error is reported in one line on stderr."""
    outlive_readers()
    with terminal.escaping():
        return _run(name, tool)


def _run(name: str, tool: Callable[[], int]) -> int:
    try:
        return tool()
    except ArtifactError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130  # the exit status that a shell reports for an interrupted command
    except OSError as error:
        print(f"{name}: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 2


class Main(Protocol):
    """The type of a tool's `main`, which takes the words of a command line, by default those of the process."""

    def __call__(self, argv: Sequence[str] | None = None) -> int: ...


def command(
    name: str,
    parser: Callable[[], argparse.ArgumentParser],
    *more: Callable[[argparse.ArgumentParser], None],
    run: Callable[[str, Callable[[], int]], int] = run_tool,
) -> Callable[[Callable[[argparse.Namespace], int]], Main]:
    """Return a decorator that turns a tool's body into its `main`.

    The body receives the options that `parser` reads. The functions in `more` add flags to the parser. The words of the
    command line are the option `words`. `run` calls the body and returns the exit status.
    """

    def decorate(body: Callable[[argparse.Namespace], int]) -> Main:
        @wraps(body)
        def main(argv: Sequence[str] | None = None) -> int:
            words = list(sys.argv[1:] if argv is None else argv)
            flags = parser()
            for add in more:
                add(flags)
            options = flags.parse_args(words, argparse.Namespace(words=words))
            return run(name, lambda: body(options))

        return main

    return decorate


def one_of(option: str, value: str, choices: Sequence[str]) -> None:
    """Raise a usage error if this tool does not accept the value of the option."""
    if value not in choices:
        raise ArtifactError(f"{option}={value}", "is not supported by this tool", f"use {' or '.join(choices)}")


def require_one_rank(rank: str) -> None:
    """Raise a usage error if RANK= names another than the only rank of an artifact for one chip."""
    if rank not in ("", "0"):
        raise ArtifactError(f"RANK={rank}", "the artifact runs on one chip, so its only rank is 0", "leave out RANK=")


def taking_long(doing: str) -> AbstractContextManager[bool]:
    """Show the text `doing` on a terminal if the block takes more than two seconds."""
    return terminal.progress(lambda: doing)


def table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> list[str]:
    """Return the lines of a table. Text is aligned at the left, numbers at the right, and cells are never cut."""
    cells = [list(headings), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    columns = [[row[column] for row in rows] for column in range(len(headings))]
    numeric = [all(map(_is_number, column)) and any(cell.strip("-") for cell in column) for column in columns]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return lines


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "").replace("%", "").replace("-", "").isdigit() or cell in ("", "-")


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun: `1 task`, `2,000 tasks`, `2 dispatches`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


#: Seconds between two lines of progress where output is piped.
_EVERY_S = 10.0


def progress(
    items: Iterable[Item], doing: str, total: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Item]:
    """Yield the items. After two seconds, a line on the terminal counts the items that are done, and estimates the
    rest. Where output is piped, a line every ten seconds does.
    """
    done, began = 0, clock()
    printed_at = began

    def line() -> str:
        left = (clock() - began) / done * (total - done) if done else 0.0
        return f"{doing}: {done} of {total}" + (f", about {left:.0f} s left" if left >= 1 else "")

    with terminal.progress(line) as shown:
        for item in items:
            yield item
            done += 1
            if not shown and done < total and clock() - printed_at >= _EVERY_S:
                printed_at = clock()
                print(line(), file=sys.stderr, flush=True)
