"""Actions that an edit causes: the exact list, every time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pypto_build.rules.machinery.configuration import KEPT
from pypto_build.toolchain.host import INCLUDE_DIR
from tests.rules.project import Project, Run, Saved

EVERYTHING = [
    "compile kernels/aiv/plus_one.cpp",
    "compile kernels/aiv/twice.cpp",
    "compile orchestration/chain.cpp",
    "link kernels/aiv/plus_one.so",
    "link kernels/aiv/twice.so",
    "link orchestration/chain.so",
    "run _jit_chain",
    "sign kernel_config.py",
]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A workspace whose artifact has been replayed once."""
    project = Project(tmp_path_factory.mktemp("incremental") / "here")
    run = project.replay()
    assert (run.status, run.actions) == (0, EVERYTHING), run.output
    assert set(run.reasons.values()) == {"not built before"}
    return Saved(project)


@pytest.fixture
def built(replayed: Saved) -> Project:
    """That workspace, for one test; nothing has to be done, after which files are known by more than their content."""
    project = replayed.repeated()
    check(project.replay(), [])
    return project


def check(run: Run, actions: list[str], reasons: dict[str, str] | None = None) -> None:
    assert run.status == 0, run.output
    assert run.actions == actions, run.output
    for action, reason in (reasons or {}).items():
        assert run.reasons[action] == reason


def test_null_build_runs_nothing(built: Project) -> None:
    run = built.replay()
    check(run, [])
    assert "[cpp->.so] no cpp edits since last build; reusing cached binaries" in run.output
    assert "[RUN] PASS (cached)" in run.output
    assert built.verdict()["cached"] is True


def test_checked_binaries_are_kept_beside_the_usual_ones(built: Project) -> None:
    compiled = [action for action in EVERYTHING if action.split()[0] in ("compile", "link")]
    run = built.replay("CHECK=1")
    check(run, [*compiled, "run _jit_chain CHECK=1"])
    check(built.replay("CHECK=1"), [])
    check(built.replay(), [])
    assert built.scons("-c").status == 0
    assert not built.out.exists()


def test_a_log_is_written_by_every_replay_that_asks_for_it(built: Project) -> None:
    """No result holds it; and where it goes decides about no compilation."""
    logs = built.root / "logs"
    logs.mkdir()
    for number, reason in ((1, "not built before"), (2, "a log in ASCEND_PROCESS_LOG_PATH is asked for")):
        run = built.scons("replay", "JIT=_jit_chain", "LOG_LEVEL=v0", env={"ASCEND_PROCESS_LOG_PATH": str(logs)})
        check(run, ["run _jit_chain LOG_LEVEL=v0"], {"run _jit_chain LOG_LEVEL=v0": reason})
        assert len(list(logs.glob("device-0/*.log"))) == number
    check(built.scons("replay", "JIT=_jit_chain", env={"ASCEND_PROCESS_LOG_PATH": str(logs)}), [])


def test_edited_kernel(built: Project) -> None:
    built.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", "4.0f * in[i] * 0.5f")
    run = built.replay()
    check(
        run,
        ["compile kernels/aiv/twice.cpp", "link kernels/aiv/twice.so", "run _jit_chain"],
        {
            "compile kernels/aiv/twice.cpp": "content of kernels/aiv/twice.cpp changed",
            "link kernels/aiv/twice.so": "content of kernels/aiv/twice.o changed",
            "run _jit_chain": "content of kernels/aiv/twice.so changed",
        },
    )
    assert (
        "[cpp->.so] cpp edits or missing binaries detected (1 file(s)): kernels/aiv/twice.cpp; rebuilding" in run.output
    )
    assert built.verdict()["cached"] is False
    check(built.replay(), [])


def test_comment_stops_after_the_compile(built: Project) -> None:
    built.edit("kernels/aiv/twice.cpp", "// Kernel Function: twice", "// Kernel Function: twice, commented")
    check(built.replay(), ["compile kernels/aiv/twice.cpp"])
    check(built.replay(), [])


def test_touch_is_no_edit(built: Project) -> None:
    for path in built.artifact.rglob("*"):
        os.utime(path)
    check(built.replay(), [])


def test_edit_that_keeps_time_and_size(built: Project) -> None:
    source = built.artifact / "kernels/aiv/plus_one.cpp"
    before = source.stat()
    built.edit("kernels/aiv/plus_one.cpp", "1.0f", "2.0f")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    run = built.replay()
    assert run.status == 2
    assert run.actions == ["compile kernels/aiv/plus_one.cpp", "link kernels/aiv/plus_one.so", "run _jit_chain"]
    assert built.verdict()["status"] == "mismatch"


def test_edit_and_back(built: Project) -> None:
    built.edit("kernels/aiv/twice.cpp", "2.0f", "3.0f")
    assert built.replay().status == 2
    built.edit("kernels/aiv/twice.cpp", "3.0f", "2.0f")
    run = built.replay()
    check(run, ["restored kernels/aiv/twice.so"])
    assert "[RUN] PASS (cached)" in run.output
    assert built.verdict()["status"] == "pass"
    check(built.replay(), [])


