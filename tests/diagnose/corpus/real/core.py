"""Synchronisation within a core: flags, barriers, scratch tiles and addresses of real kernels."""

from __future__ import annotations

from tests.diagnose.corpus.real import Recipe

_CHUNKED, _CHUNKED_FILE = "e_02_elementwise-_jit_chunked_add", "kernels/aiv/chunked_add_incore_0.cpp"
_NORM, _NORM_FILE = "e_03_normalization-_jit_layer_norm", "kernels/aiv/layer_norm_incore_0.cpp"
_RMS, _RMS_FILE = "e_03_normalization-_jit_rms_norm", "kernels/aiv/rms_norm_incore_0.cpp"
_SOFTMAX, _SOFTMAX_FILE = "e_02_softmax-_jit_tile_softmax", "kernels/aiv/tile_softmax_incore_0.cpp"
_ACC, _ACC_FILE = "e_04_matmul_acc-_jit_matmul_acc_64", "kernels/aic/matmul_acc_64_incore_0.cpp"
_SPLIT, _SPLIT_FILE = "e_02_auto_tile_matmul-_jit_ddr_split_k", "kernels/aic/ddr_split_k_ddr_split_k.cpp"
_MATMUL, _MATMUL_FILE = "e_05_matmul-_jit_matmul_64", "kernels/aic/matmul_64_incore_0.cpp"
_FFN, _FFN_FILE = "e_01_ffn-_jit_ffn_swiglu", "kernels/aiv/swiglu_kernel.cpp"
_MIXED, _MIXED_FILE = "e_03_mixed_kernel-_jit_mixed_matmul_bias", "kernels/aiv/mixed_up_down_aiv.cpp"
_REDUCE = "st_allreduce_test_allreduce_2_-AllReduceMesh"
_REDUCE_FILE = "next_levels/chip_orch/kernels/aiv/reduce_step.cpp"
_ATTENTION = "e_06_paged_attention_dynamic-DynamicPagedAttentionProgram"

_UNORDERED, _FLAGS, _BARRIER, _SCRATCH = "check/unordered-pipes", "check/flags", "check/no-barrier", "check/scratch"


def _flag(word: str, first: str, then: str, number: int = 0) -> str:
    """A pattern for the line of a `set_flag` or `wait_flag`."""
    return rf"^ *{word}_flag\(PIPE_{first}, PIPE_{then}, EVENT_ID{number}\);\n"


def _without(file: str, first: str, then: str, number: int = 0) -> tuple[tuple[str, str, str], ...]:
    """The only set and the only wait of two pipes are left out."""
    return ((file, _flag("set", first, then, number), ""), (file, _flag("wait", first, then, number), ""))


def _before(instruction: str) -> str:
    """A pattern for `pipe_barrier(PIPE_V)` in front of an instruction, which is kept as group 1."""
    return rf"^ *pipe_barrier\(PIPE_V\);\n((?: *wait_flag.*\n)?  {instruction}\()"


