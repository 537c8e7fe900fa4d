"""A directory of outputs and the record that proves them: keeps, restores or builds the results of actions."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Concatenate, Literal, ParamSpec, Protocol, TypeVar

import msgspec

from pypto_build.artifact.below import directory_below, remove_below, replace_below, write_below
from pypto_build.trace import span

from .action import Action, Helper, InputSet, Result, Roots, plain
from .calls import OWN_CALLS
from .digests import LISTING, TICK_S, bytes_digest, changed_since, written_since
from .known import OURS, RecordedResults, State
from .locks import locked
from .looking import Identity, Looker, Paths, unpack
from .prestart import Start, WaitingAction
from .questions import CALLS, NAMES, is_absent, subject
from .store import Store, decoded
from .witness import TEST_VARIABLE, VARIABLE, Account, of_python, read_account, remove_stale_bytecode
from .work import WorkDirectories

#: Number of attempts at an action whose inputs change meanwhile.
_ATTEMPTS = 3
#: In what is larger, and goes to no store, directories are not searched for: it holds for this place only. Precompiled
#: headers have ten megabytes, which takes milliseconds.
_MOST_SEARCHED = 64 << 20
#: Why nothing is recorded where the workspace has said so already.
_UNWATCHED = "nothing can be watched here"
#: Exit status of an action whose inputs never rest.
_UNSTABLE = 3

P = ParamSpec("P")
R = TypeVar("R")

#: Runs a command in an environment; returns its exit status and what it printed, if that was kept.
Spawn = Callable[[list[str], dict[str, str]], tuple[int, str]]


class Forks(Protocol):
    """A fork server for commands; files in its ``directories`` are not inputs of a command."""

    directories: set[str]

    def since(self, environment: Mapping[str, str]) -> int:
        """Return the time at which the fork server was started, by the system's clock; 0 if there is none."""

    def close(self) -> None:
        """End the fork server, so that the next command starts a new one."""


@dataclass(frozen=True)
class Outcome:
    """The end of an action: ``kept`` (up to date), ``restored`` (from the store), ``built`` or ``failed``.

    ``printed`` is the output of its command, ``note`` the reason why the result was not recorded.
    """

    how: Literal["kept", "restored", "built", "failed"]
    status: int = 0
    printed: str = ""
    note: str = ""


@dataclass(frozen=True)
class _Attempt:
    """One execution of an action, which ``started`` at that time by the system's clock.

    The process that it was forked from has read files from the time ``since`` on. An attempt that ``waited`` has read
    some files before they were looked at. ``links`` are the contents of files whose time of status change alone was new
    after the attempts before.
    """

    action: Action
    helpers: Sequence[Helper]
    seen: Mapping[str, Identity | None]  # the declared inputs by path, as they were before it
    state: State
    account: Account
    started: int
    record: bool
    since: int
    waited: bool
    links: dict[str, str]
    last: bool


@dataclass(frozen=True)
class _Change:
    """An input that changed during an attempt, or of which the time of status change alone is new (``only_status``).

    The latter comes of a hard link that is made elsewhere, or of an edit that is put back with its old time.
    """

    path: str
    only_status: bool = False


