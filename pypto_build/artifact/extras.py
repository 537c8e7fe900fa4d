"""Packages that only some tools need, and the one line that asks for them."""

from __future__ import annotations

from importlib.util import find_spec

from .errors import ArtifactError


def require_torch(user: str) -> None:
    """Raise a usage error that says how to install PyTorch, which ``user`` needs, where it is not installed."""
    if find_spec("torch") is None:
        raise ArtifactError(user, "needs PyTorch, which is not installed", "pip install 'pypto-build[reference]'")


def require_textual(user: str) -> None:
    """Raise a usage error that says how to install textual, which ``user`` needs, where it is not installed."""
    if find_spec("textual") is None:
        way_out = "pip install 'pypto-build[step]', or give commands with SCRIPT="
        raise ArtifactError(user, "needs textual, which is not installed", way_out)
