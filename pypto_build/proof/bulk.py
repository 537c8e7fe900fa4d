"""Checks thousands of proven results together: one system call finds those that may have changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import is_

from .action import Action, InputSet, Result, Roots
from .digests import ABSENT, LISTING, Digests
from .looking import NOTHING, Identity, Looker, Paths, differing, pack
from .questions import STATUS, is_question

# A set of few files that few results have is looked at with these; of others, one look does for all results.
_OWN_FILES, _OWN_RESULTS = 16, 4


@dataclass(frozen=True, eq=False)
class Held:
    """A result that was proven for an action, with the identities of the action's inputs and outputs at that time."""

    action: Action
    result: Result
    inputs: tuple[tuple[str, Identity], ...]
    outputs: tuple[tuple[str, Identity], ...]


class _Files:
    """Files that one call checks, their identities, and the numbers of the actions that depend on each."""

    def __init__(self, follow: bool) -> None:
        self._follow = follow
        self._actions: dict[tuple[str, Identity], list[int]] = {}

    def add(self, number: int, path: str, identity: Identity) -> None:
        self._actions.setdefault((path, identity), []).append(number)

    def merge_into(self, others: _Files) -> None:
        """Move files to ``others`` if they have the same identity there.

        A file has the same identity with and without following links only if it is not a link, so one check is enough.
        """
        for file in self._actions.keys() & others._actions.keys():
            others._actions[file] += self._actions.pop(file)

    def close(self) -> None:
        """Prepare the check; no more files are added."""
        self._paths = Paths([path for path, _ in self._actions], self._follow)
        self._identities = pack(identity for _, identity in self._actions)
        self._numbers = list(self._actions.values())

    def differing(self, looker: Looker) -> Iterator[int]:
        """Yield the numbers of the actions whose files have other identities now."""
        for file in differing(self._identities, looker.look(self._paths)):
            yield from self._numbers[file]


class ProvenBatch:
    """The results that were ``held`` for ``actions`` when this was made; ``sets`` are those of the record."""

    def __init__(
        self,
        actions: Sequence[Action],
        held: Mapping[str, Held],
        sets: Mapping[str, InputSet],
        roots: Roots,
        digests: Digests,
    ) -> None:
        self._actions = list(actions)
        self._names = [action.name for action in actions]
        self._held = [held.get(name) for name in self._names]
        self._inputs, self._outputs = _Files(follow=True), _Files(follow=False)
        self._common: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], list[int]] = {}
        count = Counter(each for one in self._held if one for each in one.result.sets)
        self._own = {
            each: files
            for each, times in count.items()
            if times <= _OWN_RESULTS and (files := _cached_identities(sets.get(each), roots, digests)) is not None
        }
        self._unknown = {number for number, one in enumerate(self._held) if not self._take(number, one)}
        self._inputs.merge_into(self._outputs)
        self._inputs.close()
        self._outputs.close()

    def _take(self, number: int, held: Held | None) -> bool:
        """Record the files that a result depends on; return False if there is no result."""
        if held is None or held.action is not self._actions[number]:
            return False
        sets = held.result.sets
        for path, identity in (*held.inputs, *(file for each in sets for file in self._own.get(each, ()))):
            self._inputs.add(number, path, identity)
        for path, identity in held.outputs:
            self._outputs.add(number, path, identity)
        common = tuple(each for each in sets if each not in self._own), tuple(sorted(held.result.located.items()))
        if any(common):
            self._common.setdefault(common, []).append(number)
        return True

    def are(self, actions: Sequence[Action]) -> bool:
        """Return True if ``actions`` are the same objects as at construction."""
        return len(actions) == len(self._actions) and all(map(is_, actions, self._actions))

    def doubtful(
        self,
        results: Mapping[str, Result],
        looker: Looker,
        differs: Callable[[tuple[str, ...]], str],
        agree: Callable[[Mapping[str, str]], bool],
    ) -> set[int]:
        """Return the numbers of the actions that have to be looked at one by one.

        These are actions whose entry in ``results`` is not the held result, and those with a file whose identity
        changed. ``differs`` returns a file of input sets that changed. ``agree`` tells if a result's directories are
        those of this place.
        """
        numbers_in_doubt = set(self._unknown)
        now = map(results.get, self._names)
        numbers_in_doubt.update(
            number
            for number, (one, result) in enumerate(zip(self._held, now, strict=True))
            if one is None or one.result is not result or not result.good
        )
        for (sets, located), numbers in self._common.items():
            if differs(sets) or not agree(dict(located)):
                numbers_in_doubt.update(numbers)
        for files in (self._inputs, self._outputs):
            numbers_in_doubt.update(files.differing(looker))
        return numbers_in_doubt


def _cached_identities(inputs: InputSet | None, roots: Roots, digests: Digests) -> list[tuple[str, Identity]] | None:
    """Return the identities that the files of an input set have while their contents match it.

    Return None if an identity is not remembered, or there are many files.
    """
    if inputs is None or len(inputs.files) > _OWN_FILES:
        return None
    identities = []
    for name, digest in inputs.files:
        path = roots.path(name)
        seen = NOTHING if digest == ABSENT else digests.seen_with(path, digest)
        listed = not name.endswith(STATUS) and (name.endswith(LISTING) or is_question(name))
        if seen is None or listed or not roots.is_fixed(name):
            return None
        identities.append((path.removesuffix(STATUS), seen))
    return identities
