"""Records of a run on two ranks with known times: each publishes, rank 1 late, and waits for the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.diagnose.runs import timeline_document, write_json

#: Where the windows are, and the signals in them: of rank 0 by rank 1, of rank 1 by rank 0.
WINDOWS = [1 << 20, 2 << 20]
SIGNALS = [WINDOWS[0] + 1024 + 4, WINDOWS[1] + 1024]
_TASK = 1 << 32
#: The beginning of the run in the machine's clock, in nanoseconds.
ORIGIN = 1_000_000_000


def _dispatch(number: int, rank: int, index: int, begun: float, ended: float | None) -> dict[str, Any]:
    program, line = (("publish", 35), ("reduce", 50))[index]
    producers = [number - 2] if index else []
    row = {"number": number, "program": program, "rank": rank, "index": index, "line": line, "producers": producers}
    return {**row, "begun_s": begun / 1e6, "ended_s": None if ended is None else ended / 1e6}


def ranks_document(hung: bool = False) -> dict[str, Any]:
    """`ranks.json`: publish on both, then reduce; rank 0 waits for rank 1. Or it has `hung` there."""
    end = None if hung else 460.0
    buffers = [
        {"name": "partial_buf", "offset": 0, "nbytes": 1024},
        {"name": "arrived_buf", "offset": 1024, "nbytes": 256},
    ]
    domain = {"name": "comm_d0", "ranks": [0, 1], "addresses": WINDOWS, "size": 1280, "buffers": buffers}
    wait = {"rank": 0, "kernel": "sum_ranks", "address": SIGNALS[0], "expected": 1, "comparison": 3, "value": 0}
    return {
        "world": 2,
        "dispatches": [
            _dispatch(0, 0, 0, 0.0, 100.0),
            _dispatch(1, 1, 0, 10.0, 300.0),
            _dispatch(2, 0, 1, 110.0, end),
            _dispatch(3, 1, 1, 310.0, None if hung else 450.0),
        ],
        "domains": [domain],
        "signals": [],
        "origin_ns": ORIGIN,
        "waiting": [wait] if hung else [],
        "schema": 1,
    }


def messages_document(rank: int, index: int = 1) -> dict[str, Any]:
    """`messages.json` of a rank's dispatch: in reduce it tells the other, and waits for it."""
    if index == 0:
        return {"origin_ns": ORIGIN + (0, 10_000)[rank], "kernels": [], "notifications": [], "waits": []}
    notified, begun, ended = ((120, 125, 402), (400, 404, 405))[rank]
    own, peer = SIGNALS[rank], SIGNALS[1 - rank]
    return {
        "origin_ns": ORIGIN + (110_000, 310_000)[rank],
        "kernels": ["sum_ranks"],
        "notifications": [[ORIGIN + notified * 1000, peer, 1, False, 1, _TASK, 0]],
        "waits": [[ORIGIN + begun * 1000, ORIGIN + ended * 1000, own, 1, 3, True, _TASK, 0]],
    }


def write_ranks(out: Path, hung: bool = False) -> Path:
    """Write the records below `out`, where an artifact was replayed; `dfx_outputs`."""
    directory = out / "dfx_outputs"
    write_json(directory / "ranks.json", ranks_document(hung))
    for rank in (0, 1):
        for index in (0, 1):
            dispatch = directory / f"rank{rank}" / f"d{index}"
            write_json(dispatch / "dispatch_program.json", {"program": ("publish", "reduce")[index]})
            if not hung:
                write_json(dispatch / "messages.json", messages_document(rank, index))
                begun = ((20, 9) if index == 0 else (5, 85))[rank]
                end = begun + (40 if index == 0 else (300, 40)[rank])
                write_json(dispatch / "chip_swimlane_records.json", timeline_document(((0, 0, begun, end),), ("aiv",)))
    return directory


def encoded(document: dict[str, Any]) -> bytes:
    """A record as its file has it."""
    return msgspec.json.encode(document)
