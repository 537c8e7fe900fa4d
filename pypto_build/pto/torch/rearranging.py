"""Translates gathers, scatters, sorts, packing and quantization to Python."""

from __future__ import annotations

from ..model import Operation, case_of, int_value
from ..ops import TABLE
from ..ops.spec import mask_pattern
from ..types import TileType, Type
from . import dtypes
from .effects import clips, part_extents, valid_extents
from .elementwise import element
from .writer import LOWERINGS, Unsupported, Writer, sliced

# Copies to Python: between tiles, out of and into them, from and to global memory.


@LOWERINGS.of("transpose")
def transpose(w: Writer, op: Operation) -> None:
    w.assign(op, f"{w.own(op, 'src')}.T", kept=element(w, op, "src") == element(w, op), view_of="src")


@LOWERINGS.of("concat")
def concat(w: Writer, op: Operation) -> None:
    if "idx0" in op.operands:
        tiles = [w.operand(op, role) for role in ("dst", "src0", "src1", "idx0", "idx1")]
        w.add(op, f"concat_counted({', '.join(tiles)})")
        return
    same = all(element(w, op, role) == element(w, op) for role in ("src0", "src1"))
    w.assign(op, f"torch.cat(({w.own(op, 'src0')}, {w.own(op, 'src1')}), dim=1)", kept=same)


@LOWERINGS.of("fillpad")
def fillpad(w: Writer, op: Operation) -> None:
    if w.tile_type(op, "dst").pad == "0":
        raise Unsupported("the destination names no pad value")
    type_ = w.tile_type(op, "dst")
    if w.value(op, "dst") in w.promotion:
        pad = {"2": "max", "3": "min"}.get(type_.pad, "zero")
        w.assign(op, f'padded({w.own(op, "src")}, {type_.rows}, {type_.cols}, "{pad}")')
    elif w.is_variable(op, "src"):
        w.add(op, f"{w.operand(op, 'dst')}[:] = {w.own(op, 'src')}")
        w.add(op, f"fill_around({w.operand(op, 'dst')}, {', '.join(w.valid_texts(op, 'src'))})")
    else:
        w.add(op, f"fillpad({w.operand(op, 'dst')}, {w.operand(op, 'src')})")


@LOWERINGS.of("transfer:load")
def load(w: Writer, op: Operation) -> None:
    if w.value(op, "dst") not in w.promotion:
        w.add(op, f"load({w.operand(op, 'dst')}, {w.operand(op, 'src')})")
        return
    source = w.value(op, "src")
    text = w.text(source) if id(source) in w.plain else f"{w.text(source)}.matrix()"
    extents = part_extents(w.resolved, source)
    assert extents is not None
    have = w.extent(extents[0]), w.extent(extents[1])
    copied = "" if id(op) in w.borrowing else ".clone()"
    w.assign(op, f"{text}{sliced(w.valid_texts(op, 'dst'), have)}{copied}")


def _scale(w: Writer, op: Operation) -> str:
    """Return the scale factor for data that leaves the accumulator."""
    if "fp" in op.operands:
        return f"column_scales({w.operand(op, 'fp')}, {w.operand(op, 'src')}.valid[1])"
    return f"bits_float({w.operand(op, 'pre_quant')})" if "pre_quant" in op.operands else "1.0"


def _rescales(op: Operation) -> bool:
    return bool({"fp", "pre_quant"} & op.operands.keys()) or case_of(op.attrs.get("reluPreMode")) == "normal_relu"


def _rescaled(w: Writer, op: Operation, text: str, target: Type) -> str:
    relu = case_of(op.attrs.get("reluPreMode")) == "normal_relu"
    return f"scaled({text}, {_scale(w, op)}, {dtypes.torch_dtype(target)}, relu={relu})"


@LOWERINGS.of("transfer:store", "transfer:store_fp")
def store(w: Writer, op: Operation) -> None:
    add = case_of(op.attrs.get("atomicType")) == "atomic_add"
    src, dst = w.operand(op, "src"), w.operand(op, "dst")
    if _rescales(op):
        target = getattr(w.value(op, "dst").type, "element", None)
        assert isinstance(target, Type)
        w.add(op, f"{dst}.put({_rescaled(w, op, f'{src}[:]', target)}{', add=True' if add else ''})")
        return
    if w.is_variable(op, "src"):
        _store_variable(w, op, add)
        return
    w.add(op, f"store({dst}, {src}{', add=True' if add else ''})")


