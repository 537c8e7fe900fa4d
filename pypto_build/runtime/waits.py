"""Waits of a run that cannot continue, as data and as text.

A wait has its waiter, the object and the expected value, the current value, its last writer and when, and the kernels
that could still change it. The runtime collects all of it under its locks (`scheduling/stall.cpp`,
`execution/group.cpp`, `execution/group_set.cpp`, `execution/value_waits.cpp`, `submission/orchestrator.cpp`) and passes
it in a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from pypto_build.facts.comparisons import COMPARISONS
from pypto_build.facts.faults import Nearness

#: Text for a missing field.
_MISSING = "?"
_SHOWN_TASKS = 8
_SHOWN_BLOCKS = 8
_RINGS = 4
_ROLES = ("AIC", "AIV0", "AIV1")
_DIRECTIONS = ("vector to cube", "cube to vector")
_BARRIERS = ("vector cores", "cube cores", "vector and cube cores")

#: Text for an address: `distance` to the nearest memory, that memory's `name` and `size`.
ADDRESS_TEXTS = {
    Nearness.NOTHING: "no tensor is near",
    Nearness.STACK_USED_UP: "the stack is used up",
    Nearness.MISSING_ARGUMENT: "argument {distance} of {size}",
    Nearness.INSIDE: "byte {distance} of {name} ({size} bytes)",
    Nearness.BEFORE: "{distance} bytes before {name} ({size} bytes)",
    Nearness.PAST: "{distance} bytes past the end of {name} ({size} bytes)",
}


class Occupancy(msgspec.Struct):
    """Numbers of tasks by state, and whether the orchestration has returned."""

    created: int = 0
    running: int = 0
    ready: int = 0
    waiting: int = 0
    orchestrated: bool = False


class WaitingTask(msgspec.Struct):
    """A task that cannot run: number, kernels, the tasks it waits for, and dependencies on unknown task ids."""

    number: int = 0
    kernels: str = ""
    producers: list[tuple[int, str]] = []
    missing: list[int] = []


class LastOver(msgspec.Struct):
    """The task that finished last, and how long before."""

    number: int = 0
    kernels: str = ""
    ago_ns: int = 0


class Oldest(msgspec.Struct):
    """The oldest task of a ring, which must be released before all others.

    Without a number it is an allocation. `over` and `running` are its state, `users` the number of unfinished tasks
    that read its outputs. `scope` says that its scope is open, at `file` and `line`.
    """

    over: bool = False
    running: bool = False
    users: int = 0
    number: int | None = None
    kernels: str = ""
    scope: bool = False
    file: str = ""
    line: int = 0


class Ring(msgspec.Struct):
    """Slots of a pipe in one direction: to the vector cores (1) or to the cube core (0).

    `pushed_by` and `freed_by` are the last members to push and free a slot (-1: none), the `_ago_ns` how long before.
    """

    pipe: int = 0
    to_vector: int = 0
    slots: int = 0
    slot_bytes: int = 0
    pushed: int = 0
    popped: int = 0
    freed: int = 0
    pushed_by: int = -1
    pushed_ago_ns: int = 0
    freed_by: int = -1
    freed_ago_ns: int = 0


class Member(msgspec.Struct):
    """A member of a group (AIC, AIV0, AIV1), and its state: waiting for a slot of a pipe, waiting at a barrier, or
    done.
    """

    member: int = 0
    kernel: str = ""
    returned: bool = False
    returned_ago_ns: int = 0
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


class BarrierKernel(msgspec.Struct):
    """A kernel of blocks that start together.

    `met` counts the barriers that it passed. `cores` is the kind of barrier at which it waits (an index of
    `_BARRIERS`). `returned_ago_ns` is how long before it returned.
    """

    block: int = 0
    member: int = 0
    kernel: str = ""
    met: int = 0
    cores: int | None = None
    returned_ago_ns: int | None = None


class Barrier(msgspec.Struct):
    """All kernels that could arrive at a barrier."""

    places: list[BarrierKernel] = []


class ValueWait(msgspec.Struct):
    """A kernel that waits for a value in memory, with the current value, its address, and its last notifier."""

    task: int = 0
    kernel: str = ""
    block: int = 0
    member: int = 0
    counter: bool = False
    address: int = 0
    expected: int = 0
    comparison: int = 0
    value: int = 0
    near: int = 0
    name: str = ""
    distance: int = 0
    size: int = 0
    changes: int = 0
    changed_ago_ns: int = 0
    changed_to: int = 0
    changed_set: bool = False
    changed_by: str = ""
    changed_task: int = 0


def ago(ns: int) -> str:
    """Return a duration as text: `12 us before`, `3.4 ms before`, `2.1 s before`."""
    for limit, unit, digits in ((1_000_000, 1_000, 0), (1_000_000_000, 1_000_000, 1)):
        if ns < limit:
            return f"{max(ns, 0) / unit:.{digits}f} {'us' if unit == 1_000 else 'ms'} before"
    return f"{ns / 1e9:.1f} s before"


def occupancy_line(sub_class: str, completed: int, tasks: Occupancy) -> str:
    """Return the state of all tasks in the words of simpler's own line, so that its documentation applies."""
    return (
        f"sub_class={sub_class} completed={completed}/{tasks.created} running={tasks.running} ready={tasks.ready} "
        f"waiting={tasks.waiting} orch_done={int(tasks.orchestrated)}"
    )


