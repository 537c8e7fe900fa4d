"""The dump viewer: every vintage's manifest, selection, values, exports, comparison, and what it says of damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.diagnose.dump import __main__ as dump
from pypto_build.diagnose.dump.viewer import histogram, statistics
from pypto_build.diagnose.recorded.args_dump import find_manifest, read_dump
from pypto_build.diagnose.recorded.names import artifact_names
from pypto_build.replay.verdict import ErrorInfo, Verdict, write_verdict
from tests.diagnose.runs import RING1, dumped, scalar, write_dump, write_json

_X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _two_tasks(directory: Path) -> Path:
    write_json(directory / "name_map_case.json", {"level": 2, "callable_id_to_name": {"0": "add", "1": "mul"}})
    entries = [
        dumped(RING1, 0, _X),
        dumped(RING1, 1, _X + 1, role="output"),
        dumped(RING1 + 1, 0, _X + 1, func_id=1),
        scalar(RING1 + 1, 1, 2.5, func_id=1),
    ]
    write_dump(directory, entries)
    return directory


def _run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    status = dump.main([str(word) for word in words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_the_listing_names_everything_that_was_dumped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _run(capsys, _two_tasks(tmp_path))
    assert status == 0
    assert out.splitlines() == [
        "task     kernel  arg  name  role    stage   dtype    shape   content",
        "0 (1:0)  add       0  -     input   before  float32  2x3     24 bytes",
        "0 (1:0)  add       1  -     output  after   float32  2x3     24 bytes",
        "1 (1:1)  mul       0  -     input   before  float32  2x3     24 bytes",
        "1 (1:1)  mul       1  -     input   before  float32  scalar  = 2.5",
    ]


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (["--task", "1"], 2),
        (["--task", "1:0"], 2),
        (["--task", "0x100000001"], 2),
        (["--task", "0,1", "--arg", "0"], 2),
        (["--kernel", "add"], 2),
        (["--kernel", "1"], 2),
        (["--role", "output"], 1),
        (["--stage", "before"], 3),
        (["--kernel", "mul", "--role", "output"], 0),
    ],
)
def test_selection(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], rows: int) -> None:
    _, out, _ = _run(capsys, _two_tasks(tmp_path), *words)
    assert len([line for line in out.splitlines() if line[:1].isdigit()]) == rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--task", "7"],
            (
                "TASK=7: no task has this number; tasks are numbered 0 to 1; a task can also be "
                "named as 'ring:count' or 0x…"
            ),
        ),
        (["--kernel", "sub"], "KERNEL=sub: no dumped task runs this kernel; dumped kernels: add, mul"),
        (["--arg", "z"], "ARG=z: no dumped argument has this name; dumped arguments: 0, 1"),
    ],
)
def test_what_is_not_there_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert _run(capsys, _two_tasks(tmp_path), *words) == (2, "", f"dump: {message}\n")


def test_one_record_shows_its_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(capsys, _two_tasks(tmp_path), "--task", "0", "--arg", "1")
    assert out.splitlines()[3:] == [
        "task 0 (1:0) add arg 1 output after float32[2, 3]",
        "  min 1, max 6, mean 3.5, std 1.708, 6 distinct",
        "  1 |█       █       █       █       █      █| 6",
        "  [[1. 2. 3.]",
        "   [4. 5. 6.]]",
    ]


def test_arguments_are_called_as_in_the_wrapper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "artifacts" / "_jit_vector_dag"
    write_dump(tmp_path / "dfx_outputs", [dumped(RING1, 2, _X, role="output"), scalar(RING1 + 1, 2, 0.5, func_id=1)])
    _, out, _ = _run(capsys, example, "--build-dir", tmp_path)
    assert out.splitlines()[1:] == [
        "0 (1:0)  kernel_add      2  out    output  after   float32  2x3     24 bytes",
        "1 (1:1)  kernel_shift    2  alpha  input   before  float32  scalar  = 0.5",
    ]
    assert _run(capsys, example, "--build-dir", tmp_path, "--arg", "alpha")[0] == 0


@pytest.mark.parametrize("form", ["pt", "npy", "txt"])
def test_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    _, out, _ = _run(capsys, _two_tasks(tmp_path), "--task", "1", "--export", form, "--output", tmp_path / "e")
    path = Path(out.strip())
    assert path == tmp_path / "e" / f"task1_mul_0_before.{form}"
    if form == "pt":
        tensor = read_pt(path)
        assert (tensor.dtype, tensor.shape, bytes(tensor.contiguous())) == ("float32", (2, 3), (_X + 1).tobytes())
    elif form == "npy":
        assert np.array_equal(np.load(path), _X + 1)
    else:
        assert path.read_text().splitlines() == [
            "# task 1 (1:1) mul arg 0 input before float32[2, 3]",
            "1 2 3",
            "4 5 6",
        ]


def test_exports_stay_where_they_belong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names come with the records, which may be anybody's."""
    directory = _two_tasks(tmp_path)
    write_json(directory / "name_map_case.json", {"callable_id_to_name": {"0": "add", "1": "../../mul x"}})
    _, out, _ = _run(capsys, directory, "--task", "1", "--export", "npy", "--output", tmp_path / "e")
    assert Path(out.strip()) == tmp_path / "e" / "task1_.._.._mul_x_0_before.npy"


