"""Kernel files (wrappers) made from a module: preamble, body between sentinels, and `kernel_entry`, which unpacks the
argument array and calls the kernel function.

The array holds all tensors, then all scalars, in the order in which the orchestration adds them. A kernel function
takes them in that order, then the dynamic extents of its tensors, then what the launch tells it. Facts: PyPTO's
wrappers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from .cpp.emitter import SCALARS, CppNames, UnsupportedCppType, scalar
from .model import Argument, Function, Module, int_value
from .ops import TABLE
from .resolve import Resolved, Value, resolve
from .splice import BODY_SENTINEL
from .types import PtrType, ScalarType, Type, parse_type

_WORD = parse_type("i64")  # what a CommContext is read as
_SCALARS = ("scalar", "context")
ENTRY_SENTINEL = "// --- Kernel entry point ---"

_PREAMBLE = """\
#include <cstdint>

#ifndef __gm__
#define __gm__
#endif

#ifndef __aicore__
#if defined(__CPU_SIM)
#define __aicore__
#else
#define __aicore__ [aicore]
#endif
#endif
"""
_BRIDGE = """\
#if !defined(__CPU_SIM)
#include "intrinsic.h"

// The two vector cores of a group run this kernel; get_subblockid() tells them apart.
[[block_local]] static int32_t pypto_runtime_subblock_id;
#define get_subblockid() pypto_runtime_subblock_id
#endif
"""
#: Values of a launch: the parameter's name, and the call that gives it.
LAUNCH = {
    "__pypto_spmd_block_idx": "get_block_idx(args)",
    "__pypto_spmd_block_num": "get_block_num(args)",
    "__pypto_spmd_subblock_idx": "get_sub_block_id(args)",
}


@dataclass(frozen=True)
class Passed:
    """The value that `kernel_entry` passes for one parameter.

    `kind` is tensor, scalar, context, extent or launch. `ctype` is the type of a tensor's elements; a context is a
    scalar, the address of a CommContext, read as words of `ctype`. `slot` is the index in the argument array of
    tensors, scalars and contexts. `value` is the C++ expression of extents and launch ids. `shared` marks the buffer of
    a pipe, of which every block has a part.
    """

    kind: str
    name: str
    ctype: str
    slot: int = 0
    value: str = ""
    shared: bool = False


def launched(name: str) -> Passed:
    """Return the parameter for a value of the launch, one of `LAUNCH`."""
    return Passed("launch", name, "int32_t", value=LAUNCH[name])


@dataclass(frozen=True)
class Payload:
    """The numbers of tensors and scalars that the orchestration passes to a kernel."""

    tensors: int
    scalars: int


class _Slots:
    """Assigns positions in the argument array. Raises PtoError naming the parameter without a position."""

    def __init__(self, function: Function, module: Module, payload: Payload | None) -> None:
        self.function = function
        self.module = module
        self.payload = payload or Payload(sum(isinstance(a.type, PtrType) for a in function.args), len(function.args))
        self.resolved = resolve(function, module)
        self.taken: set[int] = set()
        by_block = any(cpp_name(a) == "__pypto_spmd_block_idx" for a in function.args)
        self.pipes = set(_pipe_buffers(self.resolved)) if by_block else set()

    def passed(self, number: int, argument: Argument, tensors: list[Passed]) -> Passed:
        """Return the source of a parameter's value; `tensors` are the earlier tensor parameters."""
        try:
            return self._passed(number, argument, tensors)
        except UnsupportedCppType:
            raise self.module.error(
                self.function,
                f"argument {number} ({argument.name}: {argument.type}) cannot be passed to a kernel: it takes pointers "
                "and numbers",
            ) from None

    def _passed(self, number: int, argument: Argument, tensors: list[Passed]) -> Passed:
        name = cpp_name(argument)
        if name in LAUNCH:
            return launched(name)
        slot = self.free(0, self.payload.tensors)
        if isinstance(argument.type, PtrType) and slot is not None:
            self.taken.add(slot)
            return Passed("tensor", name, scalar(argument.type.element), slot, shared=number in self.pipes)
        slot = self.free(self.payload.tensors, self.payload.scalars)
        if isinstance(argument.type, PtrType) and slot is not None and argument.type.element == _WORD:
            self.taken.add(slot)
            return Passed("context", name, scalar(argument.type.element), slot)
        if slot is not None and not isinstance(argument.type, PtrType):
            self.taken.add(slot)
            return Passed("scalar", name, scalar(argument.type), slot)
        extent = self.extent(number, tensors)
        if extent:
            return Passed("extent", name, "int64_t", value=extent)
        counts = f"{self.payload.tensors} tensors and {self.payload.scalars} scalars"
        what = f"argument {number} ({argument.name}: {argument.type})"
        raise self.module.error(self.function, f"{what} has no value: the orchestration passes {counts}")

    def free(self, first: int, count: int) -> int | None:
        """Return the first of `count` free positions; None if there are none."""
        return next((slot for slot in range(first, first + count) if slot not in self.taken), None)

    def extent(self, number: int, tensors: list[Passed]) -> str:
        """Return the tensor extent that is this parameter; empty if no view has it."""
        parameter, candidates = self.resolved.arguments[number], []
        for op in self.function.walk():
            if op.name != "pto.make_tensor_view":
                continue
            pointer = self.resolved.value(op, "ptr")
            for axis, extent in enumerate(self.resolved.values(op, "shape")):
                undo = _inverse(self.resolved, extent, parameter)
                if undo is not None and pointer is not None and pointer.is_argument:
                    candidates.append((pointer.number, axis, undo))
        for pointer_number, axis, undo in sorted(candidates, key=lambda candidate: candidate[:2]):
            tensor = next((t for t in tensors if t.name == cpp_name(self.function.args[pointer_number])), None)
            if tensor is not None:
                return undo(f"static_cast<int64_t>({tensor.name}_tensor->shapes[{axis}])")
        return ""


