"""One .pto function of a kernel whose addresses are planned: views, allocations, instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .dtypes import INT32, DType
from .errors import CompileError
from .ir import Block, Const, Dim, Function, Op, Operand, Ref, ScalarType, TensorType, TileType
from .liveness import scratch_name
from .operations import OPERATIONS
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
        special = _SPECIAL.get(op.name) or PIPE_OPS.get(op.name)
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


# --- operations with a form of their own -----------------------------------------------------------------------------


def _load(e: FunctionEmitter, op: Op) -> None:
    tensor = op.args[0]
    assert isinstance(tensor, Ref)
    out = e.alloc(op.result), e.spelled(op.result)
    part = e.partition(tensor, op.args[1], e.tile_type(op.result).valid)
    e.write("pto.tload", [part], [out])


def _store(e: FunctionEmitter, op: Op) -> None:
    tile, tensor = op.args[0], op.args[2]
    assert isinstance(tile, Ref) and isinstance(tensor, Ref)
    part = e.partition(tensor, op.args[1], e.tile_type(tile.name).valid)
    e.write("pto.tstore", [e.operand(tile)], [part])
    if op.attrs["atomic"]:
        last = e.text.lines[-1]
        head, mark, tail = last.partition(' loc("')
        e.text.lines[-1] = f"{head} {{atomicType = #pto<atomic_type atomic_add>}}{mark}{tail}"


def _extract(e: FunctionEmitter, op: Op) -> None:
    assert isinstance(op.args[1], tuple)
    source = e.operand(op.args[0])
    row, col = (e.text.value(o) for o in op.args[1])
    out = e.alloc(op.result), e.spelled(op.result)
    e.write("pto.textract", [source, (row, "index"), (col, "index")], [out])


def _move(e: FunctionEmitter, op: Op) -> None:
    out = e.alloc(op.result), e.spelled(op.result)
    e.write("pto.tmov", [e.operand(op.args[0])], [out])


def _alias(e: FunctionEmitter, op: Op) -> None:
    """Another view of the same bytes."""
    if op.name == "transpose" and e.tile_type(op.result).space != "mat":
        e.instruction(op)
        return
    e.alloc(op.result)


def _create_tile(e: FunctionEmitter, op: Op) -> None:
    e.alloc(op.result)


def _matmul_acc(e: FunctionEmitter, op: Op) -> None:
    ins = [e.operand(a) for a in op.args]
    out = e.alloc(op.result), e.spelled(op.result)
    e.write("pto.tmatmul.acc", ins, [out])


def _arange(e: FunctionEmitter, op: Op) -> None:
    """The instruction counts in signed numbers; an unsigned tile is a second view of the bytes."""
    name = e.alloc(op.result)
    type_ = e.tile_type(op.result)
    spelled = e.spelled(op.result)
    if type_.dtype != INT32:
        signed = replace(type_, dtype=INT32)
        name, spelled = f"{name}__signed", tile_text(signed, e.arch)
        e.alloc_as(name, signed, e.function.addresses[op.result], spelled)
    start = e.text.value(op.args[0], INT32)
    e.write("pto.tci", [(start, "i32")], [(name, spelled)], " {descending = false}")


def _read(e: FunctionEmitter, op: Op) -> None:
    pointer, index, dtype = _element(e, op)
    e.text.add(f"{e.text.define(op.result)} = pto.load_scalar {pointer}[{index}] : !pto.ptr<{dtype}> -> {dtype}")


def _write(e: FunctionEmitter, op: Op) -> None:
    pointer, index, dtype = _element(e, op)
    value = e.text.value(op.args[2], dtype) if not isinstance(op.args[2], Const) else _constant_of(e, op)
    e.text.add(f"pto.store_scalar {value}, {pointer}[{index}] : !pto.ptr<{dtype}>, {dtype}")


def _constant_of(e: FunctionEmitter, op: Op) -> str:
    tensor = op.args[0]
    assert isinstance(tensor, Ref) and isinstance(op.args[2], Const)
    type_ = e.types[tensor.name]
    assert isinstance(type_, TensorType)
    return e.text.constant(op.args[2].value, type_.dtype)


def _element(e: FunctionEmitter, op: Op) -> tuple[str, str, str]:
    """Pointer, linear index and element type of one element of a tensor."""
    tensor = op.args[0]
    assert isinstance(tensor, Ref) and isinstance(op.args[1], tuple)
    type_ = e.types[tensor.name]
    assert isinstance(type_, TensorType)
    total = e.text.value(op.args[1][0])
    for extent, index in zip(type_.shape[1:], op.args[1][1:], strict=True):
        scaled, summed = e.text.fresh(), e.text.fresh()
        e.text.add(f"{scaled} = arith.muli {total}, {e.text.extent(extent)} : index")
        e.text.add(f"{summed} = arith.addi {scaled}, {e.text.value(index)} : index")
        total = summed
    return e.pointers[tensor.name], total, type_.dtype.pto


def _launch_id(e: FunctionEmitter, op: Op) -> None:
    e.text.add(f"{e.text.define(op.result)} = arith.index_cast %{LAUNCH_IDS[op.name]} : i32 to index")


def _for(e: FunctionEmitter, op: Op) -> None:
    body = op.blocks[0]
    lower, upper, step = (e.text.value(a) for a in op.args[:3])
    carried = []
    for number, param in enumerate(body.params[1:]):
        type_ = e.types[param]
        if isinstance(type_, TileType):
            e.text.names[op.results[number]] = e.alloc(param)
            continue
        assert isinstance(type_, ScalarType)
        init = e.text.value(op.args[3 + number], type_.dtype)
        carried.append((number, f"%{param}", init, type_.dtype))
    index = e.text.define(body.params[0])
    head = f"scf.for {index} = {lower} to {upper} step {step}"
    if carried:
        names = ", ".join(e.text.define(op.results[n]) for n, _, _, _ in carried)
        pairs = ", ".join(f"{p} = {i}" for _, p, i, _ in carried)
        head = f"{names} = {head} iter_args({pairs}) -> ({', '.join(d.pto for *_, d in carried)})"
        for n, p, _, _ in carried:
            e.text.names[body.params[1 + n]] = p
    e.text.add(f"{head} {{", located=False)
    e.text.depth += 1
    e.block(body)
    if carried:
        values = ", ".join(e.text.value(body.yields[n], d) for n, _, _, d in carried)
        e.text.add(f"scf.yield {values} : {', '.join(d.pto for *_, d in carried)}")
    e.text.depth -= 1
    e.text.add("}", located=False)


def _if(e: FunctionEmitter, op: Op) -> None:
    numbers = []
    for number, name in enumerate(op.results):
        type_ = e.types[name]
        if isinstance(type_, TileType):
            e.alloc(name)
        else:
            assert isinstance(type_, ScalarType)
            numbers.append((number, type_.dtype))
    condition = e.text.value(op.args[0], "i1")
    types = ", ".join(d.pto for _, d in numbers)
    left = f"{', '.join(e.text.define(op.results[n]) for n, _ in numbers)} = " if numbers else ""
    e.text.add(f"{left}scf.if {condition}{f' -> ({types})' if numbers else ''} {{", located=False)
    for number, block in enumerate(op.blocks):
        if number and not block.ops and not numbers:
            break
        if number:
            e.text.add("} else {", located=False)
        e.text.depth += 1
        e.block(block)
        if numbers:
            e.text.add(f"scf.yield {', '.join(e.text.value(block.yields[n], d) for n, d in numbers)} : {types}")
        e.text.depth -= 1
    e.text.add("}", located=False)


def _unexpected(e: FunctionEmitter, op: Op) -> None:
    raise CompileError(op.place, f"{op.name} is left in {e.function.name} although it should have been expanded")


_SPECIAL: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    "load": _load,
    "store": _store,
    "extract": _extract,
    "move": _move,
    "copy_tile": _move,
    "reshape": _alias,
    "transpose": _alias,
    "create_tile": _create_tile,
    "matmul_acc": _matmul_acc,
    "arange": _arange,
    "read": _read,
    "write": _write,
    "get_block_idx": _launch_id,
    "get_block_num": _launch_id,
    "get_subblock_idx": _launch_id,
    "for": _for,
    "if": _if,
    "cross": _unexpected,
}
