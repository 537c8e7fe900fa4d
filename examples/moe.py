"""A mixture-of-experts layer in two programs: the router, then the experts.

`moe_route` normalises the tokens and gives each expert its weight for each token; `moe_experts` runs the experts over
all tokens and adds up what they contribute. Weights below the threshold count as nothing.
"""

from __future__ import annotations

import pypto_build.compiler.language as pl

TOKENS, HIDDEN, INTER, EXPERTS = 32, 64, 128, 4
LANES = 16  # columns of the router's product, of which the first EXPERTS count
THRESHOLD = 0.2
EPS = 1e-6

Tokens = pl.Tensor[[TOKENS, HIDDEN], pl.FP32]
Narrow = pl.Tensor[[TOKENS, HIDDEN], pl.BF16]
Logits = pl.Tensor[[TOKENS, LANES], pl.FP32]
Weights = pl.Tensor[[EXPERTS, TOKENS, 1], pl.FP32]
Inter = pl.Tensor[[TOKENS, INTER], pl.FP32]
InterNarrow = pl.Tensor[[TOKENS, INTER], pl.BF16]
Up = pl.Tensor[[1, HIDDEN, INTER], pl.BF16]
Down = pl.Tensor[[1, INTER, HIDDEN], pl.BF16]


# --- the router


@pl.jit.incore
def norm(x: Tokens, gamma: pl.Tensor[[1, HIDDEN], pl.FP32], out: pl.Out[Tokens]):
    tile = pl.load(x, [0, 0], [TOKENS, HIDDEN])
    scale = pl.rsqrt(pl.row_sum(tile * tile) * (1.0 / HIDDEN) + EPS)
    y = pl.row_expand_mul(tile, scale)
    pl.store(pl.col_expand_mul(y, pl.load(gamma, [0, 0], [1, HIDDEN])), [0, 0], out)


@pl.jit.incore
def narrow(x: Tokens, out: pl.Out[Narrow]):
    pl.store(pl.cast(pl.load(x, [0, 0], [TOKENS, HIDDEN]), pl.BF16), [0, 0], out)


@pl.jit.incore
def router_matmul(x: Narrow, router: pl.Tensor[[HIDDEN, LANES], pl.BF16], logits: pl.Out[Logits]):
    pl.store(pl.matmul(pl.load(x, [0, 0], [TOKENS, HIDDEN]), pl.load(router, [0, 0], [HIDDEN, LANES])), [0, 0], logits)


@pl.jit.incore
def router_softmax(logits: Logits, scores: pl.Out[Logits]):
    part = pl.load(logits, [0, 0], [TOKENS, LANES], valid_shape=[TOKENS, EXPERTS])
    tile = pl.fillpad(part, "min")
    exps = pl.exp(pl.row_expand_sub(tile, pl.row_max(tile)))
    pl.store(pl.row_expand_div(exps, pl.row_sum(exps)), [0, 0], scores)


@pl.jit.incore
def threshold(scores: Logits, kept: pl.Out[Logits]):
    tile = pl.load(scores, [0, 0], [TOKENS, LANES])
    pl.store(pl.relu(tile - THRESHOLD), [0, 0], kept)


@pl.jit.incore
def by_expert(kept: Logits, weights: pl.Out[Weights]):
    tile = pl.transpose(pl.load(kept, [0, 0], [TOKENS, LANES]))
    for e in pl.unroll(EXPERTS):
        row = pl.extract(tile, [e, 0], [1, TOKENS])
        pl.store(pl.reshape(row, [TOKENS, 1]), [e, 0, 0], weights)


@pl.jit
def moe_route(
    x: Tokens,
    gamma: pl.Tensor[[1, HIDDEN], pl.FP32],
    router: pl.Tensor[[HIDDEN, LANES], pl.BF16],
    tokens: pl.Out[Narrow],
    weights: pl.Out[Weights],
):
    normed = pl.create_tensor([TOKENS, HIDDEN], pl.FP32)
    logits = pl.create_tensor([TOKENS, LANES], pl.FP32)
    scores = pl.create_tensor([TOKENS, LANES], pl.FP32)
    kept = pl.create_tensor([TOKENS, LANES], pl.FP32)
    norm(x, gamma, normed)
    narrow(normed, tokens)
    router_matmul(tokens, router, logits)
    router_softmax(logits, scores)
    threshold(scores, kept)
    by_expert(kept, weights)


@moe_route.reference(rtol=2e-2, atol=2e-2)
def route_reference(x, gamma, router, tokens, weights):
    import torch

    normed = x * (x.square().mean(dim=1, keepdim=True) + EPS).rsqrt() * gamma
    tokens[:] = normed.to(tokens.dtype)
    logits = (tokens.float() @ router.float())[:, :EXPERTS]
    weights[:] = torch.relu(torch.softmax(logits, dim=1) - THRESHOLD).T.reshape(EXPERTS, TOKENS, 1)


