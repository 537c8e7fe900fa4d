"""Names of the tasks of a run: simpler's 64-bit ids, and the numbers in messages.

An id holds the ring in its upper and a count in its lower half; ids of several rings say nothing about the order of
submission. A *number* counts the tasks that run a kernel in the order of their submission, from 0, as in verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pypto_build.artifact import ArtifactError

#: Characters of an id; 64 bits in decimal, blanks around them.
_LONGEST = 32
_RING_AND_LOCAL = re.compile(r"\(?\s*(\d{1,20})\s*[:,]\s*(\d{1,20})\s*\)?\Z")


def parse_id(value: object) -> int:
    """The id in a record: a number, or text that is decimal or hexadecimal.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{str(value)[:_LONGEST]} is no task id")
    found = value if isinstance(value, int) else -1
    if isinstance(value, str) and len(value) <= _LONGEST:
        found = int(value, 16 if value.lower().startswith("0x") else 10)
    if not -(1 << 63) <= found < 1 << 64 or (isinstance(value, str) and len(value) > _LONGEST):
        raise ValueError(f"{str(value)[:_LONGEST]!r} is no task id")
    return found


def id_text(raw: int) -> str:
    """`ring:count`, the short form of an id."""
    return f"{raw >> 32}:{raw & 0xFFFFFFFF}"


@dataclass(frozen=True)
class TaskOrder:
    """The numbers of a run's tasks by id. Without a record of the submissions they are guessed from the ids."""

    numbers: Mapping[int, int]
    exact: bool = True

    @cached_property
    def _ids(self) -> dict[int, int]:
        return {number: raw for raw, number in self.numbers.items()}

    @classmethod
    def of(cls, ids: Iterable[int]) -> TaskOrder:
        """Numbers in the order given."""
        return cls({raw: number for number, raw in enumerate(dict.fromkeys(ids))})

    @classmethod
    def guessed(cls, ids: Iterable[int]) -> TaskOrder:
        """Numbers in the order of the ids, which is that of submission as long as one ring is used."""
        ordered = sorted(set(ids))
        return cls({raw: number for number, raw in enumerate(ordered)}, len({raw >> 32 for raw in ordered}) <= 1)

    def label(self, raw: int) -> str:
        """`12 (1:13)`: number and id; the id alone for what has no number, such as an allocation."""
        number = self.numbers.get(raw)
        return id_text(raw) if number is None else f"{number} ({id_text(raw)})"

    def find(self, text: str, option: str = "TASK") -> int:
        """The id of the task that a user names: a number, `ring:count`, or the id itself as 0x… or decimal.

        Raises a usage error if there is no such task.
        """
        raw = self._named(text.strip())
        if raw is None:
            count = len(self.numbers)
            known = f"tasks are numbered 0 to {count - 1}" if count else "the record holds no task"
            raise ArtifactError(f"{option}={text}", "no such task", f"{known}; 'ring:count' and 0x… name one by its id")
        return raw

    def _named(self, text: str) -> int | None:
        pair = _RING_AND_LOCAL.match(text)
        if pair:
            raw = int(pair[1]) << 32 | int(pair[2])
            return raw if raw in self.numbers else None
        try:
            number = parse_id(text)
        except ValueError:
            return None
        if not text.lower().startswith("0x") and number in self._ids:
            return self._ids[number]
        return number if number in self.numbers else None
