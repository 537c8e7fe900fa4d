"""Compiler command lines for each platform."""

from __future__ import annotations


class ToolchainError(Exception):
    """A compiler or an SDK that is missing or unusable. ``str()`` is one line that says what to do."""
