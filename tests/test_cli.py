"""The command line: flags of every age become options, and what they ask for is there after the run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from pypto_build import cli
from pypto_build.rules.targets import TARGETS
from tests.rows import every
from tests.rules.project import Project


@every(
    "flags, words",
    [
        ([], []),
        (["-p", "a5sim"], ["PLATFORM=a5sim"]),
        (["--platform", "a5sim", "--golden-data", "d"], ["PLATFORM=a5sim", "DATA=d"]),
        (["--dump-args"], ["DUMP=1"]),
        (["--dump-tensor", "2"], ["DUMP=2", "DUMP_FORMAT=tensor"]),
        (["--dump-tensor", "--runtime", "simpler"], ["RUNTIME=simpler", "DUMP=2"]),
        (["--dump-tensor", "--platform", "a5sim"], ["PLATFORM=a5sim", "DUMP=2", "DUMP_FORMAT=tensor"]),
        (["--dump-args"], ["DUMP=1"]),
        (["--dump-args", "3"], ["DUMP=3"]),
        (["--enable-chip-swimlane"], ["SWIMLANE=4"]),
        (["--enable-l2-swimlane", "2"], ["SWIMLANE=2"]),
        (["--enable-profiling"], ["SWIMLANE=4"]),
        (["--enable-dep-gen", "--enable-scope-stats"], ["DEP_GEN=1", "SCOPE_STATS=1"]),
        (["--log-level", "v5"], ["LOG_LEVEL=v5"]),
        (["-f", "-v"], ["VERBOSE=1", "FORCE=1"]),
        (["--seed", "3", "--shuffle"], ["SEED=3", "SHUFFLE=1"]),
        (["--device-id", "2"], ["DEVICE=2"]),
        (["--no-validate", "--no-rebuild-from-pto"], ["PREFER=cpp", "ALLOW_UNCHECKED=1"]),
        (["--validate", "--no-recompile", "--log-sync-pypto", "--enable-swimlane-overhead"], []),
        (["--sanitizer", "none"], []),
        (["--sanitizer", "asan"], ["CHECK=1"]),
        (
            ["--sanitizer", "asan,ubsan"],
            ["KERNEL_FLAGS=-fsanitize=undefined -fsanitize-undefined-trap-on-error", "CHECK=1"],
        ),
        (["--sanitizer", "ubsan"], ["KERNEL_FLAGS=-fsanitize=undefined -fsanitize-undefined-trap-on-error"]),
        (["--rounds", "2", "--timeout", "5", "--rtol", "1e-3"], ["RTOL=1e-3", "ROUNDS=2", "TIMEOUT=5"]),
    ],
)
def test_flags_become_options(flags: list[str], words: list[str]) -> None:
    command = cli.scons_words(cli.parse(["replay", "x", *flags]))
    assert command[command.index("replay") :] == ["replay", "JIT=x", *words]


@pytest.mark.parametrize("flag", ["--runtime-dir", "--work-dir"])
def test_the_artifact_by_upstreams_flags(flag: str) -> None:
    command = cli.scons_words(cli.parse(["replay", flag, "dir"]))
    assert command[-1] == "JIT=dir"


@pytest.mark.parametrize("columns", [80])
def test_the_help_breaks_lines_at_words(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = cli.parser.__wrapped__().format_help().splitlines()
    assert [line for line in lines if len(line) >= columns and not line.startswith("  --") and line[-1] != ":"] == []
    row = next(number for number, line in enumerate(lines) if line.startswith("  passes "))
    words = " ".join(f"{lines[row]} {lines[row + 1]}".split())
    assert words.startswith("passes show what each compiler pass changed, and which broke it")


def test_upstreams_flags_without_an_effect(capsys: pytest.CaptureFixture[str]) -> None:
    cli.parse(["replay", "x", "--no-recompile", "--validate"])
    assert capsys.readouterr().err == (
        "pypto-build: --no-recompile has no effect: only what changed is compiled\n"
        "pypto-build: --validate has no effect: outputs are always compared\n"
    )


def test_a_batch_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The artifacts of one platform go together; the first failure is the status."""
    manifest = tmp_path / "batch.json"
    rows = [("a", "a2a3sim"), ("b", "a5sim"), ("c", "a2a3sim")]
    manifest.write_text(json.dumps([{"work_dir": path, "platform": platform} for path, platform in rows]))
    commands = []

    def scons(words: Sequence[str], environment: dict[str, str]) -> int:
        commands.append(list(words[words.index("replay") :]))
        return 5 if "PLATFORM=a5sim" in words else 0

    assert cli.main(["replay", "--batch-manifest", str(manifest), "FORCE=1"], scons) == 5
    assert commands == [
        ["replay", "JIT=a,c", "PLATFORM=a2a3sim", "FORCE=1"],
        ["replay", "JIT=b", "PLATFORM=a5sim", "FORCE=1"],
    ]
    manifest.write_text('[{"work_dir": 3}]')
    assert cli.main(["replay", f"--batch-manifest={manifest}"], scons) == 2
    assert "is not a list of {work_dir, platform}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, command",
    [
        (["flaky", "x", "ROUNDS=5", "-p", "a5sim"], ["flaky", "JIT=x", "PLATFORM=a5sim", "ROUNDS=5"]),
        (["replay", "JIT=x", "RTOL=0"], ["replay", "JIT=x", "RTOL=0"]),
        (["compile", "p.py", "--seed", "3"], ["compile", "PROGRAM=p.py", "SEED=3"]),
        (["compile", "PROGRAM=p.py"], ["compile", "PROGRAM=p.py"]),
        (["diverge", "x", "PROGRAM=p.py"], ["diverge", "JIT=x", "PROGRAM=p.py"]),
        (["hang", "--log", "dir"], ["hang", "LOG=dir"]),
    ],
)
def test_words_as_scons_takes_them(words: list[str], command: list[str]) -> None:
    typed = cli.scons_words(cli.parse(words))
    assert typed[typed.index(command[0]) :] == command


