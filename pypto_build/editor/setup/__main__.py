"""`pypto-build setup [PART ...] [WRITE=1]`: files for editors, shells and CI, merged into what is there.

Without WRITE=1 it says what it would write. Nothing that a user wrote is overwritten. Files in JSON and .editorconfig
get missing entries and keep their comments. A file that is not ours is left alone, with a line on what to do. Without a
PART: the workspace's files, and completion for the shell in $SHELL.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pypto_build.artifact.atomic import write_bytes
from pypto_build.editor.setup.completion import script
from pypto_build.editor.setup.plan import Step
from pypto_build.editor.setup.shells import SHELL_PARTS
from pypto_build.editor.setup.workspace import PARTS

_ALL = {**SHELL_PARTS, **PARTS}
_ASSIGNED = re.compile(r"([A-Z][A-Z_]*)=(.*)\Z")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser(
        prog="pypto-build setup",
        description=(__doc__ or "").split("\n\n", 1)[1],
        epilog="parts: " + "; ".join(f"{name}: {doc}" for name, (_, doc) in _ALL.items()),
    )
    options.add_argument("parts", nargs="*", metavar="PART")
    options.add_argument("--write", action="store_true", help="write it (WRITE=1)")
    options.add_argument("--dry-run", action="store_true", help="only say what would be written, which is the default")
    options.add_argument("--print", action="store_true", help="print the completion of one shell")
    options.add_argument("--directory", type=Path, default=Path(), metavar="DIR", help="the workspace (here)")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, or 2 for wrong usage and for files that cannot be written."""
    options = parser()
    arguments = options.parse_args(argv)
    parts = []
    for word in arguments.parts:
        assigned = _ASSIGNED.match(word)
        if assigned and assigned[1] == "WRITE" and assigned[2] in ("0", "1", ""):
            arguments.write = assigned[2] == "1"
        elif word in _ALL:
            parts.append(word)
        else:
            return _wrong(f"{word}: no such part; there are {', '.join(_ALL)}")
    if arguments.print:
        if len(parts) != 1 or parts[0] not in SHELL_PARTS:
            return _wrong(f"--print: name one of {', '.join(SHELL_PARTS)}")
        print(script(parts[0]), end="")
        return 0
    if arguments.write and arguments.dry_run:
        return _wrong("--dry-run and WRITE=1: say one of them")
    if not arguments.directory.is_dir():
        return _wrong(f"{arguments.directory}: no such directory")
    shell = Path(os.environ.get("SHELL", "")).name
    parts = parts or [*([shell] if shell in SHELL_PARTS else []), *PARTS]
    try:
        steps = [step for part in parts for step in _ALL[part][0](arguments.directory)]
        perform(steps, arguments.write)
    except OSError as error:
        return _wrong(f"{error.filename}: {error.strerror or error}")
    if not arguments.write and any(step.text is not None for step in steps):
        print("nothing was written; WRITE=1 writes it")
    return 0


def perform(steps: Iterable[Step], write: bool) -> None:
    """Print what becomes of each file, and write it if ``write`` is set."""
    for step in steps:
        if write and step.text is not None:
            step.path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(step.path, step.text.encode())
        print(f"{step.path}: {step.what}")
        if step.todo:
            print(f"    do: {step.todo}")


def _wrong(message: str) -> int:
    print(f"pypto-build setup: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
