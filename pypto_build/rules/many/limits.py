"""Limits that the jobs of a batch share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Limits:
    """Processors, and bytes of memory."""

    processors: int
    memory: int
