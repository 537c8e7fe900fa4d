"""Runs candidates, describes in one line how each ended, and decides which candidates are kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build import terminal
from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.files import read_text, write_bytes
from pypto_build.artifact.interface import encode_interface, sign
from pypto_build.diagnose.extract.write import write_data, write_texts
from pypto_build.diagnose.findings import read_report
from pypto_build.diagnose.reduce.build import Builder, Refused, run_own
from pypto_build.diagnose.reduce.case import Candidate, Case, Invalid, Passed, candidate_of
from pypto_build.facts.faults import FaultKind
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding, TensorArg
from pypto_build.replay.child import Job, tensor_buffers
from pypto_build.replay.compare import difference
from pypto_build.replay.faults import RunFault
from pypto_build.replay.loading import KernelBinary
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.values import STORAGE, decode, is_float
from pypto_build.replay.verdict import OUT_OF_BOUNDS, ErrorInfo
from pypto_build.replay.worker import Bounds, Worker
from pypto_build.toolchain.python import own_tool

# The search: candidates in order, several compiled at once, the first that still fails in the same way is kept.
# Every ending is written to a log, by the digest of the candidate. The search itself is determined by its start, so
# that after an interruption it goes the same way again, and asks the log instead of running anything.

#: Makes a candidate, or finds that there is none.
Attempt = Callable[[], Case]


def runs(count: int, largest: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield ranges to leave out of ``count`` items: halves, quarters, … down to single ones, each from the end on."""
    size = count // 2 if largest is None else largest
    while size >= 1:
        yield from ((start, start + size) for start in range(count - size, -1, -size))
        size //= 2


