"""docs/lookup/upstream.md: every command of ours that it names is one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pypto_build import cli
from pypto_build.editor.setup.__main__ import main as setup
from pypto_build.interop import wrap
from pypto_build.rules.options import parse_options
from pypto_build.rules.targets import TARGETS, check_taken

PAGE = Path(__file__).resolve().parents[1] / "docs" / "lookup" / "upstream.md"
ROWS = [line.split(" | ")[-1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
COMMANDS = sorted({text for row in ROWS for text in re.findall(r"`((?:scons|pypto-build) [^`]+)`", row)})


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 25


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_is_one(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, *words = shlex.split(command)
    if program == "pypto-build":
        if words[0] == "wrap":
            flags = words[1 : words.index("--")]
            assert wrap._parser().parse_args(flags)
        elif words[0] == "setup":
            monkeypatch.chdir(tmp_path)
            assert setup([word.replace("WRITE=1", "WRITE=0") for word in words[1:]]) == 0
        else:
            assert cli.parse(words).verb == words[0]
        return
    targets = [word for word in words if word[:1] != "-" and "=" not in word]
    arguments = dict(word.split("=", 1) for word in words if "=" in word)
    assert set(targets) <= TARGETS.keys() and len(targets) == (0 if "-c" in words else 1)
    parse_options(arguments)
    check_taken(arguments, targets)
