"""A replay that waits for its turn has loaded files ahead. Whatever changes until then, the result is that of a fresh
process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.replay.verdict import Verdict, read_verdict
from pypto_build.rules.machinery.prefork import Kept, PreforkServer
from pypto_build.toolchain.host import find_compiler, host_recipe
from pypto_build.turn import waiting_environment
from tests.replay.builder import embedded_module
from tests.replay.tiny import Tiny

_CALLS = """
        CoreTaskArgs first;
        first.add_input(ext_x);
        first.add_output(ext_y);
        rt_submit_aiv_task(0, first);
        CoreTaskArgs second;
        second.add_input(ext_x);
        second.add_inout(ext_y);
        rt_submit_aiv_task(1, second);
"""
_WHERE = """
#include <cstdio>
#include <cstring>
static void tell_when() { // the process began
    char text[1024] = {};
    FILE *file = fopen("/proc/self/stat", "r");
    fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    unsigned long long ticks = 0;
    const char *field = strrchr(text, ')');
    for (int i = 0; i < 20; ++i)
        field = strchr(field + 1, ' ');
    sscanf(field, "%llu", &ticks);
    printf("since %llu\\n", ticks);
}
"""
_SECOND = '\t{"func_id": 1, "name": "more", "source": str(_ROOT_DIR / "kernels" / "aiv" / "more.cpp"), '
_SECOND += '"core_type": "aiv"},\n]\n'


class Pair(Tiny):
    """An artifact with y = x + 1, then y = 2 y. It is linked as builds do, so that loading a kernel runs no code."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "tell_when(); for (int i = 0; i < 32; ++i) y[i] = x[i] + 1;", _CALLS)
        self.text = _WHERE + (self.artifact / "kernels/aiv/step.cpp").read_text()
        self.write_tensor("out/y", [2 * (i + 1.0) for i in range(32)])
        manifest = self.artifact / "kernel_config.py"
        manifest.write_text(manifest.read_text().removesuffix("]\n") + _SECOND)
        self._write("kernels/aiv/more.cpp", self.kernel("y[i] = 2 * y[i];"))
        self._write("kernels/aiv/step.cpp", self.text)

    def kernel(self, statement: str, before: str = "") -> str:
        return before + self.text.replace("y[i] = x[i] + 1;", statement).replace("tell_when();", "")

    def library(self, name: str) -> Path:
        return self.out / "kernels" / "aiv" / f"{name}.so"

    def compile(self, name: str, text: str, kind: str = "aiv") -> Path:
        """Return the library of a text, beside those of the build."""
        recipe = host_recipe(find_compiler(), PLATFORMS["a2a3sim"])[kind]
        source, target = self.out / f"{name}.cpp", self.out / f"{name}.so"
        source.write_text(text)
        subprocess.run(recipe.compile_argv(str(source), f"{source}.o"), check=True)
        subprocess.run(recipe.steps[-1].argv(f"{source}.o", str(target)), check=True)
        return target

    def link(self) -> Pair:
        """Build the artifact, with these libraries in place of the builder's."""
        self.build()
        for path in (self.artifact / "kernels/aiv").glob("*.cpp"):
            self.compile(path.stem, path.read_text()).rename(self.library(path.stem))
        time.sleep(0.06)  # younger files are left for their turn
        return self


