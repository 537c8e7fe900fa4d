"""Paged attention under the torch runtime against PyTorch written by hand.

    python -m benchmarks.torch_reference [--rounds N]

It is written by hand in three ways. `tiles` has a function for each kernel of the program, which loads, computes and
stores to the same tensors. `blocks` does the same steps without intermediate tensors. `whole` computes all blocks of a
sequence at once, which is another algorithm. The sizes are those of the example, and larger ones as models have them.

Everything runs on one thread in this process, in turns; torch's import and the generation of the text, which happen
once, do not count. `run` is all of a run: processor time for fresh inputs, loading of the libraries and the
orchestration, too. `tasks` is what the tasks take of it.
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
#: name -> what is replaced in the program, and its sizes
SIZES: dict[str, tuple[dict[str, str], tuple[int, int, int, int]]] = {
    "example": ({}, (2, 16, 64, 64)),
    "larger": (
        {
            "BATCH, HEADS, DIM = 2, 16, 64": "BATCH, HEADS, DIM = 4, 16, 128",
            "BLOCK, PAGES, MAX_BLOCKS = 64, 8, 4": "BLOCK, PAGES, MAX_BLOCKS = 128, 64, 16",
            "torch.tensor([[5, 2, 7, 0], [1, 3, 0, 0]], dtype=torch.int32)": (
                "torch.randperm(64, generator=torch.Generator().manual_seed(0)).reshape(4, 16).int()"
            ),
            "torch.tensor([170, 128], dtype=torch.int32)": "torch.tensor([1000, 2048, 130, 1600]).int()",
        },
        (4, 16, 128, 128),
    ),
}


class Attention:
    """The program's data, and its ways to be written by hand."""

    def __init__(self, data: dict[str, torch.Tensor], sizes: tuple[int, int, int, int]) -> None:
        self.batch, self.heads, self.dim, self.block = sizes
        self.scale = self.dim**-0.5
        self.query, self.keys, self.cached = data["query"], data["key_cache"], data["value_cache"]
        self.table, self.lengths = data["block_table"], data["lengths"]
        self.out = torch.empty(self.batch * self.heads, self.dim)

    def _page(self, cache: torch.Tensor, b: int, i: int) -> torch.Tensor:
        first = int(self.table[b, i]) * self.block
        return cache[first : first + self.block]

    # --- tile by tile --------------------------------------------------------------------------------------------

    def qk_matmul(self, q: torch.Tensor, k: torch.Tensor, scores: torch.Tensor) -> None:
        left, right = q.clone(), k.clone()
        scores.copy_(left.float() @ right.float().T)

    def softmax_block(
        self, scores: torch.Tensor, weights: torch.Tensor, block_max: torch.Tensor, block_sum: torch.Tensor, n: int
    ) -> None:
        part = torch.full_like(scores, float("-inf"))
        part[:, :n] = scores[:, :n]
        scaled = part * self.scale
        maximum = scaled.amax(dim=1, keepdim=True)
        exps = torch.exp(scaled - maximum)
        block_max.copy_(maximum)
        block_sum.copy_(exps.sum(dim=1, keepdim=True))
        weights.copy_(exps.to(torch.bfloat16))

    def pv_matmul(self, weights: torch.Tensor, v: torch.Tensor, product: torch.Tensor) -> None:
        left, right = weights.clone(), v.clone()
        product.copy_(left.float() @ right.float())

    def update(
        self, block_max: torch.Tensor, block_sum: torch.Tensor, product: torch.Tensor, running: list[torch.Tensor]
    ) -> None:
        highest, total, acc = running
        old, new = highest.clone(), block_max.clone()
        higher = torch.maximum(old, new)
        keep, add = torch.exp(old - higher), torch.exp(new - higher)
        sums = total.clone() * keep + block_sum.clone() * add
        kept = acc.clone() * keep
        acc.copy_(kept + product.clone() * add)
        total.copy_(sums)
        highest.copy_(higher)

    def tiles(self) -> None:
        """Every kernel of the program as a function on tensors in global memory."""
        heads = self.heads
        for b in range(self.batch):
            running = [torch.empty(heads, 1), torch.empty(heads, 1), torch.empty(heads, self.dim)]
            for tensor, value in zip(running, (-1e30, 0.0, 0.0), strict=True):
                tensor.copy_(torch.full(tensor.shape, value))
            q, length = self.query[b * heads : (b + 1) * heads], int(self.lengths[b])
            for i in range(-(-length // self.block)):
                scores, product = torch.empty(heads, self.block), torch.empty(heads, self.dim)
                weights = torch.empty(heads, self.block, dtype=torch.bfloat16)
                block_max, block_sum = torch.empty(heads, 1), torch.empty(heads, 1)
                self.qk_matmul(q, self._page(self.keys, b, i), scores)
                self.softmax_block(scores, weights, block_max, block_sum, min(self.block, length - i * self.block))
                self.pv_matmul(weights, self._page(self.cached, b, i), product)
                self.update(block_max, block_sum, product, running)
            self.out[b * heads : (b + 1) * heads].copy_(running[2].clone() / running[1].clone())

    # --- otherwise -------------------------------------------------------------------------------------------------

    def blocks(self) -> None:
        """The same steps on values: nothing is stored between them."""
        heads = self.heads
        for b in range(self.batch):
            highest, total, acc = torch.full((heads, 1), -1e30), torch.zeros(heads, 1), torch.zeros(heads, self.dim)
            q, length = self.query[b * heads : (b + 1) * heads].float(), int(self.lengths[b])
            for i in range(-(-length // self.block)):
                scores = q @ self._page(self.keys, b, i).float().T
                if length < (i + 1) * self.block:
                    scores[:, length - i * self.block :] = float("-inf")
                scaled = scores * self.scale
                block_max = scaled.amax(1, keepdim=True)
                weights = torch.exp(scaled - block_max)
                block_sum = weights.sum(1, keepdim=True)
                product = weights.bfloat16().float() @ self._page(self.cached, b, i).float()
                higher = torch.maximum(highest, block_max)
                keep, add = torch.exp(highest - higher), torch.exp(block_max - higher)
                total = total * keep + block_sum * add
                acc = acc * keep + product * add
                highest = higher
            self.out[b * heads : (b + 1) * heads] = acc / total

    def whole(self) -> None:
        """A sequence at once."""
        heads = self.heads
        for b in range(self.batch):
            length = int(self.lengths[b])
            pages = self.table[b, : -(-length // self.block), None].long() * self.block
            rows = (pages + torch.arange(self.block)).reshape(-1)[:length]
            q = self.query[b * heads : (b + 1) * heads].float()
            weights = torch.softmax(q @ self.keys[rows].float().T * self.scale, dim=1)
            self.out[b * heads : (b + 1) * heads] = weights @ self.cached[rows].float()


def measure(works: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Median seconds of so many rounds in which all take turns, after one that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            taken = work()
            if number:
                times[name].append(taken)
    return {name: statistics.median(taken) for name, taken in times.items()}


def timed(work: Callable[[], Any]) -> Callable[[], float]:
    """Processor seconds of a call."""

    def run() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return run


def compare(name: str, rounds: int, directory: Path) -> None:
    """Print the times for one of the sizes."""
    from tests.replay.builder import build_artifact, embedded_module

    changes, sizes = SIZES[name]
    text = PROGRAM.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    program, artifact, out = directory / "paged_attention.py", directory / "_jit_paged_attention", directory / "out"
    program.write_text(text, encoding="utf-8")
    compile_program([str(program), "--output", str(artifact)])
    build_artifact(artifact, out)
    launch = open_launch(artifact, out, embedded_module(), "a2a3sim")
    hook = ReferenceHook(artifact)
    spent = [0.0, 0.0]  # seconds in tasks, tasks

    def task(call: Any) -> None:
        start = time.process_time()
        hook(call)
        spent[0] += time.process_time() - start
        spent[1] += 1

    def tasks() -> float:
        spent[:] = [0.0, 0.0]
        launch.run(task)
        return spent[0]

    data = {t.name: torch.load(artifact / "data/in" / f"{t.name}.pt") for t in launch.binding.tensors[:-1]}
    golden = torch.load(artifact / "data" / "out" / "out.pt")
    hand = Attention(data, sizes)
    ways = {"tiles": hand.tiles, "blocks": hand.blocks, "whole": hand.whole}
    for work in ways.values():
        work()
        torch.testing.assert_close(hand.out, golden, rtol=2e-2, atol=2e-2)
    times = measure(
        {"run": timed(lambda: launch.run(hook)), "tasks": tasks, **{n: timed(w) for n, w in ways.items()}}, rounds
    )
    print(f"\n{name}: {int(spent[1])} tasks of {sizes[1]} heads x {sizes[2]}, blocks of {sizes[3]}")
    print(f"{'by hand':10}{'ms':>8}{'run / it':>12}{'tasks / it':>12}")
    for method in ways:
        by_run, by_tasks = times["run"] / times[method], times["tasks"] / times[method]
        print(f"{method:10}{1e3 * times[method]:8.2f}{by_run:12.2f}{by_tasks:12.2f}")
    print(f"torch runtime: run {1e3 * times['run']:.2f} ms, tasks {1e3 * times['tasks']:.2f} ms")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=40)
    rounds = options.parse_args().rounds
    torch.set_num_threads(1)
    for name in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            compare(name, rounds, Path(directory))


if __name__ == "__main__":
    main()
