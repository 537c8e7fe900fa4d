"""`pypto-build setup`: nothing of a user's is lost, twice is once, and shells complete what the tables say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build import cli
from pypto_build.editor.setup.__main__ import MATCHER_PATTERN, MODULE_PATTERN, main, tasks
from pypto_build.editor.setup.completion import SHELLS, commands, options_of, script
from pypto_build.editor.setup.plan import JsoncError, json_file, plain, read
from pypto_build.facts.options import OPTIONS
from pypto_build.rules.machinery.workspace import DECLARED_TESTS
from pypto_build.rules.targets import TARGETS

PARTS = ["bash", "zsh", "fish", "vscode", "extension", "clangd", "editorconfig", "quiet", "github"]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with two artifacts and two tests, and a home of its own."""
    top = tmp_path / "top"
    for name in ("_jit_one", "_jit_two"):
        (top / "build_output" / name).mkdir(parents=True)
        (top / "build_output" / name / "kernel_config.py").touch()
    (top / "build_output" / "no_artifact").mkdir()
    (top / "SConstruct").write_text(
        "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
        'env.ReplayTest(\n    name="first", artifact="build_output/_jit_one",\n)\n'
        "env.ReplayTest(artifact='build_output/_jit_two', name='second')\n",
        encoding="utf-8",
    )
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "PYPTO_PROG_BUILD_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.chdir(top)
    return top


def files_below(top: Path) -> dict[str, str]:
    return {str(path.relative_to(top)): path.read_text(encoding="utf-8") for path in top.rglob("*") if path.is_file()}


def test_without_write_nothing_is_written(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files_below(workspace.parent)
    assert main([*PARTS]) == 0
    assert files_below(workspace.parent) == before
    printed = capsys.readouterr().out.splitlines()
    assert ".vscode/tasks.json: new" in printed
    assert printed[-1] == "nothing was written; WRITE=1 writes these files"


def test_written_twice_is_written_once(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PARTS, "WRITE=1"]) == 0
    first = files_below(workspace.parent)
    capsys.readouterr()
    assert main([*PARTS, "--write"]) == 0
    assert files_below(workspace.parent) == first
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 14 and all(line.endswith(": up to date") for line in printed)


