"""`step` walks through one kernel run, forward and back, and shows what memory held beside what PyTorch has."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from pypto_build.diagnose.step.__main__ import main
from pypto_build.diagnose.step.variables import instrument
from tests.diagnose.checked import build_checked, copy_example
from tests.replay.builder import build_artifact, embedded_module

_MUL = "kernels/aiv/kernel_mul.cpp"
_SUM_FOR_PRODUCT = ((_MUL, "TMUL(v17, v7, v13);", "TADD(v17, v7, v13);"),)


def step(artifact: Path, out: Path, *words: str) -> int:
    """Build and step; the exit status."""
    build_artifact(artifact, out)
    build_checked(artifact, out)
    return main([str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), *words])


def stepped(
    name: str, place: Path, capsys: pytest.CaptureFixture[str], *words: str, edits: Iterable[tuple[str, str, str]] = ()
) -> list[str]:
    """What is printed for an example."""
    status = step(copy_example(name, place, edits), place / "out", *words)
    said = capsys.readouterr()
    assert (status, said.err) == (0, "")
    return said.out.splitlines()


def part(lines: list[str], command: str) -> list[str]:
    """What one command of a script printed."""
    begin = lines.index(f"(step) {command}") + 1
    rest = lines[begin:]
    end = next((i for i, line in enumerate(rest) if line.startswith("(step) ")), len(rest))
    return rest[:end]


def test_forward_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "next 4; where; tile src0; tile src0 before; back 3; print v13[0, 0:2]; flags; goto last; flags; pipes"
    lines = stepped("_jit_vector_dag", tmp_path, capsys, "--task", "3", "--script", script, edits=_SUM_FOR_PRODUCT)
    line = "> #4    TADD#1            V     kernel_mul.cpp:61        TADD(v17, v7, v13);   <-- 16382 elements differ"
    assert part(lines, "where")[:2] == [
        line,
        "  ptoas/kernel_mul.pto:18  pto.tmul ins(%ta__ssa_v0, %tb__ssa_v0) outs(%t__ssa_v0)",
    ]
    assert "  the module has pto.tmul here" in part(lines, "where")
    # v7 and v17 are one place: the sum lies over its operand
    assert part(lines, "tile src0")[0] == "src0 v7  UB 0x0  128x128 float32  after #4 TADD#1"
    assert "elements differ from PyTorch" in part(lines, "tile src0")[1]
    assert part(lines, "tile src0 before")[1] == "  as in PyTorch"
    assert part(lines, "back 3")[0].startswith("> #1    TLOAD#2           MTE2  kernel_mul.cpp:56")
    assert part(lines, "print v13[0, 0:2]")[1] == "  as in PyTorch"
    flags = [lines[i + 1] for i, text in enumerate(lines) if text == "(step) flags"]
    assert flags[0] == "  no flag has been set yet"
    assert flags[1].endswith("EVENT_ID0  set at #2 (line 59), waited for at #3 (line 60)")
    assert "  MTE3  1 instruction, the last #7 TSTORE#1 (line 67); ordered after MTE2 up to #1, V up to #4" in part(
        lines, "pipes"
    )


def test_the_first_instruction_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong one far from the end, then what it leaves in the output; the inputs are those the task had."""
    edits = (("kernels/aiv/softmax_rows.cpp", "TEXP(v17, v16);", "TABS(v17, v16);"),)
    script = "wrong; print v17[0, 0:3]; goto TSTORE#1; print out[0, 0:1]"
    lines = stepped("_jit_softmax", tmp_path, capsys, "--task", "0", "--script", script, edits=edits)
    assert part(lines, "wrong")[0].split()[:3] == [">", "#7", "TABS#1"]
    assert "texp" in part(lines, "wrong")[1]
    values, expected = (line.split() for line in part(lines, "print v17[0, 0:3]")[-2:])
    assert expected[0] == "PyTorch" and all(value.endswith("!") for value in values[1:])
    assert "elements differ from PyTorch" in part(lines, "print out[0, 0:1]")[1]


def test_loops_have_their_scalars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The loop of a matrix product: which round it is, in the kernel and in PyTorch."""
    script = "goto TEXTRACT#1; next; scalars; goto TEXTRACT#3; next; scalars"
    lines = stepped("_jit_matmul", tmp_path, capsys, "--task", "0", "--script", script)
    rounds = [line for line in lines if line.startswith("  v19 = ")]
    assert [line.partition(",")[0] for line in rounds] == ["  v19 = 0", "  v19 = 128"]
    assert all("in PyTorch" in line and "differs" not in line for line in rounds)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--task", "9"), "TASK=9 is not submitted; the run has tasks 0 to 4"),
        (("--task", "x"), "TASK=x is no task's number; give one, such as TASK=3"),
        (("--task", "3", "--block", "2"), "BLOCK=2: task 3 has 1 blocks; give 0 to 0"),
        (("--task", "3", "--export", "dot"), "EXPORT=dot: is for another tool; here it is html"),
        (("--task", "3", "--kernel", "aic"), "task 3 has no kernel 'aic'; it has aiv0 kernel_mul"),
        (("--task", "3", "--at", "70"), "nothing is executed at line 70; the nearest is 67"),
        (("--task", "3", "--at", "TMUL#2"), "there is no TMUL#2; there are 1"),
        (("--task", "3", "--script", "jump"), "'jump': 'jump' is no command; there are next, back, goto, wrong, where, "
         "list, print, tile, tiles, scalars, flags, pipes, kernel, help"),
        (("--task", "3", "--script", "print v99"), "'print v99': 'v99' is no tile, tensor or scalar here; there are"),
        (("--task", "3", "--script", "print v7[0, 200]"), "'print v7[0, 200]': [0, 200]: 200 is outside of 0 to 127"),
        (("--task", "3", "--script", "flags 3"), "'flags 3': 'flags' takes no '3'; leave it out"),
    ],
)  # fmt: skip
def test_what_it_cannot_do(
    words: tuple[str, ...], says: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path_factory.mktemp("step")
    assert step(copy_example("_jit_vector_dag", place), place / "out", *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"step: {says}")


def test_a_kernel_keeps_its_lines_and_tells_its_variables() -> None:
    text = """void f(int a) {
  int x = 1, y;
  static int s = 2;
  for (int i = 0; i < a; ++i) {
    x += i;
    if (x) y = 2;
  }
  TASSIGN(tile, x);
}
constexpr int g(int b) { int z = b; return z; }
int outside = 3;
"""
    made = instrument(text)
    assert made.text.count("\n") == text.count("\n")
    told = [line.count("PYPTO_VARIABLE") for line in made.text.splitlines()]
    assert told == [1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0]
    assert "x += i; PYPTO_VARIABLE(x);" in made.text and "{ PYPTO_VARIABLE(i);" in made.text
    assert (made.parameters, made.loops) == ({"f": ["a"]}, {"f": ["i"]})
