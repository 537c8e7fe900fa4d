"""One artifact's build and replay as it travels to another machine and back: what two rooms have to agree on."""

from __future__ import annotations

import msgspec

#: The scheduler whose workers are the command's own.
LOCAL = "local"


class FarmJob(msgspec.Struct, frozen=True, tag="job"):
    """What is to be done: ``pypto-build`` with this verb and ``NAME=value`` options on the artifact in ``root``.

    With ``module`` it is that tool's work on the directory: MODULE ROOT --scratch DIR, where DIR stays on the worker
    as long as the order. ``returns`` are files that come back, by their names below the directory in which it runs.
    """

    label: str
    root: str
    verb: str = ""
    options: dict[str, str] = {}
    module: str = ""
    returns: tuple[str, ...] = ()


class FarmDrop(msgspec.Struct, frozen=True, tag="drop"):
    """A job that nobody needs any more; it has no result."""

    label: str


class Order(msgspec.Struct, frozen=True):
    """Jobs of a command, and who does them: a scheduler's address, or ``local`` with ``workers`` processes.

    An ``open`` one is followed by more jobs, a line each; when those end, so does whatever still runs.
    """

    scheduler: str
    workers: int
    jobs: list[FarmJob]
    memory: int = 0  # bytes that a job may take; 0: as many as there are
    open: bool = False


class FarmReady(msgspec.Struct, frozen=True, tag="ready"):
    """The first that is said: how many workers there are for the jobs."""

    workers: int


class FarmResult(msgspec.Struct, frozen=True, tag="result"):
    """What came of a job.

    ``status`` is the exit status of ``pypto-build``; ``verdict`` holds the bytes of verdict.json, empty where there is
    none; ``log`` what was printed; ``lost`` a line on why it could not be done at all; ``files`` those that were to
    come back and were there.
    """

    label: str
    status: int = 0
    seconds: float = 0.0
    memory: int = 0
    log: str = ""
    verdict: bytes = b""
    worker: str = ""
    lost: str = ""
    files: dict[str, bytes] = {}


#: What is said, a line each; and what an open order goes on with.
FarmLine = FarmReady | FarmResult
OrderLine = FarmJob | FarmDrop
