"""Output for people: colours where they are wanted, details and progress on request."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from pypto_build import terminal

GREEN, RED, YELLOW, DIM = "\x1b[1m\x1b[32m", "\x1b[1m\x1b[31m", "\x1b[1m\x1b[33m", "\x1b[2m"


class Stream:
    """A stream that is a terminal, or not."""

    def __init__(self, is_terminal: bool) -> None:
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        """As a stream says."""
        return self.is_terminal


@pytest.mark.parametrize(
    "is_terminal, environment, colours",
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "xterm", "CLICOLOR": "0"}, False),
        (False, {"TERM": "xterm"}, False),
        (False, {"CLICOLOR_FORCE": "1"}, True),
        (False, {"CLICOLOR_FORCE": "0", "TERM": "xterm"}, False),
        (False, {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_who_gets_colours(is_terminal: bool, environment: dict[str, str], colours: bool) -> None:
    assert terminal.takes_colours(Stream(is_terminal), environment) is colours  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line, painted",
    [
        ("[RUN] PASS (0.02s)", "[RUN] {green}PASS{end} (0.02s)"),
        ("[RUN] PASS on the CPU, as a2a3sim (0.02s)", "[RUN] {green}PASS{end} on the CPU, as a2a3sim (0.02s)"),
        ("[RUN]   'y' FAIL  shape=(3,)", "[RUN]   'y' {red}FAIL{end}  shape=(3,)"),
        (
            "[test] FAIL      b  0.51 s  1 of 2 outputs differ",
            "[test] {red}FAIL{end}      b  {dim}0.51 s  1 of 2 outputs differ{end}",
        ),
        (
            "[cpp->.so] compile a.cpp  (content of a.cpp changed)",
            "[cpp->.so] compile a.cpp  {dim}(content of a.cpp changed){end}",
        ),
        (
            "=== 1 failed, 2 passed, 1 skipped in 0.1 s ===",
            "=== {red}1 failed{end}, {green}2 passed{end}, {yellow}1 skipped{end} in 0.1 s ===",
        ),
        ("=== 2 passed in 0.1 s ===", "=== {green}2 passed{end} in 0.1 s ==="),
        ("[RUN] why: scons triage JIT=x", "[RUN] {bold}why: scons triage JIT=x{end}"),
        ("scons: done building targets.", "{dim}scons: done building targets.{end}"),
        ("scons: *** [x] Error 2", "{red}scons: ***{end} [x] Error 2"),
        ("a kernel says PASS", "a kernel says PASS"),
        ("\x1b[31mmine\x1b[0m [RUN] PASS", "\x1b[31mmine\x1b[0m [RUN] PASS"),
    ],
)
def test_colours_follow_from_what_is_said(line: str, painted: str) -> None:
    colours = {"green": GREEN, "red": RED, "yellow": YELLOW, "dim": DIM, "bold": "\x1b[1m", "end": "\x1b[0m"}
    expected = painted.format(**colours)
    assert terminal.paint(line) == expected
    assert terminal.plain(terminal.paint("[RUN] PASS (0.02s)")) == "[RUN] PASS (0.02s)"


@pytest.fixture
def shown() -> Iterator[list[tuple[str, bool]]]:
    """Yield the texts that are redirected away from this process's output."""
    lines: list[tuple[str, bool]] = []
    terminal.redirect(lambda text, error: lines.append((text, error)))
    yield lines
    terminal.redirect(None)
    terminal.show_details(False)


