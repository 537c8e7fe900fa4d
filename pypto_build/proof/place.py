"""A directory of outputs and the record by which they are proven: keeps, restores or makes what actions come to."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from pypto_build.artifact.atomic import write_bytes

from .action import Action, Aid, InputSet, Result, Roots, digest_words, make_key
from .digests import ABSENT, LISTING, TICK_S, Digests, Identity, bytes_digest, changed_since
from .reason import NEVER, difference, explain
from .store import Store, sealed, unsealed
from .witness import VARIABLE, Account, of_python, read_account

RECORD = ".results"
WORK = ".work."
#: How often an action is done when its inputs change meanwhile.
_ATTEMPTS = 3
# How long a set of inputs that was looked at counts as looked at: within it, units that share it look once.
_GLANCE_S = 0.3
_SAVE_EVERY_S = 1.0

#: Runs a command in an environment; returns its exit status and what it printed, if that was kept.
Spawn = Callable[[list[str], dict[str, str]], tuple[int, str]]


@dataclass(frozen=True)
class Outcome:
    """How an action ended: ``kept`` (it was there), ``restored`` (from the store), ``made`` or ``failed``."""

    how: str
    status: int = 0
    said: str = ""
    note: str = ""  # why it was not recorded


class Record(msgspec.Struct, array_like=True):
    """What a place remembers from run to run; nothing in it is believed without a look at the files."""

    digests: dict[str, tuple[Identity, str]] = {}
    sets: dict[str, InputSet] = {}
    results: dict[str, Result] = {}


@dataclass(frozen=True)
class _Attempt:
    """One time that an action was done, ``started`` by the system's clock."""

    action: Action
    aids: Sequence[Aid]
    state: _State
    account: Account
    started: int
    record: bool


@dataclass(frozen=True)
class _State:
    """The inputs of an action as they are now."""

    key: str
    words: str
    declared: dict[str, str]  # by name
    seen: dict[str, Identity | None]  # by path


