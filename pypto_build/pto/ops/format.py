"""Formats of operations (see ops.spec), compiled from text to directives that parser and printer both run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Directive:
    """One step of an operation's text format.

    `code` is the letter of ops.spec, `lit` a literal, or `opt` with its inner steps in `body`.
    """

    code: str
    name: str = ""
    glued: bool = False  # printed without a blank in front
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()  # P, N, K: (keyword or "", roles)
    body: tuple[Directive, ...] = ()

    def groups_names(self) -> list[str]:
        """Return the roles of a group, in order."""
        return [name for _, names in self.groups for name in names]


def all_steps(steps: Iterable[Directive]) -> Iterator[Directive]:
    """Yield the steps, including nested ones."""
    for step in steps:
        yield step
        yield from all_steps(step.body)


_GROUP = re.compile(r"(\w+)\(([\w,]*)\)|(\w+)")


@cache
def compile_format(text: str) -> tuple[Directive, ...]:
    """Return the directives of a format. Raises ValueError for an invalid format."""
    steps, rest = _compile(text.split(), 0)
    if rest:
        raise ValueError(f"format '{text}': '?]' without '[?'")
    return steps


def _compile(words: list[str], depth: int) -> tuple[tuple[Directive, ...], list[str]]:
    steps: list[Directive] = []
    while words:
        word, words = words[0], words[1:]
        if word == "[?":
            body, words = _compile(words, depth + 1)
            steps.append(Directive("opt", body=body))
        elif word == "?]":
            if depth == 0:
                return tuple(steps), [word]
            return tuple(steps), words
        else:
            steps.append(_directive(word))
    return tuple(steps), []


def _directive(word: str) -> Directive:
    glued = word.startswith("~")
    word = word.removeprefix("~")
    if word.startswith("$"):
        return Directive("$", word[1:], glued)
    if word == "T=":
        return Directive("T=")
    if word.startswith("T$"):
        return Directive("T$", word[2:])
    if word == "{}":
        return Directive("{}")
    if word in ("R", "F", "C"):
        return Directive(word)
    if re.match(r"[AWIV]:\w", word):
        return Directive(word[0], word[2:])
    if re.match(r"[PNK]\(", word):
        groups = tuple((k, tuple(r.split(","))) if k else ("", (name,)) for k, r, name in _GROUP.findall(word[2:-1]))
        return Directive(word[0], groups=groups, glued=True)
    return Directive("lit", word, glued)
