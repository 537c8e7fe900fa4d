"""The functions of collectives, and the references of the example programs, against torch.distributed itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pypto_build.compiler.driver import compile_host
from pypto_build.compiler.load import entries_of, load_module
from pypto_build.replay.chips import collectives
from pypto_build.replay.chips.collectives import Collective, collective_of, require_tensors, results, signal_of
from tests.replay.gloo import on_ranks

_EXAMPLES = Path(__file__).parents[2] / "examples" / "distributed"
_RANKS = 3
_REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
    "prod": dist.ReduceOp.PRODUCT,
}


def _whole(*shape: int, seed: int = 7) -> torch.Tensor:
    """Return small whole numbers, whose sums and products are exact in any order."""
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed)).float()


_X = _whole(_RANKS, _RANKS * 2, 4)
_COUNTS = torch.tensor([[0, 2, 1], [2, 9, 0], [1, 1, 2]], dtype=torch.int32)  # one beyond what there is room for


def _of_torch(rank: int) -> dict[str, torch.Tensor]:
    """Return the results of every collective by torch.distributed."""
    results = {}
    mine = _X[rank]
    for name, op in _REDUCTIONS.items():
        results[f"all_reduce {name}"] = mine.clone()
        dist.all_reduce(results[f"all_reduce {name}"], op)
        rows = [mine[row].clone() for row in range(_RANKS)]
        results[f"reduce_scatter {name}"] = torch.empty(4)
        dist.reduce_scatter(results[f"reduce_scatter {name}"], rows, op)
    for root in range(_RANKS):
        results[f"broadcast {root}"] = mine.clone()
        dist.broadcast(results[f"broadcast {root}"], root)
    parts = [torch.empty_like(mine) for _ in range(_RANKS)]
    dist.all_gather(parts, mine)
    results["all_gather"] = torch.cat(parts)
    results["all_to_all"] = torch.empty_like(mine)
    dist.all_to_all_single(results["all_to_all"], mine)
    sent = _COUNTS.clamp(max=2)
    results["counts"] = torch.empty(_RANKS, dtype=torch.int32)
    dist.all_to_all_single(results["counts"], sent[rank].contiguous())
    blocks = torch.cat([block[:count] for block, count in zip(mine.chunk(_RANKS), sent[rank].tolist(), strict=True)])
    taken = results["counts"].tolist()
    results["all_to_all_v"] = torch.empty(sum(taken), 4)
    dist.all_to_all_single(results["all_to_all_v"], blocks, taken, sent[rank].tolist())
    return results


@pytest.fixture(scope="module")
def of_torch(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, torch.Tensor]]:
    return on_ranks(tmp_path_factory.mktemp("gloo"), _RANKS, _of_torch)


def test_collectives_are_those_of_torch(of_torch: list[dict[str, torch.Tensor]]) -> None:
    parts = list(_X)
    ours: dict[str, list[torch.Tensor]] = {}
    for name in _REDUCTIONS:
        ours[f"all_reduce {name}"] = collectives.all_reduce(parts, name)
        ours[f"reduce_scatter {name}"] = collectives.reduce_scatter([part[:_RANKS] for part in parts], name)
    ours |= {f"broadcast {root}": collectives.broadcast(parts, root) for root in range(_RANKS)}
    ours["all_gather"] = collectives.all_gather(parts)
    ours["all_to_all"] = collectives.all_to_all(parts)
    ours["counts"] = collectives.received(list(_COUNTS), 2)
    ours["all_to_all_v"] = [
        torch.cat([block[:n] for block, n in zip(rows.chunk(_RANKS), counts.tolist(), strict=True)])
        for rows, counts in zip(ours["all_to_all"], ours["counts"], strict=True)
    ]
    assert sorted(ours) == sorted(of_torch[0])
    wrong = [
        f"{name}, rank {rank}"
        for name, values in ours.items()
        for rank in range(_RANKS)
        if not torch.equal(values[rank], of_torch[rank][name])
    ]
    assert wrong == []


def test_what_programs_of_collectives_write(of_torch: list[dict[str, torch.Tensor]]) -> None:
    """The operands as a chip program has them: data, where it goes, signals, counts."""
    same, signal = list(_X), [torch.zeros(_RANKS, 1)] * _RANKS
    target = [torch.zeros(_RANKS * 2, 4)] * _RANKS
    for me in range(_RANKS):
        ((number, mine),) = results(Collective("reduce_scatter", "sum"), [same, signal], me)
        assert number == 0
        assert torch.equal(mine[me], of_torch[me]["reduce_scatter sum"])
        others = [row for row in range(_RANKS * 2) if row != me]
        assert torch.equal(mine[others], _X[me][others])
        wide = [*_COUNTS[:, :, None]]
        (first, rows), (last, counts) = results(Collective("all_to_all_v"), [same, target, signal, wide, wide], me)
        assert (first, last) == (1, 4)
        assert torch.equal(counts.flatten(), of_torch[me]["counts"])
        assert torch.equal(rows, of_torch[me]["all_to_all"])
    assert results(Collective("barrier"), [signal], 0) == []


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("builtin.tensor.allreduce__max__fp16", Collective("all_reduce", "max")),
        ("builtin.tensor.allreduce_ring__sum__fp32", Collective("all_reduce", "sum")),
        ("builtin.tensor.broadcast__root2__fp32", Collective("broadcast", "2")),
        ("builtin.tensor.broadcast__1__fp32__4x64", Collective("broadcast", "1")),
        ("builtin.tensor.all_to_all_v__fp32", Collective("all_to_all_v")),
        ("builtin.tensor.barrier__fp32", Collective("barrier")),
        ("builtin.tensor.allreduce__mean__fp32", None),
        ("builtin.tensor.broadcast__all", None),
        ("builtin.tensor.sort__fp32", None),
        ("allreduce__sum__fp32", None),
    ],
)
def test_programs_of_collectives_are_known_by_name(program: str, expected: Collective | None) -> None:
    assert collective_of(program) == expected


def test_a_program_with_other_tensors_is_refused() -> None:
    names = ("barrier", "broadcast", "all_gather", "all_to_all_v")
    assert [signal_of(Collective(name)) for name in names] == [0, 1, 2, 2]
    require_tensors(Collective("all_reduce"), [0, 0])
    with pytest.raises(ValueError, match="all_reduce takes 2 tensors, got 3"):
        require_tensors(Collective("all_reduce"), [0, 0, 0])


# --- example programs: the reference of each, and the same by ranks that talk over gloo -------------------------------


def _summed(part: torch.Tensor) -> torch.Tensor:
    total = part.clone()
    dist.all_reduce(total)
    return total


def _allgather_matmul(rank: int, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    parts = [torch.empty_like(x[rank]) for _ in x]
    dist.all_gather(parts, x[rank].contiguous())
    return torch.cat(parts).float() @ w.float()


def _all_to_all(rank: int, x: torch.Tensor) -> torch.Tensor:
    received = torch.empty_like(x[rank])
    dist.all_to_all_single(received, x[rank].contiguous())
    return received


def _experts(rank: int, x: torch.Tensor, route: torch.Tensor, gates: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Send tokens to their experts by all-to-all with variable counts, and send the results back the same way."""
    ranks, chosen = len(x), route[rank, 0].long()
    order = torch.argsort(chosen, stable=True)
    sent = torch.bincount(chosen, minlength=ranks)
    taken = torch.empty_like(sent)
    dist.all_to_all_single(taken, sent)
    tokens = torch.empty(int(taken.sum()), x.shape[-1])
    dist.all_to_all_single(tokens, x[rank][order].contiguous(), taken.tolist(), sent.tolist())
    made = (tokens @ w[rank]).relu()
    back = torch.empty_like(x[rank])
    dist.all_to_all_single(back, made, sent.tolist(), taken.tolist())
    ordered = torch.empty_like(back)
    ordered[order] = back
    return ordered * gates[rank, 0][:, None]


