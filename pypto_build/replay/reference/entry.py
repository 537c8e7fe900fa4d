"""Reads the `kernel_entry` of a wrapper as text and finds the values that it passes on, so that PyTorch gets the same
ones.

The facts come from the wrappers that PyPTO writes around assembled kernels, of all vintages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pypto_build.pto.ssa_names import source_variable

# kinds of arguments
TENSOR, SCALAR, EXTENT, BLOCK, BLOCKS, LANE = "tensor", "scalar", "extent", "block", "blocks", "lane"


class Passed(NamedTuple):
    """One value that the entry passes on: tensor or scalar number `slot`, extent `axis` of tensor `slot`, or an id of
    the launch."""

    kind: str
    slot: int = 0
    axis: int = 0
    name: str = ""  # the name of the variable that the entry passes on


_ENTRY = re.compile(r"\bkernel_entry\s*\([^)]{0,999}\)\s*\{")
_END = re.compile(r"^\}", re.M)
_LAUNCH = {"get_block_idx": BLOCK, "get_block_num": BLOCKS, "get_sub_block_id": LANE}
_SLOT = re.compile(r"\b(\w+)(?:\.u64)?\s*=[^;]{0,999}?\bargs\s*\[\s*(\d{1,9})\s*\]")
_EXTENT = re.compile(r"\b(\w+)\s*=[^;]{0,999}?\b(\w+)->shapes\s*\[\s*(\d{1,9})\s*\]")
_ADDRESS = re.compile(r"\b(\w+)\s*=[^;]{0,999}?\b(\w+)->(?:buffer\.addr|data_as\b)")
_VALUE = re.compile(r"\b(\w+)\s*=\s*(\w+)\.\w+\s*\Z")
_CALL = re.compile(r"\b(\w+)\s*\(([^()]*)\)\s*\Z")


def read_entry(source: str, functions: Sequence[str]) -> tuple[str, tuple[Passed, ...]] | None:
    """Return the function that a wrapper's entry calls, one of `functions`, and the passed values; None if unclear."""
    entry = _ENTRY.search(source)
    end = _END.search(source, entry.end()) if entry is not None else None
    if entry is None or end is None:
        return None
    text = re.sub(
        r"//[^\n]*|/\*.*?(?:\*/|\Z)|^[ \t]*#[^\n]*", " ", source[entry.end() : end.start()], flags=re.S | re.M
    )
    values: dict[str, Passed] = {}
    for statement in (" ".join(part.split()) for part in text.split(";")):
        _learn(statement, values)
        call = _CALL.search(statement)
        if call is not None and call[1] in functions:
            names = [name.strip() for name in call[2].split(",") if name.strip()]
            if any(name not in values for name in names):
                return None
            return call[1], tuple(values[name]._replace(name=source_variable(name)) for name in names)
    return None


def _learn(statement: str, values: dict[str, Passed]) -> None:
    """Record the meaning of the variable that a statement assigns."""
    for function, kind in _LAUNCH.items():
        match = re.search(rf"\b(\w+)\s*=\s*{function}\s*\(", statement)
        if match is not None:
            values[match[1]] = Passed(kind)
            return
    extent = _EXTENT.search(statement)
    if extent is not None and extent[2] in values:
        values[extent[1]] = Passed(EXTENT, values[extent[2]].slot, int(extent[3]))
        return
    address = _ADDRESS.search(statement)
    if address is not None and address[2] in values:
        values[address[1]] = Passed(TENSOR, values[address[2]].slot)
        return
    slot = _SLOT.search(statement)
    if slot is not None:
        values[slot[1]] = Passed(SCALAR, int(slot[2]))
        return
    value = _VALUE.search(statement)
    if value is not None and value[2] in values:
        values[value[1]] = values[value[2]]


def positional(kinds: Sequence[str], tensors: int) -> tuple[Passed, ...]:
    """Return the usual order for an unreadable wrapper: tensors, scalars, then ids of the launch."""
    passed, slot, scalar = [], 0, tensors
    for kind in kinds:
        if kind == TENSOR:
            passed.append(Passed(TENSOR, slot))
            slot += 1
        elif kind == SCALAR:
            passed.append(Passed(SCALAR, scalar))
            scalar += 1
        else:
            passed.append(Passed(kind))
    return tuple(passed)
