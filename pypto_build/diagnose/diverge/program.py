"""Comparison of an artifact with its program, to find out whether a module or the orchestration is wrong.

It runs if every kernel agrees with its module. The program's PyTorch runs first and records its kernel calls with their
arguments. The artifact's tasks must be the same calls, and each module must compute the same as the program's kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.diverge.findings import MODULE, ORCHESTRATION, element_text, relative
from pypto_build.diagnose.diverge.lockstep import Copies, Difference, Limits, Stop, compare, window
from pypto_build.diagnose.findings import Finding, Related
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.facts.tasks import TensorView, slots_of
from pypto_build.replay.compare import coordinates
from pypto_build.replay.reference.hook import References
from pypto_build.replay.reference.launch import Launch, Progress, in_child
from pypto_build.replay.reference.tasks import scalar_of

if TYPE_CHECKING:
    from pypto_build.compiler.ir import IrFunction, IrParam
    from pypto_build.compiler.language import JitFunction
    from pypto_build.compiler.torch_program import Translation
    from pypto_build.facts.positions import SourcePosition


@dataclass(frozen=True)
class CalledTensor:
    """A tensor of a call: its memory, the offset of its first byte there, and its shape."""

    storage: int
    offset: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One kernel call of the program, with its position in the source."""

    kernel: str
    tensors: tuple[CalledTensor, ...]
    scalars: tuple[tuple[str, float], ...]  # (element type, value)
    blocks: int
    position: SourcePosition | None


@dataclass
class ProgramText:
    """A program's PyTorch and its typed functions."""

    path: Path
    translation: Translation
    functions: dict[str, IrFunction]
    entry: str
    modules: dict[str, str] = field(default_factory=dict)  # unit -> the module that the compiler makes of it today

    def namespace(self) -> dict[str, Any]:
        """Execute the text and return the names that it defines."""
        namespace: dict[str, Any] = {}
        exec(compile(self.translation.text, f"<{self.path.name}>", "exec"), namespace)
        return namespace

    def named(self, function: str) -> str:
        """Return the name that a function of the program has in the text."""
        return self.translation.names[function]


def check_program(launch: Launch, path: Path, limits: Limits, timeout_s: float) -> list[Finding]:
    """Return the differences between the artifact and the program at ``path``, in modules and orchestration."""
    return in_child(lambda: _with_program(launch, path, limits), Progress(), timeout_s)


def read_program(path: Path, name: str, platform: str) -> ProgramText:
    """Return a program's PyTorch and its modules as compiled now. `name` chooses one of several orchestrations.

    Raises CompileError.
    """
    from pypto_build.compiler.driver import compile_entry

    read, entry = translate_program(path, name, platform)
    for file, text in compile_entry(entry, path.parent, platform).items():
        if file.startswith("ptoas/") and file.endswith(".pto"):
            read.modules[Path(file).stem] = text
    return read


def translate_program(path: Path, name: str, platform: str, text: str = "") -> tuple[ProgramText, JitFunction]:
    """Return the PyTorch of a program, and its orchestration. ``text`` replaces the program's text if it is not empty.

    Raises CompileError.
    """
    from pypto_build.compiler.frontend import build_program
    from pypto_build.compiler.load import entries_of, load_module
    from pypto_build.compiler.torch_program import translated, typed_program

    entries = entries_of(load_module(str(path), text))
    entry = next((e for e in entries if e.name == name), entries[0])
    program = typed_program(build_program(entry, platform))
    return ProgramText(path, translated(program), program.functions, program.entries[0].name), entry


def _with_program(launch: Launch, path: Path, limits: Limits) -> list[Finding]:
    import torch

    torch.set_num_threads(1)
    program = read_program(path, Path(launch.interface.orchestration.source).stem, launch.platform)
    _require_match(launch, program)
    try:
        calls = record_calls(launch, program)
    except Exception as error:  # the program's own code may raise anything
        raise ArtifactError(path, f"does not run on the artifact's inputs: {_one_line(error)}", _NAME_IT) from None
    judge = _Judge(launch, program, calls, limits)
    with suppress(Stop):
        launch.run(judge)
        judge.ended()
    return judge.findings


_NAME_IT = "pass the program that the artifact was built from as PROGRAM=FILE"


