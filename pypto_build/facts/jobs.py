"""One artifact's build and replay as it travels to another machine and back: what two rooms have to agree on."""

from __future__ import annotations

import msgspec


class FarmJob(msgspec.Struct, frozen=True):
    """What is to be done: ``pypto-build`` with these verbs and ``NAME=value`` options on the artifact in ``root``."""

    label: str
    root: str
    verb: str
    options: dict[str, str] = {}


class Order(msgspec.Struct, frozen=True):
    """All jobs of a command, and who does them: a scheduler's address, or ``local`` with ``workers`` processes."""

    scheduler: str
    workers: int
    jobs: list[FarmJob]
    memory: int = 0  # bytes that a job may take; 0: as many as there are


class FarmResult(msgspec.Struct, frozen=True):
    """What came of a job.

    ``status`` is the exit status of ``pypto-build``; ``verdict`` holds the bytes of verdict.json, empty where there is
    none; ``log`` what was printed; ``lost`` a line on why it could not be done at all.
    """

    label: str
    status: int = 0
    seconds: float = 0.0
    memory: int = 0
    log: str = ""
    verdict: bytes = b""
    worker: str = ""
    lost: str = ""
