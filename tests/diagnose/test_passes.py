"""Dumps of passes: what each changed, the first after which a check fails, in the forms of both compilers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.compiler.driver import compile_file
from pypto_build.diagnose.findings import Finding, read_report
from pypto_build.diagnose.passes.__main__ import main
from tests.diagnose.corpus import Bug
from tests.diagnose.corpus.passes import BUGS, CLEAN

EXAMPLES = Path(__file__).parents[2] / "examples"


def write(root: Path, files: dict[str, str]) -> Path:
    """Files below a directory."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def planted(bug: Bug) -> dict[str, str]:
    """The dumps with a bug, which stays in from its pass on."""
    ((file, old, new),) = bug.edits
    if not old:
        return CLEAN | {file: new}
    assert old in CLEAN[file]
    return {name: text.replace(old, new) if name >= file else text for name, text in CLEAN.items()}


def passes(root: Path, *more: str) -> tuple[int, tuple[Finding, ...]]:
    """The exit status and the findings."""
    status = main([str(root), "--json", str(root / "found.json"), *more])
    return status, read_report(root / "found.json").findings


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug(bug: Bug, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(tmp_path, planted(bug))
    status, (finding,) = passes(root)
    assert (status, finding.rule, finding.path) == (1, bug.rule, bug.file)
    lines = (root / bug.file).read_text().splitlines()
    assert finding.line == next(number for number, text in enumerate(lines, 1) if bug.at in text)
    assert bug.says in finding.message
    first = f"[passes] the first pass after which a check fails: {Path(bug.file).stem}\n"
    assert (first in capsys.readouterr().out) == (finding.level == "error" and bug.file in CLEAN)


def test_what_each_pass_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = '{"stages": [{"name": "passes", "children": [{"name": "InitMemRef", "seconds": 0.0125}]}]}'
    root = write(tmp_path, {**CLEAN, "report/pipeline_profile.json": profile})
    assert passes(root) == (0, ())
    assert capsys.readouterr().out.splitlines() == [
        "    pass                  ms  changed",
        "02  InitMemRef          12.5  double_rows +4 -4",
        "03  MemoryReuse               double_rows +1 -1",
        "04  AllocateMemoryAddr        double_rows +3 -3",
        "1 of 4 passes changed nothing",
        "[passes] the compilation ended after pass 04 AllocateMemoryAddr, so there is no kernel_config.py",
        f"[passes] {tmp_path.name}: nothing found",
    ]


def test_one_pass_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(tmp_path, CLEAN)
    assert main([str(root), "--pass", "MemoryReuse"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "pass 03 MemoryReuse: double_rows +1 -1",
        "--- 02_after_InitMemRef.py double_rows",
        "+++ 03_after_MemoryReuse.py double_rows",
        "@@ -9,5 +9,5 @@",
    ]
    assert [line[0] for line in lines[4:]] == [" ", " ", "-", "+", " ", " "]
    assert main([str(root), "--pass", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_hints_are_notes_at_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hint = "[perf_hint PH001] Tile: rows of 64 bytes; recommended more. at /src/program.py:12:9\n"
    (finding,) = passes(write(tmp_path, {**CLEAN, "report/perf_hints.log": hint}))[1]
    assert (finding.rule, finding.level, finding.position) == ("passes/PH001", "note", "/src/program.py:12")


_DUMPED = {
    **dict.fromkeys(("gemm_eltwise", "paged_attention", "relax", "flash_attention", "hello_world", "matmul"), ""),
    "distributed/dist_experts": "next_levels/layer",
    "distributed/dist_feed_forward": "next_levels/feed_forward",
}


@pytest.mark.parametrize(("name", "chip"), _DUMPED.items())
def test_dumps_of_this_compiler(name: str, chip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = compile_file(str(EXAMPLES / f"{name}.py"), tmp_path, "a2a3sim", dump_passes=True).files
    write(tmp_path, {file: text for file, text in texts.items() if "passes_dump/" in file})
    assert passes(tmp_path / chip) == (0, ())
    assert "of 7 passes changed nothing" in capsys.readouterr().out


def test_a_dump_of_this_compiler_is_python_in_the_form_of_pypto(tmp_path: Path) -> None:
    texts = compile_file(str(EXAMPLES / "relax.py"), tmp_path, "a2a3sim", dump_passes=True).files
    lines = [line.strip() for line in texts["passes_dump/03_after_infer_types.py"].splitlines()]
    assert lines[-15:-9] == [
        "for _, (last__iter_v1, i__iter_v0,) in pl.while_(init_values=(last__ssa_v0, 0,)):",
        "tmp0__ssa_v0: BOOL = pl.s.lt(i__iter_v0, 8, dtype=INDEX)",
        "if tmp0__ssa_v0:",
        "tmp1__ssa_v0: INT32 = pl.read(active__ssa_v0, [i__iter_v0])",
        "chosen0__ssa_v0: BOOL = pl.s.gt(tmp1__ssa_v0, 0, dtype=INT32)",
        "chosen0__phi_v1: BOOL = pl.yield_(chosen0__ssa_v0)",
    ]
    assert lines[-3:] == [
        "last__rv_v3: Task",
        "i__rv_v2: INDEX",
        "last__rv_v3, i__rv_v2 = pl.yield_(last__ssa_v2, i__ssa_v1)",
    ]


def test_a_listing_of_this_compiler_is_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = compile_file(str(EXAMPLES / "gemm_eltwise.py"), tmp_path, "a2a3sim", dump_passes=True).files
    last = "passes_dump/07_after_plan_addresses.py"
    text = texts[last].replace("vec] @ 12288", "vec] @ 8192")
    assert text != texts[last]
    write(tmp_path, {file: text for file, text in texts.items() if file.startswith("passes_dump/")} | {last: text})
    status, (finding,) = passes(tmp_path)
    assert (status, finding.rule, finding.kernel) == (1, "passes/overlap", "gemm_silu_aiv")
    assert "'tmp3__ssa_v0' lies on 'tmp0_0__ssa_v0'" in finding.message
    assert "split into gemm_silu_aic, gemm_silu_aiv" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--pass", "InitMemref"], "PASS=InitMemref: no such pass; did you mean InitMemRef?"),
        (["--pass", "99"], "PASS=99: no such pass; use a number from 0 to 4, or the name of a pass"),
        (["--kernel", "double_row"], "KERNEL=double_row: no dump has this function; did you mean double_rows?"),
    ],
)
def test_nothing_by_that_name(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(write(tmp_path, CLEAN)), *flags]) == 2
    assert capsys.readouterr().err == f"passes: {message}\n"


def test_no_dumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"passes: {tmp_path / 'passes_dump'}: contains no dump of a pass; "
        "compile with DUMP_PASSES=1 (PyPTO: dump_passes=True)\n"
    )
