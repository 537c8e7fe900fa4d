"""The two search algorithms of a bisection, independent of what they search."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pypto_build.interop.steps import Outcome


def first_bad(candidates: Sequence[str], probe: Callable[[str], Outcome]) -> list[str]:
    """Return the first bad one of ``candidates``; the first is good, the last is bad.

    Returns several if candidates before it could not be judged: the culprit is one of them.
    """
    judged: dict[int, Outcome] = {0: "good", len(candidates) - 1: "bad"}
    while True:
        good = max(index for index, outcome in judged.items() if outcome == "good")
        bad = min(index for index, outcome in judged.items() if outcome == "bad" and index > good)
        open_ones = [index for index in range(good + 1, bad) if index not in judged]
        if not open_ones:
            return list(candidates[good + 1 : bad + 1])
        middle = (good + bad) // 2
        index = min(open_ones, key=lambda index: abs(index - middle))
        judged[index] = probe(candidates[index])


def smallest_bad(
    parts: Sequence[str],
    probe: Callable[[Sequence[str]], Outcome],
    ahead: Callable[[Sequence[Sequence[str]]], None] = lambda _: None,
) -> list[str]:
    """Return a smallest subset of ``parts`` that is bad by itself, by delta debugging; all parts together are bad.

    ``ahead`` is called with the sets that are probed next, in this order, up to the first bad one.
    """
    current, pieces = list(parts), 2
    while len(current) > 1:
        size = -(-len(current) // pieces)
        chunks = [current[start : start + size] for start in range(0, len(current), size)]
        rests = [[part for part in current if part not in chunk] for chunk in chunks]
        ahead(chunks)
        found = next((chunk for chunk in chunks if probe(chunk) == "bad"), None)
        if found is not None:
            current, pieces = found, 2
            continue
        if len(chunks) > 2:
            ahead(rests)
        rest = next((rest for rest in rests if len(chunks) > 2 and probe(rest) == "bad"), None)
        if rest is not None:
            current, pieces = rest, max(pieces - 1, 2)
        elif pieces >= len(current):
            break
        else:
            pieces = min(len(current), 2 * pieces)
    return current
