"""Operations of the cube core: matrix products from `left` and `right` into `acc`."""

from __future__ import annotations

from .spec import define

L, R, A, B = "tile@left", "tile@right", "tile@acc", "tile@bias"
PHASE = "accPhase=enum(unspecified|partial|final)"
S = "tile@scaling|left|right"

for _name, _cpp in (("tmatmul", "TMATMUL"), ("tgemv", "TGEMV")):
    _one = _name[1:]
    define(
        f"pto.{_name}", f"a:{L} b:{R}", f"dst:{A}", attrs=PHASE,
        rule="matmul", family="matmul", fn="set", cpp=_cpp, core="cube",
    )  # fmt: skip
    define(
        f"pto.{_name}.acc", f"acc:{A} a:{L} b:{R}", f"dst:{A}", attrs=PHASE,
        rule="matmul", family="matmul", fn="accumulate", cpp=f"{_cpp}_ACC", core="cube",
    )  # fmt: skip
    define(
        f"pto.{_name}.bias", f"a:{L} b:{R} bias:{B}|scaling|vec|mat", f"dst:{A}", attrs=PHASE,
        rule="matmul", family="matmul", fn="bias", cpp=f"{_cpp}_BIAS", core="cube",
    )  # fmt: skip
    # mx: one scale per 32 elements of k, beside each operand
    define(
        f"pto.{_name}.mx", f"a:{L} a_scale:{S} b:{R} b_scale:{S}", f"dst:{A}", attrs=PHASE,
        rule="matmul", family="matmul_mx", fn="set", cpp=f"{_cpp}_MX", core="cube",
    )  # fmt: skip
    define(
        f"pto.{_name}.mx.acc", f"acc:{A} a:{L} a_scale:{S} b:{R} b_scale:{S}", f"dst:{A}", attrs=PHASE,
        rule="matmul", family="matmul_mx", fn="accumulate", cpp=f"{_cpp}_MX", core="cube",
    )  # fmt: skip
    define(
        f"pto.{_name}.mx.bias", f"a:{L} a_scale:{S} b:{R} b_scale:{S} bias:{B}|scaling", f"dst:{A}", attrs=PHASE,
        rule="matmul", family="matmul_mx", fn="bias", cpp=f"{_cpp}_MX", core="cube",
    )  # fmt: skip
define("pto.tget_scale_addr", "src:tile", "dst:tile", family="scale_address", core="cube")
