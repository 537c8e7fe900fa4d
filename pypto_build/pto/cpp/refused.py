"""Operations that no simulated platform can run here, each with the sentence that says why.

Keys are an operation's name, its family and function, or its family, as for lowerings.
"""

from __future__ import annotations

from ..model import Operation
from ..ops import TABLE
from .emitter import Emitter

_COLLECTIVE = "a collective needs all ranks, a replay runs one; write pto.comm.tput or pto.comm.tget for each of them"
_MX = "the CPU runtime has no microscaled products; multiply by the scales before, and use the operation without .mx"
_FLAGS = "the CPU runtime has no explicit flags between cores; use a pipe (tpush, tpop), or pto.syncall between blocks"
_INTERNAL = "is a form that only ptoas itself makes between its passes; write"

REFUSED = {
    "pto.comm.tbroadcast": _COLLECTIVE,
    "pto.comm.tgather": _COLLECTIVE,
    "pto.comm.tscatter": _COLLECTIVE,
    "pto.comm.treduce": _COLLECTIVE,
    "matmul_mx": _MX,
    "scale_address": _MX,
    "quantize:mx": "the CPU runtime does not quantize to microscaled formats; use pto.tquant",
    "crosscore:set": _FLAGS,
    "crosscore:wait": _FLAGS,
    "memref.alloc": f"{_INTERNAL} pto.alloc_tile",
    "memref.dealloc": f"{_INTERNAL} nothing: tiles are never given back",
    "pto.tile_buf_addr": f"{_INTERNAL} the operation on the tile",
}  # fmt: skip


def why_refused(op: Operation) -> str:
    """The sentence; empty for an operation that is not refused as a whole."""
    return next((REFUSED[key] for key in TABLE[op.name].keys if key in REFUSED), "")


def refuse(e: Emitter, op: Operation) -> None:
    """Fails with the sentence."""
    e.fail(op, why_refused(op))
