# What the artifact's harness left behind: inputs from the snapshot, tolerances of a bfloat16 result.

from pathlib import Path

import torch

_DATA_DIR = Path(__file__).parent / "data"

__outputs__ = ["out"]
RTOL = 1e-2
ATOL = 1e-2


def generate_inputs(params):
    return [
        ("x", torch.load(_DATA_DIR / "in" / "x.pt", weights_only=True)),
        ("gamma", torch.load(_DATA_DIR / "in" / "gamma.pt", weights_only=True)),
        ("eps", torch.load(_DATA_DIR / "in" / "eps.pt", weights_only=True)),
        ("out", torch.zeros([64, 256], dtype=torch.bfloat16)),
    ]


def compute_golden(tensors, params):
    x = tensors["x"].float()
    scale = torch.rsqrt(x.square().mean(dim=1, keepdim=True) + float(tensors["eps"]))
    tensors["out"][:] = (x * scale * tensors["gamma"]).to(torch.bfloat16)
