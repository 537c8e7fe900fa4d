"""One replay of an artifact: the node of its verdict, the step that runs it, and the line for an up-to-date replay."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
from SCons.Action import Action as SConsAction
from SCons.Script import COMMAND_LINE_TARGETS, GetOption

from pypto_build import proof, terminal
from pypto_build.artifact import ArtifactError, Snapshot, snapshot
from pypto_build.artifact.below import directory_below
from pypto_build.artifact.last_pass import keep
from pypto_build.artifact.outputs import MARKER
from pypto_build.artifact.snapshot import REFERENCE, find_golden, is_reference
from pypto_build.facts.broken_rules import FILE_NAME, OPEN_NAME
from pypto_build.facts.options import OPTIONS
from pypto_build.facts.outcomes import Outcome
from pypto_build.facts.platforms import Platform
from pypto_build.facts.run_options import EMBEDDED, LOG_PATH, REGIONS, RULES_OFF, RUN_OPTIONS, TORCH
from pypto_build.proof import Action
from pypto_build.proof.output_dir import Spawn
from pypto_build.replay.results import NAMES, REPLAYS, show
from pypto_build.replay.verdict import EXIT_STATUS, ErrorInfo, Status, Verdict, read_verdict, rule_lines, write_verdict
from pypto_build.rules.artifact import ArtifactTargets, chip_words, tell_built
from pypto_build.rules.device_rules import note_broken_rules
from pypto_build.rules.machinery import prefork
from pypto_build.rules.machinery.actions import run_briefly, run_streaming, run_whole
from pypto_build.rules.machinery.configuration import Configuration, configuration, evict, note_use
from pypto_build.rules.machinery.deferred import Deferred
from pypto_build.rules.machinery.environment import program_environment
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.steps import IS_DIRECTORY, Step, announce, made_by_us, perform
from pypto_build.rules.machinery.verdicts import INTERRUPTED
from pypto_build.rules.machinery.workspace import Workspace, as_it_is, escape, workspace_of
from pypto_build.rules.outcomes import outcome_of, outcomes_of, wants_files
from pypto_build.rules.packs import pack_path, pack_words, write_pack
from pypto_build.rules.subject import Subject
from pypto_build.rules.targets import STATUS_VARIABLE, TARGETS
from pypto_build.rules.variants import VARIANTS
from pypto_build.toolchain import git
from pypto_build.toolchain.forked import ADDRESS, ForkedTools
from pypto_build.toolchain.python import own_tool, run_tool

#: The file of a replay's verdict, and the name of the node of a test's replay, which counts as done whatever it finds.
VERDICT, TESTED = "verdict.json", ".tested"
# Statuses of a replay that Ctrl-C ended.
_INTERRUPTED = (INTERRUPTED, -signal.SIGINT)
# A status above it is that of a process that a signal ended.
_BY_SIGNAL = 128
# Statuses of a replay that triage can explain.
_UNEXPLAINED = (EXIT_STATUS["mismatch"], EXIT_STATUS["runtime_error"], EXIT_STATUS["hang"])


def preload_verdicts() -> None:
    """Import the definition of verdicts, which takes two milliseconds, before processes are forked."""
    msgspec.json.Decoder(Verdict)


def finish_replays(target: Nodes, source: Nodes, env: Environment) -> int:
    """Show the up-to-date replays of ``source``; return the status of the first that did not pass."""
    return finish(env, replays_of(env, source))


def finish(env: Environment, replays: Sequence[Replay]) -> int:
    """Show the up-to-date replays; return the status of the first that did not pass."""
    workspace = workspace_of(env)
    _show_results(workspace, replays)
    for replay in replays:
        if not replay.ran:
            _show_cached(replay)
            if not replay.of_a_test:
                _note_outcome(workspace, replay)
    statuses = (read_verdict(replay.results / "verdict.json").exit_status for replay in replays)
    allowed = (status_of(workspace, status, replay) for status, replay in zip(statuses, replays, strict=True))
    return next(filter(None, allowed), 0)


def show_results(target: Nodes, source: Nodes, env: Environment) -> None:
    """Link OUT to the results of the replays in ``source``, including up-to-date ones."""
    _show_results(workspace_of(env), replays_of(env, source))


def _show_results(workspace: Workspace, replays: Sequence[Replay]) -> None:
    for replay in replays:
        if not replay.ran:
            _amend_verdict(replay, requested=workspace.options.requested or replay.targets.platform.name)
        show(replay.results)
        note_use(replay.results, replay.of_a_test)


def replays_of(env: Environment, nodes: Nodes) -> list[Replay]:
    """Return the replays whose verdicts are in ``nodes``."""
    replays: Replays = env["PYPTO_REPLAYS"]
    names = (VERDICT, TESTED)
    return [replays.by_results[Path(node.get_abspath()).parent] for node in nodes if node.name in names]


def declare_replay(
    env: Environment,
    targets: ArtifactTargets,
    data: str | Path | None = None,
    chosen: Mapping[str, Any] | None = None,
    comparators: Mapping[str, str] | None = None,
    golden: Path | None = None,
    tolerant: bool = False,
    alone: bool = True,
    of_a_test: bool = False,
    subject: Subject | None = None,
) -> Nodes:
    """Declare one replay and return its node, which depends on the binaries, the interface, the data and the options.

    ``chosen`` overrides options of the command line. A ``tolerant`` replay succeeds with any verdict, so that a tool
    can read it; after a bad verdict it runs again the next time. A replay that is not ``alone`` may run beside others,
    and its report is printed in one piece. Results ``of_a_test`` are kept. The ``subject`` decides how the replay is
    run and judged.
    """
    workspace = workspace_of(env)
    replays: Replays = env["PYPTO_REPLAYS"]
    subject = subject or Subject(targets.artifact)
    output: list[str] = []
    run = _run_of(workspace, targets, data, chosen, comparators or {}, golden, alone, of_a_test, subject, output)
    results, step = targets.output / REPLAYS / run.configuration.name, run.step
    if declared := replays.by_results.get(results):
        declared.of_a_test |= of_a_test
        return declared.nodes
    replay = Replay(
        targets,
        results,
        run.configuration,
        step,
        tolerant or of_a_test,
        of_a_test,
        output,
        subject.unchecked,
        subject.origin,
    )
    replay.checks_rules = _checks_rules(targets, run.options)
    replay.data_dir = run.data_dir
    replay.packing = pack_words(
        targets.artifact.root,
        targets.platform.name,
        results,
        run.data_dir,
        golden,
        run.options,
        chip_words(targets),
    )
    node = env.Command(
        escape(str(results / (TESTED if of_a_test else VERDICT))),
        [
            *targets.all,
            *(
                env.File(escape(str(path)))
                for path in (*_files(targets, run.data_files), *_files_of(comparators or {}))
            ),
        ],
        SConsAction(_replay, announce),
        PYPTO_REPLAY=replay,
        PYPTO_STEP=step,
    )
    replay.nodes = made_by_us(env, node)
    replays.by_results[results] = replay
    if _runs_by_itself(workspace, targets) and alone and not subject.judged:
        if not targets.parts:
            environment = step.output_dir.watched_environment(step.action)
            prefork.want(step.action.command(), environment, targets.artifact.root, targets.platform.name)
        if targets.is_stale:
            step.output_dir.prestart(step.action, prefork.start_waiting)
    return replay.nodes


def prestart_replay(env: Environment, subject: Subject, chosen: Mapping[str, Any], targets: ArtifactTargets) -> None:
    """Start the process of a replay that will most likely run, before its artifact has been checked.

    `declare_replay` uses this process if it needs the same command. Errors are reported later.
    """
    workspace = workspace_of(env)
    if _runs_by_itself(workspace, targets) and not subject.judged:
        with suppress(ArtifactError, OSError):
            step = _run_of(workspace, targets, subject.data, chosen, {}, None, True, False, subject, []).step
            step.output_dir.prestart(step.action, prefork.start_waiting)


@dataclass(frozen=True)
class _Run:
    """A run of a replay that can be declared."""

    configuration: Configuration
    step: Step
    data_dir: Path | None
    options: Mapping[str, Any]
    data_files: Snapshot


def _run_of(
    workspace: Workspace,
    targets: ArtifactTargets,
    data: str | Path | None,
    chosen: Mapping[str, Any] | None,
    comparators: Mapping[str, str],
    golden: Path | None,
    alone: bool,
    of_a_test: bool,
    subject: Subject,
    output: list[str],
) -> _Run:
    label = subject.origin.partition("::")[2]
    options, data, others = _settings(workspace, targets.platform, data, chosen, golden, subject.limits)
    data_dir = Path(os.path.abspath(workspace.top / data)) if data else None
    data_files = snapshot(targets.artifact, None if is_reference(data, workspace.top) else data_dir, golden)
    if is_reference(data, workspace.top):  # computed by the replay from the artifact's own data
        data_dir = Path(REFERENCE)
    elif data_dir:
        workspace.data_dirs.add(data_dir)
    named = data_dir.name if label and data_dir else str(data or "")
    config = configuration(targets.platform, options, named, targets.variant, _shown(workspace, comparators), others)
    step = _replay_step(
        workspace, targets, config, data_dir, golden, options, comparators, data_files, alone, of_a_test, output
    )
    verdict, limit_s = targets.output / step.action.tree / "verdict.json", _time_limit(workspace, subject)
    step = replace(
        step,
        action=_under(workspace, step.action, subject),
        subject=label or step.subject,
        stands=partial(_is_in_time, verdict, limit_s),
        otherwise=_rerun_reason(workspace, verdict, limit_s),
    )
    if subject.judges:
        step = replace(step, spawn=partial(_run_judged, step.spawn, subject.judges))
    return _Run(config, step, data_dir, options, data_files)


def results_of(
    workspace: Workspace,
    output: Path,
    platform: Platform,
    variant: str,
    data: str | Path | None,
    chosen: Mapping[str, Any],
    comparators: Mapping[str, str],
    golden: Path | None,
) -> Path:
    """Return the directory of results that `declare_replay` would give a replay of an artifact that does not exist
    yet.
    """
    options, data, others = _settings(workspace, platform, data, chosen, golden, {})
    rules = _shown(workspace, comparators)
    return output / REPLAYS / configuration(platform, options, str(data or ""), variant, rules, others).name


def _shown(workspace: Workspace, comparators: Mapping[str, str]) -> dict[str, str]:
    """Return the comparators as a configuration names them: files relative to the top."""
    files = set(map(str, _files_of(comparators)))
    return {name: workspace.short_of_top(Path(it)) if it in files else it for name, it in comparators.items()}


def _files_of(comparators: Mapping[str, str]) -> list[Path]:
    """Return the comparators that are Python files."""
    return [Path(comparator) for comparator in comparators.values() if comparator.endswith(".py")]


def _settings(
    workspace: Workspace,
    platform: Platform,
    data: str | Path | None,
    chosen: Mapping[str, Any] | None,
    golden: Path | None,
    limits: Mapping[str, str],
) -> tuple[dict[str, Any], str | Path | None, dict[str, str]]:
    """Return the options of a run, its data, and further settings that identify the replay."""
    options = _options(workspace, platform) | dict(chosen or {})
    rings = {name: value for name, value in os.environ.items() if name.startswith("PTO2_RING_")} | dict(limits)
    others = {"golden": workspace.short_of_top(golden), **rings} if golden else rings
    return options, data or workspace.options["DATA"] or None, others


def _runs_by_itself(workspace: Workspace, targets: ArtifactTargets) -> bool:
    """Return True if a replay may load its modules while its inputs are built; its output is then shown whole."""
    plain = workspace.confine is as_it_is and targets.embedded is not None and not workspace.of_batch
    return plain and not GetOption("no_exec") and _shown_by(workspace) is run_streaming


@dataclass
class Replay:
    """One replay: its program, the directory of its results, its options, and the step that runs it.

    It also notes whether it ran, how long that took, and the output of a run that is shown later.
    """

    targets: ArtifactTargets
    results: Path
    configuration: Configuration
    step: Step
    tolerant: bool
    of_a_test: bool
    output: list[str]
    unchecked: bool = False  # whether one without a golden passes
    origin: str = ""  # FILE::CLASS::CASE of a scene test
    checks_rules: bool = False  # whether kernels are held to the rules of the device
    ran: bool = False
    reached: bool = False  # whether its binaries were built
    seconds: float = 0.0
    nodes: Nodes = ()
    data_dir: Path | None = None  # in place of the artifact's own
    packing: Sequence[str] = ()  # what packs it
    pack: str = ""  # where its pack is, if it failed and that was asked for


@dataclass
class Test:
    """A declared test, with the declaration function that SCons calls later, and its replays."""

    name: str
    skipped: str = ""  # why it cannot run here
    judge: Callable[[], Outcome] | None = None  # of one that is no replay: says what came of it
    deferred: Deferred = field(init=False)
    replays: Sequence[Replay] = ()
    elsewhere: bool = False  # whether a farm does it

    @property
    def broken(self) -> str:
        """Return why the test cannot run."""
        return str(self.deferred.error or "").removeprefix(f"{self.name}: ")


@dataclass
class Suite:
    """Tests and other suites under one name; it records whether it is requested."""

    name: str
    tags: frozenset[str]
    named: bool
    tests: list[str] = field(default_factory=list)

    def __contains__(self, test: str) -> bool:
        return test in self.tests

    def add(self, env: Environment, test: str) -> None:
        """Add a test or a suite."""
        if test not in self.tests:
            self.tests.append(test)
            env.Alias(self.name, env.Alias(test))

    def add_tagged(self, env: Environment, test: str, tags: Collection[str]) -> None:
        """Add a test if it has one of the suite's tags."""
        if not self.tags.isdisjoint(tags):
            self.add(env, test)


