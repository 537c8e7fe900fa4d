"""The links in OUT that show the results below it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto_build.replay.results import NAMES, hide, show


def write(directory: Path, *names: str) -> Path:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(str(directory), encoding="utf-8")
    return directory


def shown(out: Path) -> dict[str, str]:
    """Return the link targets of the names in OUT; empty for OUT's own files and directories."""
    return {
        name: os.readlink(out / name) if (out / name).is_symlink() else "" for name in NAMES if (out / name).exists()
    }


def test_the_last_one_is_shown(tmp_path: Path) -> None:
    one = write(tmp_path / "replays/one", "verdict.json", "actual/y.pt", "dfx_outputs/deps.json")
    two = write(tmp_path / "replays/two", "verdict.json", "actual/y.pt")
    show(one)
    show(two)
    assert shown(tmp_path) == {"verdict.json": "replays/latest/verdict.json", "actual": "replays/latest/actual"}
    assert (tmp_path / "actual/y.pt").read_text(encoding="utf-8") == str(two)
    show(one)
    assert (tmp_path / "dfx_outputs/deps.json").read_text(encoding="utf-8") == str(one)
    assert sorted(os.listdir(tmp_path)) == ["actual", "dfx_outputs", "replays", "verdict.json"]


def test_what_a_run_by_hand_left_gives_way(tmp_path: Path) -> None:
    write(tmp_path, "verdict.json", "actual/y.pt", "dfx_outputs/deps.json", "notes.md")
    show(write(tmp_path / "replays/one", "verdict.json", "actual/z.pt"))
    assert shown(tmp_path) == {"verdict.json": "replays/latest/verdict.json", "actual": "replays/latest/actual"}
    assert os.listdir(tmp_path / "actual") == ["z.pt"]
    assert (tmp_path / "notes.md").exists()


def test_only_links_are_hidden(tmp_path: Path) -> None:
    show(write(tmp_path / "replays/one", "verdict.json", "actual/y.pt"))
    (tmp_path / "verdict.json").unlink()
    write(tmp_path, "verdict.json")
    hide(tmp_path)
    assert shown(tmp_path) == {"verdict.json": ""}
    assert (tmp_path / "replays/one/actual/y.pt").exists()


def test_a_link_that_another_run_takes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "verdict.json").symlink_to("nowhere")

    def is_symlink(path: Path) -> bool:
        is_link = os.path.islink(path)
        path.unlink(missing_ok=True)
        return is_link

    monkeypatch.setattr(Path, "is_symlink", is_symlink)
    hide(tmp_path)
    assert not os.path.lexists(tmp_path / "verdict.json")
