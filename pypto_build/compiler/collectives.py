"""Collectives inside of a kernel, written in the language itself.

They are functions that are expanded where a kernel calls `pld.tensor.barrier(signal)` and the like.

A barrier works with credits. Every rank adds one to a cell of each other rank, waits for one from each, and takes it
away again. So cells are zero afterwards, and one signal serves any number of calls. Data that a rank writes
for others, or reads from others, lies between two barriers. Sums are made in the order of the ranks, so all ranks get
the same bits.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,var-annotated,name-defined,no-any-return,misc"

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from pypto_build.facts.dtypes import DType

from . import language as pl
from .ir import WindowType
from .language import MOST_RANKS, Annotation, JitFunction
from .language import distributed as pld

_CHUNK_BYTES = 16 * 1024  # of a tile that passes through vector memory


class WrongCollective(ValueError):
    """A call requests an invalid collective; the message has the reason."""


#: The signal of a host program's collective that is given none: a cell for each rank there can be.
SIGNAL = WindowType((MOST_RANKS, 1), pl.INT32)

#: Collective -> its operands that are windows, the one it means as a value, and its options with their defaults.
COLLECTIVES: dict[str, tuple[tuple[str, ...], int, dict[str, Any]]] = {
    "barrier": (("signal",), 0, {}),
    "allreduce": (("target", "signal"), 0, {"op": "sum", "mode": "mesh"}),
    "reduce_scatter": (("target", "signal"), 0, {"op": "sum"}),
    "broadcast": (("target", "signal"), 0, {"root": 0}),
    "allgather": (("local_data", "target", "signal"), 1, {}),
    "all_to_all": (("input", "target", "signal"), 1, {}),
    "all_to_all_v": (("input", "target", "signal", "send_counts", "recv_counts"), 1, {}),
}


@cache
def expansion(name: str, types: tuple[WindowType, ...], options: tuple[tuple[str, Any], ...]) -> JitFunction:
    """The inline function of a collective on windows of these types. Raises `WrongCollective`."""
    position = COLLECTIVES[name][0].index("signal")
    data, signal = (*types[:position], *types[position + 1 :]), types[position]
    if signal.dtype != pl.INT32:
        raise WrongCollective(f"the dtype of signals must be INT32, found {signal}")
    if not all(isinstance(extent, int) for one in data for extent in one.shape):
        raise WrongCollective("the extents of the windows must be known at compile time")
    meet = _barrier(str(len(signal.shape)))
    if name == "barrier":
        return meet
    more = [signal] if name in ("allreduce", "all_to_all_v") else []
    kernel = _MAKERS[name](meet, *data, *more, **dict(options))
    kernel.function.__name__ = f"pld.tensor.{name}.{'.'.join(map(_word, (*types, *options)))}"
    return kernel


def _word(part: Any) -> str:
    if isinstance(part, WindowType):
        return "x".join(map(str, part.shape)) + str(part.dtype)
    return str(part[1])


def _tile(shape: tuple[int, int], dtype: DType) -> tuple[int, int]:
    """Return the largest part of a window that divides it and fits into vector memory at once."""
    rows, cols = shape
    fits = [c for c in range(1, cols + 1) if cols % c == 0 and c * dtype.size <= _CHUNK_BYTES]
    whole = [c for c in fits if c * dtype.size % 32 == 0]
    taken = (whole or fits)[-1]
    return max(
        r for r in range(1, rows + 1) if rows % r == 0 and (r == 1 or r * taken * dtype.size <= _CHUNK_BYTES)
    ), taken


def _extents(window: WindowType) -> tuple[int, int]:
    if len(window.shape) != 2:
        raise WrongCollective(f"the window must have two extents, found {window}")
    rows, cols = (extent for extent in window.shape if isinstance(extent, int))
    return rows, cols


def _one_of(name: str, value: Any, words: tuple[str, ...], hint: str = "") -> None:
    if value not in words:
        raise WrongCollective(f"{name} must be one of {', '.join(words)}, found {value!r}{hint}")


@cache
def _barrier(cells: str) -> JitFunction:
    """Return a barrier. Its cells are a signal with one axis (`1`), or the first column (`2`) or first `row` of a
    signal with two.
    """
    one_axis, in_a_row = cells == "1", cells == "row"

    @pl.jit.inline
    def barrier(signal):
        me = pld.rank(pld.get_comm_ctx(signal))
        ranks = pld.nranks(pld.get_comm_ctx(signal))
        for peer in pl.range(ranks):
            if peer != me:
                if one_axis:
                    pld.system.notify(signal, peer, [me], 1, op=pld.NotifyOp.AtomicAdd)
                elif in_a_row:
                    pld.system.notify(signal, peer, [0, me], 1, op=pld.NotifyOp.AtomicAdd)
                else:
                    pld.system.notify(signal, peer, [me, 0], 1, op=pld.NotifyOp.AtomicAdd)
        for source in pl.range(ranks):
            if source != me:
                if one_axis:
                    pld.system.wait(signal, [source], 1, cmp=pld.WaitCmp.Ge)
                    pld.system.notify(signal, me, [source], -1, op=pld.NotifyOp.AtomicAdd)
                elif in_a_row:
                    pld.system.wait(signal, [0, source], 1, cmp=pld.WaitCmp.Ge)
                    pld.system.notify(signal, me, [0, source], -1, op=pld.NotifyOp.AtomicAdd)
                else:
                    pld.system.wait(signal, [source, 0], 1, cmp=pld.WaitCmp.Ge)
                    pld.system.notify(signal, me, [source, 0], -1, op=pld.NotifyOp.AtomicAdd)

    barrier.function.__name__ = f"pld.tensor.barrier.{cells}"
    return barrier


@cache
def _combine(op: str) -> JitFunction:
    _one_of("op", op, ("sum", "max", "min", "prod"))
    is_sum, is_max, is_product = op == "sum", op == "max", op == "prod"

    @pl.jit.inline
    def combine(a, b):
        if is_sum:
            both = a + b
        elif is_max:
            both = pl.maximum(a, b)
        elif is_product:
            both = a * b
        else:
            both = pl.minimum(a, b)
        return both

    combine.function.__name__ = f"pld.tensor.combine.{op}"
    return combine


def _allreduce(meet: JitFunction, window: WindowType, signal: WindowType, *, op: str, mode: str) -> JitFunction:
    _one_of("mode", mode, ("mesh", "ring"))
    if mode == "ring":
        return _ring(window, signal, op)
    (all_rows, all_cols), combine = _extents(window), _combine(op)
    rows, cols = _tile((all_rows, all_cols), window.dtype)

    @pl.jit.inline
    def allreduce(target, signal):
        ranks = pld.nranks(pld.get_comm_ctx(target))
        for row in pl.range(0, all_rows, rows):
            for col in pl.range(0, all_cols, cols):
                meet(signal)
                total = pld.tile.remote_load(target, 0, [row, col], [rows, cols])
                for peer in pl.range(1, ranks):
                    total = combine(total, pld.tile.remote_load(target, peer, [row, col], [rows, cols]))
                meet(signal)  # all have read what is overwritten next
                pl.store(total, [row, col], target)

    return allreduce


def _ring(window: WindowType, signal: WindowType, op: str) -> JitFunction:
    """Return the ring algorithm: a rank reads from its predecessor alone. Shares are summed on the first round; the
    second round distributes the sums.
    """
    if len(signal.shape) != 2 or not isinstance(signal.shape[1], int) or signal.shape[1] < 2:
        raise WrongCollective(
            "the signal of a ring must have the shape [2 * (NR - 1), NR] with an NR known at compile "
            f"time, found {signal}"
        )
    ranks, (rows, all_cols), combine, meet = signal.shape[1], _extents(window), _combine(op), _barrier("row")
    if all_cols % ranks:
        raise WrongCollective(f"the number of columns of {window} must be a multiple of the number of ranks, {ranks}")
    share = all_cols // ranks
    cols = _tile((rows, share), window.dtype)[1]

    @pl.jit.inline
    def ring(target, signal):
        me = pld.rank(pld.get_comm_ctx(target))
        before = (me + ranks - 1) % ranks
        meet(signal)
        for step in pl.range(ranks - 1):
            first = ((me + ranks - 1 - step) % ranks) * share
            for row in pl.range(rows):
                for col in pl.range(0, share, cols):
                    taken = pld.tile.remote_load(target, before, [row, first + col], [1, cols])
                    own = pl.load(target, [row, first + col], [1, cols])
                    pl.store(combine(taken, own), [row, first + col], target)
            meet(signal)
        for step in pl.range(ranks - 1):
            first = ((me + ranks - step) % ranks) * share
            for row in pl.range(rows):
                for col in pl.range(0, share, cols):
                    taken = pld.tile.remote_load(target, before, [row, first + col], [1, cols])
                    pl.store(taken, [row, first + col], target)
            meet(signal)

    return ring


def _reduce_scatter(meet: JitFunction, window: WindowType, *, op: str) -> JitFunction:
    (_, all_cols), combine = _extents(window), _combine(op)
    _, cols = _tile((1, all_cols), window.dtype)

    @pl.jit.inline
    def reduce_scatter(target, signal):
        me = pld.rank(pld.get_comm_ctx(target))
        ranks = pld.nranks(pld.get_comm_ctx(target))
        meet(signal)
        for col in pl.range(0, all_cols, cols):
            total = pld.tile.remote_load(target, 0, [me, col], [1, cols])
            for peer in pl.range(1, ranks):
                total = combine(total, pld.tile.remote_load(target, peer, [me, col], [1, cols]))
            pl.store(total, [me, col], target)  # which no other rank reads
        meet(signal)

    return reduce_scatter


def _broadcast(meet: JitFunction, window: WindowType, *, root: int) -> JitFunction:
    all_rows, all_cols = _extents(window)
    rows, cols = _tile((all_rows, all_cols), window.dtype)

    @pl.jit.inline
    def broadcast(target, signal):
        me = pld.rank(pld.get_comm_ctx(target))
        meet(signal)
        if me != root:
            for row in pl.range(0, all_rows, rows):
                for col in pl.range(0, all_cols, cols):
                    pl.store(pld.tile.remote_load(target, root, [row, col], [rows, cols]), [row, col], target)
        meet(signal)

    return broadcast


def _allgather(meet: JitFunction, local: WindowType, window: WindowType) -> JitFunction:
    rows, cols = _extents(local)
    if _extents(window)[1] != cols:
        raise WrongCollective(f"the rows of {local} do not fit into {window}")
    chunk = _tile((rows, cols), local.dtype)

    @pl.jit.inline
    def allgather(local_data, target, signal):
        me = pld.rank(pld.get_comm_ctx(target))
        meet(signal)
        for peer in pl.range(pld.nranks(pld.get_comm_ctx(target))):
            pld.tensor.put(
                target, peer, local_data, [me * rows, 0], [0, 0], [rows, cols], chunk_rows=chunk[0], chunk_cols=chunk[1]
            )
        meet(signal)

    return allgather


def _all_to_all(meet: JitFunction, source: WindowType, window: WindowType) -> JitFunction:
    _, cols = _extents(source)
    if _extents(window) != _extents(source):
        raise WrongCollective(f"{source} and {window} must have equal extents")
    chunk = _tile((1, cols), source.dtype)

    @pl.jit.inline
    def all_to_all(input, target, signal):
        me = pld.rank(pld.get_comm_ctx(target))
        meet(signal)
        for peer in pl.range(pld.nranks(pld.get_comm_ctx(target))):
            pld.tensor.put(target, peer, input, [me, 0], [peer, 0], [1, cols], chunk_rows=1, chunk_cols=chunk[1])
        meet(signal)

    return all_to_all


def _all_to_all_v(
    meet: JitFunction, source: WindowType, window: WindowType, sent: WindowType, taken: WindowType, signal: WindowType
) -> JitFunction:
    """Return all_to_all for blocks of variable length: a block holds the largest number of rows, and the number of
    valid rows is sent with it.
    """
    (all_rows, cols), ranks = _extents(source), signal.shape[0]
    if _extents(window) != (all_rows, cols):
        raise WrongCollective(f"{source} and {window} must have equal extents")
    if not isinstance(ranks, int) or all_rows % ranks:
        raise WrongCollective(f"the number of rows of {source} must be a multiple of the number of ranks of {signal}")
    if any(counts.dtype != pl.INT32 or counts.shape != (ranks, 1) for counts in (sent, taken)):
        raise WrongCollective(f"counts must be INT32 of the shape [{ranks}, 1], found {sent} and {taken}")
    most = all_rows // ranks
    chunk = _tile((most, cols), source.dtype)

    @pl.jit.inline
    def all_to_all_v(input, target, signal, send_counts, recv_counts):
        me = pld.rank(pld.get_comm_ctx(target))
        meet(signal)
        for peer in pl.range(ranks):
            count = pl.min(pl.read(send_counts, [peer, 0]), most)
            pld.system.notify(recv_counts, peer, [me, 0], count, op=pld.NotifyOp.Set)
            pld.tensor.put(
                target,
                peer,
                input,
                [me * most, 0],
                [peer * most, 0],
                [most, cols],
                chunk_rows=chunk[0],
                chunk_cols=chunk[1],
            )
        meet(signal)

    return all_to_all_v


_MAKERS: dict[str, Callable[..., JitFunction]] = {
    "allreduce": _allreduce,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "allgather": _allgather,
    "all_to_all": _all_to_all,
    "all_to_all_v": _all_to_all_v,
}


# --- collectives of a host program: a chip program that calls one -----------------------------------------------------

BUILTIN = "builtin_tensor_"


def chip_directory(name: str) -> str:
    """Return the directory of a chip program below next_levels/, named as PyPTO names it."""
    return name.replace("_", ".", 2) if name.startswith(BUILTIN) else name


@cache
def builtin(name: str, types: tuple[WindowType, ...], options: tuple[tuple[str, Any], ...]) -> JitFunction:
    """Return the chip program that runs a collective on windows of these types, on the rank that it is dispatched to.

    Raises `WrongCollective`.
    """
    function = expansion(name, types, options)
    words = [str(value) for key, value in options if key in ("op", "root")]
    data = types[0] if name != "barrier" else None
    if data is not None:
        words += [str(data.dtype).lower(), "x".join(map(str, data.shape))]
    ring = "_ring" if dict(options).get("mode") == "ring" else ""
    spelled = "__".join([f"{BUILTIN}{name}{ring}", *words])
    names = {role: Annotation(type_) for role, type_ in zip(_ROLES, types, strict=False)}
    source = _CALLS[len(types)]
    kernel = JitFunction(_named(source, f"{spelled}_kernel", {**names, "callee": function}), "kernel")
    return JitFunction(_named(source, spelled, {**names, "callee": kernel}), "orchestration")


def _named(source: Callable[..., Any], name: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Return a copy of the function under another name, with ``names`` as additional globals."""
    return FunctionType(source.__code__, {**source.__globals__, **names}, name)


def _of_one(first: First):  # noqa: F821
    callee(first)  # noqa: F821


def _of_two(first: First, second: Second):  # noqa: F821
    callee(first, second)  # noqa: F821


def _of_three(first: First, second: Second, third: Third):  # noqa: F821
    callee(first, second, third)  # noqa: F821


def _of_five(first: First, second: Second, third: Third, fourth: Fourth, fifth: Fifth):  # noqa: F821
    callee(first, second, third, fourth, fifth)  # noqa: F821


_ROLES = ("First", "Second", "Third", "Fourth", "Fifth")
#: A kernel that calls a collective, and a chip program that calls a kernel, by the number of their windows.
_CALLS: dict[int, Callable[..., Any]] = {1: _of_one, 2: _of_two, 3: _of_three, 5: _of_five}
