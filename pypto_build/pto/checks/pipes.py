"""Checks cross-core pipes: opened before use, tiles that fit a slot, as many pops as pushes, as many frees as pops.

Numbers are compared if they are constant. Traffic under a condition or in a loop of dynamic length only has to exist on
both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import DeviceRule
from ..model import Operation, Region, int_value
from ..ops import TABLE
from ..resolve import Problem, Resolved
from ..types import DYNAMIC, TileType

_MASK = {"to_aiv": 1, "to_aic": 2}
_PLURAL = {"push": "pushes", "pop": "pops", "free": "frees"}  # the steps that are counted
Key = tuple[str, int]  # direction, pipe id


@dataclass
class _Traffic:
    """The use of pipes by one function; a count of None is dynamic."""

    resolved: Resolved
    opened: dict[int, Operation] = field(default_factory=dict)
    counts: dict[tuple[Key, str], int | None] = field(default_factory=dict)
    first: dict[tuple[Key, str], Operation] = field(default_factory=dict)
    splits: dict[tuple[Key, str], dict[int, Operation]] = field(default_factory=dict)  # the first of each split

    @property
    def name(self) -> str:
        return self.resolved.function.name

    def total(self, key: Key, step: str) -> int | None:
        return self.counts.get((key, step), 0)


def check_pipes(functions: list[Resolved], arch: str) -> Iterator[Problem]:
    yield from _buffers(functions)
    traffic = [_collect(resolved) for resolved in functions]
    for one in traffic:
        yield from _rings(one, arch)
        yield from _alone(one)
    cubes = [t for t in traffic if t.resolved.function.kernel_kind == "cube"]
    vectors = [t for t in traffic if t.resolved.function.kernel_kind == "vector"]
    for cube in cubes:
        for vector in vectors:
            if len(cubes) == len(vectors) == 1 or _peers(cube, vector):
                yield from _between(cube, vector)


def _buffers(functions: list[Resolved]) -> Iterator[Problem]:
    """Check buffers of pipes that are values: reserved in this function or by the peer, with a pipe at both ends."""
    ends: dict[tuple[str, str], list[tuple[Resolved, Operation]]] = {}
    for resolved in functions:
        name = resolved.function.name
        for op in resolved.function.walk():
            if not TABLE[op.name].fn.startswith("open_") or "flag_base" in op.attrs:
                continue
            makers = [value.op for value in resolved.values(op, "args") if value.op is not None]
            buffers = [maker for maker in makers if TABLE[maker.name].fn in ("reserve", "import")]
            if not buffers:
                message = "the buffer of the pipe is not a result of pto.reserve_buffer or pto.import_reserved_buffer"
                yield Problem(op, message, resolved.function)
            for buffer in buffers:
                owner = str(buffer.attrs.get("peer_func", f"@{name}"))
                ends.setdefault((owner, str(buffer.attrs.get("name"))), []).append((resolved, op))
    for (_, buffer_name), pipes in ends.items():
        if len({id(resolved) for resolved, _ in pipes}) == 1:
            resolved, op = pipes[0]
            yield Problem(op, f"no pipe of another function is opened on buffer {buffer_name}", resolved.function)


def _peers(a: _Traffic, b: _Traffic) -> bool:
    """Return whether one of the two functions imports the other's buffer."""
    for one, other in ((a, b), (b, a)):
        for op in one.resolved.function.walk():
            if op.name == "pto.import_reserved_buffer" and str(op.attrs.get("peer_func")) == f"@{other.name}":
                return True
    return False


def _collect(resolved: Resolved) -> _Traffic:
    traffic = _Traffic(resolved)
    assert resolved.function.body is not None
    _region(traffic, resolved.function.body, 1)
    return traffic


def _region(traffic: _Traffic, region: Region, times: int | None) -> None:
    for op in region.ops:
        definition = TABLE[op.name]
        if definition.keys[0] == "pipe:open":
            traffic.opened[int_value(op.attrs.get("id"))] = op
        elif definition.direction and definition.fn in _PLURAL:
            slot = ((definition.direction, int_value(op.attrs.get("id"))), definition.fn)
            before = traffic.counts.get(slot, 0)
            traffic.counts[slot] = None if before is None or times is None else before + times
            traffic.first.setdefault(slot, op)
            traffic.splits.setdefault(slot, {}).setdefault(int_value(op.attrs.get("split")), op)
        for inner in op.regions:
            _region(traffic, inner, _times(traffic.resolved, op, times))