def _require_match(launch: Launch, program: ProgramText) -> None:
    """Raise ArtifactError if the program's parameters differ from the artifact's."""
    takes = [param.variable for param in program.functions[program.entry].params]
    names = [*(t.name for t in launch.binding.tensors), *(s.name for s in launch.binding.scalars)]
    if set(takes) != set(names):
        text = f"this artifact was built from another program: '{program.entry}' takes {', '.join(takes)}"
        raise ArtifactError(program.path, f"{text}, but the artifact takes {', '.join(names)}", _NAME_IT)
    shapes = {tensor.name: tuple(tensor.shape) for tensor in launch.binding.tensors}
    for param in program.functions[program.entry].tensors():
        declared, there = param.type.shape, shapes[param.variable]
        fits = len(declared) == len(there) and all(
            not isinstance(a, int) or a == b for a, b in zip(declared, there, strict=True)
        )
        if not fits:
            text = f"this artifact was built from another program: '{param.variable}' has shape {list(declared)} here"
            raise ArtifactError(program.path, f"{text}, but {list(there)} in the artifact", _NAME_IT)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


# --- the program's calls ----------------------------------------------------------------------------------------


def record_calls(launch: Launch, program: ProgramText) -> list[Call]:
    """Run the program on the launch's inputs, and return its kernel calls in order."""
    namespace = program.namespace()
    calls: list[Call] = []
    kept: list[Any] = []  # keeps memory from being reused by another tensor
    for name, function in program.functions.items():
        if function.kind == "kernel":
            named = program.named(name)
            namespace[named] = _recorded(name, namespace[named], namespace, program, calls, kept)
    values = arguments(launch, program.functions[program.entry])
    indices = {tensor.name: index for index, tensor in enumerate(launch.binding.tensors)}
    numbers = {
        value.untyped_storage().data_ptr(): -1 - indices[name] for name, value in values.items() if name in indices
    }
    namespace[program.named(program.entry)](*values.values())
    return [_renumbered(call, numbers) for call in calls]


def arguments(launch: Launch, entry: IrFunction) -> dict[str, Any]:
    """Return the program's arguments by parameter: copies of the launch's inputs, and its scalars."""
    import torch

    values: dict[str, Any] = {}
    tensors = {tensor.name: (tensor, index) for index, tensor in enumerate(launch.binding.tensors)}
    scalars = {scalar.name: scalar.value for scalar in launch.binding.scalars}
    for index, tensor in enumerate(launch.binding.tensors):
        launch.arena.fill(index, tensor.initial)
    for param in entry.params:
        if param.variable in scalars:
            values[param.variable] = scalars[param.variable]
            continue
        tensor, index = tensors[param.variable]
        raw = torch.frombuffer(bytearray(launch.arena.tensor(index)), dtype=torch.uint8)
        values[param.variable] = raw.view(getattr(torch, tensor.dtype)).reshape(tensor.shape)
    return values


def _renumbered(call: Call, external: dict[int, int]) -> Call:
    """Return a call whose parameters of the program are identified by negative numbers, from -1 down."""
    tensors = tuple(CalledTensor(external.get(t.storage, t.storage), t.offset, t.shape) for t in call.tensors)
    return replace(call, tensors=tensors)


def _recorded(
    name: str,
    kernel: Callable[..., None],
    namespace: dict[str, Any],
    program: ProgramText,
    calls: list[Call],
    kept: list[Any],
) -> Callable[..., None]:
    import sys

    places = program.translation.places
    dtypes = [p.type.dtype.pto for p in program.functions[name].scalars()]

    def record(*arguments: Any) -> None:
        block, blocks = namespace.get("_program_block", [0, 1])
        if block == 0:
            frame = sys._getframe(1)
            while frame.f_code.co_name == "spmd" and frame.f_back is not None:
                frame = frame.f_back
            tensors = [a for a in arguments if hasattr(a, "shape")]
            kept.extend(tensors)
            numbers = [a for a in arguments if not hasattr(a, "shape")]
            called = tuple(
                CalledTensor(t.untyped_storage().data_ptr(), t.storage_offset() * t.element_size(), tuple(t.shape))
                for t in tensors
            )
            scalars = tuple(zip(dtypes, numbers, strict=True))
            calls.append(Call(name, called, scalars, blocks, places.get(frame.f_lineno)))
        kernel(*arguments)

    return record


# --- the artifact's tasks ----------------------------------------------------------------------------------------


