"""Possible values of a C++ expression: the arguments it may alias, the numbers it may be."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec
from tree_sitter import Node

from ..records import ArgDirection

Numbers = frozenset[int]
_NO_NUMBERS: Numbers = frozenset()

#: Many times what a task of any vintage takes.
_MOST_ARGUMENTS = 4096


class Ref(msgspec.Struct, frozen=True):
    """An external tensor by its slot; ``part`` is True if only a view or slice of the tensor may be meant."""

    slot: int
    part: bool = False


_NO_REFS: frozenset[Ref] = frozenset()


#: An argument of a task: its direction, and the slot of the external tensor that it is.
Entry = tuple[ArgDirection, int | None]


class TaskArgs:
    """The argument list of one task under construction.

    An entry has the direction of an argument and, if certain, the slot of the external tensor it refers to.
    ``untracked`` holds the numbers of arguments without a direction.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries: list[Entry] = []
        self.untracked: set[int] = set()
        self.extend(entries)

    def extend(self, entries: Iterable[Entry]) -> None:
        """Add arguments; those beyond the limit of a task are dropped."""
        self.entries += islice(entries, max(0, _MOST_ARGUMENTS - len(self.entries)))


class Function(msgspec.Struct, frozen=True, eq=False):
    """A helper function or lambda: its parameters, body, template parameters and visible scopes."""

    parameters: list[Node]
    body: Node
    template_names: tuple[str, ...]
    scopes: tuple[dict[str, Value], ...]


class Value(msgspec.Struct, frozen=True, eq=False):
    """The possible values of one expression.

    ``numbers`` are the possible integers; other integers are possible too if ``open``. ``exact`` says that it holds
    every one of them (one constant, the lanes of a mixed kernel) rather than one of several guesses. ``items`` are the
    members of a brace list. ``scalars`` and ``slots`` are the entry arguments it was read from, ``ctype`` the C type it
    was decoded as.
    """

    refs: frozenset[Ref] = _NO_REFS
    numbers: Numbers = _NO_NUMBERS
    exact: bool = True
    open: bool = False
    items: tuple[Value, ...] = ()
    args: TaskArgs | None = None
    functions: tuple[Function, ...] = ()
    scalars: Numbers = _NO_NUMBERS
    slots: Numbers = _NO_NUMBERS
    ctype: str = ""
    is_entry: bool = False
    is_runtime: bool = False

    @staticmethod
    def number(number: int) -> Value:
        """Return the value of a known integer."""
        return Value(numbers=frozenset({number}))

    @property
    def single(self) -> int | None:
        """Return the integer if only one is possible; else None."""
        return next(iter(self.numbers)) if len(self.numbers) == 1 and not self.open else None

    @property
    def whole(self) -> int | None:
        """Return the slot of the external tensor if the value is certainly that whole tensor; else None."""
        slots = [ref.slot for ref in self.refs if not ref.part]
        return slots[0] if len(slots) == len(self.refs) == 1 else None

    @property
    def is_blank(self) -> bool:
        """Return whether nothing is known of the value."""
        facts = self.refs or self.numbers or self.open or self.functions or self.scalars or self.slots
        return not facts and self.args is None

    def as_part(self) -> Value:
        """Return the same tensors, seen through a view."""
        return Value(refs=frozenset(Ref(ref.slot, True) for ref in self.refs))

    def tensors_only(self) -> Value:
        """Return a value with the same possible tensors and no numbers."""
        return Value(refs=self.refs)

    def element(self, index: int | None) -> Value:
        """Return element ``index`` of the value; any element if the index is not known."""
        if index is not None and 0 <= index < len(self.items):
            return self.items[index]
        return msgspec.structs.replace(self, exact=len(self.numbers) < 2, items=())

    def decoded_as(self, ctype: str) -> Value:
        """Return the same entry argument, read as C type ``ctype`` by the innermost cast."""
        return msgspec.structs.replace(self, ctype=self.ctype or ctype) if self.scalars or self.slots else self


UNKNOWN = Value()


def join(values: Iterable[Value], *, exact: bool = False) -> Value:
    """Return a value that may be any of ``values`` or, with ``exact``, holds all of them."""
    items = [value for value in values if not value.is_blank]
    if len(items) < 2:
        return items[0] if items else UNKNOWN
    lists = [item.args for item in items if item.args is not None]
    merged = lists[0] if lists else None
    if any(entry is not merged for entry in lists):
        merged = TaskArgs()
        for each in lists:
            merged.untracked |= {len(merged.entries) + number for number in each.untracked}
            merged.extend(each.entries)
    return Value(
        refs=_NO_REFS.union(*(item.refs for item in items)),
        numbers=_NO_NUMBERS.union(*(item.numbers for item in items)),
        exact=exact and all(item.exact for item in items),
        open=any(item.open for item in items),
        args=merged,
        functions=tuple(dict.fromkeys(function for item in items for function in item.functions)),
        scalars=_NO_NUMBERS.union(*(item.scalars for item in items)),
        slots=_NO_NUMBERS.union(*(item.slots for item in items)),
        ctype=next((item.ctype for item in items if item.ctype), ""),
    )
