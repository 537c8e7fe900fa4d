"""Sixty bugs planted in four programs, before their modules, in them and after them, each with its right answer.

The second thirty (`FRESH`) were written without a look at what `triage` tries.
"""

from __future__ import annotations

from dataclasses import dataclass

ROWGATE = '''"""Centers rows, then gates them."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, COLS, BLOCK = 64, 128, 32


@pl.jit.incore
def center(x: pl.Tensor[[ROWS, COLS], pl.FP32], y: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]], row: pl.Scalar[pl.INDEX]):
    tile = pl.load(x, [row, 0], [BLOCK, COLS])
    mean = pl.row_sum(tile) * (1.0 / COLS)
    pl.store(pl.row_expand_sub(tile, mean), [row, 0], y)


@pl.jit.incore
def gate(
    y: pl.Tensor[[ROWS, COLS], pl.FP32],
    g: pl.Tensor[[ROWS, COLS], pl.FP32],
    z: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
    row: pl.Scalar[pl.INDEX],
):
    a = pl.load(y, [row, 0], [BLOCK, COLS])
    b = pl.load(g, [row, 0], [BLOCK, COLS])
    soft = pl.exp(b * 0.5)
    pl.store(soft * a + 1.0, [row, 0], z)


@pl.jit
def rowgate(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    g: pl.Tensor[[ROWS, COLS], pl.FP32],
    z: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    y = pl.create_tensor([ROWS, COLS], pl.FP32)
    for row in pl.range(0, ROWS, BLOCK):
        center(x, y, row)
    for row in pl.range(0, ROWS, BLOCK):
        gate(y, g, z, row)


@rowgate.reference
def reference(x, g, z):
    import torch

    y = x - x.mean(dim=1, keepdim=True)
    z[:] = torch.exp(g * 0.5) * y + 1.0
'''

MIX = '''"""A product of rounded rows, divided by the largest of each row."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, DEPTH, COLS = 32, 64, 64


@pl.jit.incore
def product(
    a: pl.Tensor[[ROWS, DEPTH], pl.FP32],
    w: pl.Tensor[[DEPTH, COLS], pl.BF16],
    c: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    left = pl.cast(pl.load(a, [0, 0], [ROWS, DEPTH]), pl.BF16)
    pl.store(pl.matmul(left, pl.load(w, [0, 0], [DEPTH, COLS])), [0, 0], c)


@pl.jit.incore
def scale(
    c: pl.Tensor[[ROWS, COLS], pl.FP32],
    b: pl.Tensor[[ROWS, COLS], pl.FP32],
    d: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
    factor: pl.Scalar[pl.FP32],
):
    x = pl.load(c, [0, 0], [ROWS, COLS]) + pl.load(b, [0, 0], [ROWS, COLS])
    top = pl.row_max(pl.abs(x))
    pl.store(pl.row_expand_div(x * factor, top), [0, 0], d)


@pl.jit
def mix(
    a: pl.Tensor[[ROWS, DEPTH], pl.FP32],
    w: pl.Tensor[[DEPTH, COLS], pl.BF16],
    b: pl.Tensor[[ROWS, COLS], pl.FP32],
    d: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    c = pl.create_tensor([ROWS, COLS], pl.FP32)
    product(a, w, c)
    scale(c, b, d, 4.0)


@mix.reference
def reference(a, w, b, d):
    import torch

    x = a.to(torch.bfloat16).float() @ w.float() + b
    top = x.abs().amax(dim=1, keepdim=True)
    d[:] = x * 4.0 / top
'''
ATTEND = '''"""Scores of queries against keys, made weights row by row, and the values that they pick."""

from __future__ import annotations

import pypto_build.compiler.language as pl

Q, K, D, STEP = 64, 128, 64, 16
SCALE = 0.125


@pl.jit.incore
def score(q: pl.Tensor[[Q, D], pl.BF16], k: pl.Tensor[[K, D], pl.BF16], s: pl.Out[pl.Tensor[[Q, K], pl.FP32]]):
    keys = pl.transpose(pl.load(k, [0, 0], [K, D]))
    pl.store(pl.matmul(pl.load(q, [0, 0], [Q, D]), keys), [0, 0], s)


@pl.jit.incore
def weigh(
    s: pl.Tensor[[Q, K], pl.FP32],
    bias: pl.Tensor[[1, K], pl.FP32],
    w: pl.Out[pl.Tensor[[Q, K], pl.BF16]],
    first: pl.Scalar[pl.INDEX],
):
    x = pl.load(s, [first, 0], [STEP, K]) * SCALE
    x = pl.col_expand_add(x, pl.load(bias, [0, 0], [1, K]))
    e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
    p = pl.row_expand_div(e, pl.row_sum(e))
    pl.store(pl.cast(p, pl.BF16), [first, 0], w)


@pl.jit.incore
def pick(w: pl.Tensor[[Q, K], pl.BF16], v: pl.Tensor[[K, D], pl.BF16], o: pl.Out[pl.Tensor[[Q, D], pl.FP32]]):
    pl.store(pl.matmul(pl.load(w, [0, 0], [Q, K]), pl.load(v, [0, 0], [K, D])), [0, 0], o)


@pl.jit
def attend(
    q: pl.Tensor[[Q, D], pl.BF16],
    k: pl.Tensor[[K, D], pl.BF16],
    v: pl.Tensor[[K, D], pl.BF16],
    bias: pl.Tensor[[1, K], pl.FP32],
    o: pl.Out[pl.Tensor[[Q, D], pl.FP32]],
):
    s = pl.create_tensor([Q, K], pl.FP32)
    w = pl.create_tensor([Q, K], pl.BF16)
    score(q, k, s)
    for first in pl.range(0, Q, STEP):
        weigh(s, bias, w, first)
    pick(w, v, o)


@attend.reference
def reference(q, k, v, bias, o):
    import torch

    s = q.float() @ k.float().T
    w = torch.softmax(s * SCALE + bias, dim=1)
    o[:] = w.to(torch.bfloat16).float() @ v.float()
'''

