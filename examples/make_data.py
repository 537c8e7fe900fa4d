"""Makes the snapshots (data/in, data/out) of the example artifacts.

`python examples/make_data.py [DIR]` writes `DIR/<artifact>/data/{in,out}/<name>.pt`, by default in examples/artifacts.
The goldens are computed in float64 from the formula of each program, independently of what its kernels do, and rounded
to the output's dtype once. Inputs come from one seeded generator per artifact, so a run reproduces the committed files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch

Tensors = dict[str, torch.Tensor]
Program = Callable[[torch.Generator], tuple[Tensors, Tensors]]


def randn(
    generator: torch.Generator, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    return (torch.randn(shape, generator=generator) * scale).to(dtype)


def scalar(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(value, dtype=dtype)


def vector_dag(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """f = (a + b + alpha) * (a + b + alpha * steps) + (a + b)"""
    a, b = randn(generator, 128, 128), randn(generator, 128, 128)
    alpha, steps = scalar(0.75), scalar(3, torch.int32)
    c = a.double() + b.double()
    f = (c + float(alpha)) * (c + float(alpha) * int(steps)) + c
    return {"a": a, "b": b, "alpha": alpha, "steps": steps}, {"f": f.float()}


def matmul(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """c = a @ b, half inputs, float accumulation"""
    a = randn(generator, 128, 256, scale=0.25, dtype=torch.float16)
    b = randn(generator, 256, 128, scale=0.25, dtype=torch.float16)
    return {"a": a, "b": b}, {"c": (a.double() @ b.double()).float()}


def softmax(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """out = softmax(x) over the last dimension"""
    x = randn(generator, 64, 256, scale=3.0)
    return {"x": x}, {"out": torch.softmax(x.double(), dim=1).float()}


def rms_norm(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """out = x / sqrt(mean(x * x) + eps) * gamma, bfloat16 in and out"""
    x = randn(generator, 64, 256, dtype=torch.bfloat16)
    gamma, eps = 1.0 + randn(generator, 1, 256, scale=0.1), scalar(1e-6)
    scale = 1.0 / (x.double().square().mean(dim=1, keepdim=True) + float(eps)).sqrt()
    return {"x": x, "gamma": gamma, "eps": eps}, {"out": (x.double() * scale * gamma.double()).to(torch.bfloat16)}


def accumulate(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """acc += alpha * x - 0.5 * y"""
    x, y, acc = (randn(generator, 128, 128) for _ in range(3))
    alpha = scalar(1.25)
    total = acc.double() + float(alpha) * x.double() - 0.5 * y.double()
    return {"x": x, "y": y, "acc": acc, "alpha": alpha}, {"acc": total.float()}


def row_blocks(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """out = x * sigmoid(x * g); 200 rows in blocks of 64, so the last block has 8"""
    x, g = randn(generator, 200, 128), randn(generator, 1, 128)
    return {"x": x, "g": g}, {"out": (x.double() * torch.sigmoid(x.double() * g.double())).float()}


def gemm_silu(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """out = silu(a @ b) + residual, bfloat16 inputs, float accumulation"""
    a, b = (torch.randint(-4, 5, shape, generator=generator) / 8 for shape in ((64, 128), (128, 128)))
    residual, product = randn(generator, 64, 128), a.double() @ b.double()
    out = product * torch.sigmoid(product) + residual.double()
    return {"a": a.bfloat16(), "b": b.bfloat16(), "residual": residual}, {"out": out.float()}


def spmd_scale(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """y = x * rowsum(x), each SPMD block its share of the rows"""
    x = randn(generator, 256, 64, scale=0.25)
    return {"x": x}, {"y": (x.double() * x.double().sum(dim=1, keepdim=True)).float()}


def dist_allreduce(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """total = the sum over ranks of scale * x, on every rank"""
    x, scale = randn(generator, 2, 256), scalar(0.5)
    return {"x": x, "scale": scale}, {"total": (x.double() * float(scale)).sum(dim=0).float().expand(2, 256)}


def dist_all_to_all(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """part r of row d of y = part d of row r of x, four ranks with a row each"""
    x = randn(generator, 4, 256)
    return {"x": x}, {"y": x.reshape(4, 4, 64).transpose(0, 1).reshape(4, 256)}


def dist_pipeline(generator: torch.Generator) -> tuple[Tensors, Tensors]:
    """y = 2x + 1: one rank doubles, the other adds, row after row"""
    x = randn(generator, 4, 256)
    return {"x": x}, {"y": (2 * x.double() + 1).float()}


PROGRAMS: dict[str, Program] = {
    "_jit_vector_dag": vector_dag,
    "_jit_vector_dag_june": vector_dag,
    "_jit_vector_dag_may": vector_dag,
    "_jit_matmul": matmul,
    "_jit_softmax": softmax,
    "_jit_rms_norm": rms_norm,
    "_jit_accumulate": accumulate,
    "_jit_row_blocks": row_blocks,
    "_jit_gemm_silu": gemm_silu,
    "_jit_gemm_silu_lanes": gemm_silu,
    "_jit_spmd_scale": spmd_scale,
}

DISTRIBUTED: dict[str, Program] = {
    "_jit_dist_all_to_all": dist_all_to_all,
    "_jit_dist_allreduce": dist_allreduce,
    "_jit_dist_pipeline": dist_pipeline,
}


def make_snapshot(artifact: Path, program: Program) -> None:
    """Write one artifact's data/in and data/out, one tensor a file."""
    inputs, outputs = program(torch.Generator().manual_seed(1327))
    for side, tensors in (("in", inputs), ("out", outputs)):
        directory = artifact / "data" / side
        directory.mkdir(parents=True, exist_ok=True)
        for name, tensor in tensors.items():
            torch.save(tensor.clone(), directory / f"{name}.pt")


def main(argv: list[str]) -> int:
    here = Path(__file__).parent
    for directory, programs in ((here / "artifacts", PROGRAMS), (here / "distributed", DISTRIBUTED)):
        for name, program in programs.items():
            make_snapshot((Path(argv[0]) if argv else directory) / name, program)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
