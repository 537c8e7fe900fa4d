"""Tolerances: what the command line says, else what the artifact says, else 1e-5.

An artifact says it in `golden.py`, as `RTOL = …` and `ATOL = …` with literal numbers. The file is parsed, never run.
"""

from __future__ import annotations

from pathlib import Path

DEFAULT_TOLERANCE = 1e-5


def tolerances(root: Path, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """`(rtol, atol)` for a replay of the artifact in `root`; None stands for "not given"."""
    said = _declared(root / "golden.py") if rtol is None or atol is None else {}
    return (
        said.get("RTOL", DEFAULT_TOLERANCE) if rtol is None else rtol,
        said.get("ATOL", DEFAULT_TOLERANCE) if atol is None else atol,
    )


def _declared(path: Path) -> dict[str, float]:
    """The literal RTOL and ATOL at the top level of a golden.py; a file that cannot be parsed says nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return {}
    import ast

    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError):
        return {}
    found: dict[str, float] = {}
    for statement in statements:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)):
            continue
        value = statement.value.value
        for target in statement.targets:
            if isinstance(target, ast.Name) and target.id in ("RTOL", "ATOL") and isinstance(value, (int, float)):
                found[target.id] = float(value)
    return found
