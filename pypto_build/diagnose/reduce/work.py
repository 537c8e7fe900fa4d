"""The whole of a reduction: confirm, find the tasks, shrink, write, replay, pack."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError, load_artifact
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.pt import write_pt
from pypto_build.diagnose.extract.work import as_built
from pypto_build.diagnose.extract.write import replacing, require_own
from pypto_build.diagnose.reduce import BEFORE_A_RUN, GOLDEN_ERROR, shrink
from pypto_build.diagnose.reduce.begin import Beginning, confirmed, good_artifact, wanted_of
from pypto_build.diagnose.reduce.build import Builder, Refused, run_verb
from pypto_build.diagnose.reduce.by_itself import (
    ORCHESTRATION,
    Reduction,
    copy_artifact,
    polished,
    reduce_build_error,
    reduce_golden_error,
    reduction,
    require_cvise,
    scratch_of,
)
from pypto_build.diagnose.reduce.case import Case, FaultLost, Invalid, Passed, carry
from pypto_build.diagnose.reduce.judge import (
    ENDS,
    MISMATCHES,
    Judge,
    RunLimits,
    Wanted,
    contents_after,
    ended,
    write_case,
)
from pypto_build.diagnose.reduce.remote import FarmJudge
from pypto_build.diagnose.reduce.search import Attempt, Search, jobs_of, known_log
from pypto_build.diagnose.reduce.text_search import fewer_lines
from pypto_build.diagnose.requests import request_of
from pypto_build.facts.run_options import FAST
from pypto_build.farm.session import FarmSession, session_of
from pypto_build.replay.child import Job
from pypto_build.replay.loading import KernelBinary
from pypto_build.replay.reference.launch import Launch, open_launch
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.tolerances import tolerances
from pypto_build.replay.verdict import read_verdict

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
        self.builder = Builder(one.scratch / "built", one.given, one.artifact.runtime)
        self.arguments = [
            Passed(tensor.name, tensor.direction, tensor.dtype, tuple(tensor.shape), bytes(tensor.initial or b""))
            for tensor in launch.binding.tensors
        ]

    def with_fault(self, text: str) -> str:
        """What the faulty orchestration has become where the right one has become ``text``. Raises FaultLost."""
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
        """How a candidate ends: the fault, or which outputs differ."""
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
        """What the parameters hold after a run of a text."""
        return self.contents(self._library(text))

    def _library(self, text: str) -> Path:
        return self.builder.build([(ORCHESTRATION, text)])[ORCHESTRATION, text]

    def contents(self, library: Path) -> list[bytes]:
        """What the parameters hold after a run of what is compiled. Raises RunFault."""
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
    """The artifact with the shortest orchestration that ends in the same fault, or has outputs that differ from those
    of the right one, ``clean``, reduced in the same way; None where it does not show."""
    source = one.artifact.orchestration.source
    faulty = source.read_text("utf-8", "replace")
    runs = Orchestrations(one, launch, limits, faulty, clean)
    text = faulty if clean is None else clean
    wanted = runs.ending(text)
    word = wanted.partition(" ")[0]
    if word not in (("crash", "hang") if clean is None else MISMATCHES):
        return None
    one.say(f"orchestration: {wanted}")
    search = one.search(runs.ending, wanted, faulty, runs.compiled)
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
        raise ArtifactError(artifact.orchestration.source, "lies outside of the artifact", "copy it there")
    write_bytes(root / artifact.orchestration.source.relative_to(artifact.root), text.encode())
    for kernel in artifact.kernels:  # with the bodies of edited modules
        place = Path("kernels", kernel.core_type, f"{kernel.source.stem}.cpp")
        if not kernel.source.is_relative_to(artifact.root) and (root / place).is_file():
            shutil.copyfile(kernel.source, root / place)
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


def reduce(given: argparse.Namespace) -> int:
    """What ``given`` asks for; returns the exit status. Raises ArtifactError and RunFault."""
    with ExitStack() as stack:
        session = session_of(given)
        return _reduce(given, stack.enter_context(session) if session else None)


def _reduce(given: argparse.Namespace, session: FarmSession | None) -> int:
    artifact, _ = as_built(load_artifact(given.artifact), given.build_dir)
    where = given.output or Path(os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output")
    root = Path(os.path.abspath(where)) / f"{artifact.name.replace('.', '_')}_reduced"
    require_own(root)
    if given.cvise:
        require_cvise()
    before, _, name = given.keep.partition(":")
    if before in BEFORE_A_RUN:
        one = reduction(given, artifact, root, _say)
        return reduce_golden_error(one) if before == GOLDEN_ERROR else reduce_build_error(one, name)
    wanted = wanted_of(given.keep)
    directory = scratch_of(given)
    request = replace(request_of(given, directory / "replay"), rtol=given.rtol, atol=given.atol)
    wanted, verdict = confirmed(request, wanted)
    rtol, atol = tolerances(given.artifact, given.rtol, given.atol)
    built = given.artifact, given.build_dir, given.embedded, given.platform
    launch = open_launch(*built, given.data, given.seed, given.binaries, given.numerics)
    begin = Beginning(launch, artifact, wanted, verdict, given.against, directory, given.timeout)
    limits = RunLimits(given.timeout, rtol, atol)
    apart = wanted.kind in ENDS and verdict.error is not None and not verdict.error.kernel  # no kernel has a part in it
    if apart and (found := reduce_orchestration(reduction(given, artifact, root, _say), launch, limits, None)):
        return _ended(given, found)
    if wanted.kind == "mismatch" and not begin.faulty:
        begin = _against_program(begin, given, artifact)
        if not begin.faulty:
            right = load_artifact(begin.against or artifact.root).orchestration.source.read_text("utf-8", "replace")
            one = reduction(given, artifact, root, _say)
            if found := reduce_orchestration(one, launch, limits, right):
                return _ended(given, found)
            raise _no_place(given)
    builder = Builder(directory / "built", given, artifact.runtime)
    # Within few tasks any output may differ: the fault is told by what differs between the two versions alone.
    judge = Judge(builder, given.embedded, directory, replace(wanted, name=""), limits)
    if session:
        judge = FarmJudge(judge, session, given, artifact.runtime)
    log = known_log(directory, _question(given, wanted), artifact.sources, _say)
    search = Search(judge, log, session.workers if session else jobs_of(given.jobs), _say)
    case = begin.first(search)
    if case is None:
        _say(f"no task shows it by itself, nor all of them with the data of this run ({search.tried} tried)")
        return 1
    word = search.ending(case).partition(" ")[0]
    if word in MISMATCHES:
        judge.wanted = replace(judge.wanted, mismatches=MISMATCHES[: MISMATCHES.index(word) + 1])
    _say(f"tasks: {begin.verdict.tasks or 'all'} -> {case.summary()}: {', '.join(task.title for task in case.tasks)}")
    case = _shrunk(search, _by_module(search, case))
    case = polished(search, case) if given.cvise else case
    return _finish(given, root, case, judge, search)


def _against_program(begin: Beginning, given: argparse.Namespace, artifact: Artifact) -> Beginning:
    """Where every kernel is what its module says: compare with what the program says."""
    good = None if given.against else good_artifact(artifact.root, given.platform, begin.scratch)
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
    raise _no_place(given)


def _code(source: Path) -> list[str]:
    """A text's lines without comments and blank lines."""
    lines = (line.partition("//")[0].strip() for line in source.read_text("utf-8", "replace").splitlines())
    return [line for line in lines if line]


