"""Scene tests of several chips without simpler, as `pypto-build scene`, pytest and `SCENE=` run them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.test_scenes import Workspace, lines

FILE = "scenes/scene_exchange.py"
RELAY = "scenes/scene_relay.py"
TWO = f"SCENE={FILE}::TestExchange::two"
#: The steps of a build, as printed with VERBOSE=1.
STEPS = re.compile(r"^\[(?:cpp->.so|scene|meta|manifest|replay)\] (compile|link|data|sign|run) +(\S+)", re.MULTILINE)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, runtime: Path) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("scenes"))


def test_both_cases_by_pytest(workspace: Workspace) -> None:
    run = workspace.run(FILE, "-p", "no:cacheprovider", "-v", "--platform", "a2a3sim", tool="pytest")
    assert sorted(re.findall(r"::(\S+\[a2a3sim\]) (PASSED|FAILED)", run.stdout)) == [
        ("TestExchange::two[a2a3sim]", "PASSED"),
        ("TestExchange::wrong[a2a3sim]", "FAILED"),
    ]
    assert "Golden mismatch on 'y1' 64/64 max_diff=1" in run.stdout
    assert "seen 1 tensors, 69.0" in run.stdout


def test_rounds_and_the_list(workspace: Workspace) -> None:
    run = workspace.run("scene", FILE, "-p", "a2a3sim", "--case", "two", "--rounds", "2")
    assert run.returncode == 0 and run.stdout.endswith("\n1 passed\n"), run.stdout
    listed = workspace.run("scene", "--list", FILE)
    assert "  TestExchange  level 3, tensormap_and_ringbuffer\n    two  a2a3sim, a5sim\n" in listed.stdout


def test_a_kernel_that_never_notifies(workspace: Workspace) -> None:
    workspace.edit("kernels/exchange.cpp", "comm::TNOTIFY", "if (peer) comm::TNOTIFY")
    run = workspace.run("scene", FILE, "-p", "a2a3sim", "--case", "two")
    workspace.edit("kernels/exchange.cpp", "if (peer) comm::TNOTIFY", "comm::TNOTIFY")
    assert run.returncode == 1 and "the ranks wait for each other: rank 0 d0 'trade' kernel" in run.stdout, run.stdout


def steps(workspace: Workspace) -> list[str]:
    """Return the build steps of a replay of the case, and its final status."""
    run = workspace.run("-Q", "replay", TWO, "VERBOSE=1", "BUILD_DIR=own", tool="SCons")
    return [" ".join(words) for words in STEPS.findall(run.stdout)] + re.findall(r"^\[RUN\] ([A-Z]+)", run.stdout, re.M)


def test_a_class_is_a_program_of_several_chips(workspace: Workspace) -> None:
    """Check that chip program files are nodes, and that the recorded orchestration is a result like all others."""
    run = workspace.run("-Q", "replay", f"SCENE={FILE}", "BUILD_DIR=own", tool="SCons")
    assert run.returncode == 2 and run.stdout.count("[scene] data ") == 2, run.stdout
    assert "[scene] 1 passed, 1 failed\n" in run.stdout and "seen 1 tensors, 69.0" in run.stdout
    assert re.search(r"'y1' FAIL .*\n +Mismatched elements: 64/64", run.stdout), run.stdout
    assert "'x'" not in run.stdout  # which nothing writes
    assert steps(workspace) == ["PASS"]
    name = "scenes/kernels/exchange.cpp"
    workspace.edit("kernels/exchange.cpp", "y[i] = x[i]", "y[i] = 2 * x[i]")
    assert steps(workspace) == [f"compile {name}", "link kernels/aiv/exchange_0.so", "run TestExchange::two", "FAIL"]
    workspace.edit("kernels/exchange.cpp", "y[i] = 2 * x[i]", "y[i] = x[i]")
    assert steps(workspace) == ["PASS"]  # everything is restored
    workspace.edit("scene_exchange.py", "int(task_args.more.value)", "int(task_args.more.value) + 1")
    data = ["data TestExchange::two"]
    assert steps(workspace) == [*data, "sign orchestration/host_orch.py", "run TestExchange::two", "FAIL"]
    workspace.edit("scene_exchange.py", "int(task_args.more.value) + 1", "int(task_args.more.value)")
    assert steps(workspace) == [*data, "PASS"]


def test_what_chips_and_host_callables_wait_for(workspace: Workspace) -> None:
    run = workspace.run("scene", RELAY, "-p", "a2a3sim")
    error = f"host callable 'add': {workspace.root}/{RELAY}:16: AssertionError: y[0] is 2000; correct the host callable"
    assert lines(run.stdout) == [
        "TestRelay::small PASSED",
        f"TestRelay::large FAILED: runtime_error: {error}",
        "TestRelayJudged::first PASSED",
        "TestRelayJudged::second FAILED: TestRelayJudged: y[0] is 13",
        "TestRelayByItself::any SKIPPED: it drives a worker of several chips itself (test_run), which needs simpler",
    ], run.stdout
    built = workspace.root / "build" / "a2a3sim"
    assert len(list(built.glob("scene_relay-*.TestRelay.double/kernels/aiv/*.so"))) == 1
    workspace.edit("scene_relay.py", "torch.full((16,), 1.5)", "torch.zeros(16)")
    wrong = workspace.run("replay", f"SCENE={RELAY}::TestRelay::small")
    workspace.edit("scene_relay.py", "submit_next_level(callables.double", "submit_sub(callables.double")
    nothing = workspace.run("replay", f"SCENE={RELAY}::TestRelay::small")
    workspace.edit("scene_relay.py", "submit_sub(callables.double", "submit_next_level(callables.double")
    workspace.edit("scene_relay.py", "torch.zeros(16)", "torch.full((16,), 1.5)")
    assert wrong.returncode == 1 and "actual is the golden minus 3 everywhere" in wrong.stdout, wrong.stdout
    assert nothing.returncode in (0, 2) and "Traceback" not in nothing.stdout, nothing.stdout
    assert "a host callable that is not registered" in nothing.stdout, nothing.stdout


def test_instruments_take_a_case(workspace: Workspace) -> None:
    """Run one replay for each single-run instrument; RANK= selects the records of a rank."""
    run = workspace.run("-Q", "deps", "dump", "report", "lint", "pack", TWO, tool="SCons")
    assert run.returncode == 0 and run.stdout.count("[RUN] PASS") == 1, run.stdout
    lines = run.stdout.splitlines()
    assert "2 ranks, 3 dispatches of 1 program, domains: pair (2 ranks, 4,096 bytes)" in lines
    assert any(line.startswith("host  d0  seen") for line in lines)
    assert any(line.startswith("1/d0  0 (0:0)  exchange_0    1  y ") for line in lines)
    name = "scene_exchange-6dd792.TestExchange.two"
    assert f"[lint] {name}: nothing found" in lines
    out = workspace.root / "build" / "a2a3sim" / name
    assert "rank 1" in (out / "report.html").read_text()
    run = workspace.run("-Q", "deps", "dump", TWO, "RANK=1/d0", "TASK=0", tool="SCons")
    assert run.returncode == 0 and "[RUN]" not in run.stdout, run.stdout
    assert "rank 1 d0 'trade', submitted at orchestration/host_orch.py:" in run.stdout
    assert f"submitted at {workspace.root}/scenes/kernels/pair.cpp:" in run.stdout
    pack = workspace.root / f"{name}.tar.zst"
    (out / pack.name).rename(pack)
    (workspace.root / "scenes").rename(workspace.root / "elsewhere")
    run = workspace.run("replay", str(pack))
    (workspace.root / "elsewhere").rename(workspace.root / "scenes")
    assert run.returncode == 0 and "seen 1 tensors, 69.0" in run.stdout, run.stdout


def test_a_wait_that_holds_from_the_start(workspace: Workspace) -> None:
    workspace.edit("kernels/exchange.cpp", "comm::TWAIT(own, 1,", "comm::TWAIT(own, 0,")
    run = workspace.run("-Q", "hazards", TWO, "MEMORY=weak", tool="SCons")
    triage = workspace.run("-Q", "triage", TWO, "ROUNDS=20", tool="SCons")
    workspace.edit("kernels/exchange.cpp", "comm::TWAIT(own, 0,", "comm::TWAIT(own, 1,")
    text = (workspace.root / "scenes/kernels/exchange.cpp").read_text().splitlines()
    line = next(number for number, line in enumerate(text, 1) if "y[i] =" in line)
    position = f"\nscenes/kernels/exchange.cpp:{line}: error: rank "
    assert run.returncode and position in run.stdout and "hazards/unordered-ranks" in run.stdout, run.stdout
    assert triage.returncode and "[triage] scene_exchange-6dd792.TestExchange.two: 'y" in triage.stdout, triage.stdout
    assert "flaky/schedule" in triage.stdout and "Traceback" not in triage.stdout, triage.stdout


@pytest.mark.parametrize(
    "words, message",
    [
        (
            ("why", TWO, "AT=y0[0]"),
            (
                "is a program for several chips, but 'scons why' works on the program of one chip; name one "
                "with JIT=, of build/"
            ),
        ),
        (("replay", TWO, "WORLD=4"), "WORLD=4: TestExchange::two is for 2 chips; the number is device_count"),
        (("replay", TWO, "DEVICES=1-3"), "DEVICES=1-3: TestExchange::two is for 2 chips; the number is device_count"),
        (
            ("replay", TWO, "CHECK=1"),
            (
                "CHECK=1: works on one chip program, but the artifact is for several chips; name a directory "
                "under next_levels/ with JIT="
            ),
        ),
        (
            ("dump", "SCENE=scenes/scene_chain.py::TestChain::small", "RANK=1"),
            "RANK=1: scene_chain-6dd792.TestChain is a program for one chip; leave it out",
        ),
    ],
)
def test_what_is_not_for_several_chips(workspace: Workspace, words: tuple[str, ...], message: str) -> None:
    run = workspace.run("-Q", *words, tool="SCons")
    assert run.returncode == 2 and message in run.stdout and "Traceback" not in run.stdout, run.stdout
