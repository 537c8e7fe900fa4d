"""`reduce` ends with what still fails in the same way, and with nothing else."""

from __future__ import annotations

import json
import shutil
import warnings
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pypto_build.diagnose.extract.tensors import Parameter
from pypto_build.diagnose.reduce import build, work
from pypto_build.diagnose.reduce.__main__ import main
from pypto_build.diagnose.reduce.case import FaultLost, Invalid, Passed, carry, reads_unwritten, refuse_stale
from pypto_build.diagnose.reduce.judge import MISMATCHES, Log, RunLimits, Search, Target, differ
from pypto_build.diagnose.reduce.shrink import _plainer, cropped
from pypto_build.diagnose.reduce.work import target_of
from pypto_build.facts.tasks import Task, TaskArgument, TensorView
from pypto_build.replay.values import STORAGE
from tests.diagnose.checked import EXAMPLES, copy_example
from tests.replay.builder import build_artifact, embedded_module, replay
from tests.rules.project import Project


def reduce(artifact: Path, directory: Path, *words: str) -> int:
    """Build and reduce into `directory`; the exit status."""
    out = directory / "out" / artifact.name
    build_artifact(artifact, out)
    fixed = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--output", str(directory)]
    return main([*fixed, "--jobs", "2", *words])


run = build._run
_WRONG = ("kernels/aiv/kernel_mul.cpp", "TMUL(", "TADD(")


@pytest.fixture(autouse=True)
def _not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs are tested by themselves; what is written is built and replayed here by the tests."""
    monkeypatch.setattr(work, "packed", lambda options, root: ("", ""))


def test_one_task_and_one_small_tile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TMUL that became TADD, among five tasks on 128 x 128; interrupted, it goes on with what it knows."""
    artifact = copy_example("_jit_vector_dag", tmp_path, [_WRONG])
    assert reduce(artifact, tmp_path, "--keep", "mismatch:f") == 0
    assert "tasks: 5 -> 1 task" in capsys.readouterr().out
    root = tmp_path / "_jit_vector_dag_reduced"
    params = json.loads((root / "compiled_meta.json").read_bytes())["params"]
    assert [(param["direction"], param["shape"]) for param in params] == [
        ("In", [8, 8]),
        ("In", [8, 8]),
        ("Out", [8, 8]),
    ]
    kernel = (root / "kernels/aiv/kernel_mul.cpp").read_text()
    assert kernel.count("TADD(") == 1 and "TMUL(" not in kernel and kernel.count("TLOAD(") == 2
    module = (root / "ptoas/kernel_mul.pto").read_text()
    assert module.count("pto.tmul ") == 1 and "rows=8, cols=8" in module and "128x128" not in module
    build_artifact(root, tmp_path / "again")
    verdict = replay(root, tmp_path / "again").verdict
    assert [(output.name, output.status) for output in verdict.outputs] == [("g", "mismatch")]
    assert all(isinstance(one.actual, float) for one in verdict.outputs[0].first)

    first = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    (log,) = (tmp_path / "out/_jit_vector_dag/reduce").glob("*/tried.*.log")
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:3]) + lines[3][:20])  # as SIGKILL leaves it
    assert reduce(artifact, tmp_path, "--keep", "mismatch:f") == 0
    assert "going on after 3 candidates" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()} == first


def test_a_crash_stays_the_same_crash(tmp_path: Path) -> None:
    crash = "*(volatile float*)(0x10) = 1.0f; TMUL("
    artifact = copy_example("_jit_vector_dag", tmp_path, [("kernels/aiv/kernel_mul.cpp", "TMUL(", crash)])
    assert reduce(artifact, tmp_path, "--keep", "crash") == 0
    root = tmp_path / "_jit_vector_dag_reduced"
    assert not (root / "data/out").exists()
    build_artifact(root, tmp_path / "again")
    verdict = replay(root, tmp_path / "again").verdict
    assert verdict.error is not None and (verdict.error.kind, verdict.error.kernel) == ("crash", "kernel_mul")
    assert "address 0x10" in verdict.error.message


