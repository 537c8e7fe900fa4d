"""Search for the first instruction of a kernel that differs from its module.

The kernel's C++ is compiled again with a probe behind each instruction, and the module's PyTorch is generated with
probes. Probes record the data that each instruction writes. The records are matched instruction by instruction, and the
first pair that differs names the lines.
"""

from __future__ import annotations

import difflib
import errno
import mmap
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pypto_build.artifact import load_artifact
from pypto_build.artifact.cpp.text import split_arguments
from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.files import read_bytes
from pypto_build.diagnose.diverge.lockstep import Copies, Difference, Limits, Stop, TaskFinding, compare_bytes
from pypto_build.facts.tasks import TensorView, slots_of
from pypto_build.pto.ops import TABLE
from pypto_build.pto.types import SPACES
from pypto_build.replay.reference.hook import ReferenceFault, References
from pypto_build.replay.reference.launch import Launch
from pypto_build.replay.reference.tasks import Member
from pypto_build.toolchain.host import kernel_numerics

# Search for the first instruction where a kernel and its module compute different values.

#: The environment variable with the directory that probes write to. Without it, they write nothing.
PROBE_DIRECTORY = "PYPTO_PROBE_DIR"


@dataclass(frozen=True)
class KernelParting:
    """The instruction where one kernel of a task first differs from its module. `lane` is its vector core."""

    kernel: str
    lane: int
    module: Path
    source: Path
    parting: Parting


def locate(launch: Launch, finding: TaskFinding, limits: Limits) -> list[KernelParting]:
    """Run again up to the finding's task, with probes in its kernels.

    Raises ArtifactError if a kernel with probes cannot be compiled.
    """
    directory = launch.build_dir / "diverge"
    shutil.rmtree(directory, ignore_errors=True)
    sources = {kernel.name: kernel for kernel in load_artifact(launch.artifact).kernels}
    names = dict.fromkeys(name for _, _, name in finding.kernels)
    flags = kernel_numerics(launch.numerics)
    libraries = {
        name: compile_probe(sources[name].source, name, sources[name].core_type, launch.platform, directory, flags)
        for name in names
    }
    at_task = _AtTask(launch, finding, directory)
    with suppress(Stop):
        launch.run(at_task, libraries)
    return at_task.partings(limits, {name: kernel.source for name, kernel in sources.items()})


def run_probed(call: Any, directory: Path) -> None:
    """Run a task whose kernels have probes. The probes write to a directory."""
    os.environ[PROBE_DIRECTORY] = str(directory)
    try:
        call.run()
    finally:
        del os.environ[PROBE_DIRECTORY]


class _AtTask:
    """The callback that runs the task's kernels and its PyTorch with probes, and then ends the run."""

    def __init__(self, launch: Launch, finding: TaskFinding, directory: Path) -> None:
        self.finding, self.directory = finding, directory
        self.recorder = Recorder()
        self.references = References(launch.artifact, self.recorder, launch.numerics)
        self.slots: list[Any] = []
        self.members: list[Any] = []
        self.block = 0

    def __call__(self, call: Any) -> None:
        if (call.number, call.block) != (self.finding.task, self.finding.block):
            call.run()
            return
        self.slots, self.block = slots_of(call), call.block or 0
        copies = Copies(self.slots, call)
        self.members = self.references.members(call) or []
        with suppress(ReferenceFault):  # the records before the fault are still valid
            self.references.execute(call, copies.slots)
        run_probed(call, self.directory)
        raise Stop

    def partings(self, limits: Limits, sources: Mapping[str, Path]) -> list[KernelParting]:
        partings = []
        for member in self.members:
            name, lane = member.name, member.lane
            kernel = read_events(self.directory / f"{name}.{lane}.{self.block}", self.slots)
            module = self.recorder.of(member)
            parting = find_parting(kernel, module.events, module.dtypes, limits)
            if parting is not None:
                partings.append(KernelParting(name, lane, member.body.unit.path, sources[name], parting))
        # A difference at TPOP may come from another member, so it is sorted last.
        return sorted(partings, key=lambda each: each.parting.instruction == "TPOP")


