"""Platform to compiler command lines."""

from __future__ import annotations


class ToolchainError(Exception):
    """A compiler or an SDK that is missing or unusable. ``str()`` is one line that says what to do."""
