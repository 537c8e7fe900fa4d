"""Commands of `SCRIPT=`: text with semicolons, or a file."""

from __future__ import annotations

from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_text


def script_text(text: str) -> str:
    """The commands as text; the name of a file that is there stands for what it holds. Raises ArtifactError."""
    path = Path(text)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):
        is_file = False
    if not text or not is_file:
        return text
    try:
        return read_text(path)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "name another file") from None


def commands_in(text: str) -> list[str]:
    """The commands: one a line, or with semicolons between them; a line that begins with `# ` is a comment."""
    lines = [line for line in script_text(text).splitlines() if not line.lstrip().startswith("# ")]
    return [command.strip() for line in lines for command in line.split(";") if command.strip()]
