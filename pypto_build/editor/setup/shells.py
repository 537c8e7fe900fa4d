"""Directories in which shells look for completions, and the files there."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from pypto_build.editor.setup.completion import script
from pypto_build.editor.setup.plan import Step, own_file


def _data() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


def _config() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def bash(top: Path) -> list[Step]:
    """bash-completion loads a file by the name of the command."""
    directory = _data() / "bash-completion" / "completions"
    return [_completion("bash", directory / name) for name in ("pypto-build", "scons")]


def zsh(top: Path) -> list[Step]:
    """zsh loads a function from `fpath`; one serves both commands."""
    directory = _data() / "zsh" / "site-functions"
    step = own_file(directory / "_pypto-build", script("zsh"), head="#compdef pypto-build scons\n")
    if step.text is None:
        return [step]
    line = f"fpath=({shlex.quote(str(directory))} $fpath)"
    return [Step(step.path, step.what, step.text, f"'{line}' has to stand in ~/.zshrc before compinit")]


def fish(top: Path) -> list[Step]:
    """fish loads a file by the name of the command."""
    directory = _config() / "fish" / "completions"
    return [_completion("fish", directory / f"{name}.fish") for name in ("pypto-build", "scons")]


def _completion(shell: str, path: Path) -> Step:
    other = f"to have ours too: pypto-build setup {shell} --print > FILE, and source it"
    return own_file(path, script(shell), otherwise=other)


#: Shells by name, and what each is for.
SHELL_PARTS = {
    "bash": (bash, "completion of scons and pypto-build"),
    "zsh": (zsh, "completion of scons and pypto-build"),
    "fish": (fish, "completion of scons and pypto-build"),
}
