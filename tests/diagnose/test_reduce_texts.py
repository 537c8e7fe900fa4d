"""`reduce` on failures that are in one text: what does not compile, a golden that raises, a wrong orchestration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pypto_build.diagnose.reduce import BEFORE_A_RUN, by_itself, work
from pypto_build.diagnose.reduce.__main__ import main
from pypto_build.diagnose.reduce.by_itself import TextSearch, Ways, fewer_lines, fewer_statements
from pypto_build.diagnose.reduce.judge import Log
from pypto_build.facts.verbs import VERBS
from tests.diagnose.checked import copy_example
from tests.replay.builder import build_artifact, embedded_module, replay


@pytest.fixture(autouse=True)
def _by_ourselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs are tested by themselves, and C-Vise where a test puts it."""
    monkeypatch.setattr(work, "packed", lambda options, root: ("", ""))
    monkeypatch.setattr(by_itself, "has_cvise", lambda: False)


def reduce(artifact: Path, directory: Path, *words: str) -> int:
    """Reduce into `directory` what is built there; the exit status."""
    out = directory / "out" / artifact.name
    fixed = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--output", str(directory)]
    return main([*fixed, "--jobs", "2", *words])


def signed(artifact: Path, directory: Path) -> None:
    """interface.json alone, which is there before anything compiles."""
    from pypto_build.artifact import load_artifact
    from pypto_build.artifact.files import write_bytes
    from pypto_build.artifact.interface import encode_interface, sign

    interface = sign(load_artifact(artifact)).interface
    write_bytes(directory / "out" / artifact.name / "interface.json", encode_interface(interface))


def text_search(tmp_path: Path, holds: Callable[[str], bool]) -> TextSearch:
    return TextSearch(lambda text: "same" if holds(text) else "other", "same", Log(tmp_path / "log"), 3, str)


@pytest.mark.parametrize(
    ("text", "needed", "ways", "left"),
    [
        ("a\nb\nc\nd\ne\nf\n", ("b", "f"), fewer_lines, "b\nf\n"),
        ("if (x) {\n  keep();\n  go();\n}\n", ("keep",), fewer_lines, "  keep();\n"),
        ("int f() {\n}\nint g() {\n}\n", ("g()",), fewer_lines, "int g() {\n}\n"),
        ("import os\n\n\ndef f(x):\n    y = 1\n    raise ValueError(x)\n\n\nf(3)\n", ("raise", "f(3)"),
         fewer_statements,
         "def f(x):\n    raise ValueError(x)\nf(3)\n"),
        ("class A:\n    x = 1\n    y = 2\n", ("class A",), fewer_statements, "class A:\n    pass\n"),
        ("try:\n    f()\nexcept E:\n    g()\n    h()\n", ("except", "h()"), fewer_statements,
         "try:\n    pass\nexcept E:\n    h()\n"),
    ],
)  # fmt: skip
def test_a_text_becomes_what_is_needed(
    text: str, needed: tuple[str, ...], ways: Ways, left: str, tmp_path: Path
) -> None:
    def holds(candidate: str) -> bool:
        balanced = candidate.count("{") == candidate.count("}") if ways is fewer_lines else True
        if ways is fewer_statements:
            compile(candidate, "candidate", "exec")  # each of them is Python
        return balanced and all(word in candidate for word in needed)

    search = text_search(tmp_path, holds)
    assert search.reduced(text, ways) == left
    again = text_search(tmp_path, lambda _: pytest.fail("it is in the log"))
    assert again.reduced(text, ways) == left and again.remembered > 0


def test_the_rules_build_nothing_for_what_does_not_build() -> None:
    verb = VERBS["reduce"]
    assert verb.unbuilt == BEFORE_A_RUN
    for keep, builds in (("build_error:add", False), ("golden_error", False), ("mismatch:f", True), ("crash", True)):
        assert (verb.adapted_to({"KEEP": keep}) is verb) == builds


_KERNEL = """#include <cstdint>

// What it computes is of no matter.
static int twice(int x) {
    return 2 * x;
}

extern "C" void kernel_entry(int64_t* args) {
    int y = twice(int(args[0]));
    if (y > 2) {
        nobody_knows(y);
    }
}
"""


def with_kernel(tmp_path: Path, text: str) -> Path:
    """vector_dag with another text for a kernel, and all that is there before it is compiled."""
    artifact = copy_example("_jit_vector_dag", tmp_path)
    (artifact / "kernels/aiv/kernel_mul.cpp").write_text(text)
    signed(artifact, tmp_path)
    return artifact


