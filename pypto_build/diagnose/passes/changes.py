"""From one dump to the next: which functions came, went and changed, and the difference as text."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from pypto_build.diagnose.passes.dumps import Dump, DumpedFunction


@dataclass(frozen=True)
class Change:
    """Change that a pass made to one function; `into` names the functions it was split into."""

    function: str
    kind: str
    added: int = 0
    removed: int = 0
    into: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`mixed: split into mixed_aic, mixed_aiv`, `add +12 -3`."""
        if self.kind == "gone" and self.into:
            return f"{self.function}: split into {', '.join(self.into)}"
        if self.kind == "changed":
            return f"{self.function} +{self.added} -{self.removed}" + (
                f" (split into {', '.join(self.into)})" if self.into else ""
            )
        return f"{self.function}: {self.kind}" + (f" ({self.added} lines)" if self.kind == "new" else "")


def changes(before: Dump, after: Dump) -> list[Change]:
    """Return the changes between two dumps by function, or an empty list if either cannot be read."""
    if before.error or after.error:
        return []
    found = []
    fresh = [name for name in after.functions if name not in before.functions]
    for name, function in before.functions.items():
        other = after.functions.get(name)
        if other is None:
            parts = tuple(part for part in fresh if part.startswith(f"{name}_"))
            found.append(Change(name, "gone", removed=len(function.lines), into=parts))
        elif other.lines != function.lines:
            added, removed = _counts(function.lines, other.lines)
            parts = tuple(part for part in fresh if part in (f"{name}_aic", f"{name}_aiv"))
            found.append(Change(name, "changed", added, removed, parts))
    told = {part for change in found for part in change.into}
    found += [Change(name, "new", added=len(after.functions[name].lines)) for name in fresh if name not in told]
    return found


def _counts(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """Lines that came and that went."""
    added = removed = 0
    for tag, a0, a1, b0, b1 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            added, removed = added + b1 - b0, removed + a1 - a0
    return added, removed


def difference(before: DumpedFunction | None, after: DumpedFunction | None, context: int = 2) -> list[str]:
    """A unified difference of one function, with the lines' numbers in the two dumps."""
    old, new = (list(function.lines) if function else [] for function in (before, after))
    first, second = (function.line if function else 1 for function in (before, after))
    lines = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(context):
        lines.append(f"@@ -{first + group[0][1]},{group[-1][2] - group[0][1]} +{second + group[0][3]},"
                     f"{group[-1][4] - group[0][3]} @@")  # fmt: skip
        for tag, a0, a1, b0, b1 in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[a0:a1]]
            else:
                lines += [f"-{line}" for line in old[a0:a1]]
                lines += [f"+{line}" for line in new[b0:b1]]
    return lines