def _times(resolved: Resolved, op: Operation, times: int | None) -> int | None:
    """Return how often the regions of `op` run; None if that is dynamic."""
    if TABLE[op.name].fn == "section":
        return times
    if TABLE[op.name].fn != "for" or times is None:
        return None
    lower, upper, step = (resolved.constant(op, role) for role in ("lower", "upper", "step"))
    if lower is None or upper is None or step is None or step <= 0:
        return None
    return times * max(0, -((lower - upper) // step))


def _rings(traffic: _Traffic, arch: str) -> Iterator[Problem]:
    """Check the numbers of slots that a pipe is opened with."""
    for op in traffic.opened.values():
        both = int_value(op.attrs.get("dir_mask")) == 3
        slots = int_value(op.attrs["slot_num"]) if "slot_num" in op.attrs else 4 if both else 8
        messages = ["slot_num is 1 at least, found 0"] if slots < 1 else []
        if "local_slot_num" in op.attrs:
            local = int_value(op.attrs["local_slot_num"])
            if arch == "a5":
                messages.append("attribute 'local_slot_num' is for a2a3, not a5")
            elif not 1 <= local <= slots:
                messages.append(f"local_slot_num is between 1 and slot_num, which is {slots}, found {local}")
        yield from (Problem(op, message, traffic.resolved.function) for message in messages)


def _alone(traffic: _Traffic) -> Iterator[Problem]:
    function = traffic.resolved.function
    for (key, step), op in traffic.first.items():
        opened = traffic.opened.get(key[1])
        if opened is None:
            yield Problem(op, f"pipe {key[1]} is not opened in @{traffic.name}", function)
            continue
        if not int_value(opened.attrs.get("dir_mask")) & _MASK[key[0]]:
            yield Problem(
                op,
                f"pipe {key[1]} is opened with dir_mask {opened.attrs.get('dir_mask')}, which has no {key[0]}",
                function,
            )
        pops, frees = traffic.total(key, "pop"), traffic.total(key, "free")
        if step == "pop" and pops != frees and (frees == 0 or None not in (pops, frees)):
            yield Problem(op, f"pipe {key[1]} {key[0]}: {pops} pops, but {frees} frees in @{traffic.name}", function)
        if step == "free" and pops == 0:
            message = DeviceRule(f"pipe {key[1]} {key[0]}: frees without a pop in @{traffic.name}")
            yield Problem(op, message, function)
    yield from _split_alone(traffic)
    for op in function.walk():
        yield from _slot(traffic, op)


def _split_alone(traffic: _Traffic) -> Iterator[Problem]:
    """Check that a pipe's traffic is split as the pipe says, and that slots are freed as they were popped."""
    for (key, step), splits in traffic.splits.items():
        opened = traffic.opened.get(key[1])
        nosplit = str(opened.attrs.get("nosplit", "")).lower() if opened is not None else ""
        pops = traffic.splits.get((key, "pop"), {})
        for split, op in splits.items():
            message = ""
            if nosplit in ("true", "false") and (nosplit == "true") != (split == 0):
                message = f"split={split} does not match pipe {key[1]}, which is opened with nosplit = {nosplit}"
            elif step == "free" and pops and split not in pops:
                message = f"split={split} does not match the pop of this slot, which has split={next(iter(pops))}"
            if message:
                yield Problem(op, message, traffic.resolved.function)


def _slot(traffic: _Traffic, op: Operation) -> Iterator[Problem]:
    """Check that the transferred tile fits into a slot."""
    definition = TABLE[op.name]
    if not definition.direction or definition.fn not in ("push", "pop"):
        return
    opened = traffic.opened.get(int_value(op.attrs.get("id")))
    value = traffic.resolved.value(op, "tile") if "tile" in op.operands else None
    type_ = value.type if value is not None else next(iter(op.result_types), None)
    if not isinstance(type_, TileType):
        return
    if op.result_types and op.operands:  # its valid part, which travels, is dynamic
        if (type_.v_row, type_.v_col) != (DYNAMIC, DYNAMIC):
            message = "has valid_row and valid_col, but the type of its tile does not have v_row=?, v_col=?"
            yield Problem(op, message, traffic.resolved.function)
        return
    if opened is None:
        return
    size = int_value(opened.attrs.get("slot_size"))
    if definition.fn == "pop" and definition.direction == "to_aic" and int_value(op.attrs.get("split")):
        size *= 2  # each of the two vector cores fills a slot of its own
    if type_.bytes > size:
        message = DeviceRule(f"a tile of {type_.bytes} bytes does not fit into a slot of {size}")
        yield Problem(op, message, traffic.resolved.function)


def _between(cube: _Traffic, vector: _Traffic) -> Iterator[Problem]:
    for pipe, op in cube.opened.items():
        other = vector.opened.get(pipe)
        if other is None:
            continue
        for name in ("dir_mask", "slot_size", "slot_num"):
            ours, theirs = op.attrs.get(name), other.attrs.get(name)
            if ours != theirs:
                yield Problem(
                    other, f"pipe {pipe}: {name} is {theirs}, but {ours} in @{cube.name}", vector.resolved.function
                )
    keys = dict.fromkeys(key for traffic in (cube, vector) for key, _ in traffic.first)
    for key in keys:
        push, pop = (cube, vector) if key[0] == "to_aiv" else (vector, cube)
        pushed = push.splits.get((key, "push"), {})
        for split, op in pop.splits.get((key, "pop"), {}).items():
            if pushed and split not in pushed:
                message = f"pipe {key[1]} {key[0]}: split={split}, but @{push.name} pushes with"
                yield Problem(op, f"{message} split={next(iter(pushed))}", pop.resolved.function)
        pushes, pops = push.total(key, "push"), pop.total(key, "pop")
        if pushes == pops or (None in (pushes, pops) and 0 not in (pushes, pops)):
            continue
        where, step = (push, "push") if pushes else (pop, "pop")
        counts = f"{_count(pushes, 'push')} in @{push.name}, but {_count(pops, 'pop')} in @{pop.name}"
        message = DeviceRule(f"pipe {key[1]} {key[0]}: {counts}")
        yield Problem(where.first[(key, step)], message, where.resolved.function)


def _count(number: int | None, step: str) -> str:
    if number is None:
        return f"some {_PLURAL[step]}"
    return f"{number} {step if number == 1 else _PLURAL[step]}"
