"""Paged attention under the torch runtime against PyTorch written by hand, block by block.

    python -m benchmarks.torch_reference [--rounds N]

Both run on one thread in this process; torch's import and the generation of the text, which happen once, do not count.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pypto_build.compiler.__main__ import main as compile_program
from pypto_build.replay.reference.hook import ReferenceHook
from pypto_build.replay.reference.launch import open_launch

PROGRAM = Path(__file__).resolve().parents[1] / "examples" / "paged_attention.py"
BATCH, HEADS, DIM, BLOCK, SCALE = 2, 16, 64, 64, 64**-0.5


def by_hand(
    query: torch.Tensor, keys: torch.Tensor, cached: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """The same steps as the program's kernels, one call of torch each."""
    out = torch.empty(BATCH * HEADS, DIM)
    for b in range(BATCH):
        highest, total, acc = torch.full((HEADS, 1), -1e30), torch.zeros(HEADS, 1), torch.zeros(HEADS, DIM)
        q = query[b * HEADS : (b + 1) * HEADS].float()
        length = int(lengths[b])
        for i in range(-(-length // BLOCK)):
            rows = slice(int(table[b, i]) * BLOCK, (int(table[b, i]) + 1) * BLOCK)
            scores = q @ keys[rows].float().T
            scores[:, length - i * BLOCK :] = float("-inf")
            scaled = scores * SCALE
            block_max = scaled.amax(1, keepdim=True)
            weights = torch.exp(scaled - block_max)
            block_sum = weights.sum(1, keepdim=True)
            product = weights.bfloat16().float() @ cached[rows].float()
            higher = torch.maximum(highest, block_max)
            keep, add = torch.exp(highest - higher), torch.exp(block_max - higher)
            total = total * keep + block_sum * add
            acc = acc * keep + product * add
            highest = higher
        out[b * HEADS : (b + 1) * HEADS] = acc / total
    return out


def timed(work: Callable[[], Any], rounds: int) -> float:
    """Median processor seconds of so many runs, after one that is not counted."""
    work()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=20)
    rounds = options.parse_args().rounds
    from tests.replay.builder import build_artifact, embedded_module

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        artifact, out = Path(directory, "_jit_paged_attention"), Path(directory, "out")
        compile_program([str(PROGRAM), "--output", str(artifact)])
        build_artifact(artifact, out)
        launch = open_launch(artifact, out, embedded_module(), "a2a3sim")
        hook = ReferenceHook(artifact)
        replayed = timed(lambda: launch.run(hook), rounds)
        data = [
            torch.load(artifact / "data" / "in" / f"{t.name}.pt") for t in launch.binding.tensors if t.direction == "IN"
        ]
        golden = torch.load(artifact / "data" / "out" / "out.pt")
        torch.testing.assert_close(by_hand(*data), golden, rtol=2e-2, atol=2e-2)
        hand = timed(lambda: by_hand(*data), rounds)
    print(f"torch runtime   {1e3 * replayed:8.2f} ms")
    print(f"by hand         {1e3 * hand:8.2f} ms")
    print(f"ratio           {replayed / hand:8.2f}")


if __name__ == "__main__":
    main()
