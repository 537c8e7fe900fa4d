"""Steps of a build: SCons orders and shows them, their output directory decides whether they run.

SCons builds every node declared here always. Its action asks the place, which keeps proven outputs, restores those in
the store, and runs the command for the rest. SCons keeps no signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from SCons.Action import Action as SConsAction
from SCons.Script import GetOption

from pypto_build import terminal
from pypto_build.proof import Action, Outcome, OutputDir
from pypto_build.proof.action import Helper
from pypto_build.proof.output_dir import Forks, Spawn
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.machinery.actions import run_captured
from pypto_build.rules.machinery.inputs import MADE_BY_US
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of

#: The fault of a directory at the path of an output.
IS_DIRECTORY = "this is a directory, but the build has to write a file with this name"


class Refused(Exception):
    """Preparing a command failed, and the error is already printed; ``status`` is the exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Step:
    """One command of a build: its action, and its line of output.

    ``helpers`` is called just before the command runs, and returns files that make it faster. A step that is done
    ``repeated`` runs even if it is proven. A step that is not ``recorded`` leaves no result. ``otherwise`` is the
    reason if no input differs.

    The line of a step is a detail, unless the step is ``shown`` or fails; ``lead`` is called with the reason before.
    """

    output_dir: OutputDir
    action: Action
    label: str
    subject: str
    spawn: Spawn = run_captured
    otherwise: str = "it was missing or had failed"
    helpers: Callable[[], tuple[Helper, ...]] | None = None
    restored: str = ""  # what is announced when it came from the store; empty: nothing
    repeated: bool = False
    stands: Callable[[], bool] = lambda: True  # whether a result that is proven is one that this run may show
    recorded: bool = True
    in_common: bool = False  # all workspaces of a user share the place: one run at a time works there
    shown: bool = False
    hushed: bool = False  # what it says is a detail too, unless it fails: headers of others warn at every use
    lead: Callable[[str], None] | None = None
    forks: Forks | None = None  # what ``spawn`` may fork the command from
    writes_to: Path | None = None  # what a sandbox has to let it write to, if that is not OUT

    @property
    def reason(self) -> str:
        """Return why the step runs."""
        return self.output_dir.reason(self.action, self.otherwise)

    def line(self, reason: str = "") -> str:
        """Return the line that is printed when it runs."""
        return f"{self.label} {self.subject}  ({reason or self.reason})"

    @property
    def proven(self) -> bool:
        """Return True if the step is up to date."""
        return not self.repeated and self.output_dir.proven(self.action) is not None and self.stands()


def all_proven(steps: Sequence[Step], repeated: bool = False) -> list[bool]:
    """For each step of one output directory, return True if it is up to date. ``repeated`` is True if the caller will
    ask for the same steps again.
    """
    if not steps:
        return []
    proofs = steps[0].output_dir.all_proven([step.action for step in steps], repeated)
    return [proven and not step.repeated and step.stands() for step, proven in zip(steps, proofs, strict=True)]


def declare_step(
    env: Environment, step: Step, sources: Nodes, outputs: Sequence[str] | None = None, **more: object
) -> Nodes:
    """Return the nodes of a step's outputs, which depend on ``sources`` at least; ``more`` is for their builder."""
    names = step.action.outputs if outputs is None else outputs
    targets = [escape(str(step.output_dir.path(name))) for name in names]
    nodes = env.Command(targets, list(sources), SConsAction(_perform, announce), PYPTO_STEP=step, **more)
    return made_by_us(env, nodes)


def made_by_us(env: Environment, nodes: Nodes) -> Nodes:
    """Return nodes that SCons always runs and never removes, since their action decides. SCons reads none of their
    files.
    """
    env.Precious(nodes)
    for node in nodes:
        node.attributes.keep_targetinfo = True
        setattr(node.attributes, MADE_BY_US, True)
    return env.AlwaysBuild(nodes)


def announce(target: Nodes, source: Nodes, env: Environment) -> str:
    """Return the line that SCons prints before a step; it is empty except with -n, since the step decides whether it
    runs.
    """
    step: Step = env["PYPTO_STEP"]
    return step.line() if GetOption("no_exec") and not step.proven else ""


def _perform(target: Nodes, source: Nodes, env: Environment) -> int:
    return perform(workspace_of(env), env["PYPTO_STEP"]).status


def perform(workspace: Workspace, step: Step, speculative: bool = False) -> Outcome:
    """Run a step unless it is up to date, and print its line. A failed ``speculative`` step is not reported, since
    it runs again.
    """
    if not step.in_common and step.proven:  # of what workspaces share, others may have recorded more meanwhile
        return Outcome("kept")
    progress = workspace.progress
    reasons: list[str] = []

    def begin() -> tuple[Helper, ...]:
        reasons.append(
            progress.failed_speculatively.pop((step.output_dir.directory, step.action.name), "") or step.reason
        )
        progress.begin(step.output_dir.directory, step.action, f"{step.label} {step.subject}", reasons[0])
        helpers = step.helpers() if step.helpers else ()
        if step.lead:
            step.lead(reasons[0])
        if workspace.verbose:
            terminal.say(step.line(reasons[0]), " ".join(step.action.command(helpers)))
        elif step.shown:
            terminal.say(step.line(reasons[0]))
        return helpers

    def spawn(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
        with workspace.turn():
            return step.spawn(workspace.confine(command, step.writes_to), environment)

    try:
        with step.output_dir.alone() if step.in_common else nullcontext():
            do = partial(step.output_dir.perform, step.action, spawn, begin, record=step.recorded, forks=step.forks)
            outcome = do(repeated=step.repeated, looked=not step.in_common)
            if outcome.how == "restored" and not step.stands():
                outcome = do(repeated=True)
            if step.in_common:
                step.output_dir.save()
    except Refused as refused:
        return Outcome("failed", refused.status)
    except IsADirectoryError as error:
        path = error.filename2 or error.filename
        terminal.complain(f"scons: {path}: {IS_DIRECTORY}; remove it")
        return Outcome("failed", EXIT_STATUS["usage_error"])
    finally:
        progress.end(step.output_dir.directory, step.action)
    if speculative and outcome.how == "failed":
        if reasons:
            progress.failed_speculatively[step.output_dir.directory, step.action.name] = reasons[0]
        return outcome
    if outcome.how == "restored":
        terminal.detail(*filter(None, [step.restored]))
    if outcome.how == "failed" and outcome.printed:
        line = step.line(reasons[0] if reasons else "")
        progress.failed.append((step.output_dir.directory, f"{line}\n{outcome.printed}"))
    if not (outcome.how == "failed" and progress.hold):
        output = outcome.printed if outcome.how == "failed" or workspace.verbose or not step.hushed else ""
        if output and reasons and not (workspace.verbose or step.shown):
            terminal.say(step.line(reasons[0]))
        terminal.pass_on(output)
    if outcome.how in ("built", "restored"):
        progress.note(step.output_dir.directory, step.action, outcome.how)
    if outcome.how == "failed":
        progress.failures.append(terminal.plain(outcome.printed))
    if outcome.note and outcome.note not in progress.notes:
        progress.notes.add(outcome.note)
        terminal.complain(f"{step.label.split()[0]} {step.subject}: {outcome.note}")
    return outcome
