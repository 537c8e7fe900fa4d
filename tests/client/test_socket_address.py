"""The socket of commands and the resident process, and whether they use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.client import socket_address


def test_a_place_that_others_may_enter_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sockets = tmp_path / "run"
    sockets.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(sockets))
    (sockets / "pypto-build").mkdir(mode=0o755)
    assert socket_address.directory() is None
    (sockets / "pypto-build").chmod(0o700)
    assert socket_address.directory() == f"{sockets}/pypto-build"


@pytest.mark.parametrize(
    "chosen, automation, expected",
    [("", "", True), ("0", "", False), ("1", "", True), ("", "true", False), ("1", "true", True)],
)
def test_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch, chosen: str, automation: str, expected: bool) -> None:
    monkeypatch.setenv("PYPTO_BUILD_SERVER", chosen)
    monkeypatch.setenv("CI", automation)
    assert socket_address.may_use_server() is expected
