"""From a failing replay to the first candidate: what has to stay, and the tasks in which it shows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError, Kernel, load_artifact
from pypto_build.artifact.compiled_files import COMPILED_FILES_NAME, read_compiled_files
from pypto_build.artifact.modules import function_names
from pypto_build.compiler.assembler import body_of
from pypto_build.compiler.vintages import ApiVintage
from pypto_build.diagnose.extract.choice import Choice, of_numbers
from pypto_build.diagnose.extract.order import OrderBesides, kept_graph, name_parameters, order_of
from pypto_build.diagnose.extract.record import RecordedRun, RecordedTask, record
from pypto_build.diagnose.extract.tensors import parameters
from pypto_build.diagnose.extract.write import api_of, frame_of
from pypto_build.diagnose.recorded.graph import TaskGraph
from pypto_build.diagnose.reduce import BEFORE_A_RUN
from pypto_build.diagnose.reduce.build import run_own
from pypto_build.diagnose.reduce.case import Case, Invalid, KernelCode, Unit, assembled
from pypto_build.diagnose.reduce.judge import ENDS, FINDERS, Wanted, described
from pypto_build.diagnose.reduce.search import Search
from pypto_build.pto import PtoError
from pypto_build.pto.splice import body_of as body_in
from pypto_build.replay import Request, replay
from pypto_build.replay.faults import RunFault
from pypto_build.replay.reference.entry import read_entry
from pypto_build.replay.reference.launch import Launch
from pypto_build.replay.verdict import Verdict
from pypto_build.toolchain.python import own_tool

# The kernels of an artifact, with the fault and without: where the fault-free ones come from.


class Sources:
    """The texts of an artifact. ``against`` is one without the fault, of the same kernels; without it, a kernel's
    module says what it should be."""

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
        place = kernel.source.relative_to(root) if inside else Path("kernels", kernel.core_type, f"{kernel.name}.cpp")
        text = _read(kernel.source)
        good = text if self.good is None else _read(self._counterpart(kernel).source)
        unit = self._unit(kernel, text)
        try:
            faulty, clean = body_in(text).splitlines(), body_in(good).splitlines()
        except PtoError:
            return KernelCode(
                kernel, place, "", good, text, tuple(good.splitlines()), tuple(text.splitlines()), sliced=False
            )
        if self.good is None and unit:
            clean = self._made_of(unit, faulty)
        return KernelCode(kernel, place, unit, good, text, tuple(clean), tuple(faulty))

    def _counterpart(self, kernel: Kernel) -> Kernel:
        assert self.good is not None
        found = next((one for one in self.good.kernels if one.name == kernel.name), None)
        if found is None:
            raise ArtifactError(
                f"AGAINST={self.good.root}", f"has no kernel '{kernel.name}'", "name an artifact of the same program"
            )
        return found

    def _unit(self, kernel: Kernel, text: str) -> str:
        """The module that a kernel was made from, by its path in the artifact; empty where there is none."""
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


def wanted_of(keep: str) -> Wanted:
    """What KEEP= asks for. Raises a usage error for what is none."""
    kind, _, name = keep.partition(":")
    if kind == "mismatch":
        return Wanted(kind, name)
    if kind in ENDS and not name:
        return Wanted(kind)
    if keep.partition("/")[0] in FINDERS and "/" in keep:
        return Wanted(keep)
    rules = ", ".join(f"{tool}/…" for tool in FINDERS)
    raise ArtifactError(
        f"KEEP={keep}",
        "is nothing to keep",
        f"give mismatch:OUTPUT, {', '.join((*ENDS, *BEFORE_A_RUN))}, or a rule: {rules}",
    )


def confirmed(request: Request, wanted: Wanted) -> tuple[Wanted, Verdict]:
    """Replay once; what has to stay, as exactly as the replay tells. Raises ArtifactError where it ends otherwise."""
    verdict = replay(request, write=None)
    ended = f"the replay ends with {verdict.status}"
    if wanted.kind == "mismatch":
        wrong = [output.name for output in verdict.outputs if output.status == "mismatch"]
        if not wrong or (wanted.name and wanted.name not in wrong):
            says = f"the outputs that differ are {', '.join(wrong)}" if wrong else ended
            raise ArtifactError(f"KEEP=mismatch:{wanted.name}".rstrip(":"), says, "name what is wrong")
    elif wanted.kind in ENDS:
        if verdict.error is None or verdict.status not in ("hang", "runtime_error"):
            raise ArtifactError(f"KEEP={wanted.kind}", ended, "name what is wrong")
        ending = described(RunFault(verdict.status, verdict.error))
        word, _, cause = ending.partition(" ")
        if word != wanted.kind:
            raise ArtifactError(f"KEEP={wanted.kind}", f"the replay ends with a {word}", f"KEEP={word}")
        return replace(wanted, cause=cause), verdict
    return wanted, verdict


@dataclass
class Beginning:
    """What the search starts from."""

    launch: Launch
    artifact: Artifact
    wanted: Wanted
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
        """The kernels that are not what they should be."""
        pairs = [(code, code.text(faulty=True) != code.text(faulty=False)) for code in self.codes.values()]
        return [code.kernel.name for code, differs in pairs if differs]

    def case(self, recording: RecordedRun, tasks: Sequence[RecordedTask]) -> Case:
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
        """The first candidate: one task if one shows it, else as few as do; None where none show it."""
        choices = list(self._choices())
        for number, choice in enumerate(choices):
            try:
                recording, _ = record(self.launch, choice, self.timeout_s)
            except ArtifactError:
                continue
            self.graph = None
            last = number == len(choices) - 1
            ways = [] if last and len(choices) == 1 else [partial(self.case, recording, [t]) for t in recording.tasks]
            found = search.first(ways)
            if found is not None:
                return found
            if last:
                return self._several(search, recording)
        return None

    def _choices(self) -> list[Choice]:
        """The tasks that are recorded: the likely ones, then all."""
        every = Choice(((0, None),), label="all")
        if self.wanted.kind == "mismatch":
            return [*(Choice(kernel=name, label=name) for name in self.faulty), every]
        number = self.verdict.error.task if self.verdict.error else None
        if self.wanted.kind in ENDS and number is not None and str(number).partition(" ")[0].isdecimal():
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
            found = search.first(partial(self.case, recording, one) for one in left)
            if found is not None:
                case, tasks = found, list(found.tasks)
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
