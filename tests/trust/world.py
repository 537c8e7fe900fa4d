"""A workspace in which steps are done, one at a time, and compared with the oracle wherever a replay ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.trust.commands import Command, Done, wait_for
from tests.trust.compilers import Holding, put_probe, write_asking, write_compiler
from tests.trust.damage import damage, files_of, remove
from tests.trust.oracle import Answer, Oracle
from tests.trust.resident import Resident
from tests.trust.sources import (
    CHAIN_OPTIONS,
    CHAIN_SOURCES,
    MODULE_OPTIONS,
    RANKS_OPTIONS,
    Source,
    module_sources,
    ranks_sources,
)
from tests.trust.space import (
    KERNELS,
    PASS,
    USAGE,
    Outcome,
    Replayed,
    Space,
    contradictions,
    write_chain,
    write_module,
    write_ranks,
)
from tests.trust.tested import Tested, tree_digest

#: A step: its name, and what it is done with. It can be written as JSON, and read again.
Step = tuple[str, dict[str, Any]]

_DOUBLED = """


_as_it_was = PtTensor.contiguous


def _doubled(self):
    import array

    values = array.array("f", bytes(_as_it_was(self)))
    return memoryview(array.array("f", [value * 2 for value in values]).tobytes())


PtTensor.contiguous = _doubled
"""
PACKAGES = {
    "own": {},
    "reader": {"artifact/pt.py": _DOUBLED},
    "comment": {"replay/compare.py": "\n# a comment\n", "artifact/pt.py": "\n# a comment\n"},
    "header": {"runtime/include/pto/pto-inst.hpp": "\n#define EXTRA\n"},
}
#: Variables that decide about no result, or that keys have.
SURROUNDINGS = ("HOME", "TERM", "COLUMNS", "PYPTO_X", "XDG_X", "PTO2_RING_HEAP")
_RUNS_S = 100.0
_LATER_S = 10
_NOTICED_S = 60.0


class Fault(Exception):
    """A result differs from that of a fresh build, or contradicts itself."""


@dataclass
class World:
    """The workspace, the cache, and what was kept of both on the way."""

    tested: Tested
    directory: Path
    kind: str
    oracle: Oracle
    replays: int = 0
    _kept: list[Path] = field(default_factory=list)
    _undo: list[tuple[Path, bytes | None]] = field(default_factory=list)
    _digests: dict[str, str] = field(default_factory=dict)
    _links: int = 0
    damaged: bool = False  # since the last replay
    in_the_way: list[Path] = field(default_factory=list)  # directories where files belong, which no build removes

    def __post_init__(self) -> None:
        self.tested = self.tested.with_own_package(self.directory / "package").with_forks()
        self.package = "own"
        self._digests["own"] = tree_digest(self._package_dir, ("__pycache__",))
        cache = self.tested.new_cache(self.directory / "cache", is_kept=True)
        self.space = Space(self.directory / "w", self.tested, cache)
        if self.kind == "module":
            write_module(self.space)
            texts = [(self.space.artifact / path).read_text() for path in ("ptoas/add.pto", f"{KERNELS}/add.cpp")]
            self.sources: dict[str, Source] = module_sources(*texts)
            self.options: dict[str, tuple[str, ...]] = MODULE_OPTIONS
        elif self.kind == "ranks":
            write_ranks(self.space)
            self.sources, self.options = ranks_sources(self.space.artifact), RANKS_OPTIONS
        else:
            write_chain(self.space)
            self.sources, self.options = CHAIN_SOURCES, CHAIN_OPTIONS
            self._write_compiler()
        for source in self.sources.values():
            content = next(iter(source.variants.values()))
            if content is not None and not (self.space.root / source.path).exists():
                self.space.write(source.path, content)

        self.resident = Resident(self.space)

    def close(self) -> None:
        """End what goes on between the steps."""
        self.resident.end()
        self._end_forks()

    def _end_forks(self) -> None:
        if self.tested.forks:
            self.tested.forks.close()

    @property
    def _package_dir(self) -> Path:
        return self.directory / "package" / "pypto_build"

    def _write_compiler(self) -> None:
        """A compiler that is a script, with flags in a file that the script reads; and a link to switch."""
        body = 'exec g++ $(cat "$(dirname "$0")/flags") "$@"'
        write_compiler(self.space, self.space.root / "tools" / "my-g++", body)
        write_asking(self.space)
        (self.space.artifact / KERNELS / "linked").symlink_to("../../../../ext/a")

    def do(self, step: Step) -> None:
        """Do one step.

        Raises:
            Fault: what a replay said is wrong.
        """
        name, arguments = step
        method: Callable[..., None] = getattr(self, f"step_{name}")
        method(**arguments)

    def holds(self, file: str, variant: str) -> bool:
        """Return True if a file has the content of this variant."""
        source = self.sources[file]
        path = self.space.root / source.path
        return (path.read_bytes() if path.exists() else None) == source.variants[variant]

    # edits

    def step_edit(self, file: str, variant: str, how: str = "write", keep_time: bool = False) -> None:
        """Let a file hold something else: written in place, by a rename, or as a link of some kind."""
        source = self.sources[file]
        path, content = self.space.root / source.path, source.variants[variant]
        before = path.stat() if path.exists() else None
        self._undo.append((path, path.read_bytes() if before else None))
        self._put(path, content, how)
        if self.kind == "module":
            self._set_module_time(path, variant)
        elif keep_time and before and content is not None:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def step_probe(self, state: str) -> None:
        """Let what a compiler asks for be something else."""
        put_probe(self.space.root, state)

    def step_path(self, first: str) -> None:
        """Let another program come first on PATH, or none."""
        outside = self.tested.environment(self.space.cache)["PATH"]
        directories = [f"{self.space.root}/asked/in_{name}" for name in first.split()]
        self.space.variables["PATH"] = ":".join([*directories, outside])

    def step_surroundings(self, variables: dict[str, str]) -> None:
        """Let commands see other variables."""
        for name in SURROUNDINGS:
            self.space.variables.pop(name, None)
        self.space.variables |= variables

    def step_select(self, what: str) -> None:
        """Select what names nothing, or what is both a directory's name and a glob that matches another one."""
        if what != "exact":
            self.space.write("nothing.txt", "# nothing\n")
            done = self.space.scons("replay", f"JIT={what}", longest_s=_RUNS_S)
            if done.status != USAGE or done.late:
                raise Fault(f"JIT={what} is no usage error\n{done}")
            return
        name = self.space.name.replace("_jit_", "_jit_[") + "]"
        copy, out = self.space.artifact.with_name(name), self.space.out.with_name(name)
        shutil.copytree(self.space.artifact, copy, symlinks=True)
        try:
            done = self.space.scons("replay", f"JIT={name}", longest_s=_RUNS_S)
            verdict = out / "verdict.json"
            if done.late or not (verdict.is_file() or ((self.damaged or self.in_the_way) and done.status)):
                raise Fault(f"JIT={name} replays something else\n{done}")
        finally:
            shutil.rmtree(copy)
            shutil.rmtree(out, ignore_errors=True)

    def _put(self, path: Path, content: bytes | None, how: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink(missing_ok=True)
        elif how == "write":
            path.write_bytes(content)
        elif how == "rename":
            partial = path.with_name(f"{path.name}.new")
            partial.write_bytes(content)
            partial.replace(path)
        else:
            self._links += 1
            target = self.space.write(f"pool/{self._links}", content)
            path.unlink(missing_ok=True)
            if how == "link":
                path.hardlink_to(target)
            else:
                path.symlink_to(os.path.relpath(target, path.parent))

    @staticmethod
    def _set_module_time(path: Path, variant: str) -> None:
        """Time counts at the first look at a module: one that is as it was is as old as it was."""
        modified = 1_600_000_000 + (0 if variant == "right" else _LATER_S)
        os.utime(path, (modified, modified))

    def step_rename(self, file: str, to: str) -> None:
        """Move one file over another."""
        old, new = (self.space.root / self.sources[name].path for name in (file, to))
        if old.exists():
            new.parent.mkdir(parents=True, exist_ok=True)
            old.replace(new)

    def step_undo(self) -> None:
        """Undo the last edit."""
        if self._undo and self.kind != "module":
            path, content = self._undo.pop()
            self._put(path, content, "rename")

    def step_touch(self, new: bool) -> None:
        """Give every source another time."""
        if self.kind != "module":
            modified = time.time() if new else 1_000_000_000
            for path in files_of(self.space.root, ("build",)):
                os.utime(path, (modified, modified))

    def step_switch(self, target: str) -> None:
        """Let the link to a directory of headers lead elsewhere."""
        if self.kind == "chain":
            link = self.space.artifact / KERNELS / "linked"
            link.unlink()
            link.symlink_to(f"../../../../ext/{target}")

    def step_package(self, version: str) -> None:
        """Change the code that is tested, as an upgrade would."""
        self._end_forks()
        for path in {path for files in PACKAGES.values() for path in files}:
            shutil.copy2(self._original(path), self._package_dir / path)
            with (self._package_dir / path).open("a", encoding="utf-8") as file:
                file.write(PACKAGES[version].get(path, ""))
        self.package = version
        if version not in self._digests:
            self._digests[version] = tree_digest(self._package_dir, ("__pycache__",))

    def _original(self, path: str) -> Path:
        """A copy of a file of the package as it was at first."""
        kept = self.directory / "original" / path
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._package_dir / path, kept)
        return kept

    # attacks

    def _area(self, area: str) -> Path:
        return self.space.out if area == "out" else self.space.cache

    def files(self, area: str) -> list[str]:
        """The files of OUT or of the cache, except the runtime's module, which is shared."""
        root = self._area(area)
        return [str(path.relative_to(root)) for path in files_of(root, ("runtime",) if area == "cache" else ())]

    def step_damage(self, area: str, file: str, kind: str) -> None:
        """Damage one file of OUT or of the cache."""
        path = self._area(area) / file
        if path.is_file() and not path.is_symlink():
            damage(path, kind)
            self.damaged = True
            self.in_the_way += [path] if kind == "directory" else []

    def step_keep(self) -> None:
        """Keep OUT and the cache as they are now."""
        copy = self.directory / f"kept{len(self._kept)}"
        for area in ("out", "cache"):
            if self._area(area).exists():
                ignored = shutil.ignore_patterns("runtime") if area == "cache" else None
                shutil.copytree(self._area(area), copy / area, symlinks=True, ignore=ignored, copy_function=_copy)
        self._kept.append(copy)

    def step_restore(self, number: int, area: str, file: str = "") -> None:
        """Put back what was kept: all of OUT or of the cache, or one file."""
        if number >= len(self._kept) or not (self._kept[number] / area).exists():
            return
        root, kept = self._area(area), self._kept[number] / area
        if file and (kept / file).is_file():
            if (root / file).parent.is_dir():
                remove(root / file)
                shutil.copy2(kept / file, root / file)
        elif not file:
            self.step_delete(area)
            shutil.copytree(kept, root, symlinks=True, dirs_exist_ok=True)
        self.damaged = True

    def step_delete(self, area: str, file: str = "") -> None:
        """Delete all of OUT or of the cache, or one file."""
        root = self._area(area)
        for path in [root / file] if file else list(root.iterdir()) if root.exists() else []:
            if path.name != "runtime":
                remove(path)
        self.damaged = True

    def _clear_the_way(self) -> None:
        while self.in_the_way:
            remove(self.in_the_way.pop())

    # runs

    def step_replay(self, option: str = "plain") -> None:
        """Replay, and compare with the oracle."""
        options = self.options[option]
        replayed = self._replay(self.space, options)
        answer = self._answer(options)
        if replayed.outcome != answer.outcome and (self.damaged or self.in_the_way) and said_so(replayed):
            self._clear_the_way()
            replayed = self._replay(self.space, options)  # one clear line is allowed, not for ever
        self.damaged = False
        self._compare(replayed, answer)

    def step_resident(self, option: str = "plain") -> None:
        """A replay that the resident process does, which was there before the last edits."""
        options = self.options[option]
        answer = self._answer(options)
        for again in (False, True):
            self.replays += 1
            replayed = self.space.outcome_of(self.resident.replay(*self._given(options), longest_s=_RUNS_S))
            if faults := contradictions(replayed):
                raise Fault(f"{'; '.join(faults)}\n{replayed.done}")
            if again or replayed.outcome == answer.outcome or not (self.damaged or self.in_the_way):
                break
            self._clear_the_way()
        self.damaged = False
        self._compare(replayed, answer)

    def step_watch(self, option: str, edits: Sequence[tuple[str, str]]) -> None:
        """Edits under ``WATCH=1``, each of which is judged as a fresh build judges it."""
        self.step_replay(option)
        options = self.options[option]
        words = ["replay", f"JIT={self.space.name}", "WATCH=1", *self._given(options)]
        command = self.space.start_scons(*words)
        try:
            if not wait_for(lambda: _rounds(command) or not command.running):
                raise Fault(f"WATCH=1 does not watch\n{command.output}")
            for file, variant in edits:
                seen = _rounds(command)
                self.step_edit(file, variant, how="rename")
                wait_for(lambda: _rounds(command) > seen or not command.running, _NOTICED_S)  # noqa: B023
                self._judge_round(command, options)
        finally:
            command.send(signal.SIGINT)
            done = command.end(_RUNS_S)
        if done.late or done.left:
            raise Fault(f"WATCH=1 does not end\n{done}")

    def _judge_round(self, command: Command, options: Sequence[str]) -> None:
        """That the last round, and the verdict on disk, say what a fresh build says."""
        answer = self._answer(options)
        passed = any(line.startswith("[RUN] PASS") for line in _last_round(command))
        status = (self.space.verdict() or {"status": ""})["status"]
        expected = answer.outcome.status or ("usage_error" if answer.outcome.exit == USAGE else "")
        if passed != (answer.outcome.exit == PASS) or status != expected:
            raise Fault(_report("a round of WATCH=1", Outcome(-1, status), command.output, answer))

    def step_scons(self, option: str = "plain", handed: bool = False) -> None:
        """``scons replay``, whose status is 0 or 2; ``handed`` over to a resident process, or alone."""
        options, scons = self.options[option], self.resident.scons if handed else self.space.scons
        done = scons("replay", f"JIT={self.space.name}", *self._given(options), longest_s=_RUNS_S)
        self.replays += 1
        answer = self._answer(options)
        if (done.status == 0) != (answer.outcome.exit == PASS) or done.late:
            if (self.damaged or self.in_the_way) and done.status and not done.late:
                return self.step_replay(option)
            raise Fault(_report("scons replay", Outcome(done.status), str(done), answer))
        return None

    def step_killed(self, option: str, line: int, delay: float) -> None:
        """A replay that is killed after so many lines, and a moment."""
        seen: list[str] = []

        def see(text: str) -> bool:
            seen.append(text)
            if len(seen) > line:
                time.sleep(delay)
            return len(seen) > line

        done = self.space.run("replay", *self._given(self.options[option]), longest_s=_RUNS_S, see=see)
        if done.left or done.late:
            raise Fault(f"killed, and something goes on\n{done}")

    def step_twice(self, first: str, second: str, delay: float) -> None:
        """Two replays at once."""
        begun = []
        for option in (first, second):
            begun.append((option, self.space.start(*self._given(self.options[option]))))
            time.sleep(delay)
        ended = [(option, command.end(_RUNS_S)) for option, command in begun]
        self.replays += 2
        for option, done in ended:
            answer = self._answer(self.options[option])
            if done.late or (done.status != answer.outcome.exit and not (self.damaged or self.in_the_way)):
                raise Fault(_report("one of two at once", Outcome(done.status), str(done), answer))
        self.step_replay(second)

    def step_elsewhere(self, option: str, probe: str = "", name: str = "elsewhere") -> None:
        """The same sources in another directory, with the same cache; what a compiler asks for may be different."""
        options = self.options[option]
        other = self.space.fresh(self.directory / name, self.space.cache)
        try:
            if probe:
                put_probe(other.root, probe)
            replayed = self._replay(other, options)
            answer = self.oracle.ask(other, self._digests[self.package], options)
            if replayed.outcome != answer.outcome and (self.damaged or self.in_the_way) and said_so(replayed):
                self._clear_the_way()
                replayed = self._replay(other, options)
            self._compare(replayed, answer)
        finally:
            shutil.rmtree(other.root)

    def step_while_compiling(self, variant: str) -> None:
        """Edit a kernel while it compiles, and undo that before the compiler ends."""
        path = self.space.root / self.sources["twice"].path
        if not path.exists():
            return
        before, answer = path.read_bytes(), self._answer(())
        holding = Holding.write(self.space, self.directory / "holding", "twice")
        command = self.space.start(f"CXX={holding.program}")
        try:
            if holding.started(command):
                path.write_bytes(self.sources["twice"].variants[variant] or b"")
                holding.let_it_read()
                path.write_bytes(before)
                holding.let_it_end()
        finally:
            done = command.end(_RUNS_S)
        self.replays += 1
        if done.late or (done.status == PASS and answer.outcome.exit != PASS):
            raise Fault(_report("edited while it compiled, then undone", Outcome(done.status), str(done), answer))
        replayed = self._replay(self.space, (f"CXX={holding.program}",))
        if replayed.outcome != answer.outcome and self.in_the_way and said_so(replayed):
            self._clear_the_way()
            replayed = self._replay(self.space, (f"CXX={holding.program}",))
        self._compare(replayed, answer)

    def _given(self, options: Sequence[str], space: Space | None = None) -> list[str]:
        return [option.replace("{root}", str((space or self.space).root)) for option in options]

    def _answer(self, options: Sequence[str]) -> Answer:
        return self.oracle.ask(self.space, self._digests[self.package], options)

    def _replay(self, space: Space, options: Sequence[str]) -> Replayed:
        self.replays += 1
        done = space.run("replay", *self._given(options, space), longest_s=_RUNS_S)
        replayed = space.outcome_of(done)
        if faults := contradictions(replayed):
            raise Fault(f"{'; '.join(faults)}\n{done}")
        return replayed

    def _compare(self, replayed: Replayed, answer: Answer) -> None:
        if replayed.outcome != answer.outcome and not self._asks(replayed.done):
            raise Fault(_report("replay", replayed.outcome, str(replayed.done), answer))

    def _asks(self, done: Done) -> bool:
        """Return True if a replay asks which of two edits counts; the answer depends on the content before."""
        return self.kind == "module" and done.status == USAGE and "were both edited" in done.output


