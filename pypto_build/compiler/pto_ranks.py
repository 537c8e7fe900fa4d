"""Operations between ranks of one .pto function: remote addresses, transfers, signals, and visibility of writes.

A context is read as 64-bit words. Word 2 has the rank in its low half and the number of ranks in its high half; word 4
+ r is the address of rank r's window. The contract of ptoas: data written to a window leaves the cache and passes a
fence before a signal announces it. Behind a wait, only data is read that was not cached before.
"""

from __future__ import annotations

from collections.abc import Callable

from .dtypes import INT32
from .ir import Op, Operand
from .pto_writer import PtoWriter
from .values import Const, Dim, Ref, WindowType

_RANKS_WORD, _WINDOWS_WORD = 2, 4


def viewed_here(op: Op) -> tuple[str, ...]:
    """The tensors of this rank that an operation of a kernel goes through a view of."""
    match op.name:
        case "load":
            return () if len(op.args) > 3 else (op.ref(0).name,)
        case "store":
            return () if len(op.args) > 3 else (op.ref(2).name,)
        case "wait" | "get":
            return (op.ref(0).name,)
        case "put":
            return (op.ref(2).name,)
        case "write":
            return (op.ref(0).name,)
    return ()


def peer_view(e: PtoWriter, window: Ref, peer: Operand) -> str:
    """A view of the same tensor in the window of another rank."""
    text, type_ = e.text, e.values.tensor(window.name)
    own, other = _window_of(e, window, _word(e, window, "rank")), _window_of(e, window, text.value(peer))
    distance, elements, at, pointer, view = (text.fresh() for _ in range(5))
    text.add(f"{distance} = arith.subi {other}, {own} : i64")
    text.add(f"{elements} = arith.divsi {distance}, {text.constant(type_.dtype.size, 'i64')} : i64")
    text.add(f"{at} = arith.index_cast {elements} : i64 to index")
    spelled = f"!pto.ptr<{type_.dtype.pto}>"
    text.add(f"{pointer} = pto.addptr {e.pointers[window.name]}, {at} : {spelled} -> {spelled}")
    e.view(view, pointer, type_)
    return view


def _window_of(e: PtoWriter, window: Ref, rank: str) -> str:
    """Return the address of a rank's window, an i64."""
    slot, address = e.text.fresh(), e.text.fresh()
    e.text.add(f"{slot} = arith.addi {e.text.constant(_WINDOWS_WORD)}, {rank} : index")
    e.text.add(f"{address} = pto.load_scalar {e.contexts[window.name]}[{slot}] : !pto.ptr<i64> -> i64")
    return address


def _word(e: PtoWriter, window: Ref, name: str) -> str:
    """The number of this rank, or how many there are, an index."""
    text = e.text
    pair, half, number = text.fresh(), text.fresh(), text.fresh()
    word = text.constant(_RANKS_WORD)
    text.add(f"{pair} = pto.load_scalar {e.contexts[window.name]}[{word}] : !pto.ptr<i64> -> i64")
    if name == "nranks":
        high = text.fresh()
        text.add(f"{high} = arith.shrui {pair}, {text.constant(32, 'i64')} : i64")
        pair = high
    text.add(f"{half} = arith.trunci {pair} : i64 to i32")
    text.add(f"{number} = arith.index_cast {half} : i32 to index")
    return number


def _rank(e: PtoWriter, op: Op) -> None:
    e.text.names[op.result] = _word(e, op.ref(0), op.name)


def publish(e: PtoWriter, tensor: Ref, part: tuple[str, str]) -> None:
    """Make data in a window visible to the ranks that a signal then notifies."""
    if isinstance(e.values.tensor(tensor.name), WindowType):
        e.text.add(f"pto.cmo.cacheinvalid {part[0]} single_cache_line : {part[1]}")
        e.text.add("pto.fence.barrier_all #pto.fence_scope<gm>")


def _notify(e: PtoWriter, op: Op) -> None:
    signal, value = op.ref(0), e.text.value(op.args[3], INT32)
    name, type_ = e.part(signal, op.items(2), _one(e, signal), peer_view(e, signal, op.args[1]))
    e.text.add("pto.barrier <PIPE_ALL>")
    e.text.add(f"pto.comm.tnotify({name}, {value} : {type_}, i32) {{notifyOp = #pto<notify_op {op.attrs['op']}>}}")


def _wait(e: PtoWriter, op: Op) -> None:
    signal, value = op.ref(0), e.text.value(op.args[2], INT32)
    name, type_ = e.part(signal, op.items(1), _one(e, signal))
    e.text.add(f"pto.comm.twait({name}, {value} : {type_}, i32) {{cmp = #pto<wait_cmp {op.attrs['cmp']}>}}")
    e.text.add("pto.cmo.cacheinvalid all #pto.address_space<gm>")


def _one(e: PtoWriter, signal: Ref) -> list[Dim]:
    return [1] * len(e.values.tensor(signal.name).shape)


def _transfer(e: PtoWriter, op: Op) -> None:
    """put and get: a peer's part on one side, one of this rank on the other, and tiles in between."""
    dst, peer, src = op.ref(0), op.args[1], op.ref(2)
    sizes = [int(size.value) if isinstance(size, Const) else size for size in op.items(5)]
    views = ("", peer_view(e, src, peer)) if op.name == "get" else (peer_view(e, dst, peer), "")
    to = e.part(dst, op.items(3), sizes, views[0])  # type: ignore[arg-type]
    source = e.part(src, op.items(4), sizes, views[1])  # type: ignore[arg-type]
    stages = [e.operand(stage) for stage in op.args[6:]]
    types = ", ".join([to[1], source[1], *(type_ for _, type_ in stages)])
    atomic = f" {{atomicType = #pto<atomic_type atomic_{'add' if op.attrs['atomic'] else 'none'}>}}"
    e.text.add("pto.barrier <PIPE_ALL>")
    e.text.add(
        f"pto.comm.t{op.name}({to[0]}, {source[0]}, buf({', '.join(name for name, _ in stages)}) : {types})"
        f"{atomic if op.name == 'put' else ''}"
    )
    e.text.add("pto.barrier <PIPE_ALL>")
    publish(e, dst, to)


RANK_OPS: dict[str, Callable[[PtoWriter, Op], None]] = {
    "get_comm_ctx": lambda e, op: None,
    "rank": _rank,
    "nranks": _rank,
    "notify": _notify,
    "wait": _wait,
    "put": _transfer,
    "get": _transfer,
}
