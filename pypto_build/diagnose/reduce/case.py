"""A candidate: tasks with their arguments, and every kernel twice, with the fault and without it.

All that is done to it is done to both, so that the fault is the only thing in which they differ.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path

import msgspec

from pypto_build.artifact import Kernel
from pypto_build.compiler.assembler import assemble_unit, body_of
from pypto_build.compiler.errors import CompileError
from pypto_build.compiler.vintages import ApiVintage
from pypto_build.diagnose.extract.tensors import OrderBesides, Parameter
from pypto_build.diagnose.extract.write import Frame, Text
from pypto_build.facts.tasks import Task
from pypto_build.pto import PtoError, parse
from pypto_build.pto.checks import check_module
from pypto_build.pto.splice import replace_body

# Carrying a fault along: what differs between two texts, put into a later version of the first.
# Lines are matched by what they say apart from numbers and names of values, since both change when operations and
# sizes go, and from one assembler to another. The fault is lost where a line of it has no counterpart any more.

_TOKEN = re.compile(r"%?[A-Za-z_]\w*|\d+|\S")
#: Names in lower case that are values: numbered ones, those of a module, and those that an assembler makes of them.
_VARIABLE = re.compile(r"v\d+\Z|arg\d+\Z|%\w+\Z|\w+__\w+\Z")
_TEXTS_INSTRUCTION = re.compile(r"\s*([A-Z][A-Z0-9_]+)\s*(?:<.*?>)?\(.*\);")


class FaultLost(Exception):
    """The lines in which two texts differ have no counterpart in the third."""


def carry(clean: Sequence[str], faulty: Sequence[str], now: Sequence[str]) -> list[str]:
    """``now`` is what ``clean`` has become; what ``faulty`` has become.

    Raises FaultLost.
    """
    if list(clean) == list(faulty):
        return list(now)
    places, names = _aligned(clean, now)
    result: list[str] = []
    done = 0  # lines of `now` that are in the result
    for kind, a, b, c, d in SequenceMatcher(None, clean, faulty, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        first, last = _where(places, a, b, len(clean), len(now))
        if first < done:
            raise FaultLost
        result += now[done:first]
        done = last
        local = dict(names)
        for line in range(a, b):
            local |= _renamed(clean[line], now[places[line]])
        result += [_translated(line, local) for line in faulty[c:d]]
    result += now[done:]
    if result == list(now):
        raise FaultLost
    return result


def _aligned(clean: Sequence[str], now: Sequence[str]) -> tuple[dict[int, int], dict[str, str]]:
    """By line of ``clean`` its counterpart, and what variables have become.

    Lines that say the same but for numbers belong together; between those, lines that do the same with other values.
    """
    places: dict[int, int] = {}
    _match(clean, now, _numberless, range(len(clean)), range(len(now)), places)
    pairs = sorted(places.items())
    for (a, c), (b, d) in zip([(-1, -1), *pairs], [*pairs, (len(clean), len(now))], strict=True):
        _match(clean, now, _plain, range(a + 1, b), range(c + 1, d), places)
    names: dict[str, str] = {}
    for line, faulty_line in places.items():
        for name, other in _renamed(clean[line], now[faulty_line]).items():
            if _VARIABLE.match(name):
                names.setdefault(name, other)
    return places, names


def _match(
    clean: Sequence[str],
    now: Sequence[str],
    key: Callable[[str], str],
    ours: range,
    theirs: range,
    places: dict[int, int],
) -> None:
    """Add the lines of two parts that have the same key."""
    if not ours or not theirs:
        return
    left, right = [key(clean[line]) for line in ours], [key(now[line]) for line in theirs]
    for a, b, size in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
        places.update((ours[a + step], theirs[b + step]) for step in range(size))


def _numberless(line: str) -> str:
    return " ".join("0" if token.isdigit() else token for token in _tokens(line))


def _where(places: dict[int, int], a: int, b: int, count: int, length: int) -> tuple[int, int]:
    """Return the range of later lines that lines ``a`` to ``b`` became, or the position between two lines if they were
    deleted.
    """
    if b > a:
        lines = [places.get(line) for line in range(a, b)]
        if None in lines or lines != list(range(lines[0] or 0, (lines[0] or 0) + b - a)):
            raise FaultLost
        return lines[0] or 0, (lines[0] or 0) + b - a
    if a in places:
        return places[a], places[a]
    if a - 1 in places:
        return places[a - 1] + 1, places[a - 1] + 1
    if a == count:
        return length, length
    raise FaultLost


def _plain(line: str) -> str:
    """A line without what may change of it; the name of an instruction is enough."""
    instruction = _TEXTS_INSTRUCTION.match(line)
    if instruction:
        return f"{instruction[1]}/{line.count(',')}"
    return " ".join("v" if _VARIABLE.match(token) else "0" if token.isdigit() else token for token in _tokens(line))


def _tokens(line: str) -> list[str]:
    return _TOKEN.findall(line)


def _renamed(old: str, new: str) -> dict[str, str]:
    """Variables and numbers of a line that its counterpart has others for."""
    pairs = zip(_tokens(old), _tokens(new), strict=False)
    return {a: b for a, b in pairs if a != b and (_VARIABLE.match(a) or a.isdigit())}


def _translated(line: str, names: dict[str, str]) -> str:
    return _TOKEN.sub(lambda match: names.get(match[0], match[0]), line)


# What a candidate is built and run from, apart from how it came about: it travels to other machines.


class CandidateKernel(msgspec.Struct, frozen=True):
    """A kernel: its C++ with the fault and without."""

    func_id: int
    name: str
    core_type: str
    binary: str
    faulty: str
    clean: str


class Passed(msgspec.Struct, frozen=True):
    """A parameter of the orchestration with its bytes before the run. An OUT parameter has no bytes."""

    name: str
    direction: str
    dtype: str
    shape: tuple[int, ...]
    initial: bytes


class Candidate(msgspec.Struct, frozen=True):
    """All that decides how a candidate ends."""

    platform: str
    orchestration: str
    kernels: list[CandidateKernel]
    arguments: list[Passed]


def candidate_of(case: Case) -> Candidate:
    """Return the texts and data that ``case`` is built and run from."""
    kernels = [
        CandidateKernel(
            code.kernel.func_id,
            code.kernel.name,
            code.kernel.core_type,
            code.kernel.binary,
            code.text(faulty=True),
            code.text(faulty=False),
        )
        for code in case.used
    ]
    arguments = [
        Passed(
            one.name,
            one.direction,
            one.dtype,
            tuple(one.shape),
            b"" if one.direction == "OUT" else one.initial.tobytes(),
        )
        for one in case.external
    ]
    return Candidate(case.platform, case.orchestration, kernels, arguments)


class Invalid(Exception):
    """A candidate that is not one: its module is refused, or the fault has no place in it."""


_NAME = re.compile(r"%?[A-Za-z_]\w*")
_TILE = re.compile(r"\s*(?:(%\w+) = pto\.alloc_tile\b|Tile<[^;]*?> (\w+)\b)")
_OPERATION = re.compile(r"pto\.\w+ ins\(([^:]*):.*?\)(?: outs\(([^:]*):)?")
_INSTRUCTION = re.compile(r"\s*(T[A-Z0-9_]+)\s*(?:<.*?>)?\((.*)\);")


@dataclass(frozen=True)
class KernelCode:
    """One kernel's C++, with the fault and without: the whole file around the body, and the body, in lines."""

    kernel: Kernel
    path: Path
    unit: str
    clean_wrapper: str
    faulty_wrapper: str
    clean: tuple[str, ...]
    faulty: tuple[str, ...]
    sliced: bool = True  # whether the files have a body between sentinels

    def text(self, *, faulty: bool) -> str:
        """The file."""
        wrapper, body = (self.faulty_wrapper, self.faulty) if faulty else (self.clean_wrapper, self.clean)
        return replace_body(wrapper, "\n".join(body)) if self.sliced else "\n".join(body) + "\n"