class Waiting:
    """A replay that waits for its turn and has had time to load its files."""

    def __init__(self, pair: Pair, *options: str) -> None:
        reader, self._writer = os.pipe()
        argv = [sys.executable, "-m", "pypto_build.replay", str(pair.artifact), "--platform", "a2a3sim"]
        argv += ["--build-dir", str(pair.out), "--embedded", str(embedded_module()), *options]
        self._verdict = pair.out / "verdict.json"
        self._process = subprocess.Popen(
            argv,
            env={**os.environ, **waiting_environment(reader)},
            pass_fds=[reader],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(reader)
        self.child = _await(lambda: _who_has_mapped(pair.library("more")))
        status = Path(f"/proc/{self.child}/stat").read_text()
        self.line = f"since {status.rpartition(')')[2].split()[19]}\n"  # of a run in this child

    def go(self) -> tuple[Verdict, str]:
        """Let the replay run; return its verdict and output."""
        self.go_on()
        printed, _ = self._process.communicate(timeout=60)
        return read_verdict(self._verdict), printed

    def interrupted(self) -> int:
        """Return the exit status of a replay that Ctrl-C interrupts before its turn."""
        self._process.send_signal(signal.SIGINT)
        self.go_on()
        return self._process.wait(30)

    def go_on(self) -> None:
        os.write(self._writer, b"1")
        os.close(self._writer)

    def cancel(self) -> int:
        os.close(self._writer)
        return self._process.wait(30)


def _who_has_mapped(library: Path) -> int:
    """Return a process that has loaded a library; 0 if there is none."""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):  # it has ended
            if str(library) in maps.read_text():
                return int(maps.parent.name)
    return 0


def _await(probe: Callable[[], int]) -> int:
    for _ in range(400):
        if number := probe():
            return number
        time.sleep(0.05)
    raise AssertionError("nothing was loaded ahead")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp("pair")).link()


@pytest.fixture
def pair(built: Pair, tmp_path: Path) -> Iterator[Pair]:
    twin = built.copy_to(tmp_path)
    assert isinstance(twin, Pair)
    time.sleep(0.06)
    yield twin
    assert not _who_has_mapped(twin.library("more"))


def _same_as_fresh(pair: Pair, verdict: Verdict) -> Verdict:
    """Return the verdict, after checking that a new process gives the same."""
    fresh = pair.replay().verdict
    assert (verdict.status, verdict.error, verdict.tasks) == (fresh.status, fresh.error, fresh.tasks)
    assert [output.first for output in verdict.outputs] == [output.first for output in fresh.outputs]
    return verdict


def test_what_was_loaded_ahead_runs(pair: Pair) -> None:
    waiting = Waiting(pair)
    verdict, printed = waiting.go()
    assert (verdict.status, verdict.tasks) == ("pass", 2)
    assert waiting.line in printed


def test_a_library_that_is_replaced_runs_as_it_is(pair: Pair) -> None:
    other = pair.compile("other", pair.kernel("y[i] = 3 * y[i];"))
    waiting = Waiting(pair)
    other.rename(pair.library("more"))
    verdict, printed = waiting.go()
    assert _same_as_fresh(pair, verdict).outputs[0].first[1].actual == 6
    assert waiting.line in printed  # the rest was loaded


def test_a_library_that_is_written_in_place_runs_as_it_is(pair: Pair) -> None:
    other = pair.compile("other", pair.kernel("y[i] = 3 * y[i];")).read_bytes()
    waiting = Waiting(pair)
    with open(pair.library("more"), "r+b") as file:
        file.truncate(0)
        file.write(other)
    verdict, _ = waiting.go()
    assert _same_as_fresh(pair, verdict).outputs[0].first[1].actual == 6


def test_libraries_that_change_places_run_where_they_are(pair: Pair) -> None:
    waiting = Waiting(pair)
    first, second, aside = pair.library("step"), pair.library("more"), pair.out / "aside"
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    verdict, _ = waiting.go()
    assert _same_as_fresh(pair, verdict).status == "mismatch"  # (2 * 0) + 1


def test_a_library_that_was_there_before_is_found_again(pair: Pair) -> None:
    other = pair.compile("other", pair.kernel("y[i] = 3 * y[i];"))
    before = pair.library("more").read_bytes()
    waiting = Waiting(pair)
    other.rename(pair.library("more"))
    pair.library("more").unlink()
    pair.library("more").write_bytes(before)
    verdict, _ = waiting.go()
    assert _same_as_fresh(pair, verdict).status == "pass"


