"""Gathers, scatters, sorts, packing and quantization to Python."""

from __future__ import annotations

from ..attributes import case_of, int_value
from ..model import Operation
from ..ops.functions import mask_pattern
from ..types import TileType
from . import dtypes
from .elementwise import element
from .writer import LOWERINGS, Unsupported, Writer


@LOWERINGS.of("gather:index")
def gather(w: Writer, op: Operation) -> None:
    src, dst = w.operand(op, "src"), w.operand(op, "dst")
    if "k" in op.operands:
        mode = case_of(op.attrs.get("cmpMode"), "eq")
        if mode not in ("eq", "gt"):
            raise Unsupported(f"cmpMode is eq or gt, found {mode}")
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
    """Return whether a mask pattern selects rows: elements of each column."""
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