@dataclass(frozen=True)
class Unit:
    """A .pto module, in lines, with the fault and without. ``where`` is its path in the artifact without a suffix."""

    where: Path
    clean: tuple[str, ...]
    faulty: tuple[str, ...]
    raw: str = ""  # the C++ that was assembled of the faulty one


@dataclass(frozen=True)
class Case:
    """A candidate. ``order`` has the dependencies of its tasks that do not follow from tensors."""

    tasks: tuple[Task, ...]
    parameters: tuple[Parameter, ...]
    codes: Mapping[int, KernelCode]
    units: Mapping[str, Unit]
    order: OrderBesides
    api: ApiVintage
    platform: str
    frame: Frame

    @property
    def used(self) -> list[KernelCode]:
        """The kernels that its tasks run."""
        func_ids = dict.fromkeys(func_id for task in self.tasks for func_id in task.func_ids)
        return [self.codes[func_id] for func_id in func_ids]

    @property
    def modules(self) -> list[str]:
        """The modules that its kernels are made from, by name."""
        return list(dict.fromkeys(code.unit for code in self.used if code.unit))

    @property
    def by_hand(self) -> list[KernelCode]:
        """Return the kernels that were made from no module."""
        return [code for code in self.used if not code.unit]

    @property
    def external(self) -> list[Parameter]:
        """The parameters of its orchestration."""
        return [one for one in self.parameters if not one.scratch]

    @cached_property
    def orchestration(self) -> str:
        """The orchestration's C++."""
        text = Text(
            self.tasks,
            self.parameters,
            self.api,
            after=self.order.after,
            manual=self.order.manual,
            a5=self.frame.a5,
        )
        return text.render("reduced", "a failing run")

    @cached_property
    def digest(self) -> str:
        """Return a digest of all that decides how the case ends."""
        digest = hashlib.sha256(self.orchestration.encode())
        for code in self.used:
            digest.update(f"\0{code.kernel.core_type} {code.kernel.name}\0".encode())
            digest.update(code.text(faulty=True).encode() + b"\0" + code.text(faulty=False).encode())
        for one in self.external:
            digest.update(f"\0{one.name} {one.direction} {one.dtype} {one.shape}\0".encode())
            digest.update(one.initial.tobytes() if one.direction != "OUT" else b"")
        return digest.hexdigest()[:32]

    @property
    def elements(self) -> int:
        """The most elements that a tensor of its arguments has."""
        return max((len(one.initial) for one in self.external), default=0)

    @property
    def operations(self) -> int:
        """The number of lines in the modules, and in the bodies of kernels without a module."""
        lines = sum(_counted(self.units[name].clean) for name in self.modules)
        return lines + sum(_counted(code.clean) for code in self.by_hand)

    def summary(self) -> str:
        """`1 task, 12 operations, 64 elements`."""
        count = len(self.tasks)
        tasks, elements = f"task{'' if count == 1 else 's'}", f"element{'' if self.elements == 1 else 's'}"
        return f"{count} {tasks}, {self.operations} lines, {self.elements} {elements}"

    def with_module(self, name: str, clean: Sequence[str]) -> Case:
        """The same with another clean module; the faulty one, and the C++ of both, follow. Raises Invalid."""
        unit = self.units[name]
        refuse_stale(unit.clean, clean)
        try:
            shorter = replace(unit, clean=tuple(clean), faulty=tuple(carry(unit.clean, unit.faulty, clean)))
            raw = assembled(shorter.clean, name, self.platform)
            broken = raw if shorter.faulty == shorter.clean else assembled(shorter.faulty, name, self.platform)
            codes = dict(self.codes)
            for func_id, code in self.codes.items():
                if code.unit == name:
                    codes[func_id] = self._respliced(code, unit, raw, broken)
        except FaultLost:
            raise Invalid("the failure does not occur any more") from None
        return replace(self, units={**self.units, name: replace(shorter, raw=broken)}, codes=codes)

    def with_body(self, func_id: int, clean: Sequence[str]) -> Case:
        """The same with other C++ of a kernel that no module is reduced for. Raises Invalid."""
        code = self.codes[func_id]
        refuse_stale(code.clean, clean)
        try:
            faulty = carry(code.clean, code.faulty, clean)
        except FaultLost:
            raise Invalid("the failure does not occur any more") from None
        shorter = replace(code, clean=tuple(clean), faulty=tuple(faulty))
        return replace(self, codes={**self.codes, func_id: shorter})

    def without_modules(self) -> Case:
        """Return the same case with all modules removed, so that its kernels are only C++."""
        return replace(self, codes={func_id: replace(code, unit="") for func_id, code in self.codes.items()})

    def _respliced(self, code: KernelCode, unit: Unit, raw: str, broken: str) -> KernelCode:
        clean = tuple(body_of(raw, self.api.tensor).splitlines())
        if unit.faulty == unit.clean:
            return replace(code, clean=clean, faulty=tuple(carry(code.clean, code.faulty, clean)))
        return replace(code, clean=clean, faulty=tuple(body_of(broken, self.api.tensor).splitlines()))


