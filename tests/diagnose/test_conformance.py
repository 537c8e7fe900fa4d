"""The conformance kit: its questions and answers, what it writes, what it makes of right and wrong results."""

from __future__ import annotations

import contextlib
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.artifact.scene_test import SCENE_TEST_NAME
from pypto_build.diagnose.conformance.__main__ import main
from pypto_build.diagnose.conformance.asked import groups
from pypto_build.diagnose.conformance.question import neighbours, products_in_steps, sum_in_pieces, sum_in_sequence
from pypto_build.diagnose.conformance.results import (
    Judgement,
    RecordedOutput,
    Results,
    collect,
    digest_of_inputs,
    judge,
    lines_of,
    read_results,
    write_kit,
    write_results,
)
from pypto_build.facts.run_options import DEVICE_RESULTS, FAST, SIMULATOR
from pypto_build.pto.ops.agreement import AGREEMENTS
from tests.rows import every
from tests.rules.project import Project

QUESTIONS = {question.name: question for group in groups() for question in group.questions}


def given(name: str, label: str) -> RecordedOutput:
    """The output that is a known answer."""
    question = QUESTIONS[name]
    values = next(answer.values for answer in question.answers if answer.label == label)
    return RecordedOutput(question.dtype, values.tobytes().hex())


def results(**outputs: RecordedOutput) -> Results:
    return Results(digest_of_inputs(), "a2a3", outputs)


def judged(name: str, output: RecordedOutput) -> Judgement:
    return next(each for each in judge(results(**{name: output})) if each.question.name == name)


# --- questions and answers


def test_the_kit_asks_what_the_table_says() -> None:
    assert QUESTIONS.keys() == {row.name for row in AGREEMENTS.values() if row.kit}


@every("name", QUESTIONS)
def test_answers_tell_each_other_apart(name: str) -> None:
    question = QUESTIONS[name]
    exact = [answer.label for answer in question.answers if not answer.ulps]
    assert len(exact) > 1 or any(answer.ulps for answer in question.answers)
    for label in exact:
        assert [fit for fit in judged(name, given(name, label)).fits if fit in exact] == [label]
    labels = [answer.label for answer in question.answers]
    assert {question.here, question.device or labels[0], question.simulator or labels[0]} <= set(labels)


@every("name", QUESTIONS)
def test_the_table_says_whose_answers_are_whose(name: str) -> None:
    question, row = QUESTIONS[name], AGREEMENTS[name]
    assert (question.device == question.here) == (row.device_by == "fast")
    assert (question.simulator == question.here) == (row.simulator_by == "fast")
    assert bool(question.device) == (row.state != "open")


def test_models_on_numbers_that_one_can_follow() -> None:
    ones = np.ones((1, 192), np.float32)
    assert sum_in_pieces(ones).tolist() == sum_in_sequence(ones).tolist() == [[192]]
    order: list[list[float]] = []
    neighbours(np.arange(4.0)[None], lambda a, b: (order.append([*a[0], *b[0]]), a + b)[1])  # type: ignore[func-returns-value]
    assert order == [[0, 2, 1, 3], [1, 5]]
    c, left, right = np.full((1, 1), 2.0**24), np.ones((1, 4)), np.ones((4, 1))
    assert products_in_steps(c, left, right).item() == 2**24
    assert products_in_steps(c, left, right, 4).item() == 2**24 + 4


# --- what is made of results


def test_a_wrong_result_is_neither() -> None:
    question = QUESTIONS["accumulate_from_c"]
    values = question.answers[0].values.copy()
    values[3, 5] += 8
    judgement = judged("accumulate_from_c", RecordedOutput("float32", values.tobytes().hex()))
    assert judgement.fits == ()
    assert judgement.nearest == (
        "1 of 256 elements differ from 'begins with C, each step rounded' by up to 4 of the last place"
    )
    lines = list(lines_of(results(), [judgement]))
    assert lines[0] == f"accumulate_from_c  differs  neither: {judgement.nearest}"
    assert lines[-1] == "[conformance] of a2a3: 0 recognised, 1 neither"


def test_an_error_is_told_by_its_size() -> None:
    exact = QUESTIONS["exponential"].answers[0].values
    for steps, label in ((0, "rounded correctly"), (3, "within 4 of the last place"), (5000, "")):
        bits = (exact.view(np.int32) + steps).tobytes().hex()
        assert next(iter(judged("exponential", RecordedOutput("float32", bits)).fits), "") == label