# -- tasks --------------------------------------------------------------------------------------------------------


def is_task_id(number: int) -> bool:
    """Return whether a number is in the range of task ids."""
    return number >> 32 < _RINGS


def task_id(number: int) -> str:
    """Return a task id as words."""
    if not is_task_id(number):
        return f"0x{number:x}, which is not a valid task id"
    return f"task id {number & 0xFFFFFFFF} of ring {number >> 32}"


def tasks_left(waiting: Sequence[WaitingTask], occupancy: Occupancy | None, last: LastOver | None) -> str:
    """Return the waiting tasks and their reasons; tasks that can never run come first."""
    tasks = occupancy or Occupancy()
    left = tasks.running + tasks.ready + tasks.waiting
    lines = [
        f"task {task.number} {task.kernels} waits for {_awaited(task, tasks.orchestrated)}"
        for task in sorted(waiting, key=lambda task: not task.missing)
    ]
    if left > _SHOWN_TASKS:
        lines.append(f"and {left - _SHOWN_TASKS} more")
    if last:
        lines.append(f"the last that was over is task {last.number} {last.kernels}, {ago(last.ago_ns)}")
    return "; ".join([*lines, f"nothing {'else ' if lines else ''}can run, {left} task{'' if left == 1 else 's'} left"])


def _awaited(task: WaitingTask, orchestrated: bool) -> str:
    tasks = [f"task {number} {kernels}" for number, kernels in task.producers]
    never = "was never submitted, and the orchestration "
    never += "has returned" if orchestrated else "waits itself"
    ids = [task_id(number) + (f", which {never}" if is_task_id(number) else "") for number in task.missing]
    return ", ".join([*tasks, *ids]) or "nothing"


def oldest(task: Oldest | None, file: str, line: int) -> str:
    """Return why a ring's oldest task is not released; `file` and `line` are the position of the innermost scope."""
    if task is None:
        return ""
    name = "an allocation" if task.number is None else f"task {task.number} {task.kernels}"
    if not task.over:
        return f"; the oldest of them, {name}, {'still runs' if task.running else 'has not run'}"
    holders = []
    if task.scope:
        same = (task.file, task.line) == (file, line)
        position = f" at {task.file}:{task.line}" if task.line else ", which is the whole orchestration"
        holders.append("that scope" if same and task.line else f"its scope{position}")
    if task.users:
        holders.append(f"{task.users} task{'s' if task.users > 1 else ''} that use{'' if task.users > 1 else 's'} it")
    return f"; the oldest of them, {name}, is over and held by {' and '.join(holders)}" if holders else ""


# -- groups -------------------------------------------------------------------------------------------------------


_CAUSES = {
    "unlike_pipes": "the members describe the pipe differently (slot size, slot count or direction): make the TPipe "
    "arguments equal",
    "never_pushed": "pop without push: the other side never filled a slot in this direction",
    "never_freed": "missing free: slots are popped and never freed (TFREE)",
    "never_popped": "push without pop, or the ring has fewer slots than the pipeline is deep: raise the slot number",
    "unlike_numbers": "the number of pushes, pops and frees differs between the members",
}


def group_text(group: Group) -> str:
    """Return the likely cause, the waiting members, and the state of the pipes."""
    lines = [_member(member, group.members) for member in group.members] + [_ring(ring) for ring in group.rings]
    return "; ".join([f"likely {_CAUSES.get(group.cause, _MISSING)}", *filter(None, lines)])


def _ring(ring: Ring) -> str:
    pushed = _last(ring.pushed_by, ring.pushed_ago_ns)
    freed = _last(ring.freed_by, ring.freed_ago_ns)
    return (
        f"{_ring_name(ring.pipe)} {_direction(ring.to_vector)}: {ring.slots} slots of {ring.slot_bytes} bytes, "
        f"{ring.pushed} pushed{pushed}, {ring.popped} popped, {ring.freed} freed{freed}"
    )


def _ring_name(number: int) -> str:
    """Return the name of a ring: a pipe, or for higher numbers an explicit flag between cores (core_context.h)."""
    return f"flag {number % 16}" if number >= 1 << 16 else f"pipe {number}"


def _last(member: int, ago_ns: int) -> str:
    return f" (last by {_role(member)} {ago(ago_ns)})" if member >= 0 else ""