class Replays:
    """The declarations of one environment: replays, tests and suites."""

    def __init__(self) -> None:
        self.by_results: dict[Path, Replay] = {}  # by the directories of results
        self.tags: dict[str, set[str]] = {}  # of every replay test, by its name
        self.tests: dict[str, Test] = {}  # those that may have to run, by their names
        self.suites: dict[str, Suite] = {}
        #: parts of tests that do not run here, with the status and the reason of each
        self.refused: dict[str, list[tuple[int, str]]] = {}
        self.listeners: list[Callable[[Replay], None]] = []  # told of each replay that has ended

    def named_suites(self) -> list[Suite]:
        """Return the requested suites."""
        return [suite for suite in self.suites.values() if suite.named]


def _replay_step(
    workspace: Workspace,
    targets: ArtifactTargets,
    config: Configuration,
    data_dir: Path | None,
    golden: Path | None,
    options: Mapping[str, Any],
    comparators: Mapping[str, str],
    data_files: Snapshot,
    alone: bool,
    of_a_test: bool,
    output: list[str],
) -> Step:
    """Return the step of the run. It has a single result: verdict, outputs and records together."""
    simpler = targets.embedded is None
    embedded = [Path(targets.embedded.get_abspath())] if targets.embedded else []
    names = (FILE_NAME, OPEN_NAME) if _is_checked(targets) else (FILE_NAME,)
    rules = [targets.output / name for name in names] if _checks_rules(targets, options) else []
    action = python_tool(
        workspace,
        _tool(targets),
        _argv(targets, workspace, config.name, data_dir, golden, options, comparators),
        name=f"{REPLAYS}/{config.name}",
        inputs=[
            *embedded,
            targets.interface,
            *targets.files,
            *targets.binary_paths,
            *_files(targets, data_files),
            *_files_of(comparators),
            *rules,
        ],
        tree=f"{REPLAYS}/{config.name}",
        leaves=f"{REPLAYS}/{config.name}/verdict.json",
        foreign=bool(targets.parts or _files_of(comparators)),
        good=(0, EXIT_STATUS["unchecked"]),
        settings={
            **({"simpler": workspace.simpler.identity} if simpler else {}),
            **(program_environment(workspace.environment) if _files_of(comparators) else {}),
        },
        toolkits=simpler,
        unkeyed=_unkeyed(workspace),
        private=(
            *(str(targets.output / name) for name in (REPLAYS, *NAMES, MARKER)),
            *(_repositories(workspace) if simpler else ()),
        ),
    )
    forks = workspace.forks if of_a_test else None
    run = forks.run if forks else run_tool
    outside = _outside(workspace)
    if not simpler and outside:
        action = replace(action, environment={**action.environment, **outside})
    return Step(
        workspace.output_dir(targets.output),
        action,
        "[replay] run",
        f"{targets.artifact.name} {config}".rstrip(),
        spawn=partial(_run_captured, workspace, output, run)
        if of_a_test
        else _shown_by(workspace)
        if alone
        else run_whole,
        forks=forks,
        repeated=workspace.options["FORCE"] or not targets.platform.simulated or bool(outside),
        recorded=targets.platform.simulated and REGIONS not in outside,
        lead=None if of_a_test else partial(tell_built, workspace, targets),
    )