def test_any_nan_is_nan_and_zeros_have_signs() -> None:
    values = QUESTIONS["max_with_nan"].answers[0].values.copy()
    values.view(np.uint32)[np.isnan(values)] = 0xFFC12345
    assert judged("max_with_nan", RecordedOutput("float32", values.tobytes().hex())).fits == ("NaN where either is",)
    assert judged("relu_of_zero", given("relu_of_zero", "-0, and NaN stays")).fits == ("-0, and NaN stays",)


def test_a_file_comes_back_as_it_was_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = results(**{name: given(name, question.answers[-1].label) for name, question in QUESTIONS.items()})
    (tmp_path / "sent.json").write_bytes(write_results(sent))
    assert read_results(tmp_path / "sent.json") == sent
    assert main(["--read", str(tmp_path / "sent.json"), "--json", str(tmp_path / "again.json")]) == 0
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "sent.json").read_bytes()
    assert "[conformance] of a2a3: 27 recognised, 0 neither\n" in capsys.readouterr().out


WRONG = {
    "no JSON": (b"{", "is not a valid file of results: Input data was truncated; name the results.json of a kit"),
    "another edition": (
        write_results(Results("0" * 16, "a2a3", {})),
        "was written by another version of the kit; read it with the version of pypto-build "
            "that wrote the kit, or write "
        "and run the kit anew",
    ),
    "no digits": (
        write_results(results(root=RecordedOutput("float32", "xy"))),
        "'root': the bits in the file are not hexadecimal digits; ask for the file again",
    ),
    "no question": (
        write_results(results(nothing=RecordedOutput("float32", ""))),
        "has results for 'nothing', which is not a question of this kit; ask for the file again",
    ),
    "of another size": (
        write_results(results(root=RecordedOutput("float32", "00"))),
        (
            "'root' has 1 bytes of 'float32', but should have 2048 bytes of 'float32'; run the kit "
            "again, without changes"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_files_that_are_none(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_bytes(WRONG[case][0])
    assert main(["--read", str(tmp_path / "x.json")]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.replace(f"{tmp_path}/x.json: ", "") == f"conformance: {WRONG[case][1]}\n"


def test_directories_that_hold_no_one_run(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"contains no outputs of the kit's artifacts; run the kit first"):
        collect(tmp_path)
    with pytest.raises(ArtifactError, match="no such directory"):
        collect(tmp_path / "away")
    for platform in ("a2a3sim", "a5sim"):
        (tmp_path / platform / "_jit_conformance_sums" / "actual").mkdir(parents=True)
    with pytest.raises(
        ArtifactError, match=r"contains outputs of several runs \(a2a3sim, a5sim\); name the directory of one run"
    ):
        collect(tmp_path)
    assert collect(tmp_path, "a5sim").outputs == {}


@pytest.mark.parametrize(
    "words,message",
    [
        ([], "conformance: DIR is missing; name a directory to write the kit to, or read results with --read"),
        (["x", "--bogus"], "conformance: --bogus: no such flag; see pypto-build conformance --help"),
        (["x", "more"], "conformance: more: is no NAME=value; see pypto-build conformance --help"),
        (
            ["x", "--read", "y"],
            (
                "conformance: --read only reads results, so it takes neither DIR nor --run; leave out DIR "
                "and --run, or leave out --read"
            ),
        ),
    ],
)
def test_wrong_command_lines(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        assert main(words) == 2
    assert capsys.readouterr().err == f"{message}\n"


# --- what is written, and the whole way


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("conformance")
    write_kit(root / "kit", "a2a3")
    return root / "kit"


def test_the_kit_is_artifacts_with_inputs_and_expectations(kit: Path) -> None:
    for group in groups():
        root = kit / group.artifact
        assert load_artifact(root).kernels
        assert {path.stem for path in (root / "data" / "in").iterdir()} >= set(group.inputs)
        for question in group.questions:
            expected = read_pt(root / "data" / "out" / f"{question.name}.pt")
            label = question.device or question.answers[0].label
            assert bytes(expected.data).hex() == given(question.name, label).bits
        written = [path for path in root.rglob("*.*") if path.suffix != ".pyc"]  # another test has imported it
        assert not [path for path in written if str(kit).encode() in path.read_bytes()], "names its place"


def test_it_is_written_again_without_a_change_and_beside_nothing_else(kit: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in kit.rglob("*") if path.is_file()}
    write_kit(kit, "a2a3")
    assert {path: path.read_bytes() for path in kit.rglob("*") if path.is_file()} == before
    (tmp_path / "_jit_mine").mkdir()
    with pytest.raises(ArtifactError, match=r"contains '_jit_mine', which does not belong to a kit; name a new dir"):
        write_kit(tmp_path, "a2a3")


def test_simpler_leaves_what_the_scene_test_keeps(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    simpler = types.ModuleType("simpler_setup")
    simpler.scene_test = lambda **_: lambda cls: cls  # type: ignore[attr-defined]
    for name in ("SceneTestCase", "TaskArgsBuilder", "TensorArg"):
        setattr(simpler, name, type(name, (), {}))
    interface = types.ModuleType("simpler.task_interface")
    interface.ArgDirection = types.SimpleNamespace(IN=0, OUT=1, INOUT=2)  # type: ignore[attr-defined]
    for module in (simpler, types.ModuleType("simpler"), interface):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    path = kit / "_jit_conformance_sums" / SCENE_TEST_NAME
    scene: dict[str, Any] = {"__name__": "scene", "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), scene)
    answers = {question.name: question.answers[0].values for question in groups()[1].questions}
    ran = types.SimpleNamespace(**{name: torch.from_numpy(values.copy()) for name, values in answers.items()})
    scene["TestConformanceSums"]().compare_outputs(ran, None, list(answers), None)
    judgements = {each.question.name: each for each in judge(collect(kit, "a2a3"))}
    assert [judgements[name].fits[0] for name in answers] == [QUESTIONS[name].answers[0].label for name in answers]
    assert judgements["root"].missing
    for name in answers:
        (path.parent / "actual" / f"{name}.pt").unlink()
    (path.parent / "actual").rmdir()


def test_each_setting_is_recognised_and_none_is_shown_for_another(kit: Path) -> None:
    project = Project(kit.parent)
    out = project.root / "build" / "a2a3sim" / "_jit_conformance_products"
    names = ("accumulate_from_c", "product_order", "float_products")
    recognised = []
    for numerics, is_cached in ((FAST, False), (SIMULATOR, False), (FAST, True)):
        run = project.cli("replay", "kit/_jit_conformance_products", f"NUMERICS={numerics}")
        assert run.status == 0, run.output
        assert ("(cached)" in run.output) == is_cached, run.output
        read = collect(project.root / "build")
        judgements = judge(read)
        assert list(lines_of(read, judgements))[-1] == ("[conformance] of a2a3sim: 3 recognised, 0 neither, 24 not run")
        recognised.append([each.fits[0] for each in judgements if each.question.name in names])
    as_it_is = [QUESTIONS[name].here for name in names]
    assert recognised == [as_it_is, ["adds C at the end", *as_it_is[1:]], as_it_is]
    assert (out / "simulator" / "kernels" / "aic" / "accumulate.so").is_file()
    path = out / "actual" / "accumulate_from_c.pt"
    tensor = read_pt(path)
    write_pt(path, tensor.dtype, tensor.shape, bytes(tensor.data[:-1]) + b"\x7f")
    assert [
        each.question.name for each in judge(collect(project.root / "build")) if not (each.fits or each.missing)
    ] == ["accumulate_from_c"]


def test_kernels_that_break_a_rule(kit: Path) -> None:
    """A kernel breaks the rule that it asks about; both settings give the answers that the table names."""
    project = Project(kit.parent)
    (group,) = [each for each in groups() if each.name == "rules"]
    names = [question.name for question in group.questions]
    fits = []
    for numerics in (FAST, DEVICE_RESULTS):
        run = project.cli("replay", "kit/_jit_conformance_rules", f"NUMERICS={numerics}")
        broken = [line.partition(" breaks")[0] for line in run.output.splitlines() if line.startswith("[rules]")]
        assert [re.sub(r".*: (\w+)\(.*", r"\1", line) for line in broken] == ["TRECIP", "TDIVS", "TANDS", "TROWMAX"]
        judgements = judge(collect(project.root / "build"))
        fits.append([each.fits for each in judgements if each.question.name in names])
    assert fits[0] == [(QUESTIONS[name].here,) for name in names]
    assert fits[1] == [(QUESTIONS[name].device,) for name in names]