def test_candidates_at_once_share_what_they_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that come with the same text at the same time have it compiled once, and neither loses its library."""
    commands: list[list[str]] = []

    def counted(words: list[str]) -> object:
        commands.append(words)
        return run(words)

    monkeypatch.setattr(build, "_run", counted)
    settings = Namespace(platform="a2a3sim", jobs=4, kernel_flags="", cxx="", arch="", numerics="device")
    builder = build.Builder(tmp_path / "built", settings, "tensormap_and_ringbuffer")
    text = '#include <cstdint>\nextern "C" __attribute__((visibility("default"))) void kernel_entry(int64_t*) {}\n'
    with ThreadPoolExecutor(8) as pool:
        libraries = list(pool.map(lambda _: builder.build([("aiv", text)])["aiv", text], range(8)))
    assert len({*libraries}) == 1 and libraries[0].is_file()
    assert len(commands) == 3  # the header, the text, the link
    with pytest.raises(build.Refused, match="error: "):
        builder.build([("aiv", "nothing")])


def test_a_kernel_without_a_module(tmp_path: Path) -> None:
    """Hand-written C++ follows another artifact that is right: lines go from both, and the fault stays."""
    good = Project(tmp_path).artifact
    bad = tmp_path / "bad/_jit_chain"
    shutil.copytree(good, bad)
    for root, number in ((good, "1"), (bad, "2")):
        kernel = root / "kernels/aiv/plus_one.cpp"
        text = kernel.read_text().replace("in[i] + 1", f"in[i] + {number}")
        kernel.write_text(text.replace("    for (", "    volatile int unused = 3;\n    (void)unused;\n    for ("))
    assert reduce(bad, tmp_path, "--keep", "mismatch:y", "--against", str(good)) == 0
    root = tmp_path / "_jit_chain_reduced"
    text = (root / "kernels/aiv/plus_one.cpp").read_text()
    assert "in[i] + 2" in text and "unused" not in text and not (root / "ptoas").exists()
    params = json.loads((root / "compiled_meta.json").read_bytes())["params"]
    assert [(param["name"], param["shape"]) for param in params] == [("t", [1]), ("y", [1])]


@pytest.mark.parametrize(
    ("keep", "edits", "says"),
    [
        ("mismatch:f", [], "KEEP=mismatch:f: the replay ends with pass; name the failure to keep with KEEP="),
        (
            "mismatch:x",
            [("kernels/aiv/kernel_mul.cpp", "TMUL(", "TADD(")],
            "KEEP=mismatch:x: the replay differs in 'f'; name the failure to keep with KEEP=",
        ),
        ("hang", [], "KEEP=hang: the replay ends with pass"),
        (
            "wrong",
            [],
            "KEEP=wrong: names no failure that can be kept; use mismatch:OUTPUT, crash, hang, "
            "build_error, golden_error, "
            "or a rule: ",
        ),
        (
            "mismatch:f",
            [("orchestration/vector_dag.cpp", "params_t3.add_input(d);", "params_t3.add_input(c);")],
            "AGAINST=: every kernel agrees with its module: the fault is in a module, the orchestration or the golden",
        ),
    ],
)
def test_wrong_use_is_one_line(
    keep: str, edits: list[tuple[str, str, str]], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact = copy_example("_jit_vector_dag", tmp_path, edits) if edits else EXAMPLES / "_jit_vector_dag"
    assert reduce(artifact, tmp_path, "--keep", keep) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"reduce: {says}")


# --- carrying a fault ------------------------------------------------------------------------------------------------

_CLEAN = ["TLOAD(v7, v11);", "TEXP(v8, v7);", "TMULS(v9, v8, v4);", "TMULS(v10, v9, v5);", "TSTORE(v12, v10);"]


def faulty(line: int, text: str) -> list[str]:
    return [*_CLEAN[:line], text, *_CLEAN[line + 1 :]]


@pytest.mark.parametrize(
    ("broken", "now", "expected"),
    [
        # other names of values, as another assembler or other operations give them
        (
            faulty(1, "TABS(v8, v7);"),
            ["TLOAD(a__tile, a__view);", "TEXP(b__tile, a__tile);", "TSTORE(o__view, b__tile);"],
            ["TLOAD(a__tile, a__view);", "TABS(b__tile, a__tile);", "TSTORE(o__view, b__tile);"],
        ),
        # the second of two that look alike
        (faulty(3, "TADDS(v10, v9, v5);"), [*_CLEAN[:2], *_CLEAN[3:]], [*_CLEAN[:2], "TADDS(v10, v9, v5);", _CLEAN[4]]),
        # a line too many, and one that is missing
        ([*_CLEAN[:2], "while (true) {}", *_CLEAN[2:]], _CLEAN[:3], [*_CLEAN[:2], "while (true) {}", _CLEAN[2]]),
        ([_CLEAN[0], *_CLEAN[2:]], _CLEAN[:3], [_CLEAN[0], _CLEAN[2]]),
    ],
)
def test_a_fault_is_carried_along(broken: list[str], now: list[str], expected: list[str]) -> None:
    assert carry(_CLEAN, broken, now) == expected


def test_a_fault_that_is_gone_is_lost() -> None:
    with pytest.raises(FaultLost):
        carry(_CLEAN, faulty(1, "TABS(v8, v7);"), [_CLEAN[0], *_CLEAN[2:]])
    assert carry(_CLEAN, _CLEAN, _CLEAN[:2]) == _CLEAN[:2]


def test_numbers_change_with_sizes() -> None:
    clean, now = ["Tile<float, 128, 128> v1;", "f(v1, 128);"], ["Tile<float, 8, 8> v1;", "f(v1, 8);"]
    assert carry(clean, [clean[0], "g(v1, 128);"], now) == [now[0], "g(v1, 8);"]


def test_reading_what_nobody_wrote_is_another_fault() -> None:
    module = [
        "%a = pto.alloc_tile addr = %c0 : !pto.tile_buf<x>",
        "%b = pto.alloc_tile addr = %c1 : !pto.tile_buf<x>",
        "pto.tload ins(%view : !pto.view) outs(%a : !pto.tile_buf<x>)",
        "pto.texp ins(%a : !pto.tile_buf<x>) outs(%b : !pto.tile_buf<x>)",
        "pto.tstore ins(%b : !pto.tile_buf<x>) outs(%out : !pto.view)",
    ]
    assert reads_unwritten(module) == set()
    assert reads_unwritten([*module[:2], *module[3:]]) == {"%a"}
    with pytest.raises(Invalid):
        refuse_stale(module, [*module[:3], module[4]])
    text = ["Tile<TileType::Vec, float, 8, 8> v1 = x;", "TASSIGN(v1, 0);", "TSTORE(v9, v1);"]
    assert reads_unwritten(text) == {"v1"}
    assert reads_unwritten([*text[:2], "TLOAD(v1, v8);", text[2]]) == set()


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_what_holds() -> None:
    assert target_of("mismatch:f") == Target("mismatch", "f")
    assert target_of("hazards/raw") == Target("hazards/raw")
    any_output = Target("mismatch", mismatches=MISMATCHES[:1])
    assert any_output.holds("mismatch g") and not any_output.holds("mismatch-of-no-numbers g")
    assert not any_output.holds("mismatch-beside-no-numbers g")
    assert replace(any_output, mismatches=MISMATCHES).holds("mismatch-of-no-numbers g")
    assert Target("mismatch", "f").holds("mismatch e f") and not Target("mismatch", "f").holds("mismatch e")
    crash = Target("crash", cause="WILD_ACCESS add")
    assert crash.holds("crash WILD_ACCESS add")
    for other in ("crash WILD_ACCESS mul", "hang WILD_ACCESS add", "pass", "refused crash WILD_ACCESS add"):
        assert not crash.holds(other)


@pytest.mark.parametrize(
    ("faulty", "clean", "word"),
    [
        ([1.0, 2.0], [1.0, 3.0], "mismatch"),
        ([np.nan, 2.0], [1.0, 3.0], "mismatch"),
        ([1.0, 2.0], [np.nan, 3.0], "mismatch-beside-no-numbers"),
        ([np.nan, 2.0], [np.nan, 3.0], "mismatch-beside-no-numbers"),
        ([1.0, 2.0], [np.inf, 3.0], "mismatch-beside-no-numbers"),
        ([1.0, np.nan], [1.0, 3.0], "mismatch-of-no-numbers"),
        ([np.nan, 2.0], [np.nan, 2.0], ""),
        ([np.inf, 2.0], [np.inf, 2.0], ""),
    ],
)
def test_what_is_expected_has_to_be_numbers(faulty: list[float], clean: list[float], word: str) -> None:
    """A replay of the result calls each element a mismatch whose golden is NaN, whatever the kernels do."""
    passed = Passed("f", "OUT", "float32", (2,), b"")
    left, right = (np.array(side, np.float32).tobytes() for side in (faulty, clean))
    assert differ(passed, left, right, RunLimits(1, 1e-5, 1e-5)) == word


def test_a_log_survives_what_kills_it(tmp_path: Path) -> None:
    log = Log(tmp_path / "tried.log")
    log.add("aa", "mismatch f\nof two lines")
    log.add("bb", "pass")
    with log.path.open("ab") as file:
        file.write(b"cc mism")
    again = Log(log.path)
    assert again.known == {"aa": "mismatch f of two lines", "bb": "pass"}
    again.add("dd", "pass")
    assert Log(log.path).known["dd"] == "pass"


# --- sizes -----------------------------------------------------------------------------------------------------------


def parameter(shape: tuple[int, ...], *views: TensorView) -> Parameter:
    count = int(np.prod(shape))
    values = np.arange(count, dtype=STORAGE["float32"]).view("<u4")
    uses = [(0, TaskArgument(n, "IN", argument)) for n, argument in enumerate(views)]
    return Parameter((0, count * 4, "float32"), 0, shape, "IN", values, values, "x", uses=uses)


def test_views_shrink_with_their_tensor() -> None:
    one = parameter((64, 128), TensorView(0, 1 << 15, 32 * 128 + 64, "float32", (32, 64), (128, 1)))
    made = cropped(one, (8, 128), {64: 8, 32: 4}, 0)
    ((_, use),) = made.uses
    assert (use.view.offset, use.view.shape, use.view.strides) == (4 * 128 + 64, (4, 8), (128, 1))
    assert made.initial.view(np.float32)[:3].tolist() == [0.0, 1.0, 2.0]
    last = cropped(one, (8, 128), {64: 8, 32: 4}, -1)
    assert last.initial.view(np.float32)[0] == 56 * 128


def test_a_view_without_place_is_no_candidate() -> None:
    one = parameter((64, 128), TensorView(0, 1 << 15, 0, "float32", (64, 128), (128, 1)))
    with pytest.raises(Invalid):
        cropped(one, (8, 128), {}, 0)


def test_tasks_are_named() -> None:
    assert Task(3, 3, (0, 1, 1), names=("a", "b", "b")).title == "task 3 a+b"


def test_plainer_data_of_a_signalling_nan_warns_of_nothing() -> None:
    stored = np.array([0x7FA00000, 0x40200000], np.uint32).view(np.uint8)
    one = Parameter((0, 8, "float32"), 0, (2,), "IN", stored, stored, "x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contents = [values.view(np.float32).tolist() for values in _plainer(one)]
    assert contents == [[0.0, 0.0], [1.0, 1.0], [0.0, 2.0]]


def test_a_long_search_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr("pypto_build.diagnose.reduce.judge.time.monotonic", lambda: float(next(clock)))
    judge = SimpleNamespace(ending=lambda case: "other", target=SimpleNamespace(holds=lambda ending: False))
    long = Search(judge, Log(tmp_path / "log"), 1, lines.append)  # type: ignore[arg-type]
    for number in range(5):
        assert not long.holds(SimpleNamespace(digest=str(number)))  # type: ignore[arg-type]
    assert lines == [f"{tried} tried, 0 kept so far; an interrupted search goes on from here" for tried in (2, 4)]