class _Judge:
    """The callback of the artifact's run.

    It reports the first task that differs from the program's call, or whose module differs from the program's kernel.
    """

    def __init__(self, launch: Launch, program: ProgramText, calls: list[Call], limits: Limits) -> None:
        self.launch, self.program, self.calls, self.limits = launch, program, calls, limits
        self.references = References(launch.artifact, numerics=launch.numerics)
        self.kernels = program.namespace()
        self.findings: list[Finding] = []
        self.bases: dict[int, int] = {
            -1 - i: _address(launch.arena.tensor(i)) for i in range(len(launch.binding.tensors))
        }
        self.tasks = 0

    def __call__(self, call: Any) -> None:
        self.tasks = max(self.tasks, call.number + 1)
        expected = self.calls[call.number] if call.number < len(self.calls) else None
        if not call.block:
            wrong = self._orchestration(call, expected)
            if wrong:
                self._report(call, expected, *wrong)
        assert expected is not None
        self._module(call, expected)
        call.run()

    def ended(self) -> None:
        """Report a run that ended with fewer tasks than the program has calls."""
        if self.tasks < len(self.calls):
            expected = self.calls[self.tasks]
            text = f"the orchestration ends after {self.tasks} tasks, the program goes on to {expected.kernel}"
            self.findings.append(self._orchestration_finding(text, (), expected))

    def _orchestration(self, call: Any, expected: Call | None) -> tuple[str, str] | None:
        """Return the first difference of a task from the program as (what the task does, the program's part).

        Returns None if they agree.
        """
        names = [name for _, _, name in call.kernels]
        if expected is None:
            return f"submits {'+'.join(names)}", f"the program ends after {len(self.calls)} kernels"
        if any(expected.kernel not in (name, re.sub(r"_ai[cv]$", "", name)) for name in names):
            return f"submits {'+'.join(names)}", f"the program calls {expected.kernel}"
        if call.block_num != expected.blocks:
            return f"runs on {call.block_num} blocks", f"in the program on {expected.blocks}"
        slots = slots_of(call)
        tensors = [s for s in slots if isinstance(s, TensorView)]
        for number, (slot, tensor) in enumerate(zip(tensors, expected.tensors, strict=False)):
            name = self._parameter(expected, number)
            if tuple(slot.shape) != tensor.shape:
                return f"gives {name} the shape {list(slot.shape)}", f"in the program it is {list(tensor.shape)}"
            size = ITEMSIZE[slot.dtype]
            address = slot.buffer + slot.offset * size
            base = self.bases.setdefault(tensor.storage, address - tensor.offset)
            if slot.buffer != base and not slot.buffer <= base < slot.buffer + slot.size:
                return f"gives {name} another tensor", "than the program does"
            if address != base + tensor.offset:
                return (
                    f"gives {name} a view that starts {_elements(address - base, size)} into its tensor",
                    f"in the program it starts {_elements(tensor.offset, size)} into it",
                )
        numbers = [s for s in slots if isinstance(s, int)]
        for number, (bits, (dtype, value)) in enumerate(zip(numbers, expected.scalars, strict=False)):
            actual = scalar_of(bits, dtype)
            if actual != value and not (isinstance(value, float) and abs(actual - value) <= 1e-6 * abs(value)):
                scalars = self.program.functions[expected.kernel].scalars()
                return f"passes {scalars[number].variable} = {actual}", f"in the program it is {value}"
        return None

    def _parameter(self, expected: Call, number: int) -> str:
        return self.program.functions[expected.kernel].tensors()[number].variable

    def _report(self, call: Any, expected: Call | None, what: str, instead: str) -> None:
        names = "+".join(dict.fromkeys(name for _, _, name in call.kernels))
        text = f"task {call.number} {names}: the orchestration {what}; {instead}"
        self.findings.append(self._orchestration_finding(text, (call.number,), expected))
        raise Stop

    def _orchestration_finding(self, text: str, tasks: tuple[int, ...], expected: Call | None) -> Finding:
        source = self.launch.artifact / "orchestration" / Path(self.launch.interface.orchestration.source).name
        line = _submit_line(source, expected)
        related: tuple[Related, ...] = ()
        if expected is not None and expected.position is not None:
            position = expected.position
            related = (Related(position.path, position.line, f"the program calls '{expected.kernel}' here"),)
        hint = "correct the orchestration, or compile the program again; the kernels and their modules are right"
        return Finding(
            ORCHESTRATION, text, relative(self.launch.artifact, source), line, hint, tasks=tasks, related=related
        )

    def _module(self, call: Any, expected: Call) -> None:
        """Run the task's module and the program's kernel on the same bytes, and report a difference."""
        slots = slots_of(call)
        ours, theirs = Copies(slots, call), Copies(slots, call)
        if not self.references.execute(call, ours.slots):
            return
        tensors = [s for s in theirs.slots if isinstance(s, TensorView)][: len(expected.tensors)]
        arguments: list[Any] = [_tensor(slot) for slot in tensors]
        parameters = iter([*arguments, *(value for _, value in expected.scalars)])
        kernel = self.kernels[self.program.named(expected.kernel)]
        order = self.program.functions[expected.kernel].params
        values = _in_order(order, list(parameters))
        for block in [call.block] if call.block is not None else range(call.block_num):
            if "_program_block" in self.kernels:
                self.kernels["_program_block"][:] = [block, call.block_num]
            kernel(*values)
        for number, (mine, other) in enumerate(zip(ours.slots, theirs.slots, strict=True)):
            if not isinstance(mine, TensorView) or not isinstance(other, TensorView):
                continue
            if mine.buffer == other.buffer:  # an input
                continue
            actual, reference = np.ascontiguousarray(window(mine)), np.ascontiguousarray(window(other))
            difference = compare(actual, reference, mine.dtype, self.limits)
            if difference is not None and number < len(expected.tensors):
                self._report_module(call, expected, number, mine, difference)

    def _report_module(self, call: Any, expected: Call, number: int, slot: TensorView, difference: Difference) -> None:
        names = "+".join(dict.fromkeys(name for _, _, name in call.kernels))
        body = self.references.members(call)
        path = body[0].body.unit.path if body else self.launch.artifact
        line, lines = self._changed_lines(path)
        index = coordinates(difference.first, slot.shape)
        name = self._parameter(expected, number)
        sides = ("module", "program")
        detail = element_text(number, name, slot.shape, slot.dtype, index, difference, sides=sides)
        position = self.program.functions[expected.kernel].position
        text = f"task {call.number} {names}: the module computes something else than the program's {expected.kernel}"
        self.findings.append(
            Finding(
                MODULE, text,
                relative(self.launch.artifact, path), line,
                "correct the module, or compile the program again; the kernel agrees with its module",
                detail=(*detail, *lines), tasks=(call.number,), kernel=names,
                related=(Related(position.path, position.line, "the program defines this kernel here"),),
            )
        )  # fmt: skip
        raise Stop

    def _changed_lines(self, path: Path) -> tuple[int, list[str]]:
        """Return the line and the text of the first difference between the module and its compilation now.

        The line is 0 if there is no difference.
        """
        from pypto_build.pto import parse, parse_file
        from pypto_build.pto.diff import diff_modules

        fresh = self.program.modules.get(path.stem)
        if fresh is None:
            return 0, []
        differences = diff_modules(parse_file(str(path)), parse(fresh, path.name))
        if not differences:
            return 0, []
        first = differences[0]
        shown = [f"- {path.name}:{number}: {text}" for number, text in first.removed[:3]]
        shown += [f"+ as compiled today: {text}" for _, text in first.added[:3]]
        return first.removed[0][0] if first.removed else 0, shown


