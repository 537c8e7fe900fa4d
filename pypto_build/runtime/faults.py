"""A fault of a run as data, and the one place where text is made of it.

The runtime notices a fault, names its kind and its fields, and hands them over as JSON: to a caller in the same process
as `RuntimeFault`, through the report buffer where the process does not return. What is in a buffer or a reply may have
been written over, so reading checks types, and text is made of whatever fields there are.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pypto_build.facts.faults import CODES, KINDS, OWN_CODES, Code, FaultKind, Kind, Status

Field = int | str

#: Stands for a field that is missing.
_MISSING = "?"
_SHOWN_TASKS = 8
_RINGS = 4
_ROLES = ("AIC", "AIV0", "AIV1")
_DIRECTIONS = ("vector to cube", "cube to vector")
_SYNCALL_HINT = "call SYNCALL equally often in every block, and not while others wait for a pipe"


class Occupancy(msgspec.Struct):
    """Where the tasks are: numbers of them, and whether the orchestration has returned."""

    created: int = 0
    running: int = 0
    ready: int = 0
    waiting: int = 0
    orchestrated: bool = False


class WaitingTask(msgspec.Struct):
    """A task that cannot run: number, kernels, the tasks it waits for, and ids that nothing was submitted under."""

    number: int = 0
    kernels: str = ""
    producers: list[tuple[int, str]] = []
    missing: list[int] = []


class Ring(msgspec.Struct):
    """Slots of a pipe that travel one way: to the vector cores (1) or to the cube core (0)."""

    pipe: int = 0
    to_vector: int = 0
    slots: int = 0
    slot_bytes: int = 0
    pushed: int = 0
    popped: int = 0
    freed: int = 0


class Member(msgspec.Struct):
    """A member of a group (AIC, AIV0, AIV1), and what it does: waits for a slot of a pipe, meets others, is done."""

    member: int = 0
    kernel: str = ""
    returned: bool = False
    meets: bool = False
    waits: bool = False
    pipe: int = 0
    to_vector: int = 0
    producing: bool = False
    slot: int = 0


class Group(msgspec.Struct):
    """A group whose members wait for each other; `cause` is a key of `_CAUSES`, `meeting` how many are at a barrier."""

    rings: list[Ring] = []
    members: list[Member] = []
    cause: str = ""
    meeting: int = 0


class FaultRecord(msgspec.Struct):
    """A fault: its kind (a number of `FaultKind`), where it was noticed, and the fields that its text is made of."""

    kind: int
    task: int | None = None
    task_id: int | None = None
    kernel: str | None = None
    fields: dict[str, Field] = {}
    tasks: list[WaitingTask] = []
    group: Group | None = None
    occupancy: Occupancy | None = None


class RuntimeFault(RuntimeError):
    """A run that failed; the embedded runtime raises it with its JSON text.

    `kind` (the status of a verdict), `message`, `hint`, `code`, `code_name`, `task` (number in submission order),
    `task_id` (ring << 32 | number in the ring) and `kernel`; the last three may be None.
    """

    def __init__(self, record: FaultRecord | bytes) -> None:
        self.record = record if isinstance(record, FaultRecord) else decode(record)
        super().__init__(self.record)

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    task = property(lambda self: self.record.task)
    task_id = property(lambda self: self.record.task_id)
    kernel = property(lambda self: self.record.kernel)
    kind = property(lambda self: status_of(self.record))
    message = property(lambda self: message_of(self.record))
    hint = property(lambda self: hint_of(self.record))
    code = property(lambda self: _code(self.record).number)
    code_name = property(lambda self: _code(self.record).name)


def python_fault(
    kind: int, text: str, task: int | None = None, kernel: str | None = None, hint: str = ""
) -> FaultRecord:
    """The record of a fault that was noticed in Python, which has a text."""
    return FaultRecord(kind, task, kernel=kernel, fields={"text": text, "hint": hint})


def decode(text: bytes) -> FaultRecord:
    """The record in JSON text, which may hold names that are no UTF-8. Raises `msgspec.MsgspecError`."""
    return msgspec.json.decode(text.decode("utf-8", "replace"), type=FaultRecord)


def is_known(record: FaultRecord) -> bool:
    """Whether there is such a kind."""
    return record.kind in KINDS


def status_of(record: FaultRecord) -> Status:
    """The status of a verdict that ends so."""
    return _kind(record).status


def message_of(record: FaultRecord) -> str:
    """What is wrong, in a line."""
    return _kind(record).message.format_map(_Fields(record))


def hint_of(record: FaultRecord) -> str:
    """What to do about it."""
    return _kind(record).hint.format_map(_Fields(record))


def code_of(record: FaultRecord) -> int | None:
    """The number that upstream's runtime has for it; None where it is one of ours."""
    number = _code(record).number
    return number if number < OWN_CODES else None


def _kind(record: FaultRecord) -> Kind:
    return KINDS[record.kind]


def _code(record: FaultRecord) -> Code:
    """The code of the fault: that of its kind, or the one that the orchestration has reported."""
    number = record.fields.get("code")
    if not isinstance(number, int):
        return _kind(record).code
    return CODES.get(number) or Code(number, "UNKNOWN", _kind(record).code.hint)


class _Fields(dict[str, Field]):
    """The fields of a record for a template, and what is made of several."""

    def __init__(self, record: FaultRecord) -> None:
        super().__init__(record.fields)
        self._record = record

    def __missing__(self, name: str) -> Field:
        return _DERIVED[name](self._record) if name in _DERIVED else _MISSING


def _with_line(record: FaultRecord, pattern: str) -> str:
    fields = record.fields
    return pattern.format(f"{fields.get('file', _MISSING)}:{fields['line']}") if fields.get("line") else ""


