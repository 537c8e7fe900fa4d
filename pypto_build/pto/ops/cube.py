"""Operations of the cube core: matrix products from `left` and `right` into `acc`."""

from __future__ import annotations

from .spec import Instruction, define, instruction

L, R, A, B = "tile@left", "tile@right", "tile@acc", "tile@bias"
PHASE = "accPhase=enum(unspecified|partial|final)"
S = "tile@scaling|left|right"
_MX = "the CPU runtime has no microscaled products; multiply by the scales before, and use the operation without .mx"


def _product(rank: str, does: str, forms: tuple[str, ...], memory: str) -> Instruction:
    return Instruction(
        rank, f"dst = {does}", group="matrix", forms=forms, memory=f"{memory} to Acc", pipe="M",
        types="f32 from f32, f16, bf16, fp8 or hif8 pairs; i32 from i8 pairs",
    )  # fmt: skip


for _name, _rank, _rules, _more in (
    ("tmatmul", "must", "matmul", ("dst, left, right",)), ("tgemv", "should", "vector_product", ()),
):  # fmt: skip
    for _suffix, _fn, _ins, _runs in (
        ("", "set", f"a:{L} b:{R}", _product(_rank, "left @ right", ("dst, left, right",), "Left, Right")),
        (".acc", "accumulate", f"acc:{A} a:{L} b:{R}",
         _product(_rank, "accumulator + left @ right", ("dst, accumulator, left, right", *_more), "Left, Right, Acc")),
        (".bias", "bias", f"a:{L} b:{R} bias:{B}|scaling|vec|mat",
         _product("should", "left @ right + bias", ("dst, left, right, bias",), "Left, Right, Bias")),
    ):  # fmt: skip
        define(
            f"pto.{_name}{_suffix}", _ins, f"dst:{A}", attrs=PHASE, family="matmul", fn=_fn,
            rules=_rules if _rules == "matmul" else f"{_rules} one_row",
            cpp=f"{_name}{_suffix}".upper().replace(".", "_"), core="cube", runs=_runs,
        )  # fmt: skip
    # mx: one scale per 32 elements of k, beside each operand
    for _suffix, _fn, _ins in (
        ("", "set", f"a:{L} a_scale:{S} b:{R} b_scale:{S}"),
        (".acc", "accumulate", f"acc:{A} a:{L} a_scale:{S} b:{R} b_scale:{S}"),
        (".bias", "bias", f"a:{L} a_scale:{S} b:{R} b_scale:{S} bias:{B}|scaling"),
    ):
        define(
            f"pto.{_name}.mx{_suffix}", _ins, f"dst:{A}", attrs=PHASE, rules=_rules, family="matmul_mx", fn=_fn,
            cpp=f"{_name.upper()}_MX", core="cube", only="a5", refused=_MX,
        )  # fmt: skip
define("pto.tget_scale_addr", "src:tile", "dst:tile", family="scale_address", core="cube", only="a5", refused=_MX)

for _name, _what, _instead in (
    ("TIMG2COL", "convolution is", ""), ("SETFMATRIX", "convolution is", ""), ("SET_IMG2COL_RPT", "convolution is", ""),
    ("SET_IMG2COL_PADDING", "convolution is", ""), ("TMATMUL_MX", "microscaled matrix multiplication is", ""),
    ("TGEMV_MX", "microscaled matrix multiplication is", ""),
    ("TGET_SCALE_ADDR", "microscaled matrix multiplication is", ""),
    ("SET_QUANT_SCALAR", "pipes that convert are", "; use TMOV with a scale"),
    ("SET_QUANT_VECTOR", "pipes that convert are", "; use TMOV_FP"),
):  # fmt: skip
    instruction(
        Instruction("rest", "", (), _name, "not supported", writes=()),
        unsupported=f"{_name}: {_what} not supported by the CPU runtime{_instead}",
    )
