"""Conversions between element types to Python."""

from __future__ import annotations

from ..attributes import EnumAttr, IntAttr, StrAttr, case_of
from ..model import Operation
from ..types import Type
from . import dtypes
from .elementwise import element
from .writer import LOWERINGS, Unsupported, Writer

_ROUND = {"RINT": "rint", "CAST_RINT": "rint", "ROUND": "round", "FLOOR": "floor", "CEIL": "ceil", "TRUNC": "trunc",
          "ODD": "odd", "NONE": ""}  # fmt: skip
_NOT_CONVERTED = {"ui64", "f8E8M0"}  # no platform has an instruction for them


@LOWERINGS.of("convert")
def convert(w: Writer, op: Operation) -> None:
    """Over the valid region of the source. The mode is RINT where none is written; with NONE, conversions to integers
    truncate and others round to the nearest."""
    source, target = element(w, op, "src"), element(w, op)
    if {dtypes.name_of(source), dtypes.name_of(target)} & _NOT_CONVERTED:
        raise Unsupported(f"from {source} to {target}")
    mode = _ROUND[_mode(op.attrs.get("rmode"))]
    saturate = "ON" in (case_of(op.attrs.get("sat_mode")), case_of(op.attrs.get("satmode")))
    text = converted(w.own(op, "src"), source, target, mode, saturate)
    if w.scope.numerics == "simulator" and text.startswith(("round_to(", "to_whole(")):
        text = f"_numerics.{text}"
    w.assign(op, text, kept=text.endswith(f".to({dtypes.torch_dtype(target)})"), view_of="src")


def _mode(attribute: object) -> str:
    if isinstance(attribute, IntAttr):
        return ("NONE", "RINT", "ROUND", "FLOOR", "CEIL", "TRUNC", "ODD", "CAST_RINT")[attribute.value]
    return case_of(attribute, "RINT") if isinstance(attribute, (EnumAttr, StrAttr)) else "RINT"


def converted(text: str, source: Type, target: Type, mode: str, saturate: bool) -> str:
    """An expression in another element type."""
    name, to = dtypes.name_of(target), dtypes.torch_dtype(target)
    dtypes.torch_dtype(source)
    if dtypes.is_float(source) and not dtypes.is_float(target):
        return f'to_integer({text}, {to}, "{mode or "trunc"}", {saturate})'
    if not dtypes.is_float(target):
        return f"saturated({text}, {to})" if saturate else text
    if name.startswith("f8"):
        return f'to_float8({text}, {to}, "{mode or "rint"}", {saturate})'
    if source == target:
        return text if not mode else f'to_whole({text}, "{mode}")' if name == "f32" else text
    exact = dtypes.bits(source) < dtypes.bits(target) or (name == "f32" and dtypes.bits(source) <= 16)
    if exact or (mode in ("", "rint") and dtypes.name_of(source) == "f32"):
        return f"{text}.to({to})"
    return f'round_to({text}, {to}, "{mode or "rint"}")'