def test_comparison_with_a_torch_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = _two_tasks(tmp_path)
    other = _X + 1
    write_pt(tmp_path / "same.pt", "float32", (2, 3), other.tobytes())
    other[1, 2] = 9
    write_pt(tmp_path / "other.pt", "float32", (6,), other.tobytes())
    status, out, _ = _run(capsys, directory, "--task", "0", "--arg", "1", "--against", tmp_path / "same.pt")
    assert (status, out.splitlines()[1]) == (0, "  equal to same.pt within rtol=1e-05 atol=1e-05; max abs error 0")
    status, out, _ = _run(capsys, directory, "--task", "0", "--arg", "1", "--against", tmp_path / "other.pt")
    assert status == 1
    assert out.splitlines()[1:] == [
        "  1 of 6 elements differ from other.pt, max abs error 3",
        "    (1, 2): dumped 6, file 9",
    ]
    title = out.splitlines()[0]
    write_pt(tmp_path / "int.pt", "int32", (6,), other.astype(np.int32).tobytes())
    status, _, err = _run(capsys, directory, "--task", "0", "--arg", "1", "--against", tmp_path / "int.pt")
    assert (status, err) == (
        2,
        f"dump: {tmp_path / 'int.pt'}: holds int32[6], but the dumped tensor is {title}; "
        "select another argument with TASK= and ARG=\n",
    )


def test_april_wrote_whole_shapes_and_single_numbers(tmp_path: Path) -> None:
    entry = dumped(RING1, 0, _X[0, 1:3]) | {"func_id": 3, "dtype": "float32", "subtask_id": 1}
    old = {key: value for key, value in entry.items() if key not in ("strides", "start_offset", "kind", "numel")}
    write_dump(tmp_path, [{**old, "raw_shape": [2, 3], "shape": [1, 2], "offsets": [0, 1]}], name="tensor_dump")
    manifest = find_manifest(tmp_path)
    assert manifest == tmp_path / "tensor_dump" / "tensor_dump.json"
    dump_ = read_dump(manifest)
    (record,) = dump_.records
    assert (record.func_ids, record.kind, record.subtask) == ((3,), "tensor", 1)
    assert (record.strides, record.start_offset) == ((3, 1), 1)
    assert dump_.values(record).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("name", ["manifest.json", "tensor_dump_20260415_101500.json"])
def test_the_first_dumps_had_a_time_in_their_name(tmp_path: Path, name: str) -> None:
    path = write_dump(tmp_path, [dumped(5, 0, _X)], name="tensor_dump_20260415_101500")
    path.rename(path.with_name(name))
    manifest = find_manifest(tmp_path)
    assert manifest is not None and manifest.name == name
    assert read_dump(manifest).values(read_dump(manifest).records[0]).tolist() == _X.tolist()


