"""A sweep as a file: what JSON= gets, and what comes back from a farm."""

from __future__ import annotations

import msgspec

from pypto_build.diagnose.sweep.errors import Distribution
from pypto_build.diagnose.sweep.run import Result


class Document(msgspec.Struct):
    """What JSON= gets."""

    artifact: str
    oracle: str
    rtol: float
    atol: float
    sizes: list[str]
    outputs: list[Distribution]
    smallest: Result | None
    cases: list[Result]
    schema: int = 1
