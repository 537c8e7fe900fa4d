"""The whole of a reduction: confirm, find the tasks, shrink, write, replay, pack."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError, Kernel, load_artifact
from pypto_build.artifact.compiled_files import COMPILED_FILES_NAME, read_compiled_files
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.modules import function_names
from pypto_build.artifact.pt import write_pt
from pypto_build.compiler.assembler import body_of
from pypto_build.compiler.vintages import ApiVintage
from pypto_build.diagnose.extract.record import Choice, RecordedRun, of_numbers, record
from pypto_build.diagnose.extract.tensors import OrderBesides, kept_graph, name_parameters, order_of, parameters
from pypto_build.diagnose.extract.work import as_built
from pypto_build.diagnose.extract.write import api_of, frame_of, replacing, require_own
from pypto_build.diagnose.recorded.graph import TaskGraph
from pypto_build.diagnose.reduce import BEFORE_A_RUN, GOLDEN_ERROR, shrink
from pypto_build.diagnose.reduce.build import Builder, Refused, run_own, run_verb
from pypto_build.diagnose.reduce.by_itself import (
    ORCHESTRATION,
    Reduction,
    copy_artifact,
    fewer_lines,
    polished,
    reduce_build_error,
    reduce_golden_error,
    reduction,
    require_cvise,
    scratch_of,
)
from pypto_build.diagnose.reduce.case import Case, FaultLost, Invalid, KernelCode, Passed, Unit, assembled, carry
from pypto_build.diagnose.reduce.judge import (
    ENDS,
    FINDERS,
    MISMATCHES,
    Attempt,
    Judge,
    RunLimits,
    Search,
    Target,
    contents_after,
    described,
    ended,
    jobs_of,
    open_log_for,
    write_case,
)
from pypto_build.diagnose.reduce.remote import FarmJudge
from pypto_build.diagnose.requests import request_of
from pypto_build.facts.run_options import FAST
from pypto_build.facts.tasks import Task
from pypto_build.farm.session import FarmSession, session_of
from pypto_build.pto import PtoError
from pypto_build.pto.splice import body_of as body_in
from pypto_build.replay import Request, replay
from pypto_build.replay.child import Job
from pypto_build.replay.faults import RunFault
from pypto_build.replay.loading import KernelBinary
from pypto_build.replay.reference.entry import read_entry
from pypto_build.replay.reference.launch import Launch, open_launch
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.tolerances import tolerances
from pypto_build.replay.verdict import Verdict, read_verdict
from pypto_build.toolchain.python import own_tool

# The kernels of an artifact, with the fault and without: where the fault-free ones come from.


# From a failing replay to the first candidate: what has to stay, and the tasks in which it shows.


class Sources:
    """The texts of an artifact. ``against`` is the same artifact without the fault. If it is absent, the kernels are
    compared with their modules.
    """

    def __init__(self, artifact: Artifact, against: Path | None, api: ApiVintage, platform: str) -> None:
        self.artifact, self.api, self.platform = artifact, api, platform
        self.good = load_artifact(against) if against else None
        self.modules = {
            path: function_names(path.read_text("utf-8", "replace"))
            for path in sorted(artifact.root.glob("ptoas/**/*.pto"))
        }
        self.units: dict[str, Unit] = {}

    def codes(self) -> dict[int, KernelCode]:
        """Every kernel by func_id."""
        return {kernel.func_id: self._code(kernel) for kernel in self.artifact.kernels}

    def _code(self, kernel: Kernel) -> KernelCode:
        root = self.artifact.root
        inside = kernel.source.is_relative_to(root)
        path = kernel.source.relative_to(root) if inside else Path("kernels", kernel.core_type, f"{kernel.name}.cpp")
        text = _read(kernel.source)
        good = text if self.good is None else _read(self._counterpart(kernel).source)
        unit = self._unit(kernel, text)
        try:
            faulty, clean = body_in(text).splitlines(), body_in(good).splitlines()
        except PtoError:
            return KernelCode(
                kernel, path, "", good, text, tuple(good.splitlines()), tuple(text.splitlines()), sliced=False
            )
        if self.good is None and unit:
            clean = self._made_of(unit, faulty)
        return KernelCode(kernel, path, unit, good, text, tuple(clean), tuple(faulty))

    def _counterpart(self, kernel: Kernel) -> Kernel:
        assert self.good is not None
        counterpart = next((one for one in self.good.kernels if one.name == kernel.name), None)
        if counterpart is None:
            raise ArtifactError(
                f"AGAINST={self.good.root}",
                f"has no kernel '{kernel.name}'",
                "name an artifact built from the same program",
            )
        return counterpart

    def _unit(self, kernel: Kernel, text: str) -> str:
        """Return the path of the module that a kernel was generated from, or an empty text if there is none."""
        read = read_entry(text, [name for names in self.modules.values() for name in names])
        name = read[0] if read is not None else kernel.name
        path = next((path for path, names in self.modules.items() if name in names), None)
        if path is None:
            return ""
        where = path.relative_to(self.artifact.root).with_suffix("")
        if where.name not in self.units:
            faulty = tuple(_read(path).rstrip("\n").splitlines())
            clean = faulty
            if self.good is not None and (self.good.root / where.with_suffix(".pto")).is_file():
                clean = tuple(_read(self.good.root / where.with_suffix(".pto")).rstrip("\n").splitlines())
            raw = path.with_suffix(".cpp")
            self.units[where.name] = Unit(where, clean, faulty, _read(raw) if raw.is_file() else "")
        return where.name

    def _made_of(self, name: str, faulty: list[str]) -> list[str]:
        """The body that the kernel's module makes: as it was written beside it, or assembled now, which is nearer."""
        unit = self.units[name]
        bodies = []
        raw = self.artifact.root / unit.where.with_suffix(".cpp")
        if raw.is_file():
            bodies.append(body_of(_read(raw), self.api.tensor).splitlines())
        with suppress(Invalid):
            bodies.append(body_of(assembled(unit.clean, name, self.platform), self.api.tensor).splitlines())
        return max(bodies, key=lambda body: SequenceMatcher(None, body, faulty, autojunk=False).ratio(), default=faulty)