@pytest.mark.parametrize("size", [0, 1000])
def test_a_damaged_library_is_no_worse_than_without(pair: Pair, size: int) -> None:
    waiting = Waiting(pair)
    damaged = pair.out / "damaged"
    damaged.write_bytes(pair.library("more").read_bytes()[:size])
    damaged.rename(pair.library("more"))
    verdict, _ = waiting.go()
    assert _same_as_fresh(pair, verdict).status in ("build_error", "runtime_error")


def test_a_library_that_is_gone_is_missed(pair: Pair) -> None:
    waiting = Waiting(pair)
    pair.library("step").unlink()
    verdict, _ = waiting.go()
    assert _same_as_fresh(pair, verdict).status == "build_error"


@pytest.mark.parametrize("name", ["in/x", "out/y"])
def test_data_are_read_when_the_turn_comes(pair: Pair, name: str) -> None:
    waiting = Waiting(pair)
    pair.write_tensor(name, [5.0] * 32)
    verdict, _ = waiting.go()
    assert _same_as_fresh(pair, verdict).status == "mismatch"


def test_another_interface_gets_a_child_of_its_own(pair: Pair) -> None:
    waiting = Waiting(pair)
    interface = pair.out / "interface.json"
    text = interface.read_text()
    interface.write_text(re.sub(r'"more(?=["(])', '"less', text))
    pair.library("more").rename(pair.library("less"))
    verdict, printed = waiting.go()
    assert interface.read_text() != text
    assert (verdict.status, waiting.line in printed) == ("pass", False)


def test_a_child_that_is_killed_before_its_turn_is_replaced(pair: Pair) -> None:
    waiting = Waiting(pair)
    os.kill(waiting.child, signal.SIGKILL)
    _await(lambda: not _who_has_mapped(pair.library("more")))
    verdict, _ = waiting.go()
    assert verdict.status == "pass"


def test_one_that_nobody_needs_leaves_nothing(pair: Pair) -> None:
    waiting = Waiting(pair)
    assert (waiting.cancel(), (pair.out / "verdict.json").exists()) == (130, False)


def test_one_that_is_interrupted_before_its_turn_has_not_passed(pair: Pair) -> None:
    """Check that the verdict of an earlier run does not count as a pass."""
    assert Waiting(pair).interrupted() == 130


def test_a_time_limit_begins_with_the_turn(pair: Pair) -> None:
    waiting = Waiting(pair, "--timeout", "1")
    time.sleep(1.2)
    verdict, _ = waiting.go()
    assert verdict.status == "pass"


_CONSTRUCTOR = '__attribute__((constructor)) static void begin() { puts("loaded"); }\n'


def test_code_that_runs_at_loading_runs_once(pair: Pair) -> None:
    before = "#include <cstdio>\n" + _CONSTRUCTOR
    old = pair.compile("old", pair.kernel("y[i] = 2 * y[i];", before))
    new = pair.compile("new", pair.kernel("y[i] = 2 * y[i];", before.replace('"loaded"', '"loaded anew"')))
    old.rename(pair.library("step"))  # only what lies there is loaded ahead, and this is not
    time.sleep(0.06)
    waiting = Waiting(pair)
    new.rename(pair.library("step"))
    _, printed = waiting.go()
    assert [line for line in printed.splitlines() if "loaded" in line] == ["| loaded anew"]


# Forks of a process that has loaded the libraries


@pytest.fixture
def server(pair: Pair) -> Iterator[PreforkServer]:
    process = _stand(pair)
    _await(lambda: _who_has_mapped(pair.library("more")))
    time.sleep(0.1)  # it has loaded the last one, too
    yield process
    process.close()


def _stand(pair: Pair) -> PreforkServer:
    words = ["--platform", "a2a3sim", "--build-dir", str(pair.out), "--embedded", str(embedded_module())]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    return PreforkServer(Kept("pypto_build.replay", (str(pair.artifact), *words), tuple(environment.items())))