def _store_variable(w: Writer, op: Operation, add: bool) -> None:
    target = w.value(op, "dst")
    destination, value = w.text(target), w.own(op, "src")
    room, part = part_extents(w.resolved, target), valid_extents(w.resolved, w.value(op, "src"))
    assert room is not None and part is not None
    have, part_texts = (tuple(map(w.extent, extents)) for extents in (room, part))
    if room != part and clips(room, part):
        destination += sliced(part_texts, have) if id(target) in w.plain else ""
    elif room != part:
        value += sliced(have, part_texts)
    element_type = getattr(target.type, "element", None)
    if dtypes.is_float(element(w, op, "src")) and not dtypes.is_float(element_type):
        value = f"{value}.to(torch.int64)"
    if id(target) not in w.plain:
        w.add(op, f"{destination}.put({value}{', add=True' if add else ''})")
    elif add:
        w.add(op, f"accumulate({destination}, {value})")
    else:
        w.add(op, f"{destination}.copy_({value})")


@LOWERINGS.of("move")
def move(w: Writer, op: Operation) -> None:
    """Write a copy, an extract from, or an insert into a tile; elements are converted if the tiles' types differ."""
    source, target = element(w, op, "src"), element(w, op)
    if not _rescales(op) and source != target and dtypes.is_float(source) != dtypes.is_float(target):
        raise Unsupported(f"needs a scale to convert from {source} to {target}")
    if TABLE[op.name].fn.startswith("insert"):
        text = w.own(op, "src")
        text = _rescaled(w, op, text, target) if _rescales(op) else text
        w.add(op, f"insert({w.operand(op, 'dst')}, {w.operand(op, 'row')}, {w.operand(op, 'col')}, {text})")
        return
    text = _moved(w, op)
    if _rescales(op):
        w.assign(op, _rescaled(w, op, text, target), kept=False)
    else:
        w.assign(op, text, kept=source == target, view_of="src")


def _moved(w: Writer, op: Operation) -> str:
    """Return the part of the source that a copy or an extract reads."""
    row, col = (w.operand(op, role, "0") for role in ("row", "col"))
    mode = case_of(op.attrs.get("accToVecMode"))
    if mode.startswith("dual_mode_split"):
        lane = f"_current_sb[0] * {w.valid_texts(op, 'dst')[0 if mode.endswith('m') else 1]}"
        row, col = (lane, col) if mode.endswith("m") else (row, lane)
    elif (row, col) == ("0", "0"):
        return w.read(op, "src")
    if w.is_variable(op, "src"):
        return f"block_of({w.own(op, 'src')}, {row}, {col}, {', '.join(w.valid_texts(op, 'dst'))})"
    return f"extract({w.operand(op, 'src')}, {row}, {col}, {w.valid(op, 'dst')})"


@LOWERINGS.of("gather:index")
def gather(w: Writer, op: Operation) -> None:
    src, dst = w.operand(op, "src"), w.operand(op, "dst")
    if "k" in op.operands:
        mode = case_of(op.attrs.get("cmpMode"), "eq")
        if mode not in ("eq", "gt"):
            raise Unsupported(f"cmpMode must be eq or gt, found {mode}")
        limit = w.operand(op, "k")
        if isinstance(w.value(op, "k").type, TileType):
            limit += ".flat"
        how = f"equal={mode == 'eq'}, first={int_value(op.attrs.get('offset'))}"
        w.add(op, f"gather_compared({dst}, {w.operand(op, 'cdst')}, {src}, {limit}, {how})")
    elif "idx" in op.operands:
        w.assign(op, f"gather({src}, {w.read(op, 'idx')})")
    else:
        period, first = mask_pattern(case_of(op.attrs["maskPattern"]))
        rows = f"{first}::{period}" if _by_column(op) else f":, {first}::{period}"
        w.add(op, f"put_packed({dst}, {src}.read(*{src}.valid)[{rows}], rows={not _by_column(op)})")


def _by_column(op: Operation) -> bool:
    """Return whether a mask pattern selects rows, that is, elements of each column."""
    axis = op.attrs.get("axis")
    return axis is not None and "col" in str(axis).lower()


@LOWERINGS.of("gather:block")
def gather_blocks(w: Writer, op: Operation) -> None:
    dst, offsets = w.operand(op, "dst"), w.operand(op, "offsets")
    w.add(op, f"gather_blocks({dst}, {w.operand(op, 'src')}, {offsets}[{dst}.valid[0], {offsets}.cols])")