@pytest.mark.parametrize("dtype", ["BFLOAT16", "FP8E4M3FN", "FLOAT16", "BOOL"])
def test_all_element_types_are_read(tmp_path: Path, dtype: str) -> None:
    stored = {"BFLOAT16": np.array([0x3F80], "<u2"), "FLOAT16": np.array([1.0], "<f2")}.get(dtype, np.array([1], "u1"))
    write_dump(tmp_path, [dumped(1, 0, stored) | {"dtype": dtype}])
    dump = read_dump(tmp_path / "args_dump" / "args_dump.json")
    value = dump.values(dump.records[0])[0]
    assert float(value) == (2**-9 if dtype == "FP8E4M3FN" else 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"truncated": True}, "cannot be shown: only 24 of its 24 bytes were saved; dump fewer arguments at a time"),
        (
            {"override": {"bin_size": 8}},
            "cannot be shown: only 8 of its 24 bytes were saved; dump fewer arguments at a time",
        ),
        (
            {"overwritten": True},
            "cannot be shown: its content was overwritten before it was saved; dump fewer arguments",
        ),
        (
            {"override": {"bin_size": 0}},
            "cannot be shown: only its shape was dumped, not its content (level 3); run again with DUMP=2",
        ),
        ({"override": {"bin_offset": 16}}, "args.bin ends before its content (byte 40); run again with DUMP=2"),
    ],
)
def test_content_that_is_not_there(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = write_dump(tmp_path, [dumped(7, 2, _X) | change])
    dump = read_dump(path)
    with pytest.raises(ArtifactError) as error:
        dump.values(dump.records[0])
    assert str(error.value) == f"{path}: task 0x7 argument 2: {message}"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "FLOAT12"}, "args[0].dtype: 'FLOAT12' is not a known element type"),
        ({"role": "bystander"}, "args[0]: 'bystander' is no known role or stage"),
        ({"task_id": "twelve"}, "args[0]: invalid literal for int() with base 10: 'twelve'"),
        ({"task_id": None}, "args[0]: None is not a valid task id"),
    ],
)
def test_damaged_manifests(tmp_path: Path, entry: dict[str, object], message: str) -> None:
    path = write_dump(tmp_path, [dumped(7, 2, _X) | entry])
    with pytest.raises(ArtifactError) as error:
        read_dump(path)
    assert str(error.value) == f"{path}: {message}; run again with DUMP=2"


def test_half_a_manifest(tmp_path: Path) -> None:
    path = tmp_path / "args_dump.json"
    path.write_text('{"args": [')
    with pytest.raises(
        ArtifactError,
        match=r"is not JSON: .*; run again with DUMP=2, because the run that wrote the file did not finish",
    ):
        read_dump(path)


def test_nothing_dumped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hint = "replay with DUMP=2 for all arguments, DUMP=1 for the marked ones; DUMP_ARGS= and DUMP_TASKS= must fit"
    assert _run(capsys, tmp_path)[2] == f"dump: {tmp_path}: contains no argument dump; {hint}\n"
    error = ErrorInfo("runtime_error", "kernel 'k' crashed")
    write_verdict(Verdict("runtime_error", "a", "a2a3sim", "embedded", error=error), tmp_path / "verdict.json")
    ended = "the replay ended with runtime_error (kernel 'k' crashed); mend that first"
    assert _run(capsys, tmp_path)[2] == f"dump: {tmp_path}: contains no argument dump: {ended}\n"


def test_statistics_count_what_is_not_finite() -> None:
    counted = statistics(np.array([0.0, 1.0, np.nan, np.inf, -3.0]))
    assert counted.text == "min -3, max 1, mean -0.666667, std 1.7, 1 NaN, 1 inf, 20% zero, 3 distinct"
    assert statistics(np.zeros(0)).text == "no elements"
    bins = histogram(np.array([1, 2, 2, 4]), bins=3)
    assert bins is not None and bins.counts == (1, 2, 1)
    assert histogram(np.array([np.nan])) is None


@pytest.mark.filterwarnings("error")
def test_bytes_that_nobody_wrote_are_no_warning() -> None:
    """They are signalling NaN, which numpy remarks on when it widens them."""
    unwritten = np.array([0x7FA00000, 0x3F800000], dtype=np.uint32).view(np.float32)
    assert statistics(unwritten).nans == 1
    assert histogram(unwritten) is not None


def test_a_scalar_is_what_the_kernel_takes_it_for() -> None:
    """A dump records 64 bits; the wrapper says whether they are a float."""
    names = artifact_names(Path(__file__).parents[2] / "examples" / "artifacts" / "_jit_vector_dag")
    assert names.scalar((1,), 2, 1061158912) == ("float", 0.75)
    assert names.scalar((1,), 3, (1 << 64) - 2) == ("int32_t", -2)
    assert names.scalar((1,), 0, 5) is None  # a tensor
    assert names.scalar((99,), 2, 5) is None
