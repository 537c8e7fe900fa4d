"""Compares two .pto modules without names, constants' names and source locations.

Operations are aligned by name, attributes, types and constants. Aligned operations then have to use corresponding
values: arguments by position, constants by value, others by the alignment of their definitions. A difference is shown
with both lines as they are written.

    python -m pypto_build.pto.diff A.pto B.pto      (or two directories of .pto files)
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .check import modules_of
from .errors import PtoError
from .model import Function, Module, Operation, Region, print_dict
from .ops import TABLE
from .parser import parse_file
from .printer import print_operation

_BRACES = ("else", "end")
#: Pairs of equal lines that are looked at; functions of thousands of operations have a hundredth of them.
_MOST_PAIRS = 5_000_000


@dataclass(frozen=True)
class Line:
    """One operation, brace or header.

    `key` describes it without the values it uses: two lines with equal keys can be aligned. `operands` are the values:
    arguments by position, constants by value, others by name.
    """

    key: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    shown: str
    line: int


@dataclass(frozen=True)
class Difference:
    """A change in one function: `removed` occur only in A, `added` only in B, each as (line number, text)."""

    function: str
    removed: tuple[tuple[int, str], ...]
    added: tuple[tuple[int, str], ...]


class _Reader:
    """The lines of one function."""

    def __init__(self, module: Module, function: Function) -> None:
        self.source = module.source
        self.known: dict[str, str] = {a.name: f"argument {i}" for i, a in enumerate(function.args)}
        self.kinds: dict[str, str] = {}
        self.lines: list[Line] = []
        types = ", ".join(str(a.type) for a in function.args)
        self.add(f"func.func @{function.name}({types}) {print_dict(function.attrs)}", (), (), None, function.token)
        if function.body is not None:
            self.region(function.body)

    def add(self, key: str, operands: tuple[str, ...], results: tuple[str, ...], shown: str | None, token: int) -> None:
        line = self.source.position(token).line if token >= 0 else 0
        self.lines.append(Line(key, operands, results, key if shown is None else shown, line))

    def region(self, region: Region) -> None:
        for op in region.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        if TABLE[op.name].family == "constant":  # its value stands where it is used
            self.known[op.results[0]] = f"{op.attrs['value']} {op.result_types[0] if op.result_types else ''}"
            return
        operands = tuple(self.known.get(value, value) for _, value in op.all_operands())
        kinds = [self.known.get(value) or self.kinds.get(value, "?") for _, value in op.all_operands()]
        roles = " ".join(f"{role}={kind}" for role, kind in zip((r for r, _ in op.all_operands()), kinds, strict=True))
        types = " ".join(repr(t) for ts in (*op.types.values(), op.result_types) for t in ts)  # free of spelling
        key = f"{op.name} {roles} {sorted(op.attrs.items(), key=lambda item: item[0])!r} : {types}"
        defined = (*op.results, *(name for region in op.regions for name, _ in region.args))
        for name in defined:
            self.kinds[name] = op.name
            self.known.pop(name, None)  # a constant of that name in another branch
        shown = re.sub(r" loc\(.*\)$", "", print_operation(op).split("\n", 1)[0])
        self.add(key, operands, defined, shown, op.token)
        for number, region in enumerate(op.regions):
            if number:
                self.add("else", (), (), None, -1)
            self.region(region)
        if op.regions:
            self.add("end", (), (), None, -1)


def diff_modules(a: Module, b: Module) -> list[Difference]:
    """Return the differences in text order, by function; a function of one module only is one difference."""
    ours, theirs = ({f.name: _Reader(m, f).lines for f in m.functions()} for m in (a, b))
    differences: list[Difference] = []
    for name in dict.fromkeys([*ours, *theirs]):
        differences += _compare(name, ours.get(name, []), theirs.get(name, []))
    return differences


def _compare(function: str, old: list[Line], new: list[Line]) -> Iterator[Difference]:
    """Yield the differences: lines are aligned by their keys; aligned lines must use corresponding values."""
    same: dict[str, str] = {}  # value of A -> value of B
    for tag, i1, i2, j1, j2 in _opcodes([x.key for x in old], [x.key for x in new]):
        if tag == "equal":
            for x, y in zip(old[i1:i2], new[j1:j2], strict=True):
                if tuple(same.get(value, value) for value in x.operands) != y.operands:
                    yield Difference(function, _shown([x]), _shown([y]))
                same.update(zip(x.results, y.results, strict=False))
            continue
        removed, added = old[i1:i2], new[j1:j2]
        for x, y in zip(removed, added, strict=False):  # an operation that was changed still defines the same values
            if x.key.split(" ", 1)[0] == y.key.split(" ", 1)[0]:
                same.update(zip(x.results, y.results, strict=False))
        yield Difference(function, _shown(removed), _shown(added))


def _opcodes(old: list[str], new: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """Return the edits that turn the keys of one function into the other's.

    For thousands of lines alignment would take too long, so only equal lines at the beginning and at the end are
    aligned.
    """
    ours, theirs = Counter(old), Counter(new)
    if sum(count * theirs[key] for key, count in ours.items()) <= _MOST_PAIRS:
        return difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    inner = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail]).get_opcodes()
    codes = [(str(tag), i1 + head, i2 + head, j1 + head, j2 + head) for tag, i1, i2, j1, j2 in inner]
    ends = (("equal", 0, head, 0, head), ("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return [code for code in (ends[0], *codes, ends[1]) if code[1] < code[2] or code[3] < code[4]]


def _shown(lines: list[Line]) -> tuple[tuple[int, str], ...]:
    return tuple((line.line, line.shown) for line in lines if line.key not in _BRACES)


def format_differences(differences: list[Difference], name_a: str, name_b: str) -> str:
    """Return a listing for users; empty without differences."""
    lines = []
    for difference in differences:
        lines.append(f"@{difference.function}:")
        lines += [f"  - {name_a}:{number}: {text}" for number, text in difference.removed]
        lines += [f"  + {name_b}:{number}: {text}" for number, text in difference.added]
    return "\n".join(lines)


def _modules(root: Path) -> dict[str, Path]:
    """Return the modules of an artifact by unit, else the .pto files of a directory by relative path."""
    units = {path.stem: path for path in modules_of(root)}
    return units or {str(path.relative_to(root)): path for path in sorted(root.rglob("*.pto"))}


def _pairs(a: Path, b: Path) -> tuple[list[tuple[Path, Path]], list[Path]]:
    """Return the files to compare (the two files, or the modules of two directories), and those that only one
    directory has.
    """
    if not (a.is_dir() and b.is_dir()):
        return [(a, b)], []
    ours, theirs = _modules(a), _modules(b)
    alone = [path for name, path in sorted((ours | theirs).items()) if name not in ours or name not in theirs]
    return [(ours[name], theirs[name]) for name in sorted(ours.keys() & theirs.keys())], alone


def _short_names(a: Path, b: Path, root_a: Path, root_b: Path) -> tuple[str, str]:
    """Return the names of two files, shortened to begin with the artifact's name unless the results are equal."""
    names = [str(path.relative_to(root.parent)) for path, root in ((a, root_a), (b, root_b))]
    return (names[0], names[1]) if names[0] != names[1] else (str(a), str(b))


def main(argv: list[str] | None = None) -> int:
    """Return exit status 0 without differences, 1 with differences, 2 if a file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m pypto_build.pto.diff", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("a", type=Path, metavar="A")
    parser.add_argument("b", type=Path, metavar="B")
    options = parser.parse_args(argv)
    pairs, alone = _pairs(options.a, options.b)
    for path in alone:
        root = options.a if path.is_relative_to(options.a) else options.b
        print(f"only in {root.name if options.a.name != options.b.name else root}: {path.relative_to(root)}")
    status = int(bool(alone))
    try:
        for a, b in pairs:
            differences = diff_modules(parse_file(a), parse_file(b))
            text = format_differences(differences, *_short_names(a, b, options.a, options.b))
            if text:
                print(text)
                status = 1
    except PtoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not status:
        print(f"{len(pairs)} module{'' if len(pairs) == 1 else 's'}, nothing differs")
    return status


if __name__ == "__main__":
    sys.exit(main())