def _member(member: Member, members: Sequence[Member]) -> str:
    name = f"{_role(member.member)} {member.kernel}"
    if member.returned:
        return f"{name} has returned"
    if member.meets:
        return f"{name} waits at SYNCALL"
    if not member.waits:
        return ""
    what = f"{'push' if member.producing else 'pop'} slot {member.slot} of {_ring_name(member.pipe)}"
    return f"{name} waits to {what} ({_direction(member.to_vector)}), {_others(member, members)}"


def _others(member: Member, members: Sequence[Member]) -> str:
    """Return the members that could unblock a member, and why each does not."""
    of_vector = member.producing == (member.to_vector == 1)  # they are on the side that it does not stand on
    others = [other for other in members if (other.member > 0) == of_vector]
    verb = "frees" if member.producing else "pushes"
    if not others:
        return f"which nobody of this group {verb}"
    states = [f"{_role(other.member)}{_state(other, member)}" for other in others]
    return f"which only {' and '.join(states)} {verb}"


def _state(other: Member, member: Member) -> str:
    if other.member == member.member:
        return " itself"
    return f" (returned {ago(other.returned_ago_ns)})" if other.returned else " (waits itself)"


def _direction(to_vector: int) -> str:
    return _DIRECTIONS[to_vector == 1]


def _role(member: int) -> str:
    return _ROLES[member % len(_ROLES)]


def barrier_text(barrier: Barrier) -> str:
    """Return the blocks that wait at a barrier, and the blocks that will not arrive."""
    waiting = [block for block in barrier.places if block.cores is not None]
    gone = [block for block in barrier.places if block.returned_ago_ns is not None]
    others = [block for block in barrier.places if block.cores is None and block.returned_ago_ns is None]
    parts = [
        f"{_blocks(places)} wait{'s' * (len(places) == 1)} at the {ordinal(met + 1)} SYNCALL of the {_cores(cores)}"
        for (cores, met), places in _by(waiting, lambda block: (block.cores or 0, block.met))
    ]
    parts += [
        f"{_blocks(places)} {'has' if len(places) == 1 else 'have'} returned after {met}, the last "
        f"{ago(min(block.returned_ago_ns or 0 for block in places))}"
        for (met, _), places in _by(gone, lambda block: (block.met, 0))
    ]
    parts += [f"{_blocks(others)} {'has' if len(others) == 1 else 'have'} not come yet"] if others else []
    return ", ".join(parts)


def _by(places: Iterable[BarrierKernel], key: object) -> list[tuple[tuple[int, int], list[BarrierKernel]]]:
    assert callable(key)
    return [(values, list(each)) for values, each in groupby(sorted(places, key=key), key)]


def _blocks(places: Sequence[BarrierKernel]) -> str:
    """Return the blocks as text: `blocks 0-2 (AIV0 step)`."""
    numbers = sorted({block.block for block in places})
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [f"{first}-{last}" if last > first else str(first) for first, last in spans]
    more = f" and {len(texts) - _SHOWN_BLOCKS} more" if len(texts) > _SHOWN_BLOCKS else ""
    kernels = dict.fromkeys(f"{_role(block.member)} {block.kernel}" for block in places)
    return f"block{'s' * (len(numbers) > 1)} {', '.join(texts[:_SHOWN_BLOCKS])}{more} ({', '.join(kernels)})"


def ordinal(number: int) -> str:
    """Return an ordinal number as text: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _cores(cores: int) -> str:
    return _BARRIERS[cores] if 0 <= cores < len(_BARRIERS) else _MISSING


# -- values -------------------------------------------------------------------------------------------------------


def values_text(waits: Sequence[ValueWait], count: int) -> str:
    """Return a text about every kernel that waits for a value."""
    more = [f"and {count - len(waits)} more"] if count > len(waits) else []
    return "; ".join([*map(_value, waits), *more, "nobody is left who could change it" if count < 2 else _NOBODY])


_NOBODY = "nobody else is left who could change one of them"


def _value(wait: ValueWait) -> str:
    near = ADDRESS_TEXTS.get(Nearness(wait.near)) if 0 <= wait.near < len(Nearness) else None
    near_text = f" ({near.format(distance=wait.distance, name=wait.name, size=wait.size)})" if near else ""
    what = "the completion counter" if wait.counter else "the signal"
    comparison = COMPARISONS[wait.comparison] if 0 <= wait.comparison < len(COMPARISONS) else _MISSING
    block = f" block {wait.block}" if wait.block else ""
    return (
        f"task {wait.task} {wait.kernel}{block} waits for {what} at 0x{wait.address:x}{near_text} {comparison} "
        f"{wait.expected}, it is {wait.value} ({_changed(wait)})"
    )


def _changed(wait: ValueWait) -> str:
    if not wait.changes:
        return "no TNOTIFY ever changed it"
    how = f"set to {wait.changed_to}" if wait.changed_set else f"{wait.changed_to} added"
    times = "once" if wait.changes == 1 else f"{wait.changes} times, last"
    return f"notified {times} by task {wait.changed_task} {wait.changed_by} {ago(wait.changed_ago_ns)}: {how}"