def _read(path: Path) -> str:
    return path.read_text("utf-8", "replace")


def target_of(keep: str) -> Target:
    """Parse KEEP=. Raises a usage error for a text that names no failure."""
    kind, _, name = keep.partition(":")
    if kind == "mismatch":
        return Target(kind, name)
    if kind in ENDS and not name:
        return Target(kind)
    if keep.partition("/")[0] in FINDERS and "/" in keep:
        return Target(keep)
    rules = ", ".join(f"{tool}/…" for tool in FINDERS)
    raise ArtifactError(
        f"KEEP={keep}",
        "names no failure that can be kept",
        f"use mismatch:OUTPUT, {', '.join((*ENDS, *BEFORE_A_RUN))}, or a rule: {rules}",
    )


def confirmed(request: Request, target: Target) -> tuple[Target, Verdict]:
    """Replay once, and return the failure to keep as precisely as the replay describes it.

    Raises ArtifactError if the replay ends in another way.
    """
    verdict = replay(request, write=None)
    ended = f"the replay ends with {verdict.status}"
    if target.kind == "mismatch":
        wrong = [output.name for output in verdict.outputs if output.status == "mismatch"]
        if not wrong or (target.name and target.name not in wrong):
            listed = ", ".join(f"'{one}'" for one in wrong)
            says = f"the replay differs in {listed}" if wrong else ended
            raise ArtifactError(f"KEEP=mismatch:{target.name}".rstrip(":"), says, "name the failure to keep with KEEP=")
    elif target.kind in ENDS:
        if verdict.error is None or verdict.status not in ("hang", "runtime_error"):
            raise ArtifactError(f"KEEP={target.kind}", ended, "name the failure to keep with KEEP=")
        ending = described(RunFault(verdict.status, verdict.error))
        word, _, cause = ending.partition(" ")
        if word != target.kind:
            raise ArtifactError(f"KEEP={target.kind}", f"the replay ends with a {word}", f"KEEP={word}")
        return replace(target, cause=cause), verdict
    return target, verdict


