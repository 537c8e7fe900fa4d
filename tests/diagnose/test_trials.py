"""Edits of an orchestration that are tried: the planted ones are found without the program."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from pypto_build.artifact import load_artifact
from pypto_build.artifact.interface import KernelInterface, encode_interface, sign
from pypto_build.diagnose.diverge.golden import golden_findings, rounding_of
from pypto_build.diagnose.diverge.lockstep import Limits
from pypto_build.diagnose.diverge.variants import MOST_TRIALS, edits_of, trials, with_choice
from pypto_build.diagnose.findings import Edit
from pypto_build.replay.binding import TensorArg
from pypto_build.replay.reference.launch import open_launch
from tests.diagnose.corpus import Bug
from tests.diagnose.corpus.orchestration import BUGS
from tests.replay.builder import build_artifact, embedded_module

_EXAMPLES = Path(__file__).parents[2] / "examples" / "artifacts"
_TEXT = """
    const ChipTensor& x = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref(); // add_input(z);
    float alpha = from_u64<float>(orch_args.scalar(0));
    for (int64_t i = 64; i < 256; i += 64) {
        CoreTaskArgs p;
        p.add_input(x);
        p.add_input(y);
        p.add_output(x);
        p.add_scalar((uint64_t)3);
        rt_submit_aiv_task(0, p);
    }
"""


@cache
def _built(artifact: str, out: Path) -> Path:
    build_artifact(_EXAMPLES / artifact, out)
    return out


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory in which each example is built once."""
    return tmp_path_factory.mktemp("built")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted(bug: Bug, built: Path, tmp_path: Path) -> None:
    artifact, out = tmp_path / bug.artifact, tmp_path / "out"
    shutil.copytree(_EXAMPLES / bug.artifact, artifact)
    for file, old, new in bug.edits:
        text = (artifact / file).read_text()
        assert text.count(old) == 1
        (artifact / file).write_text(text.replace(old, new))
    (out / "orchestration").mkdir(parents=True)
    (out / "kernels").symlink_to(_built(bug.artifact, built / bug.artifact) / "kernels")
    _build_orchestration(artifact, out)
    launch = open_launch(artifact, out, embedded_module(), "a2a3sim")
    (finding,) = golden_findings(launch, None, Limits(), 100)
    lines = (artifact / bug.file).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if bug.at in text)
    assert (finding.rule, finding.path, finding.line) == (bug.rule, bug.file, line)
    assert bug.says in finding.message
    for edit in finding.edits:
        assert lines[edit.line - 1].strip() == edit.old
        lines[edit.line - 1] = edit.new
    original = [text.strip() for text in (_EXAMPLES / bug.artifact / bug.file).read_text().splitlines()]
    mended = [text.strip() for text in lines if text.strip()]
    same = mended == [text for text in original if text]
    assert same or bug.name in ("scalar of another task", "loop a step short")  # the golden has two ways


def _build_orchestration(artifact: Path, out: Path) -> None:
    from pypto_build.toolchain.host import find_compiler, orchestration_flags
    from tests.replay.builder import PLATFORM, library

    read = load_artifact(artifact)
    flags = tuple(orchestration_flags(find_compiler(), PLATFORM))
    (out / f"{read.orchestration.binary}.so").write_bytes(library(read.orchestration.source.read_text(), flags))
    (out / "interface.json").write_bytes(encode_interface(sign(read).interface))


def test_what_is_tried() -> None:
    assert [trial.what for trial in trials(_TEXT)] == [
        "x and y exchanged",
        "a loop that ends a step later",
        "a loop that ends a step earlier",
        "a loop that begins a step earlier",
        "a loop that begins a step later",
        "this submission left out",
        "to_u64(alpha) in place of (uint64_t)3",
        "y in place of x",
        "x in place of y",
    ]
    assert trials("") == []
    assert len(trials(_TEXT * 40)) == MOST_TRIALS


def test_a_number_chooses() -> None:
    text = with_choice(_TEXT, trials(_TEXT))
    assert "{ if (pypto_trial == 6) {  } else { rt_submit_aiv_task(0, p); } }" in text
    assert "i = (pypto_trial == 4 ? (0) : pypto_trial == 5 ? (128) : (64)); i < (pypto_trial == 2 ? (320)" in text
    assert "// add_input(z);" in text
    exchanged = edits_of(trials(_TEXT)[0], _TEXT, "o.cpp")
    assert [(edit.line, edit.old, edit.new) for edit in exchanged] == [
        (7, "p.add_input(x);", "p.add_input(y);"),
        (8, "p.add_input(y);", "p.add_input(x);"),
    ]


def test_what_no_edit_explains_is_told_with_its_region(built: Path, tmp_path: Path) -> None:
    """A golden that is wrong in some rows: where, and who wrote there."""
    from pypto_build.artifact.pt import read_pt, write_pt

    artifact = tmp_path / "_jit_accumulate"
    shutil.copytree(_EXAMPLES / "_jit_accumulate", artifact)
    golden = read_pt(artifact / "data/out/acc.pt")
    data = bytearray(golden.data)
    row = len(data) // golden.shape[0]
    data[3 * row : 5 * row] = bytes(2 * row)
    write_pt(artifact / "data/out/acc.pt", golden.dtype, golden.shape, bytes(data))
    launch = open_launch(artifact, _built("_jit_accumulate", built / "_jit_accumulate"), embedded_module(), "a2a3sim")
    (finding,) = golden_findings(launch, None, Limits(), 100)
    assert finding.rule == "diverge/golden"
    assert "differ from the golden, within [3:5, 0:128]" in finding.message
    assert finding.detail == ("the first of them is in an output of tasks 0, 1 axpy_acc",)
    assert finding.hint.startswith(
        "the modules, the orchestration, the inputs or the golden are wrong; if you have the program, name it with "
        "PROGRAM= for a closer answer; "
    )


def test_another_kernel_of_the_same_arguments_is_tried() -> None:
    text = "rt_submit_aiv_task(0, p);\nrt_submit_aic_task(3, q);\n"
    signature = ("IN", "IN", "OUT")
    kernels = [
        KernelInterface(0, "add", "aiv", "", signature),
        KernelInterface(1, "copy", "aiv", "", ("IN", "OUT")),
        KernelInterface(2, "mul", "aiv", "", signature),
        KernelInterface(3, "cube", "aic", "", signature),
    ]
    tried = [trial for trial in trials(text, kernels) if trial.what.startswith("kernel ")]
    assert [trial.what for trial in tried] == ["kernel mul in place of add"]
    assert edits_of(tried[0], text, "o.cpp") == (
        Edit("o.cpp", 1, "rt_submit_aiv_task(0, p);", "rt_submit_aiv_task(2, p);"),
    )
    assert "rt_submit_aiv_task(2, p);" in with_choice(text, trials(text, kernels))


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        (lambda x: x.bfloat16().float(), "bfloat16"),
        (lambda x: x.half().float(), "float16"),
        (lambda x: (x.bfloat16().float() + x.roll(1).bfloat16().float()) - x.roll(1), "bfloat16"),
        (lambda x: x * 1.25, ""),
        (lambda x: x + 2e-3, ""),
        (lambda x: x.double().float(), ""),
    ],
)
def test_rounding_is_known_by_its_size(made: Callable[[torch.Tensor], torch.Tensor], dtype: str) -> None:
    golden = torch.randn(4096, generator=torch.Generator().manual_seed(1))
    tensor = TensorArg("y", "OUT", "float32", (4096,), golden=golden.numpy().tobytes())
    assert rounding_of(memoryview(made(golden).numpy().tobytes()), tensor) == dtype