# --- the experts


@pl.jit.inline
def whole(x, rows, cols):
    return pl.load(x, [0, 0], [rows, cols])


@pl.jit.incore
def gate_matmul(x: Narrow, w: Up, out: pl.Out[Inter]):
    pl.store(pl.matmul(whole(x, TOKENS, HIDDEN), pl.load(w, [0, 0, 0], [1, HIDDEN, INTER])), [0, 0], out)


@pl.jit.incore
def up_matmul(x: Narrow, w: Up, out: pl.Out[Inter]):
    pl.store(pl.matmul(whole(x, TOKENS, HIDDEN), pl.load(w, [0, 0, 0], [1, HIDDEN, INTER])), [0, 0], out)


@pl.jit.incore
def swiglu(gate: Inter, up: Inter, out: pl.Out[InterNarrow]):
    g = whole(gate, TOKENS, INTER)
    act = g / (pl.exp(-g) + 1.0) * whole(up, TOKENS, INTER)
    pl.store(pl.cast(act, pl.BF16), [0, 0], out)


@pl.jit.incore
def down_matmul(act: InterNarrow, w: Down, out: pl.Out[Tokens]):
    pl.store(pl.matmul(whole(act, TOKENS, INTER), pl.load(w, [0, 0, 0], [1, INTER, HIDDEN])), [0, 0], out)


@pl.jit.incore
def clear(acc: pl.Out[Tokens]):
    pl.store(pl.full([TOKENS, HIDDEN], 0.0, pl.FP32), [0, 0], acc)


@pl.jit.incore
def combine(y: Tokens, weight: pl.Tensor[[1, TOKENS, 1], pl.FP32], acc: pl.InOut[Tokens]):
    share = pl.row_expand_mul(whole(y, TOKENS, HIDDEN), pl.load(weight, [0, 0, 0], [1, TOKENS, 1]))
    pl.store(whole(acc, TOKENS, HIDDEN) + share, [0, 0], acc)


@pl.jit.incore
def residual_add(x: Tokens, acc: Tokens, out: pl.Out[Tokens]):
    pl.store(whole(x, TOKENS, HIDDEN) + whole(acc, TOKENS, HIDDEN), [0, 0], out)


@pl.jit
def moe_experts(
    x: Tokens,
    tokens: Narrow,
    weights: Weights,
    w_gate: pl.Tensor[[EXPERTS, HIDDEN, INTER], pl.BF16],
    w_up: pl.Tensor[[EXPERTS, HIDDEN, INTER], pl.BF16],
    w_down: pl.Tensor[[EXPERTS, INTER, HIDDEN], pl.BF16],
    out: pl.Out[Tokens],
):
    acc = pl.create_tensor([TOKENS, HIDDEN], pl.FP32)
    clear(acc)
    for e in pl.range(EXPERTS):
        gate = pl.create_tensor([TOKENS, INTER], pl.FP32)
        up = pl.create_tensor([TOKENS, INTER], pl.FP32)
        act = pl.create_tensor([TOKENS, INTER], pl.BF16)
        y = pl.create_tensor([TOKENS, HIDDEN], pl.FP32)
        gate_matmul(tokens, pl.slice(w_gate, [1, HIDDEN, INTER], [e, 0, 0]), gate)
        up_matmul(tokens, pl.slice(w_up, [1, HIDDEN, INTER], [e, 0, 0]), up)
        swiglu(gate, up, act)
        down_matmul(act, pl.slice(w_down, [1, INTER, HIDDEN], [e, 0, 0]), y)
        combine(y, pl.slice(weights, [1, TOKENS, 1], [e, 0, 0]), acc)
    residual_add(x, acc, out)


@moe_experts.inputs
def expert_inputs():
    import torch

    generator = torch.Generator().manual_seed(7)
    weights = torch.rand([EXPERTS, TOKENS, 1], generator=generator)
    shapes = {"w_gate": (HIDDEN, INTER), "w_up": (HIDDEN, INTER), "w_down": (INTER, HIDDEN)}
    scaled = {
        name: (torch.randn([EXPERTS, *shape], generator=generator) * shape[0] ** -0.5).bfloat16()
        for name, shape in shapes.items()
    }
    return {"weights": weights, **scaled}


@moe_experts.reference(rtol=2e-2, atol=2e-2)
def experts_reference(x, tokens, weights, w_gate, w_up, w_down, out):
    import torch

    out[:] = x
    for e in range(EXPERTS):
        gate, up = tokens.float() @ w_gate[e].float(), tokens.float() @ w_up[e].float()
        act = (torch.nn.functional.silu(gate) * up).bfloat16().float()
        out += weights[e] * (act @ w_down[e].float())