def _inverse(resolved: Resolved, extent: Value, target: Value) -> Callable[[str], str] | None:
    """Return the function that computes `target` back from an extent that was computed from it."""
    if extent is target:
        return lambda text: text
    op = extent.op
    if op is None or TABLE[op.name].fn not in ("add", "sub", "mul") or "lhs" not in op.operands:
        return None
    lhs, rhs = resolved.value(op, "lhs"), resolved.value(op, "rhs")
    if lhs is None or rhs is None or rhs.constant is None:
        return None
    inner = _inverse(resolved, lhs, target)
    sign = {"add": "-", "sub": "+", "mul": "/"}[TABLE[op.name].fn]
    return None if inner is None else lambda text, c=rhs.constant: inner(f"({text} {sign} {c})")  # type: ignore[misc]


def _pipe_buffers(resolved: Resolved) -> Iterator[int]:
    """Yield the parameters that are buffers of pipes in global memory."""
    for op in resolved.function.walk():
        if "gm_slot_buffer" in op.operands:
            value = resolved.value(op, "gm_slot_buffer")
            if value is not None and value.is_argument:
                yield value.number


def cpp_name(argument: Argument) -> str:
    """Return a parameter's name in C++."""
    return CppNames().new(argument.name)


def plan_arguments(function: Function, module: Module, payload: Payload | None) -> tuple[Passed, ...]:
    """Return the values that `kernel_entry` passes for a function's parameters; `payload` is None where it is unknown.

    Raises PtoError naming the first parameter that has no value.
    """
    slots = _Slots(function, module, payload)
    plan: list[Passed] = []
    for number, argument in enumerate(function.args):
        plan.append(slots.passed(number, argument, [p for p in plan if p.kind == "tensor"]))
    return tuple(plan)


