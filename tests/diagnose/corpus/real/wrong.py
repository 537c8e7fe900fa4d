"""Wrong elements: instructions, operands and constants of real kernels that are other than their module's."""

from __future__ import annotations

from tests.diagnose.corpus.real import Recipe

_SOFTMAX, _SOFTMAX_FILE = "e_02_softmax-_jit_tile_softmax", "kernels/aiv/tile_softmax_incore_0.cpp"
_NORM, _NORM_FILE = "e_03_normalization-_jit_layer_norm", "kernels/aiv/layer_norm_incore_0.cpp"
_RMS, _RMS_FILE = "e_03_normalization-_jit_rms_norm", "kernels/aiv/rms_norm_incore_0.cpp"
_DAG = "e_02_vector_dag-_jit_vector_dag"
_MUL_FILE, _SCALAR_FILE = "kernels/aiv/kernel_mul_128.cpp", "kernels/aiv/kernel_add_scalar_128.cpp"
_GELU, _GELU_FILE = "e_04_activation-_jit_gelu", "kernels/aiv/gelu_incore_0.cpp"
_SILU, _SILU_FILE = "e_04_activation-_jit_silu", "kernels/aiv/silu_incore_0.cpp"
_GLU, _GLU_FILE = "e_04_activation-_jit_swiglu", "kernels/aiv/swiglu_incore_0.cpp"
_LINEAR, _LINEAR_FILE = "e_01_fused_linear-_jit_fused_linear_relu", "kernels/aiv/_add_bias_relu_kernel_64x64.cpp"
_ACC, _ACC_FILE = "e_04_matmul_acc-_jit_matmul_acc_64", "kernels/aic/matmul_acc_64_incore_0.cpp"
_SPLIT, _SPLIT_FILE = "e_02_auto_tile_matmul-_jit_ddr_split_k", "kernels/aic/ddr_split_k_ddr_split_k.cpp"
_CONCAT, _CONCAT_FILE = "e_06_concat-_jit_tile_concat_32x32", "kernels/aiv/tile_concat_32x32_incore_0.cpp"
_MIXED = "e_03_mixed_kernel-_jit_mixed_matmul_bias"
_CUBE_FILE, _LANE_FILE = "kernels/aic/mixed_up_down_aic.cpp", "kernels/aiv/mixed_up_down_aiv.cpp"
_CHUNKED, _CHUNKED_FILE = "e_02_elementwise-_jit_chunked_add", "kernels/aiv/chunked_add_incore_0.cpp"
_FFN, _FFN_FILE = "e_01_ffn-_jit_ffn_swiglu", "kernels/aiv/swiglu_kernel.cpp"


def _why(name: str, artifact: str, file: str, old: str, new: str, at: str, out: str, where: str, says: str) -> Recipe:
    """`says`: the operation of the module on the line that the link names."""
    return Recipe(name, artifact, ((file, old, new),), "why", file, at, says, "why", (f"OUT={out}", f"AT={where}"))