@pytest.mark.parametrize("keep", ["build_error", "build_error:kernel_mul"])
def test_a_build_error(keep: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = with_kernel(tmp_path, _KERNEL)
    assert reduce(artifact, tmp_path, "--keep", keep) == 0
    text = (tmp_path / "_jit_vector_dag_reduced/kernels/aiv/kernel_mul.cpp").read_text()
    assert "nobody_knows(y);" in text and not any(word in text for word in ("return", "if (", "//"))
    output = capsys.readouterr().out
    assert "kernel_mul: \u2018nobody_knows\u2019 was not declared in this scope" in output
    assert "built, it has the same error" in output


def test_what_compiles_is_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = copy_example("_jit_vector_dag", tmp_path)
    signed(artifact, tmp_path)
    assert reduce(artifact, tmp_path, "--keep", "build_error:kernel_add") == 2
    assert reduce(artifact, tmp_path, "--keep", "build_error:nothing") == 2
    assert reduce(artifact, tmp_path, "--keep", "golden_error") == 2
    one, two, three = capsys.readouterr().err.splitlines()
    assert one == "reduce: KEEP=build_error:kernel_add: 'kernel_add' compiles; name the failure to keep with KEEP="
    assert two.startswith(
        "reduce: KEEP=build_error:nothing: the artifact has no kernel 'nothing'; its kernels are kernel_add, "
    )
    assert three.endswith("golden.py: no such file; KEEP=golden_error needs a golden.py that fails")


_GOLDEN = '''"""The golden of x."""

import torch

__outputs__ = ["f"]
SCALE = 2.0


def make_inputs():
    unused = [i for i in range(10)]
    return {"a": torch.ones(3, 4), "b": torch.ones(4, 4)}


def generate_inputs(params):
    return {**make_inputs(), "f": torch.zeros(3, 4)}


def helper(a, b):
    return a * SCALE, b


def compute_golden(tensors, params):
    a, b = helper(tensors["a"], tensors["b"])
    if SCALE > 1:
        tensors["f"][:] = a + b
    else:
        tensors["f"][:] = a
'''


def test_a_golden_that_raises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of three and four: the sizes stay, and with them the message; the rest goes."""
    artifact = copy_example("_jit_vector_dag", tmp_path)
    for path in (artifact / "data").rglob("*.pt"):
        path.unlink()
    (artifact / "golden.py").write_text(_GOLDEN)
    signed(artifact, tmp_path)
    assert reduce(artifact, tmp_path, "--keep", "golden_error") == 0
    output = capsys.readouterr().out
    assert "RuntimeError: The size of tensor a (3) must match the size of tensor b (4)" in output
    text = (tmp_path / "_jit_vector_dag_reduced/golden.py").read_text()
    assert "a + b" in text and "unused" not in text and "else" not in text and "__outputs__" not in text
    assert not (artifact / "data/in/a.pt").exists()  # the artifact's own directory is left as it was


def some_lines(lines: list[str]) -> Iterator[list[str]]:
    """Fewer trials than people's time is worth: four lines each."""
    yield from ([*lines[:at], *lines[at + 4 :]] for at in range(len(lines) - 4, -1, -4))


_TOO_MANY = [
    ("orchestration/spmd_scale.cpp", "        params_t0.add_output(ext_y);", """
        for (int i = 0; i < 80; ++i) params_t0.add_input(ext_x);
        params_t0.add_output(ext_y);"""),
]  # fmt: skip


def test_a_fault_of_an_orchestration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(work, "fewer_lines", some_lines)
    artifact = copy_example("_jit_spmd_scale", tmp_path, _TOO_MANY)
    build_artifact(artifact, tmp_path / "out" / artifact.name)
    assert reduce(artifact, tmp_path, "--keep", "crash") == 0
    assert "orchestration: crash " in capsys.readouterr().out
    root = tmp_path / "_jit_spmd_scale_reduced"
    text = (root / "orchestration/spmd_scale.cpp").read_text()
    assert "i < 80" in text and "#include <stdio.h>" not in text
    build_artifact(root, tmp_path / "again")
    first = replay(artifact, tmp_path / "out" / artifact.name).verdict.error
    error = replay(root, tmp_path / "again").verdict.error
    assert error is not None and first is not None and (error.kind, error.code) == (first.kind, first.code)


def test_a_wrong_orchestration_beside_a_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """d for c in the last task: what the right one has gone without, the wrong one has too."""
    monkeypatch.setattr(work, "fewer_lines", some_lines)
    (tmp_path / "good").mkdir()
    good = copy_example("_jit_vector_dag", tmp_path / "good")
    edits = [("orchestration/vector_dag.cpp", "params_t4.add_input(c);", "params_t4.add_input(d);")]
    artifact = copy_example("_jit_vector_dag", tmp_path, edits)
    build_artifact(artifact, tmp_path / "out" / artifact.name)
    assert reduce(artifact, tmp_path, "--keep", "mismatch:f", "--against", str(good)) == 0
    assert "the kernels are right: reducing the orchestration" in capsys.readouterr().out
    root = tmp_path / "_jit_vector_dag_reduced"
    text = (root / "orchestration/vector_dag.cpp").read_text()
    assert "params_t4.add_input(d);" in text and "params_t4.add_input(c);" not in text
    before = (artifact / "orchestration/vector_dag.cpp").read_text()
    assert len(text.splitlines()) < len(before.splitlines())
    build_artifact(root, tmp_path / "again")
    (output,) = replay(root, tmp_path / "again").verdict.outputs
    assert output.status == "mismatch" and all(isinstance(one.expected, float) for one in output.first)


def test_cvise_goes_on_where_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stand-in that asks once about a text in which a name is shorter, which is what deleting lines cannot do."""
    tool = tmp_path / "bin/cvise"
    tool.parent.mkdir()
    tool.write_text(
        "#!/bin/sh\nshift 4\nmkdir try\nsed 's/kernel_mul_of_two/k/g' $2 > try/$2\n"
        "(cd try && $1) && cp try/$2 $2\nexit 0\n"
    )
    tool.chmod(0o755)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    artifact = with_kernel(tmp_path, 'extern "C" void f() { int kernel_mul_of_two = nobody_knows(0); }\n')
    assert reduce(artifact, tmp_path, "--keep", "build_error") == 0
    assert "lines, cvise:" in capsys.readouterr().out
    text = (tmp_path / "_jit_vector_dag_reduced/kernels/aiv/kernel_mul.cpp").read_text()
    assert "int k = nobody_knows(0);" in text


def test_by_scons(tmp_path: Path) -> None:
    """The whole way: nothing is built first, since that is what fails."""
    import sys

    artifact = with_kernel(tmp_path, _KERNEL)
    words = [sys.executable, "-m", "pypto_build.cli", "reduce", str(artifact), "--keep", "build_error:kernel_mul"]
    run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "scons build JIT=build_output/_jit_vector_dag_reduced" in run.stdout