def _one_at_a_time(method: Callable[Concatenate[RecordedResults, P], R]) -> Callable[Concatenate[OutputDir, P], R]:
    """Turn a method of `RecordedResults` into a method of `OutputDir` that one thread at a time runs."""

    @wraps(method)
    def call(output_dir: OutputDir, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with output_dir._lock:
            return method(output_dir._known, *args, **kwargs)

    return call


#: An action, and the contents of its inputs and outputs.
_Made = tuple[Action, tuple[str, ...]]


class OutputDir:
    """The outputs in ``directory``.

    ``roots`` are the directories that names in records are relative to. ``watcher`` is the library that observes tools;
    without one, nothing that is built can be proven. ``searched`` is the PATH of all commands, ``looker`` reads the
    metadata of many files. Methods may be called from several threads.
    """

    def __init__(
        self,
        directory: Path,
        store: Store,
        roots: Mapping[str, str | Path],
        watcher: Path | None,
        searched: str = "",
        looker: Looker | None = None,
    ) -> None:
        self.directory = directory
        self._looker = looker or Looker()
        self._store = store
        self._watcher = watcher
        self._known = RecordedResults(directory, Roots({**roots, "out": directory}, searched), self._looker)
        self._lock = threading.RLock()
        self._waiting: dict[str, WaitingAction] = {}  # by the names of actions
        self._made: dict[str, _Made] = {}  # in this run, without a watcher; by the names of actions
        self._work = WorkDirectories(directory)

    def path(self, name: str) -> Path:
        """Return the path of an output."""
        return self.directory / name

    def word(self, name: str) -> str:
        """Return the path of an output as text for a command line."""
        return self._known.path(name)

    reason = _one_at_a_time(RecordedResults.reason)
    printed = _one_at_a_time(RecordedResults.printed)
    contents = _one_at_a_time(RecordedResults.contents)
    read_files = _one_at_a_time(RecordedResults.read_files)
    amend = _one_at_a_time(RecordedResults.amend)
    save = _one_at_a_time(RecordedResults.save)

    def rest(self) -> None:
        """Forget recent checks of files, and the outputs that were made without a watcher."""
        with self._lock:
            self._known.forget_looks()
            self._made.clear()

    def proven(self, action: Action) -> Result | None:
        """Return the result of ``action`` if it is recorded and its inputs and outputs are unchanged; else None.

        It is None too if another workspace has failed on the same inputs since.
        """
        with self._lock:
            result = self._known.proven(action)
        return None if result is None or self._is_withdrawn(action, result.key) else result

    def all_proven(self, actions: Sequence[Action], repeated: bool = False) -> list[bool]:
        """For each action, return True if it is proven. ``repeated`` is True if the caller will ask for the same
        actions again.
        """
        with self._lock:
            proven, results = self._known.all_proven(actions, repeated), self._known.record.results
            return [
                is_proven and not self._is_withdrawn(action, results[action.name].key)
                for action, is_proven in zip(actions, proven, strict=True)
            ]

    def _is_withdrawn(self, action: Action, key: str) -> bool:
        """Return True if the store records that the action failed.

        Only runs, whose results are trees, are checked; a compiler's output stays valid.
        """
        return bool(action.tree) and action.shared and self._store.is_withdrawn(key)

    def may_differ(self, paths: Iterable[Path]) -> bool:
        """Return True if the identity of one of these files differs from the last read.

        An exact check may still find equal content.
        """
        with self._lock:
            digests = self._known.digests
            files = list(map(str, paths))
            looks = unpack(self._looker.look(Paths(files)))
            return any(digests.seen(path) != now for path, now in zip(files, looks, strict=True))

    def renew(self, store: Store) -> None:
        """In a forked process, read the current record, switch to ``store``, and forget earlier checks of files."""
        with self._lock:
            self._store = store
            self._work.forget()
            self._known.renew()
            self._made.clear()

    def tidy(self) -> None:
        """Remove files left by killed runs. The caller makes sure that no other run works here."""
        self._work.tidy()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exclude other processes while the block runs. Results that they have recorded are read first."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with locked(self.directory / ".lock"):
            with self._lock:
                self._known.load()
            yield

    def perform(
        self,
        action: Action,
        spawn: Spawn,
        begin: Callable[[], Sequence[Helper] | None],
        *,
        repeated: bool = False,
        record: bool = True,
        looked: bool = False,
        forks: Forks | None = None,
    ) -> Outcome:
        """Make the outputs of ``action`` match its inputs: keep, restore or build them.

        ``begin`` is called before the command runs, and returns helpers that make it faster. ``repeated`` runs the
        command even if its result is proven. Without ``record`` nothing is recorded. ``looked`` says that the caller
        has just found the action not proven. ``forks`` is the fork server that ``spawn`` may use.
        """
        if not repeated:
            with span(f"look at {action.name}"):
                if (not looked and self.proven(action)) or self._was_made(action):
                    return Outcome("kept")
            with span(f"look in the store for {action.name}"):
                if (printed := self._restore(action)) is not None:
                    return Outcome("restored", printed=printed)
        with span(f"begin {action.name}"):
            helpers = begin() or ()
        outcome, links = Outcome("failed", _UNSTABLE), dict[str, str]()
        for number in range(_ATTEMPTS):
            last = number == _ATTEMPTS - 1
            outcome, unstable = self._build(action, spawn, helpers, record, forks, links, last)
            if not unstable:
                return outcome
            if forks:  # what it has read may be what changed
                forks.close()
            # A run in another environment may have made one anew; without it, it takes longer and comes to the same.
            helpers = [helper for helper in helpers if helper.needed]
            time.sleep(TICK_S)  # else what changed last would look as if it changed during the next attempt
        return replace(outcome, note=f"{unstable} kept changing meanwhile; run it again")

    def _was_made(self, action: Action) -> bool:
        """Return whether this run made the outputs without a watcher, and inputs and outputs are unchanged since."""
        made = self._made.get(action.name)
        if made is None or made[0] != action:
            return False
        with self._lock:
            return made == self._made_of(action)

    def _made_of(self, action: Action) -> _Made:
        paths = [*action.inputs, *map(self._known.path, action.outputs)]
        return action, tuple(digest for _, digest in self._known.digests.identities_and_digests(paths))

    def file_digests(self, paths: Sequence[str]) -> list[str]:
        """Return the digest of each file, with its permissions if these are unusual; empty for a path that is not a
        file.
        """
        with self._lock:
            return self._known.digests.inputs(paths)

    def prestart(self, action: Action, start: Start) -> None:
        """Start a waiting process for an action that will most likely run, unless one waits already."""
        before = self._waiting.get(action.name)
        if before is not None and before.action == action:
            return
        self._cancel_waiting(action.name)
        started, work = time.time_ns(), self._work.take()
        process = start(action.command(), self._environment(action, work))
        self._waiting[action.name] = WaitingAction(action, work, started, process)

    def watched_environment(self, action: Action) -> dict[str, str]:
        """Return the environment of a watched command, without its directory and its log."""
        return self._environment(action, self.directory)

    def close(self) -> None:
        """End the unused processes, and remove the working directories of commands."""
        for name in list(self._waiting):
            self._cancel_waiting(name)
        self._work.remove()

    def _cancel_waiting(self, name: str) -> None:
        unused = self._waiting.pop(name, None)
        if unused is not None:
            unused.process.cancel()
            shutil.rmtree(unused.work, ignore_errors=True)

    # From the store

    def _restore(self, action: Action) -> str | None:
        """Restore the outputs from the store; return the output of the command, or None if the store lacks the
        result.
        """
        if not action.shared or not (action.outputs or action.tree):
            return None
        with self._lock:
            key = self._known.state(action).key
        for payload in self._store.find(key):
            result = decoded(payload, Result)
            sets = self._sets_of(result) if result else None
            if result is None or sets is None:
                continue
            with self._lock:
                self._known.record.sets.update(sets)
                if not self._known.holds(result):
                    continue
            if not result.good:
                return None
            if self._fetch(action, result, sets):
                return result.printed
        return None

    # The store may be far away: nothing is asked of it while the lock is held.

    def _sets_of(self, result: Result) -> dict[str, InputSet] | None:
        """Return the input sets of a result from the store; None if one is missing.

        They are added to the record each time the lock is taken, because saving drops sets that no recorded result
        names.
        """
        with self._lock:
            sets = {number: inputs for number in result.sets if (inputs := self._known.record.sets.get(number))}
        for number in result.sets:
            stored = None if number in sets else decoded(self._store.read(number), InputSet)
            if stored is not None:
                sets[number] = stored
        return sets if len(sets) == len(set(result.sets)) else None

    def _fetch(self, action: Action, result: Result, sets: dict[str, InputSet]) -> bool:
        """Restore the outputs of a result and record it; on failure, change nothing."""
        if not all(map(_is_inside, result.outputs)):
            return False
        with self._lock:
            missing = {name: digest for name, digest in result.outputs.items() if self._known.digest(name) != digest}
        contents: dict[str, bytes] = {}
        for name, digest in missing.items():
            data = self._store.read(digest)
            if data is None:
                return False
            contents[name] = data
        with self._lock:
            stale = set(self._known.files_below(action.tree) if action.tree else ()) - result.outputs.keys()
            for name in stale:
                remove_below(self.directory, name)
            for name, data in contents.items():
                write_below(self.directory, name, data)
            self._known.record.sets.update(sets)
            self._known.note(action.name, result)
        return True

    def _publish(self, result: Result, contents: Sequence[bytes]) -> None:
        sets = [inputs.encode() for inputs in self._known.contents(result)]
        self._store.publish(result.key, msgspec.msgpack.encode(result), [*sets, *contents])

    # Building

    def _build(
        self,
        action: Action,
        spawn: Spawn,
        helpers: Sequence[Helper],
        record: bool,
        forks: Forks | None,
        links: dict[str, str],
        last: bool,
    ) -> tuple[Outcome, str]:
        """Run the action once; return the outcome, and an input that changed during the run."""
        ahead = self._waiting_for(action, helpers)
        with self._lock:
            seen, state = self._known.read_inputs(action)
            self._clear(action)
            if not (action.outputs or action.tree):
                # Its output is not checked afterwards, so the earlier result must not survive a killed run.
                self._known.doubt(action.name)
                self._known.save()
            started = ahead.started if ahead else time.time_ns()
        work = ahead.work if ahead else self._work.take()
        try:
            command, environment = action.command(helpers), self._environment(action, work)
            since = ahead.process.since if ahead else forks.since(environment) if forks else 0
            with span(f"run {action.name}", "command"):
                ended = ahead.process.go() if ahead else None
                status, printed = ended or spawn(command, environment)
            with self._lock, span(f"judge {action.name}"):
                private = [str(work), *self._private(action, helpers), *(forks.directories if forks else ())]
                account = read_account(work / "log", command, private)
                since, waited = since or started, ahead is not None
                attempt = _Attempt(action, helpers, seen, state, account, started, record, since, waited, links, last)
                return self._judge(attempt, status, printed)
        finally:
            self._work.leave(work)

    def _waiting_for(self, action: Action, helpers: Sequence[Helper]) -> WaitingAction | None:
        """Return the waiting process for exactly this action; None if there is none."""
        ahead = self._waiting.get(action.name)
        if ahead is None or ahead.action != action or helpers:
            return None
        return self._waiting.pop(action.name)

    def _clear(self, action: Action) -> None:
        for name in action.outputs:
            remove_below(self.directory, f"{name}.tmp")
        if action.tree:
            with directory_below(self.directory, action.tree):
                pass

    def _environment(self, action: Action, work: Path) -> dict[str, str]:
        environment = {**action.environment, "TMPDIR": str(work)}
        if self._watcher is not None:
            variable = TEST_VARIABLE if action.whole else VARIABLE
            environment |= {"LD_PRELOAD": str(self._watcher), variable: str(work / "log")}
        return environment

    def _private(self, action: Action, helpers: Sequence[Helper]) -> Iterator[str]:
        """Yield the paths whose files are not inputs: directories of helpers and outputs, and the action's private
        paths.
        """
        yield from (os.path.dirname(helper.path) for helper in helpers)
        yield from action.private
        if self._watcher is not None:  # whose name tells which compiler made it
            yield str(self._watcher)
        if action.tree:
            yield str(self.directory / action.tree)

    def _judge(self, attempt: _Attempt, status: int, printed: str) -> tuple[Outcome, str]:
        """Return the outcome of an attempt, and an input that changed during it. Record the result only if all its
        inputs are certain.
        """
        action = attempt.action
        reads_main = not action.main or action.main in attempt.account.files
        if action.python:
            if action.foreign and (stale := remove_stale_bytecode(attempt.account)):
                return Outcome("failed", _UNSTABLE, printed), stale
            attempt.account.leave_out(attempt.seen)  # thousands of libraries, which are looked at as what they are
            attempt = replace(attempt, account=of_python(attempt.account, action.foreign))
        untold = self._untold(attempt, reads_main)
        changed, excuse = self._changed_meanwhile(attempt)
        untold = untold or excuse
        if status not in action.good:
            if attempt.record:
                self._note_failure(attempt, certain=not (untold or changed))
            return Outcome("failed", status, printed), ""
        if missing := next((name for name in self._needed(action) if not (self.directory / name).is_file()), ""):
            self._known.drop(action.name)
            what = os.path.basename(missing).removesuffix(".tmp")
            what += f" of {os.path.basename(action.main)}" if action.main else ""
            return Outcome("failed", 1, f"{printed}error: {action.argv[0]} wrote no {what}\n"), ""
        outputs = self._take(action)
        if changed:
            return Outcome("failed", _UNSTABLE, printed), changed
        if untold or not attempt.record:
            self._known.drop(action.name)
            if untold == _UNWATCHED and attempt.record and action.outputs and not action.tree:
                self._made[action.name] = self._made_of(action)
            note = f"{untold}, so it is made again every time" if untold not in ("", _UNWATCHED) else ""
            return Outcome("built", status, printed, note), ""
        self._note_success(attempt, self._result(attempt, outputs, printed))
        return Outcome("built", status, printed), ""

    def _needed(self, action: Action) -> Iterator[str]:
        """Yield the files that an action must write."""
        yield from (f"{name}.tmp" for name in action.outputs)
        if action.leaves:
            yield action.leaves

    def _untold(self, attempt: _Attempt, reads_main: bool) -> str:
        """Return why the tool's inputs are not fully known; empty if they are."""
        action, account = attempt.action, attempt.account
        if self._watcher is None:
            return "" if action.assumed else _UNWATCHED
        if account.unseen:
            return f"{account.unseen} cannot be watched"
        # The libraries of our own tools are identified by their installations.
        programs = account.programs if action.python else account.programs | account.loaded
        if past := next((path for path in sorted(programs) if self._known.digests.of(path + CALLS) == OWN_CALLS), ""):
            return f"{past} makes system calls of its own and cannot be watched"
        if changed := sorted(path for path in account.changed if not self._is_own(action, path)):
            return f"{action.name} reads and changes {changed[0]}"
        if not reads_main:
            return f"{action.argv[0]} was not seen to read {action.main}"
        return ""

    def _is_own(self, action: Action, path: str) -> bool:
        """Return True if a file is an output of an action. Tools of this package own every file below the output
        directory.
        """
        if not path.startswith(os.path.join(self.directory, "")):
            return False
        name = os.path.relpath(path, self.directory)
        return action.python or name.removesuffix(".tmp") in action.outputs

    def _changed_meanwhile(self, attempt: _Attempt) -> tuple[str, str]:
        """Return an input that changed during the action, and why one looked changed that did not; empty if none did.

        A hard link cannot be told from an edit that is put back with its old time, nor mounts of a tool's own from
        directories that are exchanged. So the action runs again. In the last attempt, a file
        that holds the same as after the attempt before has only got a link.
        """
        changes = list(self._changes(attempt))
        links = {change.path: self._known.digests.of(change.path) for change in changes if change.only_status}
        reasons = {
            path: f"links to {path} are made all the time"
            for path, digest in links.items()
            if attempt.links.get(path) == digest
        }
        attempt.links.update(links)
        if attempt.account.has_own_mounts:
            hidden = filter(partial(self._is_settled, attempt), (change.path for change in changes))
            reasons |= {path: f"{path} is something else in the mounts of {attempt.action.argv[0]}" for path in hidden}
        changed = next((change.path for change in changes if not (attempt.last and change.path in reasons)), "")
        return changed, "" if changed else next((reasons[change.path] for change in changes), "")

    def _is_settled(self, attempt: _Attempt, path: str) -> bool:
        """Return True if what is at a path, or that nothing is there, is older than the attempt."""
        now = self._known.digests.identity_of(path)
        return now is None or not changed_since(now, attempt.since)

    def _changes(self, attempt: _Attempt) -> Iterator[_Change]:
        """Yield the inputs that changed during an attempt."""
        account, digests = attempt.account, self._known.digests
        for (path, seen), (now, digest) in zip(
            attempt.seen.items(), digests.identities_and_digests(list(attempt.seen)), strict=True
        ):
            recorded = account.read.get(path)
            if (now, digest) != (seen, attempt.state.declared[self._known.roots.name(path)]):
                yield _Change(path, _only_status(path, seen, now))
            elif recorded and any(recorded) and recorded != now:
                yield _Change(path)
        for path in account.files - attempt.seen.keys():
            if path.rstrip("/") in account.changed:
                continue  # by the command, of which nothing is recorded
            now, recorded = digests.identity_of(path), account.read.get(path)
            if now is None or (recorded and any(recorded) and recorded != now):
                yield _Change(path, _only_status(path, recorded, now))
                continue
            earlier = path in account.earlier
            is_seen = digests.knows(path, now) and not (attempt.waited or earlier)
            since = attempt.since if earlier else attempt.started
            if changed_since(now, since) and not is_seen:
                yield _Change(path, _only_status(path, now, now) and not written_since(now, since))
        for question, answer in account.answers.items():
            if answer and subject(question) not in account.changed and digests.of(question) != answer:
                yield _Change(subject(question))
        yield from (_Change(helper.path) for helper in attempt.helpers if digests.of(helper.path) != helper.digest)
        yield from map(_Change, sorted(account.unsteady))
        # The declared inputs, which a process that was started ahead may have missed, have been checked above.
        yield from (_Change(path) for path in account.absent - attempt.seen.keys() if not is_absent(path))

    def _take(self, action: Action) -> dict[str, str]:
        """Rename finished outputs to their final names; return their digests by name."""
        if action.tree:
            return {name: self._known.digest(name) for name in self._known.files_below(action.tree)}
        digests = {}
        for name in action.outputs:
            path = str(self.directory / name)
            digests[name] = self._known.digests.of(f"{path}.tmp")
            replace_below(self.directory, f"{name}.tmp", name)
        return digests

    def _result(self, attempt: _Attempt, outputs: dict[str, str], printed: str, good: bool = True) -> Result:
        state = attempt.state
        names = sorted(self._names_seen(attempt))
        files = dict(zip(names, self._known.inputs(names), strict=True))
        # Files whose names begin with those of the unit's own inputs get a set of their own: units share the other.
        mine = {name: files.pop(name) for name in list(files) if name.startswith(tuple(state.declared))}
        parts = (mine, *(_by_directory(files) if attempt.action.whole else (files,)))
        seen = (InputSet(tuple(sorted(part.items()))) for part in parts if part)
        sets = [*seen, *(contents for helper in attempt.helpers for contents in helper.contents)]
        numbers = tuple(dict.fromkeys(map(self._known.learn, sets)))
        return Result(state.key, state.declared, state.settings, state.words, numbers, outputs, plain(printed), good)

    def _names_seen(self, attempt: _Attempt) -> set[str]:
        """Return the names of all files that a tool was seen to read, miss or query, without its declared inputs."""
        account, roots = attempt.account, self._known.roots
        files, questions = account.files - attempt.seen.keys(), self._questions(attempt)
        searches = roots.searches(account.executed)
        programs = set(searches.values())
        every = "" if attempt.action.python else NAMES  # what lies beside the files of our own tools says nothing
        names = {roots.name(path + every if path.endswith(LISTING) else path) for path in files - programs}
        names |= {roots.name(question) for question in questions if subject(question) not in programs}
        names.update(*(roots.names_missed(path, searches) for path in account.absent))
        names |= set(map(roots.name_searched, searches))
        there = {*files, *map(subject, questions)}
        return names | roots.names_looked_for(there, account.absent, there | account.absent)

    def _questions(self, attempt: _Attempt) -> set[str]:
        """Return a tool's questions, without those that have the same answer in every workspace.

        These are whether a directory above outputs and named directories is one, and all questions about files that
        this program builds.
        """
        roots, digests = self._known.roots, self._known.digests
        answers = {question: answers or digests.of(question) for question, answers in attempt.account.answers.items()}
        return {
            question
            for question, answers in answers.items()
            if not roots.name(question).startswith(OURS)
            and not (answers.startswith("directory ") and roots.holds(subject(question)))
        }

    def _note_success(self, attempt: _Attempt, result: Result) -> None:
        """Record a result here, and in the store if the action is shared. A result that names directories is marked
        as such.
        """
        paths = [self.directory / name for name in result.outputs]
        size = sum(path.lstat().st_size for path in paths)
        most = self._store.largest if attempt.action.shared else _MOST_SEARCHED
        fits = size <= most and not (attempt.action.shared and any(map(Path.is_symlink, paths)))
        contents = [self._known.content(name) for name in result.outputs] if fits else []
        if list(map(bytes_digest, contents)) != list(result.outputs.values()):
            result.located = self._known.roots.all  # too large, a link, or changed meanwhile
            self._known.note(attempt.action.name, result)
            return
        result.located = self._known.roots.named_in(contents)
        self._known.note(attempt.action.name, result)
        if attempt.action.shared:
            self._publish(result, contents)

    def _note_failure(self, attempt: _Attempt, certain: bool) -> None:
        """Record that the action failed on these inputs: here, and in the store if the inputs are ``certain``.

        An earlier good result on the same inputs no longer counts.
        """
        failed = self._result(attempt, {}, "", good=False)
        self._known.note(attempt.action.name, failed)
        if not (certain and attempt.action.shared):
            return
        if any(map(_is_good, self._store.find(failed.key))):
            self._publish(failed, [])
        if attempt.action.tree:
            self._store.withdraw(failed.key)


def _only_status(path: str, before: Identity | None, now: Identity | None) -> bool:
    """Return True if a file's two identities differ at most in the time of status change."""
    return bool(before and now and before[:-1] == now[:-1]) and not path.endswith(LISTING)


def _by_directory(files: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield inputs grouped by directory, because tests share most directories unchanged."""
    parts: dict[str, dict[str, str]] = {}
    for name, digest in files.items():
        parts.setdefault(os.path.dirname(name.rstrip(LISTING)), {})[name] = digest
    yield from parts.values()


def _is_good(payload: bytes) -> bool:
    result = decoded(payload, Result)
    return result is not None and result.good


def _is_inside(name: str) -> bool:
    return not os.path.isabs(name) and ".." not in name.split("/")
