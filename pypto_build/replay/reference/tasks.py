"""Executes one task in PyTorch: its kernels with the task's tensors and scalars, the members of a group in turns.

Arguments are descriptors: a tensor's memory, shape, strides and element type. Tensors are views of that memory, so the
next kernel sees what a kernel stores.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.modules import function_names
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.facts.positions import SourcePosition
from pypto_build.facts.run_options import FAST
from pypto_build.facts.tasks import Slot, TensorView
from pypto_build.pto import Function, Module, PtoError, parse, parse_file
from pypto_build.pto.torch import Generated, UnsupportedOperations, generate
from pypto_build.pto.torch.dtypes import TORCH, name_of
from pypto_build.replay.reference.entry import (
    BLOCK,
    BLOCKS,
    EXTENT,
    LANE,
    SCALAR,
    TENSOR,
    Passed,
    positional,
    read_entry,
)
from pypto_build.replay.scalars import scalar_value

# The PyTorch of an artifact's kernels, generated when needed from the .pto function that a kernel was made from.

_LAUNCH = {
    "%__pypto_spmd_block_idx": BLOCK, "%__pypto_spmd_block_num": BLOCKS, "%__pypto_spmd_subblock_idx": LANE,
}  # fmt: skip


@dataclass
class Unit:
    """One module's PyTorch. `namespace` holds the definitions of its text, with pipes and memories of its own.
    `pointers` caches the converted tensors of tasks."""

    path: Path
    generated: Generated
    functions: dict[str, Function]
    namespace: dict[str, Any] = field(default_factory=dict)
    pointers: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.stem

    def place(self, line: int) -> SourcePosition | None:
        """Return the position in the module that a line of the text was generated from."""
        return self.generated.lines.get(line)


@dataclass(frozen=True)
class Body:
    """The PyTorch of one kernel, and its parameters."""

    unit: Unit
    function: Function
    call: Any
    passed: tuple[Passed, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Return the scalar types of the function's arguments; empty for pointers."""
        return tuple(name_of(argument.type) for argument in self.function.args)

    @cached_property
    def addresses(self) -> tuple[bool, ...]:
        """Return for each of the function's arguments whether it is an address."""
        return tuple(getattr(argument.type, "element", None) is not None for argument in self.function.args)

    @cached_property
    def is_generator(self) -> bool:
        """Return whether the kernel takes turns with the other members of its group."""
        return inspect.isgeneratorfunction(self.call)


class Units:
    """All units of an artifact, by the functions they define."""

    def __init__(
        self, artifact: Path, probe: Callable[[int, str, Any], None] | None = None, numerics: str = FAST
    ) -> None:
        """Read the artifact's modules. `probe` is called with (line, operation, tile or view) after each instruction
        that writes. `numerics` selects whose results to compute where platforms differ."""
        self.artifact = artifact
        self.probe = probe
        self.numerics = numerics
        self._files: dict[str, Path] = {}
        self._units: dict[Path, Unit] = {}
        for path in sorted(artifact.glob("ptoas/**/*.pto")):
            for name in function_names(path.read_text(encoding="utf-8", errors="replace")):
                self._files.setdefault(name, path)
        if not self._files:
            raise ArtifactError(
                artifact / "ptoas",
                "has no .pto modules, from which the reference is computed",
                "compile the program again; for kernels written by hand, use 'scons step TASK='",
            )

    def body(self, kernel: str, source: Path, tensors: int) -> Body | None:
        """Return the PyTorch of the kernel in a C++ file; None if no module defines it.

        Raises ArtifactError (build_error) for a module that cannot be read or translated.
        """
        text = source.read_text(encoding="utf-8", errors="replace") if source.is_file() else ""
        read = read_entry(text, list(self._files))
        name = read[0] if read is not None else kernel
        if name not in self._files:
            return None
        unit = self.unit(self._files[name])
        function = unit.functions[name]
        passed = read[1] if read is not None else positional(_kinds(function), tensors)
        if len(passed) != len(function.args):
            raise ArtifactError(
                source, (
                    f"passes {len(passed)} values to @{name}, which takes {len(function.args)} "
                    f"parameters in {unit.path.name}"
                ),
                "compile the program again, or splice its edited module", kind="build_error",
            )  # fmt: skip
        return Body(unit, function, unit.namespace[unit.generated.names[name]], passed)

    def unit(self, path: Path) -> Unit:
        """Return a module's PyTorch, generated and executed once."""
        if path not in self._units:
            try:
                self._unit(path, parse_file(str(path)))
            except PtoError as error:
                raise ArtifactError("", str(error), kind="build_error") from None
            except UnsupportedOperations as error:
                raise ArtifactError(path, str(error), kind="build_error") from None
        return self._units[path]

    def _unit(self, path: Path, module: Module) -> None:
        numerics = "" if self.numerics == FAST else self.numerics
        generated = generate(module, probes=self.probe is not None, numerics=numerics)
        unit = Unit(path, generated, {f.name: f for f in module.functions() if f.body is not None})
        unit.namespace["_probe"] = self.probe
        if numerics:
            from pypto_build.replay.reference.numerics import Functions

            arch = str(module.attrs.get("pto.target_arch", ""))
            unit.namespace["_numerics"] = Functions(numerics, "a5" if "a5" in arch else "a2a3")
        exec(compile(generated.text, f"<{path.name}>", "exec"), unit.namespace)
        self._units[path] = unit

    def put(self, path: Path, text: str) -> None:
        """Replace the text of a module. Raises as `unit` does."""
        self._units.pop(path, None)
        self._unit(path, parse(text, str(path)))

    def loaded(self) -> Iterable[Unit]:
        """Return the units generated so far."""
        return self._units.values()


