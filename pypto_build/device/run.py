"""Checks rules of the device on executed instructions, with their recorded addresses and valid extents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pypto_build.artifact.files import read_bytes
from pypto_build.artifact.instruction_sites import AccessSite, Executed, find_positions
from pypto_build.facts.accesses import READ, SCRATCH, WRITE
from pypto_build.facts.broken_rules import BrokenRule
from pypto_build.pto.ops.constraints import Constraint, Facts, TileFacts
from pypto_build.pto.types import SPACES, element_bytes

from .kernel import OpenCall, check_kernel


class ExecutedTile(NamedTuple):
    """An operand as the runtime recorded it; `address` is in bytes from the start of its memory."""

    space: int
    access: int
    element: int
    rows: int
    cols: int
    valid_rows: int
    valid_cols: int
    address: int


def broken_by(call: OpenCall, operands: Sequence[ExecutedTile]) -> Iterator[tuple[Constraint, str]]:
    """Yield each rule that a call broke with these operands, with its message. Only rules that the text did not
    decide are checked.
    """
    facts = _with_operands(call.facts, operands)
    for constraint in call.constraints:
        if constraint.is_broken(facts):
            yield constraint, f"{call.text} {constraint.explain(facts)}"


class _Checked(NamedTuple):
    """The rules that a kernel's text breaks, and its calls with rules that only a run decides, by instruction."""

    broken: list[BrokenRule]
    open: dict[str, list[OpenCall]]


@dataclass
class RunRules:
    """The rules that an artifact's kernels break. ``sources`` are the paths of the kernels' C++ files by `func_id`."""

    sources: Mapping[int, Path]
    root: Path
    arch: str
    _read: dict[int, _Checked] = field(default_factory=dict)

    def broken_by_text(self) -> Iterator[BrokenRule]:
        """Yield the rules that a kernel's text breaks, whatever its arguments are."""
        yield from dict.fromkeys(rule for kernel in self.sources for rule in self._checked(kernel).broken)

    def broken(self, sites: Sequence[AccessSite], executed: Iterable[Executed]) -> Iterator[BrokenRule]:
        """Yield each rule that only a run decides, once for each call that broke it, with the first operands that did.

        Most instructions break no rule at any of the kernel's calls. The source line is looked up only for the others.
        """
        suspects = [
            (one.site, call, constraint, message)
            for one in executed
            for call in self._checked(sites[one.site].kernel).open.get(sites[one.site].instruction, ())
            for constraint, message in broken_by(call, _tiles(one.numbers))
        ]
        positions = find_positions((sites[site] for site, *_ in suspects), self.root)
        reported = set()
        for site, call, constraint, message in suspects:
            position = positions[sites[site]]
            key = (sites[site].kernel, call.line, constraint)
            if position.line == call.line and key not in reported:
                reported.add(key)
                yield BrokenRule(position.path, call.line, constraint.kind, message)

    def prepare(self) -> None:
        """Read and check the kernels while the run is in progress."""
        for kernel in self.sources:
            self._checked(kernel)

    def _checked(self, kernel: int) -> _Checked:
        if kernel not in self._read:
            source = self.sources.get(kernel)
            self._read[kernel] = self._check(source) if source is not None else _Checked([], {})
        return self._read[kernel]

    def _check(self, source: Path) -> _Checked:
        path = source.relative_to(self.root).as_posix() if source.is_relative_to(self.root) else str(source)
        broken, open_calls = check_kernel(read_bytes(source), path, self.arch)
        calls: dict[str, list[OpenCall]] = {}
        for call in open_calls:
            calls.setdefault(call.name, []).append(call)
        return _Checked(broken, calls)


def _tiles(numbers: list[int]) -> list[ExecutedTile]:
    width = len(ExecutedTile._fields)
    return [ExecutedTile(*numbers[at : at + width]) for at in range(0, len(numbers), width)]


def _with_operands(facts: Facts, operands: Sequence[ExecutedTile]) -> Facts:
    """Return the facts with recorded addresses and extents. Tiles of one kind are recorded in the order of the
    roles.
    """
    left, tiles = list(operands), dict(facts.tiles)
    for role, tile in facts.tiles.items():
        match = next((one for one in left if _is(one, tile, role, role not in facts.roles_in_order)), None)
        if match is not None:
            left.remove(match)
            tiles[role] = replace(tile, rows=match.valid_rows, cols=match.valid_cols, address=match.address)
    return Facts(tiles, facts.scalars, facts.attrs, facts.roles_in_order, facts.roles, facts.parts)


def _is(operand: ExecutedTile, tile: TileFacts, role: str, is_result: bool) -> bool:
    """Return whether a recorded operand matches the tile of a role."""
    type_ = tile.type
    if operand.space >= len(SPACES) or SPACES[operand.space] != type_.loc:
        return False
    if (operand.rows, operand.cols, operand.element) != (type_.rows, type_.cols, element_bytes(type_.dtype)):
        return False
    if role.startswith("tmp"):
        return bool(operand.access & SCRATCH)
    return bool(operand.access & (WRITE if is_result else READ)) and not operand.access & SCRATCH
