"""``PACK=onfail``: a replay that does not pass leaves its pack, so that it can be repeated elsewhere."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pypto_build import terminal
from pypto_build.facts.run_options import RUN_OPTIONS
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.toolchain.python import own_tool

_SUFFIX = ".tar.zst"


def pack_words(
    artifact: Path,
    platform: str,
    results: Path,
    data: Path | None,
    golden: Path | None,
    options: Mapping[str, Any],
    chips: Sequence[str] = (),
) -> list[str]:
    """Return the command that packs a replay, without the archive's name; ``chips`` are the flags for one of several
    chips.
    """
    words = [
        *own_tool("pypto_build.diagnose.pack"),
        str(artifact),
        "--platform",
        platform,
        "--build-dir",
        str(results),
        *chips,
    ]
    words += ["--data", str(data)] if data else []
    words += ["--golden", str(golden)] if golden else []
    return words + [word for name, value in options.items() for word in RUN_OPTIONS[name].words(value)]


def pack_path(output: Path, artifact: str, configuration: str) -> Path:
    """Return the path for the pack of a replay: OUT/x.tar.zst, with its options in the name if it has any."""
    return output / (f"{artifact}{_SUFFIX}" if configuration == "default" else f"{artifact}.{configuration}{_SUFFIX}")


def write_pack(workspace: Workspace, words: Sequence[str], path: Path) -> str:
    """Pack a replay; return the path for users, or print why it cannot be packed and return an empty text."""
    run = subprocess.run(
        workspace.confine([*words, "--output", str(path)], None), capture_output=True, text=True, errors="replace",
        check=False, env=dict(workspace.environment), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if run.returncode:
        why = (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[-1]
        terminal.complain(f"PACK=onfail: not packed: {why}")
        return ""
    return workspace.short_of_top(path)