class Log:
    """The endings of candidates, in an append-only file. An incomplete last line is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, str] = {}
        try:
            text = read_text(path, errors="replace")
        except OSError:  # there is none
            return
        for line in text.split("\n")[:-1]:
            digest, _, ending = line.partition(" ")
            self.known[digest] = ending
        if text and not text.endswith("\n"):
            self._write("\n")  # ends what was cut off, so that it spoils nothing else

    def add(self, digest: str, ending: str) -> None:
        """Remember an ending."""
        self.known[digest] = " ".join(ending.split())
        self._write(f"{digest} {self.known[digest]}\n")

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            file.write(text.encode())


def open_log_for(directory: Path, question: Iterable[str], files: Iterable[Path], say: Callable[[str], None]) -> Log:
    """Return the log of an interrupted search that asked the same of the same files, or an empty one."""
    digest = hashlib.sha256("\0".join(question).encode())
    for path in (*files, *sorted(Path(__file__).parent.glob("*.py"))):  # another version of this may judge otherwise
        digest.update(path.read_bytes())
    log = Log(directory / f"tried.{digest.hexdigest()[:12]}.log")
    if log.known:
        say(f"going on after {len(log.known)} candidates; remove {directory} to start anew")
    return log


#: After which a search says how far it is.
_QUIET_S = 30.0


class Search:
    """Tries candidates and keeps count of it; ``jobs`` are compiled, or judged by a farm, at once."""

    def __init__(self, judge: Judge, log: Log, jobs: int, say: Callable[[str], None]) -> None:
        self.judge, self.log, self.jobs, self.say = judge, log, max(1, jobs), say
        self.tried = self.kept = self.remembered = 0
        self._last_line_s = time.monotonic()
        self._prefetched: dict[str, str] = {}  # endings that are known before anybody has asked for them
        terminal.show_progress(lambda: f"[reduce] {self.tried} tried")

    def ending(self, case: Case) -> str:
        """Return how a candidate ends, from the log if it has been tried."""
        if case.digest in self.log.known:
            self.remembered += 1
        else:
            self.log.add(case.digest, self._prefetched.pop(case.digest, "") or self.judge.ending(case))
        return self.log.known[case.digest]

    def holds(self, case: Case) -> bool:
        """Return whether a candidate fails in the same way."""
        self.tried += 1
        if (now := time.monotonic()) - self._last_line_s > _QUIET_S:  # where no terminal shows the line of progress
            self._last_line_s = now
            self.say(f"{self.tried} tried, {self.kept} kept so far; an interrupted search goes on from here")
        return self.judge.target.holds(self.ending(case))

    def first(self, attempts: Iterable[Attempt]) -> Case | None:
        """Return the first candidate that is kept; whatever the number of jobs, it is the same one."""
        cases = self._made(attempts)
        while batch := list(islice(cases, self.jobs)):
            new = [case for case in batch if case.digest not in self.log.known and case.digest not in self._prefetched]
            if len(new) > 1:
                self._prefetched |= self.judge.prefetch(new)
            for case in batch:
                if self.holds(case):
                    return case
        return None

    def keep(self, case: Case, attempts: Callable[[Case], Iterable[Attempt]], what: str) -> Case:
        """Reduce a case until no attempt succeeds. ``attempts`` returns the attempts for a case."""
        before, tried = case, self.tried
        while (smaller := self.first(attempts(case))) is not None:
            case = smaller
            self.kept += 1
        if case is not before:
            self.say(f"{what}: {self.tried - tried} tried; {before.summary()} -> {case.summary()}")
        return case

    def _made(self, attempts: Iterable[Attempt]) -> Iterator[Case]:
        seen: set[str] = set()
        for attempt in attempts:
            try:
                case = attempt()
            except Invalid:
                continue
            if case.digest not in seen:
                seen.add(case.digest)
                yield case


def jobs_of(jobs: int) -> int:
    """Return how many candidates to compile at once; 0 stands for the number of processors."""
    return jobs or os.cpu_count() or 1


# Writes a candidate as an artifact: kernels with the fault, modules and data without it.


def write_case(case: Case, root: Path, golden: Sequence[bytes]) -> None:
    """Write it to ``root``; ``golden`` are the contents of its parameters after a run without the fault, if known."""
    places = [(code.kernel, code.path) for code in case.used]
    write_texts(root, replace(case.frame, program="reduced"), case.orchestration, places, case.external)
    for code in case.used:
        write_bytes(root / code.path, code.text(faulty=True).encode())
        unit = case.units.get(code.unit)
        if unit is not None:
            write_bytes(root / unit.where.with_suffix(".pto"), ("\n".join(unit.faulty) + "\n").encode())
            if unit.raw:
                write_bytes(root / unit.where.with_suffix(".cpp"), unit.raw.encode())
    external = case.external
    if golden:
        external = [
            replace(one, final=np.frombuffer(content, one.initial.dtype))
            for one, content in zip(case.external, golden, strict=True)
        ]
    write_data(external, root / "data", golden=bool(golden))


#: Who finds what a rule begins with, and whether it needs kernels that record what they touch.
FINDERS = {"hazards": ("hazards", True), "check": ("hazards", True), "diverge": ("diverge", False)}
ENDS = ("crash", "hang")
_FAULTS = {number: name for name, number in vars(FaultKind).items() if isinstance(number, int)}
_NO_NUMBERS = b"\xff"
#: Mismatches, the best first: of numbers, with numbers expected everywhere; of numbers, beside elements that match
#: nothing since no number is expected there; one in which wherever the outputs differ one of them is no finite number.
MISMATCHES = ("mismatch", "mismatch-beside-no-numbers", "mismatch-of-no-numbers")


@dataclass(frozen=True)
class Target:
    """The failure that a candidate must keep. ``kind`` is mismatch, crash, hang or the rule of a finding.

    ``name`` is the output of a mismatch; if it is empty, any output counts. ``cause`` names the kind of fault and the
    kernel, or the kernel of the finding.
    """

    kind: str
    name: str = ""
    cause: str = ""
    mismatches: tuple[str, ...] = MISMATCHES  # those that are as good as the first candidate's

    @property
    def twofold(self) -> bool:
        """Return whether a candidate is also run without the fault."""
        return self.kind in ("mismatch", *ENDS)

    def holds(self, ending: str) -> bool:
        """Return whether a candidate with this ending is kept."""
        word, _, rest = ending.partition(" ")
        if self.kind == "mismatch":
            return word in self.mismatches and (not self.name or self.name in rest.split())
        if word != self.kind:
            return False
        return not self.cause or rest == self.cause


@dataclass(frozen=True)
class RunLimits:
    """The timeout of a run and the tolerances of its outputs."""

    timeout_s: float
    rtol: float
    atol: float


class Judge:
    """Builds and runs candidates. Several threads may call ``built``, but only one may call ``ending``."""

    def __init__(self, builder: Builder, embedded: Path, scratch: Path, target: Target, limits: RunLimits) -> None:
        self.builder, self.embedded, self.scratch = builder, embedded, scratch
        self.target, self.limits = target, limits
        self.checked = FINDERS.get(target.kind.partition("/")[0], ("", False))[1]

    def prefetch(self, cases: Sequence[Case]) -> dict[str, str]:
        """Compile several candidates in parallel. Returns the endings that are then known, by digest."""
        with ThreadPoolExecutor(self.builder.jobs) as pool:
            list(pool.map(self.built, cases))
        return {}

    def built(self, case: Case) -> str:
        """Compile a candidate. Returns the compiler's reason to refuse it, or an empty text."""
        try:
            self._libraries(candidate_of(case))
        except Refused as refused:
            return f"refused {refused}"
        return ""

    def ending(self, case: Case) -> str:
        """Run a case and return its ending.

        That is ``pass``, ``mismatch f g``, ``crash KIND kernel``, a rule and a kernel, or ``refused …``.
        """
        root = self.scratch / "candidate"
        if not self.target.twofold:
            shutil.rmtree(root, ignore_errors=True)
            write_case(case, root, [])
        return self.ending_of(candidate_of(case), root)

    def ending_of(self, candidate: Candidate, root: Path) -> str:
        """Run a candidate and return its ending, as in `ending`. ``root`` is its artifact, for instruments that read
        it.
        """
        try:
            libraries = self._libraries(candidate)
        except Refused as refused:
            return f"refused {refused}"
        if not self.target.twofold:
            return self._finding(candidate, libraries, root)
        same = all(kernel.faulty == kernel.clean for kernel in candidate.kernels)
        run = partial(self._run, candidate, libraries)
        needed = not same or self.target.kind == "mismatch"
        clean = partial(run, faulty=False) if needed else None
        return ended(candidate.arguments, self.limits, partial(run, faulty=True), clean)

    def outputs(self, case: Case, *, faulty: bool) -> list[bytes]:
        """Run a case and return the contents of its parameters. Raises RunFault and Refused."""
        candidate = candidate_of(case)
        return self._run(candidate, self._libraries(candidate), faulty=faulty)

    def _libraries(self, candidate: Candidate) -> Mapping[tuple[str, str], Path]:
        sources = [("orchestration", candidate.orchestration)]
        for kernel in candidate.kernels:
            sources += [(kernel.core_type, kernel.faulty)]
            sources += [(kernel.core_type, kernel.clean)] if self.target.twofold else []
        return self.builder.build(sources, checked=self.checked)

    def _run(self, candidate: Candidate, libraries: Mapping[tuple[str, str], Path], *, faulty: bool) -> list[bytes]:
        kernels = tuple(
            KernelBinary(
                kernel.func_id,
                kernel.name,
                kernel.core_type,
                libraries[kernel.core_type, kernel.faulty if faulty else kernel.clean],
            )
            for kernel in candidate.kernels
        )
        options: dict[str, SettingValue] = {
            "seed": 0,
            "serial": self.target.kind == "mismatch",
            "output_dir": str(self.scratch / "records"),
        }
        job = Job(
            self.embedded,
            candidate.platform,
            kernels,
            libraries["orchestration", candidate.orchestration],
            "aicpu_orchestration_entry",
            "aicpu_orchestration_config",
            (),
            0,
            options,
        )
        return contents_after(job, candidate.arguments, self.limits.timeout_s)

    def _finding(self, candidate: Candidate, libraries: Mapping[tuple[str, str], Path], root: Path) -> str:
        """The rule and the kernel of the finding that is looked for, if an instrument has it."""
        out = self.scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        try:
            signed = sign(load_artifact(root))
        except ArtifactError as error:
            return f"refused {error}"
        write_bytes(out / "interface.json", encode_interface(signed.interface))
        binaries = out / "check" if self.checked else out
        for kernel in candidate.kernels:
            _link(binaries / f"{kernel.binary}.so", libraries[kernel.core_type, kernel.faulty])
        entry = signed.interface.orchestration
        _link(binaries / f"{entry.binary}.so", libraries["orchestration", candidate.orchestration])
        return self._ask(root, out, binaries)

    def _ask(self, root: Path, out: Path, binaries: Path) -> str:
        tool = FINDERS[self.target.kind.partition("/")[0]][0]
        report = self.scratch / "findings.json"
        report.unlink(missing_ok=True)
        words = [*own_tool(f"pypto_build.diagnose.{tool}"), str(root), "--build-dir", str(out), "--embedded"]
        words += [str(self.embedded), "--json", str(report), "--timeout", str(self.limits.timeout_s)]
        words += ["--binaries", str(binaries)] if self.checked else []
        run = run_own(words)
        if not report.is_file():
            return f"unknown {(run.stderr.strip().splitlines() or ['no report'])[-1]}"
        findings = [one for one in read_report(report).findings if one.rule == self.target.kind]
        named = [f"{one.rule} {one.kernel}".strip() for one in findings]
        return next((one for one in named if self.target.holds(one)), named[0] if named else "pass")


