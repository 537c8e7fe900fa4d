"""Runs git on directories of this machine, without the repository variables of the user's environment (``GIT_*``)."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from pypto_build.artifact.files import read_bytes
from pypto_build.toolchain import ToolchainError


def run_git(*words: str) -> subprocess.CompletedProcess[str]:
    """Run git without prompts and in English. Raises `ToolchainError` if git is not installed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(["git", *words], capture_output=True, text=True, env=environment, check=False)
    except FileNotFoundError:
        raise ToolchainError("git: not found on PATH; install it to use revisions") from None


def find_commit(*arguments: str, revision: str) -> str:
    """Return the full name of the commit ``revision`` in the repository that git's flags ``arguments`` select; empty
    for none.
    """
    name = f"{revision}^{{commit}}"
    return run_git(*arguments, "rev-parse", "--verify", "--quiet", "--end-of-options", name).stdout.strip()


def revision_of(path: Path) -> str:
    """Return the commit of a checkout, with a + if files differ from it; empty for any other directory."""
    return _head(path) + ("+" if changed_files(path) else "")


def changed_files(path: Path) -> list[str]:
    """Return the files of a checkout that differ from its commit; empty for any other directory."""
    if not _head(path):
        return []
    return [line[3:] for line in run_git("-C", str(path), "status", "--porcelain", "-uno").stdout.splitlines()]


def kept_at(path: Path) -> list[Path]:
    """Return the paths at which git keeps the data of a checkout: its ``.git``, and the repository that a ``.git``
    file names.
    """
    entry = path / ".git"
    paths = [entry]
    with suppress(OSError, ValueError):
        text = read_bytes(entry).decode()
        if text.startswith("gitdir: "):  # that of a work tree lies in `worktrees` of its repository
            paths.append(Path(os.path.normpath(path / text.removeprefix("gitdir: ").strip())).parents[1])
    return paths


def _head(path: Path) -> str:
    """Return the current commit of a checkout; empty for any other directory, even one inside a checkout."""
    top, _, commit = run_git("-C", str(path), "rev-parse", "--show-toplevel", "HEAD").stdout.partition("\n")
    return commit.strip() if commit and Path(top).resolve() == path.resolve() else ""


def reason(run: subprocess.CompletedProcess[str]) -> str:
    """Return git's error message."""
    lines = [line.removeprefix("fatal: ").removeprefix("error: ") for line in run.stderr.splitlines() if line.strip()]
    return lines[0] if lines else "git gave no reason"
