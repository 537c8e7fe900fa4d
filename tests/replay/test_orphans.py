"""What a run leaves in shared memory is removed; what another program of the user has there is not."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace

from pypto_build.replay.orphans import SHARED_MEMORY, SharedMemory


def name_of(semaphore: object) -> str:
    """The name by which another process opens it."""
    return str(getattr(semaphore, "_semlock").name).removeprefix("/")  # noqa: B009


def test_what_others_have_in_shared_memory_stays(tmp_path: Path) -> None:
    """A semaphore is mapped under the name that it had before it got its own; a file may be open and not mapped."""
    memory = SharedMemory(SimpleNamespace(remove_segments=lambda creator, since: None))
    semaphore = multiprocessing.get_context("spawn").Semaphore()
    name = SHARED_MEMORY / f"sem.{name_of(semaphore)}"
    left, opened = (SHARED_MEMORY / f"{tmp_path.parent.name}-{os.getpid()}-{what}" for what in ("left", "open"))
    left.touch()
    with opened.open("w"):
        memory.remove(os.getpid())
        assert (name.exists(), opened.exists(), left.exists()) == (True, True, False)
    memory.remove(os.getpid())
    assert (name.exists(), opened.exists()) == (True, False)
