"""Finds the values that the `kernel_entry` of a wrapper passes on, so that PyTorch gets the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pypto_build.artifact.cpp.wrapper import KernelFile
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


def read_entry(source: str, functions: Sequence[str]) -> tuple[str, tuple[Passed, ...]] | None:
    """Return the function that a wrapper's entry calls, one of `functions`, and the passed values; None if unclear."""
    file = KernelFile(source, only_entry=True)
    variables = {
        each.name: Passed(each.kind, each.slot, each.axis, source_variable(each.name)) for each in file.variables
    }
    call = next((call for call in file.calls() if call.name in functions), None)
    if call is None or not variables.keys() >= set(call.arguments):
        return None
    return call.name, tuple(variables[name] for name in call.arguments)


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
