"""The readers of distributed artifacts and of runs of several ranks: good files, and what reading one means."""

from __future__ import annotations

from pathlib import Path

from tests.diagnose.ranks_runs import encoded, messages_document, ranks_document, write_ranks

DISTRIBUTED = Path(__file__).parents[2] / "examples" / "distributed" / "_jit_dist_allreduce"


def meta_seeds() -> list[bytes]:
    """`distributed_meta.json`."""
    return [(DISTRIBUTED / "distributed_meta.json").read_bytes()]


def read_meta(path: Path) -> None:
    """Read the interface that a replay binds arguments by."""
    from pypto_build.artifact.distributed import interface_of, load_distributed

    interface_of(load_distributed(path.parent))


def driver_seeds() -> list[bytes]:
    """A host driver."""
    return [(DISTRIBUTED / "orchestration" / "host_orch.py").read_bytes()]


def read_driver(path: Path) -> None:
    """Lint a host driver."""
    from pypto_build.diagnose.lint.__main__ import lint

    lint(path.parents[1], "a2a3sim")


def ranks_seeds() -> list[bytes]:
    """`ranks.json` of a run that ended, and of one that hung."""
    return [encoded(ranks_document()), encoded(ranks_document(hung=True))]


def read_ranks(path: Path) -> None:
    """Everything `scons deps` and the page show of it; the other records are good ones."""
    damaged = path.read_bytes()
    write_ranks(path.parents[1])
    path.write_bytes(damaged)
    _show(path.parents[1])


def messages_seeds() -> list[bytes]:
    """`messages.json` of one dispatch."""
    return [encoded(messages_document(rank)) for rank in (0, 1)]


def read_messages(path: Path) -> None:
    """The same, where it is the messages of one dispatch that are damaged."""
    damaged = path.read_bytes()
    write_ranks(path.parents[3])
    path.write_bytes(damaged)
    _show(path.parents[3])


def _show(out: Path) -> None:
    from pypto_build.diagnose.deps.ranks import dot, summary_lines, trace
    from pypto_build.diagnose.recorded.ranks import RanksRun
    from pypto_build.diagnose.report.ranks import ranks_data

    run = RanksRun(DISTRIBUTED, out)
    summary_lines(run)
    ranks_data(run)
    dot(run)
    trace(run)