@pytest.mark.parametrize(
    "words, message",
    [
        (["replai", "x"], "there is no verb replai; did you mean replay?"),
        (["zzz", "x"], "there is no verb zzz; see pypto-build --help"),
        (["replay", "x", "--forse"], "--forse: no such flag; did you mean --force?"),
        (["replay", "x", "--plat=a5sim"], "--plat=a5sim: no such flag; did you mean --platform?"),
        (["replay", "x", "y"], "y: no such flag; see pypto-build --help"),
        (["replay", "x", "--seed"], "argument --seed: expected one argument; see pypto-build --help"),
        (
            ["replay", "x", "--sanitizer", "asan,address"],
            "--sanitizer address: is not one of none, asan, ubsan, tsan; give some of them, with commas",
        ),
        (
            ["replay", "x", "--sanitizer", "tsan"],
            "--sanitizer tsan: what is not ordered is found by another verb; use pypto-build hazards",
        ),
        (["--check"], "the following arguments are required: VERB; see pypto-build --help"),
    ],
)
def test_a_mistyped_command_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.parse(words)
    assert (end.value.code, capsys.readouterr().err) == (2, f"pypto-build: {message}\n")


@pytest.mark.parametrize("words", [[], ["help"], ["--help"]])
def test_help_is_one_page_and_lists_every_verb(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    text, errors = capsys.readouterr()
    assert (end.value.code, errors) == (0, "")
    assert max(map(len, text.splitlines())) <= 80 and len(text.splitlines()) <= 80
    assert "\n    pypto-build VERB --help  " in text and "--numerics" not in text
    assert text.startswith("usage: pypto-build VERB PATH [flags] [NAME=value ...]\n\nTo build and replay:\n  build ")
    assert [verb for verb in (*cli._VERBS, *cli._TOOLS) if f"\n  {verb:<11} " not in text] == []


def test_help_on_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["extract", "--help"], ["help", "extract"]):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        text = capsys.readouterr().out
        assert (end.value.code, text.splitlines()[:3]) == (
            0,
            ["usage: pypto-build extract PATH [flags] [NAME=value ...]", "", TARGETS["extract"].doc],
        )
        assert max(map(len, text.splitlines())) <= 80
        assert [flag in text for flag in ("--task VALUE", "--platform VALUE", "--axis")] == [True, True, False]
        assert "\nfor many artifacts (JIT= names, a glob or @LIST; PLATFORM= names):\n" in text


