"""One .pto function of a kernel whose addresses are planned: views, allocations, instructions."""

from __future__ import annotations

from dataclasses import replace

from .dtypes import INT32, DType
from .ir import Block, Const, Dim, Function, Op, Operand, Ref, ScalarType, TensorType, TileType
from .liveness import scratch_name
from .operations import OPERATIONS
from .pto_lowering import SPECIAL
from .pto_pipes import PIPE_OPS, open_pipe
from .pto_scalars import scalar_op
from .pto_text import Text, tile_text
from .signature import GM_PIPE_BUFFER, LAUNCH_IDS, signature_of

_KIND = {"aic": "cube", "aiv": "vector"}
_ROWWISE = ("binary", "unary", "cast", "full")  # instructions that take one value a row as a row


class FunctionEmitter:
    def __init__(self, function: Function, arch: str, locations: bool) -> None:
        self.function = function
        self.arch = arch
        self.text = Text(locations)
        self.types = function.types
        self.pointers: dict[str, str] = {}
        self.transposed = {
            op.result
            for op in function.body.walk()
            if op.name == "transpose" and isinstance(t := function.types[op.result], TileType) and t.space == "mat"
        }

    def emit(self) -> list[str]:
        """The lines of the function, header and closing brace included."""
        arguments = self.arguments()
        self.text.place = self.function.place
        self.views()
        if self.function.pipe is not None:
            open_pipe(self, self.function.pipe)
        self.block(self.function.body)
        self.text.place = self.function.place
        kind = _KIND[self.function.core]
        header = (
            f"  func.func @{self.function.name}({', '.join(arguments)}) "
            f"attributes {{pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{"
        )
        return [header, *self.text.header(), *self.text.lines, "  return", "  }"]

    # --- parameters --------------------------------------------------------------------------------------------------

    def arguments(self) -> list[str]:
        signature = signature_of(self.function)
        made: list[str] = []
        for param in (*signature.tensors, *signature.scalars):
            name = f"%arg{len(made)}"
            if isinstance(param.type, TensorType):
                self.pointers[param.name] = name
                made.append(f"{name}: !pto.ptr<{param.type.dtype.pto}>")
            else:
                self.text.names[param.name] = name
                made.append(f"{name}: {param.type.dtype.pto}")
        for extent, _, _ in signature.extents:
            name = f"%arg{len(made)}"
            self.text.names[extent] = name
            made.append(f"{name}: index")
        made += [f"%{LAUNCH_IDS[name]}: i32" for name in signature.launch_ids]
        return made

    def views(self) -> None:
        """A view of every tensor that tiles are moved from or to."""
        used = {
            ref.name
            for op in self.function.body.walk()
            if op.name in ("load", "store") and isinstance(ref := op.args[0 if op.name == "load" else 2], Ref)
        }
        for param in self.function.tensors():
            if param.name not in used or param.name == GM_PIPE_BUFFER:
                continue
            assert isinstance(param.type, TensorType)
            shape = [self.text.extent(d) for d in param.type.shape]
            column = len(shape) == 2 and param.type.shape[1] == 1
            strides = [self.text.constant(1), shape[0]] if column else self.strides(param.type.shape)
            layout = "dn" if column else "nd"
            self.text.add(
                f"%{param.name}_view = pto.make_tensor_view {self.pointers[param.name]}, shape = [{', '.join(shape)}], "
                f"strides = [{', '.join(strides)}] {{layout = #pto.layout<{layout}>}} : {_view_type(param.type)}"
            )

    def strides(self, shape: tuple[Dim, ...]) -> list[str]:
        """Row-major strides; products of dynamic extents are computed."""
        made = [self.text.constant(1)]
        known: int | None = 1
        for extent in reversed(shape[1:]):
            if known is not None and isinstance(extent, int):
                known *= extent
                made.append(self.text.constant(known))
                continue
            if known == 1:
                made.append(self.text.extent(extent))
            else:
                name = self.text.fresh()
                self.text.add(f"{name} = arith.muli {made[-1]}, {self.text.extent(extent)} : index")
                made.append(name)
            known = None
        return list(reversed(made))

    # --- tiles -------------------------------------------------------------------------------------------------------

    def tile_type(self, name: str) -> TileType:
        type_ = self.types[name]
        assert isinstance(type_, TileType)
        return type_

    def spelled(self, name: str) -> str:
        return tile_text(self.tile_type(name), self.arch, transposed=name in self.transposed)

    def alloc(self, name: str) -> str:
        """`pto.alloc_tile` for a tile at its planned address."""
        self.alloc_as(f"%{name}", self.tile_type(name), self.function.addresses[name], self.spelled(name))
        return self.text.define(name)

    def alloc_as(self, handle: str, type_: TileType, address: int, spelled: str) -> None:
        row, col = (self.text.extent(v) for v in type_.valid)
        at = self.text.constant(address, "i64")
        self.text.add(f"{handle} = pto.alloc_tile addr = {at} valid_row = {row} valid_col = {col} : {spelled}")

    def operand(self, operand: Operand) -> tuple[str, str]:
        """SSA name and type of a tile or number."""
        assert isinstance(operand, Ref)
        type_ = self.types[operand.name]
        if isinstance(type_, TileType):
            return self.text.names[operand.name], self.spelled(operand.name)
        assert isinstance(type_, ScalarType)
        return self.text.value(operand), type_.dtype.pto

    def as_row(self, name: str, suffix: str) -> tuple[str, str]:
        """Another handle on a column's bytes: the same values as one row."""
        column = self.tile_type(name)
        row = replace(column, shape=(1, column.shape[0]), valid=(1, column.valid[0]))
        handle = f"%{name}__{suffix}_{self.text.count}"
        self.text.count += 1
        self.alloc_as(handle, row, self.function.addresses[name], tile_text(row, self.arch))
        return handle, tile_text(row, self.arch)

    # --- operations --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for op in block.ops:
            outer, self.text.place = self.text.place, op.place
            self.op(op)
            self.text.place = outer

    def op(self, op: Op) -> None:
        if op.name.startswith("s."):
            scalar_op(self.text, op, self.types)
            return
        special = SPECIAL.get(op.name) or PIPE_OPS.get(op.name)
        if special is not None:
            special(self, op)
            return
        self.instruction(op)

    def instruction(self, op: Op) -> None:
        """`pto.op ins(operands, scratch {inner} : types) outs(result : type)`."""
        spec = OPERATIONS[op.name]
        column = spec.rule in _ROWWISE and self.tile_type(op.result).is_column
        ins = []
        for number, arg in enumerate(op.args):
            if isinstance(arg, Const):
                dtype = self.number_type(op, number)
                ins.append((self.text.constant(arg.value, dtype), dtype.pto))
            elif column and isinstance(arg, Ref) and isinstance(self.types[arg.name], TileType):
                ins.append(self.as_row(arg.name, "row"))
            else:
                ins.append(self.operand(arg))
        numbers = any(not isinstance(self.types.get(getattr(a, "name", ""), None), TileType) for a in op.args)
        name = spec.scalar if spec.scalar and numbers else spec.pto
        scratch = scratch_name(op)
        if scratch in self.types:
            ins.append((self.alloc(scratch), self.spelled(scratch)))
        out = self.alloc(op.result), self.spelled(op.result)
        if column:
            out = self.as_row(op.result, "row")
        self.write(name, ins, [out], _inner(op))

    def number_type(self, op: Op, number: int) -> DType:
        """The element type of a constant operand: that of the tile beside it."""
        if op.name == "mrgsort":
            return INT32
        reference = op.args[1 - number] if len(op.args) == 2 else Ref(op.result)
        return self.tile_type(reference.name if isinstance(reference, Ref) else op.result).dtype

    def write(self, name: str, ins: list[tuple[str, str]], outs: list[tuple[str, str]], inner: str = "") -> None:
        names, types = ", ".join(n for n, _ in ins), ", ".join(t for _, t in ins)
        out_names, out_types = ", ".join(n for n, _ in outs), ", ".join(t for _, t in outs)
        self.text.add(f"{name} ins({names}{inner} : {types}) outs({out_names} : {out_types})")

    def partition(self, tensor: Ref, offsets: Operand, valid: tuple[Dim, Dim]) -> tuple[str, str]:
        """A window of a tensor, of the valid extents."""
        type_ = self.types[tensor.name]
        assert isinstance(type_, TensorType) and isinstance(offsets, tuple)
        rank = len(type_.shape)
        leading: list[Dim] = [1] * (rank - 2)
        sizes: list[Dim] = [*leading, *valid] if rank > 1 else [valid[1]]
        if rank > 2 and isinstance(valid[0], int) and isinstance(type_.shape[-2], int) and valid[0] > type_.shape[-2]:
            sizes = _leading(type_.shape, valid)
        at = ", ".join(self.text.value(o) for o in offsets)
        extents = ", ".join(self.text.extent(s) for s in sizes)
        spelled = "x".join(str(s) if isinstance(s, int) else "?" for s in sizes)
        part = f"!pto.partition_tensor_view<{spelled}x{type_.dtype.pto}>"
        name = f"%{tensor.name}_pview"
        name = f"{name}_{self.text.count}" if self.text.count else name
        self.text.count += 1
        self.text.add(
            f"{name} = pto.partition_view %{tensor.name}_view, offsets = [{at}], sizes = [{extents}] : "
            f"{_view_type(type_)} -> {part}"
        )
        return name, part


def _leading(shape: tuple[Dim, ...], valid: tuple[Dim, Dim]) -> list[Dim]:
    """Extents of a window whose rows run over several matrices."""
    rows = int(valid[0]) if isinstance(valid[0], int) else 1
    sizes: list[Dim] = [valid[1]]
    for extent in reversed(shape[:-1]):
        take = min(rows, extent) if isinstance(extent, int) else rows
        sizes.insert(0, take)
        rows //= take
    return sizes


def _view_type(type_: TensorType) -> str:
    return f"!pto.tensor_view<{'?x' * len(type_.shape)}{type_.dtype.pto}>"


def _inner(op: Op) -> str:
    """Attributes written inside `ins`."""
    if op.name == "cast":
        return f" {{rmode = #pto<round_mode {op.attrs['mode'].upper()}>}}"
    if op.name == "cmp":
        return f" {{cmpMode = #pto<cmp {op.attrs['mode']}>}}"
    if op.name == "gather_mask":
        return f", {{maskPattern = #pto.mask_pattern<{op.attrs['pattern']}>}}"
    return ""
