"""Layouts of tiles, and the layouts that are others seen in another order."""

from __future__ import annotations

from dataclasses import dataclass

from ..types import TileType
from . import dtypes


@dataclass(frozen=True)
class TileLayout:
    """The layout of a tile's elements."""

    dtype: str
    rows: int
    cols: int
    outer: str
    inner: str
    fractal: int

    @property
    def transposed(self) -> TileLayout:
        turn = {"row_major": "col_major", "col_major": "row_major", "none_box": "none_box"}
        return TileLayout(self.dtype, self.cols, self.rows, turn[self.outer], turn[self.inner], self.fractal)

    @property
    def is_linear(self) -> bool:
        return self.inner == "none_box"


def seen_as(text: str, form: TileLayout, target: TileLayout) -> str | None:
    """Return the expression of a tensor's elements in another layout; None where the bytes mean something else."""
    if form == target:
        return text
    if form.transposed == target:
        return f"{text}.T"
    same = form.dtype == target.dtype and form.rows * form.cols == target.rows * target.cols
    if not (same and form.is_linear and target.is_linear):
        return None
    text = text if form.outer == "row_major" else f"{text}.T"
    if target.outer == "row_major":
        return f"{text}.reshape({target.rows}, {target.cols})"
    return f"{text}.reshape({target.cols}, {target.rows}).T"


def layout_of(type_: TileType) -> TileLayout:
    return TileLayout(
        dtypes.name_of(type_.dtype), type_.rows, type_.cols, type_.blayout, type_.slayout,
        type_.fractal if type_.slayout != "none_box" else 0,
    )  # fmt: skip