def ended(
    arguments: Sequence[Passed],
    limits: RunLimits,
    faulty: Callable[[], list[bytes]],
    clean: Callable[[], list[bytes]] | None,
) -> str:
    """Return how a run with the fault ends. With ``clean``, its outputs are compared with those of a run without it."""
    right: list[bytes] = []
    if clean:
        try:
            right = clean()
        except RunFault as fault:
            return f"clean {described(fault)}"
    try:
        wrong = faulty()
    except RunFault as fault:
        return described(fault)
    triples = zip(arguments, wrong, right, strict=False)
    return compared({one.name: differ(one, a, e, limits) for one, a, e in triples})


def contents_after(job: Job, arguments: Sequence[Passed], timeout_s: float) -> list[bytes]:
    """Run a job and return the contents of its parameters.

    Raises RunFault, also if a kernel wrote outside of them.
    """
    tensors = tuple(
        TensorArg(one.name, one.direction, one.dtype, one.shape, None if one.direction == "OUT" else one.initial)
        for one in arguments
    )
    binding = Binding(tensors, (), None)
    arena = Arena([tensor.nbytes for tensor in tensors])
    for index, tensor in enumerate(tensors):
        arena.fill(index, tensor.initial)
    for start, stop in arena.zones():  # who reads beyond a tensor reads no numbers
        arena.memory[start:stop] = _NO_NUMBERS * (stop - start)
    buffers = tensor_buffers(binding, arena)
    with Worker(job, buffers, Bounds(timeout_s)) as worker:
        worker.start_round()
        reply = worker.finish_round()
    beyond = any(bytes(arena.memory[a:b]).strip(_NO_NUMBERS) for a, b in arena.zones())
    if beyond or reply.input_writes:
        raise RunFault("runtime_error", ErrorInfo(OUT_OF_BOUNDS, "a kernel wrote outside of its tensors"))
    return [bytes(arena.tensor(index)) for index in range(len(tensors))]