def _in_order(params: Sequence[IrParam], values: list[Any]) -> list[Any]:
    """Return values in the order of a kernel's parameters."""
    from pypto_build.compiler.ir import TensorParam

    tensors = [v for v in values if hasattr(v, "shape")]
    scalars = [v for v in values if not hasattr(v, "shape")]
    return [tensors.pop(0) if isinstance(param, TensorParam) else scalars.pop(0) for param in params]


def _tensor(slot: TensorView) -> Any:
    import torch

    from pypto_build.replay.reference.tasks import memory

    dtype = getattr(torch, slot.dtype)
    whole = memory(slot.buffer, slot.size)[: slot.size // dtype.itemsize * dtype.itemsize].view(dtype)
    return torch.as_strided(whole, slot.shape, slot.strides, slot.offset)


def _address(data: memoryview) -> int:
    return int(np.frombuffer(data, dtype=np.uint8).ctypes.data) if len(data) else 0


def _elements(count: int, size: int) -> str:
    return f"{count // size} elements" if count % size == 0 else f"{count} bytes"


def _submit_line(source: Path, expected: Call | None) -> int:
    """Return the line with a comment that names the kernel (`// Task N: kernel`), or 0 unless exactly one does."""
    if expected is None or not source.is_file():
        return 0
    lines = read_source(source).splitlines()
    named = [
        number for number, line in enumerate(lines, 1) if re.search(rf"//.*\b{re.escape(expected.kernel)}\b", line)
    ]
    return named[0] if len(named) == 1 else 0
