"""Carrying a fault along: what differs between two texts, put into a later version of the first.

Lines are matched by what they say apart from numbers and names of values, since both change when operations and sizes
go, and from one assembler to another. The fault is lost where a line of it has no counterpart any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

_TOKEN = re.compile(r"%?[A-Za-z_]\w*|\d+|\S")
#: Names in lower case that are values: numbered ones, those of a module, and those that an assembler makes of them.
_VARIABLE = re.compile(r"v\d+\Z|arg\d+\Z|%\w+\Z|\w+__\w+\Z")
_INSTRUCTION = re.compile(r"\s*([A-Z][A-Z0-9_]+)\s*(?:<.*?>)?\(.*\);")


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
    known = sorted(places.items())
    for (a, c), (b, d) in zip([(-1, -1), *known], [*known, (len(clean), len(now))], strict=True):
        _match(clean, now, _plain, range(a + 1, b), range(c + 1, d), places)
    names: dict[str, str] = {}
    for line, place in places.items():
        for name, other in _renamed(clean[line], now[place]).items():
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
    """The lines of the later text that lines ``a`` to ``b`` became; where there are none, the place between two."""
    if b > a:
        found = [places.get(line) for line in range(a, b)]
        if None in found or found != list(range(found[0] or 0, (found[0] or 0) + b - a)):
            raise FaultLost
        return found[0] or 0, (found[0] or 0) + b - a
    if a in places:
        return places[a], places[a]
    if a - 1 in places:
        return places[a - 1] + 1, places[a - 1] + 1
    if a == count:
        return length, length
    raise FaultLost


def _plain(line: str) -> str:
    """A line without what may change of it; the name of an instruction is enough."""
    instruction = _INSTRUCTION.match(line)
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