def _shown_by(workspace: Workspace) -> Spawn:
    """Return the function that runs a replay. If triage explains a failure, it omits the mismatch numbers."""
    return run_briefly if "triage" in map(str, COMMAND_LINE_TARGETS) and not workspace.verbose else run_streaming


def _checks_rules(targets: ArtifactTargets, options: Mapping[str, Any]) -> bool:
    """Return True if kernels are checked against the rules of the device."""
    return targets.embedded is not None and options.get("RULES") != RULES_OFF


def _is_checked(targets: ArtifactTargets) -> bool:
    """Return whether the kernels record the operands of their instructions."""
    return bool(targets.variant) and VARIANTS[targets.variant].checked


def _tool(targets: ArtifactTargets) -> str:
    """Return the module that runs the replay."""
    if targets.embedded is None:
        return "pypto_build.interop.run"
    return "pypto_build.replay.chips" if targets.parts else "pypto_build.replay"


def _repositories(workspace: Workspace) -> list[str]:
    """Return git's directories for simpler and pto-isa. The run asks for their revisions, which are already among
    its settings.
    """
    tree = workspace.simpler.tree
    return [str(path) for checkout in (tree.root, tree.isa) for path in git.kept_at(checkout)]


def _run_captured(
    workspace: Workspace, output: list[str], run: Spawn, command: list[str], env: dict[str, str]
) -> tuple[int, str]:
    """Run a replay of a test; keep its report, which is shown with the other failures."""
    status, text = run(command, env)
    output[:] = [terminal.plain(text)]
    if workspace.verbose:
        terminal.pass_on(output[0], error=False, ours=True)
    return status, ""


