"""Binding: which bytes each parameter gets, and one clear line for every fault of the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pypto_build.artifact import ArtifactError, snapshot
from pypto_build.artifact.interface import Interface, OrchestrationInterface, Param
from pypto_build.replay.binding import Binding, ScalarArg, TensorArg, bind, with_goldens

F32 = torch.float32


def _tensor(name: str, index: int, direction: str | None, shape: tuple[int, ...] | None = (2, 3)) -> Param:
    return Param(name, "tensor", index, direction, "float32" if shape else None, shape)


def _interface(*params: Param) -> Interface:
    entry = OrchestrationInterface("entry", "config", "orchestration/o.cpp")
    return Interface(1, "art", "2026-08", entry, params, (), None, None, "tensormap_and_ringbuffer")


PROGRAM = _interface(
    _tensor("x", 0, "IN"),
    _tensor("y", 1, "OUT"),
    _tensor("acc", 2, "INOUT"),
    Param("alpha", "scalar", 0, None, "float32", None),
)

FILES: dict[str, Any] = {
    "in/x": torch.arange(6, dtype=F32).reshape(2, 3),
    "in/acc": torch.full((2, 3), 7.0),
    "in/alpha": torch.tensor(1.5),
    "out/y": torch.full((2, 3), 2.0),
    "out/acc": torch.full((2, 3), 8.0),
}


def _save(root: Path, files: dict[str, Any]) -> Path:
    for name, value in files.items():
        path = root / "data" / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(value, path)
    return root


def _bind(root: Path, interface: Interface = PROGRAM, **options: Any) -> Binding:
    data = snapshot(root)
    return with_goldens(bind(interface, data, **options), data)


def _floats(data: bytes | memoryview | None) -> list[float]:
    assert data is not None
    return list(torch.frombuffer(bytearray(data), dtype=F32))


def test_snapshot(tmp_path: Path) -> None:
    bound = _bind(_save(tmp_path, FILES))
    assert [(t.name, t.direction, t.dtype, t.shape, t.nbytes) for t in bound.tensors] == [
        ("x", "IN", "float32", (2, 3), 24),
        ("y", "OUT", "float32", (2, 3), 24),
        ("acc", "INOUT", "float32", (2, 3), 24),
    ]
    x, y, acc = bound.tensors
    assert (_floats(x.initial), y.initial, _floats(acc.initial)) == ([0, 1, 2, 3, 4, 5], None, [7] * 6)
    assert (x.golden, _floats(y.golden), _floats(acc.golden)) == (None, [2] * 6, [8] * 6)
    assert bound.scalars == (ScalarArg("alpha", "float32", 1.5, 0x3FC00000),)
    assert (bound.seed, bound.checked, bound.unknown) == (None, True, ())


def test_strided_tensor_is_gathered(tmp_path: Path) -> None:
    bound = _bind(_save(tmp_path, FILES | {"in/x": torch.arange(6, dtype=F32).reshape(3, 2).T}))
    assert _floats(bound.tensors[0].initial) == [0, 2, 4, 1, 3, 5]


def test_inputs_without_goldens_are_unchecked(tmp_path: Path) -> None:
    bound = _bind(_save(tmp_path, {name: value for name, value in FILES.items() if name.startswith("in/")}))
    assert (bound.seed, bound.checked) == (None, False)


def test_seeded_inputs(tmp_path: Path) -> None:
    first, again, other = (_bind(tmp_path, seed=seed) for seed in (0, 0, 1))
    assert (first.seed, first.checked) == (0, False)
    assert first.tensors == again.tensors
    assert first.tensors[0].initial != other.tensors[0].initial
    assert [tensor.initial is None for tensor in first.tensors] == [False, True, False]
    assert first.scalars == (ScalarArg("alpha", "float32", 1, 0x3F800000),)


def test_goldens_without_inputs_do_not_check_made_up_ones(tmp_path: Path) -> None:
    root = _save(tmp_path, {name: value for name, value in FILES.items() if name.startswith("out/")})
    assert (_bind(root).seed, _bind(root).checked) == (0, False)


def test_signed_files_carry_unsigned_tensors(tmp_path: Path) -> None:
    program = _interface(Param("x", "tensor", 0, "IN", "uint16", (2,)), Param("y", "tensor", 1, "OUT", "uint32", (1,)))
    files = {"in/x": torch.tensor([-1, 2], dtype=torch.int16), "out/y": torch.tensor([-2], dtype=torch.int32)}
    x, y = _bind(_save(tmp_path, files), program).tensors
    assert (x.dtype, bytes(x.initial or b"")) == ("uint16", b"\xff\xff\x02\x00")
    assert (y.dtype, bytes(y.golden or b"")) == ("uint32", b"\xfe\xff\xff\xff")


def test_dynamic_dimensions(tmp_path: Path) -> None:
    program = _interface(_tensor("x", 0, "IN", (-1, 3)), _tensor("y", 1, "OUT", (-1, 3)))
    assert [t.shape for t in _bind(tmp_path, program).tensors] == [(1, 3), (1, 3)]
    root = _save(tmp_path, {"in/x": torch.zeros(5, 3), "out/y": torch.zeros(5, 3)})
    assert [t.shape for t in _bind(root, program).tensors] == [(5, 3), (5, 3)]


def test_an_output_without_golden_has_the_sizes_of_the_inputs_declared_like_it(tmp_path: Path) -> None:
    names = {"x": "IN", "other": "IN", "y": "OUT"}
    program = _interface(*(_tensor(name, index, names[name], (-1, -1)) for index, name in enumerate(names)))
    files = {"in/x": torch.zeros(5, 3), "in/other": torch.zeros(5, 3)}
    assert _bind(_save(tmp_path / "same", files), program).tensors[2].shape == (5, 3)
    root = _save(tmp_path / "two", files | {"in/other": torch.zeros(3, 5)})
    with pytest.raises(ArtifactError) as caught:
        _bind(root, program)
    assert str(caught.value) == (
        "compiled_meta.json: the shape of output 'y' is unknown: it is declared as [-1, -1]; "
        f"save a golden of the right shape as {root / 'data' / 'out' / 'y.pt'}"
    )


def test_what_the_interface_leaves_open_comes_from_the_files(tmp_path: Path) -> None:
    program = _interface(_tensor("x", 0, None, None), _tensor("y", 1, None, None), _tensor("acc", 2, None, None))
    bound = _bind(_save(tmp_path, FILES), program)
    assert [(t.name, t.direction, t.dtype, t.shape) for t in bound.tensors] == [
        ("x", "IN", "float32", (2, 3)),
        ("y", "OUT", "float32", (2, 3)),
        ("acc", "INOUT", "float32", (2, 3)),
    ]


def test_golden_of_an_input_is_compared_too(tmp_path: Path) -> None:
    bound = _bind(_save(tmp_path, FILES | {"out/x": FILES["in/x"]}))
    assert [tensor.is_output for tensor in bound.tensors] == [True, True, True]


def test_files_of_no_parameter_are_listed(tmp_path: Path) -> None:
    assert _bind(_save(tmp_path, FILES | {"in/z": torch.zeros(1)})).unknown == ("z",)


def test_scalar_given(tmp_path: Path) -> None:
    bound = _bind(_save(tmp_path, FILES), scalars={"alpha": -2})
    assert bound.scalars == (ScalarArg("alpha", "float32", -2, 0xC0000000),)


def test_only_the_given_scalar_may_be_missing_from_the_snapshot(tmp_path: Path) -> None:
    root = _save(tmp_path, {name: value for name, value in FILES.items() if name != "in/alpha"})
    assert _bind(root, scalars={"alpha": 2.0}).scalars[0].value == 2.0


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "input missing": (
        {"in/x": None, "in/acc": None},
        "in/x.pt: the input file is missing for x, acc; save it in this directory, which has alpha; or give other data "
        "with DATA=",
    ),
    "input of another shape": (
        {"in/x": torch.zeros(3, 2)},
        (
            "in/x.pt: has shape [3, 2], but parameter 'x' is declared [2, 3]; save the tensor again in that shape, "
            "or compile the artifact again"
        ),
    ),
    "input of another rank": (
        {"in/x": torch.zeros(6)},
        (
            "in/x.pt: has shape [6], but parameter 'x' is declared [2, 3]; save the tensor again in that shape, or "
            "compile the artifact again"
        ),
    ),
    "input of another dtype": (
        {"in/x": torch.zeros(2, 3, dtype=torch.float16)},
        "in/x.pt: has dtype float16, but parameter 'x' is declared float32; save the tensor again in that "
        "dtype, or compile the artifact "
        "again",
    ),
    "golden of another shape": (
        {"out/y": torch.zeros(2, 2)},
        (
            "out/y.pt: shape [2, 2], but output 'y' has [2, 3]; save the golden again with the dtype and "
            "shape that the program computes"
        ),
    ),
    "golden of an INOUT of another shape": (
        {"out/acc": torch.zeros(3, 3)},
        (
            "out/acc.pt: shape [3, 3], but output 'acc' has [2, 3]; save the golden again with the dtype "
            "and shape that the program computes"
        ),
    ),
    "scalar that is none": (
        {"in/alpha": torch.zeros(2)},
        "in/alpha.pt: has shape [2], but parameter 'alpha' is a scalar; save the value as a 0-dim tensor",
    ),
    "scalar of another dtype": (
        {"in/alpha": torch.tensor(1)},
        "in/alpha.pt: has dtype int64, but scalar 'alpha' is declared float32; save the value again in that dtype",
    ),
    "golden missing": (
        {"out/y": None},
        (
            "out/y.pt: the golden is missing for output y; save the golden there, or remove the directory "
            "{root}/data/out to run without comparison"
        ),
    ),
    "no tensor in the file": (
        {"in/x": {"x": torch.zeros(2, 3)}},
        "in/x.pt: holds a dict, not a tensor; save it again: torch.save(tensor.detach().cpu().contiguous(), path)",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_the_data(tmp_path: Path, fault: str) -> None:
    change, message = FAULTS[fault]
    root = _save(tmp_path, {name: value for name, value in (FILES | change).items() if value is not None})
    with pytest.raises(ArtifactError) as error:
        _bind(root)
    assert str(error.value) == f"{root}/data/{message}".replace("{root}", str(root))
    assert error.value.kind == "golden_error"


def test_outputs_that_the_artifact_does_not_compare(tmp_path: Path) -> None:
    root = _save(tmp_path, {name: value for name, value in FILES.items() if name != "out/y"})
    data = snapshot(root)
    bound = with_goldens(bind(PROGRAM, data), data, compared=("acc",))
    assert [tensor.name for tensor in bound.tensors if tensor.golden is not None] == ["acc"]
    for names in (("y", "acc"), ("acc", "sum")):  # a list with what is no output of it is another program's
        with pytest.raises(ArtifactError, match="the golden is missing for output y"):
            with_goldens(bind(PROGRAM, data), data, compared=names)


def test_a_golden_that_nobody_needs(tmp_path: Path) -> None:
    root = _save(tmp_path, {name: value for name, value in FILES.items() if name != "out/y"})
    data = snapshot(root)
    bound = with_goldens(bind(PROGRAM, data), data, all_of_them=False)
    assert [(tensor.name, tensor.golden is None) for tensor in bound.tensors] == [
        ("x", True), ("y", True), ("acc", False)
    ]  # fmt: skip


@pytest.mark.parametrize("keep", [0, 3, 100, 1100])
def test_truncated_file(tmp_path: Path, keep: int) -> None:
    root = _save(tmp_path, FILES)
    path = root / "data/in/x.pt"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArtifactError) as error:
        _bind(root)
    assert (error.value.path, error.value.kind) == (str(path), "golden_error")


def test_nothing_tells_the_shape(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as error:
        _bind(tmp_path, _interface(_tensor("x", 0, "IN", None)))
    assert str(error.value) == (
        "compiled_meta.json: nothing tells the shape and dtype of tensor 'x'; save a snapshot under data/in and "
        "data/out, or give one with DATA="
    )
    assert error.value.kind == "usage_error"


@pytest.mark.parametrize(
    ("scalars", "message"),
    [
        ({"beta": 1}, "--scalar beta: the artifact has no such scalar; its scalars are alpha"),
        ({"x": 1}, "--scalar x: the artifact has no such scalar; its scalars are alpha"),
        ({"alpha": 1e300}, "--scalar alpha: 1e+300 does not fit float32"),
    ],
)
def test_fault_of_a_given_scalar(tmp_path: Path, scalars: dict[str, float], message: str) -> None:
    with pytest.raises(ArtifactError) as error:
        _bind(_save(tmp_path, FILES), scalars=scalars)
    assert (str(error.value), error.value.kind) == (message, "usage_error")


def test_a_program_without_inputs_is_checked(tmp_path: Path) -> None:
    root = _save(tmp_path, {"out/y": torch.zeros(2, 3)})
    assert _bind(root, _interface(_tensor("y", 0, "OUT"))).checked


def test_empty_tensor(tmp_path: Path) -> None:
    program = _interface(_tensor("x", 0, "IN", (0, 3)))
    bound = _bind(_save(tmp_path, {"in/x": torch.zeros(0, 3)}), program)
    assert bound.tensors == (TensorArg("x", "IN", "float32", (0, 3), b""),)