def refit_arguments(
    function: Function, module: Module, old: tuple[Passed, ...], payload: Payload | None
) -> tuple[Passed, ...]:
    """Return the values that `kernel_entry` has to pass after the parameters changed.

    A parameter still called `%argK` was number K. The others are new: they get the orchestration's arguments beyond
    those of the old `kernel_entry`, an extent of a tensor, or a launch value. Raises PtoError naming the first
    parameter that has no value or another type than before.
    """
    before = Payload(sum(p.kind == "tensor" for p in old), sum(p.kind in _SCALARS for p in old))
    payload = payload or before
    shift = payload.tensors - before.tensors  # scalars lie behind the tensors
    kept = {number: _kept(argument, old, shift) for number, argument in enumerate(function.args)}
    slots = _Slots(function, module, payload)
    slots.taken = {p.slot for p in kept.values() if p is not None and p.kind in ("tensor", *_SCALARS)}
    slots.taken |= {p.slot + (shift if p.kind in _SCALARS else 0) for p in old if p.kind in ("tensor", *_SCALARS)}
    plan: list[Passed] = []
    for number, argument in enumerate(function.args):
        same = kept[number]
        if same is not None and not _fits(argument, same):
            what = f"{same.ctype}*" if same.kind in ("tensor", "context") else same.ctype
            raise module.error(
                function,
                f"argument {number} ({argument.name}: {argument.type}) no longer fits: kernel_entry passes {what} "
                f"{same.name}, which the orchestration decides",
            )
        tensors = [p for p in plan if p.kind == "tensor"]
        if same is not None and same.kind == "extent" and not any(f"{t.name}_tensor" in same.value for t in tensors):
            same = None  # its tensor is no longer taken
        plan.append(same or slots.passed(number, argument, tensors))
    return tuple(plan)


def _kept(argument: Argument, old: tuple[Passed, ...], shift: int) -> Passed | None:
    numbered = re.fullmatch(r"%arg(\d+)", argument.name)
    if numbered:
        number = int(numbered[1])
        previous = old[number] if number < len(old) else None
    else:
        previous = next((p for p in old if p.kind == "launch" and p.name == cpp_name(argument)), None)
    return (
        replace(previous, slot=previous.slot + shift)
        if previous is not None and previous.kind in _SCALARS
        else previous
    )


def _fits(argument: Argument, passed: Passed) -> bool:
    """Return whether the passed value fits: tensors keep their element type; integers convert as in C++."""
    type_ = argument.type
    if isinstance(type_, PtrType):
        return passed.kind in ("tensor", "context") and type_.element in _elements(passed.ctype)
    if not isinstance(type_, ScalarType) or passed.kind in ("tensor", "context"):
        return False
    return scalar(type_) == passed.ctype or not (type_.is_float or _is_float(passed.ctype))


def _elements(ctype: str) -> list[Type]:
    """Return the element types whose C++ type is `ctype`."""
    return [parse_type(name) for name, text in SCALARS.items() if text == ctype]


def _is_float(ctype: str) -> bool:
    return "float" in ctype or ctype in ("half", "double", "bfloat16_t")


# --- text --------------------------------------------------------------------------------------------------------


def write_wrapper(
    function: str, body: str, passed: tuple[Passed, ...], tensor_class: str = "ChipTensor", *, bridge: bool = False
) -> str:
    """Return a whole kernel file around `body`; `tensor_class` is the vintage's name of the tensor class. With
    `bridge`, both vector cores of a group run the kernel and read from the launch which core they are.
    """
    ids = any(p.kind == "launch" or p.shared for p in passed)
    parts = [
        f"// Kernel Function: {function}\n// Generated by pypto-build, in the form of PyPTO's PTO backend\n",
        _PREAMBLE,
        *([_BRIDGE] if bridge else []),
        "#include <pto/pto-inst.hpp>\n"
        + ('#include "pto/comm/pto_comm_inst.hpp"\n' if any(p.kind == "context" for p in passed) else "")
        + '#include "tensor.h"\n'
        + ('#include "intrinsic.h"\n' if ids else "")
        + "\nusing namespace pto;\n",
        f"{BODY_SENTINEL}\n{body.strip(chr(10))}\n",
        write_entry(function, passed, tensor_class, bridge=bridge),
    ]
    return "\n".join(parts)


