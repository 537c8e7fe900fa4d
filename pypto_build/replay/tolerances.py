"""Reads an artifact's comparison settings: tolerances (the command line takes precedence, 1e-5 is the default), and
outputs.

They are in `golden.py`, as `RTOL = …` and `ATOL = …` with literal numbers, and `__outputs__ = […]`. The file is parsed,
never run.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.files import read_text
from pypto_build.artifact.manifest_eval import shown
from pypto_build.artifact.snapshot import GOLDEN_NAME, LARGEST_GOLDEN
from pypto_build.facts.run_options import is_tolerance

DEFAULT_TOLERANCE = 1e-5
_MOST_BRACES = 30_000  # Python takes the square of their number for an f-string


def tolerances(root: Path, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """Return `(rtol, atol)` for a replay of the artifact in `root`; None stands for "not given".

    Raises a golden error for a value in `golden.py` that is not a tolerance.
    """
    path = root / GOLDEN_NAME
    literals = _literals(path) if rtol is None or atol is None else {}
    chosen = {"RTOL": rtol, "ATOL": atol}
    values = (_number(path, name, literals) if value is None else value for name, value in chosen.items())
    return next(values), next(values)


def _number(path: Path, name: str, literals: dict[str, Any]) -> float:
    value = literals.get(name)
    if value is None:
        return DEFAULT_TOLERANCE
    if not is_tolerance(value):
        way_out = f"write a finite number of 0 or more, or give {name}="
        raise ArtifactError(path, f"{name} = {shown(value)} is not a tolerance", way_out, kind="golden_error")
    return float(value)


def compared_outputs(root: Path) -> tuple[str, ...]:
    """Return the outputs that the artifact in `root` has goldens for; empty if it does not name them."""
    names = _literals(root / GOLDEN_NAME).get("__outputs__")
    return tuple(map(str, names)) if isinstance(names, (list, tuple)) else ()


def _literals(path: Path) -> dict[str, Any]:
    """Return the literal values assigned at the top level of a file; none for a file that cannot be parsed."""
    try:
        text = read_text(path, LARGEST_GOLDEN)
    except OSError:
        return {}
    if text.count("{") > _MOST_BRACES:
        return {}
    import ast
    import warnings

    literals: dict[str, Any] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the style of the user's file
            tree = ast.parse(text)
        for statement in tree.body:
            if isinstance(statement, ast.Assign):
                with suppress(ValueError, TypeError, RecursionError):  # not a literal, or `{[]}`
                    value = ast.literal_eval(statement.value)
                    literals |= {target.id: value for target in statement.targets if isinstance(target, ast.Name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two are what endless nesting comes to
        return {}
    return literals
