"""`step` walks through one kernel run, forward and back, and shows what memory held beside what PyTorch has."""

from __future__ import annotations

import asyncio
import html
import os
import re
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pypto_build.diagnose.diverge.lockstep import Limits
from pypto_build.diagnose.step.__main__ import main, parser
from pypto_build.diagnose.step.face import page, recorded
from pypto_build.diagnose.step.record import compile_kernel, instrument
from pypto_build.diagnose.step.session import Session
from pypto_build.diagnose.step.terminal import StepApp
from tests.diagnose.browser import Browser, find_browser
from tests.diagnose.checked import EXAMPLES, build_checked, copy_example
from tests.replay.builder import build_artifact, embedded_module

_MUL = "kernels/aiv/kernel_mul.cpp"
_SUM_FOR_PRODUCT = ((_MUL, "TMUL(v17, v7, v13);", "TADD(v17, v7, v13);"),)


def step(artifact: Path, out: Path, *words: str) -> int:
    """Build and step; the exit status."""
    build_artifact(artifact, out)
    build_checked(artifact, out)
    return main([str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), *words])


def stepped(
    name: str,
    directory: Path,
    capsys: pytest.CaptureFixture[str],
    *words: str,
    edits: Iterable[tuple[str, str, str]] = (),
) -> list[str]:
    """Return the output for an example."""
    status = step(copy_example(name, directory, edits), directory / "out", *words)
    output = capsys.readouterr()
    assert (status, output.err) == (0, "")
    return output.out.splitlines()


