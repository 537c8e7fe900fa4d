"""A run's leftovers in shared memory are removed; objects of the user's other programs stay."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace

from pypto_build.replay.worker import SHARED_MEMORY, SharedMemory


def name_of(semaphore: object) -> str:
    """Return the name by which another process opens a semaphore."""
    return str(getattr(semaphore, "_semlock").name).removeprefix("/")  # noqa: B009


def test_what_others_have_in_shared_memory_stays(tmp_path: Path) -> None:
    """A semaphore is mapped under its earlier, temporary name; a file may be open without being mapped."""
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
