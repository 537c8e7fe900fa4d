"""Writes tile instructions: by default `NAME(outs, ins)`; a table row overrides attributes or order of operands."""

from __future__ import annotations

from collections.abc import Callable

from ..model import EnumAttr, IntAttr, Operation, StrAttr, case_of, int_value
from ..ops import TABLE
from ..ops.spec import Meaning
from ..types import ScalarType, TileType
from . import emitter
from .emitter import Emitter

_ROUND = {"CAST_RINT": "RINT"}


def operands(e: Emitter, op: Operation, *, without: tuple[str, ...] = ()) -> list[str]:
    """Return the operands in the order of the instruction: outs, then ins."""
    form = TABLE[op.name].variants[max(op.variant, 0)]
    roles = [r.name for r in (*form.outs, *form.ins) if r.name in op.operands and r.name not in without]
    return [argument(e, op, role) for role in roles]


def argument(e: Emitter, op: Operation, role: str) -> str:
    """Return one operand; a scalar is converted to the element type of the tiles if it differs."""
    text = e.text(op, role)
    value = e.resolved.value(op, role)
    if role in ("scalar", "start", "value") and value is not None and isinstance(value.type, ScalarType):
        element = tile_element(e, op)
        if element and element != emitter.scalar(value.type):
            return f"({element}){text}"
        if element and (text.lstrip("(-").isdigit()):
            return f"({element}){text}"
    return text


def tile_element(e: Emitter, op: Operation) -> str:
    for role in ("src", "src0", "dst", "tile"):
        value = e.resolved.value(op, role) if role in op.operands else None
        if value is not None and isinstance(value.type, TileType):
            return emitter.scalar(value.type.dtype)
    return ""


def call(e: Emitter, name: str, args: list[str], template: list[str] | None = None) -> None:
    angle = f"<{', '.join(template)}>" if template else ""
    e.out.add(f"{name}{angle}({', '.join(args)});")


def instruction(e: Emitter, op: Operation) -> None:
    """Write an instruction in the default form; `cpp` with braces is a template."""
    cpp, computes = TABLE[op.name].cpp, TABLE[op.name].computes
    if "(" in cpp:
        named = {role: argument(e, op, role) for role in op.operands}
        named |= {name: word(value) for name, value in op.attrs.items()}
        e.out.add(cpp.format(**named) + ";")
        return
    high = case_of(op.attrs.get("precisionType")) == "high_precision"
    precise = high and isinstance(computes, Meaning) and computes.precise
    algorithm = f"pto::{TABLE[op.name].fn.capitalize()}Algorithm::HIGH_PRECISION"
    call(e, cpp, operands(e, op), [algorithm] if precise else None)


def word(attribute: object) -> str:
    """Return an attribute as a C++ word: `PIPE_ALL`, `EVENT_ID0`, a number."""
    if isinstance(attribute, (EnumAttr, StrAttr)):
        return case_of(attribute)
    return str(attribute.value) if isinstance(attribute, IntAttr) else str(attribute)


def types_of(args: list[str]) -> list[str]:
    return [f"decltype({name})" for name in args]


def store(e: Emitter, op: Operation) -> None:
    args = operands(e, op)
    atomic, relu = case_of(op.attrs.get("atomicType")), case_of(op.attrs.get("reluPreMode"))
    template = []
    if atomic == "atomic_add" or relu == "normal_relu":
        kind = "AtomicAdd" if atomic == "atomic_add" else "AtomicNone"
        template = [f"decltype({args[1]})", f"decltype({args[0]})", f"AtomicType::{kind}"]
    if relu == "normal_relu":
        template.append("ReluPreMode::NormalRelu")
    call(e, "TSTORE", args, template)


def convert(e: Emitter, op: Operation) -> None:
    mode = case_of(op.attrs.get("rmode"), "CAST_RINT")
    saturation = case_of(op.attrs.get("sat_mode") or op.attrs.get("satmode"), "OFF")
    args = [*operands(e, op), f"RoundMode::CAST_{_ROUND.get(mode, mode)}", f"SaturationMode::{saturation}"]
    call(e, "TCVT", args)