RECIPES = (
    Recipe(
        "store of a loop that does not wait for the vector pipe", _CHUNKED, _without(_CHUNKED_FILE, "V", "MTE3"),
        _UNORDERED, _CHUNKED_FILE, r"TSTORE\(", "TSTORE on PIPE_MTE3 reads",
    ),
    Recipe(
        "vector pipe of a loop that does not wait for the loads", _CHUNKED, _without(_CHUNKED_FILE, "MTE2", "V"),
        _UNORDERED, _CHUNKED_FILE, r"TADD\(", "which TLOAD wrote on PIPE_MTE2",
    ),
    Recipe(
        "load over a tile that the round before still stores", _CHUNKED,
        (
            (_CHUNKED_FILE, r"^  set_flag\(PIPE_MTE3, PIPE_MTE2.*\n", ""),
            (_CHUNKED_FILE, r"^    wait_flag\(PIPE_MTE3, PIPE_MTE2.*\n", ""),
            (_CHUNKED_FILE, r"^    set_flag\(PIPE_MTE3, PIPE_MTE2.*\n", ""),
            (_CHUNKED_FILE, r"^  wait_flag\(PIPE_MTE3, PIPE_MTE2.*\n", ""),
        ),
        _UNORDERED, _CHUNKED_FILE, r"TLOAD\(v10", "TLOAD on PIPE_MTE2 overwrites",
    ),
    Recipe(
        "a loop that no longer sets what its next round waits for", _CHUNKED,
        ((_CHUNKED_FILE, r"^    set_flag\(PIPE_MTE3, PIPE_MTE2.*\n", ""),),
        _FLAGS, _CHUNKED_FILE, r"^    wait_flag\(PIPE_MTE3, PIPE_MTE2", "waits for ever",
    ),
    Recipe(
        "the set before a loop left out", _CHUNKED, ((_CHUNKED_FILE, r"^  set_flag\(PIPE_MTE3, PIPE_MTE2.*\n", ""),),
        _FLAGS, _CHUNKED_FILE, r"wait_flag\(PIPE_MTE3, PIPE_MTE2", "waits for ever",
    ),
    Recipe(
        "the wait behind a loop left out", _CHUNKED, ((_CHUNKED_FILE, r"^  wait_flag\(PIPE_MTE3, PIPE_MTE2.*\n", ""),),
        _FLAGS, _CHUNKED_FILE, r"set_flag\(PIPE_MTE3, PIPE_MTE2", "the next kernel on this core finds it set",
    ),
    Recipe(
        "no barrier behind the mean", _NORM, ((_NORM_FILE, _before("TROWEXPANDSUB"), r"\1"),),
        _BARRIER, _NORM_FILE, r"TROWEXPANDSUB\(", "which TMULS wrote on PIPE_V",
    ),
    Recipe(
        "no barrier before the root", _NORM, ((_NORM_FILE, _before("TSQRT"), r"\1"),),
        _BARRIER, _NORM_FILE, r"TSQRT\(", "which TADDS wrote on PIPE_V",
    ),
    Recipe(
        "no barrier between a row's sum and the division", _SOFTMAX, ((_SOFTMAX_FILE, _before("TROWEXPANDDIV"), r"\1"),),
        _BARRIER, _SOFTMAX_FILE, r"TROWEXPANDDIV\(", "which TROWSUM wrote on PIPE_V",
    ),
    Recipe(
        "scratch of a row's sum on the exponentials", _SOFTMAX,
        ((_SOFTMAX_FILE, r"TROWSUM\((v\d+), (v\d+), v\d+\)", r"TROWSUM(\1, \2, \2)"),),
        _SCRATCH, _SOFTMAX_FILE, r"TROWEXPANDDIV\(", "in which TROWSUM has worked",
    ),
    Recipe(
        "scratch of a row's sum on the input", _NORM,
        ((_NORM_FILE, r"TROWSUM\((v33), (v\d+), v\d+\)", r"TROWSUM(\1, \2, \2)"),),
        _SCRATCH, _NORM_FILE, r"TROWEXPANDSUB\(", "in which TROWSUM has worked",
    ),
    Recipe(
        "gamma is not waited for", _RMS, _without(_RMS_FILE, "MTE2", "V", 1),
        _UNORDERED, _RMS_FILE, r"TCOLEXPANDMUL\(", "which TLOAD wrote on PIPE_MTE2",
    ),
    Recipe(
        "a wait under the number of another load", _NORM,
        ((_NORM_FILE, r"wait_flag\(PIPE_MTE2, PIPE_V, EVENT_ID2\)", "wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID5)"),),
        _FLAGS, _NORM_FILE, r"wait_flag\(PIPE_MTE2, PIPE_V, EVENT_ID5\)", "waits for ever",
    ),
    Recipe(
        "a set under a number that nobody waits for", _SOFTMAX,
        ((_SOFTMAX_FILE, r"set_flag\(PIPE_V, PIPE_MTE3, EVENT_ID0\)", "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID3)"),),
        _FLAGS, _SOFTMAX_FILE, r"set_flag\(PIPE_V, PIPE_MTE3, EVENT_ID3\)", "is never waited for",
    ),
    Recipe(
        "load over the left operand while it is moved", _ACC, _without(_ACC_FILE, "MTE1", "MTE2"),
        _UNORDERED, _ACC_FILE, r"TLOAD\(v25", "TLOAD on PIPE_MTE2 overwrites",
    ),
    Recipe(
        "move over an operand that the cube still reads", _ACC, _without(_ACC_FILE, "M", "MTE1"),
        _UNORDERED, _ACC_FILE, r"TMOV\(v35", "TMOV on PIPE_MTE1 overwrites",
    ),
    Recipe(
        "product stored before it is there", _MATMUL, _without(_MATMUL_FILE, "M", "FIX"),
        _UNORDERED, _MATMUL_FILE, r"TSTORE\(", "which TMATMUL wrote on PIPE_M",
    ),
    Recipe(
        "cube that does not wait for an operand", _MATMUL, _without(_MATMUL_FILE, "MTE1", "M"),
        _UNORDERED, _MATMUL_FILE, r"TMATMUL\(", "which TMOV wrote on PIPE_MTE1",
    ),
    Recipe(
        "one of two sets in a loop over the inner dimension left out", _SPLIT,
        ((_SPLIT_FILE, r"(TMATMUL_ACC\(v16.*\n) *set_flag\(PIPE_M, PIPE_MTE1, EVENT_ID1\);\n", r"\1"),),
        _FLAGS, _SPLIT_FILE, r"wait_flag\(PIPE_M, PIPE_MTE1, EVENT_ID1\)", "waits for ever",
    ),
    Recipe(
        "the second operand of a gate is not waited for", _FFN, _without(_FFN_FILE, "MTE2", "V", 1),
        _UNORDERED, _FFN_FILE, r"TMUL\(v32", "which TLOAD wrote on PIPE_MTE2",
    ),
    Recipe(
        "store of a vector lane that does not wait", _MIXED, _without(_MIXED_FILE, "V", "MTE3"),
        _UNORDERED, _MIXED_FILE, r"TSTORE\(", "which TADD wrote on PIPE_V",
    ),
    Recipe(
        "tile beyond the end of the buffer", _SOFTMAX,
        ((_SOFTMAX_FILE, r"const int64_t v5 = 32768;", "const int64_t v5 = 196480;"),),
        "check/capacity", _SOFTMAX_FILE, r"TROWMAX\(", "UB ends at",
    ),
    Recipe(
        "sum of a mesh over a tile that is still loaded", _REDUCE,
        (
            (_REDUCE_FILE, r"^  set_flag\(PIPE_V, PIPE_MTE2.*\n", ""),
            (_REDUCE_FILE, r"^ +wait_flag\(PIPE_MTE2, PIPE_V, .*\n", ""),
            (_REDUCE_FILE, r"^ +set_flag\(PIPE_MTE2, PIPE_V, .*\n", ""),
            (_REDUCE_FILE, r"^      wait_flag\(PIPE_V, PIPE_MTE2.*\n", ""),
            (_REDUCE_FILE, r"^      set_flag\(PIPE_V, PIPE_MTE2.*\n", ""),
            (_REDUCE_FILE, r"^  wait_flag\(PIPE_V, PIPE_MTE2.*\n", ""),
        ),
        _UNORDERED, _REDUCE_FILE, r"TADD\(", "which TLOAD wrote on PIPE_MTE2",
    ),
)  # fmt: skip
