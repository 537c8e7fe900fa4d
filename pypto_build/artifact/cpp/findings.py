"""Results of a walk through an orchestration: submissions in order, and the uses of each entry argument."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from tree_sitter import Node

from pypto_build.facts.dtypes import torch_name

from ..records import ArgDirection, CoreType, Signature
from .syntax import line_of
from .values import UNKNOWN, Function, Numbers, TaskArgs, Value, join

# State of a walk at one point: the variables in scope, and the findings so far.


class WalkState(ABC):
    """Interface of the walk that expressions and calls use."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.scopes: list[dict[str, Value]] = [{}]

    @abstractmethod
    def value(self, node: Node | None) -> Value:
        """Return the possible values of an expression, and apply its side effects."""

    @abstractmethod
    def each(self, node: Node) -> None:
        """Walk the statements and expressions directly inside ``node``."""

    @abstractmethod
    def call(self, function: Function, arguments: list[Value], template: list[Value]) -> Value:
        """Walk the body of a helper function or lambda with these arguments, and return its result."""

    def lookup(self, name: str) -> Value:
        """Return the possible values of variable ``name``."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), UNKNOWN)

    def update(self, name: str, value: Value) -> None:
        """Assign to a variable. It may keep its old value: the walk takes all branches."""
        for scope in reversed(self.scopes):
            if name in scope:
                scope[name] = value if scope[name].is_blank else join([scope[name], value])
                return

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open an inner scope while the block runs."""
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()


#: Many times the arguments that an entry of any vintage can have.
MOST_SLOTS = 65536


class Submission(msgspec.Struct, frozen=True):
    """One submit call: its kernels, the directions of its tensors, and its number of scalars.

    Each of ``func_ids`` is submitted if ``exact``, else any of them may be; others may be too if ``open``. ``tensors``
    are the slots of the external tensors among the arguments, None for others. ``untracked`` are the positions in the
    signature of tensors passed by ``add_no_dep``, which has no direction.
    """

    line: int
    func_ids: frozenset[int]
    exact: bool
    open: bool
    core_type: CoreType | None
    signature: Signature
    scalars: int = 0
    tensors: tuple[int | None, ...] = ()
    untracked: frozenset[int] = frozenset()


class Findings:
    """Facts collected during a walk; slots are numbers of entry arguments.

    ``shares_slots`` is True for the older API, which keeps tensors and scalars in one argument array; the newer API
    numbers each kind separately. ``listed`` are the kernels of tasks that a graph lists word by word.
    """

    def __init__(self) -> None:
        self.submissions: list[Submission] = []
        self.shares_slots = False
        self.listed: set[int] = set()
        self.tensor_slots: set[int] = set()
        self.scalar_slots: set[int] = set()
        self.tensor_names: dict[int, str] = {}
        self.tensor_dtypes: dict[int, str] = {}
        self.scalar_names: dict[int, str] = {}
        self.scalar_dtypes: dict[int, str] = {}
        self.fault: tuple[int, str] | None = None
        self._read: set[int] = set()
        self._written: set[int] = set()
        self._updated: set[int] = set()

    def slots(self, node: Node, numbers: Numbers) -> Numbers:
        """Return the entry arguments that ``numbers`` mean; an impossible number is a fault of the code at ``node``."""
        beyond = [number for number in numbers if not 0 <= number < MOST_SLOTS]
        if beyond and not self.fault:
            self.fault = (line_of(node), f"takes argument {max(beyond, key=abs)}")
        return numbers.difference(beyond)

    def touch(self, value: Value, direction: ArgDirection) -> None:
        """Record that the code passes ``value`` to a task, or accesses it, in ``direction``.

        A write to a part of a tensor, or to one of several possible tensors, keeps old content: it makes the tensor an
        INOUT.
        """
        for ref in value.refs:
            partly = ref.part or len(value.refs) > 1
            if direction is ArgDirection.INOUT or (direction is ArgDirection.OUT and partly):
                self._updated.add(ref.slot)
            else:
                (self._written if direction is ArgDirection.OUT else self._read).add(ref.slot)

    def direction(self, slot: int) -> ArgDirection:
        """Return the direction of an external tensor: INOUT if its old content may remain or be read."""
        if slot in self._updated or (slot in self._read and slot in self._written):
            return ArgDirection.INOUT
        return ArgDirection.OUT if slot in self._written else ArgDirection.IN

    def submit(self, line: int, ids: Value, args: TaskArgs | None, core_type: CoreType | None) -> None:
        """Record that the code submits the kernels ``ids`` with ``args``."""
        entries = args.entries if args is not None else []
        tensors = [number for number, (direction, _) in enumerate(entries) if direction is not ArgDirection.SCALAR]
        untracked = args.untracked if args is not None else set()
        submission = Submission(
            line=line,
            func_ids=frozenset(number for number in ids.numbers if number >= 0),
            exact=ids.exact and not ids.open,
            open=ids.open or not ids.numbers,
            core_type=core_type,
            signature=tuple(d for d, _ in entries if d is not ArgDirection.SCALAR),
            scalars=sum(d is ArgDirection.SCALAR for d, _ in entries),
            tensors=tuple(slot for d, slot in entries if d is not ArgDirection.SCALAR),
            untracked=frozenset(position for position, number in enumerate(tensors) if number in untracked),
        )
        self.submissions.append(submission)

    def name(self, name: str, type_text: str, value: Value) -> None:
        """Record that variable ``name`` is initialised from ``value``; the first variable of an entry argument names
        the argument.
        """
        if len(value.refs) == 1:
            (ref,) = value.refs
            if not ref.part:
                self.tensor_names.setdefault(ref.slot, name.removeprefix("ext_"))
        read_from = value.scalars | value.slots
        if len(read_from) == 1 and not value.refs:
            (slot,) = read_from
            self.scalar_names.setdefault(slot, name)
            dtype = torch_name(value.ctype or type_text)
            if dtype is not None:
                self.scalar_dtypes.setdefault(slot, dtype)