def assembled(lines: Sequence[str], name: str, platform: str) -> str:
    """Return the C++ that our assembler generates for a module. Raises Invalid if the module is refused."""
    text = "\n".join(lines) + "\n"
    try:
        module = parse(text, f"{name}.pto")
        problems = check_module(module, platform)
        if problems:
            raise Invalid(problems[0].message)
        return assemble_unit(module, text, name, platform, None)
    except (PtoError, CompileError) as error:
        raise Invalid(str(error)) from None


def refuse_stale(before: Sequence[str], now: Sequence[str]) -> None:
    """Raise Invalid where a tile is read that nothing has written, and was before: that would be another fault."""
    if reads_unwritten(now) - reads_unwritten(before):
        raise Invalid("a tile is read before it is written")


def reads_unwritten(lines: Sequence[str]) -> set[str]:
    """The tiles of a module, or of a kernel's C++, that are read before any line writes them."""
    tiles: set[str] = set()
    written: set[str] = set()
    unwritten: set[str] = set()
    for line in lines:
        if tile := _TILE.match(line):
            tiles.add(tile[1] or tile[2])
        elif operands := _OPERATION.search(line):
            unwritten |= (tiles & set(_NAME.findall(operands[1]))) - written
            written |= tiles & set(_NAME.findall(operands[2] or ""))
        elif (call := _INSTRUCTION.match(line)) and call[1] != "TASSIGN":
            first, *others = _NAME.findall(call[2]) or [""]
            unwritten |= (tiles & set([first, *others] if call[1].startswith("TSTORE") else others)) - written
            written |= tiles & {first}
    return unwritten


def _counted(lines: Sequence[str]) -> int:
    return sum(bool(line.strip(" {}")) for line in lines)
