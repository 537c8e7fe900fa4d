"""One answer: the cause comes first, with its line and edit; what is excluded and what was not run is said."""

from __future__ import annotations

import array
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from pypto_build.artifact import load_artifact
from pypto_build.artifact.last_pass import copies, edits, keep
from pypto_build.artifact.pt import write_pt
from pypto_build.compiler.__main__ import main as compile_main
from pypto_build.compiler.golden import main as make_golden
from pypto_build.diagnose.findings import Edit, Finding
from pypto_build.diagnose.repeat import written_options
from pypto_build.diagnose.triage.__main__ import Triage, lines_of, parser
from pypto_build.diagnose.triage.causes import Answer, Circumstances, weigh
from pypto_build.diagnose.triage.golden import golden_findings
from pypto_build.diagnose.triage.remedy import try_edits
from pypto_build.replay.verdict import Status, Verdict
from tests.rules.project import Project


def verdict(status: Status) -> Verdict:
    """A verdict that says no more than this."""
    return Verdict(status, "_jit_x", "a2a3sim", "embedded")


UNORDERED = Finding("hazards/raw", "nothing orders the two", "orchestration/x.cpp", 3)
DECLARED = Finding("hazards/read-output", "it is read", "orchestration/x.cpp", 4)
KERNEL = Finding("diverge/kernel", "computes something else", "kernels/aiv/k.cpp", 5)
RUNS = Finding("flaky/order", "output varies", "orchestration/x.cpp", 3)
FAULT = Finding("hazards/fault", "it ended", "orchestration/x.cpp", 0)
LINT = Finding("lint/tensor-after-scalar", "a tensor after a scalar", "orchestration/x.cpp", 6)
WARNING = Finding("hazards/untouched", "never touched", "orchestration/x.cpp", 7, level="warning")

FIRST = {
    "a race that other orders show, and a kernel that is wrong": (
        Circumstances(verdict("mismatch"), 2, "one by one"), [KERNEL, UNORDERED, RUNS], UNORDERED,
    ),
    "a race that no order shows": (Circumstances(verdict("mismatch"), 5), [UNORDERED, KERNEL], KERNEL),
    "the declaration rather than the runs": (Circumstances(verdict("pass"), 5), [RUNS, DECLARED], DECLARED),
    "what contradicts itself rather than the end": (Circumstances(verdict("runtime_error")), [FAULT, LINT], LINT),
    "an error rather than a warning": (Circumstances(verdict("mismatch"), 5), [WARNING, UNORDERED], UNORDERED),
}  # fmt: skip


@pytest.mark.parametrize("case", FIRST)
def test_what_comes_first(case: str) -> None:
    evidence, findings, first = FIRST[case]
    answer = Answer(evidence)
    answer.add(findings)
    assert answer.ranked[0] == first


def test_what_is_certain() -> None:
    assert weigh(Finding("lint/x", "a note", level="note"), Circumstances(verdict("mismatch"))) == 0
    answer = Answer(Circumstances(verdict("mismatch"), 5))
    answer.add([UNORDERED, WARNING])
    assert not answer.certain
    answer.add([KERNEL])
    assert answer.certain


class Instruments(Triage):
    """Instruments that find what they are told to, and say in which order they were asked."""

    def __init__(self, findings: dict[str, Finding], status: Status = "mismatch") -> None:
        words = ["examples/none", "--build-dir", "out", "--embedded", "module", "--binaries", "out/check"]
        super().__init__(parser().parse_args(words), verdict(status), written_options(words))
        self.found, self.asked = findings, list[str]()

    def _tool(self, name: str, words: Sequence[str]) -> None:
        self.asked.append(name)
        self.take(name, [self.found[name]] if name in self.found else [])

    def lint(self) -> None:
        self._tool("lint", [])

    def _orders(self) -> None:
        self.asked.append("orders")


