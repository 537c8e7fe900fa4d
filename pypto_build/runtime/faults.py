"""A fault of a run as data, and its text.

The runtime notices a fault and hands its kind and fields over as JSON. A caller in the same process gets a
`RuntimeFault`; a process that does not return leaves them in the report buffer. Kernels may have overwritten a buffer
or a reply, so reading checks types, and the text uses the fields that are there.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pypto_build.facts.faults import CODES, KINDS, OWN_CODES, Code, FaultKind, Kind, Status
from pypto_build.runtime.waits import (
    Barrier,
    Group,
    LastOver,
    Occupancy,
    Oldest,
    ValueWait,
    WaitingTask,
    barrier_text,
    group_text,
    is_task_id,
    occupancy_line,
    oldest,
    task_id,
    tasks_left,
    values_text,
)

Field = int | str

#: Stands for a field that is missing.
_MISSING = "?"
_SYNCALL_HINT = "call SYNCALL equally often in every block, and not while others wait for a pipe"


class FaultRecord(msgspec.Struct):
    """A fault: its kind (a number of `FaultKind`), where it was noticed, and the fields that its text is made of.

    `frames` is the orchestration's stack when it called the runtime, innermost first: shared object and offset in it.
    """

    kind: int
    task: int | None = None
    task_id: int | None = None
    kernel: str | None = None
    fields: dict[str, Field] = {}
    tasks: list[WaitingTask] = []
    group: Group | None = None
    barrier: Barrier | None = None
    values: list[ValueWait] = []
    oldest: Oldest | None = None
    last_over: LastOver | None = None
    occupancy: Occupancy | None = None
    frames: list[tuple[str, int]] = []


class RuntimeFault(RuntimeError):
    """A run that failed; the embedded runtime raises it with its JSON text.

    `kind` is the status of a verdict. `task` is the number in submission order, `task_id` is ring << 32 | number in the
    ring. `task`, `task_id` and `kernel` may be None; `message`, `hint`, `code` and `code_name` are text and number of
    the fault.
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
    """Return the record of a fault that Python code detected, which has its own text."""
    return FaultRecord(kind, task, kernel=kernel, fields={"text": text, "hint": hint})


def decode(text: bytes) -> FaultRecord:
    """Return the record in JSON text, whose names may be invalid UTF-8. Raises `msgspec.MsgspecError`."""
    return msgspec.json.decode(text.decode("utf-8", "replace"), type=FaultRecord)


def kind_exists(record: FaultRecord) -> bool:
    """Return whether the record's kind exists."""
    return record.kind in KINDS


def status_of(record: FaultRecord) -> Status:
    """Return the verdict's status for this fault."""
    return _kind(record).status


def message_of(record: FaultRecord) -> str:
    """Return the message, in one line."""
    return _kind(record).message.format_map(_Fields(record))


def hint_of(record: FaultRecord) -> str:
    """Return the hint: what to do about the fault."""
    return _kind(record).hint.format_map(_Fields(record))


def code_of(record: FaultRecord) -> int | None:
    """Return upstream's code of the fault; None if upstream has none."""
    number = _code(record).number
    return number if number < OWN_CODES else None


def _kind(record: FaultRecord) -> Kind:
    return KINDS[record.kind]


def _code(record: FaultRecord) -> Code:
    """Return the fault's code: the code that the orchestration reported, else that of the kind."""
    number = record.fields.get("code")
    if not isinstance(number, int):
        return _kind(record).code
    return CODES.get(number) or Code(number, "UNKNOWN", _kind(record).code.hint)


class _Fields(dict[str, Field]):
    """The fields of a record for a template; `__missing__` derives the others."""

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
    inside = record.kind in (FaultKind.GROUP_DEADLOCK, FaultKind.BARRIER_MISSED, FaultKind.VALUE_WAIT)
    completed = tasks.created - tasks.running - tasks.ready - tasks.waiting
    return occupancy_line("S1:running-stalled" if inside else "S4:dependency-deadlock", completed, tasks)


def _stall_hint(record: FaultRecord) -> str:
    missing = [number for task in record.tasks for number in task.missing]
    if not missing:
        return "explicit dependencies form a cycle: a task cannot wait for one submitted after it"
    if not is_task_id(missing[-1]):
        return "a tensor or a task id is used that was never set, or after the scope it is valid in"
    return "a dependency names a task that was never submitted: check where the task id comes from"


def _obstacle(record: FaultRecord) -> str:
    producer = record.fields.get("producer")
    return (
        f"waits for {task_id(producer)}" if isinstance(producer, int) else "has not been submitted when it should run"
    )


def _group(record: FaultRecord) -> str:
    """Return the text about a group: likely cause, waiting kernels, state of the pipes, and waits at a barrier."""
    text = group_text(record.group or Group())
    return f"{text}; {barrier_text(record.barrier)}" if record.barrier else text


def _whole(value: Field | None) -> int:
    return value if isinstance(value, int) else 0


def _values_hint(record: FaultRecord) -> str:
    if any(wait.counter for wait in record.values):
        return "look at what should complete the operation: it has to add to the counter that the kernel registered"
    return "look at who notifies: the same signal, often enough, and in a task that runs at the same time or before"


def _group_hint(record: FaultRecord) -> str:
    meeting = record.group is not None and record.group.meeting > 0
    return _SYNCALL_HINT if meeting else "make pushes, pops and frees of the members match"


#: Names in templates that are derived from fields.
_DERIVED: dict[str, Callable[[FaultRecord], str]] = {
    "code_hint": lambda record: _code(record).hint,
    "plural": lambda record: "" if record.fields.get("count") == 1 else "s",
    "before": lambda record: (
        "after 1 task" if (count := record.fields.get("submitted", 0)) == 1 else f"after {count} tasks"
    ),
    "scope": lambda record: _with_line(record, " (scope at {})"),
    "place": lambda record: (
        f" ({record.fields['file']}:{record.fields.get('line', 0)})" if record.fields.get("file") else ""
    ),
    "written": _optional(", written at {}", "written_at"),
    "at": _optional(" ({})", "line_text"),
    "awaited_task": lambda record: task_id(record.task_id or 0),
    "obstacle": _obstacle,
    "occupancy": _occupancy,
    "tasks_left": lambda record: tasks_left(record.tasks, record.occupancy, record.last_over),
    "stall_hint": _stall_hint,
    "group": _group,
    "barrier": lambda record: barrier_text(record.barrier or Barrier()),
    "values": lambda record: values_text(record.values, _whole(record.fields.get("count"))),
    "values_hint": _values_hint,
    "oldest": lambda record: oldest(record.oldest, str(record.fields.get("file")), _whole(record.fields.get("line"))),
    "group_hint": _group_hint,
}


def derived_names() -> frozenset[str]:
    """Return the names in templates that are derived from several fields."""
    return frozenset(_DERIVED)


LONGEST = 8192


def printable(text: str) -> str:
    """Return the text as one line of limited length, without terminal control characters."""
    kept = "".join(map(_shown, text[:LONGEST]))
    return kept if len(text) <= LONGEST else f"{kept}..."


def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    return " " if letter.isspace() else "\ufffd"
