"""Converts exceptions of a scene test's code to one line."""

from __future__ import annotations

import traceback
from pathlib import Path


class NeedsSimpler(Exception):
    """A part of simpler's without stand-in was used; the text names it."""


def why(error: BaseException, file: Path | None = None) -> str:
    """Return ``error`` as a reason, with the line of ``file`` that raised it."""
    if isinstance(error, NeedsSimpler):
        return f"it uses {error}, which needs simpler"
    if isinstance(error, ImportError):
        return f"it cannot be imported: {error}"
    text = " ".join(str(error).split())
    message = f"{type(error).__name__}{': ' if text else ''}{text}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if file and frame.filename == str(file)]
    return f"{file}:{frames[-1].lineno}: {message}" if frames else message


def is_skip(error: BaseException) -> bool:
    """Return whether ``error`` means that a test is skipped."""
    return isinstance(error, NeedsSimpler) or type(error).__name__ in ("Skipped", "SkipTest")
