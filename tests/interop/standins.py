"""The directories of the stand-ins, and an environment in which programs import them instead of the real packages."""

from __future__ import annotations

import os
from pathlib import Path

from tests.loaded_python import interpreter

VINTAGES = ("2026-04", "2026-05", "2026-06", "2026-07", "2026-08")
STANDIN = Path(__file__).parent / "standin"


def environment(vintage: str = "2026-08", **more: str) -> dict[str, str]:
    """Return the environment of a process that sees simpler's interface as of ``vintage``."""
    root = Path(__file__).resolve().parents[2]
    own = {"PYTHONPATH": f"{STANDIN}:{root}", "PYPTO_STANDIN_VINTAGE": vintage, "SIMPLER_PYTHON": interpreter()}
    return {**os.environ, **own, **more}