_HEADER = struct.Struct("<24sIiQIII4x")
#: The runtime's number of each memory, by its name in .pto.
_NAMES = dict(enumerate(SPACES))


@dataclass(frozen=True)
class Event:
    """The data that one instruction wrote: `rows` x `cols` elements at a byte address of a memory.

    If `space` is gm, the address counts from the start of a tensor's buffer.
    """

    line: int
    name: str
    space: str
    address: int
    rows: int
    cols: int
    data: memoryview


@dataclass(frozen=True)
class Parting:
    """The first difference between a kernel and its module: both lines, both instructions, and a description."""

    pto_line: int
    cpp_line: int
    operation: str
    instruction: str
    what: str
    difference: Difference | None = None


# --- the kernel's side ------------------------------------------------------------------------------------------------

_INSTRUCTION = re.compile(r"^(\s*)(T[A-Z0-9_]+|MGATHER|MSCATTER)(?:<[^;]*>)?\(([^;]*)\);\s*$")
_SET_VALUE = re.compile(r"^\s*(\w+)\.SetValue\([^;]*\);\s*$")
_SECOND = {"TPUSH", "TPOP"}
_KNOWN = {d.cpp for d in TABLE.values() if d.cpp and d.cpp.isupper()} | _SECOND


def instrument(source: str) -> str:
    """Return the kernel's source with a probe behind every instruction. Lines keep their numbers."""
    return "\n".join(_with_probe(line) for line in source.split("\n"))


def _with_probe(line: str) -> str:
    match = _INSTRUCTION.match(line)
    if match is not None and match[2] in _KNOWN:
        operands = split_arguments(match[3])
        position = 1 if match[2] in _SECOND else 0
        if len(operands) > position and re.fullmatch(r"\w+", operands[position]):
            return f'{line} PYPTO_PROBE("{match[2]}", {operands[position]});'
    element = _SET_VALUE.match(line)
    return f'{line} PYPTO_PROBE("SetValue", {element[1]});' if element is not None else line


def compile_probe(
    source: Path, name: str, core_type: str, platform: str, directory: Path, more_flags: Sequence[str] = ()
) -> Path:
    """Compile a kernel with probes, and return the library. Raises ArtifactError (build_error) if that fails."""
    from pypto_build.facts.platforms import PLATFORMS
    from pypto_build.toolchain.host import INCLUDE_DIR, find_compiler, kernel_flags

    text = instrument(source.read_text(encoding="utf-8"))
    directory.mkdir(parents=True, exist_ok=True)
    probed, library = directory / f"{name}.cpp", directory / f"{name}.so"
    probed.write_text(f'#line 1 "{source}"\n{text}', encoding="utf-8")
    compiler = find_compiler()
    words = [compiler.path, *kernel_flags(compiler, PLATFORMS[platform], core_type), *more_flags]
    words += ["-O0", "-I", str(INCLUDE_DIR), "-I", str(source.parent), f'-DPYPTO_PROBE_NAME="{name}"']
    words += ["-include", str(Path(__file__).with_name("probe.hpp")), "-shared", str(probed), "-o", str(library)]
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    if process.returncode:
        reason = next((line for line in process.stderr.splitlines() if "error:" in line), process.stderr.strip()[:200])
        raise ArtifactError(source, f"cannot be compiled with trace points: {reason}", kind="build_error")
    return library


def read_events(path: Path, tensors: Sequence[object]) -> list[Event]:
    """Read the records of a kernel with probes. Addresses in global memory become offsets in the task's buffers."""
    if not path.is_file():
        return []
    data, at, events = memoryview(read_bytes(path)), 0, []
    while at + _HEADER.size <= len(data):
        name, line, space, address, element, rows, cols = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        size = element * rows * cols
        if size < 0 or at + size > len(data):
            break  # the kernel ended while it wrote this record
        if space < 0:
            address = _within(address, tensors)
        text = name.rstrip(b"\0").decode(errors="replace")
        events.append(Event(line, text, _NAMES.get(space, "gm"), address, rows, cols, data[at : at + size]))
        at += size
    return events