def _pipeline(rank: int, x: torch.Tensor) -> torch.Tensor:
    row = 2 * x
    if rank == 0:
        dist.send(row, 1)
    else:
        row = torch.empty_like(x)
        dist.recv(row, 0)
    return row + 1


#: Program -> number of ranks, and a rank's computation from the inputs.
_PROGRAMS: dict[str, tuple[int, Callable[..., torch.Tensor]]] = {
    "allreduce": (2, lambda rank, x, scale: _summed(x[rank] * scale)),
    "allreduce_ring": (4, lambda rank, x: _summed(x[rank])),
    "allreduce_two_shot": (4, lambda rank, x: _summed(x[rank])),
    "allgather_matmul": (4, _allgather_matmul),
    "all_to_all": (4, _all_to_all),
    "experts": (4, _experts),
    "feed_forward": (4, lambda rank, x, w1, w2: _summed((x @ w1[rank]).relu() @ w2[rank])),
    "pipeline": (2, _pipeline),
}


@pytest.mark.parametrize("ranks", [2, 4])
def test_references_of_the_examples_are_those_of_torch(tmp_path: Path, ranks: int) -> None:
    assert sorted(path.stem.removeprefix("dist_") for path in _EXAMPLES.glob("dist_*.py")) == sorted(_PROGRAMS)
    prepared = {name: _prepared(name) for name, (needed, _) in _PROGRAMS.items() if needed == ranks}

    def work(rank: int) -> dict[str, torch.Tensor]:
        return {name: _PROGRAMS[name][1](rank, *inputs) for name, (inputs, _) in prepared.items()}

    by_rank = on_ranks(tmp_path, ranks, work)
    for name, (_, expected) in prepared.items():
        ours = by_rank[1][name] if name == "pipeline" else torch.stack([one[name] for one in by_rank])
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-3)


def _prepared(name: str) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return the inputs of an example program from its golden.py, and the results of its reference."""
    host = entries_of(load_module(str(_EXAMPLES / f"dist_{name}.py")))[0]
    text = compile_host(host, _EXAMPLES, "a2a3sim")["golden.py"]
    golden: dict[str, Any] = {"__file__": "golden.py"}
    exec(text, golden)
    inputs, (output,) = golden["make_inputs"](), golden["__outputs__"]
    extents = re.search(rf'"{output}", torch.zeros\(\[([\d, ]+)\]', text)
    assert extents is not None
    made = torch.zeros([int(extent) for extent in extents[1].split(",")])
    golden["compute_golden"]({**inputs, output: made}, None)
    return [*inputs.values()], made
