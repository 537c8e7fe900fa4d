"""Records of a build and replay that travel to another machine and back; the rooms on both sides share them."""

from __future__ import annotations

import msgspec

#: The scheduler whose workers are the command's own.
LOCAL = "local"


class FarmJob(msgspec.Struct, frozen=True, tag="job"):
    """A job: run ``pypto-build`` with ``verb`` and ``NAME=value`` options on the artifact in ``root``.

    With ``module`` the job runs that tool on the directory instead: MODULE ROOT --scratch DIR. DIR stays on the worker
    until the order ends. ``returns`` names files to send back, relative to the job's working directory.
    """

    label: str
    root: str
    verb: str = ""
    options: dict[str, str] = {}
    module: str = ""
    returns: tuple[str, ...] = ()


class FarmDrop(msgspec.Struct, frozen=True, tag="drop"):
    """Cancels a job whose result is no longer needed."""

    label: str


class Order(msgspec.Struct, frozen=True):
    """A command's jobs, and the processes for them: a scheduler's address, or ``local`` with ``workers`` processes.

    In an ``open`` order more jobs follow, a line each. At the end of these lines all running jobs end too.
    """

    scheduler: str
    workers: int
    jobs: list[FarmJob]
    memory: int = 0  # bytes that a job may take; 0: as many as there are
    open: bool = False


class FarmReady(msgspec.Struct, frozen=True, tag="ready"):
    """The first line of an answer: the number of workers for the jobs."""

    workers: int


class FarmResult(msgspec.Struct, frozen=True, tag="result"):
    """The result of a job.

    ``status`` is the exit status of ``pypto-build``. ``verdict`` holds the bytes of verdict.json, empty without one.
    ``log`` has the output; ``lost`` a line on why the job could not run at all; ``files`` the returned files
    that existed.
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


#: A line of an answer; a line that continues an open order.
FarmLine = FarmReady | FarmResult
OrderLine = FarmJob | FarmDrop
