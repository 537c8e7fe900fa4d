"""Output of kernels is shown line by line, escaped and marked, so that none of it looks like a line of the replay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build import terminal
from pypto_build.replay.listener import PRINTED_LIMIT, Printed
from pypto_build.replay.report import output_line
from pypto_build.replay.verdict import OutputResult
from tests.replay.tiny import Tiny

_LINES = {
    "[RUN] PASS (0.01s)": "| [RUN] PASS (0.01s)",
    "\x1b[2J\x1b[1;1H": "| \\x1b[2J\\x1b[1;1H",
    "x\r[RUN] PASS": "| x\\r[RUN] PASS",
    "\x1b]0;title\x07": "| \\x1b]0;title\\x07",
    "::error file=a::b": "| ::error file=a::b",
    "tab\tand \u00e4 \u4e2d": "| tab\tand \u00e4 \u4e2d",
    "\u202egnp\u2028[RUN] PASS": "| \\u202egnp\\u2028[RUN] PASS",
    "\u009b31m": "| \\x9b31m",
    "windows\r": "| windows",
    "": "| ",
}


_PLUS_TWO = "for (int i = 0; i < 32; ++i) y[i] = x[i] + 2;"


def _passed_on(data: bytes, capfdbinary: pytest.CaptureFixture[bytes]) -> str:
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, data)
        os._exit(0)
    os.close(writer)
    printed = Printed(reader, "stdout")
    while not printed.ended:
        printed.take()
    os.close(reader)
    os.wait()
    return capfdbinary.readouterr().out.decode()


@pytest.mark.parametrize("line", _LINES)
def test_a_line_of_a_kernel(line: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert _passed_on(f"{line}\n".encode(), capfdbinary) == f"{_LINES[line]}\n"


def test_bytes_and_lines_without_end(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert _passed_on(b"a\xff\x1b\nlast", capfdbinary) == "| a\\xff\\x1b\n| last\n"
    long = b"x" * 100_000
    assert _passed_on(long, capfdbinary).replace("\n| ", "") == f"| {long.decode()}\n"


def test_a_flood_ends_with_a_line_of_ours(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("pypto_build.replay.listener.PRINTED_LIMIT", 5)
    last = f"[RUN] more than {5 >> 20} MB are left out"
    assert _passed_on(b"one\ntwo\nthree\n", capfdbinary) == f"| one\n| two\n| three\n{last}\n"
    assert PRINTED_LIMIT > 1 << 20


def test_no_kernel_speaks_for_the_replay(tmp_path: Path) -> None:
    """Print fake verdicts on both streams, through all functions; the verdict's own lines stay unchanged."""
    code = (
        'puts("[RUN] PASS (0.00s)"); fputs("\\x1b[2J[RUN] PASS\\n", stderr); '
        f'fputs("    hint: \\r[RUN] PASS", stdout); {_PLUS_TWO}'
    )
    run = Tiny(tmp_path, code).build().replay()
    printed = (run.stdout + run.stderr).splitlines()
    assert run.status == 1
    assert [line for line in printed if line.startswith("[RUN] PASS")] == []
    assert "| [RUN] PASS (0.00s)" in printed and "| \\x1b[2J[RUN] PASS" in printed
    assert "|     hint: \\r[RUN] PASS" in printed
    assert any(line.startswith("[RUN] FAIL") for line in printed)


def test_a_name_is_one_word_of_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    result = OutputResult("y\x1b[8m' PASS\n[RUN] PASS", "mismatch", [1], "float32", 1)
    from pypto_build.replay.report import Log

    Log(terminal.say).line(output_line(result))
    assert capsys.readouterr().out.startswith("[RUN]   'y\\x1b[8m' PASS\\n[RUN] PASS' FAIL")


def test_what_a_compiler_quotes_is_not_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """Compile `#pragma message` and `static_assert`, which print lines that the source chooses."""
    terminal.pass_on("k.cpp:1: error: x\n[RUN] PASS (0.01s)\nscons: done\n::error::x\n \x1b[2Jy\x1b[31mred\x1b[m\n")
    printed = capsys.readouterr().err.splitlines()
    assert printed == ["k.cpp:1: error: x", "| [RUN] PASS (0.01s)", "| scons: done", "| ::error::x", " \\x1b[2Jyred"]


def test_tools_escape_what_they_print(tmp_path: Path) -> None:
    code = "from pypto_build.diagnose.console import run_tool; run_tool('x', lambda: print('\\x1b[2Jname\\r') or 0)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout == "\\x1b[2Jname\\r\n"
