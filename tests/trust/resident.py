"""A resident process of a world's own, which is there before commands come."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.trust.commands import Done, run
from tests.trust.space import Space

_START = (
    "from pypto_build.client import socket_address, start\n"
    "at = socket_address\n"
    "start.start_server(at.address(at.directory(), at.describe_situation()))"
)


class Resident:
    """Starts the process when it is asked for the first time, and again where it has ended by itself."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._place: Path | None = None

    def replay(self, *options: str, longest_s: float) -> Done:
        """A replay as the installed command does it: by the resident process."""
        words = ["-m", "pypto_build.resident.client", *self._space.words("replay", *options)[3:]]
        return self._run(words, longest_s)

    def scons(self, *words: str, longest_s: float) -> Done:
        """`scons`, which hands over to it."""
        return self._run(["-m", "SCons", "-Q", *words, "VERBOSE=1"], longest_s)

    def _run(self, words: list[str], longest_s: float) -> Done:
        if self._place is None:
            self._place = Path(tempfile.mkdtemp(prefix="r-"))  # a short name: it is that of a socket
        python = str(self._space.tested.python)
        subprocess.run([python, "-c", _START], env=self._environment(), cwd=self._space.root, check=True)
        return run([python, *words], self._space.root, self._environment(), longest_s)

    def _environment(self) -> dict[str, str]:
        return {**self._space.environment(), "PYPTO_BUILD_SERVER": "1", "XDG_RUNTIME_DIR": str(self._place)}

    def end(self) -> None:
        """End the process."""
        if self._place is not None:
            words = [str(self._space.tested.python), "-m", "pypto_build.resident.client", "shutdown"]
            subprocess.run(words, env=self._environment(), stdout=subprocess.DEVNULL, check=True)
            shutil.rmtree(self._place, ignore_errors=True)
