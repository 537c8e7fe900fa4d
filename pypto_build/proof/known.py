"""The record of a directory's results. Every entry is checked against the files before use."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .action import Action, InputSet, Result, Roots, digest_words, make_key, plain
from .bulk import Held, ProvenBatch
from .digests import ABSENT, LISTING, Digests, bytes_digest
from .looking import Identity, Looker, identity
from .questions import is_absent, is_question, phrase
from .record import RECORD, Record, RecordFile

# Explains why an action has to be done again.

NEVER = "not built before"


def explain(before: Result, now: Result, seen: str, otherwise: str) -> str:
    """Return the difference between the record of an action and its state now, as one phrase.

    ``seen`` is the phrase for an input that the tool was seen to read; ``otherwise`` is returned if nothing differs.
    Files are named as in records: relative to their roots.
    """
    files = [name for name in now.declared if name in before.declared and before.declared[name] != now.declared[name]]
    settings = sorted({label for label, _ in before.settings.items() ^ now.settings.items()})
    if before.words != now.words:  # what was no setting before, or is none now, follows from the words
        settings = [label for label in settings if label in before.settings and label in now.settings]
    changed = ([f"content of {few(list(map(_short, files)))}"] if files else []) + ([few(settings)] if settings else [])
    if changed:
        return f"{' and '.join(changed)} changed"
    if added := [_short(name) for name in now.declared if name not in before.declared]:
        return f"{few(added)} {'is a new input' if len(added) == 1 else 'are new inputs'}"
    if gone := [_short(name) for name in before.declared if name not in now.declared]:
        return f"{few(gone)} {'is no longer an input' if len(gone) == 1 else 'are no longer inputs'}"
    if seen:
        return seen
    if before.words != now.words:
        return "its command line changed"
    return otherwise


def difference(name: str, was: str, now: str) -> str:
    """Return the change of one input as a phrase."""
    if is_question(name):
        return f"{phrase(_short(name))} changed"
    if was == ABSENT:
        return f"{_short(name)} is a new input"
    if now == ABSENT:
        return f"{_short(name)} is gone"
    return f"{'files in' if name.endswith(LISTING) else 'content of'} {_short(name)} changed"


def _short(name: str) -> str:
    """Return a name without its root."""
    return (name.partition("}/")[2] or ".") if name.startswith("{") else name


def few(names: list[str], most: int = 3) -> str:
    """Return the first ``most`` names, and the number of further names."""
    shown = ", ".join(names[:most])
    return f"{shown} (+{len(names) - most} more)" if len(names) > most else shown


# A set of inputs is looked at again only after this time, so that units that share it look once.
_GLANCE_S = 0.3
_SAVE_EVERY_S = 1.0
# Digests of files that a run did not look at are kept up to this number.
_KEPT_DIGESTS = 20_000
#: Roots of the files that we build.
OURS = ("{out}/", "{cache}/", "{runtime}/")
# Up to this number, files are looked at one by one.
_FEW = 4


@dataclass(frozen=True)
class State:
    """The declared inputs of an action in their current state, and the resulting key."""

    key: str
    words: str
    settings: dict[str, str]
    declared: dict[str, str]  # by name


@dataclass
class _Glance:
    """Recent digests and existence of files by name: input sets share most of their files."""

    begun: float = field(default_factory=time.monotonic)
    held: dict[str, str] = field(default_factory=dict)
    there: dict[str, bool] = field(default_factory=dict)


class RecordedResults:
    """The recorded results of ``directory``. Not thread-safe.

    ``roots`` are the directories that names are relative to. ``looker`` asks the system for many files in one call.
    """

    def __init__(self, directory: Path, roots: Roots, looker: Looker) -> None:
        self.directory, self.roots, self._looker = directory, roots, looker
        self._prefix = os.path.join(directory, "")
        self._words: dict[tuple[str, ...], str] = {}
        self._settings: dict[int, tuple[Mapping[str, str], dict[str, str]]] = {}
        self._held: dict[str, Held] = {}  # by the names of actions
        self._batch: ProvenBatch | None = None
        self._last_actions: list[int] = []  # which actions were asked for together last
        self._saved_at = time.monotonic()
        self._file = RecordFile(directory)
        self.load()

    def load(self) -> None:
        """Read the record again from disk."""
        self.record = self._file.read()
        self.digests = Digests(self.record.digests, self._looker, self.record.devices, self.roots.name)
        self._written = set(self.record.sets)
        self._added, self._takes_back = set[str](), False  # since it was read or written: names, and something is gone
        self.forget_looks()

    def forget_looks(self) -> None:
        """Forget recent checks of files before a pause.

        Later checks read the files again, and forked processes have less to forget.
        """
        self._looked: dict[str, tuple[float, str]] = {}  # when, and what had changed, by set
        self._compared: dict[tuple[str, ...], tuple[float, str]] = {}  # the same by the sets of a result
        self._glance = _Glance()
        if self.digests.forget_unmounted():
            self._held.clear()
            self._batch = None

    def renew(self) -> None:
        """In a forked process, read results recorded by others, and forget earlier checks of files."""
        news = self._file.news()
        if news is None:
            self._load_anew()
        for more in news or ():
            self.record.add(more)
            self.digests.learn(more.digests, more.devices)
            self._written.update(more.sets)
        self.forget_looks()
        self._saved_at = time.monotonic()

    def _load_anew(self) -> None:
        """Read the record again. Equal results stay the same objects, since held results refer to them."""
        before, used = self.record, self.digests.used
        self.load()
        for name, result in before.results.items():
            if self.record.results.get(name) == result:
                self.record.results[name] = result
        recorded = self.record.digests
        self.digests.used = {path: seen for path, seen in used.items() if recorded.get(path) == seen}

    def save(self) -> None:
        """Write new entries to disk, if there are any."""
        record, recorded = self.record, self.record.digests
        digests = {
            path: seen for path, seen in self.digests.used.items() if recorded.get(path) != seen and plain(path) == path
        }
        if not (digests or self._added or self._takes_back):
            return
        devices = dict(self.digests.devices)
        record.remember(digests, devices)
        results = {name: record.results[name] for name in self._added}
        numbers = {number for result in results.values() for number in result.sets} - self._written
        sets = {number: record.sets[number] for number in numbers}
        if self._takes_back or not self._file.add(Record(digests, sets, results, devices)):
            self._write()
        self._written.update(numbers)
        self._added, self._takes_back, self._saved_at = set(), False, time.monotonic()

    def _write(self) -> None:
        """Write the whole record, without unused input sets and digests."""
        record, used = self.record, self.digests.used
        numbers = {number for result in record.results.values() for number in result.sets}
        record.sets = {number: inputs for number, inputs in record.sets.items() if number in numbers}
        if len(record.digests) >= _KEPT_DIGESTS:
            record.digests = {path: seen for path, seen in used.items() if plain(path) == path}
        self._file.write(record)
        self._written = set(record.sets)

    def note(self, name: str, result: Result) -> None:
        """Record a result under its name."""
        self.record.results[name] = result
        self._added.add(name)
        self._takes_back |= not result.good
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            with suppress(OSError):  # said when the place is saved at last
                self.save()

    def drop(self, name: str) -> None:
        """Remove the result of this name from the record."""
        if self.record.results.pop(name, None) is not None:
            self._added.discard(name)
            self._takes_back = True

    def doubt(self, name: str) -> None:
        """Mark the result of this name as not good; the record keeps the reason for the next run."""
        result = self.record.results.get(name)
        if result is not None and result.good:
            result.good, self._takes_back = False, True

    def amend(self, name: str, output: str) -> None:
        """Record the new content of an output that this program has rewritten."""
        result = self.record.results.get(name)
        if result is not None and output in result.outputs:
            result.outputs[output] = self.digest(output)
            self._added.add(name)

    # Looking at results

    def proven(self, action: Action) -> Result | None:
        """Return the recorded result of ``action`` if its inputs and outputs are unchanged; else None."""
        result, held = self.record.results.get(action.name), self._held.get(action.name)
        if result is None or not result.good:
            return None
        if held is not None and held.action is action and held.result is result and _is_as_it_was(held):
            return result if self.holds(result) else None
        if not self._is_of(result, action) or not self.holds(result):
            return None
        if any(self.digest(name) != digest for name, digest in result.outputs.items()):
            return None
        self._hold(action, result)
        return result

    def all_proven(self, actions: Sequence[Action], repeated: bool = False) -> list[bool]:
        """For each action, return True if it is proven.

        From the second call with the same actions on, one system call finds the proven ones that must be checked. With
        ``repeated``, because the actions will be asked for again, this holds from the first call on.
        """
        together = self._batch
        if together is None or not together.are(actions):
            together = self._hold_batch(actions) if self._last_actions == _numbers(actions) else None
        self._last_actions = _numbers(actions)
        if together is None:
            proofs = [self.proven(action) is not None for action in actions]
            if repeated:
                self._hold_batch(actions)
            return proofs
        doubtful = together.doubtful(self.record.results, self._looker, self._differing, self.roots.agree)
        proofs = [number not in doubtful or self.proven(action) is not None for number, action in enumerate(actions)]
        if repeated and doubtful:  # what was built since is proven in another way than it was
            self._hold_batch(actions)
        return proofs

    def _hold_batch(self, actions: Sequence[Action]) -> ProvenBatch:
        self._batch = ProvenBatch(actions, self._held, self.record.sets, self.roots, self.digests)
        return self._batch

    def _hold(self, action: Action, result: Result) -> None:
        """Hold a result as proven while its files keep their identities, if their digests are cached for these
        identities.
        """
        seen = self.digests.seen
        inputs = tuple((path, seen(path)) for path in action.inputs)
        outputs = tuple((path, seen(path)) for path in map(self.path, result.outputs))
        if all(now for _, now in (*inputs, *outputs)):
            self._held[action.name] = Held(action, result, inputs, outputs)  # type: ignore[arg-type]

    def _is_of(self, result: Result, action: Action) -> bool:
        """Return True if a result has the current key of ``action``, which is compared part by part."""
        return (
            result.words == self._digest_of(action.argv)
            and result.settings == self._settings_of(action)
            and result.declared == self._declared(action)
        )

    def holds(self, result: Result) -> bool:
        """Return True if a result belongs to this workspace, and the files that its tool was seen to read are
        unchanged.
        """
        return (not result.located or self.roots.agree(result.located)) and not self._differing(result.sets)

    def printed(self, name: str) -> str:
        """Return the output of the last successful run of the action with this name."""
        result = self.record.results.get(name)
        return result.printed if result is not None else ""

    def reason(self, action: Action, otherwise: str = "it was missing or had failed") -> str:
        """Return why ``action`` must run, as a phrase for users."""
        last = self.record.results.get(action.name)
        if last is None:
            return NEVER
        state = self.state(action)
        current = Result(state.key, state.declared, state.settings, state.words, (), {})
        return explain(last, current, self._difference_of(last), otherwise)

    def state(self, action: Action) -> State:
        """Return the current inputs of an action."""
        return self._state(action, self._declared(action))

    def read_inputs(self, action: Action) -> tuple[dict[str, Identity | None], State]:
        """Return the identities of an action's inputs by path, read before the state of their contents, which is
        returned too.
        """
        seen, declared = dict[str, Identity | None](), dict[str, str]()
        for path, look in zip(action.inputs, self.digests.identities_and_digests(action.inputs), strict=True):
            seen[path], declared[self.roots.name(path)] = look
        return seen, self._state(action, declared)

    def _state(self, action: Action, declared: dict[str, str]) -> State:
        words, settings = self._digest_of(action.argv), self._settings_of(action)
        return State(make_key(words, settings, declared), words, settings, declared)

    def _declared(self, action: Action) -> dict[str, str]:
        if len(action.inputs) <= _FEW:
            return {self.roots.name(path): self.digests.of(path) for path in action.inputs}
        looks = self.digests.identities_and_digests(action.inputs)
        return {self.roots.name(path): digest for path, (_, digest) in zip(action.inputs, looks, strict=True)}

    def _digest_of(self, argv: tuple[str, ...]) -> str:
        if argv not in self._words:
            self._words[argv] = digest_words(self.roots.words(argv))
        return self._words[argv]

    def _settings_of(self, action: Action) -> dict[str, str]:
        """Return the settings of an action as they are recorded, relative to roots; actions share their settings."""
        settings, named = self._settings.get(id(action.settings), (None, {}))
        if settings is not action.settings:
            named = {plain(name): plain(self.roots.word(value)) for name, value in action.settings.items()}
            self._settings[id(action.settings)] = action.settings, named
        return named

    def _difference_of(self, result: Result) -> str:
        """Return the change among the files that a tool was seen to read, as a phrase; empty if none changed."""
        path = self._differing(result.sets)
        files = {self.roots.path(name): digest for name, digest in self._files(result.sets)}
        name = self.roots.name(path)
        return difference(name, files.get(path, ABSENT), self.inputs([name])[0]) if path else ""

    def _differing(self, sets: tuple[str, ...]) -> str:
        """Return a file of these sets that changed; empty if none did. Results share most of their sets."""
        now = time.monotonic()
        looked, difference = self._compared.get(sets, (0.0, ""))
        if not looked or now - looked > _GLANCE_S:
            looked, difference = now, ""
            for number in sets:
                before, difference = self._check_set(number)
                looked = min(looked, before)
                if difference:
                    break
            self._compared[sets] = (looked, difference)
        return difference

    def _check_set(self, number: str) -> tuple[float, str]:
        """Return the time of the last check of an input set, and a file that had changed; empty if none had."""
        now = time.monotonic()
        looked, difference = self._looked.get(number, (0.0, ""))
        if not looked or now - looked > _GLANCE_S:
            inputs = self.record.sets.get(number)
            looked, difference = now, RECORD if inputs is None else self._first_difference(inputs)
            self._looked[number] = (looked, difference)
        return looked, difference

    def _first_difference(self, inputs: InputSet) -> str:
        if time.monotonic() - self._glance.begun > _GLANCE_S:
            self._glance = _Glance()
        held, there = self._glance.held, self._glance.there
        unseen = [name for name, digest in inputs.files if digest != ABSENT and name not in held]
        if unseen:
            held.update(zip(unseen, self.inputs(unseen), strict=True))
        for name, digest in inputs.files:
            if digest == ABSENT and name not in there:
                there[name] = not is_absent(self.roots.path(name))
            if there[name] if digest == ABSENT else held[name] != digest:
                return self.roots.path(name)
        return ""

    # Input sets

    def inputs(self, names: Sequence[str]) -> list[str]:
        """Return the current digests of inputs.

        Permissions of files that this program built do not count, since the store does not keep them.
        """
        paths = list(map(self.roots.path, names))
        digests = self.digests.inputs(paths)
        return [
            digest.partition("+")[0] if name.startswith(OURS) and not is_question(name) else digest
            for name, digest in zip(names, digests, strict=True)
        ]

    def learn(self, inputs: InputSet) -> str:
        """Record an input set that was just checked; return its digest."""
        number = bytes_digest(inputs.encode())
        self.record.sets[number] = inputs
        self._looked[number] = (time.monotonic(), "")
        self._compared.clear()
        return number

    def contents(self, result: Result) -> tuple[InputSet, ...]:
        """Return the inputs that a result's tool was seen to read."""
        return tuple(self.record.sets[number] for number in result.sets)

    def read_files(self) -> set[str]:
        """Return all files that tools were seen to read for the recorded results."""
        numbers = {number for result in self.record.results.values() for number in result.sets}
        names = {
            name
            for name, digest in self._files(numbers)
            if digest != ABSENT and not (name.endswith(LISTING) or is_question(name))
        }
        return set(map(self.roots.path, names))

    def _files(self, sets: Iterable[str]) -> Iterable[tuple[str, str]]:
        for number in sets:
            inputs = self.record.sets.get(number)
            yield from inputs.files if inputs else ()

    # Outputs

    def path(self, name: str) -> str:
        """Return the path of an output as text, because a null run needs thousands."""
        return self._prefix + name

    def digest(self, name: str) -> str:
        """Return the current digest of an output; for a link, that of its target; empty if it is missing."""
        path = self.path(name)
        try:
            now = os.lstat(path)
        except (OSError, ValueError):
            return ABSENT
        return bytes_digest(self.content(name)) if stat.S_ISLNK(now.st_mode) else self.digests.of_status(path, now)

    def content(self, name: str) -> bytes:
        """Return the bytes of an output; for a link, its target."""
        path = self.directory / name
        return b"link to " + os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()

    def files_below(self, tree: str) -> list[str]:
        """Return the files and links in a directory of outputs, sorted; hidden files are not outputs."""
        files = []
        for directory, directories, names in os.walk(self.directory / tree):
            relative = os.path.relpath(directory, self.directory)
            links = [name for name in directories if os.path.islink(os.path.join(directory, name))]
            files += [os.path.join(relative, name) for name in (*names, *links) if not name.startswith(".")]
        return sorted(files)


def _numbers(actions: Sequence[Action]) -> list[int]:
    return list(map(id, actions))


def _is_as_it_was(held: Held) -> bool:
    """Return True if all files of a held result have the same identities as before."""
    try:
        for path, seen in held.inputs:
            if identity(os.stat(path)) != seen:
                return False
        for path, seen in held.outputs:
            if identity(os.lstat(path)) != seen:
                return False
    except (OSError, ValueError):
        return False
    return True