def test_header_of_the_artifact(built: Project) -> None:
    header = built.write("build_output/_jit_chain/kernels/aiv/scale.h", "#define SCALE 2.0f\n")
    built.write_kernel("twice", "SCALE * in[i]", '#include "scale.h"\n')
    check(built.replay(), ["compile kernels/aiv/twice.cpp"])
    header.write_text("#define SCALE (1.0f + 1.5f)\n", encoding="utf-8")
    run = built.replay()
    assert run.actions == ["compile kernels/aiv/twice.cpp", "link kernels/aiv/twice.so", "run _jit_chain"]
    assert run.reasons["compile kernels/aiv/twice.cpp"] == "content of kernels/aiv/scale.h changed"


def test_new_header_that_shadows(built: Project) -> None:
    text = (INCLUDE_DIR / "tensor.h").read_text(encoding="utf-8")
    built.write("build_output/_jit_chain/kernels/aiv/tensor.h", f"// a copy\n{text}")
    run = built.replay()
    check(run, ["compile kernels/aiv/plus_one.cpp", "compile kernels/aiv/twice.cpp"])
    assert run.reasons["compile kernels/aiv/twice.cpp"] == "kernels/aiv/tensor.h is a new input"


def test_edited_orchestration(built: Project) -> None:
    built.edit(
        "orchestration/chain.cpp", "params_t0.add_input(ext_x);", "params_t0.add_input(ext_x);\n        (void)t;"
    )
    check(built.replay(), ["compile orchestration/chain.cpp", "sign kernel_config.py"])
    built.edit("orchestration/chain.cpp", "t_shapes[1] = {16}", "t_shapes[1] = {32}")
    run = built.replay()
    assert run.actions == [
        "compile orchestration/chain.cpp",
        "link orchestration/chain.so",
        "run _jit_chain",
        "sign kernel_config.py",
    ]


def test_edited_manifest(built: Project) -> None:
    built.edit("kernel_config.py", "RUNTIME_CONFIG", "# a comment\nRUNTIME_CONFIG")
    check(
        built.replay(),
        ["sign kernel_config.py"],
        {"sign kernel_config.py": "content of kernel_config.py changed"},
    )
    built.edit("kernel_config.py", '"aicpu_thread_num": 0', '"aicpu_thread_num": 4')
    check(built.replay(), ["run _jit_chain", "sign kernel_config.py"])


def test_edited_input(built: Project) -> None:
    built.write_tensor("in/x", [float(i + 1) for i in range(16)])
    run = built.replay()
    assert (run.status, run.actions) == (2, ["run _jit_chain"])
    assert run.reasons["run _jit_chain"] == "content of data/in/x.pt changed"


def test_edited_golden(built: Project) -> None:
    built.write_tensor("out/y", [0.0] * 16)
    run = built.replay()
    assert (run.status, run.actions) == (2, ["run _jit_chain"])
    assert run.reasons["run _jit_chain"] == "content of data/out/y.pt changed"


def test_changed_flag(built: Project) -> None:
    run = built.replay("ARCH=native")
    assert run.status == 0
    assert [action for action in run.actions if action.startswith("compile")] == [
        "compile kernels/aiv/plus_one.cpp",
        "compile kernels/aiv/twice.cpp",
    ]
    assert run.reasons["compile kernels/aiv/twice.cpp"] == "its command line changed"


def test_every_way_to_run_has_its_own_results(built: Project) -> None:
    """Going from one option of the run to another and back repeats nothing, and OUT shows what was asked for last."""
    check(built.replay("RTOL=1e-3"), ["run _jit_chain RTOL=0.001"], {"run _jit_chain RTOL=0.001": "not built before"})
    assert built.verdict()["rtol"] == 1e-3
    run = built.replay()
    check(run, [])
    assert "[RUN] PASS (cached)  _jit_chain a2a3sim: 'y', 2 tasks; FORCE=1 runs it again\n" in run.output
    assert built.verdict()["rtol"] == 1e-5
    run = built.replay("RTOL=1e-3")
    check(run, [])
    assert "[RUN] PASS (cached)  _jit_chain a2a3sim RTOL=0.001: 'y', 2 tasks; FORCE=1 runs it again\n" in run.output
    assert built.verdict()["rtol"] == 1e-3


def test_tools_by_turns_repeat_no_replay(built: Project) -> None:
    check(built.scons("dump", "JIT=_jit_chain", "TASK=0"), ["run _jit_chain DUMP=2"])
    check(built.scons("deps", "JIT=_jit_chain", "TASK=0"), ["run _jit_chain DEP_GEN=1 SWIMLANE=4"])
    check(built.scons("dump", "JIT=_jit_chain", "TASK=0"), [])
    check(built.scons("deps", "JIT=_jit_chain", "TASK=0"), [])
    check(built.replay(), [])
    assert not (built.out / "dfx_outputs").exists()