LEDGER = '''"""Adds up groups of rows of a table into totals, takes their spread from them, and clips what is left."""

from __future__ import annotations

import pypto_build.compiler.language as pl

GROUPS, ROWS, COLS = 4, 32, 64
FLOOR = -2.0


@pl.jit.incore
def begin(total: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]]):
    pl.store(pl.full([ROWS, COLS], 1.0, pl.FP32), [0, 0], total)


@pl.jit.incore
def post(
    table: pl.Tensor[[ROWS, COLS], pl.FP32],
    rate: pl.Tensor[[1, COLS], pl.FP32],
    total: pl.InOut[pl.Tensor[[ROWS, COLS], pl.FP32]],
    share: pl.Scalar[pl.FP32],
):
    amount = pl.col_expand_mul(pl.load(table, [0, 0], [ROWS, COLS]), pl.load(rate, [0, 0], [1, COLS]))
    pl.store(pl.load(total, [0, 0], [ROWS, COLS]) + amount * share, [0, 0], total)


@pl.jit.incore
def settle(
    total: pl.Tensor[[ROWS, COLS], pl.FP32],
    spread: pl.Out[pl.Tensor[[ROWS, 1], pl.FP32]],
    rest: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    t = pl.load(total, [0, 0], [ROWS, COLS])
    gap = pl.row_max(t) - pl.row_min(t)
    pl.store(gap, [0, 0], spread)
    pl.store(pl.maximum(pl.row_expand_sub(t, gap), FLOOR), [0, 0], rest)


@pl.jit
def ledger(
    table: pl.Tensor[[GROUPS * ROWS, COLS], pl.FP32],
    rate: pl.Tensor[[1, COLS], pl.FP32],
    spread: pl.Out[pl.Tensor[[ROWS, 1], pl.FP32]],
    rest: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    total = pl.create_tensor([ROWS, COLS], pl.FP32)
    begin(total)
    for g in pl.range(GROUPS):
        post(pl.slice(table, [ROWS, COLS], [g * ROWS, 0]), rate, total, 0.5)
    settle(total, spread, rest)


@ledger.reference
def reference(table, rate, spread, rest):
    import torch

    total = torch.ones(ROWS, COLS)
    for g in range(GROUPS):
        total += table[g * ROWS : (g + 1) * ROWS] * rate * 0.5
    gap = total.amax(dim=1, keepdim=True) - total.amin(dim=1, keepdim=True)
    spread[:] = gap
    rest[:] = torch.clamp(total - gap, min=FLOOR)
'''
PROGRAMS = {"rowgate": ROWGATE, "mix": MIX, "attend": ATTEND, "ledger": LEDGER}


@dataclass(frozen=True)
class Planted:
    """``old`` becomes ``new`` in ``file``, of the program before it is compiled, else of its artifact."""

    name: str
    program: str
    file: str
    old: str
    new: str

    @property
    def stage(self) -> str:
        """Return on which side of the modules it is."""
        if self.file.endswith(".pto"):
            return "module"
        python = self.file.endswith(".py") and self.file != "kernel_config.py"
        return "before" if python or self.file.startswith("data/") else "after"