def _kinds(function: Function) -> list[str]:
    """Return the kind of each argument of a .pto function: tensor, scalar, or an id of the launch."""
    return [
        _LAUNCH.get(a.name) or (TENSOR if getattr(a.type, "element", None) is not None else SCALAR)
        for a in function.args
    ]


@dataclass(frozen=True)
class Member:
    """One kernel of a task: `lane` is the number of its vector core in the group."""

    name: str
    body: Body
    lane: int = 0


#: The layout of a CommContext, which a kernel gets as a scalar that is its address.
CONTEXT_BYTES = 1056


@lru_cache(maxsize=4096)
def memory(address: int, size: int) -> torch.Tensor:
    """Return memory of this process as a tensor of bytes on it."""
    return torch.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype=torch.uint8)


def run_task(members: Sequence[Member], slots: Sequence[Slot], block: int, blocks: int) -> None:
    """Run one block of a task. A kernel's error (a window beyond a tensor, a deadlock) raises an exception of the
    generated text."""
    if len(members) > 1 or members[0].body.is_generator:
        _run_group(members, slots, [block], blocks)
        return
    _start(members[0], slots, block, blocks)


def run_blocks(members: Sequence[Member], slots: Sequence[Slot], blocks: int) -> None:
    """Run all blocks of a task together, for kernels that wait for each other."""
    if len(members) == 1 and members[0].body.is_generator:
        _run_group(members, slots, list(range(blocks)), blocks)
        return
    for block in range(blocks):
        run_task(members, slots, block, blocks)


def _run_group(members: Sequence[Member], slots: Sequence[Slot], numbers: Sequence[int], blocks: int) -> None:
    """Run members that are generators in turns.

    Other members run before them if they push to pipes, else after them.
    """
    namespace = members[0].body.unit.namespace
    if "_reset_pipes" in namespace:
        namespace["_reset_pipes"]()
        namespace["_lanes"][0] = max(1, max(member.lane for member in members) + 1)
    tasks: list[tuple[str, Any, int]] = []
    for member in sorted(members, key=_consumes):
        for number in numbers:
            started = _start(member, slots, number, blocks)
            if member.body.is_generator:
                tasks.append((member.name, started, member.lane))
    if tasks:
        namespace["_run_scheduler"](tasks)


def _consumes(member: Member) -> bool:
    """Return whether a member pops from pipes and never pushes."""
    body = member.body.function.body
    assert body is not None
    names = {op.name for op in body.walk()}
    return any("tpop_from" in name for name in names) and not any("tpush_to" in name for name in names)


def _start(member: Member, slots: Sequence[Slot], block: int, blocks: int) -> Any:
    """Call a kernel; if it is a generator, it has not begun when this returns."""
    body = member.body
    namespace = body.unit.namespace
    if "_block" in namespace:
        namespace["_block"][:] = [block, blocks]
    if "_current_sb" in namespace:
        namespace["_current_sb"][0] = member.lane
    values: list[Any] = []
    for (kind, slot, axis, _), type_, address in zip(body.passed, body.types, body.addresses, strict=True):
        slot_value = slots[slot]
        if kind == BLOCK:
            values.append(block)
        elif kind == BLOCKS:
            values.append(blocks)
        elif kind == LANE:
            values.append(member.lane)
        elif kind == SCALAR:
            assert isinstance(slot_value, int)
            context = TensorView(slot_value, CONTEXT_BYTES, 0, "int64", (), ())
            values.append(_pointer(body.unit, context) if address else scalar_of(slot_value, type_))
        else:
            assert isinstance(slot_value, TensorView)
            values.append(slot_value.shape[axis] if kind == EXTENT else _pointer(body.unit, slot_value))
    return body.call(*values)


def _pointer(unit: Unit, argument: TensorView) -> Any:
    """Return a tensor as the object that generated PyTorch code takes. Results are cached, since the same memory
    recurs in loops.
    """
    key = argument[:4]
    pointer = unit.pointers.get(key)
    if pointer is None and "Pointer" in unit.namespace:
        dtype = getattr(torch, argument.dtype)
        whole = memory(argument.buffer, argument.size)[: argument.size // dtype.itemsize * dtype.itemsize].view(dtype)
        if len(unit.pointers) >= _POINTERS:
            unit.pointers.clear()
        pointer = unit.pointers[key] = unit.namespace["Pointer"](whole, argument.offset)
    return pointer


_POINTERS = 4096  # so many are remembered


def scalar_of(bits: int, kind: str) -> Any:
    """Return the value of a .pto scalar type that is encoded in 64 bits of a task's argument."""
    if kind == "i1":
        return bool(bits & 1)
    dtype = TORCH.get(kind, "int64")
    return scalar_value((bits & (1 << 64) - 1).to_bytes(8, "little")[: ITEMSIZE[dtype]], dtype)