def with_scratch(e: Emitter, op: Operation) -> None:
    """Write an instruction that always takes a scratch tile; without one, the source is passed, which it does not
    change here.
    """
    args = operands(e, op)
    if "tmp" not in op.operands:
        args.append(e.text(op, "src"))
    call(e, TABLE[op.name].cpp, args)


def column_sum(e: Emitter, op: Operation) -> None:
    args = operands(e, op)
    if "tmp" in op.operands:
        args.append("true" if int_value(op.attrs.get("isBinary")) else "false")
    call(e, "TCOLSUM", args)


def compare(e: Emitter, op: Operation) -> None:
    mode = case_of(op.attrs.get("cmpMode"), "eq").upper()
    call(e, TABLE[op.name].cpp, [*operands(e, op), f"CmpMode::{mode}"])


def gather(e: Emitter, op: Operation) -> None:
    args = operands(e, op)
    if "cdst" in op.operands:
        e.fail(op, "the CPU runtime compares with a tile only, not with a scalar; use pto.tcmps and pto.tsel")
    if "axis" in op.attrs and case_of(op.attrs["axis"]) != "row":
        e.fail(op, f"the CPU runtime gathers along rows only, found axis {op.attrs['axis']}; transpose the tile first")
    if "maskPattern" in op.attrs:
        pattern = f"MaskPattern::{case_of(op.attrs['maskPattern'])}"
        types = types_of(args[:2]) if TABLE[op.name].family == "gather" else ()  # a scatter starts with the pattern
        call(e, TABLE[op.name].cpp, args, [*types, pattern])
    else:
        call(e, TABLE[op.name].cpp, args)


def partial_extreme(e: Emitter, op: Operation) -> None:
    """Write an instruction whose results are values first, then positions."""
    order = ("dst", "src0", "src1", "dstidx", "idx0", "idx1")
    call(e, TABLE[op.name].cpp, [e.text(op, role) for role in order])


def merge_sort(e: Emitter, op: Operation) -> None:
    if "block_len" in op.operands:
        call(e, "TMRGSORT", operands(e, op))
        return
    sources = [e.text(op, role) for role in ("src0", "src1", "src2", "src3") if role in op.operands]
    dst, tmp = e.text(op, "dst"), e.text(op, "tmp")
    executed = e.names.new("executed")
    e.out.add(f"MrgSortExecutedNumList {executed};")
    exhausted = "true" if int_value(op.attrs.get("exhausted")) else "false"
    call(e, "TMRGSORT", [dst, executed, tmp, *sources], [*types_of([dst, tmp, *sources]), exhausted])


def sequence(e: Emitter, op: Operation) -> None:
    dst = e.text(op, "dst")
    descending = int_value(op.attrs.get("descending"))
    call(e, "TCI", [dst, argument(e, op, "start")], [f"decltype({dst})", tile_element(e, op), str(descending)])


def triangle(e: Emitter, op: Operation) -> None:
    dst = e.text(op, "dst")
    call(e, "TTRI", [dst, e.text(op, "diagonal")], [f"decltype({dst})", str(int_value(op.attrs.get("upperOrLower")))])


def random(e: Emitter, op: Operation) -> None:
    """Write Philox, whose key and counter are passed as arrays."""
    key, counter = e.names.new("key"), e.names.new("counter")
    for kind, name, roles in (
        ("TRandomKey", key, ("key0", "key1")),
        ("TRandomCounter", counter, ("ctr0", "ctr1", "ctr2", "ctr3")),
    ):
        e.out.add(f"const {kind} {name} = {{{', '.join(f'(uint32_t){e.text(op, role)}' for role in roles)}}};")
    call(e, "TRANDOM", [e.text(op, "dst"), key, counter], [str(int_value(op.attrs.get("rounds"), 10))])


def histogram(e: Emitter, op: Operation) -> None:
    """Write a histogram. `isMSB` is the older name for the byte of a 16-bit element; the default is 1."""
    byte = int_value(op.attrs.get("byte", op.attrs.get("isMSB")), 1)
    call(e, "THISTOGRAM", operands(e, op), [f"HistByte::BYTE_{byte}"])


def tile_print(e: Emitter, op: Operation) -> None:
    value = e.resolved.value(op, "src")
    if value is None or not isinstance(value.type, TileType):
        e.fail(op, "only a tile can be printed; load the view into a tile first")
    call(e, "TPRINT", [e.text(op, "src")])