def bridges_subblock(function: Function, module: Module) -> bool:
    """Return whether the function runs on both vector cores of a group and depends on which one it is."""
    cores = {f.kernel_kind for f in module.functions()}
    if function.kernel_kind != "vector" or "cube" not in cores or function.body is None:
        return False
    named = any(cpp_name(a) == "__pypto_spmd_subblock_idx" for a in function.args)
    return named or any(int_value(op.attrs.get("split")) or op.name == "pto.get_subblock_idx" for op in function.walk())


def write_entry(function: str, passed: tuple[Passed, ...], tensor_class: str, *, bridge: bool = False) -> str:
    """Return the entry point's sentinel and `kernel_entry`."""
    lines = [
        ENTRY_SENTINEL,
        'extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t* args) {',
        "#if !defined(__CPU_SIM) && !defined(__COSTMODEL)",
        "    set_atomic_none();",
        "#endif",
        "",
    ]
    if bridge:
        lines += ["#if !defined(__CPU_SIM)", "    pypto_runtime_subblock_id = get_sub_block_id(args);", "#endif", ""]
    lines += unpack_arguments(passed, tensor_class)
    lines += ["    // Forward to ptoas-generated function"]
    lines += [f"    {function}({', '.join(p.name for p in passed)});", "}", ""]
    return "\n".join(lines)


def unpack_arguments(passed: tuple[Passed, ...], tensor_class: str) -> list[str]:
    """Return the lines that give every parameter its value: launch values, tensors, scalars, extents."""
    launch = [f"    {p.ctype} {p.name} = {p.value};" for p in passed if p.kind == "launch"]
    lines = [*launch, ""] if launch else []
    launch_names = {p.name for p in passed if p.kind == "launch"}
    block, blocks = (
        name if name in launch_names else LAUNCH[name] for name in ("__pypto_spmd_block_idx", "__pypto_spmd_block_num")
    )
    order = {"tensor": 0, "scalar": 1, "context": 2, "extent": 3}
    for p in sorted((p for p in passed if p.kind in order), key=lambda p: (order[p.kind], p.slot)):
        match p.kind:
            case "scalar":
                lines += _unpack_scalar(p)
            case "context":
                pointer = f"reinterpret_cast<__gm__ {p.ctype}*>(args[{p.slot}])"
                lines += [f"    // Unpack comm context: {p.name}", f"    __gm__ {p.ctype}* {p.name} = {pointer};"]
            case "extent":
                lines += [f"    // Dynamic dim: {p.name}", f"    {p.ctype} {p.name} = {p.value};"]
            case _:
                lines += _unpack_tensor(p, tensor_class, block, blocks)
        lines.append("")
    return lines


def _unpack_scalar(p: Passed) -> list[str]:
    return [
        f"    // Unpack scalar: {p.name}",
        f"    union {{ uint64_t u64; {p.ctype} val; }} {p.name}_conv;",
        f"    {p.name}_conv.u64 = args[{p.slot}];",
        f"    {p.ctype} {p.name} = {p.name}_conv.val;",
    ]


def _unpack_tensor(p: Passed, tensor_class: str, block: str, blocks: str) -> list[str]:
    tensor, start = f"{p.name}_tensor", f"{p.name}_tensor->start_offset"
    lines = [
        f"    // Unpack tensor: {p.name}",
        f"    __gm__ {tensor_class}* {tensor} = reinterpret_cast<__gm__ {tensor_class}*>(args[{p.slot}]);",
    ]
    if p.shared:
        lines += [
            "    // Each block has its own part of the pipe's buffer",
            f"    int64_t {p.name}_blocks = {blocks} > 0 ? {blocks} : 1;",
            f"    int64_t {p.name}_share = {tensor}->shapes[0] / {p.name}_blocks;",
        ]
        start += f" + {block} * {p.name}_share"
    pointer = f"reinterpret_cast<__gm__ {p.ctype}*>({tensor}->buffer.addr)"
    return [*lines, f"    __gm__ {p.ctype}* {p.name} = {pointer} + {start};"]