def _optional(pattern: str, name: str) -> Callable[[FaultRecord], str]:
    return lambda record: pattern.format(record.fields[name]) if record.fields.get(name) else ""


def _occupancy(record: FaultRecord) -> str:
    tasks = record.occupancy or Occupancy()
    inside = record.kind in (FaultKind.GROUP_DEADLOCK, FaultKind.BARRIER_MISSED)
    completed = tasks.created - tasks.running - tasks.ready - tasks.waiting
    return occupancy_line("S1:running-stalled" if inside else "S4:dependency-deadlock", completed, tasks)


def occupancy_line(sub_class: str, completed: int, tasks: Occupancy) -> str:
    """Where every task is, in the words of simpler's own line, so that its documentation applies."""
    return (
        f"sub_class={sub_class} completed={completed}/{tasks.created} running={tasks.running} ready={tasks.ready} "
        f"waiting={tasks.waiting} orch_done={int(tasks.orchestrated)}"
    )


def _is_task_id(number: int) -> bool:
    return number >> 32 < _RINGS


def _task_id(number: int) -> str:
    if not _is_task_id(number):
        return f"0x{number:x}, which is no task id"
    return f"task id {number & 0xFFFFFFFF} of ring {number >> 32}"


def _tasks_left(record: FaultRecord) -> str:
    """Who waits for what, first of all those that wait for something that never comes."""
    tasks = record.occupancy or Occupancy()
    left = tasks.running + tasks.ready + tasks.waiting
    waiting = sorted(record.tasks, key=lambda task: not task.missing)
    lines = [f"task {task.number} {task.kernels} waits for {_awaited(task)}" for task in waiting]
    if left > _SHOWN_TASKS:
        lines.append(f"and {left - _SHOWN_TASKS} more")
    return "; ".join([*lines, f"nothing {'else ' if lines else ''}can run, {left} task{'' if left == 1 else 's'} left"])


def _awaited(task: WaitingTask) -> str:
    tasks = [f"task {number} {kernels}" for number, kernels in task.producers]
    ids = [_task_id(number) + (", which was never submitted" if _is_task_id(number) else "") for number in task.missing]
    return ", ".join([*tasks, *ids]) or "nothing"


def _stall_hint(record: FaultRecord) -> str:
    missing = [number for task in record.tasks for number in task.missing]
    if not missing:
        return "explicit dependencies form a cycle: a task cannot wait for one submitted after it"
    if not _is_task_id(missing[-1]):
        return "a tensor or a task id is used that was never set, or after the scope it is valid in"
    return "a dependency names a task that was never submitted: check where the task id comes from"


def _obstacle(record: FaultRecord) -> str:
    producer = record.fields.get("producer")
    return (
        f"waits for {_task_id(producer)}" if isinstance(producer, int) else "has not been submitted when it should run"
    )


_CAUSES = {
    "unlike_pipes": "the members describe the pipe differently (slot size, slot count or direction): make the TPipe "
    "arguments equal",
    "never_pushed": "pop without push: the other side never filled a slot in this direction",
    "never_freed": "missing free: slots are popped and never freed (TFREE)",
    "never_popped": "push without pop, or the ring has fewer slots than the pipeline is deep: raise the slot number",
    "unlike_numbers": "the number of pushes, pops and frees differs between the members",
}


def _group(record: FaultRecord) -> str:
    """The likely cause, who waits, and what is in the pipes."""
    group = record.group or Group()
    lines = [_member(member) for member in group.members] + [_ring(ring) for ring in group.rings]
    return "; ".join([f"likely {_CAUSES.get(group.cause, _MISSING)}", *filter(None, lines)])


def _ring(ring: Ring) -> str:
    return (
        f"pipe {ring.pipe} {_DIRECTIONS[ring.to_vector == 1]}: {ring.slots} slots of {ring.slot_bytes} bytes, "
        f"{ring.pushed} pushed, {ring.popped} popped, {ring.freed} freed"
    )


def _member(member: Member) -> str:
    name = f"{_ROLES[member.member % len(_ROLES)]} {member.kernel}"
    if member.returned:
        return f"{name} has returned"
    if member.meets:
        return f"{name} waits at SYNCALL"
    if not member.waits:
        return ""
    what = f"{'push' if member.producing else 'pop'} slot {member.slot} of pipe {member.pipe}"
    return f"{name} waits to {what} ({_DIRECTIONS[member.to_vector == 1]})"


def _group_hint(record: FaultRecord) -> str:
    meeting = record.group is not None and record.group.meeting > 0
    return _SYNCALL_HINT if meeting else "make pushes, pops and frees of the members match"


#: What a template names and no field is.
_DERIVED: dict[str, Callable[[FaultRecord], str]] = {
    "code_hint": lambda record: _code(record).hint,
    "plural": lambda record: "" if record.fields.get("count") == 1 else "s",
    "scope": lambda record: _with_line(record, " (scope at {})"),
    "place": lambda record: (
        f" ({record.fields['file']}:{record.fields.get('line', 0)})" if record.fields.get("file") else ""
    ),
    "written": _optional(", written at {}", "written_at"),
    "at": _optional(" ({})", "line_text"),
    "awaited_task": lambda record: _task_id(record.task_id or 0),
    "obstacle": _obstacle,
    "occupancy": _occupancy,
    "tasks_left": _tasks_left,
    "stall_hint": _stall_hint,
    "group": _group,
    "group_hint": _group_hint,
}


def derived_names() -> frozenset[str]:
    """The names in templates that are no fields."""
    return frozenset(_DERIVED)
