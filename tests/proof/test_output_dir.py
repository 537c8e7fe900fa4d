"""A place keeps, restores or makes what actions come to, and is wrong in none of these."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pypto_build.proof import Action, OutputDir, Store
from pypto_build.proof.action import Helper
from pypto_build.proof.digests import TICK_S, bytes_digest
from pypto_build.proof.record import MORE, RECORD
from pypto_build.proof.witness import VARIABLE
from pypto_build.toolchain.forked import EARLIER

Spawned = tuple[int, str]


class Rig:
    """A workspace with a source, a header that only the tool knows of, and the action that joins them."""

    def __init__(self, root: Path, watcher: Path | None, store: Store) -> None:
        self.root, self.out, self.watcher, self.store = root, root / "out", watcher, store
        self.ran: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.write("source", "one ")
        self.write("header", "h1 ")

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        past = time.time() - 100
        os.utime(path, (past, past))
        return path

    def output_dir(self) -> OutputDir:
        """A place as a new run opens it."""
        self.out.mkdir(exist_ok=True)
        return OutputDir(self.out, self.store, {"root": self.root}, self.watcher)

    def action(self, script: str = "cat source header; if test -e extra; then cat extra; fi") -> Action:
        argv = ("/bin/sh", "-c", f'cd "$0"; ({script}) > "$1"', str(self.root), str(self.out / "built.tmp"))
        source = str(self.root / "source")
        environment = {"PATH": os.environ["PATH"]}
        return Action("built", argv, (source,), ("built",), environment=environment, main=source)

    def spawn(self, command: list[str], environment: dict[str, str]) -> Spawned:
        self.ran.append(command[-1])
        self.meanwhile()
        run = subprocess.run(command, env=environment, capture_output=True, check=False)
        return run.returncode, os.fsdecode(run.stderr)

    def run(self, action: Action | None = None, **how: Any) -> str:
        """Perform the action in a new place; how it ended."""
        time.sleep(2 * TICK_S)  # what was written last is older than the run
        output_dir = self.output_dir()
        outcome = output_dir.perform(action or self.action(), self.spawn, tuple, **how)
        output_dir.save()
        output_dir.close()
        return outcome.how

    @property
    def built(self) -> str:
        return (self.out / "built").read_text()


@pytest.fixture
def rig(tmp_path: Path, watcher: Path) -> Rig:
    return Rig(tmp_path / "workspace", watcher, Store(tmp_path / "store"))


def test_made_once_then_kept(rig: Rig) -> None:
    assert [rig.run() for _ in range(3)] == ["built", "kept", "kept"]
    assert rig.built == "one h1 "
    assert sorted(path.name for path in rig.out.iterdir() if path.name != MORE) == [RECORD, "built"]


def test_a_tool_of_ours_has_a_main_input_too(rig: Rig) -> None:
    action = replace(rig.action(), python=True)
    assert [rig.run(action) for _ in range(2)] == ["built", "kept"]
    unread = replace(rig.action("cat source"), python=True, main=str(rig.write("unread", "")))
    assert [rig.run(unread) for _ in range(2)] == ["built", "built"]


@pytest.mark.parametrize("name", ["source", "header"])
def test_an_edit_and_back(rig: Rig, name: str) -> None:
    before = (rig.root / name).read_text()
    assert rig.run() == "built"
    rig.write(name, "new ")
    assert rig.run() == "built"
    assert "new " in rig.built
    rig.write(name, before)
    assert rig.run() == "restored"
    assert rig.built == "one h1 "


@pytest.mark.parametrize("seconds", [-(2**31), 15_000_000_000])
def test_times_of_all_centuries(rig: Rig, seconds: int) -> None:
    """As archives without a time have them, or a clock that was wrong."""

    def set_time() -> None:
        os.utime(rig.root / "source", (seconds, seconds))
        if (rig.root / "source").stat().st_mtime != seconds:
            pytest.skip("the file system has no such times")

    set_time()
    assert [rig.run() for _ in range(2)] == ["built", "kept"]
    rig.write("source", "new ")
    set_time()
    assert (rig.run(), rig.built) == ("built", "new h1 ")


def test_a_file_that_appears_where_it_was_looked_for(rig: Rig) -> None:
    assert rig.run() == "built"
    rig.write("extra", "more ")
    assert rig.output_dir().reason(rig.action()) == "extra is a new input"
    assert rig.run() == "built"
    assert rig.built == "one h1 more "
    (rig.root / "extra").unlink()
    assert rig.run() == "restored"


@pytest.mark.parametrize("record", ["kept", "lost", "damaged"])
@pytest.mark.parametrize("output", ["kept", "lost", "damaged"])
def test_records_and_outputs_may_be_lost(rig: Rig, record: str, output: str) -> None:
    assert rig.run() == "built"
    for path, fate in ((rig.out / ".results", record), (rig.out / "built", output)):
        if fate == "lost":
            path.unlink()
        elif fate == "damaged":
            path.write_bytes(path.read_bytes()[:-3] + b"xxx")
    assert rig.run() == ("kept" if record == output == "kept" else "restored")
    assert rig.built == "one h1 "
    shutil.rmtree(rig.out)
    assert rig.run() == "restored"


def test_an_old_state_put_back_by_hand(rig: Rig) -> None:
    assert rig.run() == "built"
    shutil.copytree(rig.out, rig.root / "saved")
    rig.write("header", "h2 ")
    assert rig.run() == "built"
    shutil.copy2(rig.root / "saved" / "built", rig.out / "built")
    assert (rig.run(), rig.built) == ("restored", "one h2 ")
    shutil.copy2(rig.root / "saved" / RECORD, rig.out / RECORD)  # what was added to it since is still there
    assert (rig.run(), rig.built) == ("kept", "one h2 ")
    (rig.out / MORE).unlink()
    assert (rig.run(), rig.built) == ("restored", "one h2 ")


@pytest.mark.parametrize("name", ["source", "header"])
@pytest.mark.parametrize("undone", [False, True])
def test_an_input_that_changes_meanwhile(rig: Rig, name: str, undone: bool) -> None:
    before, changes = (rig.root / name).read_text(), [1]

    def change() -> None:
        if changes:
            changes.pop()
            (rig.root / name).write_text("x")
            if undone:
                rig.write(name, before)

    rig.meanwhile = change
    assert rig.run() == "built"
    assert len(rig.ran) == 2  # the first time is not believed
    assert rig.built == ("one h1 " if undone else "".join("x" if n == name else f"{t} " for n, t in _TEXTS))
    assert rig.run() == "kept"


_TEXTS = (("source", "one"), ("header", "h1"))


class _Forks:
    """A process that has read the header at its start, and what it held then; `meanwhile` happens after that."""

    def __init__(self, rig: Rig, meanwhile: Callable[[], None]) -> None:
        self._rig, self._meanwhile = rig, meanwhile
        self._since, self._header = 0, ""
        self.directories: set[str] = set()

    def since(self, environment: Mapping[str, str]) -> int:
        if not self._since:
            self._since = time.time_ns()
            self._header = (self._rig.root / "header").read_text()
            self._meanwhile()
        return self._since

    def close(self) -> None:
        self._since, self._meanwhile = 0, lambda: None

    def spawn(self, command: list[str], environment: dict[str, str]) -> Spawned:
        """Write what the process knows, and tell that the header was read before."""
        self._rig.ran.append(self._header)
        (self._rig.out / "built.tmp").write_text((self._rig.root / "source").read_text() + self._header)
        seen = f"L\t{self._rig.root}/header\0{EARLIER.decode()}L\t{self._rig.root}/source\0"
        Path(environment[VARIABLE]).write_text(f"X\t1\t{os.path.realpath(command[0])}\0{seen}")
        return 0, ""


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_file_that_changes_after_the_process_has_read_it_that_is_forked(rig: Rig, is_seen: bool) -> None:
    def change() -> None:
        (rig.root / "header").write_text("h2 ")
        time.sleep(2 * TICK_S)
        if is_seen:  # by what another action has read
            output_dir.perform(replace(rig.action(), name="other"), rig.spawn, tuple)

    forks = _Forks(rig, change)
    time.sleep(2 * TICK_S)
    output_dir = rig.output_dir()
    outcome = output_dir.perform(rig.action(), forks.spawn, tuple, forks=forks)
    assert (outcome.how, rig.built) == ("built", "one h2 "), outcome
    assert [*filter("h1 ".__eq__, rig.ran), rig.ran[-1]] == ["h1 ", "h2 "]


def test_what_a_process_that_is_forked_has_for_itself_is_no_input(rig: Rig) -> None:
    """Another command that is forked from it may end it, and its directory goes."""
    forks = _Forks(rig, lambda: None)
    forks.directories.add(str(rig.root / "header"))

    def spawn(command: list[str], environment: dict[str, str]) -> Spawned:
        spawned = forks.spawn(command, environment)
        (rig.root / "header").write_text(str(time.time_ns()))
        return spawned

    outcome = rig.output_dir().perform(rig.action(), spawn, tuple, forks=forks)
    assert (outcome.how, outcome.note, len(rig.ran)) == ("built", "", 1)


def test_an_input_that_never_rests_is_an_error(rig: Rig) -> None:
    def change() -> None:
        (rig.root / "header").write_text(str(time.time_ns()))

    rig.meanwhile = change
    output_dir = rig.output_dir()
    outcome = output_dir.perform(rig.action(), rig.spawn, tuple)
    assert (outcome.how, outcome.status) == ("failed", 3)
    assert outcome.note == f"{rig.root}/header kept changing meanwhile; run it again"


@pytest.mark.parametrize("name", ["source", "header"])
def test_a_hard_link_made_elsewhere_is_no_change(rig: Rig, name: str) -> None:
    """It changes the time of status change only. A file that is put back with its old time looks the same."""
    links = iter(range(100))
    rig.meanwhile = lambda: os.link(rig.root / name, rig.root / f"link{next(links)}")
    output = rig.output_dir()
    time.sleep(2 * TICK_S)
    outcome = output.perform(rig.action(), rig.spawn, tuple)
    assert (outcome.how, outcome.status, rig.built, len(rig.ran)) == ("built", 0, "one h1 ", 3)
    assert outcome.note == f"links to {rig.root}/{name} are made all the time, so it is made again every time"
    rig.meanwhile = lambda: None
    assert [rig.run(), rig.run()] == ["built", "kept"]


@pytest.mark.parametrize("name", ["source", "header"])
def test_a_file_that_is_replaced_each_time_is_no_link(rig: Rig, name: str) -> None:
    """Replace the file each time by one of the same size and time."""
    turns = iter(range(100))

    def replace_it() -> None:
        rig.write(f"{name}.new", f"new {next(turns)}").rename(rig.root / name)

    rig.meanwhile = replace_it
    outcome = rig.output_dir().perform(rig.action(), rig.spawn, tuple)
    assert (outcome.how, outcome.note) == ("failed", f"{rig.root}/{name} kept changing meanwhile; run it again")


def test_a_file_that_is_rewritten_each_time_with_its_old_time_is_no_link(rig: Rig) -> None:
    turns, past = iter(range(100)), time.time_ns() - 10**11

    def rewrite() -> None:
        (rig.root / "header").write_text(f"new {next(turns)}")
        os.utime(rig.root / "header", ns=(past, past))

    rig.meanwhile = rewrite
    outcome = rig.output_dir().perform(rig.action(), rig.spawn, tuple)
    assert (outcome.how, outcome.note) == ("failed", f"{rig.root}/header kept changing meanwhile; run it again")


_MOUNTS = "unshare -m sh -c 'mount --bind other {name}; cat source header'"


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-m", "mount", "--bind", "/usr", "/usr"], capture_output=True, check=False).returncode
    != 0,
    reason="unshare or mount does not work here",
)
@pytest.mark.parametrize("name", ["source", "header"])
def test_another_file_in_mounts_of_the_tools_own(rig: Rig, name: str) -> None:
    """Its inputs are not known by the path: the result is used, and made anew every time."""
    rig.write("other", "o1 ")
    action = rig.action(_MOUNTS.format(name=name))
    time.sleep(2 * TICK_S)
    outcome = rig.output_dir().perform(action, rig.spawn, tuple)
    texts = {"source": "one ", "header": "h1 "} | {name: "o1 "}
    assert (outcome.how, rig.built) == ("built", "".join(texts.values()))
    mounts = f"{rig.root}/{name} is something else in the mounts of /bin/sh"
    assert outcome.note == f"{mounts}, so it is made again every time"
    rig.write("other", "o2 ")
    assert rig.run(action) == "built"
    assert rig.built == "".join({**texts, name: "o2 "}.values())


def test_directories_that_are_exchanged_each_time_are_no_mounts(rig: Rig) -> None:
    """The files in them are older than the run."""
    rig.write("inc/header", "i1 ")
    rig.write("aside/header", "i2 ")

    def exchange() -> None:
        for old, new in (("inc", "third"), ("aside", "inc"), ("third", "aside")):
            (rig.root / old).rename(rig.root / new)

    spawn = rig.spawn

    def spawn_then_exchange(command: list[str], environment: dict[str, str]) -> Spawned:
        ended = spawn(command, environment)
        exchange()
        return ended

    time.sleep(2 * TICK_S)
    outcome = rig.output_dir().perform(rig.action("cat source inc/header"), spawn_then_exchange, tuple)
    assert (outcome.how, outcome.note) == ("failed", f"{rig.root}/inc/header kept changing meanwhile; run it again")


def test_a_failure_is_not_kept(rig: Rig) -> None:
    action = rig.action("cat source; false")
    assert [rig.run(action), rig.run(action)] == ["failed", "failed"]
    assert not (rig.out / "built").exists()
    assert rig.output_dir().reason(action, "again") == "again"


def test_a_failure_withdraws_what_was_good(rig: Rig) -> None:
    """The same inputs pass and then fail: neither record nor store says that they pass."""
    flaky = replace(rig.action("cat source header; test -e $FLAG"), environment={"FLAG": "/", "PATH": "/bin"})
    fails = replace(flaky, environment={"FLAG": "/missing", "PATH": "/bin"})
    assert rig.run(flaky) == "built"
    assert rig.run(fails, repeated=True) == "failed"
    assert rig.run(flaky) == "built"
    assert rig.run(fails, repeated=True) == "failed"
    shutil.rmtree(rig.out)
    assert rig.run(fails) == "failed"
    assert rig.run(flaky) == "built"
    shutil.rmtree(rig.out)
    assert rig.run(fails) == "restored"  # it passed last


def test_a_failure_elsewhere_withdraws_what_was_good_here(rig: Rig, tmp_path: Path) -> None:
    """A run passes here and fails in another workspace on the same inputs: it runs here again.

    This also holds if the store has lost the passing result. Once the run passes again, that result is kept.
    """
    other = Rig(tmp_path / "other", rig.watcher, rig.store)

    def of(each: Rig, passes: bool) -> Action:
        program = 'mkdir -p "$1"; cd "$0"; cat source header > "$1/result"; test -e $FLAG'
        argv = ("/bin/sh", "-c", program, str(each.root), str(each.out / "tree"))
        environment = {"FLAG": "/" if passes else "/missing", "PATH": "/bin"}
        return replace(each.action(), argv=argv, outputs=(), tree="tree", environment=environment)

    assert [rig.run(of(rig, True)), rig.run(of(rig, True))] == ["built", "kept"]
    for lost in (False, True):
        if lost:
            shutil.rmtree(rig.store.directory)
        assert other.run(of(other, False), repeated=True) == "failed"
        assert [rig.output_dir().proven(of(rig, True)), *rig.output_dir().all_proven([of(rig, True)])] == [None, False]
        assert [rig.run(of(rig, True)), rig.run(of(rig, True))] == ["built", "kept"]


def test_another_workspace_has_it_too(rig: Rig, tmp_path: Path) -> None:
    assert rig.run() == "built"
    other = Rig(tmp_path / "other", rig.watcher, rig.store)
    assert other.run() == "restored"
    assert other.built == "one h1 "
    other.write("header", "h2 ")
    assert other.run() == "built"


def test_permissions_are_the_same_built_or_restored(rig: Rig, tmp_path: Path) -> None:
    """A run that asks for them, as one that loads kernels of another artifact, has the same inputs elsewhere."""
    action = rig.action()
    action = replace(action, argv=(*action.argv[:2], f'{action.argv[2]}; chmod 755 "$1"', *action.argv[3:]))
    other = Rig(tmp_path / "another", rig.watcher, rig.store)
    elsewhere = replace(other.action(), argv=(*action.argv[:3], *other.action().argv[3:]))
    assert [rig.run(action), other.run(elsewhere)] == ["built", "restored"]
    built, restored = ((one.out / "built").stat().st_mode for one in (rig, other))
    assert built == restored
    assert rig.run(action) == "kept"


def test_what_names_its_place_stays_there(rig: Rig, tmp_path: Path) -> None:
    script = "cat source header; pwd"
    assert rig.run(rig.action(script)) == "built"
    other = Rig(tmp_path / "other", rig.watcher, rig.store)
    assert other.run(other.action(script)) == "built"
    assert other.built == f"one h1 {other.root}\n"
    moved = Rig(tmp_path / "moved", rig.watcher, Store(tmp_path / "nothing", 0))
    shutil.copytree(rig.out, moved.out)
    assert moved.run(moved.action(script)) == "built"
    assert str(moved.root) in moved.built
    shutil.rmtree(rig.out)
    assert rig.run(rig.action(script)) == "restored"


@pytest.mark.parametrize("watcher_missing", [True, False])
def test_what_nobody_watched_is_made_every_time(rig: Rig, watcher_missing: bool) -> None:
    action = rig.action()
    if watcher_missing:
        rig.watcher = None
    else:
        action = replace(action, main=str(rig.root / "other"))  # not what the tool is seen to read
    assert [rig.run(action), rig.run(action)] == ["built", "built"]
    assert rig.built == "one h1 "


@pytest.mark.parametrize("first", ["one ", "two "])
def test_a_killed_run_of_an_action_without_outputs(rig: Rig, first: str) -> None:
    """Files that it wrote elsewhere may be incomplete, whichever inputs come next."""

    def kill() -> None:
        raise KeyboardInterrupt

    action = replace(rig.action("cat source header"), outputs=())
    assert [rig.run(action), rig.run(action)] == ["built", "kept"]
    rig.write("source", "two ")
    rig.meanwhile = kill
    with pytest.raises(KeyboardInterrupt):
        rig.run(action)
    rig.meanwhile = lambda: None
    rig.write("source", first)
    assert [rig.run(action), rig.run(action)] == ["built", "kept"]


def test_all_that_a_tool_leaves_in_a_directory(rig: Rig) -> None:
    script = f"cd {rig.root}; mkdir -p out/tree/deep; cp source out/tree/a; cp header out/tree/deep/b"
    action = replace(rig.action(), argv=("/bin/sh", "-c", script), outputs=(), tree="tree", name="tree")
    assert rig.run(action) == "built"
    (rig.out / "tree/deep/b").unlink()
    (rig.out / "tree/stale").write_text("of another run")
    assert rig.run(action) == "restored"
    assert sorted(path.name for path in (rig.out / "tree").rglob("*") if path.is_file()) == ["a", "b"]


def test_settings_decide_and_are_told(rig: Rig) -> None:
    first = replace(rig.action(), settings={"the compiler": "12"})
    assert rig.run(first) == "built"
    second = replace(first, settings={"the compiler": "13"})
    assert rig.output_dir().reason(second) == "the compiler changed"
    assert [rig.run(second), rig.run(first)] == ["built", "restored"]
    assert (
        rig.output_dir().reason(replace(rig.action("cat source"), settings={"the compiler": "14"}))
        == "the compiler changed"
    )
    assert rig.output_dir().reason(rig.action("cat source")) == "its command line changed"


def test_reasons(rig: Rig) -> None:
    assert rig.output_dir().reason(rig.action()) == "not built before"
    rig.run()
    rig.write("header", "h2 ")
    assert rig.output_dir().reason(rig.action()) == "content of header changed"
    rig.write("source", "two ")
    assert rig.output_dir().reason(rig.action()) == "content of source changed"
    rig.write("source", "one ")
    (rig.root / "header").unlink()
    assert rig.output_dir().reason(rig.action()) == "header is gone"
    rig.write("header", "h1 ")
    assert rig.output_dir().reason(rig.action("cat source")) == "its command line changed"
    assert rig.output_dir().reason(rig.action(), "it was lost") == "it was lost"


def test_what_killed_runs_left_is_removed(rig: Rig) -> None:
    rig.run()
    (rig.out / ".work.1.1").mkdir()
    (rig.out / ".work.1.1" / "log").touch()
    rig.output_dir().tidy()
    assert sorted(path.name for path in rig.out.iterdir() if path.name != MORE) == [RECORD, "built"]


def test_a_hostile_record_leads_nowhere(rig: Rig, tmp_path: Path) -> None:
    """An entry of the store that names an output outside of the place is not followed."""
    assert rig.run() == "built"
    output_dir = rig.output_dir()
    record = output_dir.proven(rig.action())
    assert record is not None
    import msgspec

    record.outputs = {"../escaped": next(iter(record.outputs.values()))}
    rig.store.publish(record.key, msgspec.msgpack.encode(record), [])
    shutil.rmtree(rig.out)
    assert rig.run() == "restored"  # by the entry before it
    assert not (rig.root / "escaped").exists()


def _in_kernels(rig: Rig) -> Action:
    """The action with its output in a directory, from where a link could lead away."""
    command = f"cd {rig.root}; cat source header > {rig.out}/kernels/aiv/built.tmp"
    argv, outputs = ("/bin/sh", "-c", command), ("kernels/aiv/built",)
    return replace(rig.action(), argv=argv, outputs=outputs)


@pytest.mark.parametrize("link", ["kernels", "kernels/aiv"])
@pytest.mark.parametrize("how", ["restored", "built"])
def test_no_directory_of_outputs_is_a_link(rig: Rig, tmp_path: Path, link: str, how: str) -> None:
    """Restored and built files go into the place, even if one of its directories was replaced by a link."""
    action = _in_kernels(rig)
    if how == "restored":
        assert rig.run(action) == "built"
        shutil.rmtree(rig.out / link)
    (rig.out / link).parent.mkdir(parents=True, exist_ok=True)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "aiv").mkdir(parents=True)
    (rig.out / link).symlink_to(elsewhere)
    assert rig.run(action) == how
    assert [path for path in elsewhere.rglob("*") if not path.is_dir()] == []
    assert not (rig.out / link).is_symlink() and (rig.out / "kernels/aiv/built").read_text() == "one h1 "
    assert rig.run(action) == "kept"


@pytest.mark.parametrize("how", ["restored", "built"])
def test_no_tree_of_outputs_is_a_link(rig: Rig, tmp_path: Path, how: str) -> None:
    command = f"cd {rig.root}; mkdir -p {rig.out}/results/all/actual; cat source > {rig.out}/results/all/actual/y"
    action = replace(rig.action(), argv=("/bin/sh", "-c", command), outputs=(), tree="results/all")
    if how == "restored":
        assert rig.run(action) == "built"
        shutil.rmtree(rig.out / "results")
    else:
        rig.out.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (rig.out / "results").symlink_to(elsewhere)
    assert rig.run(action) == how
    assert list(elsewhere.iterdir()) == []
    if how == "restored":  # also where the link is inside of the tree
        shutil.rmtree(rig.out / "results/all/actual")
        (rig.out / "results/all/actual").symlink_to(elsewhere)
        assert rig.run(action) == "restored"
        assert list(elsewhere.iterdir()) == []
    assert (rig.out / "results/all/actual/y").read_text() == "one "


def test_names_that_are_no_text(rig: Rig) -> None:
    """Bytes in names, settings and what a tool prints that no encoding explains."""
    odd = os.fsdecode(b"odd\xff")
    rig.write(odd, "odd ")
    script = "cat source " + odd + "; printf '\\377' >&2; test -e absent$(printf '\\376')"
    action = replace(rig.action(f"{script}; true"), settings={"PATH": odd})
    assert [rig.run(action), rig.run(action)] == ["built", "kept"]
    rig.write(odd, "other ")
    assert rig.output_dir().reason(action) != "it was missing or had failed"
    assert rig.run(action) == "built"
    assert rig.built == "one other "
    (rig.root / os.fsdecode(b"absent\xfe")).touch()
    assert rig.run(action) == "built"


@pytest.mark.parametrize("needed, how", [(False, "built"), (True, "failed")])
def test_what_only_makes_it_faster_may_change_meanwhile(rig: Rig, needed: bool, how: str) -> None:
    faster = rig.write("faster", "what was compiled before")
    helper = Helper(str(faster), bytes_digest(faster.read_bytes()), (), (), needed)

    def make_anew() -> None:
        faster.write_text(f"made anew by another run, number {len(rig.ran)}")

    rig.meanwhile = make_anew
    outcome = rig.output_dir().perform(rig.action(), rig.spawn, lambda: [helper])
    assert (outcome.how, len(rig.ran)) == (how, 3 if needed else 2)


def test_saved_by_another_step_while_a_result_is_fetched(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record drops input sets that no result of it names, and those of this result come before the result."""
    assert rig.run() == "built"
    shutil.rmtree(rig.out)
    output_dir, read = rig.output_dir(), Store.read

    def reading(store: Store, digest: str) -> bytes | None:
        output_dir._known._takes_back = True  # as if another step had just been done, and failed
        output_dir.save()
        return read(store, digest)

    monkeypatch.setattr(Store, "read", reading)
    assert output_dir.perform(rig.action(), rig.spawn, tuple).how == "restored"
    output_dir.save()
    monkeypatch.undo()
    assert [rig.run(), len(rig.ran)] == ["kept", 1]


def test_what_was_taken_back_does_not_return_with_damage(rig: Rig) -> None:
    """A result that was added is lost with the end of the record; that it failed later is not."""
    assert rig.run() == "built"
    rig.write("extra", "more ")
    assert rig.run() == "built"
    added = rig.out / MORE
    assert added.exists()  # the second result was added to the record of the first
    failing = rig.spawn
    rig.spawn = lambda command, environment: (failing(command, environment) and 1, "")  # type: ignore[method-assign]
    assert rig.run(repeated=True) == "failed"
    rig.spawn = failing  # type: ignore[method-assign]
    assert not added.exists()
    shutil.rmtree(rig.root.parent / "store")
    assert rig.run() == "built"
