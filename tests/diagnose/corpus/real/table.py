"""The recipes as a table for the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.diagnose.corpus.real import Recipe

PAGE = Path(__file__).resolve().parents[4] / "docs" / "dev" / "instruments.md"
BEGIN, END = "<!-- real: begin -->", "<!-- real: end -->"


def table(classes: Mapping[str, tuple[Recipe, ...]]) -> str:
    """One row a bug: class, what is planted, in which artifact, the command, the file, the finding."""
    rows = ["| class | planted bug | artifact | command | found in | finding |", "|---|---|---|---|---|---|"]
    for kind, recipes in classes.items():
        rows += [
            f"| {kind} | {r.name} | `{r.artifact}` | `{r.command}` | `{r.file}` | "
            f"{'the link that parts' if r.tool == 'why' else f'`{r.rule}`'} |"
            for r in recipes
        ]
    return "\n".join(rows) + "\n"


def page(text: str, classes: Mapping[str, tuple[Recipe, ...]]) -> str:
    """The page with the table that it should have."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{table(classes)}{END}{rest.partition(END)[2]}"


def write(classes: Mapping[str, tuple[Recipe, ...]]) -> None:
    """Put the table into the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), classes), encoding="utf-8")