def _no_place(given: argparse.Namespace) -> ArtifactError:
    what = "every kernel is what its module says" if not given.against else "has the same kernels"
    return ArtifactError(
        f"AGAINST={given.against or ''}",
        f"{what}: the fault is in a module, the orchestration or the golden",
        "name an artifact of the same program whose kernels are right, or begin with 'scons diverge'",
    )


def _ended(given: argparse.Namespace, root: Path, found: str = "") -> int:
    """Replay an artifact as anybody would, and pack it; ``found`` is what else is said of it."""
    verdict, pack = packed(given, root)
    short = os.path.relpath(root)
    _say(
        f"{short}: replayed, it ends with {verdict}{found}",
        f"scons replay JIT={shlex.quote(short)}; to send: {pack or 'not packed'}",
    )
    return 0


def _by_module(search: Search, case: Case) -> Case:
    """Kernels assembled by us, so that they can follow their modules, if the fault has a place in what that writes;
    else the C++ is reduced as it is."""
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
    """Everything that is tried, until a round of it changes nothing."""
    while True:
        before = case.digest
        for what, attempts in _STEPS:
            case = search.keep(case, attempts, what)
        if case.digest == before:
            return case


def _finish(given: argparse.Namespace, root: Path, case: Case, judge: Judge, search: Search) -> int:
    """Write the artifact, replay and pack it."""
    golden = judge.outputs(case, faulty=False) if judge.wanted.kind == "mismatch" else []
    origin = {"artifact": str(given.artifact), "keep": given.keep, "tasks": [task.number for task in case.tasks]}
    with replacing(root, origin) as temporary:
        write_case(case, temporary, golden)
    for one in case.external:
        _say(f"    {one.direction:5} {one.name} {one.dtype}[{', '.join(map(str, one.shape))}]")
    counted = f"{search.tried} candidates, {search.kept} kept"
    remembered = f", {search.remembered} known from before" if search.remembered else ""
    _say(f"{case.summary()}: {counted}{remembered}")
    found = "" if judge.wanted.twofold else f", and {search.ending(case).partition(' ')[0]} is found"
    return _ended(given, root, found)


def packed(given: argparse.Namespace, root: Path) -> tuple[str, str]:
    """How the result's replay ends, and where its pack is."""
    build_dir = given.build_dir / "reduce" / "build"
    numerics = [f"--numerics={given.numerics}"] if given.numerics != FAST else []
    run = run_verb("pack", root, build_dir, given, *numerics)
    out = build_dir / given.platform / root.name
    packs = sorted(out.glob("*.tar.zst"))
    try:
        verdict = read_verdict(out / "verdict.json")
    except ArtifactError:
        return f"status {run.returncode}: {(run.stderr.strip().splitlines() or ['no verdict'])[-1]}", ""
    wrong = [f"'{output.name}'" for output in verdict.outputs if output.status == "mismatch"]
    return f"{verdict.status}{' of ' + ', '.join(wrong) if wrong else ''}", os.path.relpath(packs[-1]) if packs else ""


def _question(given: argparse.Namespace, wanted: Wanted) -> list[str]:
    """What is asked: endings are remembered for that alone."""
    words = [given.keep, wanted.cause, given.platform, given.kernel_flags, given.arch, given.numerics]
    return [*words, str(given.against), str(given.rtol), str(given.atol), str(given.embedded)]


def _say(*lines: str) -> None:
    for line in lines:
        print(line if line.startswith(" ") else f"[reduce] {line}", flush=True)