@LOWERINGS.of("scatter:index")
def scatter(w: Writer, op: Operation) -> None:
    src, dst = w.operand(op, "src"), w.operand(op, "dst")
    if "idx" in op.operands:
        index = w.operand(op, "idx")
        w.add(op, f"scatter({dst}, {src}.read(*{index}.valid), {index}[:])")
        return
    period, first = mask_pattern(case_of(op.attrs["maskPattern"]))
    w.add(op, f"spread({dst}, {src}.read(*{src}.valid), {period}, {first}, {0 if _by_column(op) else 1})")


@LOWERINGS.of("gather:gm")
def gather_global(w: Writer, op: Operation) -> None:
    rows = case_of(op.attrs.get("coalesce"), "elem" if "gatherOob" in op.attrs else "row") == "row"
    how = f'rows={rows}, outside="{case_of(op.attrs.get("gatherOob"), "undefined")}"'
    dst, src = w.operand(op, "dst"), w.operand(op, "src")
    if not isinstance(w.value(op, "idx").type, TileType):
        raise Unsupported("an index that is no tile")
    w.add(op, f"gather_global({dst}, {src}, {w.operand(op, 'idx')}, {how})")


@LOWERINGS.of("scatter:gm")
def scatter_global(w: Writer, op: Operation) -> None:
    rows = case_of(op.attrs.get("coalesce"), "elem" if op.attrs else "row") == "row"
    combine, outside = (
        case_of(op.attrs.get("scatterAtomicOp"), "none"),
        case_of(op.attrs.get("scatterOob"), "undefined"),
    )
    how = f'rows={rows}, outside="{outside}", combine="{combine}"'
    w.add(op, f"scatter_global({w.operand(op, 'dst')}, {w.operand(op, 'src')}, {w.operand(op, 'idx')}, {how})")


@LOWERINGS.of("sort:blocks")
def sort(w: Writer, op: Operation) -> None:
    if dtypes.name_of(element(w, op, "src")) not in ("f32", "f16"):
        raise Unsupported(f"values of type {element(w, op, 'src')}")
    w.add(op, f"sort_groups({w.operand(op, 'dst')}, {w.operand(op, 'src')}, {w.operand(op, 'idx')})")


@LOWERINGS.of("sort:merge")
def merge(w: Writer, op: Operation) -> None:
    dst = w.operand(op, "dst")
    if "block_len" in op.operands:
        w.add(op, f"merge_blocks({dst}, {w.operand(op, 'src')}, {w.operand(op, 'block_len')})")
        return
    lists = [w.operand(op, f"src{k}") for k in range(4) if f"src{k}" in op.operands]
    early = bool(int_value(op.attrs.get("exhausted")))
    w.add(op, f"merge_lists({dst}, [{', '.join(lists)}], until_exhausted={early})")


@LOWERINGS.of("pack")
def pack(w: Writer, op: Operation) -> None:
    source, target = element(w, op, "src"), element(w, op)
    ints = {16: "torch.int16", 32: "torch.int32", 8: "torch.int8"}
    src = w.operand(op, "src")
    low = ints[dtypes.bits(target)]
    raw = f"{src}.read(*{src}.valid).contiguous().view({ints[dtypes.bits(source)]})"
    w.assign(op, f"{raw}.to({low}).view({dtypes.torch_dtype(target)})")


@LOWERINGS.of("quantize:scale")
def quantize(w: Writer, op: Operation) -> None:
    kind = case_of(op.attrs.get("quantType", op.attrs.get("quant_type")), "INT8_SYM")
    if not kind.startswith("INT8"):
        raise Unsupported(f"to {kind}")
    src, dtype = w.operand(op, "src"), dtypes.torch_dtype(element(w, op))
    text = f"{src}[:] * row_parameter({w.operand(op, 'scale')}, {src}.valid)"
    if "offset" in op.operands:
        text += f" + row_parameter({w.operand(op, 'offset')}, {src}.valid)"
    w.assign(op, f'to_integer({text}, {dtype}, "rint", True)')


@LOWERINGS.of("quantize:restore")
def dequantize(w: Writer, op: Operation) -> None:
    src = w.operand(op, "src")
    scale, offset = (f"row_parameter({w.operand(op, role)}, {src}.valid)" for role in ("scale", "offset"))
    w.assign(op, f"({src}[:].float() - {offset}) * {scale}")


@LOWERINGS.of("histogram")
def histogram(w: Writer, op: Operation) -> None:
    byte = int_value(op.attrs.get("byte", op.attrs.get("isMSB")), 1)
    width = dtypes.bits(element(w, op, "src")) // 8
    src, dst, index = (w.operand(op, role) for role in ("src", "dst", "idx"))
    w.add(op, f"histogram({dst}, {src}[:], {index}, byte={byte}, width={width})")