def _within(address: int, tensors: Sequence[object]) -> int:
    for slot in tensors:
        if isinstance(slot, TensorView) and slot.buffer <= address < slot.buffer + slot.size:
            return address - slot.buffer
    return -1


# --- the module's side ------------------------------------------------------------------------------------------------


@dataclass
class Written:
    """Records of one function on one vector core, with the element type of each.

    ``scalars`` has the numeric variables of the function at each record, if the recorder keeps them.
    """

    events: list[Event] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    scalars: list[dict[str, float | int]] = field(default_factory=list)


class Recorder:
    """The function `_probe` of the generated PyTorch. `kept` is a file for data that may not fit into memory."""

    def __init__(self, with_scalars: bool = False, kept: Path | None = None) -> None:
        self._recorded: dict[tuple[str, int], Written] = {}
        self._with_scalars = with_scalars
        self._kept = _Kept(kept) if kept is not None else None

    def of(self, member: Member) -> Written:
        """Return the records of a member of a task."""
        return self._recorded.get((member.body.call.__name__, member.lane), Written())

    def clear(self) -> None:
        """Forget all records. Results of `of` stay valid."""
        self._recorded.clear()

    def __call__(self, line: int, name: str, target: object) -> None:
        import sys

        frame = sys._getframe(1)
        key = frame.f_code.co_name, frame.f_globals.get("_current_sb", [0])[0]
        recorded = self._recorded.setdefault(key, Written())
        event, dtype = _event(line, name, target)
        if self._kept is not None:
            event = replace(event, data=self._kept.add(event.data))
        recorded.events.append(event)
        recorded.dtypes.append(dtype)
        if self._with_scalars:
            recorded.scalars.append({n: v for n, v in frame.f_locals.items() if isinstance(v, int | float)})


