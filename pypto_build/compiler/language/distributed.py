"""The language of programs for several chips; `import pypto_build.compiler.language.distributed as pld`.

    @pl.jit.incore
    def send(x: pl.Tensor[[1, 64], pl.FP32], inbox: pld.DistributedTensor[[1, 64], pl.FP32], …):
        ctx = pld.get_comm_ctx(inbox)
        peer = (pld.rank(ctx) + 1) % pld.nranks(ctx)
        pld.tile.remote_store(pl.load(x, [0, 0], [1, 64]), inbox, peer=peer, offsets=[0, 0])

    @pl.jit.host(ranks=2)
    def program(x: pl.Tensor[[2, 1, 64], pl.FP32], …):
        inbox_buf = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
        for r in pl.range(pld.world_size()):
            chip(x[r], pld.window(inbox_buf, [1, 64], dtype=pl.FP32), device=r)

Names are PyPTO's. Everything is found under its namespace (`pld.system`, `pld.tensor`, `pld.tile`), and without one
what PyPTO has so too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic, TypeVar

from ..errors import similar
from ..ir import WindowType
from ..operations import OPERATIONS
from . import Intrinsic, Tensor

__all__ = ["AtomicType", "DistributedTensor", "NotifyOp", "ReduceOp", "WaitCmp", "system", "tensor", "tile"]

T = TypeVar("T")


class DistributedTensor(Generic[T]):
    """`pld.DistributedTensor[[rows, cols], dtype]`: a tensor in a window.

    The compiler infers whether it is read or written, unless Out or InOut is declared.
    """

    def __class_getitem__(cls, item: Any) -> Any:
        try:
            plain: Any = Tensor[item]
        except TypeError as error:
            raise TypeError(str(error).replace("pl.Tensor", "pld.DistributedTensor")) from None
        return replace(plain, type=WindowType(plain.type.shape, plain.type.dtype))


class NotifyOp:
    """Effect of a notification on a signal."""

    AtomicAdd = "atomic_add"
    Set = "set"


class WaitCmp:
    """Comparison of a signal with the expected value. PyPTO has Eq and Ge."""

    Eq = "eq"
    Ne = "ne"
    Gt = "gt"
    Ge = "ge"
    Lt = "lt"
    Le = "le"


class AtomicType:
    """Effect of a store on memory: to replace, or to add."""

    None_ = ""
    Add = "add"


class ReduceOp:
    """Operation by which a collective combines the values of the ranks."""

    Sum = "sum"
    Max = "max"
    Min = "min"
    Prod = "prod"


class _Namespace:
    """Operations under their names after `pld.<namespace>.`"""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __getattr__(self, name: str) -> Intrinsic:
        names = {row.word or row.name: row.name for row in OPERATIONS.values() if row.prefix == self.prefix}
        if name in names:
            return Intrinsic(names[name])
        elsewhere = f"; use {OPERATIONS[name].spelled}" if name in OPERATIONS else similar(name, names)
        raise AttributeError(f"{self.prefix} has no operation '{name}'{elsewhere}")


system = _Namespace("pld.system")
tensor = _Namespace("pld.tensor")
tile = _Namespace("pld.tile")

#: Names that follow `pld.` directly, too.
_SHORT = {
    "world_size",
    "rank",
    "nranks",
    "get_comm_ctx",
    "alloc_window_buffer",
    "window",
    "remote_load",
    "remote_store",
}


def __getattr__(name: str) -> Intrinsic:
    if name in _SHORT:
        return Intrinsic("tensor_remote_store" if name == "remote_store" else name)  # which takes tiles too
    if name in OPERATIONS:
        raise AttributeError(f"pld has no '{name}'; use {OPERATIONS[name].spelled}")
    raise AttributeError(f"pld has no operation '{name}'{similar(name, {*_SHORT, *__all__})}")