@pytest.mark.parametrize(
    "findings, status, tools",
    [
        ({}, "mismatch", "lint orders hazards diverge flaky"),
        ({}, "hang", "lint orders hazards"),
        ({"lint": LINT}, "mismatch", "lint"),
        ({"hazards": WARNING, "diverge": KERNEL}, "mismatch", "lint orders hazards diverge"),
        ({"hazards": UNORDERED, "flaky": RUNS}, "mismatch", "lint orders hazards diverge flaky"),
    ],
)
def test_cheapest_first_until_it_is_certain(findings: dict[str, Finding], status: Status, tools: str) -> None:
    pytest.importorskip("torch")
    instruments = Instruments(findings, status)
    instruments.run()
    assert instruments.asked == tools.split()


def test_the_answer_in_words() -> None:
    instruments = Instruments({"hazards": UNORDERED, "lint": WARNING, "diverge": KERNEL})
    instruments.run()
    assert list(lines_of(instruments)) == [
        "[triage] _jit_x: mismatch; the cause:",
        "kernels/aiv/k.cpp:5: error: computes something else [diverge/kernel]",
        "    also: orchestration/x.cpp:3: nothing orders the two [hazards/raw]",
        "    also: orchestration/x.cpp:7: never touched [hazards/untouched]",
        "    not run: flaky (the cause is certain)",
    ]


def test_a_store_past_a_tensor(tmp_path: Path) -> None:
    """Plain C++ that no instruction of ours sees: a run in which it traps tells who, and at which line."""
    project = Project(tmp_path)
    project.edit("kernels/aiv/plus_one.cpp", "in[i] + 1.0f;", "in[i] + 1.0f;\nout[17] = 3.0f;")
    text = (project.artifact / "kernels/aiv/plus_one.cpp").read_text(encoding="utf-8")
    line = 1 + text[: text.index("out[17]")].count("\n")
    message = "kernel 'plus_one' wrote outside tensor 'y': at byte 68, while it has 64"
    run = project.quiet("triage", "JIT=_jit_chain", f"JSON={tmp_path}/found.json")
    answer = f"; the cause:\nkernels/aiv/plus_one.cpp:{line}: error: {message} [hazards/out-of-bounds]\n"
    assert run.status == 2 and answer in run.output, run.output
    findings = json.loads((tmp_path / "found.json").read_bytes())["findings"]
    assert findings[0]["rule"] == "hazards/out-of-bounds"
    error = project.verdict()["error"]
    assert isinstance(error, dict)
    assert (error["task"], error["kernel"]) == ("1", "plus_one")
    assert error["message"] == f"{message}, in build_output/_jit_chain/kernels/aiv/plus_one.cpp:{line}"
    assert not {"line", "address", "fault"} & error.keys()


