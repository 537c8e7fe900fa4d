"""Groups: the functions of a module that run together, and whether they have to take turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..attributes import SymbolAttr, int_value
from ..model import Function, Module, Operation
from ..ops import TABLE


@dataclass(frozen=True)
class Group:
    """`members` run together; `function` calls them, or None when the module has only the members."""

    name: str
    members: tuple[Function, ...]
    scheduled: bool
    function: Function | None = None


def _transfers(function: Function) -> Iterator[Operation]:
    """Pushes and pops."""
    return (op for op in function.walk() if TABLE[op.name].keys[0] in ("pipe:push", "pipe:pop"))


def _traffic(function: Function) -> set[str]:
    """`push_to_aiv`, `pop_from_aic`, …"""
    return {op.name.removeprefix("pto.t") for op in _transfers(function)}


def uses_split(function: Function) -> bool:
    return any(int_value(op.attrs.get("split")) > 0 for op in _transfers(function))


def has_barrier(function: Function) -> bool:
    return any(op.name == "pto.syncall" for op in function.walk())


def needs_schedule(members: tuple[Function, ...]) -> bool:
    """Return whether members take turns.

    They do when tiles go both ways, when one member pushes to and pops from the same pipe, or when a tile is split
    between vector cores. They do, too, when two vector cores do the same work, or when all members meet at a barrier.
    """
    if any("dual_aiv_dispatch" in member.attrs or has_barrier(member) for member in members):
        return True
    each = [_traffic(member) for member in members]
    union = set().union(*each)
    if {"push_to_aiv", "push_to_aic"} <= union:
        return True
    feedback = ({"push_to_aiv", "pop_from_aic"}, {"push_to_aic", "pop_from_aiv"})
    return any(pair <= traffic for traffic in each for pair in feedback) or any(map(uses_split, members))


def called(function: Function) -> list[str]:
    """Names of the functions it calls, in order."""
    names = []
    for op in function.walk():
        callee = op.attrs.get("callee") if TABLE[op.name].fn == "call" else None
        if isinstance(callee, SymbolAttr):
            names.append(callee.name)
    return names


def find_groups(module: Module) -> list[Group]:
    """Written groups: functions for no core of their own that call kernels. Implied ones: kernels joined by pipes."""
    functions = {f.name: f for f in module.functions() if f.body is not None}
    groups = []
    for function in functions.values():
        members = tuple(functions[n] for n in dict.fromkeys(called(function)) if n in functions)
        members = tuple(m for m in members if m.kernel_kind)
        if members and not function.kernel_kind and len(members) > 1:
            groups.append(Group(function.name, members, needs_schedule(members), function))
    taken = {m.name for group in groups for m in group.members}
    return groups + [g for g in _implied(functions) if not taken & {m.name for m in g.members}]


def _implied(functions: Mapping[str, Function]) -> Iterator[Group]:
    for cube in functions.values():
        if cube.kernel_kind != "cube" or not _traffic(cube):
            continue
        vector = _partner(cube, functions)
        if vector is None:
            continue
        name = _common(cube.name, vector.name)
        if name in functions:
            name = f"{name}_group"
        members = (cube, vector) if "push_to_aiv" in _traffic(cube) else (vector, cube)
        yield Group(name, members, needs_schedule(members))


def _partner(cube: Function, functions: Mapping[str, Function]) -> Function | None:
    for op in cube.walk():
        peer = op.attrs.get("peer_func")
        if isinstance(peer, SymbolAttr) and peer.name in functions:
            return functions[peer.name]
    for function in functions.values():
        for op in function.walk():
            peer = op.attrs.get("peer_func")
            if isinstance(peer, SymbolAttr) and peer.name == cube.name:
                return function
    other = functions.get(cube.name.removesuffix("_aic") + "_aiv")
    return other if cube.name.endswith("_aic") else None


def _common(first: str, second: str) -> str:
    """`gemm` of `gemm_aic` and `gemm_aiv`."""
    size = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    return first[:size].rstrip("_").removesuffix("_ai").removesuffix("_a") or f"{first}_{second}"


def lanes(function: Function) -> int:
    """Return how many vector cores run a member."""
    if function.kernel_kind != "vector":
        return 1
    return 2 if uses_split(function) or "dual_aiv_dispatch" in function.attrs else 1


def unsplit_modes(module: Module) -> dict[int, str]:
    """Return, by pipe id, the second vector core's part in traffic that is not split."""
    modes: dict[int, str] = {}
    dual = any("dual_aiv_dispatch" in function.attrs for function in module.functions())
    for function in module.functions():
        for op in function.walk():
            if TABLE[op.name].family != "pipe":
                continue
            number = int_value(op.attrs.get("id"))
            split = int_value(op.attrs.get("split")) > 0
            modes[number] = "copy" if dual else "empty" if split or modes.get(number) == "empty" else "none"
    return modes
