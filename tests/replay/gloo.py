"""Runs functions on the ranks of a torch.distributed process group, over gloo on this machine's loopback."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import FileStore  # type: ignore[attr-defined]


def on_ranks(directory: Path, ranks: int, work: Callable[[int], Any]) -> list[Any]:
    """Run `work(rank)` in one process for each rank of a group, and return the results. `place` is a directory for
    their files. Fails if one of them fails."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_rank, args=(directory, ranks, rank, work)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    try:
        assert [process.exitcode for process in processes] == [0] * ranks
    finally:
        for process in processes:
            process.kill()
    return [torch.load(directory / f"{rank}.pt", weights_only=True) for rank in range(ranks)]


def _rank(directory: Path, ranks: int, rank: int, work: Callable[[int], Any]) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = FileStore(str(directory / "store"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    torch.save(work(rank), directory / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