def _forked(pair: Pair, server: PreforkServer) -> Verdict | None:
    """Return the verdict of a fork that waits while nothing changes; None if the fork refuses to run."""
    fork = server.fork({"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]})
    time.sleep(0.2)
    return read_verdict(pair.out / "verdict.json") if fork.go() else None


def test_forks_run_what_is_there_edit_by_edit(pair: Pair, server: PreforkServer) -> None:
    """Change nothing, edit a kernel, undo the edit, and swap two kernels."""
    kept, other = pair.out / "kept", pair.compile("other", pair.kernel("y[i] = 3 * y[i];"))
    before = pair.library("more").read_bytes()
    values = []
    for step in range(4):
        if step == 1:
            other.rename(pair.library("more"))
        elif step == 2:
            kept.write_bytes(before)
            kept.rename(pair.library("more"))
        elif step == 3:
            pair.library("more").rename(kept)
            pair.library("step").rename(pair.library("more"))
            kept.rename(pair.library("step"))
        verdict = _forked(pair, server)
        assert verdict is not None
        values.append([first.actual for first in _same_as_fresh(pair, verdict).outputs[0].first[1:2]])
    assert values == [[], [6.0], [], [2.0]]


def test_a_library_that_changes_between_the_fork_and_its_turn_runs_as_it_is(pair: Pair, server: PreforkServer) -> None:
    other = pair.compile("other", pair.kernel("y[i] = 3 * y[i];"))
    fork = server.fork({"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]})
    time.sleep(0.3)
    other.rename(pair.library("more"))
    assert fork.go() == (1, "")
    assert _same_as_fresh(pair, read_verdict(pair.out / "verdict.json")).outputs[0].first[1].actual == 6


@pytest.mark.parametrize("after_the_fork", [False, True])
def test_no_fork_runs_what_was_written_to_in_place(pair: Pair, server: PreforkServer, after_the_fork: bool) -> None:
    other = pair.compile("other", pair.kernel("y[i] = 3 * y[i];")).read_bytes()
    fork = server.fork(dict(os.environ)) if after_the_fork else None
    time.sleep(0.3)
    with open(pair.library("more"), "r+b") as file:
        file.truncate(0)
        file.write(other)
    assert (fork or server.fork(dict(os.environ))).go() is None
    assert after_the_fork or _await(lambda: server.is_worn)


def test_one_that_was_killed_forks_no_more(pair: Pair, server: PreforkServer) -> None:
    os.kill(_who_has_mapped(pair.library("more")), signal.SIGKILL)
    time.sleep(0.1)
    with pytest.raises(OSError):
        server.fork(dict(os.environ))
    assert server.is_worn


def test_a_fork_that_nobody_needs_ends(pair: Pair, server: PreforkServer) -> None:
    server.fork(dict(os.environ)).cancel()
    assert not (pair.out / "verdict.json").exists()


def test_a_library_that_was_too_young_is_loaded_by_forks(pair: Pair) -> None:
    """Change a library before the first fork's turn; the next fork uses the changed library."""
    others = [pair.compile(f"other{times}", pair.kernel(f"y[i] = {times} * y[i];")) for times in (3, 4)]
    young = time.time_ns() + 2_000_000_000
    os.utime(pair.library("more"), ns=(young, young))
    server = _stand(pair)
    _await(lambda: _who_has_mapped(pair.library("step")))
    assert not _who_has_mapped(pair.library("more"))
    time.sleep(max(0.0, young / 1e9 + 0.1 - time.time()))
    values = []
    for other in others:
        fork = server.fork({"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]})
        _await(lambda: _who_has_mapped(pair.library("more")))
        other.rename(pair.library("more"))
        assert fork.go() == (1, "")
        values.append(_same_as_fresh(pair, read_verdict(pair.out / "verdict.json")).outputs[0].first[1].actual)
        time.sleep(0.1)
    server.close()
    assert values == [6.0, 8.0]
