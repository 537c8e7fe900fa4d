"""Runs the commands of a page of docs/; `python -m tests.pages docs/do/x.md` shows what they print.

A fenced block with ``console`` holds commands and the lines that they print; ``…`` stands for lines that are left out.
``<!-- before: COMMAND -->`` is a command that readers do not see, such as the edit that plants a bug. Other blocks with
commands (``sh``) say with ``<!-- not run: REASON -->`` why they are not run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests import forked

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: Pages whose commands run: all that users follow step by step.
PAGES = tuple(sorted(path for part in ("learn", "do") for path in (DOCS / part).glob("*.md")))

_PART = re.compile(r"^```console\n(?P<shown>.*?)^```$|^<!-- before: (?P<hidden>.*?) -->$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"(?:^<!-- not run: (?P<reason>[^\n]*) -->\n)?^```sh\n", re.MULTILINE)
_MODULES = {"scons": "SCons", "pypto-build": "pypto_build.cli"}
_SHELL = re.compile(r"""[^\w\s=:./,+@-]""")
_TIME = re.compile(r"\d+\.\d+ ?s\b")


class Command(NamedTuple):
    """A command of a page, and the lines that the page shows below it; None for one that readers do not see."""

    text: str
    shown: list[str] | None


def commands(page: str) -> list[Command]:
    """Return the commands of a page in their order."""
    rows: list[Command] = []
    for part in _PART.finditer(page):
        if part["hidden"]:
            rows.append(Command(part["hidden"], None))
            continue
        for line in part["shown"].splitlines():
            if line.startswith("$ "):
                rows.append(Command(line[2:], []))
            else:
                shown = rows[-1].shown
                assert shown is not None, f"a block begins with output: {line}"
                shown.append(line)
    return rows


def not_run(page: str) -> list[str]:
    """Return the reason of each block of commands that is not run; an empty one where the page gives none."""
    return [block["reason"] or "" for block in _NOT_RUN.finditer(page)]


def workspace(root: Path, store: Path) -> dict[str, str]:
    """Make a workspace with the examples and `_jit_x`; return the environment of its commands."""
    shutil.copy(ROOT / "SConstruct", root)
    for name in ("site_scons", "pypto_build"):
        (root / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "examples", root / "examples", ignore=shutil.ignore_patterns("build", "__pycache__"))
    shutil.copytree(root / "examples/artifacts/_jit_vector_dag", root / "build_output/_jit_x")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    plain = {
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "SCONSFLAGS": "-Q",
        "COLUMNS": "100",
        "PYPTO_BUILD_SERVER": "0",
        "PYPTO_BUILD_STORE": str(store),
    }
    return {**os.environ, **plain}


def output_of(command: str, root: Path, environment: dict[str, str]) -> str:
    """Run a command in ``root`` and return what it prints. Ours are forked where they need no shell."""
    program, *rest = command.split()
    if program in _MODULES and not _SHELL.search(command):
        return forked.run(_MODULES[program], rest, root, environment).stdout
    words = ["bash", "-c", command]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(words, cwd=root, env=environment, text=True, check=False, **streams).stdout  # type: ignore[call-overload,no-any-return]


def difference(command: Command, output: str) -> str:
    """Return the first shown line that the output lacks, or the first that is not shown; empty if they agree."""
    if command.shown is None:
        return ""
    lines = [_TIME.sub("…s", line).rstrip() for line in output.splitlines()]
    at, may_skip = 0, False
    for text in command.shown:
        if text == "…":
            may_skip = True
            continue
        expected = _TIME.sub("…s", text).rstrip()
        rest = lines[at:] if may_skip else lines[at : at + 1]
        if expected not in rest:
            return f"the page has: {text}"
        at += rest.index(expected) + 1
        may_skip = False
    return "" if may_skip or at == len(lines) else f"the page lacks: {lines[at]}"


def run(page: Path, root: Path, store: Path) -> Iterator[tuple[Command, str]]:
    """Run the commands of a page in a new workspace at ``root``; yield each with what it printed.

    Recipes share ``store``. A tutorial shows what is compiled, so it has a store of its own.
    """
    environment = workspace(root, root / "store" if page.parent.name == "learn" else store)
    for command in commands(page.read_text(encoding="utf-8")):
        yield command, output_of(command.text, root, environment)


def main(pages: list[str]) -> int:
    """Print what the commands of the pages print, and where a page says something else."""
    different = 0
    for name in pages:
        with tempfile.TemporaryDirectory(prefix="pypto-build-page-") as directory:
            for command, output in run(Path(name), Path(directory), Path(tempfile.gettempdir(), "pypto-build-pages")):
                print(f"$ {command.text}\n{output}", end="")
                if message := difference(command, output):
                    different += 1
                    print(f"^^^ {name}: {message}")
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