class Place:
    """The outputs in ``directory``.

    ``roots`` name the directories that records are told by, ``watcher`` is the library that watches tools; without one,
    nothing that is made can be proven. Methods may be called from several threads.
    """

    def __init__(self, directory: Path, store: Store, roots: Mapping[str, str | Path], watcher: Path | None) -> None:
        self.directory = directory
        self._store = store
        self._roots = Roots({**roots, "out": directory})
        self._watcher = watcher
        self._record = _load(directory / RECORD)
        self._digests = Digests(self._record.digests)
        self._looked: dict[str, tuple[float, str]] = {}
        self._lock = threading.RLock()
        self._saved_at = 0.0
        self._changed = False
        self._numbers = itertools.count()
        self._words: dict[tuple[str, ...], str] = {}

    def add_roots(self, roots: Mapping[str, str | Path]) -> None:
        """More directories that records are told by."""
        self._roots = Roots({**{token.strip("{}"): path for token, path in self._roots._places.items()}, **roots})

    def path(self, name: str) -> Path:
        """The path of an output."""
        return self.directory / name

    def digest(self, name: str) -> str:
        """The digest of an output as it is now, for a link that of where it leads; empty where there is none."""
        path = str(self.directory / name)
        return (
            bytes_digest(b"link to " + os.fsencode(os.readlink(path)))
            if os.path.islink(path)
            else self._digests.of(path)
        )

    def proven(self, action: Action) -> Result | None:
        """The result of ``action`` if it is recorded here, its inputs are as they were, and its outputs in place."""
        with self._lock:
            known = self._record.results.get(action.name)
            if known is None or not known.good or not self._is_from_here(known):
                return None
            if known.key != self._state(action).key or self._differing(known.sets):
                return None
            return known if self._in_place(known.outputs) else None

    def reason(self, action: Action, otherwise: str = "it was missing or had failed") -> str:
        """Why ``action`` has to be done, as a phrase for people."""
        with self._lock:
            known = self._record.results.get(action.name)
            if known is None:
                return NEVER
            state = self._state(action)
            wanted = Result(state.key, state.declared, dict(action.settings), state.words, (), {})
            return explain(known, wanted, self._difference_of(known), otherwise)

    def perform(
        self,
        action: Action,
        spawn: Spawn,
        begin: Callable[[], Sequence[Aid]],
        *,
        again: bool = False,
        record: bool = True,
    ) -> Outcome:
        """Make sure that the outputs of ``action`` are what its inputs give: keep, restore or make them.

        ``begin`` is called before the command runs, and gives what makes it faster. ``again``: whatever is known.
        Without ``record`` nothing is remembered.
        """
        if not again:
            if self.proven(action):
                return Outcome("kept")
            if (said := self._restore(action)) is not None:
                return Outcome("restored", said=said)
        aids = begin()
        outcome = Outcome("failed", 1)
        for _ in range(_ATTEMPTS):
            outcome, unstable = self._make(action, spawn, aids, record)
            if not unstable:
                return outcome
            time.sleep(TICK_S)  # else what changed last would look as if it changed during the next attempt
        return Outcome("failed", 3, outcome.said, f"{unstable} kept changing meanwhile; run it again")

    def amend(self, action: Action, name: str) -> None:
        """An output was rewritten by us: what it holds now is its content in this place."""
        with self._lock:
            known = self._record.results.get(action.name)
            if known is not None and name in known.outputs:
                known.outputs[name] = self.digest(name)
                self._changed = True

    def contents(self, result: Result) -> tuple[InputSet, ...]:
        """The inputs that a result's tool was seen to read."""
        return tuple(self._record.sets[number] for number in result.sets)

    def read_files(self) -> set[str]:
        """The files that tools were seen to read for what is recorded here."""
        with self._lock:
            used = {number for result in self._record.results.values() for number in result.sets}
            names = {name for number in used for name, digest in self._files(number) if digest != ABSENT}
            return {self._roots.path(name) for name in names if not name.endswith(LISTING)}

    def save(self) -> None:
        """Write the record, if there is anything new."""
        with self._lock:
            new = any(self._record.digests.get(path) != known for path, known in self._digests.used.items())
            if not (self._changed or new):
                return
            used = {number for result in self._record.results.values() for number in result.sets}
            self._record.sets = {number: found for number, found in self._record.sets.items() if number in used}
            self._record.digests = dict(self._digests.used)
            write_bytes(self.directory / RECORD, sealed(msgspec.msgpack.encode(self._record)))
            self._changed, self._saved_at = False, time.monotonic()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process works here: for a place that several workspaces share. What another one recorded is read."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self._lock:
                self._record = _load(self.directory / RECORD)
                self._digests = Digests(self._record.digests)
                self._looked.clear()
            yield

    def tidy(self) -> None:
        """Remove what killed runs left. The caller makes sure that no other run works here."""
        for leftover in self.directory.glob(f"{WORK}*"):
            shutil.rmtree(leftover, ignore_errors=True)

    # What is known

    def _state(self, action: Action) -> _State:
        seen = {path: self._digests.identity_of(path) for path in action.inputs}
        declared = {self._roots.name(path): self._digests.of(path) for path in action.inputs}
        words = self._words_of(action)
        return _State(make_key(action, words, declared), words, declared, seen)

    def _words_of(self, action: Action) -> str:
        if action.argv not in self._words:
            self._words[action.argv] = digest_words([self._roots.word(word) for word in action.argv])
        return self._words[action.argv]

    def _differing(self, sets: Iterable[str]) -> str:
        """A file of these sets that is not as it was; empty if all are."""
        for number in sets:
            now = time.monotonic()
            looked, found = self._looked.get(number, (0.0, ""))
            if not looked or now - looked > _GLANCE_S:
                known = self._record.sets.get(number)
                found = "its record" if known is None else self._first_difference(known)
                self._looked[number] = (now, found)
            if found:
                return found
        return ""

    def _difference_of(self, known: Result) -> str:
        """What is not as it was among the inputs that a tool was seen to read, as a phrase; empty if all is."""
        path = self._differing(known.sets)
        if not path:
            return ""
        files = {self._roots.path(name): digest for number in known.sets for name, digest in self._files(number)}
        return difference(self._roots.name(path), files.get(path, ABSENT), self._digests.of(path))

    def _files(self, number: str) -> tuple[tuple[str, str], ...]:
        known = self._record.sets.get(number)
        return known.files if known else ()

    def _first_difference(self, known: InputSet) -> str:
        path_of, digest_of, is_there = self._roots.path, self._digests.of, os.access
        for name, digest in known.files:
            path = path_of(name)
            if is_there(path, os.F_OK) if digest == ABSENT else digest_of(path) != digest:
                return path
        return ""

    def _is_from_here(self, result: Result) -> bool:
        """Whether a result holds in this place: one whose outputs name another does not."""
        return self._roots.agree(result.located)

    def _in_place(self, outputs: Mapping[str, str]) -> bool:
        return all(self.digest(name) == digest for name, digest in outputs.items())

    def _restore(self, action: Action) -> str | None:
        """Take the outputs from the store; what the command said, None if the store does not have them."""
        if not action.shared:
            return None
        with self._lock:
            state = self._state(action)
            for payload in self._store.find(state.key):
                result = _decode(payload)
                if result is None or not self._is_from_here(result):
                    continue
                if not self._has_sets(result) or self._differing(result.sets):
                    continue
                if not result.good:
                    return None
                if self._fetch(action, result):
                    self._note(action, result)
                    return result.said
        return None

    def _has_sets(self, result: Result) -> bool:
        """Whether the input sets of a result from the store can be had."""
        for number in result.sets:
            if number not in self._record.sets:
                data = self._store.read(number)
                if data is None:
                    return False
                try:
                    self._record.sets[number] = msgspec.msgpack.decode(data, type=InputSet)
                except (ValueError, RecursionError):
                    return False
        return True

    def _fetch(self, action: Action, result: Result) -> bool:
        contents: dict[str, bytes] = {}
        for name, digest in result.outputs.items():
            if not _is_inside(name):
                return False
            if self.digest(name) != digest:
                data = self._store.read(digest)
                if data is None:
                    return False
                contents[name] = data
        if action.tree:
            self._remove_others(action.tree, result.outputs)
        for name, data in contents.items():
            write_bytes(self.directory / name, data)
        return True

    def _remove_others(self, tree: str, outputs: Mapping[str, str]) -> None:
        for name in self._files_below(tree):
            if name not in outputs:
                (self.directory / name).unlink()

    # Making

    def _make(self, action: Action, spawn: Spawn, aids: Sequence[Aid], record: bool) -> tuple[Outcome, str]:
        """Do it once; the outcome, and an input that changed meanwhile."""
        with self._lock:
            state = self._state(action)
            self._clear(action)
            started = time.time_ns()
        work = self.directory / f"{WORK}{os.getpid()}.{next(self._numbers)}"
        try:
            work.mkdir(parents=True)
            (work / "log").touch()
            command = action.command(aids)
            status, said = spawn(command, self._environment(action, work))
            with self._lock:
                account = read_account(work / "log", command, [str(work), *self._private(action, aids)])
                attempt = _Attempt(action, aids, state, account, started, record)
                return self._judge(attempt, status, said)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _environment(self, action: Action, work: Path) -> dict[str, str]:
        environment = {**action.environment, "TMPDIR": str(work)}
        if self._watcher is not None:
            environment |= {"LD_PRELOAD": str(self._watcher), VARIABLE: str(work / "log")}
        return environment

    def _private(self, action: Action, aids: Sequence[Aid]) -> Iterator[str]:
        """Directories whose files are no inputs: those of aids, of outputs, and what the action says."""
        yield from (os.path.dirname(aid.path) for aid in aids)
        yield from action.private
        if action.tree:
            yield str(self.directory / action.tree)

    def _judge(self, attempt: _Attempt, status: int, said: str) -> tuple[Outcome, str]:
        action = attempt.action
        untold = self._untold(attempt)
        if action.python:
            attempt = replace(attempt, account=of_python(attempt.account))
        changed = self._changed_meanwhile(attempt)
        if status not in action.good:
            if attempt.record:
                self._note_failure(attempt, known=not (untold or changed))
            return Outcome("failed", status, said), ""
        outputs = self._take(action)
        if changed:
            return Outcome("failed", 3, said), changed
        if untold or not attempt.record:
            self._drop(action)
            return Outcome("made", status, said, untold), ""
        result = self._result(attempt, outputs, said)
        contents = self._contents(action, result)
        self._note(action, result)
        if contents is not None:
            self._publish(result, contents)
        return Outcome("made", status, said), ""

    def _untold(self, attempt: _Attempt) -> str:
        """Why nobody can say what the tool read; empty if it was watched all along."""
        action, account = attempt.action, attempt.account
        if self._watcher is None:
            return "there is no compiler for the library that watches tools, so it is made anew every time"
        if account.unseen:
            return f"{account.unseen} cannot be watched, so it is made anew every time"
        if action.main and action.main not in account.files:
            return f"{action.argv[0]} was not seen to read {action.main}, so it is made anew every time"
        return ""

    def _changed_meanwhile(self, attempt: _Attempt) -> str:
        """An input that is not the same before and after; empty if all are."""
        state, account = attempt.state, attempt.account
        for path, seen in state.seen.items():
            now = self._digests.identity_of(path)
            if now != seen or self._digests.of(path) != state.declared[self._roots.name(path)]:
                return path
        for path in account.files:
            if path in state.seen:
                continue
            now = self._digests.identity_of(path)
            told = account.read.get(path)
            if now is None or (told and any(told) and told != now):
                return path
            if changed_since(now, attempt.started) and not self._digests.knows(path, now):
                return path
        for aid in attempt.aids:
            if self._digests.of(aid.path) != aid.digest:
                return aid.path
        return next((path for path in account.absent if os.access(path, os.F_OK)), "")

    def _take(self, action: Action) -> dict[str, str]:
        """Give finished outputs their names; their digests, by name."""
        if action.tree:
            return {name: self.digest(name) for name in self._files_below(action.tree)}
        digests = {}
        for name in action.outputs:
            path = str(self.directory / name)
            digests[name] = self._digests.of(f"{path}.tmp")
            os.replace(f"{path}.tmp", path)
        return digests

    def _clear(self, action: Action) -> None:
        for name in action.outputs:
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):
                path.with_name(f"{path.name}.tmp").unlink()

    def _files_below(self, tree: str) -> list[str]:
        found = []
        top = self.directory / tree
        for directory, directories, names in os.walk(top):
            relative = os.path.relpath(directory, self.directory)
            links = [name for name in directories if os.path.islink(os.path.join(directory, name))]
            found += [os.path.join(relative, name) for name in (*names, *links) if not name.startswith(".")]
        return sorted(found)

    def _result(self, attempt: _Attempt, outputs: dict[str, str], said: str, good: bool = True) -> Result:
        action, state, account = attempt.action, attempt.state, attempt.account
        files = {self._roots.name(path): self._digests.of(path) for path in account.files if path not in state.seen}
        files |= {self._roots.name(path): ABSENT for path in account.absent}
        # What lies beside the unit's own inputs under their names is in a set of its own: units share the other.
        mine = {name: files.pop(name) for name in list(files) if name.startswith(tuple(state.declared))}
        seen = (InputSet(tuple(sorted(part.items()))) for part in (mine, files) if part)
        numbers = []
        for found in (*seen, *(contents for aid in attempt.aids for contents in aid.contents)):
            number = bytes_digest(found.encode())
            self._record.sets[number] = found
            self._looked[number] = (time.monotonic(), "")
            numbers.append(number)
        sets = tuple(dict.fromkeys(numbers))
        return Result(state.key, state.declared, dict(action.settings), state.words, sets, outputs, said, good)

    def _note(self, action: Action, result: Result) -> None:
        self._record.results[action.name] = result
        self._changed = True
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self.save()

    def _drop(self, action: Action) -> None:
        if self._record.results.pop(action.name, None) is not None:
            self._changed = True

    def _note_failure(self, attempt: _Attempt, known: bool) -> None:
        """What was good on these inputs is so no more, here and in the store; nothing where they are not ``known``."""
        action, failed = attempt.action, self._result(attempt, {}, "", good=False)
        self._note(action, failed)
        if known and action.shared and any(map(_is_good, self._store.find(attempt.state.key))):
            self._publish(failed, [])
        self.save()

    def _contents(self, action: Action, result: Result) -> list[bytes] | None:
        """The outputs for the store, None if they are too large for it. What names places is marked as theirs."""
        contents = []
        for name, digest in result.outputs.items():
            path = self.directory / name
            if path.stat().st_size > self._store.largest and action.shared:
                result.located = self._roots.all
                return None
            data = path.read_bytes()
            if bytes_digest(data) != digest:  # somebody wrote it meanwhile
                result.located = self._roots.all
                return None
            contents.append(data)
        result.located = self._roots.named_in(contents)
        return contents if action.shared else None

    def _publish(self, result: Result, contents: list[bytes]) -> None:
        sets = [self._record.sets[number].encode() for number in result.sets]
        self._store.publish(result.key, msgspec.msgpack.encode(result), [*sets, *contents])


def _load(path: Path) -> Record:
    """The record at ``path``; an empty one where there is none that is whole, which costs a look at the store."""
    try:
        data = unsealed(path.read_bytes()) if path.is_file() else None
        return msgspec.msgpack.decode(data, type=Record) if data is not None else Record()
    except (OSError, ValueError, RecursionError):
        return Record()


def _decode(payload: bytes) -> Result | None:
    try:
        return msgspec.msgpack.decode(payload, type=Result)
    except (ValueError, RecursionError):
        return None


def _is_good(payload: bytes) -> bool:
    result = _decode(payload)
    return result is not None and result.good


def _is_inside(name: str) -> bool:
    return not os.path.isabs(name) and ".." not in name.split("/")
