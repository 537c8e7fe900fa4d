"""The command line up to the point where something runs: bad usage gives one line, a verdict and its exit status."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.artifact import load_artifact
from pypto_build.artifact.interface import encode_interface, sign
from pypto_build.replay.cli import main, request_from
from pypto_build.replay.request import Request
from pypto_build.replay.verdict import read_verdict

EXAMPLES = Path(__file__).parents[2] / "examples" / "artifacts"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """Return a build directory that has only the interface, beside a copy of the artifact."""
    artifact = tmp_path / "_jit_softmax"
    shutil.copytree(EXAMPLES / "_jit_softmax", artifact)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "interface.json").write_bytes(encode_interface(sign(load_artifact(artifact)).interface))
    return tmp_path


def _argv(root: Path, *more: str) -> list[str]:
    words = [str(root / "_jit_softmax"), "--platform", "a2a3sim", "--build-dir", str(root / "out")]
    return [*words, "--embedded", str(root / "_embedded.so"), *more]


def test_every_option(tmp_path: Path) -> None:
    words = (
        "--data d --rtol 1e-3 --atol 0 --seed 7 --timeout 2.5 --rounds 3 --threads 2 --memory 100 --runtime embedded"
    )
    words += " --comparator y=ratio_allclose(rtol=0.1) --comparator z=ratio_reldiff --scalar n=3 --scalar a=0.5"
    assert request_from(_argv(tmp_path, *words.split())) == Request(
        artifact_dir=tmp_path / "_jit_softmax",
        build_dir=tmp_path / "out",
        embedded=tmp_path / "_embedded.so",
        platform="a2a3sim",
        data=Path("d"),
        rtol=1e-3,
        atol=0.0,
        seed=7,
        timeout_s=2.5,
        rounds=3,
        threads=2,
        memory_mb=100,
        comparators={"y": "ratio_allclose(rtol=0.1)", "z": "ratio_reldiff"},
        scalars={"n": 3, "a": 0.5},
        verbose=False,
        rules="show",
    )


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--dump-args 3 --dump-select a:1,b --dump-select c*", {"dump_args": 3, "dump_select": ["a:1", "b", "c*"]}),
        ("--dump-tasks 3,5-9", {"dump_args": 2, "dump_tasks": ["3", "5-9"]}),
        ("--dump-args 1 --dump-format tensor", {"dump_args": 1, "dump_format": "tensor"}),
        ("--zero-fill --log-level v0", {"poison": False, "log_level": 15}),
    ],
)
def test_options_of_the_run(tmp_path: Path, words: str, options: dict[str, object]) -> None:
    assert request_from(_argv(tmp_path, *words.split())).options == options


USAGE = {
    "unknown option": (["--rtoll", "1"], "unrecognized arguments: --rtoll 1"),
    "abbreviated option": (["--time", "1"], "unrecognized arguments: --time 1"),
    "tolerance below zero": (["--rtol", "-1"], "argument --rtol: invalid number (at least 0) value: '-1'"),
    "no rounds": (["--rounds", "0"], "argument --rounds: invalid number (at least 1) value: '0'"),
    "seed that is no number": (["--seed", "x"], "argument --seed: invalid number (at least 0) value: 'x'"),
    "comparator without a name": (
        ["--comparator", "ratio_allclose"],
        "argument --comparator: 'ratio_allclose' is not NAME=VALUE",
    ),
    "scalar that is no number": (["--scalar", "n=many"], "argument --scalar: 'many' is not a number, true or false"),
}


@pytest.mark.parametrize("case", USAGE)
def test_command_line_that_cannot_be_parsed(tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    words, message = USAGE[case]
    assert main(_argv(tmp_path, *words)) == 2
    line = f"[RUN] FAIL: usage_error: python -m pypto_build.replay: {message}; --help lists the options\n"
    assert capsys.readouterr() == ("", line)
    verdict = read_verdict(tmp_path / "out" / "verdict.json")
    assert verdict.error is not None
    assert (verdict.status, verdict.error.kind, verdict.error.message) == ("usage_error", "usage_error", message)


REFUSED = {
    "unknown platform": (
        ["--platform", "a7"],
        2,
        "usage_error: --platform a7: unknown platform; use one of a2a3, a5, a2a3sim, a5sim",
    ),
    "hardware": (
        ["--platform", "a2a3"],
        2,
        "usage_error: --platform a2a3: is a device, but the embedded runtime only simulates; replay with a2a3sim",
    ),
    "unknown runtime": (
        ["--runtime", "other"],
        2,
        "usage_error: --runtime other: unknown runtime; use one of embedded, torch",
    ),
    "no data there": (
        ["--data", "/nowhere"],
        2,
        "usage_error: DATA=/nowhere: no such directory; give a directory that contains in/ and out/",
    ),
    "comparator for no output": (
        ["--comparator", "x=ratio_allclose"],
        2,
        "usage_error: --comparator x=ratio_allclose: 'x' is not an output of the program; the outputs are out",
    ),
    "nothing built": (
        [],
        3,
        "build_error: {root}/_embedded.so: is missing; build the artifact first: scons build JIT=…",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_anything_runs(built: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    words, status, message = REFUSED[case]
    stale = built / "out" / "actual" / "out.pt"
    stale.parent.mkdir()
    stale.touch()
    assert main(_argv(built, *words)) == status
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.partition("s): ")[2] == message.replace("{root}", str(built))
    assert read_verdict(built / "out" / "verdict.json").exit_status == status
    assert not stale.exists()


def test_golden_fault_is_found_before_anything_runs(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (built / "_jit_softmax/data/out/out.pt").write_bytes(b"PK\x03\x04")
    assert main(_argv(built, "--verbose")) == 4
    assert read_verdict(built / "out" / "verdict.json").status == "golden_error"
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "[RUN] compute golden ..."
    assert f"golden_error: {built}/_jit_softmax/data/out/out.pt: is truncated or damaged" in lines[-1]


def test_no_interface(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_argv(tmp_path)) == 2
    expected = f"usage_error: {tmp_path}/out/interface.json: cannot be read: No such file or directory"
    assert f"{expected}; build the artifact first" in capsys.readouterr().out


def test_start_loads_nothing_slow() -> None:
    """The time to the first task is part of every edit loop."""
    code = "import sys, pypto_build.replay.cli; print({'numpy', 'torch', 'rich', 'tree_sitter'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


def test_a_closed_pipe_is_no_failure(built: Path) -> None:
    """Close the pipe as `| head -1` does: the verdict is written, and the status is the run's."""
    command = [sys.executable, "-m", "pypto_build.replay", *_argv(built)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.close()
        errors = run.stderr.read()
    verdict = read_verdict(built / "out" / "verdict.json")
    assert (run.returncode, errors, verdict.status) == (3, "", "build_error")


def test_no_words_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("[RUN] FAIL: usage_error: python -m pypto_build.replay: the following ")


def test_results_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    words = [str(tmp_path), "--platform", "a2a3sim", "--build-dir", str(tmp_path / "out"), "--embedded", "x"]
    assert main(words) == 2
    assert f"usage_error: {tmp_path}/out/verdict.json: Not a directory\n" in capsys.readouterr().out
    assert main([*words, "--results", "default"]) == 2
    captured = capsys.readouterr()
    assert captured.out.endswith(f"usage_error: {tmp_path}/out/replays/default/verdict.json: Not a directory\n")
    assert captured.err == ""
