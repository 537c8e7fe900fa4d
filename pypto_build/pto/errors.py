"""Errors of the .pto language: one line, `file:line:col: operation: what was expected`."""

from __future__ import annotations

from pypto_build.facts.positions import SourcePosition

#: Characters of a message: it quotes what a file says, which may be anything.
_LONGEST = 2000


def printable(text: str) -> str:
    """Return the text with invalid UTF-8 bytes and terminal control characters escaped; the middle of a very long
    text is cut.
    """
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


class DeviceRule(str):
    """A message on a rule of the device that the assembler does not check, so that it accepts the module."""


class PtoError(Exception):
    """The text is invalid .pto; `str()` is one line that names the position and the operation.

    If `is_rule` is set, the assembler accepts the text, but the device computes another result or none.
    """

    def __init__(self, position: SourcePosition, message: str, operation: str = "") -> None:
        self.is_rule = isinstance(message, DeviceRule)
        self.position = position
        self.operation = operation
        self.message = printable(" ".join(message.split()))
        super().__init__(f"{position}: {operation}: {self.message}" if operation else f"{position}: {self.message}")


class TypeSyntaxError(ValueError):
    """A type's text cannot be read; the parser turns it into a PtoError with a place."""