RECIPES = (
    _why("exponential left out", _SOFTMAX, _SOFTMAX_FILE, r"TEXP\(", "TABS(", r"TABS\(", "output", "0:64,0:64", "pto.texp"),
    _why("max for sum of a row", _SOFTMAX, _SOFTMAX_FILE, r"TROWSUM\(", "TROWMAX(", r"TROWMAX\(v23", "output", "9,0:64", "pto.trowsum"),
    _why("product for quotient", _SOFTMAX, _SOFTMAX_FILE, r"TROWEXPANDDIV\(", "TROWEXPANDMUL(", r"TROWEXPANDMUL\(", "output", "63,63", "pto.trowexpanddiv"),
    _why("root left out", _NORM, _NORM_FILE, r"TSQRT\(", "TABS(", r"TABS\(", "output", "0:32,0:64", "pto.tsqrt"),
    _why("mean made by a sum", _NORM, _NORM_FILE, r"TMULS\(v51,", "TADDS(v51,", r"TADDS\(v51", "output", "5,0:64", "pto.tmuls"),
    _why("sum for product along columns", _NORM, _NORM_FILE, r"TCOLEXPANDMUL\(", "TCOLEXPANDADD(", r"TCOLEXPANDADD\(", "output", "31,0:64", "pto.tcolexpandmul"),
    _why("double for square", _RMS, _RMS_FILE, r"TMUL\(v24,", "TADD(v24,", r"TADD\(v24", "output", "0:32,0:64", "pto.tmul"),
    _why("a constant of the kernel changed", _RMS, _RMS_FILE, r"= 0\.015625f;", "= 0.03125f;", r"TMULS\(", "output", "3,3", "pto.tmuls"),
    _why("sum for product, two tasks back", _DAG, _MUL_FILE, r"TMUL\(", "TADD(", r"TADD\(", "f", "127,0", "pto.tmul"),
    _why("scalar of a task used twice", _DAG, _SCALAR_FILE, r"TADDS\((v\d+), (v\d+), (v\d+)\)", r"TADDS(\1, \2, \3 + \3)", r"TADDS\(", "f", "0:128,0:128", "pto.tadds"),
    _why("sign of the exponent lost", _SILU, _SILU_FILE, r"= -1\.0f;", "= 1.0f;", r"TMULS\(", "output", "0:32,0:128", "pto.tmuls"),
    _why("reciprocal left out", _GELU, _GELU_FILE, r"TRECIP\(", "TABS(", r"TABS\(", "output", "0:32,0:128", "pto.trecip"),
    _why("wrong factor of an exponent", _GELU, _GELU_FILE, r"= 1\.7\d+f;", "= 0.17f;", r"TMULS\(v17", "output", "0:32,0:128", "pto.tmuls"),
    _why("operand used twice", _GLU, _GLU_FILE, r"TMUL\((v33), (v\d+), v\d+\)", r"TMUL(\1, \2, \2)", r"TMUL\(v33", "output", "7,0:128", "pto.tmul"),
    _why("negative for positive part", _LINEAR, _LINEAR_FILE, r"TRELU\(", "TNEG(", r"TNEG\(", "y", "0:64,0:64", "pto.trelu"),
    _why("accumulator dropped", _ACC, _ACC_FILE, r"TMATMUL_ACC\((v\d+), v\d+,", r"TMATMUL(\1,", r"TMATMUL\(v23, v35", "c", "0:64,0:64", "pto.tmatmul.acc"),
    _why("accumulator of a loop dropped", _SPLIT, _SPLIT_FILE, r"TMATMUL_ACC\((v18), v\d+,", r"TMATMUL(\1,", r"TMATMUL\(v18", "out", "128:256,0:64", "pto.tmatmul.acc"),
    _why("operands in another order", _CONCAT, _CONCAT_FILE, r"TCONCAT\((v\d+), (v\d+), (v\d+)\)", r"TCONCAT(\1, \3, \2)", r"TCONCAT\(", "c", "0:32,0:32", "pto.tconcat"),
    _why("difference for sum behind a pipe", _MIXED, _LANE_FILE, r"TADD\(", "TSUB(", r"TSUB\(", "out", "0:128,0:128", "pto.tadd"),
    _why("wrong half of an operand before a pipe", _MIXED, _CUBE_FILE, r"TEXTRACT\(v28, v14, v11, v8\)", "TEXTRACT(v28, v14, v11, v11)", r"TEXTRACT\(v28", "out", "5,9", "pto.textract"),
    _why("accumulator dropped before a pipe", _MIXED, _CUBE_FILE, r"TMATMUL_ACC\((v\d+), v\d+,", r"TMATMUL(\1,", r"TMATMUL\(v32, v28", "out", "100,0:128", "pto.tmatmul.acc"),
    _why("difference for sum in a loop", _CHUNKED, _CHUNKED_FILE, r"TADD\(", "TSUB(", r"TSUB\(", "c", "128:256,0:128", "pto.tadd"),
    _why("operand loaded over the other", _CHUNKED, _CHUNKED_FILE, r"= 65536;", "= 0;", r"TLOAD\(v17|TADD", "c", "0:512,0:128", "pto.t"),
    _why("reciprocal in the middle of four tasks", _FFN, _FFN_FILE, r"TRECIP\(", "TABS(", r"TABS\(", "output", "0:64,0:64", "pto.trecip"),
)  # fmt: skip
