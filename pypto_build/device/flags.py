"""Flags between pipes and slots of pipes between cores: each set needs its wait, and each taken slot is given back.

A function is followed as it is written. A block continues its predecessor, a loop leaves as many flags open as it
finds, and both branches of a condition leave the same. Where branches differ, the check ignores the flag.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tree_sitter import Node

from pypto_build.artifact.cpp.syntax import line_of

Key = tuple[str, ...]
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
#: By call: whether it opens (1) or closes (-1), and how many of its arguments name the flag or slot.
_STEPS = {"set_flag": (1, 3), "wait_flag": (-1, 3), "TPOP": (1, 1), "TFREE": (-1, 1)}
_OTHER = {"set_flag": "wait_flag", "wait_flag": "set_flag", "TPOP": "TFREE", "TFREE": "TPOP"}


@dataclass
class Balance:
    """Flags and slots that a stretch of code leaves open; keys that are `unclear` are not followed."""

    open: Counter[Key] = field(default_factory=Counter)
    unclear: set[Key] = field(default_factory=set)
    last: dict[Key, tuple[str, int, str]] = field(default_factory=dict)  # call, line and words of the last step
    in_loops: list[Balance] = field(default_factory=list)  # of bodies that leave more than they find


def step_of(name: str, arguments: list[str], node: Node) -> tuple[Key, int, tuple[str, int, str]] | None:
    """The flag or pipe that a call opens or closes."""
    change, count = _STEPS.get(name, (0, 0))
    words = tuple(word.strip() for word in arguments[:count])
    if not change or len(words) < count or (count == 3 and not words[2].startswith("EVENT_ID")):
        return None
    group = "flag" if count == 3 else "pipe"
    return (group, *words), change, (name, line_of(node), ", ".join(words))


def joined(parts: list[Balance], node: Node) -> Balance:
    """Return the balance of a statement from those of its parts: a sequence, or alternatives."""
    whole = Balance()
    for part in parts:
        whole.unclear |= part.unclear
        whole.last |= part.last
        whole.in_loops += part.in_loops
    if node.type in _LOOPS:
        whole.in_loops += [Balance(part.open, part.unclear, part.last) for part in parts if any(part.open.values())]
    elif node.type in ("if_statement", "switch_statement"):
        branches = [part.open for part in parts] + ([Counter()] if len(parts) < 2 else [])
        for key in {key for branch in branches for key in branch}:
            counts = {branch[key] for branch in branches}
            whole.open[key] = min(counts)
            if len(counts) > 1:
                whole.unclear.add(key)
    else:
        for part in parts:
            whole.open.update(part.open)
    return whole


def unbalanced(balance: Balance) -> list[tuple[int, str, str]]:
    """Return line, rule and message for each flag and slot that a function leaves open or closes too often."""
    messages = [one for inner in balance.in_loops for one in unbalanced(inner)]
    for key, count in balance.open.items():
        if not count or key in balance.unclear:
            continue
        call, line, words = balance.last[key]
        present = call if (count > 0) == (_STEPS[call][0] > 0) else _OTHER[call]
        effect = {
            "set_flag": "nothing waits for the flag: what follows runs ahead",
            "wait_flag": "the pipe waits for ever",
            "TPOP": "its slot is never given back: the producer waits for ever",
            "TFREE": "a slot is given back that was not taken",
        }[present]
        messages.append((line, key[0], f"{present}({words}) without its {_OTHER[present]}: {effect}"))
    return messages