class _Kept:
    """Bytes in an unlinked file, which is mapped into memory."""

    _PIECE = 64 << 20

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.open("w+b", buffering=0)
        path.unlink()
        self._piece, self._used, self._size = memoryview(b""), 0, 0

    def add(self, data: memoryview) -> memoryview:
        """Write bytes to the file, and return their mapped copy."""
        if self._used + len(data) > len(self._piece):
            more = -(-max(len(data), self._PIECE) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
            self._file.truncate(self._size + more)
            descriptor = self._file.fileno()
            self._piece = memoryview(mmap.mmap(descriptor, more, access=mmap.ACCESS_READ, offset=self._size))
            self._file.seek(self._size)
            self._size, self._used = self._size + more, 0
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise ArtifactError(self._path, f"cannot be written: {error.strerror}", "free disk space there") from None
        self._used += len(data)
        return self._piece[self._used - len(data) : self._used]


def _event(line: int, name: str, target: Any) -> tuple[Event, str]:
    import torch

    if hasattr(target, "memory"):
        rows, cols = target.valid
        value, own = target.read(rows, cols), target.memory
        space = own.space
        address = target.address if own.space else -1
    else:
        value = target.elements()
        rows, cols = value.numel() // max(value.shape[-1], 1), value.shape[-1]
        space = "gm"
        address = target.start.offset * value.element_size()
    dtype = str(value.dtype).removeprefix("torch.")
    raw = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
    return Event(line, name, space, address, rows, cols, memoryview(raw)), dtype


# --- matching ---------------------------------------------------------------------------------------------------------

# Instructions with the same effect on their target, mapped to one name that stands for all of them.
_SAME = {row.cpp: "TFILLPAD" for row in TABLE.values() if row.family == "fillpad"}
_SAME |= {"TMOV": "TEXTRACT", "TINSERT": "TEXTRACT", "TRESHAPE": "TEXTRACT"}


def instruction_of(operation: str) -> str:
    """Return the C++ instruction of a .pto operation."""
    name = operation.removeprefix("pto.")
    if name.startswith(("tpush", "tpop")):
        return name[:5].upper() if name.startswith("tpush") else "TPOP"
    row = TABLE[operation]
    if row.family == "ternary":
        return "TADD"  # it becomes two instructions, and TADD writes the result
    return "SetValue" if "SetValue" in row.cpp else row.cpp


def find_parting(
    kernel: Sequence[Event], module: Sequence[Event], dtypes: Sequence[str], limits: Limits
) -> Parting | None:
    """Return the first instruction that differs from its counterpart in values, address or number of elements."""
    matched: dict[int, int] = {}  # lines of the module, and the matching lines of the kernel
    for kind, here, there in pairs([e.name for e in kernel], [instruction_of(e.name) for e in module]):
        if kind == "equal":
            matched[module[there].line] = kernel[here].line
            parting = _compare(kernel[here], module[there], dtypes[there], limits)
            if parting is not None:
                return parting
        else:
            parting = _structural(kind, kernel, module, here, there)
            return replace(parting, what=f"{parting.what}{_rounds(kernel, module, matched, parting)}")
    return None


def _rounds(kernel: Sequence[Event], module: Sequence[Event], matched: dict[int, int], parting: Parting) -> str:
    """Return how often each side's loop ran, or an empty text if both ran equally often."""
    here = matched.get(parting.pto_line, parting.cpp_line)
    there = parting.pto_line if parting.pto_line in matched else next((t for t, h in matched.items() if h == here), 0)
    mine, theirs = (sum(event.line == line for event in side) for side, line in ((kernel, here), (module, there)))
    differ = mine and theirs and mine != theirs
    return f"; the loop of line {here} ran {mine} rounds, in the module {theirs}" if differ else ""


def pairs(kernel: Sequence[str], module: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the positions of matching instructions ("equal"), and of differences between the sides."""
    left, right = ([_SAME.get(name, name) for name in side] for side in (kernel, module))
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        yield "equal", same, same
        same += 1
    window = 2000  # instructions that are compared after the first difference
    matcher = difflib.SequenceMatcher(None, left[same : same + window], right[same : same + window], autojunk=False)
    for tag, i, i_end, j, _ in matcher.get_opcodes():
        if tag == "equal":
            for step in range(i_end - i):
                yield "equal", same + i + step, same + j + step
        elif tag == "delete" and set(left[same + i : same + i_end]) <= {"TADD", "TSUB", "TADDS", "TSUBS", "TEXTRACT"}:
            continue  # extra instructions of an operation that becomes several
        else:
            yield tag, same + i, same + j


def _structural(kind: str, kernel: Sequence[Event], module: Sequence[Event], here: int, there: int) -> Parting:
    mine = kernel[here] if here < len(kernel) else None
    theirs = module[there] if there < len(module) else None
    if theirs is None:
        assert mine is not None
        last = module[-1].line if module else 0
        return Parting(last, mine.line, "", mine.name, f"the kernel executes {mine.name} where the module has ended")
    instruction = instruction_of(theirs.name)
    if mine is None:
        last = kernel[-1].line if kernel else 0
        return Parting(theirs.line, last, theirs.name, "", f"the kernel ends where the module executes {theirs.name}")
    what = f"the kernel executes {mine.name}, but the module has {theirs.name} here ({instruction})"
    if kind == "insert":
        what = f"the kernel executes {mine.name} next and leaves out {theirs.name} ({instruction})"
    return Parting(theirs.line, mine.line, theirs.name, mine.name, what)


def _compare(kernel: Event, module: Event, dtype: str, limits: Limits) -> Parting | None:
    both = (module.line, kernel.line, module.name, kernel.name)
    if kernel.space == "gm" and module.space == "gm" and kernel.address != module.address:
        return Parting(
            *both, f"it writes at byte {kernel.address} of the tensor's buffer, the module at {module.address}"
        )
    if (kernel.rows, kernel.cols) != (module.rows, module.cols) and len(kernel.data) != len(module.data):
        return Parting(
            *both, f"it writes {kernel.rows} x {kernel.cols} elements, the module {module.rows} x {module.cols}"
        )
    difference = (
        compare_bytes(kernel.data, module.data, dtype, limits) if len(kernel.data) == len(module.data) else None
    )
    if difference is not None:
        return Parting(*both, "it writes other values", difference)
    if -1 not in (kernel.address, module.address) and kernel.address != module.address and kernel.name != "TPOP":
        return Parting(
            *both, f"its tile lies at byte {kernel.address} of {kernel.space}, in the module at {module.address}"
        )
    return None
