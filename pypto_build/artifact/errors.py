"""The one exception of this package: the error in an artifact, its position, and the remedy."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

# Packages that only some tools need, and the one line that asks for them.


def require_torch(user: str) -> None:
    """Raise a usage error with installation instructions if PyTorch, which ``user`` needs, is not installed."""
    if find_spec("torch") is None:
        raise ArtifactError(user, "needs PyTorch, which is not installed", "pip install 'pypto-build[reference]'")


def require_textual(user: str) -> None:
    """Raise a usage error with installation instructions if textual, which ``user`` needs, is not installed."""
    if find_spec("textual") is None:
        way_out = "pip install 'pypto-build[step]', or give commands with SCRIPT="
        raise ArtifactError(user, "needs textual, which is not installed", way_out)


ErrorKind = Literal["usage_error", "build_error", "golden_error"]

#: Exit status of a command line that ends with an error of this kind.
EXIT_STATUS: dict[ErrorKind, int] = {"usage_error": 2, "build_error": 3, "golden_error": 4}

#: Characters of a message; a longer one loses its middle.
_LONGEST = 2000


class ArtifactError(Exception):
    """A fault in the user's input; ``str(error)`` is one line: ``path: message; hint``."""

    def __init__(self, path: str | Path, message: str, hint: str = "", *, kind: ErrorKind = "usage_error") -> None:
        super().__init__(path, message, hint)
        self.kind: ErrorKind = kind
        self.path = str(path)
        self.message = _one_line(message)
        self.hint = _one_line(hint)

    def __str__(self) -> str:
        prefix = f"{self.path}: " if self.path else ""
        return f"{prefix}{self.message}" + (f"; {self.hint}" if self.hint else "")

    @property
    def exit_status(self) -> int:
        """Return the exit status of a command that ends with this error."""
        return EXIT_STATUS[self.kind]


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    if len(line) > _LONGEST:  # it quotes what a file says, which may be anything
        line = f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"
    return line.encode("utf-8", "backslashreplace").decode("utf-8")