def test_results_that_nobody_asks_for_make_room(built: Project) -> None:
    for seed in range(1, KEPT + 1):
        (built.out / f"replays/SEED={seed}").mkdir()
        os.utime(built.out / f"replays/SEED={seed}", (seed, seed))
    (built.out / "replays/SEED=2/.test").touch()
    check(built.replay("RTOL=1e-3"), ["run _jit_chain RTOL=0.001"])
    left = {path.name.partition("-")[0] for path in (built.out / "replays").iterdir()}
    assert left == {"latest", "default", "RTOL=0.001", *(f"SEED={seed}" for seed in range(2, KEPT + 1))}


def test_options_that_change_nothing_run_nothing(built: Project) -> None:
    check(built.replay("TIMEOUT=30", "VERBOSE=1"), [])


def test_force(built: Project) -> None:
    check(built.replay("FORCE=1"), ["run _jit_chain"], {"run _jit_chain": "FORCE=1"})


def test_a_failed_replay_runs_again(built: Project) -> None:
    built.write_tensor("out/y", [0.0] * 16)
    assert built.replay().status == 2
    run = built.replay()
    assert (run.status, run.reasons) == (2, {"run _jit_chain": "the last run did not pass"})
    built.write_tensor("out/y", [2.0 * i + 1.0 for i in range(16)])
    for lost in ((), ("verdict.json",), ("verdict.json", "actual/y.pt")):
        for name in lost:
            (built.out / "replays/default" / name).unlink()
        check(built.replay(), [])
        assert built.verdict()["status"] == "pass"
        assert (built.out / "actual/y.pt").exists()


def test_platforms_do_not_share(built: Project) -> None:
    run = built.replay("PLATFORM=a5sim")
    built_anew = [action for action in EVERYTHING if action.startswith(("compile", "link"))]
    restored = [action.replace("link orch", "restored orch") for action in built_anew]  # the same object on either
    check(run, [*restored, "run _jit_chain"])
    assert (built.root / "build/a5sim/_jit_chain/verdict.json").exists()
    check(built.replay(), [])


def test_a_kernel_may_use_the_cpp_library(built: Project) -> None:
    counter = "struct Text { std::string text = std::to_string(2.0f); };\nstatic Text two;\n"
    built.write_kernel(
        "twice", "std::stof(two.text) * std::nearbyintf(in[i])", f"#include <cmath>\n#include <string>\n{counter}"
    )
    check(built.replay(), ["compile kernels/aiv/twice.cpp", "link kernels/aiv/twice.so", "run _jit_chain"])


def test_lost_binary(built: Project) -> None:
    (built.out / "kernels/aiv/twice.so").unlink()
    check(built.replay("STORE_SIZE=0"), ["link kernels/aiv/twice.so"])
    (built.out / "kernels/aiv/twice.so").unlink()
    check(built.replay(), ["restored kernels/aiv/twice.so"])


def test_damaged_binary_is_made_again(built: Project) -> None:
    (built.out / "kernels/aiv/twice.so").write_bytes(b"not a library")
    check(built.replay("STORE_SIZE=0"), ["link kernels/aiv/twice.so"])
    (built.out / "kernels/aiv/twice.so").write_bytes(b"not a library")
    check(built.replay(), ["restored kernels/aiv/twice.so"])


def test_compile_error_once_and_with_a_verdict(built: Project) -> None:
    built.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", "2.0f * inn[i]")
    run = built.replay()
    assert run.status == 2
    assert run.actions == ["compile kernels/aiv/twice.cpp"]
    assert run.output.count("error: ") == 1
    verdict = built.verdict()
    assert verdict["status"] == "build_error"
    error = verdict["error"]
    assert isinstance(error, dict)
    assert "kernels/aiv/twice.cpp:11:" in error["message"]
    assert "inn" in error["message"]
    built.edit("kernels/aiv/twice.cpp", "inn[i]", "in[i]")
    run = built.replay()
    assert run.status == 0
    assert built.verdict()["status"] == "pass"


def test_killed_compile_leaves_nothing_that_looks_built(project: Project, tmp_path: Path) -> None:
    slow = tmp_path / "slow-g++"
    slow.write_text(
        '#!/bin/sh\ncase "$*" in *--version*) exec g++ "$@";; esac\n'
        f'echo partial > "$(echo "$*" | sed "s/.* -o //")"; touch {tmp_path}/started; sleep 30\n',
        encoding="utf-8",
    )
    slow.chmod(0o755)
    command = [sys.executable, "-m", "SCons", "-Q", "build", "JIT=_jit_chain", f"CXX={slow}"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    process = subprocess.Popen(command, cwd=project.root, env=environment, start_new_session=True)
    deadline = time.monotonic() + 30
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (tmp_path / "started").exists()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert list(project.out.rglob("*.o")) == []
    run = project.replay()
    assert (run.status, run.actions) == (0, EVERYTHING)
