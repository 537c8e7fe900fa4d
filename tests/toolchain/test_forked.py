"""Commands that are forks of one process: what they print, how they end, and what was seen of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest

from pypto_build.proof.witness import VARIABLE, library, read_account
from pypto_build.toolchain.forked import ForkedTools, _work, ask, wait
from pypto_build.toolchain.python import own_tool

_MODULE = """
import os, signal, sys, tempfile, time

import heavy_to_load

def main(words):
    mine = os.environ.get("MINE")
    print("loaded by", heavy_to_load.PROCESS, "in", os.getcwd(), "to", tempfile.gettempdir(), mine, flush=True)
    match words[0]:
        case "read":
            open(words[1]).read()
        case "exit":
            sys.exit(int(words[1]))
        case "raise":
            raise ValueError(words[1])
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "wait":
            open(words[1], "w").write(str(os.getpid()))
            time.sleep(60)
        case "speak":
            os.system("echo a child speaks; echo and complains >&2")
    return int(words[-1]) if words[-1].isdigit() else 0

if __name__ == "__main__":
    print("alone")
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of commands that find the module of these tests."""
    (tmp_path / "forked_tool.py").write_text(_MODULE)
    (tmp_path / "heavy_to_load.py").write_text("import os\nPROCESS = os.getpid()\n")
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, str(tmp_path)]), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def tools() -> Iterator[ForkedTools]:
    """The process with the module."""
    forked = ForkedTools(["forked_tool"], VARIABLE)
    yield forked
    forked.close()


def command(*words: str) -> list[str]:
    """The module with these words."""
    return [*own_tool("forked_tool"), *words]


def test_status_and_output(tools: ForkedTools, environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    first = tools.run(command("nothing"), environment | {"MINE": "1", "TMPDIR": str(tmp_path / "work")})
    second = tools.run(command("exit", "7"), environment | {"MINE": "2", "TMPDIR": str(tmp_path)})
    process = first[1].split()[2]
    assert first == (0, f"loaded by {process} in {os.getcwd()} to {tmp_path / 'work'} 1\n")
    assert second == (7, f"loaded by {process} in {os.getcwd()} to {tmp_path} 2\n")
    assert tools.run(command("speak"), environment)[1].endswith("\na child speaks\nand complains\n")
    status, output = tools.run(command("raise", "no reason"), environment)
    assert status == 1 and output.endswith("ValueError: no reason\n")
    assert tools.run(command("kill"), environment)[0] == 137


def test_many_at_once(tools: ForkedTools, environment: dict[str, str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda number: tools.run(command(str(number)), environment)[0], range(40)))
    assert statuses == list(range(40))


def test_any_process_may_ask(tools: ForkedTools, environment: dict[str, str], tmp_path: Path) -> None:
    process = tools.run(command("nothing"), environment)[1].split()[2]
    asking = (
        "import os, sys; from pypto_build.toolchain.forked import ask, wait\n"
        "status = ask(sys.argv[1], ['forked_tool', 'exit', '9'], os.environ, 1)\n"
        "print('status', wait(status))\n"
    )
    words = [sys.executable, "-c", asking, tools.address(environment)]
    output = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    assert output.startswith(f"loaded by {process} ") and output.endswith("\nstatus 9\n")


def test_a_command_ends_with_who_waits_for_it(tools: ForkedTools, environment: dict[str, str], tmp_path: Path) -> None:
    with (tmp_path / "said").open("wb") as output:
        words = ["forked_tool", "wait", str(tmp_path / "process")]
        status = ask(tools.address(environment), words, environment, output.fileno())
        while not (tmp_path / "process").exists() or not (tmp_path / "process").read_text():
            time.sleep(0.01)
        os.close(status)
    end = time.monotonic() + 20
    while os.path.exists(f"/proc/{(tmp_path / 'process').read_text()}") and time.monotonic() < end:
        time.sleep(0.01)
    assert time.monotonic() < end


def test_nobody_answers(tools: ForkedTools, environment: dict[str, str]) -> None:
    address = tools.address(environment)
    tools.close()
    with pytest.raises(OSError):
        ask(address, ["forked_tool", "nothing"], environment, 1)
    assert not Path(address).parent.exists()
    assert tools.run(command("exit", "5"), environment)[0] == 5  # by a process that starts anew


def test_other_commands_run_by_themselves(tools: ForkedTools, environment: dict[str, str]) -> None:
    assert tools.run([sys.executable, "-c", "print(1); exit(3)"], environment) == (3, "1\n")


def test_what_is_read_is_seen(tools: ForkedTools, environment: dict[str, str], tmp_path: Path) -> None:
    watcher = library("g++", tmp_path / "watcher", environment)
    assert watcher is not None
    read = {}
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
        log = tmp_path / f"{name}.log"
        log.touch()
        watched = environment | {"LD_PRELOAD": str(watcher), VARIABLE: str(log)}
        words = command("read", str(tmp_path / name))
        assert tools.run(words, watched)[0] == 0
        account = read_account(log, words, [])
        assert not account.unseen and os.path.realpath(sys.executable) in account.files
        read[name] = {Path(path).name for path in account.read if path.startswith(f"{tmp_path}/")}
    loaded = {"forked_tool.py", "heavy_to_load.py"}
    assert read == {"one": {"one", *loaded}, "two": {"two", *loaded}}


def test_a_fork_that_cannot_begin_ends_as_a_failed_command(tmp_path: Path) -> None:
    """Nothing of the process that forks is done in it, such as removing what that one has."""
    reader, tell = os.pipe()
    with (tmp_path / "output").open("wb") as output:
        if (child := os.fork()) == 0:
            with suppress(BaseException), mock.patch("threading.Thread.start", side_effect=RuntimeError("no threads")):
                _work(b"[]", VARIABLE, -1, os.dup(output.fileno()), tell)
            os._exit(99)
        os.close(tell)
        assert os.waitpid(child, 0)[1] == 0
        with open(reader, "rb") as news:
            assert news.read() == b"B\x01"


@pytest.fixture
def watched(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of a command that is watched."""
    watcher = library("g++", tmp_path / "watcher", environment)
    (tmp_path / "log").touch()
    return environment | {"LD_PRELOAD": str(watcher), VARIABLE: str(tmp_path / "log")}


