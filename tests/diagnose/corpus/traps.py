"""Bugs that make numbers that are none: `TRAP=` ends the run where they are made."""

from __future__ import annotations

from tests.diagnose.corpus import Bug

_SOFTMAX, _SOFTMAX_FILE = "_jit_softmax", "kernels/aiv/softmax_rows.cpp"
_RMS, _RMS_FILE = "_jit_rms_norm", "kernels/aiv/rms_norm_rows.cpp"
_BARRIER = "pipe_barrier(PIPE_V);"

#: What the trap is set for, and the bug.
BUGS = (
    ("nan", Bug(
        "logarithm of a negative number", _SOFTMAX, ((_SOFTMAX_FILE, "TEXP(v17, v16);", "TLOG(v17, v16);"),),
        "check/trap", _SOFTMAX_FILE, "TLOG(v17, v16);", "TLOG makes NaN: [0, 0] = nan of [0, 0] = -8.961689",
    )),
    ("inf", Bug(
        "division by zero", _SOFTMAX,
        ((_SOFTMAX_FILE, "TROWSUM(v18, v17, v13);",
          f"TROWSUM(v18, v17, v13);\n  {_BARRIER}\n  TMULS(v18, v18, 0.0f);"),),
        "check/trap", _SOFTMAX_FILE, "TROWEXPANDDIV(v19, v17, v18);", "TROWEXPANDDIV makes infinity: [0, 0] = inf of",
    )),
    ("inf,nan", Bug(
        "exponential without the maximum", _SOFTMAX,
        ((_SOFTMAX_FILE, "TEXP(v17, v16);", f"TMULS(v17, v16, -100.0f);\n  {_BARRIER}\n  TEXP(v17, v17);"),),
        "check/trap", _SOFTMAX_FILE, "TEXP(v17, v17);", "TEXP makes infinity:",
    )),
    ("denormal", Bug(
        "factor that is too small", _SOFTMAX,
        ((_SOFTMAX_FILE, "TEXP(v17, v16);", "TMULS(v17, v16, 1e-39f);"),),
        "check/trap", _SOFTMAX_FILE, "TMULS(v17, v16, 1e-39f);", "TMULS makes a denormal number: [0, 0] = -8.96",
    )),
    ("nan", Bug(
        "root of a negative number", _RMS, ((_RMS_FILE, "TRSQRT(v27, v26);", "TMULS(v26, v26, -1.0f);\n  "
         f"{_BARRIER}\n  TRSQRT(v27, v26);"),),
        "check/trap", _RMS_FILE, "TRSQRT(v27, v26);", "TRSQRT makes NaN:",
    )),
    ("saturate", Bug(
        "conversion of what does not fit", _SOFTMAX,
        ((_SOFTMAX_FILE, "  TEXP(v17, v16);",
          "  using Row = Tile<TileType::Vec, int8_t, 64, 256, BLayout::RowMajor>;\n  Row small;\n"
          f"  TASSIGN(small, v12);\n  TMULS(v17, v16, 100.0f);\n  {_BARRIER}\n"
          "  TCVT(small, v17, RoundMode::CAST_RINT, SaturationMode::ON);\n"
          f"  {_BARRIER}\n  TEXP(v17, v16);"),),
        "check/trap", _SOFTMAX_FILE, "TCVT(small, v17", "TCVT makes a number beyond its type: [0, 0] = -128 of [0, 0] =",
    )),
    ("inf", Bug(
        "factor that is too large", _SOFTMAX, ((_SOFTMAX_FILE, "TEXP(v17, v16);", "TMULS(v17, v16, 3e38f);"),),
        "check/trap", _SOFTMAX_FILE, "TMULS(v17, v16, 3e38f);", "TMULS makes infinity: [0, 0] = -inf of",
    )),
    ("nan,inf", Bug(
        "root in place of the exponential", _SOFTMAX, ((_SOFTMAX_FILE, "TEXP(v17, v16);", "TSQRT(v17, v16);"),),
        "check/trap", _SOFTMAX_FILE, "TSQRT(v17, v16);", "TSQRT makes NaN: [0, 0] = ",
    )),
    ("denormal", Bug(
        "sum that is scaled away", _SOFTMAX,
        ((_SOFTMAX_FILE, "TROWSUM(v18, v17, v13);",
          f"TROWSUM(v18, v17, v13);\n  {_BARRIER}\n  TMULS(v18, v18, 1e-40f);"),),
        "check/trap", _SOFTMAX_FILE, "TMULS(v18, v18, 1e-40f);", "TMULS makes a denormal number: [0, 0] =",
    )),
    ("inf", Bug(
        "reciprocal root of nothing", _RMS,
        ((_RMS_FILE, "TRSQRT(v27, v26);", f"TMULS(v26, v26, 0.0f);\n  {_BARRIER}\n  TRSQRT(v27, v26);"),),
        "check/trap", _RMS_FILE, "TRSQRT(v27, v26);", "TRSQRT makes infinity: [0, 0] = inf of [0, 0] = 0",
    )),
)  # fmt: skip