def part(lines: list[str], command: str) -> list[str]:
    """Return the output of one command of a script."""
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
        "  first wrong [0, 0]: 3.05416, PyTorch 1.76948; 16382 of 16384 differ by up to 33.9911",
    ]
    assert "  ptoas/kernel_mul.pto:18  pto.tmul ins(%ta__ssa_v0, %tb__ssa_v0) outs(%t__ssa_v0)" in part(lines, "where")
    assert "  the module has pto.tmul here" in part(lines, "where")
    # v7 and v17 are one place: the sum lies over its operand
    assert part(lines, "tile src0")[0] == "src0 v7  UB 0x0  128x128 float32  after #4 TADD#1"
    assert part(lines, "tile src0")[1].startswith("  first wrong [0, 0]: ")
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
    difference, _, module, *_ = part(lines, "wrong")[1:]
    assert difference.startswith("  first wrong [0, 0]: ") and "texp" in module
    values, expected = (line.split() for line in part(lines, "print v17[0, 0:3]")[-2:])
    assert expected[0] == "PyTorch" and all(value.endswith("!") for value in values[1:])
    assert part(lines, "print out[0, 0:1]")[1].startswith("  first wrong [0, 0]: ")


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
        (("--task", "9"), "the run submits no TASK=9; its tasks are 0 to 4"),
        (("--task", "x"), "TASK=x is not a task number; give one such as TASK=3"),
        (("--task", "3", "--block", "2"), "BLOCK=2: task 3 has only 1 block; leave out BLOCK="),
        (("--task", "3", "--export", "dot"), "EXPORT=dot: is not supported by this tool; use html"),
        (("--task", "3", "--kernel", "aic"), "task 3 has no kernel 'aic'; its kernels are aiv0 kernel_mul"),
        (("--task", "3", "--at", "70"), "line 70 executes nothing; the nearest line that executes something is 67"),
        (("--task", "3", "--at", "TMUL#2"), "TMUL#2 does not exist; there is 1"),
        (("--task", "3", "--script", "jump"), "'jump': 'jump' is not a command; the commands are next, "
         "back, goto, wrong, where, list, print, tile, tiles, scalars, flags, pipes, kernel, help"),
        (("--task", "3", "--script", "print v99"), (
            "'print v99': 'v99' is not a tile, tensor or scalar at "
            "this step; the names here"
        )),
        (("--task", "3", "--script", "print v7[0, 200]"), "'print v7[0, 200]': [0, 200]: 200 is not within 0 to 127"),
        (("--task", "3", "--script", "flags 3"), "'flags 3': 'flags' takes no argument '3'; leave the argument out"),
    ],
)  # fmt: skip
def test_what_it_cannot_do(
    words: tuple[str, ...], says: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path_factory.mktemp("step")
    assert step(copy_example("_jit_vector_dag", directory), directory / "out", *words) == 2
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
    counts = [line.count("PYPTO_VARIABLE") for line in made.text.splitlines()]
    assert counts == [1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0]
    assert "x += i; PYPTO_VARIABLE(x);" in made.text and "{ PYPTO_VARIABLE(i);" in made.text
    assert (made.parameters, made.loops) == ({"f": ["a"]}, {"f": ["i"]})


def session_of(directory: Path, edits: Iterable[tuple[str, str, str]] = _SUM_FOR_PRODUCT) -> Session:
    """A recording of task 3 of vector_dag, with one wrong instruction."""
    artifact, out = copy_example("_jit_vector_dag", directory, edits), directory / "out"
    build_artifact(artifact, out)
    build_checked(artifact, out)
    words = ["--build-dir", str(out), "--embedded", str(embedded_module()), "--task", "3"]
    return Session(recorded(parser().parse_args([str(artifact), *words])), Limits(None, None))


def test_the_terminal(tmp_path: Path) -> None:
    """Keys move, the cursor does, commands are typed; the picture is what textual draws."""
    session = session_of(tmp_path)

    async def walk() -> None:
        app = StepApp(session)
        async with app.run_test(size=(150, 40)) as pilot:
            await pilot.press("n", "n")
            assert session.at == 2
            await pilot.press("w")
            assert session.step.label == "TADD#1" and app.shown[1].startswith("  first wrong [0, 0]: ")
            await pilot.press("d")
            assert app.shown[0] == "dst v17  UB 0x0  128x128 float32  after #4 TADD#1"
            await pilot.press("up")
            assert session.at == 3
            await pilot.press("colon", *"goto v13", "enter", "escape")
            assert session.step.label == "TLOAD#2"
            await pilot.press("colon", *"jump", "enter")
            assert app.shown[0].startswith("'jump' is not a command")
            picture = app.export_screenshot()
            assert "TLOAD" in picture and "kernel_mul" in picture
            if keep := os.environ.get("PYPTO_BUILD_TEST_PICTURES"):
                Path(keep, "step.svg").write_text(picture)

    asyncio.run(walk())


def test_a_terminal_of_80_columns_and_24_rows_shows_what_matters(tmp_path: Path) -> None:
    """The marked lines of both sources and the difference are folded, not cut; a command has its answer in sight."""
    session = session_of(tmp_path)

    async def walk() -> None:
        app = StepApp(session)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("w")
            await pilot.pause()
            seen = _screen(app)
            for line in (
                session.now.source[session.step.line - 1],
                "pto.tmul ins(%ta__ssa_v0, %tb__ssa_v0) outs(%t__ssa_v0)",
                "first wrong [0, 0]: 3.05416, PyTorch 1.76948; 16382 of 16384 differ by up to",
                "the module has pto.tmul here",
                "src1 v13",
            ):
                assert "".join(line.split()) in seen, line
            await pilot.press("d")
            await pilot.pause()
            seen = _screen(app)
            for line in (app.shown[0], *app.shown[3:6]):
                assert "".join(line.split())[:40] in seen, line
            assert app.shown[4].startswith("  PyTorch")
            await pilot.press("up")
            await pilot.pause()
            assert "PyTorch" not in _screen(app)

    asyncio.run(walk())


def _screen(app: StepApp) -> str:
    """Return what can be seen of it, without blanks and frames."""
    rows = re.findall(r">([^<>]*)</text>", app.export_screenshot(), re.DOTALL)
    return re.sub(r"[\s─-▟]", "", html.unescape("".join(rows)))


def test_no_textual(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("pypto_build.artifact.errors.find_spec", lambda name: None if name == "textual" else name)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert main(["x", "--build-dir", "y", "--embedded", "z", "--task", "3"]) == 2
    says = "needs textual, which is not installed; pip install 'pypto-build[step]', or give commands with SCRIPT="
    assert capsys.readouterr().err == f"step: a terminal of steps: {says}\n"


@pytest.mark.skipif(find_browser() is None, reason="no Chromium here")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_the_page(width: int, dark: bool, tmp_path: Path) -> None:
    """It begins at the first wrong step, and buttons, keys and clicks move; nothing is wider than the window."""
    path = tmp_path / "step.html"
    path.write_text(page(session_of(tmp_path)))
    with Browser(tmp_path / "profile") as browser:
        browser.open(path, width=width, dark=dark)
        where = "document.getElementById('position').textContent"
        assert browser.run(where).startswith("#4 of 9  TADD#1 on V")
        assert "differs from PyTorch" in browser.run("document.getElementById('shown').textContent")
        assert "TADD(v17, v7, v13)" in browser.run("document.querySelector('pre .here').textContent")
        if keep := os.environ.get("PYPTO_BUILD_TEST_PICTURES"):
            browser.screenshot(Path(keep, f"step-{width}-{'dark' if dark else 'light'}.png"))
        browser.run("document.getElementById('back').click()")
        assert browser.run(where).startswith("#3 ")
        browser.press("n")
        browser.press("n")
        assert browser.run(where).startswith("#5 ")
        browser.run("document.querySelectorAll('li')[7].click()")
        assert "TSTORE#1" in browser.run(where)
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.errors == []


def test_parameters_of_every_type_have_their_names() -> None:
    """`__gm__` is a macro, which no parser of C++ knows."""
    made = instrument("__aicore__ void f(__gm__ bfloat16_t* a, __gm__ half* b, __gm__ float* c, int d) { int e = 0; }")
    assert made.parameters == {"f": ["a", "b", "c", "d"]}
    assert made.text.partition("{")[2] == (
        " PYPTO_VARIABLE(a); PYPTO_VARIABLE(b); PYPTO_VARIABLE(c); PYPTO_VARIABLE(d); int e = 0; PYPTO_VARIABLE(e); }"
    )


@pytest.mark.parametrize(
    "name, kernel", [("_jit_gemm_silu", "aic/gemm_silu_aic"), ("_jit_rms_norm", "aiv/rms_norm_rows")]
)
def test_kernels_with_bfloat16_parameters_compile(name: str, kernel: str, tmp_path: Path) -> None:
    source = EXAMPLES / name / f"kernels/{kernel}.cpp"
    text = source.read_text(encoding="utf-8")
    made = compile_kernel(source, kernel.partition("/")[0], "a2a3sim", tmp_path / "kernel.so")
    assert "__gm__ bfloat16_t*" in text and (tmp_path / "kernel.so").is_file()
    assert [len(names) for names in made.parameters.values()]


def test_scratch_is_not_wrong_in_a_kernel_that_passes(tmp_path: Path) -> None:
    artifact, out = copy_example("_jit_softmax", tmp_path), tmp_path / "out"
    build_artifact(artifact, out)
    build_checked(artifact, out)
    words = ["--build-dir", str(out), "--embedded", str(embedded_module()), "--task", "0"]
    session = Session(recorded(parser().parse_args([str(artifact), *words])), Limits(None, None))
    checked = 0
    for step in session.now.steps:
        for operand in session.now.operands(step):
            if operand.role.startswith("tmp") and operand.tile:
                contents = session.now.tile(operand.tile.operand, step.number)
                assert not session.now.wrong(contents).any()
                checked += 1
    assert checked and session.now.parting is None