def _unkeyed(workspace: Workspace) -> tuple[str, ...]:
    """Return the words of a replay that change only how its results are reported."""
    words = ["--requested", workspace.options.requested] if workspace.options.requested else []
    if workspace.watcher is None:
        words += ["--unproven", "what tools read cannot be watched here"]
    return (*words, *(["--verbose"] if workspace.verbose else []))


def _under(workspace: Workspace, action: Action, subject: Subject) -> Action:
    """Return the run with additional environment variables, and with a user's class as its judge."""
    limits, file = subject.limits, subject.origin.partition("::")[0]
    if subject.judged:
        end = len(own_tool(""))
        options = (*action.argv[end:], "--judge", subject.origin, "--by", action.argv[end - 1])
        argv = (*own_tool("pypto_build.interop.scene.run"), *options)
        action = replace(action, argv=argv, inputs=(*action.inputs, file), foreign=True)
    action = replace(action, environment={**action.environment, **limits}, settings={**action.settings, **limits})
    return replace(action, unkeyed=(*action.unkeyed, "--timeout", str(_time_limit(workspace, subject))))


def _time_limit(workspace: Workspace, subject: Subject) -> float:
    """Return the seconds that a round may take."""
    return float(workspace.options["TIMEOUT"] * subject.patience)


def _is_in_time(verdict: Path, limit_s: float) -> bool:
    """Return True if an earlier run would have ended within this limit."""
    try:
        return read_verdict(verdict).longest_s < limit_s
    except ArtifactError:  # it is missing, or was written by another version
        return False