_R, _M = "rowgate", "mix"
_CENTER, _GATE, _SCALE = "ptoas/center.pto", "ptoas/gate.pto", "ptoas/scale.pto"
# fmt: off
PLANTED = (
    Planted("program: operator", _R, "rowgate.py", "soft * a + 1.0, [row", "soft - a + 1.0, [row"),
    Planted("program: constant", _R, "rowgate.py", "pl.exp(b * 0.5)", "pl.exp(b * 0.25)"),
    Planted("program: operand", _R, "rowgate.py", "b = pl.load(g,", "b = pl.load(y,"),
    Planted("program: loop bound", _R, "rowgate.py", "range(0, ROWS, BLOCK):\n        g", "range(BLOCK, ROWS, BLOCK):\n        g"),
    Planted("program: missing call", _M, "mix.py", "top = pl.row_max(pl.abs(x))", "top = pl.row_max(x)"),
    Planted("program: missing cast in the reference", _M, "mix.py", "a.to(torch.bfloat16).float() @", "a @"),
    Planted("reference: axis", _R, "rowgate.py", "x.mean(dim=1, keepdim=True)", "x.mean(dim=0, keepdim=True)"),
    Planted("reference: constant", _M, "mix.py", "x * 4.0 / top", "x * 2.0 / top"),
    Planted("golden.py: operator", _R, "golden.py", "* y + 1.0", "* y - 1.0"),
    Planted("golden: another tensor", _M, "data/out/d.pt", "", ""),
    Planted("module: operation", _R, _CENTER, "pto.trowexpandsub", "pto.trowexpandadd"),
    Planted("module: constant", _R, _GATE, "constant 5.00000000000000000e-01", "constant 2.50000000000000000e-01"),
    Planted("module: function", _R, _GATE, "pto.texp ins", "pto.tabs ins"),
    Planted("module: reduction", _R, _CENTER, "pto.trowsum ins", "pto.trowmax ins"),
    Planted("module: offset", _R, _GATE, "offsets = [%arg3, %c0_index]", "offsets = [%c0_index, %c0_index]"),
    Planted("module: operand", _M, _SCALE, "pto.tadd ins(", "pto.tsub ins("),
    Planted("module: reduction of another kind", _M, _SCALE, "pto.trowmax ins", "pto.trowmin ins"),
    Planted("module: missing absolute value", _M, _SCALE, "pto.tabs ins", "pto.tneg ins"),
    Planted("module: rounding", _M, "ptoas/product.pto", "round_mode RINT", "round_mode CEIL"),
    Planted("module: scalar", _R, _CENTER, "constant 7.81250000000000000e-03", "constant 1.56250000000000000e-02"),
    Planted("kernel: operation", _R, "kernels/aiv/gate.cpp", "TMUL(", "TADD("),
    Planted("kernel: constant", _R, "kernels/aiv/gate.cpp", "= 0.5f", "= 0.75f"),
    Planted("kernel: offset", _R, "kernels/aiv/center.cpp", "arg2 * 128", "arg2 * 64"),
    Planted("kernel: missing instruction", _M, "kernels/aiv/scale.cpp", "TABS(", "// TABS("),
    Planted("orchestration: loop bound", _R, "orchestration/rowgate.cpp", "< 64", "< 32"),
    Planted("orchestration: input", _R, "orchestration/rowgate.cpp", "add_input(ext_g)", "add_input(ext_x)"),
    Planted("orchestration: scalar", _M, "orchestration/mix.cpp", "4.0f", "3.0f"),
    Planted("orchestration: kernel", _R, "orchestration/rowgate.cpp", "rt_submit_aiv_task(1,", "rt_submit_aiv_task(0,"),
    Planted("manifest: numbers exchanged", _R, "kernel_config.py", "", ""),
    Planted("manifest: direction", _M, "kernel_config.py", '"signature": [_D.IN, _D.IN, _D.OUT]}', '"signature": [_D.IN, _D.OUT, _D.OUT]}'),
)
# fmt: on