def _rounds(command: Command) -> int:
    """Return how often the command has waited for a save."""
    return sum(map(_waits, command.lines))


def _waits(line: str) -> bool:
    return line.startswith("[watch] ") and "waiting for a change" in line


def _last_round(command: Command) -> list[str]:
    """Return the output between the last two times that the command waited."""
    lines = list(command.lines)
    begins = [0, *(number for number, line in enumerate(lines) if _waits(line))]
    return lines[begins[-2] : begins[-1]] if len(begins) > 1 else lines


def _copy(source: str, target: str) -> None:
    """Copy what is a regular file; pipes and the like that damage left are not kept."""
    if os.path.isfile(source):
        shutil.copy2(source, target)


def said_so(replayed: Replayed) -> bool:
    """Return True if a replay of a damaged workspace failed and explained why."""
    words = re.search(r"^(scons: \*\*\* |pypto-build: |error: |\[RUN\] )\S", replayed.done.output, re.MULTILINE)
    return replayed.outcome.exit > 1 and words is not None


def _report(what: str, outcome: Outcome, log: str, answer: Answer) -> str:
    """Both verdicts and both logs."""
    return f"{what} says\n  {outcome}\na fresh build says\n  {answer.outcome}\n\n{log}\n\nfresh:\n{answer.log}"