def _run_judged(spawn: Spawn, judges: ForkedTools, command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run a replay whose outputs may be judged in a fork."""
    with suppress(OSError):
        environment = {**environment, ADDRESS: judges.address(environment)}
    return spawn(command, environment)


def _outside(workspace: Workspace) -> dict[str, str]:
    """Return the environment variables for paths and values outside of the run's inputs and results, such as a log."""
    names = (LOG_PATH, REGIONS) if workspace.options["LOG_LEVEL"] else (REGIONS,)
    return {name: workspace.environment[name] for name in names if workspace.environment.get(name)}


def _rerun_reason(workspace: Workspace, verdict: Path, limit_s: float) -> str:
    """Return why a replay runs again with unchanged inputs."""
    if workspace.options["FORCE"]:
        return "FORCE=1"
    outside = _outside(workspace)
    if outside:
        return f"{', '.join(outside)} is set" if REGIONS in outside else f"a log in {LOG_PATH} is asked for"
    if not verdict.exists():
        return "there is no verdict"
    limited = workspace.options["TIMEOUT"] != OPTIONS["TIMEOUT"].default and not _is_in_time(verdict, limit_s)
    return f"the last run took longer than {limit_s:g} s" if limited else "the last run did not pass"


def _replay(target: Nodes, source: Nodes, env: Environment) -> int:
    """Run the replay unless it is proven, and call its listeners; return its status."""
    replay: Replay = env["PYPTO_REPLAY"]
    try:
        status = _perform_replay(env, replay)
    except BrokenPipeError:
        raise
    except OSError as error:  # of a file of ours below OUT: the last verdict is about other files
        is_directory = isinstance(error, IsADirectoryError)
        what = IS_DIRECTORY if is_directory else error.strerror or str(error)
        path = error.filename2 or error.filename or replay.targets.output
        info = ErrorInfo("usage_error", f"{path}: {what}", hint="remove it" if is_directory else "")
        terminal.complain(f"scons: {info}")
        status = _end_with(workspace_of(env), replay, info)
    for listener in env["PYPTO_REPLAYS"].listeners:
        listener(env["PYPTO_REPLAY"])
    return status


def _perform_replay(env: Environment, replay: Replay) -> int:
    workspace = workspace_of(env)
    if status := replay.targets.ensure(workspace):
        return status
    if replay.checks_rules:
        note_broken_rules(replay.targets)
    with directory_below(replay.targets.output, f"{REPLAYS}/{replay.results.name}"):
        pass
    replays: Replays = env["PYPTO_REPLAYS"]
    evict(replay.results, replays.by_results.keys())
    verdict = replay.results / "verdict.json"
    before, begun, since = _stamp(verdict), time.time(), time.monotonic()
    outcome = perform(workspace, replay.step)
    replay.seconds = time.monotonic() - since
    replay.reached = True
    if not replay.of_a_test or workspace.verbose:
        tell_built(workspace, replay.targets)
    replay.ran = outcome.how in ("built", "failed")
    lost = outcome.how == "failed" and _stamp(verdict) in (before, None) and outcome.status not in _INTERRUPTED
    outcome = replace(outcome, status=_lost(workspace, replay, outcome)) if lost else outcome
    _pack(workspace, replay, outcome.status)
    if outcome.note and outcome.how == "failed":
        return EXIT_STATUS["build_error"]
    ended = replay.ran and not replay.tolerant
    if ended and outcome.status in _UNEXPLAINED:
        workspace.progress.unexplained.append(_triage_command(workspace, replay))
    if replay.ran and not replay.of_a_test:
        _note_outcome(workspace, replay)
    renewed = outcome.how in ("built", "restored") and not replay.tolerant
    if renewed and not outcome.status and not replay.configuration.pairs and not replay.targets.parts:
        keep(replay.targets.output, replay.targets.artifact, begun)
    # The verdict of one that did not run tells the rest.
    return status_of(workspace, outcome.status, replay) if ended else 0


def _stamp(verdict: Path) -> tuple[int, int] | None:
    """Return a value that differs between verdicts; None if there is no verdict."""
    try:
        status = verdict.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _lost(workspace: Workspace, replay: Replay, outcome: proof.Outcome) -> int:
    """Write the verdict of a run that ended before writing one; return its exit status."""
    if outcome.note:
        error = ErrorInfo("build_error", outcome.note)
    else:
        number = -outcome.status if outcome.status < 0 else outcome.status - _BY_SIGNAL
        how = f"signal {number}" if number > 0 else f"status {outcome.status}"
        text = f"the replay's process ended by {how} before it wrote a verdict"
        error = ErrorInfo("runtime_error", text, hint="run it again; the system may have ended it for its memory")
    if not outcome.note:
        terminal.complain(f"[RUN] FAIL: {error.kind}: {error}")
    return _end_with(workspace, replay, error)


def _end_with(workspace: Workspace, replay: Replay, error: ErrorInfo) -> int:
    """Write the verdict of a replay that ends with an error before its run has written one; return its exit status."""
    targets, status = replay.targets, cast("Status", error.kind)
    runtime = workspace.runtime(targets.platform)
    verdict = Verdict(status, targets.artifact.name, targets.platform.name, runtime, error=error)
    write_verdict(verdict, replay.results / "verdict.json")
    show(replay.results)
    return verdict.exit_status


def _pack(workspace: Workspace, replay: Replay, status: int) -> None:
    """Write a pack of a failed replay. A replay for a tool is not packed here, since the user packs it by that tool."""
    if replay.tolerant and not replay.of_a_test:
        return
    if workspace.options["PACK"] != "onfail":
        return
    path = pack_path(replay.targets.output, replay.targets.artifact.name, replay.configuration.name)
    if not status_of(workspace, status, replay):
        path.unlink(missing_ok=True)  # of an earlier failure
    elif (replay.results / "verdict.json").is_file():
        replay.pack = write_pack(workspace, replay.packing, path)
        if replay.pack and replay.configuration.comparators:
            comparators = ", ".join(replay.configuration.comparators)
            terminal.say(f"[pack] {replay.pack}: compares within tolerances, without {comparators}")
        if replay.pack and not replay.of_a_test:
            terminal.say(f"[pack] {replay.pack}: elsewhere, pypto-build replay {shlex.quote(path.name)}")


def _triage_command(workspace: Workspace, replay: Replay, test: str = "") -> str:
    """Return the command that finds why a replay did not pass; a ``test`` has data, goldens and tolerances of its
    own.
    """
    pairs = [pair for pair in replay.configuration.pairs if pair.partition("=")[0] in TARGETS["triage"].options]
    requested = workspace.options.requested or replay.targets.platform.name
    platform = [f"PLATFORM={requested}"] if requested != OPTIONS["PLATFORM"].default else []
    named, name = "JIT", workspace.options["JIT"] or os.path.relpath(replay.targets.artifact.root, workspace.top)
    if replay.origin:
        named, name = "SCENE", os.path.relpath(replay.origin, workspace.top)
        pairs = [pair for pair in pairs if not pair.startswith("DATA=")]
    elif test:
        named, name = "TEST", test
        pairs = [pair for pair in pairs if workspace.options[key := pair.partition("=")[0]] != OPTIONS[key].default]
        platform = platform if workspace.options["PLATFORM"] != OPTIONS["PLATFORM"].default else []
    direct = STATUS_VARIABLE in os.environ and named != "TEST"
    by_hand = ["pypto-build", "triage", name] if direct else ["scons", "triage", f"{named}={name}"]
    return shlex.join([*by_hand, *platform, *pairs])


def _note_outcome(workspace: Workspace, replay: Replay) -> None:
    """Record the outcome of a replay for the requested files. Tools that read a replay write files of their own."""
    if wants_files(workspace) and not replay.tolerant and (replay.results / "verdict.json").is_file():
        name = f"{replay.targets.artifact.name} {replay.configuration}".rstrip()
        outcomes_of(workspace).replays.append(outcome_of_replay(workspace, replay, name))


def status_of(workspace: Workspace, status: int, replay: Replay) -> int:
    """Return the exit status; 0 for verdicts that the user allows."""
    allowed = workspace.options["ALLOW_UNCHECKED"] or replay.unchecked
    return 0 if allowed and status == EXIT_STATUS["unchecked"] else status


def outcome_of_replay(workspace: Workspace, replay: Replay, name: str) -> Outcome:
    """Return the outcome of a replay, from its verdict."""
    verdict = read_verdict(replay.results / "verdict.json")
    test = name if replay.of_a_test else ""
    return outcome_of(
        verdict,
        name,
        seconds=replay.seconds,
        artifact=str(replay.targets.artifact.root),
        verdict=workspace.short_of_top(replay.results / "verdict.json"),
        text="".join(replay.output),
        failed=bool(status_of(workspace, verdict.exit_status, replay)),
        pack=replay.pack,
        command=_triage_command(workspace, replay, test) if verdict.exit_status in _UNEXPLAINED else "",
    )


def _amend_verdict(replay: Replay, **fields: Any) -> Verdict:
    """Write ``fields`` into the verdict of an earlier run, because platforms and runs share results."""
    verdict, step = replay.results / "verdict.json", replay.step
    result = read_verdict(verdict)
    changed = {name: value for name, value in fields.items() if getattr(result, name) != value}
    if changed:
        result = msgspec.structs.replace(result, **changed)
        write_verdict(result, verdict)
        step.output_dir.amend(step.action.name, f"{step.action.tree}/{verdict.name}")
    return result


def _show_cached(replay: Replay) -> None:
    """Print the result of an unchanged replay, and mark it in its verdict."""
    result = _amend_verdict(replay, cached=True)
    outputs = ", ".join(f"'{output.name}'" for output in result.outputs) or "no outputs"
    word = "PASS" if result.status == "pass" else "UNCHECKED"
    tasks = f"{result.tasks} task{'' if result.tasks == 1 else 's'}"
    subject = f"{result.artifact} {result.platform} {replay.configuration}".rstrip()
    tell = terminal.detail if replay.of_a_test else terminal.say
    tell(f"[RUN] {word}{result.where}{result.broken} (cached)  {subject}: {outputs}, {tasks}; FORCE=1 runs it again")
    tell(*rule_lines(result))


def _argv(
    targets: ArtifactTargets,
    workspace: Workspace,
    results: str,
    data_dir: Path | None,
    golden: Path | None,
    options: Mapping[str, Any],
    comparators: Mapping[str, str],
) -> list[str]:
    words = [str(targets.artifact.root)]
    words += ["--platform", targets.platform.name, "--build-dir", str(targets.output), "--results", results]
    words += ["--embedded", targets.embedded.get_abspath()] if targets.embedded else []
    words += ["--binaries", str(targets.binaries_dir)] if targets.variant else []
    words += ["--checked"] if _is_checked(targets) else []
    words += chip_words(targets)
    words += ["--data", str(data_dir)] if data_dir else []
    words += ["--golden", str(golden)] if golden else []
    words += [word for name, value in options.items() for word in RUN_OPTIONS[name].words(value)]
    for output, comparator in comparators.items():
        words += ["--comparator", f"{output}={comparator}"]
    return words


def _options(workspace: Workspace, platform: Platform) -> dict[str, Any]:
    """Return the options that the replay tool of this run takes; an option of another tool is an error."""
    runtime = workspace.runtime(platform)
    options = workspace.options.of_the_run
    for name, value in list(options.items()):
        knowing = RUN_OPTIONS[name].runtimes
        if runtime not in knowing and (EMBEDDED not in knowing or runtime == TORCH):  # simpler's engine refuses ours
            if value != RUN_OPTIONS[name].default:
                only = knowing[0]
                raise ArtifactError(
                    f"{name}={value}", f"has no effect with RUNTIME={runtime}", f"use RUNTIME={only} with it"
                )
            del options[name]
    return options | ({"RUNTIME": runtime} if "RUNTIME" in options else {})


def _files(targets: ArtifactTargets, data_files: Snapshot) -> list[Path]:
    golden = find_golden(targets.artifact.root)
    return [*data_files.inputs.values(), *data_files.outputs.values(), *([golden] if golden else [])]
