"""``PACK=onfail``: a replay that does not pass leaves its pack, so that it can be repeated elsewhere."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto_build import terminal
from pypto_build.facts.run_options import RUN_OPTIONS
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.toolchain.python import own_tool

if TYPE_CHECKING:
    from pypto_build.rules.replay import Replay

_SUFFIX = ".tar.zst"


def pack_words(
    replay_of: Path, platform: str, results: Path, data: Path | None, options: Mapping[str, Any]
) -> list[str]:
    """The command that packs a replay, but for the name of the archive."""
    words = [*own_tool("pypto_build.diagnose.pack"), str(replay_of), "--platform", platform]
    words += ["--build-dir", str(results)]
    words += ["--data", str(data)] if data else []
    return words + [word for name, value in options.items() for word in RUN_OPTIONS[name].words(value)]


def pack_of(replay: Replay) -> Path:
    """Where the pack of a replay goes: OUT/x.tar.zst, with its options in the name if it has any."""
    way = replay.results.name
    name = replay.targets.artifact.name
    return replay.targets.output / (f"{name}{_SUFFIX}" if way == "default" else f"{name}.{way}{_SUFFIX}")


def pack_failing(workspace: Workspace, replay: Replay) -> str:
    """Pack a replay that has failed, if that was asked for; the path for people, empty where there is none."""
    if workspace.options["PACK"] != "onfail" or not (replay.results / "verdict.json").is_file():
        return ""
    path = pack_of(replay)
    words = [*replay.packing, "--output", str(path)]
    run = subprocess.run(
        workspace.confine(words, None), capture_output=True, text=True, errors="replace", check=False,
        env=dict(workspace.environment), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if run.returncode:
        why = (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[-1]
        terminal.complain(f"PACK=onfail: {replay.targets.artifact.name} is not packed: {why}")
        return ""
    short = workspace.short_of_top(path)
    if not replay.of_a_test:
        terminal.say(f"[pack] {short}: elsewhere, pypto-build replay {path.name}")
    return short


def forget_pack(workspace: Workspace, replay: Replay) -> None:
    """Remove what an earlier failure left, now that the replay passes."""
    if workspace.options["PACK"] == "onfail":
        pack_of(replay).unlink(missing_ok=True)
