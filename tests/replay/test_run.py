"""Runs of real compiled artifacts: passes, mismatches, and every kind of crash."""

from __future__ import annotations

import array
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.artifact.pt import read_pt
from pypto_build.replay import Request, replay
from tests.replay.builder import embedded_module, of_any_core
from tests.replay.tiny import CALL, COUNT, Tiny

PLUS_ONE = f"for (int i = 0; i < {COUNT}; ++i) y[i] = x[i] + 1;"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Return an artifact that passes, built once; a test that changes its data uses `copy`."""
    return Tiny(tmp_path_factory.mktemp("tiny"), PLUS_ONE).build()


@pytest.fixture
def copy(tiny: Tiny, tmp_path: Path) -> Tiny:
    """Return a copy of that artifact with data of its own."""
    return tiny.copy_to(tmp_path)


def _values(path: Path) -> list[float]:
    return array.array("f", bytes(read_pt(path).contiguous())).tolist()


def test_pass(tiny: Tiny) -> None:
    run = tiny.replay()
    assert (run.status, run.verdict.status, run.stderr) == (0, "pass", "")
    verdict = run.verdict
    assert (verdict.artifact, verdict.platform, verdict.runtime) == ("_jit_tiny", "a2a3sim", "embedded")
    assert (verdict.vintage, verdict.cached, verdict.tasks, verdict.error) == ("2026-08", False, 1, None)
    assert [(o.name, o.status, o.shape, o.dtype, o.mismatched) for o in verdict.outputs] == [
        ("y", "pass", [4, 8], "float32", 0)
    ]
    assert _values(tiny.out / "actual" / "y.pt") == [i + 1.0 for i in range(COUNT)]


def test_log_lines(tiny: Tiny) -> None:
    lines = [line.partition(" done (")[0] if " done (" in line else line for line in tiny.replay().stdout.splitlines()]
    lines[-1] = lines[-1].partition(" (")[0]
    assert lines == [
        f"[RUN] runtime_only: skipping compile, using {tiny.artifact}",
        "[RUN] generate inputs ...",
        f"[RUN]   cache hit: {tiny.artifact}/data/in",
        "[RUN] generate inputs",
        "[RUN] compute golden ...",
        f"[RUN]   cache hit: {tiny.artifact}/data/out",
        "[RUN] compute golden",
        "[RUN] runtime ...",
        "[RUN] runtime",
        "[RUN] validate ...",
        "[RUN]   'y' PASS  shape=(4, 8) dtype=torch.float32",
        "[RUN] validate",
        "[RUN] PASS",
    ]


def test_mismatch(copy: Tiny) -> None:
    copy.write_tensor("out/y", [i + (1.0 if i != 11 else 3.0) for i in range(COUNT)])
    run = copy.replay("--atol", "0.5")
    assert (run.status, run.verdict.status, run.verdict.error) == (1, "mismatch", None)
    (output,) = run.verdict.outputs
    assert (output.mismatched, output.max_abs, output.max_rel) == (1, 2.0, 2.0 / 14.0)
    assert [(item.index, item.actual, item.expected) for item in output.first] == [([1, 3], 12.0, 14.0)]
    block = run.stdout[run.stdout.index("[RUN]   'y' FAIL") : run.stdout.index("[RUN] validate done")]
    assert block.splitlines() == [
        "[RUN]   'y' FAIL  shape=(4, 8) dtype=torch.float32",
        "    Mismatched elements: 1/32  rtol=1e-05 atol=0.5",
        "    max abs error 2, max rel error 0.142857",
        "    first 1 mismatches:",
        "    [11] actual=12.0, expected=14.0  at (1, 3)",
        "    hint: only row 1 of 4 differs",
    ]
    assert run.stdout.splitlines()[-1].endswith("s): Output(s) does not match golden: ['y']")


def test_comparator_decides(copy: Tiny) -> None:
    copy.write_tensor("out/y", [i + (1.0 if i != 11 else 3.0) for i in range(COUNT)])
    run = copy.replay("--comparator", "y=ratio_allclose(max_error_ratio=0.05)")
    assert (run.status, run.verdict.outputs[0].status, run.verdict.outputs[0].mismatched) == (0, "pass", 1)
    assert "(ratio_allclose(atol=None, rtol=None, max_error_ratio=0.05," in run.stdout


def test_other_data(copy: Tiny, tmp_path: Path) -> None:
    shutil.move(copy.artifact / "data", tmp_path / "elsewhere")
    assert copy.replay("--data", str(tmp_path / "elsewhere")).status == 0


def test_made_up_inputs(copy: Tiny) -> None:
    shutil.rmtree(copy.artifact / "data")
    results = []
    for seed in ("5", "5", "6"):
        run = copy.replay("--seed", seed)
        assert (run.status, run.verdict.status, run.verdict.seed) == (7, "unchecked", int(seed))
        last = r"\[RUN\] UNCHECKED \(\d+\.\d\ds\): no golden to compare with; ALLOW_UNCHECKED=1 lets it be"
        assert re.fullmatch(last, run.stdout.splitlines()[-1])
        results.append(_values(copy.out / "actual" / "y.pt"))
    assert results[0] == results[1] != results[2]


def test_names_stand_beside_the_records(copy: Tiny) -> None:
    assert copy.replay("--dep-gen").status == 0
    assert json.loads((copy.out / "dfx_outputs" / "name_map.json").read_text()) == {
        "level": 2,
        "orchestrator_name": "_jit_tiny",
        "callable_id_to_name": {"0": "step"},
    }
    assert copy.replay().status == 0
    assert not (copy.out / "dfx_outputs").exists()


def test_python_api(tiny: Tiny) -> None:
    lines: list[str] = []
    verdict = replay(Request(tiny.artifact, tiny.out, embedded_module(), rounds=2), lines.append)
    assert (verdict.status, verdict.rounds) == ("pass", 2)
    assert any(line.startswith("[RUN]   host_us (2 rounds) min=") for line in lines)


def test_a_round_that_fails_ends_the_replay(tmp_path: Path) -> None:
    run = Tiny(tmp_path, f"static int round = 0; if (round++ < 2) {{ {PLUS_ONE} }}").build().replay("--rounds", "5")
    assert (run.status, run.verdict.rounds) == (1, 3)
    assert run.verdict.outputs[0].hints == [
        "never written: no task wrote to it; look at its direction and at the orchestration's add_output calls"
    ]


def test_an_input_may_be_written_with_what_it_holds(tmp_path: Path) -> None:
    run = Tiny(tmp_path, f"for (volatile float *same = x; same; same = nullptr) same[9] = same[9]; {PLUS_ONE}")
    assert run.build().replay().status == 0


def test_elements_nobody_wrote_are_told_of_a_run_that_passes(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path, "for (int i = 0; i < 31; ++i) y[i] = x[i] + 1;").build()
    run = tiny.replay("--comparator", "y=ratio_allclose(max_error_ratio=0.05, zero_tail=False)")
    (output,) = run.verdict.outputs
    assert (run.status, output.status) == (0, "pass"), run.stdout
    assert output.hints == ["1 of 32 elements were never written, the first at (3, 7)"]
    assert "    hint: 1 of 32 elements were never written, the first at (3, 7)\n" in run.stdout


def test_outputs_that_start_as_zeros(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path, f"{PLUS_ONE} for (int i = 24; i < {COUNT}; ++i) y[i] = 0;").build()
    tiny.replay()
    half = Tiny(tmp_path / "half", "for (int i = 0; i < 24; ++i) y[i] = x[i] + 1;").build()
    shutil.copytree(tiny.out / "actual", half.artifact / "data" / "out", dirs_exist_ok=True)
    assert half.replay().status == 1
    assert half.replay("--zero-fill").status == 0


FAULTS = {
    "null pointer": (
        "*(volatile int *)16 = 1;",
        5,
        "crash",
        "kernel 'step' crashed: SIGSEGV (Segmentation fault) at address 0x10, no tensor is near",
    ),
    "abort": ("abort();", 5, "crash", "kernel 'step' crashed: SIGABRT (Aborted)"),
    "division": (
        "volatile int one = 1, zero = 0; y[0] = one / zero;",
        5,
        "crash",
        "kernel 'step' crashed: SIGFPE (Floating point exception)",
    ),
    "exit": ("exit(0);", 5, "exit", "kernel 'step' ended the process with exit status 0 before everything was done"),
    "hang": (
        'printf("here\\n"); for (volatile int i = 0;;) {}',
        6,
        "hang",
        "kernel 'step' had not finished at the time limit of 1 s; sub_class=S1:running-stalled completed=0/1 running=1 "
        "ready=0 waiting=0 orch_done=1 stuck_task=0 stuck_core=N",
    ),
    "runaway malloc": (
        "for (;;) { auto p = (volatile char *)malloc(1 << 22); for (int i = 0; i < 1 << 22; i += 4096) p[i] = 1; }",
        5,
        "out_of_memory",
        "kernel 'step' reached the memory limit of 200 MB (SIGSEGV)",
    ),
    "runaway new": (
        "for (volatile char *p;;) { p = new char[1 << 24]; p[0] = 1; }",
        5,
        "out_of_memory",
        "kernel 'step' reached the memory limit of 200 MB (std::bad_alloc)",
    ),
    "exception": (
        'throw std::runtime_error("no {x} there");',
        5,
        "exception",
        "kernel 'step' throws an exception that nothing catches: no {x} there",
    ),
    "input changed": (
        f"x[9] = 9.5f; {PLUS_ONE}",
        5,
        "input_changed",
        "input 'x' was changed by kernel 'step', first at (1, 1)",
    ),
    "exception of a thread": (
        "std::thread([] { throw 1; }).join();",
        5,
        "exception",
        "kernel 'step' throws an exception that nothing catches: an object of type int",
    ),
    "write before the start": (
        f"{PLUS_ONE} y[-1] = 1;",
        5,
        "out_of_bounds",
        "kernel 'step' wrote outside tensor 'y': at byte -4, while it has 128",
    ),
    "write past the end": (
        f"{PLUS_ONE} y[{COUNT}] = 1;",
        5,
        "out_of_bounds",
        "kernel 'step' wrote outside tensor 'y': at byte 128, while it has 128",
    ),
    "write past the end of an input": (
        f"{PLUS_ONE} y[{COUNT} - 1] = 32; x[{COUNT} + 1] = 1;",
        5,
        "out_of_bounds",
        "kernel 'step' wrote outside tensor 'x': at byte 132, while it has 128",
    ),
    "write past the end by way of the system": (
        f"{PLUS_ONE} int ends[2]; if (pipe(ends) || write(ends[1], x, 4) != read(ends[0], y + {COUNT}, 4)) return;",
        5,
        "out_of_bounds",
        "kernel 'step' wrote outside tensor 'y': at byte 128, while it has 128",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(tmp_path: Path, fault: str) -> None:
    body, status, kind, message = FAULTS[fault]
    run = Tiny(tmp_path, body).build().replay("--timeout", "1" if kind == "hang" else "60", "--memory", "200")
    error = run.verdict.error
    assert error is not None
    text = of_any_core(error.message)
    assert (run.status, run.verdict.exit_status, error.kind, text) == (status, status, kind, message)
    assert (error.task, error.kernel) == ("0", "step")
    last = [line for line in run.stdout.splitlines() if line.startswith("[RUN] FAIL (")][-1]
    assert last.partition("s): ")[2] == f"{run.verdict.status}: {error}"
    assert "Traceback" not in run.stdout + run.stderr
    if kind == "hang":
        assert "here\n" in run.stdout  # printed by a kernel, and not yet written when the limit came
        assert [of_any_core(line.partition(", since ")[0]) for line in error.detail] == [
            "core N runs task 0 block 0, kernel 'step'"
        ]


def test_fault_in_the_orchestration(tmp_path: Path) -> None:
    run = Tiny(tmp_path, PLUS_ONE, CALL + "        *(volatile int *)32 = 1;\n").build().replay()
    assert run.verdict.error is not None
    assert run.verdict.error.message.startswith(
        "the orchestration crashed: SIGSEGV (Segmentation fault) at address 0x20"
    )
    assert (run.status, run.verdict.error.task, run.verdict.error.kernel) == (5, None, None)


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (
            "\n        orch_args.tensor(9);\n",
            "orchestration/tiny.cpp:19: aicpu_orchestration_entry: after 0 tasks: orch_args.tensor(9) is out of range: "
            "the entry has 2 tensors",
        ),
        (
            "CoreTaskArgs p; p.add_input(ext_x); rt_submit_aiv_task(0, p);",
            "kernel 'step' uses argument 1, but its task was given 1 argument",
        ),
    ],
    ids=["entry", "task"],
)
def test_arguments_that_were_not_given(tmp_path: Path, calls: str, message: str) -> None:
    run = Tiny(tmp_path, "y[0] = x[0];", calls).build().replay()
    assert (run.status, run.verdict.error and run.verdict.error.message) == (5, message)


def test_library_that_cannot_be_loaded(copy: Tiny) -> None:
    library = copy.out / "kernels" / "aiv" / "step.so"
    library.write_bytes(b"not a library")
    run = copy.replay()
    assert (run.status, run.verdict.status) == (3, "build_error")
    assert run.verdict.error is not None and str(library) in run.verdict.error.message


def test_code_that_runs_while_it_is_loaded(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path, PLUS_ONE)
    kernel = tiny.artifact / "kernels" / "aiv" / "step.cpp"
    early = 'static int early = [] { if (getenv("PTO2_EXIT")) exit(4); *(volatile int *)16 = 1; return 1; }();\n'
    kernel.write_text(kernel.read_text().replace('extern "C"', f'{early}extern "C"'))
    tiny.build()
    library = tiny.out / "kernels" / "aiv" / "step.so"
    for environment, message in (
        ({}, "crashed: SIGSEGV (Segmentation fault)"),
        ({"PTO2_EXIT": "1"}, "ended the process with exit status 4 before everything was done"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            error = tiny.replay().verdict.error
        assert error is not None
        assert (error.message, error.task, error.kernel) == (f"loading {library} {message}", None, None)
        assert error.hint.startswith("its static objects are made then")


def test_runtime_that_cannot_be_loaded(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "_embedded.so").write_bytes(b"not a library")
    verdict = replay(Request(tiny.artifact, tiny.out, tmp_path / "_embedded.so"), None)
    assert verdict.exit_status == 3
    assert verdict.error is not None
    assert verdict.error.message.startswith(f"{tmp_path}/_embedded.so: cannot be loaded: ")


def test_what_a_kernel_prints_is_seen(tmp_path: Path) -> None:
    run = Tiny(tmp_path, f'fprintf(stderr, "here %g\\n", x[3]); {PLUS_ONE}').build().replay()
    assert (run.status, run.stderr) == (0, "| here 3\n")


def test_nothing_outlives_a_replay(tmp_path: Path) -> None:
    """Start a process that leaves its process group, and a fork of the run that returns too."""
    body = f"""{PLUS_ONE}
    if (fork() != 0) {{
        const pid_t away = fork();
        if (away == 0) {{ prctl(PR_SET_NAME, "outlives"); close(1); close(2); setsid(); for (;;) pause(); }}
        y[0] += 0.01f;
    }}"""
    run = Tiny(tmp_path, body).build().replay("--rounds", "2", "--comparator", "y=ratio_allclose(max_error_ratio=0.05)")
    assert (run.status, run.verdict.status, run.verdict.rounds) == (0, "pass", 2), run.stdout
    names = {path.read_text().strip() for path in Path("/proc").glob("[0-9]*/comm")}
    assert "outlives" not in names


def test_ending_the_replay_ends_the_kernels(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path, "for (volatile int i = 0;;) {}").build()
    argv = [sys.executable, "-m", "pypto_build.replay", str(tiny.artifact), "--platform", "a2a3sim", "--verbose"]
    argv += ["--build-dir", str(tiny.out), "--embedded", str(embedded_module())]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "[RUN] runtime ...\n":
            pass
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.terminate()
        assert process.wait() == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(child), 0)
    assert not (tiny.out / "verdict.json").exists()
