"""docs/tutorial.md: its commands, one after the other, print what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
_TIME = re.compile(r"\(\d+\.\d+s\)")


def transcripts() -> list[tuple[str, list[str]]]:
    """The commands, and the lines that each is said to print."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def assert_printed(said: list[str], output: str, command: str) -> None:
    """All lines that are said are there in this order; where nothing is left out, they follow each other."""
    lines = [_TIME.sub("(…s)", line) for line in output.splitlines()]
    at, may_skip = 0, False
    for text in said:
        if text == "…":
            may_skip = True
            continue
        wanted = _TIME.sub("(…s)", text)
        rest = lines[at:] if may_skip else lines[at : at + 1]
        assert wanted in rest, f"$ {command}: expected {wanted!r} in\n{output}"
        at += rest.index(wanted) + 1
        may_skip = False
    assert may_skip or at == len(lines), f"$ {command}: more than the page says:\n{output}"


def test_what_the_page_says_is_what_happens(tmp_path: Path, runtime: Path) -> None:
    pytest.importorskip("torch")
    shutil.copy(ROOT / "SConstruct", tmp_path)
    (tmp_path / "site_scons").symlink_to(ROOT / "site_scons")
    (tmp_path / "pypto_build").symlink_to(ROOT / "pypto_build")
    example = "examples/artifacts/_jit_vector_dag"
    shutil.copytree(ROOT / example, tmp_path / example)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "SCONSFLAGS": "-Q", "PYPTO_BUILD_STORE": str(tmp_path / "store")}
    for command, said in transcripts():
        run = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert_printed(said, run.stdout, command)


def test_pictures_are_there() -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text) + re.findall(r'src(?:set)?="([^"]+)"', text):
            assert (page.parent / name).is_file(), f"{page.name}: {name}"
