"""Replays that are forks of a process which has loaded modules, the runtime and the libraries of the kernels.

Only libraries are loaded in it that run no code of theirs (`load_ahead` of the runtime). A fork's own child looks at
each once more, and what is another file by then is unloaded there and loaded as it is. If one was written to in place,
nobody can say what is loaded: then nothing is done, and whoever waits starts a process of its own.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.interface import read_interface
from pypto_build.facts.run_options import EMBEDDED
from pypto_build.replay.ahead import start_ahead
from pypto_build.replay.cli import request_from, run_in_turn, terminate
from pypto_build.replay.embedded import job_of
from pypto_build.replay.loading import Files, Libraries, load_embedded
from pypto_build.replay.request import Request
from pypto_build.trace import note_start

# A file that changed so short a time before it was loaded may have changed once more.
_TICK_NS = 50_000_000


class _Standing:
    """What this process has loaded, ``started`` by the system's clock."""

    def __init__(self, words: Sequence[str], started: int) -> None:
        self.request: Request = request_from(words)
        module = load_embedded(self.request.embedded)
        self.libraries: Libraries | None = None
        self._loaded = Files(module, [])
        if self.request.runtime == EMBEDDED:
            with suppress(ArtifactError):  # something is missing just now
                job = job_of(self.request, read_interface(self.request.build_dir / "interface.json"))
                self.libraries = Libraries(module, job)
                self._loaded = self.libraries.load_ahead()
        paths = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        self._code = Files(module, [*filter(None, paths), str(self.request.embedded)])
        self._is_settled = self._code.are_older_than(started - _TICK_NS)

    def is_whole(self) -> bool:
        """Whether our modules and the runtime are those that were loaded, and no library was written to in place."""
        return self._is_settled and self._code.are_unchanged() and self._loaded.are_whole()


_LOADED: list[_Standing] = []


def load(words: Sequence[str], started: int) -> None:
    """Load what a replay with this command line needs, as it is now, in a process that was ``started`` before."""
    _LOADED.append(_Standing(words, started))


def is_whole() -> bool:
    """Whether what was loaded can be used, as far as files in place of others do not matter."""
    return all(loaded.is_whole() for loaded in _LOADED)


def run(begin: Callable[[], object]) -> int:
    """The replay, when its turn comes; the exit status, and nothing is done unless ``begin`` was called."""
    (loaded,) = _LOADED
    signal.signal(signal.SIGTERM, terminate)
    note_start("the replay, forked")
    return run_in_turn(loaded.request, start_ahead(loaded.request, loaded.libraries), begin, loaded.is_whole)
