"""Writes the instructions of one .pto function: allocations of tiles, windows of tensors, and their spellings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from pypto_build.facts.dtypes import INT32, DType

from .ir import Block, Const, Dim, IrFunction, Op, Operand, Ref, TensorType, TileType
from .operations import OPERATIONS
from .plan import scratch_name
from .pto_text import Text, tile_text

_ROWWISE = ("binary", "unary", "cast", "full")  # instructions that take one value a row as a row


class PtoWriter(ABC):
    def __init__(self, function: IrFunction, arch: str, locations: bool) -> None:
        self.function = function
        self.arch = arch
        self.text = Text(locations)
        self.values = function.values
        self.pointers: dict[str, str] = {}
        self.contexts: dict[str, str] = {}  # of tensors in windows
        self.transposed = {
            op.result
            for op in function.body.walk()
            if op.name == "transpose" and function.values.tile(op.result).space == "mat"
        }

    @abstractmethod
    def op(self, op: Op) -> None:
        """Write one operation of any kind."""

    def block(self, block: Block) -> None:
        for op in block.ops:
            outer, self.text.position = self.text.position, op.position
            self.op(op)
            self.text.position = outer

    # --- tiles -------------------------------------------------------------------------------------------------------

    def spelled(self, name: str) -> str:
        return tile_text(self.values.tile(name), self.arch, transposed=name in self.transposed)

    def alloc(self, name: str) -> str:
        """Write `pto.alloc_tile` for a tile at its planned address."""
        self.alloc_as(f"%{name}", self.values.tile(name), self.function.addresses[name], self.spelled(name))
        return self.text.define(name)

    def alloc_as(self, handle: str, type_: TileType, address: int, spelled: str) -> None:
        row, col = (self.text.extent(v) for v in type_.valid)
        at = self.text.constant(address, "i64")
        self.text.add(f"{handle} = pto.alloc_tile addr = {at} valid_row = {row} valid_col = {col} : {spelled}")

    def result(self, op: Op) -> tuple[str, str]:
        """Allocate the tile that an operation creates; return its SSA name and type."""
        return self.alloc(op.result), self.spelled(op.result)

    def operand(self, operand: Operand) -> tuple[str, str]:
        """Return SSA name and type of a tile or number."""
        match operand:
            case Ref(name) if self.values.is_tile(name):
                return self.text.names[name], self.spelled(name)
            case Ref(name):
                return self.text.value(operand), self.values.scalar(name).dtype.pto
        raise TypeError("a constant has the element type of what stands beside it")

    def as_row(self, name: str, suffix: str) -> tuple[str, str]:
        """Return another tile on a column's bytes, with the same values as one row."""
        column = self.values.tile(name)
        row = replace(column, shape=(1, column.shape[0]), valid=(1, column.valid[0]))
        handle = f"%{name}__{suffix}_{self.text.count}"
        self.text.count += 1
        self.alloc_as(handle, row, self.function.addresses[name], tile_text(row, self.arch))
        return handle, tile_text(row, self.arch)

    def instruction(self, op: Op) -> None:
        """`pto.op ins(operands, scratch {inner} : types) outs(result : type)`."""
        spec = OPERATIONS[op.name]
        column = spec.rule in _ROWWISE and self.values.tile(op.result).is_column
        ins = []
        for number, arg in enumerate(op.args):
            if isinstance(arg, Const):
                dtype = self.number_type(op, number)
                ins.append((self.text.constant(arg.value, dtype), dtype.pto))
            elif column and isinstance(arg, Ref) and self.values.is_tile(arg.name):
                ins.append(self.as_row(arg.name, "row"))
            else:
                ins.append(self.operand(arg))
        numbers = any(not (isinstance(a, Ref) and self.values.is_tile(a.name)) for a in op.args)
        name = spec.scalar if spec.scalar and numbers else spec.pto
        scratch = scratch_name(op)
        if scratch in self.values:
            ins.append((self.alloc(scratch), self.spelled(scratch)))
        out = self.result(op)
        self.write(name, ins, [self.as_row(op.result, "row") if column else out], _inner(op))

    def number_type(self, op: Op, number: int) -> DType:
        """Return the element type of a constant operand: that of the operation's tile operand."""
        if op.name == "mrgsort":
            return INT32
        reference = op.args[1 - number] if len(op.args) == 2 else Ref(op.result)
        return self.values.tile(reference.name if isinstance(reference, Ref) else op.result).dtype

    def write(
        self, name: str, ins: list[tuple[str, str]], outs: list[tuple[str, str]], inner: str = "", attrs: str = ""
    ) -> None:
        """Write an operation; `inner` goes inside of `ins`, `attrs` at the end."""
        names, types = ", ".join(n for n, _ in ins), ", ".join(t for _, t in ins)
        out_names, out_types = ", ".join(n for n, _ in outs), ", ".join(t for _, t in outs)
        self.text.add(f"{name} ins({names}{inner} : {types}) outs({out_names} : {out_types}){attrs}")

    # --- tensors -----------------------------------------------------------------------------------------------------

    def view(self, name: str, pointer: str, type_: TensorType) -> None:
        """Write `pto.make_tensor_view`: a whole tensor at a pointer."""
        shape = [self.text.extent(d) for d in type_.shape]
        strides, layout = self.strides(type_.shape), "nd"
        if len(shape) > 1 and type_.shape[-1] == 1:  # a column: only such parts fill tiles with columns in a row
            strides[-2:], layout = [self.text.constant(1), shape[-2]], "dn"
        self.text.add(
            f"{name} = pto.make_tensor_view {pointer}, shape = [{', '.join(shape)}], "
            f"strides = [{', '.join(strides)}] {{layout = #pto.layout<{layout}>}} : {view_type(type_)}"
        )

    def strides(self, shape: tuple[Dim, ...]) -> list[str]:
        """Return the row-major strides; products of dynamic extents are computed."""
        strides = [self.text.constant(1)]
        constant: int | None = 1
        for extent in reversed(shape[1:]):
            if constant is not None and isinstance(extent, int):
                constant *= extent
                strides.append(self.text.constant(constant))
                continue
            if constant == 1:
                strides.append(self.text.extent(extent))
            else:
                name = self.text.fresh()
                self.text.add(f"{name} = arith.muli {strides[-1]}, {self.text.extent(extent)} : index")
                strides.append(name)
            constant = None
        return list(reversed(strides))

    def partition(
        self, tensor: Ref, offsets: tuple[Operand, ...], valid: tuple[Dim, Dim], view: str = ""
    ) -> tuple[str, str]:
        """Write a window of a tensor with the valid extents; `view` is another rank's view. Return its name and
        type.
        """
        type_ = self.values.tensor(tensor.name)
        rank = len(type_.shape)
        leading: list[Dim] = [1] * (rank - 2)
        sizes: list[Dim] = [*leading, *valid] if rank > 1 else [valid[1]]
        if rank > 2 and isinstance(valid[0], int) and isinstance(type_.shape[-2], int) and valid[0] > type_.shape[-2]:
            sizes = _leading(type_.shape, valid)
        return self.part(tensor, offsets, sizes, view)

    def part(self, tensor: Ref, offsets: tuple[Operand, ...], sizes: Sequence[Dim], view: str = "") -> tuple[str, str]:
        """Write `pto.partition_view`; return SSA name and type of a part of a tensor."""
        type_ = self.values.tensor(tensor.name)
        at = ", ".join(self.text.value(o) for o in offsets)
        extents = ", ".join(self.text.extent(s) for s in sizes)
        spelled = "x".join(str(s) if isinstance(s, int) else "?" for s in sizes)
        part = f"!pto.partition_tensor_view<{spelled}x{type_.dtype.pto}>"
        name = f"%{tensor.name}{'_peer' if view else ''}_pview" + (f"_{self.text.count}" if self.text.count else "")
        self.text.count += 1
        self.text.add(
            f"{name} = pto.partition_view {view or f'%{tensor.name}_view'}, offsets = [{at}], sizes = [{extents}] : "
            f"{view_type(type_)} -> {part}"
        )
        return name, part


def _leading(shape: tuple[Dim, ...], valid: tuple[Dim, Dim]) -> list[Dim]:
    """Return the extents of a window whose rows span several matrices."""
    rows = int(valid[0]) if isinstance(valid[0], int) else 1
    sizes: list[Dim] = [valid[1]]
    for extent in reversed(shape[:-1]):
        take = min(rows, extent) if isinstance(extent, int) else rows
        sizes.insert(0, take)
        rows //= take
    return sizes


def view_type(type_: TensorType) -> str:
    return f"!pto.tensor_view<{'?x' * len(type_.shape)}{type_.dtype.pto}>"


def _inner(op: Op) -> str:
    """Return the attributes that are written inside `ins`."""
    if op.name == "cast":
        return f" {{rmode = #pto<round_mode {op.attrs['mode'].upper()}>}}"
    if op.name == "cmp":
        return f" {{cmpMode = #pto<cmp {op.attrs['mode']}>}}"
    if op.name == "gather_mask":
        return f", {{maskPattern = #pto.mask_pattern<{op.attrs['pattern']}>}}"
    return ""