_A, _L = "attend", "ledger"
_WEIGH, _SETTLE = "ptoas/weigh.pto", "ptoas/settle.pto"
# fmt: off
FRESH = (
    Planted("program: another reduction", _A, "attend.py", "p = pl.row_expand_div(e, pl.row_sum(e))", "p = pl.row_expand_div(e, pl.row_max(e))"),
    Planted("program: scale", _A, "attend.py", "[STEP, K]) * SCALE", "[STEP, K]) * (SCALE * 2)"),
    Planted("program: operands exchanged", _L, "ledger.py", "pl.row_max(t) - pl.row_min(t)", "pl.row_min(t) - pl.row_max(t)"),
    Planted("program: rounds", _L, "ledger.py", "in pl.range(GROUPS):", "in pl.range(GROUPS - 1):"),
    Planted("program: scalar of a call", _L, "ledger.py", "rate, total, 0.5)", "rate, total, 0.25)"),
    Planted("program: offset of a slice", _L, "ledger.py", "[g * ROWS, 0]), rate", "[0, 0]), rate"),
    Planted("reference: missing rounding", _A, "attend.py", "w.to(torch.bfloat16).float() @", "w @"),
    Planted("reference: axis", _A, "attend.py", "bias, dim=1)", "bias, dim=0)"),
    Planted("golden.py: bound on the other side", _L, "golden.py", "torch.clamp(total - gap, min=FLOOR)", "torch.clamp(total - gap, max=FLOOR)"),
    Planted("golden: older than its input", _L, "data/in/rate.pt", "", ""),
    Planted("module: scale", _A, _WEIGH, "constant 1.25000000000000000e-01", "constant 1.25000000000000000e-02"),
    Planted("module: bias multiplied", _A, _WEIGH, "pto.tcolexpandadd", "pto.tcolexpandmul"),
    Planted("module: offset of the result", _A, _WEIGH, "%w__ssa_v0_view, offsets = [%arg3", "%w__ssa_v0_view, offsets = [%c0_index"),
    Planted("module: stride", _A, "ptoas/score.pto", "%arg0, shape = [%c64_index, %c64_index], strides = [%c64_index", "%arg0, shape = [%c64_index, %c64_index], strides = [%c1_index"),
    Planted("module: offset beyond the tensor", _A, "ptoas/pick.pto", "%v__ssa_v0_view, offsets = [%c0_index", "%v__ssa_v0_view, offsets = [%c64_index"),
    Planted("module: initial value", _L, "ptoas/begin.pto", "constant 1.00000000000000000e+00", "constant 0.00000000000000000e+00"),
    Planted("module: max in place of a sum", _L, "ptoas/post.pto", "pto.tadd ins(%tmp3", "pto.tmax ins(%tmp3"),
    Planted("module: bound on the other side", _L, _SETTLE, "pto.tmaxs", "pto.tmins"),
    Planted("module: operands exchanged", _L, _SETTLE, "pto.tsub ins(%tmp0__ssa_v0__row_1, %tmp1__ssa_v0__row_2", "pto.tsub ins(%tmp1__ssa_v0__row_2, %tmp0__ssa_v0__row_1"),
    Planted("module: missing instruction", _L, "ptoas/post.pto", "pto.tmuls ins(%amount", "// pto.tmuls ins(%amount"),
    Planted("kernel: bias multiplied", _A, "kernels/aiv/weigh.cpp", "TCOLEXPANDADD(", "TCOLEXPANDMUL("),
    Planted("kernel: a row further", _L, "kernels/aiv/post.cpp", "tensor(arg0,", "tensor(arg0 + 64,"),
    Planted("kernel: two tiles at one address", _L, "kernels/aiv/settle.cpp", "TASSIGN(tmp3__ssa_v0, 8320)", "TASSIGN(tmp3__ssa_v0, 8256)"),
    Planted("kernel: missing move", _A, "kernels/aic/pick.cpp", "TMOV(tmp2__ssa_v0_Right", "// TMOV(tmp2__ssa_v0_Right"),
    Planted("orchestration: step of a loop", _A, "orchestration/attend.cpp", "first += 16", "first += 32"),
    Planted("orchestration: offset of a slice", _L, "orchestration/ledger.cpp", "(g * 32)", "(g * 16)"),
    Planted("orchestration: outputs exchanged", _L, "orchestration/ledger.cpp", "add_output(ext_spread);\n        params_t2.add_output(ext_rest)", "add_output(ext_rest);\n        params_t2.add_output(ext_spread)"),
    Planted("orchestration: another input", _A, "orchestration/attend.cpp", "add_input(ext_k)", "add_input(ext_v)"),
    Planted("orchestration: direction", _A, "orchestration/attend.cpp", "params_t1.add_output(w)", "params_t1.add_input(w)"),
    Planted("manifest: file of another kernel", _A, "kernel_config.py", '"aic" / "pick.cpp"', '"aic" / "score.cpp"'),
)
# fmt: on