def test_what_a_run_leaves(tmp_path: Path) -> None:
    project = Project(tmp_path)
    run = project.cli("replay", "_jit_chain", "--dump-args", "2", "--enable-dep-gen", "--enable-l2-swimlane", "-d", "0")
    assert run.status == 0, run.output
    assert "--device 0 has no effect: a simulated platform has no devices" in run.output
    left = project.out / "dfx_outputs"
    dump = json.loads((left / "args_dump" / "args_dump.json").read_bytes())
    assert dump["total_args"] == len(dump["args"]) == 4
    assert len(json.loads((left / "deps.json").read_bytes())["edges"]) == 3
    assert (left / "chip_swimlane_records.json").exists()
    run = project.cli("replay", "_jit_chain", "--verbose")
    assert run.actions == ["run _jit_chain"]
    assert not left.exists()


def test_a_tools_exit_status_is_the_commands(tmp_path: Path) -> None:
    project = Project(tmp_path)
    module = project.write("build_output/_jit_chain/ptoas/m.pto", "module {\n}\n")
    assert project.cli("pto_check", "_jit_chain").status == 0
    module.write_text("module {\n  nonsense\n}\n", encoding="utf-8")
    run = project.cli("pto_check", "_jit_chain")
    assert (run.status, f"{module}:2:3: " in run.output) == (1, True), run.output
    assert not project.out.exists()


def test_two_artifacts_or_none_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay"]) == 2
    assert cli.main(["replay", "x", "--runtime-dir", "y"]) == 2
    assert capsys.readouterr().err == 2 * "pypto-build: name one artifact, as PATH or with --runtime-dir\n"
    assert cli.main(["compile"]) == 2
    assert capsys.readouterr().err == "pypto-build: name one program, as PATH\n"


def test_who_stands_in_the_artifact_builds_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pypto-build replay .` and `pytest kernel_config.py` write nothing into the artifact."""
    artifact = tmp_path / "build_output" / "_jit_x"
    (artifact / "kernels").mkdir(parents=True)
    for directory in (artifact, artifact / "kernels"):
        monkeypatch.chdir(directory)
        assert f"BUILD_DIR={tmp_path}/build" in cli.scons_words(cli.parse(["replay", str(artifact)]))
    monkeypatch.chdir(artifact)
    assert f"BUILD_DIR={tmp_path}/build" in cli.scons_words(cli.parse(["replay", "."]))
    words = cli.scons_words(cli.parse(["replay", ".", "BUILD_DIR=here"]))
    assert [word for word in words if word.startswith("BUILD_DIR=")] == ["BUILD_DIR=here"]
    monkeypatch.chdir(tmp_path)
    assert not any("BUILD_DIR" in word for word in cli.scons_words(cli.parse(["replay", str(artifact)])))


def test_ctrl_c_that_comes_as_the_command_ends_keeps_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the command may be gone before this process hears of Ctrl-C."""
    wait = os.waitpid

    def waitpid(process: int, options: int) -> tuple[int, int]:
        ended = wait(process, options)
        signal.raise_signal(signal.SIGINT)
        return ended

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background has not
    try:
        monkeypatch.setattr(os, "waitpid", waitpid)
        assert cli._run(["/bin/sh", "-c", "exit 130"], os.environ) == 130
        assert cli._run(["/bin/sh", "-c", "kill -KILL $$"], os.environ) == 128 + signal.SIGKILL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
