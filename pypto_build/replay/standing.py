"""Replays that are forks of a process which has loaded modules, the runtime and the libraries of the kernels.

Only libraries are loaded in it that run no code of theirs (`load_ahead` of the runtime). A fork's own child looks at
each once more, and what is another file by then is unloaded there and loaded as it is. If one was written to in place,
nobody can say what is loaded: then nothing is done, and whoever waits starts a process of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

from pypto_build.artifact.interface import read_interface
from pypto_build.facts.run_options import EMBEDDED
from pypto_build.replay.ahead import Identity, identity_of, start_ahead
from pypto_build.replay.child import load_embedded
from pypto_build.replay.cli import request_from, run_in_turn, terminate
from pypto_build.replay.request import Request
from pypto_build.trace import note_start

# A file that changed so short a time before it was loaded may have changed once more.
_TICK_NS = 50_000_000
_WRONG: Identity = (0, 0, 0, 0, 0)


class _Standing:
    """What this process has loaded, ``started`` by the system's clock."""

    def __init__(self, words: Sequence[str], started: int) -> None:
        self.request: Request = request_from(words)
        self._libraries: dict[str, Identity] = {}
        module = load_embedded(self.request.embedded)
        for path in self._paths() if self.request.runtime == EMBEDDED else ():
            before = identity_of(path)
            if before and module.load_ahead(path):
                self._libraries[path] = before
        paths = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        files = {path: identity_of(path) or _WRONG for path in (*filter(None, paths), str(self.request.embedded))}
        settled = {path: known for path, known in files.items() if max(known[3:]) + _TICK_NS < started}
        self._code = settled if settled == files else {"": _WRONG}

    def _paths(self) -> Iterator[str]:
        """Of the libraries, orchestration first."""
        interface = read_interface(self.request.build_dir / "interface.json")
        built = os.path.join(self.request.binaries or self.request.build_dir, "")
        for name in (interface.orchestration.binary, *(kernel.binary for kernel in interface.kernels)):
            yield f"{built}{name}.so"

    def is_whole(self) -> bool:
        """Whether our modules and the runtime are those that were loaded, and no library was written to in place."""
        if any(identity_of(path) != known for path, known in self._code.items()):
            return False
        now = {path: identity_of(path) for path in self._libraries}
        return all(
            (now[path] or _WRONG)[:2] != known[:2] or now[path] == known for path, known in self._libraries.items()
        )


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
    return run_in_turn(loaded.request, start_ahead(loaded.request), begin, loaded.is_whole)
