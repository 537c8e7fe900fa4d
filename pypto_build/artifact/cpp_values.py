"""What the orchestration reader knows about a C++ value: which arguments it may alias, which numbers it may be."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from tree_sitter import Node

from .records import ArgDirection

Numbers = frozenset[int]
_NO_NUMBERS: Numbers = frozenset()


class Ref(msgspec.Struct, frozen=True):
    """An external tensor by its slot; ``part`` if only a view or slice of it may be meant."""

    slot: int
    part: bool = False


_NO_REFS: frozenset[Ref] = frozenset()


class TaskArgs:
    """The argument list of one task being put together; ``None`` stands for a scalar."""

    def __init__(self, directions: Iterable[ArgDirection] = ()) -> None:
        self.directions = list(directions)


class Function(msgspec.Struct, frozen=True, eq=False):
    """A helper function or lambda: its parameters, body, template parameters and the scopes it sees."""

    parameters: list[Node]
    body: Node
    template_names: list[str]
    scopes: list[dict[str, Value]]


class Value(msgspec.Struct, frozen=True, eq=False):
    """One value, as far as it matters here; every field is what it may be.

    ``numbers`` are integers it may be, all of them unless ``open``; ``exact`` if it is each of them in turn (the lanes of
    a mixed kernel) rather than one of several guesses. ``scalars`` and ``slots`` are the entry arguments it was read
    from, and ``ctype`` the C type it was decoded as.
    """

    refs: frozenset[Ref] = _NO_REFS
    numbers: Numbers = _NO_NUMBERS
    exact: bool = True
    open: bool = False
    args: TaskArgs | None = None
    functions: tuple[Function, ...] = ()
    scalars: Numbers = _NO_NUMBERS
    slots: Numbers = _NO_NUMBERS
    ctype: str = ""
    is_entry: bool = False
    is_runtime: bool = False

    def as_part(self) -> Value:
        """The same tensors, seen through a view."""
        return Value(refs=frozenset(Ref(ref.slot, True) for ref in self.refs))

    def tensors_only(self) -> Value:
        """The tensors it may alias, nothing else."""
        return Value(refs=self.refs)


UNKNOWN = Value()


def join(values: Iterable[Value], *, exact: bool = False) -> Value:
    """What is true of a value that may be any of ``values`` (or, with ``exact``, holds all of them)."""
    items = list(values)
    if len(items) == 1:
        return items[0]
    lists = [item.args for item in items if item.args is not None]
    merged = lists[0] if lists else None
    if len({id(entry) for entry in lists}) > 1:
        merged = TaskArgs(direction for entry in lists for direction in entry.directions)
    return Value(
        refs=frozenset().union(*(item.refs for item in items)),
        numbers=frozenset().union(*(item.numbers for item in items)),
        exact=exact and all(item.exact for item in items),
        open=any(item.open for item in items),
        args=merged,
        functions=tuple(function for item in items for function in item.functions),
        scalars=frozenset().union(*(item.scalars for item in items)),
        slots=frozenset().union(*(item.slots for item in items)),
        ctype=next((item.ctype for item in items if item.ctype), ""),
    )
