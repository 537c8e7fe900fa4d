"""Wrong elements, and the instruction that made each of them wrong."""

from __future__ import annotations

from dataclasses import dataclass

_SOFTMAX = "kernels/aiv/softmax_rows.cpp"
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
)  # fmt: skip