def test_a_file_of_ours_is_renewed_until_somebody_edits_it(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = workspace / ".github" / "workflows" / "pypto-replay.yml"
    main(["github", "WRITE=1"])
    path.write_text(path.read_text(encoding="utf-8").replace("path/to/pypto-build", "mine"), encoding="utf-8")
    edited = path.read_text(encoding="utf-8")
    main(["github", "WRITE=1"])
    assert path.read_text(encoding="utf-8") == edited
    assert capsys.readouterr().out.splitlines()[-2:] == [
        ".github/workflows/pypto-replay.yml: yours, left alone",
        "    do: to have ours, remove it and run setup again",
    ]


def test_a_completion_of_somebody_elses_stays(workspace: Path) -> None:
    path = workspace.parent / "home" / ".local" / "share" / "bash-completion" / "completions" / "scons"
    path.parent.mkdir(parents=True)
    path.write_text("complete -W mine scons\n", encoding="utf-8")
    main(["bash", "WRITE=1"])
    assert path.read_text(encoding="utf-8") == "complete -W mine scons\n"
    assert path.with_name("pypto-build").is_file()


TASKS = """\
{
  // what I run
  "version": "2.0.0",
  "tasks": [
    { "label": "mine", "command": "x" }, // keep
    /* and this */
    { "label": "pypto: replay", "command": "my own" }
  ], // the end
}
"""


def test_tasks_are_merged_and_comments_stay(workspace: Path) -> None:
    path = workspace / ".vscode" / "tasks.json"
    path.parent.mkdir()
    path.write_text(TASKS, encoding="utf-8")
    main(["vscode", "WRITE=1"])
    text = path.read_text(encoding="utf-8")
    for line in TASKS.splitlines()[:-2]:
        assert line.rstrip(",") in text
    merged = plain(read(text))
    assert isinstance(merged, dict)
    labels = [task["label"] for task in merged["tasks"]]
    assert labels[:2] == ["mine", "pypto: replay"] and labels.count("pypto: replay") == 1 and "pypto: test" in labels
    assert merged["tasks"][1]["command"] == "my own"
    assert [each["id"] for each in merged["inputs"]] == ["pyptoArtifact", "pyptoPlatform"]


@pytest.mark.parametrize(
    "text",
    ["{}", "{\n}\n", '{"a": 1}', '{"a": 1,}', '{\n\t"a": 1\n}\n', '{\n  "a": 1 // why\n}', '{ "x": {}, "y": [] }',
     '{"x": {"k": 0 /* c */ }, "y": ["--b=mine", // c\n]}', '// c\n{\n  "y": [\n    1,\n    2\n  ]\n}'],
)  # fmt: skip
def test_whatever_the_layout_what_was_there_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(text, encoding="utf-8")
    members: dict[str, object] = {"x": {"k": 1, "l": [2]}, "y": ["--b=ours", "--c"]}
    merged = json_file(path, members).text
    assert merged is not None
    before, after = plain(read(text)), plain(read(merged))
    assert isinstance(before, dict) and isinstance(after, dict)
    assert after["x"] == {**members["x"], **before.get("x", {})}  # type: ignore[dict-item]
    assert after["y"] == [*before.get("y", []), *(["--c"] if "mine" in text else ["--b=ours", "--c"])]
    assert all(after[name] == value for name, value in before.items() if name not in members)
    rest = iter(merged)
    assert all(character in rest for character in text if not character.isspace() and character != ",")
    path.write_text(merged, encoding="utf-8")
    assert json_file(path, members).text is None


@pytest.mark.parametrize("text", ["{", "[1", '{"a"}', "{'a': 1}", "nul", '{"a": 1} 2', "[" * 5000, '{"a": "\n"}'])
def test_what_is_no_json_is_left_alone(tmp_path: Path, text: str) -> None:
    with pytest.raises(JsoncError, match=r"line \d+: "):
        read(text)
    path = tmp_path / "f.json"
    path.write_text(text, encoding="utf-8")
    step = json_file(path, {"a": 1})
    assert step.text is None and step.what.startswith("left alone: is not JSON, line ") and step.todo == 'add {"a": 1}'


@pytest.mark.parametrize(
    "words, message",
    [
        (["nope"], "nope: no such part; there are bash, zsh"),
        (["WRITE=2"], "WRITE=2: no such part"),
        (["--print"], "--print: name one of bash, zsh, fish"),
        (["--dry-run", "--write"], "--dry-run and WRITE=1: say one of them"),
        (["--directory", "nowhere"], "nowhere: no such directory"),
    ],
)
def test_wrong_usage_is_one_line(
    workspace: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pypto-build setup: {message}") and error.count("\n") == 1


# --- the problem matcher ---------------------------------------------------------------------------------------------

LINES = {
    "build_output/_jit_one/kernels/aiv/k.cpp:12:5: error: expected ';' before '}' token":
        ("build_output/_jit_one/kernels/aiv/k.cpp", "12", "5", "error"),
    "/abs/k.cpp:3:9: warning: unused variable 'x'": ("/abs/k.cpp", "3", "9", "warning"),
    "kernels/aiv/k.cpp:7: error: writes 'b', which is IN [hazards/declared]": ("kernels/aiv/k.cpp", "7", None, "error"),
    "kernel_config.py:4: note: no runtime named [lint/meta]": ("kernel_config.py", "4", None, "note"),
    "k.cpp:1:10: fatal error: no.h: No such file or directory": ("k.cpp", "1", "10", "error"),
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_the_matcher_takes_what_tools_print(line: str) -> None:
    match = re.match(MATCHER_PATTERN, line)
    assert match is not None and match.groups()[:4] == LINES[line]


@pytest.mark.parametrize(
    "line",
    ["[RUN] PASS (0.02s)", "  'f' FAIL  shape=(128, 128)", "[replay] run x  (content of a:1: b changed)",
     "    do: a:1: b", "ptoas/k.pto:3:5: pto.tadd: src0 has 3 valid rows"],
)  # fmt: skip
def test_the_matcher_takes_nothing_else(line: str) -> None:
    assert re.match(MATCHER_PATTERN, line) is None


@pytest.mark.parametrize("before", ["", "error: "])  # of the check, and of a replay that assembles it
def test_the_module_matcher_takes_what_is_said_of_modules(before: str) -> None:
    match = re.match(MODULE_PATTERN, f"{before}examples/x/ptoas/k.pto:3:5: pto.tadd: src0 has 3 valid rows, dst has 4")
    assert match is not None and match.groups() == (
        "examples/x/ptoas/k.pto", "3", "5", "pto.tadd: src0 has 3 valid rows, dst has 4"
    )  # fmt: skip


def test_tasks_are_targets() -> None:
    rows = tasks()["tasks"]
    assert isinstance(rows, list)
    assert {row["label"].removeprefix("pypto: ") for row in rows} <= TARGETS.keys()
    assert all(row["label"].removeprefix("pypto: ") in row["args"] for row in rows)


# --- shells ----------------------------------------------------------------------------------------------------------


def complete(shell: str, line: str, top: Path) -> list[str]:
    """Return a shell's completions of a line, as it would insert them."""
    file = top.parent / f"completion.{shell}"
    file.write_text(script(shell), encoding="utf-8")
    if shell == "bash":
        code = (
            'compopt() { :; }; source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; '
            '_pypto_build "${2%% *}"; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        command = ["bash", "--norc", "-c", code, "x", str(file), line]
    else:
        command = ["fish", "--no-config", "-c", f"source {file}; complete -C {json.dumps(line)}"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where `pypto-build` is
    environment = {**os.environ, "PATH": path}
    run = subprocess.run(command, cwd=top, capture_output=True, text=True, check=True, env=environment)
    assert run.stderr == ""
    last = line.split(" ")[-1]
    prefix = last.split("=")[0] + "=" if "=" in last and shell == "bash" else ""
    return [prefix + each.split("\t")[0] for each in run.stdout.splitlines() if each]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_shell_completes(workspace: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")

    def offers(line: str) -> set[str]:
        return set(complete(shell, line, workspace))

    assert {"replay", "report"} <= offers("scons re")
    assert {"first", "second"} <= offers("scons ") and "looped_3" not in offers("scons ")
    (workspace / "build").mkdir()
    (workspace / "build" / DECLARED_TESTS).write_text("first\nlooped_3\n")
    assert offers("scons loop") == {"looped_3"}
    assert "setup" in offers("pypto-build se") and "test" not in offers("pypto-build te")
    assert {"JIT=_jit_one", "JIT=_jit_two"} <= offers("scons replay JIT=")
    assert "JIT=no_artifact" not in offers("scons replay JIT=no")
    assert offers("scons replay PLATFORM=a5") == {"PLATFORM=a5", "PLATFORM=a5sim"}
    assert offers("scons dump DUMP=") == {f"DUMP={level}" for level in range(4)}
    assert "EXPORT=" in offers("scons deps EXP") and "EXPORT=" not in offers("scons lint EXP")
    assert offers("scons hel") == {"help"}
    assert complete(shell, "scons ", workspace)[:3] == list(TARGETS)[:3]
    assert complete(shell, "pypto-build ", workspace)[:3] == list(TARGETS)[:3]
    assert complete(shell, "scons replay ", workspace)[:2] == ["JIT=", "PLATFORM="]
    assert "replay" in offers("scons ") and not any(word.endswith("=") for word in offers("scons "))
    assert "PLATFORM=" in offers("scons PLAT")
    assert {"step", "NUMERICS"} <= offers("scons help ") and "NUMERICS=" not in offers("scons help NUM")
    assert offers("scons replay MEMORY=") == {"MEMORY=weak"}
    assert "_jit_one" in offers("pypto-build replay _jit_o")
    assert "--golden-data" in offers("pypto-build replay --gol")


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_are_read_without_error(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    file = tmp_path / "completion"
    file.write_text(script(shell), encoding="utf-8")
    assert subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, check=True).stderr == ""


def test_every_verb_is_offered() -> None:
    scons, own = commands()
    assert scons.verbs.keys() == {*TARGETS, "help"}
    assert own.verbs.keys() == {*cli._VERBS, *cli._TOOLS, "help"}


def test_every_option_of_a_target_is_offered() -> None:
    assert all(set(TARGETS[verb].options) <= set(options_of(verb)) <= OPTIONS.keys() for verb in TARGETS)