def test_what_does_not_build(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.edit("kernels/aiv/plus_one.cpp", "in[i] + 1.0f;", "in[i] + one;")
    text = (project.artifact / "kernels/aiv/plus_one.cpp").read_text(encoding="utf-8")
    line = 1 + text[: text.index("in[i] + one")].count("\n")
    run = project.quiet("triage", "JIT=_jit_chain")
    answer = rf"\[triage\] _jit_chain: it does not build; the cause:\nkernels/aiv/plus_one.cpp:{line}:\d+: error: .*one"
    assert run.status == 2 and re.search(answer, run.output), run.output
    assert "    not run: lint, other orders, hazards, diverge, flaky (there is nothing to run)\n" in run.output


def test_what_was_edited_since_the_last_pass_comes_first(tmp_path: Path) -> None:
    """Names, of two edits, the one that explains the failure, by a replay of a copy; the artifact stays."""
    project = Project(tmp_path)
    assert project.replay().status == 0
    project.edit("orchestration/chain.cpp", "// Task 0: twice", "// Task 0: doubles")
    project.edit("kernels/aiv/plus_one.cpp", "in[i] + 1.0f", "in[i] + 2.0f")
    before = {path: path.read_bytes() for path in project.artifact.rglob("*") if path.is_file()}
    run = project.scons("triage", "JIT=_jit_chain")
    position = "kernels/aiv/plus_one.cpp:11"
    text = "for (uint32_t i = 0; i < x->shapes[0]; ++i) out[i] = in[i] + {}.0f;"
    assert "[triage] _jit_chain: 'y' differs; the cause:\n" in run.output
    assert (
        f"{position}: error: edited since the last pass, and the replay passes if this edit is "
        f"undone: '{text.format(2)}' was "
        f"'{text.format(1)}' [triage/edited]\n"
    ) in run.output
    assert f"    edit {position}: {text.format(2)}  ->  {text.format(1)}\n" in run.output
    assert "not run: golden, lint, other orders, hazards, diverge, flaky (the cause is certain)" in run.output
    assert "Mismatched elements" in run.output  # Project.scons asks for VERBOSE=1
    brief = project.quiet("triage", "JIT=_jit_chain", "ANNOTATE=github", "JUNIT=out.xml").output
    assert "[RUN]   'y' FAIL" in brief and "Mismatched elements" not in brief
    project.edit("kernels/aiv/plus_one.cpp", "in[i] + 2.0f", "in[i] + 3.0f")
    compiled = project.quiet("triage", "JIT=_jit_chain").output  # the same where the replay follows a compilation
    assert "[RUN]   'y' FAIL" in compiled and "Mismatched elements" not in compiled
    project.edit("kernels/aiv/plus_one.cpp", "in[i] + 3.0f", "in[i] + 2.0f")
    file = f"build_output/_jit_chain/{position.partition(':')[0]}"
    assert f"\n::error file={file},line=11,title=triage/edited::edited since the last pass, and " in brief
    (failure,) = ElementTree.parse(project.root / "out.xml").iter("failure")
    assert failure.get("message", "").startswith(f"{position}: edited since the last pass, and ")
    assert "[triage] _jit_chain: 'y' differs; the cause:\n" in (failure.text or "")
    assert {path: path.read_bytes() for path in project.artifact.rglob("*") if path.is_file()} == before

    project.edit("kernels/aiv/plus_one.cpp", "in[i] + 2.0f", "in[i] + 1.0f")
    project.write_tensor("out/y", [7.0] * 16)
    run = project.scons("triage", "JIT=_jit_chain")
    says = "edited since the last pass, and the replay passes if this edit is undone: it holds something else"
    assert f"\ndata/out/y.pt: error: {says} [triage/edited]\n" in run.output


def test_only_what_passed_is_kept(tmp_path: Path) -> None:
    project = Project(tmp_path)
    artifact, output = load_artifact(project.artifact), tmp_path / "out"
    kernel = project.artifact / "kernels/aiv/twice.cpp"
    keep(output, artifact, kernel.stat().st_mtime + 10)
    assert copies(output, artifact) == {}
    kernel.write_text(kernel.read_text() + "// more\n")
    keep(output, artifact, kernel.stat().st_mtime - 10)  # written while the replay ran
    (name,) = copies(output, artifact)
    (edited,) = edits(artifact, copies(output, artifact))
    assert (name, edited.change.line, edited.change.new) == ("kernels/aiv/twice.cpp", 13, "// more")
    assert b"// more" not in edited.before


def test_a_stale_golden_comes_before_the_kernels(tmp_path: Path) -> None:
    """An input has changed since the golden was made of it; a golden made anew passes."""
    project = Project(tmp_path)
    golden = """import torch

__outputs__ = ["y"]


def make_inputs():
    return {"x": torch.arange(16, dtype=torch.float32)}


def generate_inputs(params):
    from pathlib import Path

    x = torch.load(Path(__file__).parent / "data" / "in" / "x.pt", weights_only=True)
    return {"x": x, "y": torch.zeros(16)}


def compute_golden(tensors, params):
    tensors["y"][:] = 2 * tensors["x"] + 1
"""
    project.write("build_output/_jit_chain/golden.py", golden)
    (project.artifact / "data/in/x.pt").unlink()
    assert make_golden([str(project.artifact)]) == 0
    write_pt(project.artifact / "data/in/x.pt", "float32", (16,), array.array("f", range(5, 21)).tobytes())
    run = project.scons("triage", "JIT=_jit_chain")
    says = "data/out was computed from other contents of data/in/x.pt: the golden is stale; made anew, it passes"
    assert f"\ndata/in/x.pt: error: {says} [triage/stale-golden]\n" in run.output
    assert (
        f"    do: make it anew: python -m pypto_build.compiler.golden {project.artifact.relative_to(project.root)}\n"
        in run.output
    )
    assert make_golden([str(project.artifact)]) == 0
    assert project.replay().status == 0
    project.edit("kernels/aiv/twice.cpp", "2.0f", "3.0f")
    shutil.rmtree(project.out / ".last_pass")  # where there was no pass
    run = project.scons("triage", "JIT=_jit_chain")
    assert "the golden (it follows from golden.py and the inputs: that was run)" in run.output


def test_the_golden_follows_from_the_program_where_there_is_no_golden_py(tmp_path: Path) -> None:
    program, root = tmp_path / "hello_world.py", tmp_path / "build_output" / "_jit_hello_world"
    shutil.copyfile(Path(__file__).resolve().parents[2] / "examples" / "hello_world.py", program)
    assert compile_main([str(program), "--output", str(root)]) == 0
    (root / "golden.py").unlink()
    answer = golden_findings(load_artifact(root), tmp_path / "out", [], program)
    assert answer == ([], "the golden (it follows from the reference of hello_world.py and the inputs: that was run)")
    golden = root / "data" / "out" / "c.pt"
    write_pt(golden, "float32", (128, 128), bytes(4 * 128 * 128))
    (root / "data" / "golden.json").unlink()
    ((one,), _) = golden_findings(load_artifact(root), tmp_path / "out", [], program)
    says = "the reference of hello_world.py computes another data/out/c.pt from data/in: 16376 of 16384 elements differ"
    assert (one.path, one.message) == ("data/out/c.pt", f"{says}; with that one it passes")
    assert (one.level, one.hint) == ("error", "compile the program again, which makes it anew")


@pytest.mark.parametrize(
    ("remedy", "heading", "tried"),
    [
        (True, "the cause", "tried in a copy: with this edit it passes"),
        (False, "most likely", "tried in a copy: with this edit alone it still fails"),
        (None, "the cause", "not tried"),
    ],
)
def test_what_came_of_the_proposed_edit(remedy: bool | None, heading: str, tried: str) -> None:
    """An edit that does not help makes nothing certain."""
    edit = Edit("kernels/aiv/k.cpp", 5, "TADD", "TMUL")
    instruments = Instruments({"diverge": msgspec.structs.replace(KERNEL, edits=(edit,))})
    instruments.run()
    instruments.remedy = remedy
    assert list(lines_of(instruments))[:4] == [
        f"[triage] _jit_x: mismatch; {heading}:",
        "kernels/aiv/k.cpp:5: error: computes something else [diverge/kernel]",
        "    edit kernels/aiv/k.cpp:5: TADD  ->  TMUL",
        f"    {tried}",
    ]


def test_edits_are_tried_in_a_copy(tmp_path: Path) -> None:
    project = Project(tmp_path)
    path = "kernels/aiv/plus_one.cpp"
    project.edit(path, "in[i] + 1.0f", "in[i] + 2.0f")
    text = (project.artifact / path).read_text()
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "2.0f" in one)
    artifact, scratch = load_artifact(project.artifact), tmp_path / "scratch"
    assert try_edits(artifact, [Edit(path, line, "2.0f", "1.0f")], scratch, []) is True
    assert try_edits(artifact, [Edit(path, line, "2.0f", "3.0f")], scratch, []) is False
    assert try_edits(artifact, [Edit(path, line + 1, "2.0f", "1.0f")], scratch, []) is None
    assert (project.artifact / path).read_text() == text
