"""State of one process that runs SCons, shared by all environments of its SConstruct and closed at the end."""

from __future__ import annotations

import atexit
import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import SCons.Node.Alias
import SCons.Script
from SCons.Script import COMMAND_LINE_TARGETS, Exit, GetBuildFailures, GetOption

from pypto_build import terminal
from pypto_build.artifact import ArtifactError
from pypto_build.rules.machinery.attributes import RuleError
from pypto_build.rules.machinery.named_targets import tell_named
from pypto_build.rules.machinery.verdicts import Verdicts
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.options import OptionError, Options
from pypto_build.rules.targets import OF_AN_ARTIFACT, TARGETS
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.forks import outlive_readers
from pypto_build.trace import span

if TYPE_CHECKING:
    from pypto_build.rules.machinery.profile import Profile

_USER_ERRORS = (ArtifactError, OptionError, RuleError, ToolchainError)


#: Is given what looks ahead, in a process that stays, at what its next fork will look at.
AtCall = Callable[[Callable[[], None]], None]


class Invocation:
    """Owns the workspaces of this process; at the end it reports the outcome to waiting processes."""

    def __init__(self) -> None:
        self.verdicts = Verdicts(OF_AN_ARTIFACT)
        self.construction: dict[str, Any] = {}  # variables that the tool gives each environment
        self.declared = False  # whether the targets are
        self._workspaces: list[Workspace] = []
        self._end_round: Callable[[Sequence[Workspace]], None] | None = None
        self._profile: Profile | None = None
        self._at_call: AtCall | None = None
        self._end_job: Callable[[Sequence[Workspace], Verdicts], None] | None = None

    def watch(self, precheck: Callable[[], None]) -> None:
        """With WATCH=1, continue in a process for each round. Later environments of an SConstruct are already in
        such a process.
        """
        from pypto_build.rules.machinery.watch import each_round

        self._end_round = self._end_round or each_round(precheck)

    def call_first(self, at_call: AtCall | None) -> None:
        """Set the function that is called before a plain replay reads any input; it may continue in another process."""
        self._at_call = at_call

    def stand(self, precheck: Callable[[], None]) -> None:
        """Call the function of `call_first` once; later environments of the same SConstruct skip it."""
        at_call, self._at_call = self._at_call, None
        if at_call:
            at_call(precheck)

    def profile(self, options: Options) -> None:
        """With PROFILE=1, print a table of the run's time at the very end."""
        from pypto_build.rules.machinery.profile import Profile

        if self._profile is None:
            top = Path(SCons.Script.Dir("#").abspath)
            self._profile = Profile(top / options["BUILD_DIR"])

    def become_job(self, end: Callable[[Sequence[Workspace], Verdicts], None]) -> None:
        """Turn this process into one of many jobs; it ends by calling ``end``."""
        self._end_job = end
        atexit.register(self.finish)

    def open(self, workspace: Workspace) -> None:
        """Register ``workspace`` to be finished when this process ends."""
        if not self._workspaces:
            atexit.register(self.finish)
            outlive_readers()
            terminal.share_streams()
        self._workspaces.append(workspace)

    def finish(self) -> None:
        """Record, save and report the outcome of this run, once, when SCons has ended."""
        atexit.unregister(self.finish)
        for workspace in self._workspaces:
            for step in workspace.at_end:
                step()
        self.verdicts.record_failures([text for each in self._workspaces for text in each.progress.failures])
        self._suggest()
        self._tell_named()
        _explain_unknown_targets()
        self._save()
        if self._end_round:
            self._end_round(self._workspaces)
        if self._profile:
            self._profile.report()
        if self._end_job:
            self._end_job(self._workspaces, self.verdicts)

    def _suggest(self) -> None:
        """Print the last line of a replay that did not pass: the suggested next command."""
        commands = [command for each in self._workspaces for command in each.progress.unexplained]
        if commands:
            more = f"  (and {len(commands) - 1} more)" if len(commands) > 1 else ""
            terminal.say(f"[RUN] why: {commands[0]}{more}")

    def _tell_named(self) -> None:
        """Print a line for each named target without one; tests print their own."""
        for workspace in self._workspaces if self.construction else ():
            replays = self.construction["PYPTO_REPLAYS"]
            speaking = {*TARGETS.keys() - {"compile"}, *replays.tags, *replays.suites}
            tell_named(workspace.progress, speaking)

    def _save(self) -> None:
        with span("save what is proven"):
            for workspace in self._workspaces if not GetOption("clean") else ():
                workspace.save()

    @contextmanager
    def user_errors(self) -> Iterator[None]:
        """Turn an error of the user's into its one line and exit status 2."""
        try:
            yield
        except (*_USER_ERRORS, OSError) as error:
            if isinstance(error, OSError):  # a full disk, a place that is read-only
                error = ArtifactError(error.filename or "", error.strerror or str(error))
            terminal.complain(f"scons: *** {error}")
            self.verdicts.record_error(error)
            Exit(2)


def _explain_unknown_targets() -> None:
    """Explain a mistyped target, which SCons reports as a file that it cannot make."""
    for failure in GetBuildFailures():
        name = str(failure.node)
        if str(failure.errstr).startswith("Do not know how to make") and name in map(str, COMMAND_LINE_TARGETS):
            near = difflib.get_close_matches(name, {*TARGETS, *SCons.Node.Alias.default_ans}, n=1)
            meant = f"did you mean {near[0]}?" if near else "'scons' alone lists them"
            meant = "no rule here declares one" if name in TARGETS else meant
            terminal.complain(f"scons: there is no target {name}; {meant}")