def test_all_of_it_can_go_elsewhere(shown: list[tuple[str, bool]], capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say("[RUN] PASS", "two")
    terminal.detail("not asked for")
    terminal.show_details(True)
    terminal.detail("asked for")
    terminal.complain("wrong")
    terminal.pass_on("a command's")
    assert shown == [("[RUN] PASS\ntwo\n", False), ("asked for\n", False), ("wrong\n", True), ("a command's\n", True)]
    assert capsys.readouterr() == ("", "")


def test_colours_of_commands_are_kept_or_taken_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLICOLOR_FORCE", raising=False)
    terminal.pass_on("\x1b[01;31m\x1b[Kerror:\x1b[m\x1b[K x")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    terminal.pass_on("\x1b[31merror:\x1b[0m x")
    assert capsys.readouterr().err == "error: x\n\x1b[31merror:\x1b[0m x\n"


_WAITING = """
import sys, time
from pypto_build import terminal
terminal.QUIET_S, terminal._EVERY_S = {quiet}, 0.02
drawn, draw = [], terminal._draw
terminal._draw = lambda text: (draw(text), drawn.append(text))
def wait(text):
    while not any(text in each for each in drawn):
        time.sleep(0.01)
"""

_SLOW = """
with terminal.progress(lambda: "[test] 1 of 2 tests"):
    {pause}
    terminal.say("[RUN] PASS")
"""

_INTERRUPTED = """
terminal.show_progress(lambda: "[test] 1 of 2 tests")
wait("1 of 2")
sys.stderr.write("scons: *** [x] Build interrupted.\\n")
drawn.clear()
wait("1 of 2")
"""

_COUNTING = """
from pypto_build.diagnose.console import progress
for number in progress(range(3), "running", 3):
    wait(f"running: {number} of 3")
    if number == 1:
        print("found")
        break
"""


def _on_a_terminal(program: str, quiet: float = 0.05, columns: int = 0) -> str:
    """Return the text that a program shows on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    run = subprocess.Popen(
        [sys.executable, "-c", _WAITING.format(quiet=quiet) + program], stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    text, limit = b"", time.monotonic() + 60
    while time.monotonic() < limit and select.select([ours], [], [], 60)[0]:
        try:
            data = os.read(ours, 4096)
        except OSError:  # it has ended
            break
        text += data
    run.wait()
    os.close(ours)
    return text.decode()


def test_words_are_whole_at_any_width() -> None:
    """On a terminal; text that goes elsewhere keeps its lines."""
    words = "error: every kernel agrees with its module, yet 4079 elements of 'o' differ-from the golden of build/a/b"
    command = f"[RUN] why: pypto-build triage {'a_long_name ' * 6}end"
    program = f"""terminal.say("    {words}", "{command}", " " * 3 + "x" * 99)"""
    shown = _on_a_terminal(program, columns=60)
    assert shown.splitlines() == [
        "    error: every kernel agrees with its module, yet 4079",
        "        elements of 'o' differ-from the golden of build/a/b",
        command,
        "   " + "x" * 99,
    ]
    piped = subprocess.run(
        [sys.executable, "-c", f"from pypto_build import terminal; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert piped.stdout.splitlines()[0] == f"    {words}"


def test_progress_on_a_terminal() -> None:
    text = _on_a_terminal(_SLOW.format(pause='wait("1 of 2")'))
    assert re.search(r"\r\x1b\[K\[test\] 1 of 2 tests, \d+ s", text)
    assert text.endswith("\r\x1b[K[RUN] PASS\r\n")  # the line of progress is gone


def test_progress_is_gone_where_somebody_else_writes_and_at_the_end() -> None:
    """SCons says that a build was interrupted, and nobody says anything after it."""
    text = _on_a_terminal(_INTERRUPTED)
    assert re.search(r"tests, \d+ s\r\x1b\[Kscons: \*\*\* \[x\] Build interrupted\.\r\n", text)
    assert re.search(r"tests, \d+ s\r\x1b\[K$", text)


def test_instruments_count_what_they_do() -> None:
    """Nothing is left of it where a loop prints and ends early."""
    text = _on_a_terminal(_COUNTING)
    assert re.search(r"\r\x1b\[Krunning: 0 of 3, \d+ s", text)
    assert re.search(r"\r\x1b\[Krunning: 1 of 3, \d+ s\r\x1b\[Kfound\r\n$", text)


def test_no_progress_for_what_is_fast_or_piped() -> None:
    assert _on_a_terminal(_SLOW.format(pause="pass"), quiet=600) == "[RUN] PASS\r\n"
    program = _WAITING.format(quiet=0.0) + _SLOW.format(pause="time.sleep(0.2)")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("[RUN] PASS\n", "")


def test_a_long_reason_is_whole_without_a_terminal() -> None:
    """Logs and pipes have no width."""
    assert terminal.fitting("x" * 200, before=60) == "x" * 200