def test_the_log_of_the_process_forked_from_may_be_gone(
    tools: ForkedTools, watched: dict[str, str], tmp_path: Path
) -> None:
    """As it is when that process ends just after the fork."""
    assert tools.run(command("nothing"), watched)[0] == 0
    before = (tmp_path / "log").read_bytes()
    os.truncate(tmp_path / "log", 0)
    Path(tools.address(watched)).with_name("log").unlink()
    status, output = tools.run(command("nothing"), watched)
    assert status == 0, output
    assert b"heavy_to_load" in (tmp_path / "log").read_bytes() and b"heavy_to_load" in before
    assert str(Path(tools.address(watched)).parent).encode() + b"/log" not in (tmp_path / "log").read_bytes()


def test_a_request_that_waits_while_the_process_is_closed_is_done(
    tools: ForkedTools, environment: dict[str, str]
) -> None:
    """One thread finds that what the process has read has changed, while another one has a command run."""
    process = int(tools.run(command("nothing"), environment)[1].split()[2])
    address = tools.address(environment)
    os.kill(process, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(2) as pool, open(os.devnull, "wb") as output:
            reader = ask(address, ["forked_tool", "exit", "9"], environment, output.fileno())
            closing = pool.submit(tools.close)
            while tools._connection is None or tools._connection.fileno() >= 0:
                time.sleep(0.001)
            os.kill(process, signal.SIGCONT)
            assert wait(reader) == 9
            closing.result()
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def test_a_request_that_was_never_taken_is_done_by_itself(tools: ForkedTools, environment: dict[str, str]) -> None:
    process = int(tools.run(command("nothing"), environment)[1].split()[2])
    os.kill(process, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tools.run, command("exit", "6"), environment)
        while not _waits_at(tools.address(environment)):
            time.sleep(0.001)
        os.kill(process, signal.SIGKILL)
        assert running.result()[0] == 6


def _waits_at(address: str) -> bool:
    """Return whether a request lies at this socket: a connection has been made that was not accepted."""
    rows = Path("/proc/net/unix").read_text().splitlines()
    return sum(row.endswith(f" {address}") for row in rows) > 1