def differ(one: Passed, faulty: bytes, clean: bytes, limits: RunLimits) -> str:
    """Return one of MISMATCHES for two contents of a parameter, or an empty text if they agree."""
    if one.direction == "IN" or faulty == clean:
        return ""
    a, e = (np.frombuffer(side, STORAGE[one.dtype]) for side in (faulty, clean))
    mask: Any = difference(a, e, one.dtype, limits.rtol, limits.atol).mask
    best, beside, none = MISMATCHES
    if not is_float(one.dtype):
        return best if mask.any() else ""
    left, right = (decode(side, one.dtype).astype(np.float64) for side in (a, e))
    both = np.isnan(left) & np.isnan(right)  # which a replay calls a mismatch too, and is no fault
    if not (mask & ~both).any():
        return ""
    if not (mask & np.isfinite(left) & np.isfinite(right)).any():
        return none
    return beside if (mask & ~np.isfinite(right)).any() else best


def compared(kinds: Mapping[str, str]) -> str:
    """`mismatch f g`, or pass: an ending, from how each of the parameters differs."""
    wrong = [name for name, how in kinds.items() if how]
    if not wrong:
        return "pass"
    return f"{max((kinds[name] for name in wrong), key=MISMATCHES.index)} {' '.join(wrong)}"


def described(fault: RunFault) -> str:
    """Describe a fault without details that change from run to run, as in `crash WILD_ACCESS kernel_mul` or `hang
    DEADLOCK`.
    """
    error = fault.error
    kind = _FAULTS.get(error.fault.kind, error.kind) if error.fault is not None else error.kind
    word = "hang" if fault.status == "hang" else "crash"
    kernel = "" if kind == OUT_OF_BOUNDS else error.kernel or ""  # which is only known after a second run
    return " ".join(part for part in (word, kind, kernel) if part)


def _link(target: Path, library: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(library.resolve())
