"""Names of generated Python: what a text has as names of its own, made valid, and never two the same."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection, Iterable


def sanitize(hint: str) -> str:
    """A valid name like the hint: `q__ssa_v0` -> `q_ssa_v0`, `0abc` -> `v_0abc`, `for` -> `for_v`."""
    name = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", hint)).strip("_")
    if not name:
        return "v"
    if name[0].isdigit():
        name = f"v_{name}"
    return f"{name}_v" if keyword.iskeyword(name) else name


def function_names(functions: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Return the names of the user's functions in a generated file.

    A name that is `taken`, or no name in Python, gets a number behind it. `run` may be the user's.
    """
    own = set(functions)
    names: dict[str, str] = {}
    for name in sorted(own):
        chosen, number = name, 0
        while keyword.iskeyword(chosen) or (chosen in taken and chosen != "run") or (number and chosen in own):
            number += 1
            chosen = f"{name}_{number}"
        names[name] = chosen
    return names


class PythonNames:
    """Hands out names: the first use bare, then `name_1`, `name_2`, …, skipping every name that is taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = {*taken, *dir(builtins), "torch", "run"}
        self.last: dict[str, int] = {}

    def unique(self, hint: str) -> str:
        base = sanitize(hint)
        name, number = base, self.last.get(base, 0)
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.last[base] = number
        self.taken.add(name)
        return name