@dataclass
class Beginning:
    """The start of the search: the run, its artifact and the failure to keep."""

    launch: Launch
    artifact: Artifact
    target: Target
    verdict: Verdict
    against: Path | None
    scratch: Path
    timeout_s: float

    def __post_init__(self) -> None:
        self.api = api_of(self.launch.interface.vintage, self.artifact.orchestration.source)
        self.sources = Sources(self.artifact, self.against, self.api, self.launch.platform)
        self.codes = self.sources.codes()
        self.graph: TaskGraph | None = None

    @property
    def faulty(self) -> list[str]:
        """The kernels whose text differs from the text without the fault."""
        pairs = [(code, code.text(faulty=True) != code.text(faulty=False)) for code in self.codes.values()]
        return [code.kernel.name for code, differs in pairs if differs]

    def case(self, recording: RecordedRun, tasks: Sequence[Task]) -> Case:
        """The candidate of some recorded tasks."""
        if self.graph is None:
            self.graph = kept_graph(recording.graph, self.scratch)
        inputs = parameters(tasks)
        name_parameters(inputs, tasks, self.artifact, self.graph)
        order = order_of(self.graph, tasks, inputs)
        frame = frame_of(self.artifact, self.launch.platform, f"{self.artifact.name}_reduced")
        return Case(
            tuple(tasks), tuple(inputs), self.codes, self.sources.units, order or OrderBesides(), self.api,
            self.launch.platform, frame,
        )  # fmt: skip

    def first(self, search: Search) -> Case | None:
        """Return the first candidate that shows the failure, with as few tasks as possible. Returns None if there is
        none.
        """
        choices = list(self._choices())
        for number, choice in enumerate(choices):
            try:
                recording, _ = record(self.launch, choice, self.timeout_s)
            except ArtifactError:
                continue
            self.graph = None
            last = number == len(choices) - 1
            ways = [] if last and len(choices) == 1 else [partial(self.case, recording, [t]) for t in recording.tasks]
            case = search.first(ways)
            if case is not None:
                return case
            if last:
                return self._several(search, recording)
        return None

    def _choices(self) -> list[Choice]:
        """The tasks that are recorded: the likely ones, then all."""
        every = Choice(((0, None),), label="all")
        if self.target.kind == "mismatch":
            return [*(Choice(kernel=name, label=name) for name in self.faulty), every]
        number = self.verdict.error.task if self.verdict.error else None
        if self.target.kind in ENDS and number is not None and str(number).partition(" ")[0].isdecimal():
            at = int(str(number).partition(" ")[0])
            return [of_numbers([at], "fault"), Choice(((0, at),), label="until")]
        return [every, every]

    def _several(self, search: Search, recording: RecordedRun) -> Case | None:
        """All of them, then without halves, quarters, …, as long as it stays."""
        tasks = list(recording.tasks)
        case = self.case(recording, tasks)
        if not search.holds(case):
            return None
        size = max(1, len(tasks) // 2)
        while True:
            left = [
                [*tasks[:start], *tasks[start + size :]] for start in range(0, len(tasks), size) if len(tasks) > size
            ]
            smaller = search.first(partial(self.case, recording, one) for one in left)
            if smaller is not None:
                case, tasks = smaller, list(smaller.tasks)
                size = min(size, max(1, len(tasks) // 2))
            elif size == 1:
                return case
            else:
                size //= 2


def good_artifact(artifact: Path, platform: str, scratch: Path) -> Path | None:
    """The artifact that its program is compiled to now, where the compiler left the program's name."""
    document = read_compiled_files(artifact / COMPILED_FILES_NAME)
    if document is None or not Path(document.program).is_file():
        return None
    target = scratch / "good" / artifact.name
    words = [*own_tool("pypto_build.compiler"), document.program, "--output", str(target), "--platform", platform]
    try:
        return load_artifact(target).root if run_own([*words, "--no-golden"]).returncode == 0 else None
    except ArtifactError:
        return None


# Faults of an orchestration: its C++ with fewer lines, run with the artifact's own kernels and data.
# Where the run ends in a fault, that has to stay the same. Where an output differs from what a right orchestration
# makes, that one is reduced along with it, and what differs between the two is carried along.

#: A candidate that hangs is waited for so long.
_TIMEOUT_S = 10.0


class Orchestrations:
    """Compiles and runs texts. ``clean`` is the right one, where there is one, and ``faulty`` the artifact's."""

    def __init__(self, one: Reduction, launch: Launch, limits: RunLimits, faulty: str, clean: str | None) -> None:
        self.one, self.launch, self.faulty, self.clean = one, launch, faulty, clean
        self.limits = replace(limits, timeout_s=min(limits.timeout_s, _TIMEOUT_S))
        self.builder = Builder(one.scratch / "built", one.options, one.artifact.runtime)
        self.arguments = [
            Passed(tensor.name, tensor.direction, tensor.dtype, tuple(tensor.shape), bytes(tensor.initial or b""))
            for tensor in launch.binding.tensors
        ]

    def with_fault(self, text: str) -> str:
        """Return the faulty orchestration after the edits that turn the right one into ``text``. Raises FaultLost."""
        if self.clean is None:
            return text
        return "\n".join(carry(self.clean.splitlines(), self.faulty.splitlines(), text.splitlines())) + "\n"

    def compiled(self, text: str) -> None:
        """Compile a candidate, which may be done for several at once."""
        with suppress(FaultLost, Refused):
            self._library(self.with_fault(text))
            if self.clean is not None:
                self._library(text)

    def ending(self, text: str) -> str:
        """Return how a candidate ends: the fault, or the outputs that differ."""
        try:
            faulty = self._library(self.with_fault(text))
            clean = None if self.clean is None else self._library(text)
        except FaultLost:
            return "lost"
        except Refused as refused:
            return f"refused {refused}"
        run = partial(self.contents, clean) if clean else None
        return ended(self.arguments, self.limits, partial(self.contents, faulty), run)

    def outputs(self, text: str) -> list[bytes]:
        """Run a text and return the contents of the parameters."""
        return self.contents(self._library(text))

    def _library(self, text: str) -> Path:
        return self.builder.build([(ORCHESTRATION, text)])[ORCHESTRATION, text]

    def contents(self, library: Path) -> list[bytes]:
        """Run a library and return the contents of the parameters. Raises RunFault."""
        interface, launch = self.launch.interface, self.launch
        kernels = tuple(
            KernelBinary(kernel.func_id, kernel.name, kernel.core_type, launch.library(kernel.core_type, kernel.name))
            for kernel in interface.kernels
        )
        entry = interface.orchestration
        scalars = tuple(scalar.bits for scalar in launch.binding.scalars)
        options: dict[str, SettingValue] = {
            "seed": 0,
            "serial": self.clean is not None,
            "output_dir": str(self.one.scratch / "records"),
        }
        job = Job(
            launch.embedded, launch.platform, kernels, library, entry.function_name, entry.config_name, scalars, 0,
            options,
        )  # fmt: skip
        return contents_after(job, self.arguments, self.limits.timeout_s)


def reduce_orchestration(one: Reduction, launch: Launch, limits: RunLimits, clean: str | None) -> Path | None:
    """Write the artifact with the shortest orchestration that still fails, and return its directory.

    Without ``clean`` it ends in the same fault. With it, the right orchestration is reduced along, and the outputs of
    the two differ. Returns None if the failure does not show.
    """
    source = one.artifact.orchestration.source
    faulty = source.read_text("utf-8", "replace")
    runs = Orchestrations(one, launch, limits, faulty, clean)
    text = faulty if clean is None else clean
    target = runs.ending(text)
    word = target.partition(" ")[0]
    if word not in (("crash", "hang") if clean is None else MISMATCHES):
        return None
    one.say(f"orchestration: {target}")
    search = one.search(runs.ending, target, faulty, runs.compiled)
    short = one.shortest(search, text, fewer_lines, "lines")
    golden = runs.outputs(short) if clean is not None else []
    with one.result() as root:
        _write(runs, root, runs.with_fault(short), golden)
    return one.root


def _write(runs: Orchestrations, root: Path, text: str, golden: list[bytes]) -> None:
    """The artifact as it was built, with another orchestration; ``golden`` are its parameters after a right run."""
    artifact = runs.one.artifact
    copy_artifact(artifact, root)
    if not artifact.orchestration.source.is_relative_to(artifact.root):
        raise ArtifactError(
            artifact.orchestration.source, "is outside of the artifact", "copy the file into the artifact"
        )
    write_bytes(root / artifact.orchestration.source.relative_to(artifact.root), text.encode())
    for kernel in artifact.kernels:  # with the bodies of edited modules
        path = Path("kernels", kernel.core_type, f"{kernel.source.stem}.cpp")
        if not kernel.source.is_relative_to(artifact.root) and (root / path).is_file():
            shutil.copyfile(kernel.source, root / path)
    for one, content in zip(runs.arguments, golden, strict=False):
        if one.direction != "IN":
            write_pt(root / "data" / "out" / f"{one.name}.pt", one.dtype, one.shape, content)


#: What is tried, in this order, again and again until none of it helps.
_STEPS: tuple[tuple[str, Callable[[Case], Iterable[Attempt]]], ...] = (
    ("blocks", shrink.blocks),
    ("sizes", shrink.sizes),
    ("loops", shrink.loops),
    ("operations", shrink.operations),
    ("statements", shrink.statements),
    ("scalars", shrink.scalars),
    ("data", shrink.data),
)


def reduce(options: argparse.Namespace) -> int:
    """Reduce the failure that ``options`` name and return the exit status. Raises ArtifactError and RunFault."""
    with ExitStack() as stack:
        session = session_of(options)
        return _reduce(options, stack.enter_context(session) if session else None)


def _reduce(options: argparse.Namespace, session: FarmSession | None) -> int:
    artifact, _ = as_built(load_artifact(options.artifact), options.build_dir)
    where = options.output or Path(os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output")
    root = Path(os.path.abspath(where)) / f"{artifact.name.replace('.', '_')}_reduced"
    require_own(root)
    if options.cvise:
        require_cvise()
    before, _, name = options.keep.partition(":")
    if before in BEFORE_A_RUN:
        one = reduction(options, artifact, root, _say)
        return reduce_golden_error(one) if before == GOLDEN_ERROR else reduce_build_error(one, name)
    target = target_of(options.keep)
    directory = scratch_of(options)
    request = replace(request_of(options, directory / "replay"), rtol=options.rtol, atol=options.atol)
    target, verdict = confirmed(request, target)
    rtol, atol = tolerances(options.artifact, options.rtol, options.atol)
    built = options.artifact, options.build_dir, options.embedded, options.platform
    launch = open_launch(*built, options.data, options.seed, options.binaries, options.numerics)
    begin = Beginning(launch, artifact, target, verdict, options.against, directory, options.timeout)
    limits = RunLimits(options.timeout, rtol, atol)
    apart = target.kind in ENDS and verdict.error is not None and not verdict.error.kernel  # no kernel has a part in it
    if apart and (smallest := reduce_orchestration(reduction(options, artifact, root, _say), launch, limits, None)):
        return _ended(options, smallest)
    if target.kind == "mismatch" and not begin.faulty:
        begin = _against_program(begin, options, artifact)
        if not begin.faulty:
            right = load_artifact(begin.against or artifact.root).orchestration.source.read_text("utf-8", "replace")
            one = reduction(options, artifact, root, _say)
            if smallest := reduce_orchestration(one, launch, limits, right):
                return _ended(options, smallest)
            raise _nothing_to_reduce(options)
    builder = Builder(directory / "built", options, artifact.runtime)
    # Within few tasks any output may differ: the fault is told by what differs between the two versions alone.
    judge = Judge(builder, options.embedded, directory, replace(target, name=""), limits)
    if session:
        judge = FarmJudge(judge, session, options, artifact.runtime)
    log = open_log_for(directory, _question(options, target), artifact.sources, _say)
    search = Search(judge, log, session.workers if session else jobs_of(options.jobs), _say)
    case = begin.first(search)
    if case is None:
        _say(f"no task shows it by itself, nor all of them with the data of this run ({search.tried} tried)")
        return 1
    word = search.ending(case).partition(" ")[0]
    if word in MISMATCHES:
        judge.target = replace(judge.target, mismatches=MISMATCHES[: MISMATCHES.index(word) + 1])
    _say(f"tasks: {begin.verdict.tasks or 'all'} -> {case.summary()}: {', '.join(task.title for task in case.tasks)}")
    case = _shrunk(search, _by_module(search, case))
    case = polished(search, case) if options.cvise else case
    return _finish(options, root, case, judge, search)


def _against_program(begin: Beginning, options: argparse.Namespace, artifact: Artifact) -> Beginning:
    """Return the start of a search against the program, for kernels that all agree with their modules."""
    good = None if options.against else good_artifact(artifact.root, options.platform, begin.scratch)
    if good is not None:
        again = replace(begin, against=good)
        if again.faulty:
            _say("the modules are not what the program says: reducing to what differs from that")
            return again
        begin = again
    right = load_artifact(begin.against).orchestration.source if begin.against else artifact.orchestration.source
    if _code(right) != _code(artifact.orchestration.source):
        _say("the kernels are right: reducing the orchestration, along with the right one")
        return begin
    raise _nothing_to_reduce(options)


def _code(source: Path) -> list[str]:
    """A text's lines without comments and blank lines."""
    lines = (line.partition("//")[0].strip() for line in source.read_text("utf-8", "replace").splitlines())
    return [line for line in lines if line]


def _nothing_to_reduce(options: argparse.Namespace) -> ArtifactError:
    what = "every kernel agrees with its module" if not options.against else "has the same kernels"
    return ArtifactError(
        f"AGAINST={options.against or ''}",
        f"{what}: the fault is in a module, the orchestration or the golden",
        "name an artifact of the same program whose kernels are right, or begin with 'scons diverge'",
    )


def _ended(options: argparse.Namespace, root: Path, remark: str = "") -> int:
    """Replay an artifact as anybody would, and pack it; ``remark`` is what else is said of it."""
    verdict, pack = packed(options, root)
    short = os.path.relpath(root)
    _say(
        f"{short}: replayed, it ends with {verdict}{remark}",
        f"scons replay JIT={shlex.quote(short)}; to send: {pack or 'not packed'}",
    )
    return 0


def _by_module(search: Search, case: Case) -> Case:
    """Return the case with kernels assembled from their modules, if these show the same fault. Otherwise, return the
    case without modules, so that the C++ is reduced.
    """
    repaired = case
    try:
        for name in case.modules:
            repaired = repaired.with_module(name, repaired.units[name].clean)
        if search.holds(repaired):
            return repaired
    except Invalid:
        pass
    return case.without_modules()


def _shrunk(search: Search, case: Case) -> Case:
    """Run all reduction steps in turn until a round changes nothing."""
    while True:
        before = case.digest
        for what, attempts in _STEPS:
            case = search.keep(case, attempts, what)
        if case.digest == before:
            return case


def _finish(options: argparse.Namespace, root: Path, case: Case, judge: Judge, search: Search) -> int:
    """Write the artifact, replay and pack it."""
    golden = judge.outputs(case, faulty=False) if judge.target.kind == "mismatch" else []
    origin = {"artifact": str(options.artifact), "keep": options.keep, "tasks": [task.number for task in case.tasks]}
    with replacing(root, origin) as temporary:
        write_case(case, temporary, golden)
    for one in case.external:
        _say(f"    {one.direction:5} {one.name} {one.dtype}[{', '.join(map(str, one.shape))}]")
    counted = f"{search.tried} candidates, {search.kept} kept"
    remembered = f", {search.remembered} known from before" if search.remembered else ""
    _say(f"{case.summary()}: {counted}{remembered}")
    remark = "" if judge.target.twofold else f", and {search.ending(case).partition(' ')[0]} is found"
    return _ended(options, root, remark)


def packed(options: argparse.Namespace, root: Path) -> tuple[str, str]:
    """Replay the result, pack the run, and return how it ended and the path of the pack."""
    build_dir = options.build_dir / "reduce" / "build"
    numerics = [f"--numerics={options.numerics}"] if options.numerics != FAST else []
    run = run_verb("pack", root, build_dir, options, *numerics)
    out = build_dir / options.platform / root.name
    packs = sorted(out.glob("*.tar.zst"))
    try:
        verdict = read_verdict(out / "verdict.json")
    except ArtifactError:
        return f"status {run.returncode}: {(run.stderr.strip().splitlines() or ['no verdict'])[-1]}", ""
    wrong = [f"'{output.name}'" for output in verdict.outputs if output.status == "mismatch"]
    return f"{verdict.status}{' of ' + ', '.join(wrong) if wrong else ''}", os.path.relpath(packs[-1]) if packs else ""


def _question(options: argparse.Namespace, target: Target) -> list[str]:
    """Return the words that name the search. Remembered endings hold only for the same words."""
    words = [options.keep, target.cause, options.platform, options.kernel_flags, options.arch, options.numerics]
    return [*words, str(options.against), str(options.rtol), str(options.atol), str(options.embedded)]


def _say(*lines: str) -> None:
    for line in lines:
        print(line if line.startswith(" ") else f"[reduce] {line}", flush=True)
