"""Reports each case of scene tests, to the user and to the process that started the build."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pypto_build import terminal
from pypto_build.artifact.scenes import OUTCOMES_VARIABLE, CaseOutcome
from pypto_build.replay.verdict import read_verdict
from pypto_build.rules.machinery.scons_types import Environment
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.replay import Replay, Replays

_NONE_RUNS = 2
_COUNTED = ("passed", "failed", "skipped", "not built")


@dataclass(frozen=True)
class CaseRefusal:
    """A case (FILE::CLASS::CASE), or a whole file, that does not run: ``status`` is 0 for one that is skipped."""

    origin: str
    reason: str
    status: int = 0

    @property
    def label(self) -> str:
        """CLASS::CASE, or the name of the file."""
        return self.origin.partition("::")[2] or Path(self.origin).name


def tell_outcomes(env: Environment, refused: Sequence[CaseRefusal]) -> None:
    """Report the outcome of each case as a line as soon as it is known, if the parent process requests it."""
    file = os.environ.get(OUTCOMES_VARIABLE)
    if file is None:
        return
    replays: Replays = env["PYPTO_REPLAYS"]
    reported = set[Path]()

    def tell(*outcomes: CaseOutcome) -> None:
        with open(file, "ab") as stream:
            stream.write(b"".join(msgspec.json.encode(outcome) + b"\n" for outcome in outcomes))

    def tell_replay(replay: Replay) -> None:
        if replay.origin and replay.results not in reported:
            reported.add(replay.results)
            why = "" if replay.reached else _why_not_built(workspace_of(env), replay)
            verdict = str(replay.results / "verdict.json")
            tell(CaseOutcome(replay.origin, replay.reached, verdict, why, "".join(replay.output)))

    def tell_rest() -> None:
        for replay in replays.by_results.values():
            tell_replay(replay)

    tell(*(CaseOutcome(one.origin, bool(one.status), reason=one.reason) for one in refused))
    replays.listeners.append(tell_replay)
    workspace_of(env).at_end.append(tell_rest)


def tell_cases(env: Environment, refused: Sequence[CaseRefusal]) -> None:
    """If there are several cases, print each that fails when it has ended, and at the end how many passed."""
    replays: Replays = env["PYPTO_REPLAYS"]
    counts = dict.fromkeys(_COUNTED, 0)
    counts["skipped"] = sum(not one.status for one in refused)
    counts["failed"] = len(refused) - counts["skipped"]

    def tell(replay: Replay) -> None:
        if not replay.reached:
            return  # its build has said why
        verdict = read_verdict(replay.results / "verdict.json")
        good = verdict.status == "pass" or (replay.unchecked and verdict.status == "unchecked")
        counts["passed" if good else "failed"] += 1
        if not good:
            terminal.say(f"[scene] FAIL {replay.origin.partition('::')[2]}")
            terminal.pass_on("".join(replay.output), error=False, ours=True)

    def tell_counts() -> None:
        counts["not built"] = sum(not replay.reached for replay in replays.by_results.values() if replay.origin)
        terminal.say("[scene] " + ", ".join(f"{count} {word}" for word, count in counts.items() if count))

    replays.listeners.append(tell)
    workspace_of(env).at_end.append(tell_counts)


def _why_not_built(workspace: Workspace, replay: Replay) -> str:
    """Return the output of the first command that failed for a replay, or for a part that all replays share."""
    failed = workspace.progress.failed
    own = [message for directory, message in failed if directory == replay.targets.output]
    return terminal.plain((own or [message for _, message in failed] or [""])[0])


def say_refused(refused: Sequence[CaseRefusal], runs: bool) -> int:
    """Print the cases that do not run, with reasons.

    Return the status of the first that should have run. ``runs`` says whether any case runs; if all are skipped, the
    status is that of wrong usage.
    """
    for one in refused:
        if one.status:
            terminal.complain(f"[scene] FAIL {one.label}: {one.reason}")
        else:
            terminal.say(f"[scene] SKIP {one.label}: {one.reason}")
    if refused and not runs and not any(one.status for one in refused):
        terminal.complain(f"[scene] no case runs: {len(refused)} skipped, nothing passed")
        return _NONE_RUNS
    return next((one.status for one in refused if one.status), 0)
