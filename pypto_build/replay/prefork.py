"""Forks replays from a process that has already loaded modules, the runtime and the libraries of the kernels.

The process loads only libraries that run no code on loading (`load_ahead` of the runtime). Each fork's own child checks
every library again, and reloads those that were replaced. If a library was overwritten in place, the loaded state is
unreliable: the fork refuses, and the client starts a new process.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.interface import read_interface
from pypto_build.facts.run_options import EMBEDDED
from pypto_build.replay.cli import request_from, run_in_turn, terminate
from pypto_build.replay.embedded import job_of
from pypto_build.replay.loading import Files, Libraries, load_embedded
from pypto_build.replay.prestart import prestart_child
from pypto_build.replay.request import Request
from pypto_build.trace import note_start

# A file that changed this shortly before loading may have changed again within the clock's resolution.
_TICK_NS = 50_000_000


class _Loaded:
    """The files that this process has loaded. It was ``started`` at that time of the system's clock."""

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
        """Return whether our modules and the runtime are unchanged, and no library was written to in place."""
        return self._is_settled and self._code.are_unchanged() and self._loaded.are_whole()


_LOADED: list[_Loaded] = []


def load(words: Sequence[str], started: int) -> None:
    """Load the current files that a replay with this command line needs, in a process that was ``started`` before."""
    _LOADED.append(_Loaded(words, started))


def is_whole() -> bool:
    """Return whether the loaded files are still valid. Replaced kernel libraries do not matter, since forks reload
    them.
    """
    return all(loaded.is_whole() for loaded in _LOADED)


def run(begin: Callable[[], object]) -> int:
    """Run the replay when its turn comes; return the exit status. If ``begin`` was not called, nothing has been
    executed.
    """
    (loaded,) = _LOADED
    signal.signal(signal.SIGTERM, terminate)
    note_start("the replay, forked")
    return run_in_turn(loaded.request, prestart_child(loaded.request, loaded.libraries), begin, loaded.is_whole)
