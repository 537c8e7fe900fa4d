"""`scons` hands its command to the resident process: the same is said and done, or it goes on by itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pypto_build import rules
from pypto_build.proof.digests import TICK_S
from pypto_build.rules.handing import is_plain, only_prepares
from pypto_build.toolchain.python import own_tool
from tests.resident.desk import SLEEP, SLOW, Desk, is_gone
from tests.rows import every

_REPLAY = ("replay", "JIT=_jit_chain")
_TOOL = "from pypto_build.rules import pypto\n\nenv = Environment(tools=[pypto])\n"
_TELLS = _TOOL + "import os\nopen('process', 'a').write(f'{os.getpid()}\\n')\n"


@pytest.fixture
def served(desk: Desk) -> Desk:
    """With a resident process that has been started by `scons`, which tells in which process its script has run."""
    desk.project.write("SConstruct", _TELLS)
    time.sleep(2 * TICK_S)
    assert desk.scons("-Q", *_REPLAY)[0] == 0
    assert desk.server
    return desk


def _is_served(desk: Desk, *words: str) -> bool:
    """Return True if exactly one process runs the script to its end, and it is not the one that was started."""
    file = desk.project.root / "process"
    file.unlink(missing_ok=True)
    with desk.start_scons(*words) as command:
        command.communicate()
    (process,) = file.read_text().split()
    return int(process) != command.pid


def test_it_says_and_does_the_same(served: Desk) -> None:
    """A pass, two that are cached, a usage error, another verb, what there is not: with every first line and status."""
    lines = [
        _REPLAY,
        ("-Q", *_REPLAY),
        (*_REPLAY, "NONSENSE=1"),
        ("lint", "JIT=_jit_chain"),
        ("replya", "JIT=_jit_chain"),
    ]
    lines += [("build", "JIT=_jit_none"), ("-Q", *_REPLAY, "RTOL=1e-3"), ("-Qj2", *_REPLAY), ("-j2", *_REPLAY)]
    answers = {line: [served.scons(*line) for _ in range(3)] for line in lines}
    alone = {line: [served.scons(*line, PYPTO_BUILD_SERVER="0") for _ in range(2)] for line in lines}
    for line in lines:
        assert answers[line][1:] == alone[line][:1] * 2, line
    assert [answers[line][-1][0] for line in lines] == [0, 0, 2, 0, 2, 2, 0, 0, 0]
    assert answers[_REPLAY][0][1].count("Reading SConscript files") == 1


def test_edits_are_seen_by_what_stands(served: Desk) -> None:
    assert [_is_served(served, *_REPLAY) for _ in range(3)] == [True, True, True]
    statuses = []
    for expression in ("3.0f * in[i]", "broken", "2.0f * in[i]", "3.0f * in[i]", "2.0f * in[i]"):
        served.project.write_kernel("twice", expression)
        statuses.append(served.scons(*_REPLAY)[0])
    assert statuses == [2] * 2 + [0] + [2] + [0]
    assert served.stands


def test_a_changed_script_is_read(served: Desk) -> None:
    """Its text, a word of it, a site_init.py that comes and changes: no process goes on with the old one."""
    for _ in range(3):
        assert served.scons(*_REPLAY)[0] == 0
    assert served.stands
    served.project.write("SConstruct", _TOOL + "print('after the call')\n")
    assert "after the call" in served.scons(*_REPLAY)[1]
    for text in ("A = 1\n", "A = 2\n"):
        served.project.write("site_scons/site_init.py", text)
        served.project.write("SConstruct", _TOOL + "print('A is', A)\n")
        time.sleep(2 * TICK_S)
        for _ in range(3):
            assert f"A is {text[4]}" in served.scons(*_REPLAY)[1]
        served.project.write("SConstruct", _TOOL + "print('A was', A)\n")
        assert f"A was {text[4]}" in served.scons(*_REPLAY)[1]


_MIDDLE = "ended in the middle"


def test_a_package_that_is_a_link_is_served(served: Desk) -> None:
    package = Path(rules.__file__).resolve().parents[1]
    (served.project.root / "pypto_build").symlink_to(package)
    served.project.write("SConstruct", 'import sys\n\nsys.path.insert(0, Dir("#").abspath)\n' + _TELLS)
    assert _MIDDLE not in served.scons(*_REPLAY)[1]
    assert _is_served(served, *_REPLAY)


@pytest.mark.parametrize("flag", ["-B", "-Wignore", "-Xutf8"])
def test_flags_of_python_are_those_of_the_process_that_answers(desk: Desk, flag: str) -> None:
    desk.project.write("SConstruct", _TELLS)
    desk.python = [sys.executable, flag]
    time.sleep(2 * TICK_S)
    assert desk.scons("-Q", *_REPLAY)[0] == 0
    assert desk.server
    assert _is_served(desk, *_REPLAY)


def test_a_process_that_differs_from_who_asks_answers_nobody(desk: Desk) -> None:
    """As one that is started with what a script has changed since the command asked: it ends."""
    desk.project.write("SConstruct", _TELLS + "import os\nos.environ['LC_ALL'] = 'C'\n")
    assert [_MIDDLE in desk.scons(*_REPLAY)[1] for _ in range(3)] == [False] * 3
    path = desk.sockets / "pypto-build" / "0123456789abcdef"
    command = [*own_tool("pypto_build.resident.server"), str(path)]
    subprocess.run(command, env=desk.environment, cwd="/", check=True, timeout=60)
    assert not path.exists()


def test_what_has_an_effect_before_the_call_has_it_once(served: Desk) -> None:
    served.project.write("SConstruct", "print('before the call')\n" + _TELLS)
    for _ in range(2):
        assert served.scons(*_REPLAY)[1].count("before the call") == 1
    assert not _is_served(served, *_REPLAY)
    served.project.write("SConstruct", _TELLS)
    assert _is_served(served, *_REPLAY)
    served.project.write("site_scons/site_init.py", "print('at the start')\n")
    assert served.scons(*_REPLAY)[1].count("at the start") == 1


def test_modules_are_looked_for_where_scons_does(served: Desk) -> None:
    served.project.write("beside.py", "SAID = 'beside the script'\n")
    served.project.write(
        "SConstruct", _TELLS + "import beside, sys\nprint(beside.SAID, sys.argv, len(sys.path), sys.path)\n"
    )
    outputs = [served.scons(*_REPLAY)[1] for _ in range(3)]
    assert "beside the script" in outputs[0]
    assert {line for text in outputs for line in text.splitlines() if "beside" in line} == {
        line for line in served.scons(*_REPLAY, PYPTO_BUILD_SERVER="0")[1].splitlines() if "beside" in line
    }


def test_a_module_with_the_name_of_a_library_is_theirs(served: Desk) -> None:
    """One that the resident process has loaded, and `scons` has not when the script asks for it."""
    assert _is_served(served, *_REPLAY)
    served.project.write("argparse.py", "SAID = 'beside the script'\n")
    served.project.write("SConstruct", _TELLS + "import argparse\nprint(getattr(argparse, 'SAID', 'Python'))\n")
    assert "beside the script" in served.scons(*_REPLAY)[1]
    assert not _is_served(served, *_REPLAY)


def test_a_second_environment_is_another_call(served: Desk) -> None:
    served.project.write("SConstruct", _TELLS + "second = Environment(tools=[pypto])\n")
    for _ in range(3):
        assert _is_served(served, *_REPLAY)


def test_interrupted_it_ends(served: Desk) -> None:
    """With the status that SCons has then; by a process that has read the script, and by one that stands."""
    served.project.write_kernel("twice", SLOW, SLEEP)
    for _ in range(2):
        with served.start_scons(*_REPLAY) as command:
            child = served.serving()
            command.send_signal(signal.SIGINT)
            output, _ = command.communicate()
        assert is_gone(child)
        assert (command.returncode, "Traceback" in output) == (2, False), output


def test_a_crash_costs_time_only(served: Desk) -> None:
    served.project.write_kernel("twice", "(usleep(2'000'000 / 16), 2.0f * in[i])", "#include <unistd.h>\n")
    with served.start_scons(*_REPLAY) as command:
        os.killpg(served.serving(), signal.SIGKILL)
        output, _ = command.communicate()
    assert command.returncode == 0
    assert output.count("the background process ended during the command; the command runs again\n") == 1
    assert "[RUN] PASS" in output


def test_output_of_a_command_that_is_cut_off(served: Desk) -> None:
    """The reader of the output is gone: the command ends as any other."""
    with served.start_scons(*_REPLAY) as command:
        assert command.stdout is not None
        command.stdout.close()
        assert command.wait(30) is not None


@every(
    "line, plain",
    [
        ("replay JIT=x", True),
        ("-Q -k -j4 lint JIT=x", True),
        ("-Qk softmax JIT=x SEED=3", True),
        ("replay SCENE=test_x.py::Case", True),
        ("compile PROGRAM=a.py", True),
        ("replay", False),
        ("JIT=x", False),
        ("replay lint JIT=x", False),
        ("replay JIT=x WATCH=1", False),
        ("replay JIT=x PROFILE=1", False),
        ("-c JIT=x", False),
        ("-n replay JIT=x", False),
        ("-j 4 replay JIT=x", False),
        ("-C there replay JIT=x", False),
        ("-f other replay JIT=x", False),
        ("--tree=all replay JIT=x", False),
        ("build/a2a3sim/x.so JIT=x", False),
        ("step JIT=x", False),
        ("help JIT=x", False),
        ("", False),
    ],
)
def test_which_commands(line: str, plain: bool) -> None:
    assert is_plain(line.split()) is plain


@pytest.mark.parametrize(
    "before, plain",
    [
        ("", True),
        ("'''What it is.'''\nimport os, sys\nfrom pathlib import Path\nX = {'a': [1, os.sep]}\n", True),
        ("sys.path.insert(0, Dir('#').abspath)\n", True),
        ("sys.path.insert(0, print('x'))\n", False),
        ("print('x')\n", False),
        ("X = ARGUMENTS.get('X')\n", False),
        ("import this\n", False),
        ("import some_module_of_theirs\n", False),
        ("from . import os\n", False),
        ("x.y = 3\n", False),
        ("X = [print(i) for i in range(3)]\n", False),
        ("if X:\n    pass\n", False),
        ("def f():\n    pass\n", False),
        ("other = Environment(tools=[])\n", False),
    ],
)
def test_which_scripts(before: str, plain: bool) -> None:
    text = before + "env = Environment(tools=['pypto'], NAME=os.sep)\n"
    assert only_prepares(text.encode(), text.count("\n")) is plain
    assert only_prepares((text + "print('after')\n").encode(), text.count("\n")) is plain


@pytest.mark.parametrize(
    "call",
    [
        "env = make()",
        "env = Environment(tools=['default', pypto])",
        "env = Environment()",
        "Environment(f(), tools=[pypto])",
        "env = Environment(tools=[pypto], X=f())",
        "env = Environment(tools=tools)",
        "with env: pass",
    ],
)
def test_which_calls(call: str) -> None:
    assert not only_prepares(call.encode(), 1)


def test_of_a_library_that_is_another(tmp_path: Path) -> None:
    """`import json` beside a json.py of theirs."""
    (tmp_path / "json.py").write_text("")
    code = "import json; from pypto_build.rules.handing import only_prepares; print(only_prepares(b'import json\\n'))"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert re.fullmatch(r"False\n", run.stdout), run.stderr