_SECOND = {"add": "TADD", "sub": "TSUB"}


def ternary(e: Emitter, op: Operation) -> None:
    """Write a ∘ b ∘ c as two instructions; the second reads the destination."""
    first, second = TABLE[op.name].fn.split(",")
    roles = ("src0", "src1", "src2") if "src2" in op.operands else ("src0", "scalar", "src1")
    a, b, c = (argument(e, op, role) for role in roles)
    dst = e.text(op, "dst")
    suffix = "S" if roles[1] == "scalar" else ""
    call(e, _SECOND[first] + suffix, [dst, a, b])
    call(e, _SECOND[second], [dst, dst, c])


def quantize(e: Emitter, op: Operation) -> None:
    args = operands(e, op, without=("offset", "tmp"))
    kind = case_of(op.attrs.get("quantType") or op.attrs.get("quant_type"), "INT8_SYM")
    if kind.startswith("MX"):
        e.fail(op, f"the CPU runtime does not quantize to {kind}; use INT8_SYM or INT8_ASYM")
    if "tmp" in op.operands:
        args.append(e.text(op, "tmp"))
    if "offset" in op.operands:
        args.append("&" + e.text(op, "offset"))
    call(e, "TQUANT", args, [f"QuantType::{kind}"])


_ACC_TO_VEC = {
    "single_mode_vec0": "SingleModeVec0", "single_mode_vec1": "SingleModeVec1",
    "dual_mode_split_m": "DualModeSplitM", "dual_mode_split_n": "DualModeSplitN",
}  # fmt: skip


def move(e: Emitter, op: Operation) -> None:
    args = operands(e, op)
    mode, relu = case_of(op.attrs.get("accToVecMode")), case_of(op.attrs.get("reluPreMode"))
    template = types_of(args[:2]) if mode or relu == "normal_relu" else []
    if mode:
        template.append(f"AccToVecMode::{_ACC_TO_VEC[mode]}")
    if relu == "normal_relu":
        template.append("ReluPreMode::NormalRelu")
    call(e, TABLE[op.name].cpp, args, template)


_OOB = {"undefined": "Undefined", "clamp": "Clamp", "wrap": "Wrap", "zero": "Zero", "skip": "Skip"}
_COALESCE = {"row": "Coalesce::Row", "elem": "Coalesce::Elem"}
_ATOMIC = {"none": "None", "add": "Add", "max": "Max", "min": "Min"}


def gather_global(e: Emitter, op: Operation) -> None:
    template = []
    if "coalesce" in op.attrs or "gatherOob" in op.attrs:
        template.append(_COALESCE[case_of(op.attrs.get("coalesce"), "elem")])
    if "gatherOob" in op.attrs:
        template.append(f"GatherOOB::{_OOB[case_of(op.attrs['gatherOob'])]}")
    call(e, "MGATHER", operands(e, op), template)


def scatter_global(e: Emitter, op: Operation) -> None:
    template = [
        _COALESCE[case_of(op.attrs.get("coalesce"), "elem")],
        f"ScatterAtomicOp::{_ATOMIC[case_of(op.attrs.get('scatterAtomicOp'), 'none')]}",
        f"ScatterOOB::{_OOB[case_of(op.attrs.get('scatterOob'), 'undefined')]}",
    ]
    call(e, "MSCATTER", operands(e, op), template if op.attrs else [])


INSTRUCTIONS: dict[str, Callable[[Emitter, Operation], None]] = {
    "transfer:store": store,
    "convert": convert,
    "rowreduce": with_scratch,
    "colreduce:sum": column_sum,
    "colreduce:argmax": with_scratch,
    "colreduce:argmin": with_scratch,
    "transpose": with_scratch,
    "compare": compare,
    "gather:index": gather,
    "scatter:index": gather,
    "sort:merge": merge_sort,
    "partialarg": partial_extreme,
    "fill:sequence": sequence,
    "fill:triangle": triangle,
    "fill:random": random,
    "histogram": histogram,
    "none:print": tile_print,
    "ternary": ternary,
    "quantize:scale": quantize,
    "move:copy": move,
    "move:extract": move,
    "move:insert": move,
    "gather:gm": gather_global,
    "scatter:gm": scatter_global,
}
