"""Wrong elements, and the instruction that made each of them wrong."""

from __future__ import annotations

from dataclasses import dataclass

_SOFTMAX = "kernels/aiv/softmax_rows.cpp"
_ADD, _AXPY, _SCALE = "kernels/aiv/kernel_add.cpp", "kernels/aiv/axpy_acc.cpp", "kernels/aiv/scale_rows.cpp"
_MUL, _SHIFT = "kernels/aiv/kernel_mul.cpp", "kernels/aiv/kernel_shift.cpp"
_MATMUL, _RMS, _GATE = "kernels/aic/matmul_tile.cpp", "kernels/aiv/rms_norm_rows.cpp", "kernels/aiv/gate_rows.cpp"


@dataclass(frozen=True)
class Wrong:
    """In the artifact, (file, old, new) of `edits` are applied once; element `at` of output `out` is wrong then.

    `scons why` marks the line of `file` that holds `line`, and the module's line that holds `operation`, and goes back
    to the tensors in `inputs`.
    """

    name: str
    artifact: str
    edits: tuple[tuple[str, str, str], ...]
    out: str
    at: str
    file: str
    line: str
    operation: str
    inputs: frozenset[str]


BUGS = (
    Wrong(
        "sum for product, two tasks back", "_jit_vector_dag",
        ((_MUL, "TMUL(v17, v7, v13);", "TADD(v17, v7, v13);"),), "f", "127,0",
        _MUL, "TADD(v17, v7, v13);", "pto.tmul", frozenset({"'a'", "'b'"}),
    ),
    Wrong(
        "operand used twice", "_jit_vector_dag", ((_MUL, "TMUL(v17, v7, v13);", "TMUL(v17, v7, v7);"),), "f", "0:128,5",
        _MUL, "TMUL(v17, v7, v7);", "pto.tmul", frozenset({"'a'", "'b'"}),
    ),
    Wrong(
        "max for sum of a row", "_jit_softmax",
        ((_SOFTMAX, "TROWSUM(v18, v17, v13);", "TROWMAX(v18, v17, v13);"),), "out", "3,7",
        _SOFTMAX, "TROWMAX(v18, v17, v13);", "pto.trowsum", frozenset({"'x'"}),
    ),
    Wrong(
        "exponential left out", "_jit_softmax", ((_SOFTMAX, "TEXP(v17, v16);", "TABS(v17, v16);"),), "out", "0,0:8",
        _SOFTMAX, "TABS(v17, v16);", "pto.texp", frozenset({"'x'"}),
    ),
    Wrong(
        "wrong half of an operand", "_jit_matmul",
        ((_MATMUL, "TEXTRACT(v21, v14, v19, v9);", "TEXTRACT(v21, v14, v9, v9);"),), "c", "5,9",
        _MATMUL, "TEXTRACT(v21, v14, v9, v9);", "pto.textract", frozenset({"'a'", "'b'"}),
    ),
    Wrong(
        "accumulator dropped", "_jit_matmul",
        ((_MATMUL, "TMATMUL_ACC(v18, v18, v20, v21);", "TMATMUL(v18, v20, v21);"),), "c", "0:128,0:128",
        _MATMUL, "      TMATMUL(v18, v20, v21);", "pto.tmatmul.acc", frozenset({"'a'", "'b'"}),
    ),
    Wrong(
        "sum of a task taken as difference", "_jit_vector_dag",
        ((_ADD, "TADD(v17, v7, v13);", "TSUB(v17, v7, v13);"),), "f", "127,0",
        _ADD, "TSUB(v17, v7, v13);", "pto.tadd", frozenset({"'a'", "'b'"}),
    ),
    Wrong(
        "scalar used twice", "_jit_vector_dag",
        ((_SHIFT, "TADDS(v15, v10, v8);", "TADDS(v15, v10, v8 + v8);"),), "f", "9,100",
        _SHIFT, "TADDS(v15, v10, v8 + v8);", "pto.tadds", frozenset({"'a'", "'b'"}),
    ),
    Wrong(
        "product with a scalar for the sum", "_jit_vector_dag",
        ((_SHIFT, "TADDS(v15, v10, v8);", "TMULS(v15, v10, v8);"),), "f", "0:128,0:128",
        _SHIFT, "TMULS(v15, v10, v8);", "pto.tadds", frozenset({"'a'", "'b'"}),
    ),
    Wrong(
        "larger of two for their product", "_jit_vector_dag",
        ((_MUL, "TMUL(v17, v7, v13);", "TMAX(v17, v7, v13);"),), "f", "64,64",
        _MUL, "TMAX(v17, v7, v13);", "pto.tmul", frozenset({"'a'", "'b'"}),
    ),
    Wrong(
        "quotient for product", "_jit_vector_dag",
        ((_MUL, "TMUL(v17, v7, v13);", "TDIV(v17, v7, v13);"),), "f", "5:9,0:128",
        _MUL, "TDIV(v17, v7, v13);", "pto.tmul", frozenset({"'a'", "'b'"}),
    ),
    Wrong(
        "product for quotient by a row's sum", "_jit_softmax",
        ((_SOFTMAX, "TROWEXPANDDIV(v19, v17, v18);", "TROWEXPANDMUL(v19, v17, v18);"),), "out", "63,255",
        _SOFTMAX, "TROWEXPANDMUL(v19, v17, v18);", "pto.trowexpanddiv", frozenset({"'x'"}),
    ),
    Wrong(
        "negative for exponential", "_jit_softmax",
        ((_SOFTMAX, "TEXP(v17, v16);", "TNEG(v17, v16);"),), "out", "3,0:16",
        _SOFTMAX, "TNEG(v17, v16);", "pto.texp", frozenset({"'x'"}),
    ),
    Wrong(
        "min for sum of a row", "_jit_softmax",
        ((_SOFTMAX, "TROWSUM(v18, v17, v13);", "TROWMIN(v18, v17, v13);"),), "out", "17,0:256",
        _SOFTMAX, "TROWMIN(v18, v17, v13);", "pto.trowsum", frozenset({"'x'"}),
    ),
    Wrong(
        "double for square", "_jit_rms_norm",
        ((_RMS, "TMUL(v17, v15, v15);", "TADD(v17, v15, v15);"),), "out", "2,0:8",
        _RMS, "TADD(v17, v15, v15);", "pto.tmul", frozenset({"'x'", "'gamma'"}),
    ),
    Wrong(
        "max for sum of squares", "_jit_rms_norm",
        ((_RMS, "TROWSUM(v22, v17, v20);", "TROWMAX(v22, v17, v20);"),), "out", "0,0:8",
        _RMS, "TROWMAX(v22, v17, v20);", "pto.trowsum", frozenset({"'x'", "'gamma'"}),
    ),
    Wrong(
        "mean made by a sum", "_jit_rms_norm",
        ((_RMS, "TMULS(v24, v23, v25);", "TADDS(v24, v23, v25);"),), "out", "30,0:8",
        _RMS, "TADDS(v24, v23, v25);", "pto.tmuls", frozenset({"'x'", "'gamma'"}),
    ),
    Wrong(
        "epsilon multiplied", "_jit_rms_norm",
        ((_RMS, "TADDS(v26, v24, v4);", "TMULS(v26, v24, v4);"),), "out", "63,0:64",
        _RMS, "TMULS(v26, v24, v4);", "pto.tadds", frozenset({"'x'", "'gamma'"}),
    ),
    Wrong(
        "root not inverted", "_jit_rms_norm",
        ((_RMS, "TRSQRT(v27, v26);", "TSQRT(v27, v26);"),), "out", "7,0:256",
        _RMS, "TSQRT(v27, v26);", "pto.trsqrt", frozenset({"'x'", "'gamma'"}),
    ),
    Wrong(
        "sum for product along rows", "_jit_rms_norm",
        ((_RMS, "TROWEXPANDMUL(v29, v15, v28);", "TROWEXPANDADD(v29, v15, v28);"),), "out", "7,0:256",
        _RMS, "TROWEXPANDADD(v29, v15, v28);", "pto.trowexpandmul", frozenset({"'x'", "'gamma'"}),
    ),
    Wrong(
        "sum for product along columns", "_jit_rms_norm",
        ((_RMS, "TCOLEXPANDMUL(v34, v29, v30);", "TCOLEXPANDADD(v34, v29, v30);"),), "out", "7,0:256",
        _RMS, "TCOLEXPANDADD(v34, v29, v30);", "pto.tcolexpandmul", frozenset({"'x'", "'gamma'"}),
    ),
    Wrong(
        "magnitude for negative, in a block of rows", "_jit_row_blocks",
        ((_GATE, "TNEG(v20, v19);", "TABS(v20, v19);"),), "out", "100,0:128",
        _GATE, "TABS(v20, v19);", "pto.tneg", frozenset({"'xb'", "'g'"}),
    ),
    Wrong(
        "root for reciprocal, in a block of rows", "_jit_row_blocks",
        ((_GATE, "TRECIP(v24, v22);", "TSQRT(v24, v22);"),), "out", "191,127",
        _GATE, "TSQRT(v24, v22);", "pto.trecip", frozenset({"'xb'", "'g'"}),
    ),
    Wrong(
        "sum with a scalar for the product, in a loop", "_jit_accumulate",
        ((_AXPY, "TMULS(v19, v10, v3);", "TADDS(v19, v10, v3);"),), "acc", "3:5,0:64",
        _AXPY, "TADDS(v19, v10, v3);", "pto.tmuls", frozenset({"'x'", "'y'", "'acc'"}),
    ),
    Wrong(
        "difference for accumulation", "_jit_accumulate",
        ((_AXPY, "TADD(v20, v15, v19);", "TSUB(v20, v15, v19);"),), "acc", "0:64,0:64",
        _AXPY, "TSUB(v20, v15, v19);", "pto.tadd", frozenset({"'x'", "'y'", "'acc'"}),
    ),
    Wrong(
        "max for sum, in one of many blocks", "_jit_spmd_scale",
        ((_SCALE, "TROWSUM(tmp4__ssa_v0, tile__ssa_v0, tmp4__ssa_v0__scratch);", "TROWMAX(tmp4__ssa_v0, tile__ssa_v0, tmp4__ssa_v0__scratch);"),), "y", "255,0:64",
        _SCALE, "TROWMAX(tmp4__ssa_v0, tile__ssa_v0, tmp4__ssa_v0__scratch);", "pto.trowsum", frozenset({"'x'"}),
    ),
)  # fmt: skip
