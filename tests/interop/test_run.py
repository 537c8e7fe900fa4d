"""Replays on simpler, through the stand-in: verdicts, faults, diagnostics, binaries that do not fit."""

from __future__ import annotations

import shutil
import struct
import sys
import venv
from pathlib import Path

import pytest

from tests.interop.rig import library, make_rig, put_binaries
from tests.interop.standins import STANDIN, VINTAGES


@pytest.mark.parametrize("vintage", VINTAGES)
def test_every_generation_of_the_worker(tmp_path: Path, vintage: str) -> None:
    rig = make_rig(tmp_path)
    run = rig.run("--rounds", "2", vintage=vintage)
    assert run.returncode == 0, run.stderr
    assert "[RUN]   'y' PASS  shape=(2,) dtype=torch.float32" in run.stdout.splitlines()
    verdict = rig.verdict()
    assert [verdict[name] for name in ("status", "runtime", "platform", "rounds")] == ["pass", "simpler", "a2a3sim", 2]
    assert (rig.out / "actual" / "y.pt").is_file()


def test_a_generation_that_nobody_knows(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    run = rig.run(vintage="2027-01")
    assert run.returncode == 2
    message = "this simpler's interface is unknown; those of April to August 2026 are supported"
    assert rig.error().startswith(f"{message}: module 'simpler.task_interface' has no attribute 'CoreCallable'")
    assert rig.error().endswith("; name another one with SIMPLER=")


def test_a_checkout_with_changes_is_used_as_it_is(tmp_path: Path, clone: Path) -> None:
    rig = make_rig(tmp_path)
    worker = clone / "simpler" / "worker.py"
    worker.write_text(worker.read_text() + "# mine\n")
    run = rig.run(SIMPLER_ROOT=str(clone))
    assert run.returncode == 0
    note = f"{clone} has 1 uncommitted change, such as simpler/worker.py: it is used as it is"
    assert run.stdout.splitlines()[0] == f"[RUN]   note: {note}"
    assert worker.read_text().endswith("# mine\n")


def test_a_mismatch(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, golden=(9, 22))
    run = rig.run()
    assert run.returncode == 1
    outputs = rig.verdict()["outputs"]
    assert isinstance(outputs, list)
    assert outputs[0]["first"] == [{"index": [1], "actual": 21.0, "expected": 22.0}]


@pytest.mark.parametrize(
    "variables, status, error",
    [
        (
            {"PYPTO_STANDIN_FAULT": "run failed with code -2"},
            6,
            "simpler: HEAP_RING_DEADLOCK (code 2): the tensors that are alive at once need more than the ring's heap; "
            "close scopes earlier or allocate inside the loop's scope, or raise PTO2_RING_HEAP",
        ),
        (
            {"PYPTO_STANDIN_FAULT": "simpler_run failed with code -5"},
            5,
            "simpler: INVALID_ARGS (code 5): a submission was refused: its arguments are too many or in the wrong "
            "order, or a scope is nested wrongly; add tensors before scalars, call set_dependencies once, keep "
            "automatic scopes out of manual ones: scons lint",
        ),
        (
            {"PYPTO_STANDIN_FAULT": "finalize_native_run failed with code -100 (run_id=0)"},
            6,
            "simpler: SCHEDULER_TIMEOUT (code 100): nothing finished within the scheduler's time limit; replay with "
            "RUNTIME=embedded, which names the task; a kernel that is merely slow has more time with "
            "SIMPLER_SCHEDULER_TIMEOUT_MS=60000",
        ),
        ({"PYPTO_STANDIN_FAULT": "something\nelse"}, 5, "simpler: something else; "),
        (
            {"PYPTO_STANDIN_CRASH": "11"},
            5,
            "the run crashed: SIGSEGV (Segmentation fault); it read or wrote an address that is not mapped; look at "
            "its offsets and at its tensors' sizes; replay with RUNTIME=embedded, which names the task",
        ),
        (
            {"PYPTO_STANDIN_HANG": "1"},
            6,
            "the run had not finished at the time limit of 1 s; replay with RUNTIME=embedded, which names the task, or "
            "raise the limit with TIMEOUT=",
        ),
    ],
    ids=["deadlock", "arguments", "timeout", "unknown", "crash", "hang"],
)
def test_faults(tmp_path: Path, variables: dict[str, str], status: int, error: str) -> None:
    rig = make_rig(tmp_path)
    run = rig.run(*(["--timeout", "1"] if "PYPTO_STANDIN_HANG" in variables else []), **variables)
    assert (run.returncode, rig.error()) == (status, error)


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    for name in ("aic/mm", "aiv/scale"):
        (rig.out / "kernels" / f"{name}.bin").write_bytes(b"\x7fELF")
    orchestration = rig.out / "orchestration" / "scaled_mm.so"
    data = bytearray(orchestration.read_bytes())
    data[18:20] = struct.pack("<H", 183)
    orchestration.write_bytes(data)
    run = rig.run("--device", "3", platform="a2a3")
    assert (run.returncode, rig.error()) == (
        5,
        (
            "device 3 of a2a3 cannot be used: device 3 is not there; check that the device exists and is "
            "free; choose another with -d N"
        ),
    )


def test_diagnostics(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    assert rig.run("--dep-gen", "--pmu", "2").returncode == 0
    assert sorted(path.name for path in (rig.out / "dfx_outputs").iterdir()) == [
        "deps.json",
        "name_map.json",
        "pmu.csv",
    ]


def test_an_option_that_this_generation_lacks(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    run = rig.run("--scope-stats", vintage="2026-05")
    assert (run.returncode, rig.error()) == (
        2,
        "this version of simpler has no option enable_scope_stats; name another one with SIMPLER=",
    )
    for flag in ("--shuffle", "--zero-fill"):
        run = rig.run(flag)
        problem = "is for the embedded runtime; leave it out, or replay with RUNTIME=embedded"
        assert (run.returncode, rig.error()) == (2, f"{flag}: {problem}")


@pytest.mark.parametrize(
    "name, content, problem",
    [
        ("kernels/aiv/scale.so", None, "is missing; build the artifact again, without SKIP_COMPILE=1"),
        ("kernels/aiv/scale.so", b"text", "is not an ELF file; build it again"),
        ("kernels/aiv/scale.so", "other", "does not define kernel_entry; build it again"),
        (
            "kernels/aiv/scale.so",
            "kernel_entry pypto_bind_core",
            "was built for the embedded runtime, whose interface is not simpler's; build it again",
        ),
        (
            "orchestration/scaled_mm.so",
            "aicpu_orchestration_entry",
            "does not define framework_bind_runtime, so it was not built with simpler's sources; build it again",
        ),
        (
            "orchestration/scaled_mm.so",
            183,
            "was built for aarch64, but a2a3sim runs it on x86-64; build it again",
        ),
    ],
)
def test_binaries_that_do_not_fit(tmp_path: Path, name: str, content: bytes | str | int | None, problem: str) -> None:
    rig = make_rig(tmp_path)
    path = rig.out / name
    if content is None:
        path.unlink()
    elif isinstance(content, int):
        data = bytearray(path.read_bytes())
        data[18:20] = struct.pack("<H", content)
        path.write_bytes(data)
    else:
        path.write_bytes(library(content) if isinstance(content, str) else content)
    run = rig.run()
    assert (run.returncode, rig.error()) == (3, f"{path}: {problem}")


def test_skip_compile_takes_what_lies_in_the_artifact(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    shutil.rmtree(rig.out / "kernels")
    run = rig.run("--skip-compile")
    missing = rig.root / "kernels" / "aic" / "mm.so"
    assert (run.returncode, rig.error()) == (
        3,
        f"{missing}: is missing; build the artifact again, without SKIP_COMPILE=1",
    )
    put_binaries(rig.root)
    before = {path: path.stat().st_mtime_ns for path in rig.root.rglob("*.so")}
    assert rig.run("--skip-compile").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in rig.root.rglob("*.so")} == before


def test_two_versions_in_one_environment(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    first, second = tmp_path / "one" / "python" / "simpler", tmp_path / "two" / "simpler_setup"
    for package in (first, second):
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
    paths = f"{first.parent}:{second.parent}:{Path(__file__).resolve().parents[2]}"
    run = rig.run(PYTHONPATH=paths, SIMPLER_ROOT="")
    assert (run.returncode, run.stderr) == (
        2,
        f"[RUN] FAIL: usage_error: RUNTIME=simpler: two versions of simpler in one environment, simpler from {first} "
        f"and simpler_setup from {second}; uninstall one\n",
    )


def test_places_that_are_no_simpler(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    none, empty, unbuilt = tmp_path / "none", tmp_path / "empty", tmp_path / "unbuilt"
    empty.mkdir()
    shutil.copytree(STANDIN, unbuilt)
    interface = unbuilt / "simpler" / "task_interface.py"
    interface.write_text(f"import _task_interface\n{interface.read_text()}")
    no_place = "is no environment (it has no bin/python) and no checkout of simpler (no src); name one of the two"
    not_built = (
        f"is not built for {sys.executable}, which finds no module _task_interface; build it, or name the interpreter "
        "it is built for with SIMPLER_PYTHON="
    )
    no_directory = "no such directory; name the directory of a checkout, or a revision"
    for directory, message in ((none, no_directory), (empty, no_place), (unbuilt, not_built)):
        for run, named in (
            (rig.run("--simpler", str(directory), SIMPLER_PYTHON=""), "SIMPLER"),
            (rig.run(SIMPLER_ROOT=str(directory), SIMPLER_PYTHON=""), "SIMPLER_ROOT"),
        ):
            assert (run.returncode, run.stderr) == (2, f"[RUN] FAIL: usage_error: {named}={directory}: {message}\n")


def test_a_checkout_counts_though_another_simpler_is_installed_editably(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (site / "hijack.py").write_text(
        "import sys\nclass Finder:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0].startswith('simpler'):\n            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    ours = [path for path in sys.path if path.endswith("-packages")]
    (site / "hijack.pth").write_text("\n".join([*ours, "import hijack\n"]))
    run = rig.run(SIMPLER_PYTHON=str(python))
    assert run.returncode == 0, run.stdout + run.stderr


def test_no_simpler(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    run = rig.run(PYTHONPATH=str(Path(__file__).resolve().parents[2]), SIMPLER_ROOT="")
    assert (run.returncode, run.stderr) == (
        2,
        f"[RUN] FAIL: usage_error: RUNTIME=simpler: {sys.executable} has no package 'simpler'; name a checkout, an "
        "environment or a revision with SIMPLER=\n",
    )
    assert rig.verdict()["runtime"] == "simpler"
    assert STANDIN.is_dir()
