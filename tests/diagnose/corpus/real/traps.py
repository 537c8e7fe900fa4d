"""Numbers that are none, made in real kernels: `TRAP=` ends the run where they are made."""

from __future__ import annotations

from tests.diagnose.corpus.real import Recipe, Substitution

_SOFTMAX, _SOFTMAX_FILE = "e_02_softmax-_jit_tile_softmax", "kernels/aiv/tile_softmax_incore_0.cpp"
_NORM, _NORM_FILE = "e_03_normalization-_jit_layer_norm", "kernels/aiv/layer_norm_incore_0.cpp"
_RMS, _RMS_FILE = "e_03_normalization-_jit_rms_norm", "kernels/aiv/rms_norm_incore_0.cpp"
_GELU, _GELU_FILE = "e_04_activation-_jit_gelu", "kernels/aiv/gelu_incore_0.cpp"
_SILU, _SILU_FILE = "e_04_activation-_jit_silu", "kernels/aiv/silu_incore_0.cpp"
_GLU, _GLU_FILE = "e_04_activation-_jit_swiglu", "kernels/aiv/swiglu_incore_0.cpp"
_FFN, _FFN_FILE = "e_01_ffn-_jit_ffn_relu", "kernels/aic/matmul_kernel.cpp"
_ATTENTION = "e_06_paged_attention_dynamic-DynamicPagedAttentionProgram"
_PREPARE = "kernels/aiv/dyn_kernel_softmax_prepare.cpp"


def _trap(name: str, trap: str, artifact: str, edit: Substitution, at: str, says: str) -> Recipe:
    return Recipe(name, artifact, (edit,), "check/trap", edit[0], at, says, options=(f"TRAP={trap}",))


RECIPES = (
    _trap("logarithm of a negative number", "nan", _SOFTMAX, (_SOFTMAX_FILE, r"TEXP\(", "TLOG("), r"TLOG\(", "TLOG makes NaN"),
    _trap("exponential without the maximum", "inf", _SOFTMAX, (_SOFTMAX_FILE, r"  TEXP\((v\d+), (v\d+)\);", r"  TMULS(\2, \2, -100.0f); pipe_barrier(PIPE_V);\n  TEXP(\1, \2);"), r"TEXP\(", "TEXP makes infinity"),
    _trap("epsilon with the wrong sign", "nan", _NORM, (_NORM_FILE, r"= 9\.9\d+E-6f;", "= -100.0f;"), r"TSQRT\(", "TSQRT makes NaN"),
    _trap("sum of squares that vanishes", "inf", _RMS, (_RMS_FILE, r"  TSQRT\((v\d+), (v\d+)\);", r"  TMULS(\2, \2, 0.0f); pipe_barrier(PIPE_V);\n  TSQRT(\1, \2);"), r"TROWEXPANDDIV\(", "TROWEXPANDDIV makes infinity"),
    _trap("exponent scaled out of range", "inf", _GELU, (_GELU_FILE, r"= 1\.7\d+f;", "= 1000.0f;"), r"TEXP\(", "TEXP makes infinity"),
    _trap("reciprocal of nothing", "inf", _SILU, (_SILU_FILE, r"TADDS\((v\d+), (v\d+), v\d+\)", r"TMULS(\1, \2, 0.0f)"), r"TRECIP\(", "TRECIP makes infinity"),
    _trap("factor too small for its type", "denormal", _GLU, (_GLU_FILE, r"= -1\.0f;", "= -1e-40f;"), r"TMULS\(", "TMULS makes a denormal number"),
    _trap("mean scaled away", "denormal", _RMS, (_RMS_FILE, r"= 0\.015625f;", "= 1e-41f;"), r"TMULS\(", "TMULS makes a denormal number"),
    _trap("root in place of the exponential", "nan,inf", _SILU, (_SILU_FILE, r"TEXP\(", "TSQRT("), r"TSQRT\(", "TSQRT makes NaN"),
    _trap("factor too large for its type", "inf", _GLU, (_GLU_FILE, r"= -1\.0f;", "= 3e38f;"), r"TMULS\(", "TMULS makes infinity"),
)  # fmt: skip
