"""Inputs and goldens made by a script, and modules beside it that are found without listing its directory."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from pypto_build.artifact.beside import modules_beside
from pypto_build.artifact.pt import read_pt
from pypto_build.compiler import data

_WRITE = """import struct, sys
from pathlib import Path
from pypto_build.artifact.pt import write_pt
output, seed, *more = sys.argv[2], float(sys.argv[4]), *sys.argv[5:]
write_pt(Path(output) / "in" / "x.pt", "float32", (1,), struct.pack("f", seed + len(more)))
"""


@pytest.fixture(autouse=True)
def _own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))


def test_a_script_gets_directory_seed_and_more(tmp_path: Path) -> None:
    script = tmp_path / "make.py"
    script.write_text(_WRITE)
    stale = tmp_path / "d" / "in" / "stale.pt"
    stale.parent.mkdir(parents=True)
    stale.touch()
    words = ["--script", str(script), "--output", str(tmp_path / "d"), "--seed", "3", "--", "a", "b"]
    assert data.main(words) == 0
    assert bytes(read_pt(tmp_path / "d" / "in" / "x.pt").data) == b"\x00\x00\xa0\x40"  # 5.0
    assert not stale.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise SystemExit(3)", "ended with status 3"),
        ("raise SystemExit(0)", "wrote no .pt file into {0}/in or {0}/out"),
        ("\nopen('/nowhere/x')", "line 2: FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/x'"),
        ("import nothing_of_this_name", "line 1: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        (None, "no such file"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    script, output = tmp_path / "make.py", tmp_path / "d"
    if text is not None:
        script.write_text(text)
    assert data.main(["--script", str(script), "--output", str(output)]) == 4
    assert capsys.readouterr().err == f"error: {script}: {message.format(output)}\n"


def test_modules_beside_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module, a package, and a directory without ``__init__.py``; nobody lists the directory, or finds them later."""
    names = ("beside_module", "beside_package", "beside_space")
    (tmp_path / "beside_module.py").write_text("value = 1\n")
    (tmp_path / "beside_package").mkdir()
    (tmp_path / "beside_package" / "__init__.py").write_text("from .inner import value\n")
    (tmp_path / "beside_package" / "inner.py").write_text("value = 2\n")
    (tmp_path / "beside_space").mkdir()
    (tmp_path / "beside_space" / "inner.py").write_text("value = 3\n")
    listed: list[str] = []
    own = os.listdir

    def listdir(path: str = ".") -> list[str]:
        listed.append(path)
        return own(path)

    monkeypatch.setattr(os, "listdir", listdir)
    try:
        with modules_beside(tmp_path / "script.py"):
            modules = [importlib.import_module(name) for name in (*names[:2], "beside_space.inner")]
        assert [module.value for module in modules] == [1, 2, 3]
        assert str(tmp_path) not in listed
        del sys.modules["beside_module"]
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("beside_module")
    finally:
        for name in [name for name in sys.modules if name.startswith(names)]:
            del sys.modules[name]
