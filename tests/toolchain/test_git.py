"""Paths of git's data of a checkout: inside it, or elsewhere."""

from __future__ import annotations

from pathlib import Path

from pypto_build.toolchain.git import kept_at, revision_of
from tests.toolchain.test_pins import git


def test_a_checkout_and_a_work_tree(tmp_path: Path) -> None:
    checkout, tree = tmp_path / "checkout", tmp_path / "tree"
    checkout.mkdir()
    git(checkout, "init", "-q")
    (checkout / "file").write_text("text\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "a revision")
    git(checkout, "worktree", "add", "-q", "--detach", str(tree))
    assert kept_at(checkout) == [checkout / ".git"]
    assert kept_at(tree) == [tree / ".git", (checkout / ".git").resolve()]
    assert revision_of(tree) == revision_of(checkout) != ""


def test_no_checkout(tmp_path: Path) -> None:
    assert kept_at(tmp_path) == [tmp_path / ".git"]
    (tmp_path / ".git").write_bytes(b"\xff\n")
    assert kept_at(tmp_path) == [tmp_path / ".git"]
    assert revision_of(tmp_path) == ""
