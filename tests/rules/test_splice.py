"""Edits of ``.pto`` modules reach the kernel by content, and nothing else is built."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.rules.project import Project, Run, Saved

UNIT = "ptoas/kernel_mul.pto"
KERNEL = "kernels/aiv/kernel_mul.cpp"
SPLICED = [
    "compile kernels/aiv/kernel_mul.cpp",
    "link kernels/aiv/kernel_mul.so",
    "regenerating from ptoas/kernel_mul.pto",
    "run _jit_vector_dag",
    "spliced -> kernels/aiv/kernel_mul.cpp",
]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """The example with .pto modules, replayed once."""
    project = Project(tmp_path_factory.mktemp("splice"))
    project.use_example("_jit_vector_dag")
    run = project.replay()
    assert run.status == 0, run.output
    assert "[pto->cpp] no .pto changes detected" in run.output
    assert not [action for action in run.actions if "pto" in action]
    return Saved(project)


@pytest.fixture
def built(replayed: Saved) -> Project:
    """That workspace, for one test."""
    return replayed.repeated()


def check(run: Run, status: int, actions: list[str]) -> None:
    assert (run.status, run.actions) == (status, actions), run.output


def test_edit_and_back(built: Project) -> None:
    kernel = (built.artifact / KERNEL).read_bytes()
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    run = built.replay()
    check(run, 2, SPLICED)
    assert run.reasons["regenerating from ptoas/kernel_mul.pto"] == "not built before"
    assert "[pto->cpp] updated 1 kernel cpp(s)" in run.output
    assert built.verdict()["status"] == "mismatch"
    assert (built.artifact / KERNEL).read_bytes() == kernel
    built.edit(UNIT, "pto.tadd", "pto.tmul")
    check(
        built.replay(),
        0,
        ["restored kernels/aiv/kernel_mul.so"],
    )
    check(built.replay(), 0, [])


def test_a_spliced_kernel_gives_the_same_numbers(built: Project) -> None:
    built.edit(UNIT, "module attributes", "// reviewed\nmodule attributes")
    run = built.replay("RTOL=1e-6", "ATOL=1e-6")
    replayed = {*SPLICED[:-2], SPLICED[-1], "run _jit_vector_dag RTOL=1e-06 ATOL=1e-06"}
    assert (run.status, replayed - set(run.actions)) in [(0, set()), (0, {"link kernels/aiv/kernel_mul.so"})]
    check(built.replay("RTOL=1e-6", "ATOL=1e-6"), 0, [])


def test_touch_is_no_edit(built: Project) -> None:
    for path in (built.artifact / "ptoas").iterdir():
        os.utime(path)
    check(built.replay(), 0, [])


def test_edit_that_keeps_its_time(built: Project) -> None:
    before = (built.artifact / UNIT).stat()
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    os.utime(built.artifact / UNIT, ns=(before.st_atime_ns, before.st_mtime_ns))
    check(built.replay(), 2, SPLICED)


def test_first_look_goes_by_time(project: Project) -> None:
    project.use_example("_jit_vector_dag")
    assembled = (project.artifact / UNIT).with_suffix(".cpp").stat()
    os.utime(project.artifact / UNIT, ns=(assembled.st_atime_ns, assembled.st_mtime_ns + 5_000_000_000))
    run = project.replay()
    assert run.status == 0, run.output
    assert "regenerating from ptoas/kernel_mul.pto" in run.actions
    assert "regenerating from ptoas/kernel_add.pto" not in run.actions


def test_files_of_one_checkout_are_no_edit(project: Project) -> None:
    project.use_example("_jit_vector_dag")
    assembled = (project.artifact / UNIT).with_suffix(".cpp").stat()
    os.utime(project.artifact / UNIT, ns=(assembled.st_atime_ns, assembled.st_mtime_ns + 900_000_000))
    assert "regenerating from ptoas/kernel_mul.pto" not in project.scons("build", "JIT=_jit_vector_dag").actions


def _edited_before_the_first_look(project: Project, old: str, new: str) -> None:
    """Edit a module and give it the time of the file that was assembled from it."""
    project.use_example("_jit_vector_dag")
    assembled = (project.artifact / UNIT).with_suffix(".cpp").stat()
    project.edit(UNIT, old, new)
    os.utime(project.artifact / UNIT, ns=(assembled.st_atime_ns, assembled.st_mtime_ns))


def test_an_edited_operation_before_the_first_look(project: Project) -> None:
    """The module has another operation than what was assembled. lint knows what runs."""
    _edited_before_the_first_look(project, "pto.tmul", "pto.tadd")
    assert "not-spliced" in project.scons("lint", "JIT=_jit_vector_dag").output
    run = project.replay()
    assert run.status and "regenerating from ptoas/kernel_mul.pto" in run.actions
    assert "nothing found" in project.scons("lint", "JIT=_jit_vector_dag").output
    output = project.scons("triage", "JIT=_jit_vector_dag").output
    assert "also: ptoas/kernel_mul.pto was edited: its kernels' own bodies are not spliced" in output


def test_lint_looks_at_the_body_again_when_the_edit_is_undone(built: Project) -> None:
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    assert "regenerating from ptoas/kernel_mul.pto" in built.scons("build", "JIT=_jit_vector_dag").actions
    built.edit(UNIT, "pto.tadd", "pto.tmul")
    built.edit(KERNEL, "TMUL(", "TSUB(")
    assert "0 TMUL, and 1 TSUB, in kernels/aiv/kernel_mul.cpp" in built.scons("lint", "JIT=_jit_vector_dag").output


def test_an_edited_constant_before_the_first_look(project: Project) -> None:
    _edited_before_the_first_look(project, "arith.constant 65536", "arith.constant 131072")
    run = project.replay()
    assert run.status == 0 and "regenerating from ptoas/kernel_mul.pto" in run.actions


def test_an_artifact_compiled_anew_is_no_edit(built: Project) -> None:
    unit = (built.artifact / UNIT).with_suffix(".cpp")
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    built.edit(KERNEL, "TMUL(", "TADD(")
    unit.write_text(unit.read_text(encoding="utf-8").replace("TMUL(", "TADD("), encoding="utf-8")
    check(
        built.replay(),
        2,
        ["compile kernels/aiv/kernel_mul.cpp", "link kernels/aiv/kernel_mul.so", "run _jit_vector_dag"],
    )


def test_a_unit_of_two_kernels(project: Project) -> None:
    """A group's functions go into a file each, the whole body in both; what the edit left alone is not linked."""
    project.use_example("_jit_gemm_silu")
    assert project.scons("build", "JIT=_jit_gemm_silu").status == 0
    module = project.artifact / "ptoas/gemm_silu.pto"
    text = module.read_text(encoding="utf-8")
    assert text.count("func.func") == 2
    module.write_text(text.replace("pto.texp ", "pto.tabs "), encoding="utf-8")
    run = project.scons("build", "JIT=_jit_gemm_silu")
    check(
        run,
        0,
        [
            "compile kernels/aic/gemm_silu_aic.cpp",
            "compile kernels/aiv/gemm_silu_aiv.cpp",
            "link kernels/aiv/gemm_silu_aiv.so",
            "regenerating from ptoas/gemm_silu.pto",
            "spliced -> kernels/aic/gemm_silu_aic.cpp, kernels/aiv/gemm_silu_aiv.cpp",
        ],
    )
    assert "[pto->cpp] updated 2 kernel cpp(s)" in run.output
    for kernel in ("aic/gemm_silu_aic", "aiv/gemm_silu_aiv"):
        spliced = (project.out / f"spliced/kernels/{kernel}.cpp").read_text(encoding="utf-8")
        assert ("TABS(" in spliced, "TEXP(" in spliced) == (True, False)


def test_a_function_that_lost_its_name(built: Project) -> None:
    """Never skipped in silence: the kernel would go on with the body it had."""
    built.edit(UNIT, "@kernel_mul(", "@kernel_times(")
    run = built.replay()
    assert (run.status, run.actions) == (2, [])
    assert run.output == (
        f"scons: *** {built.artifact}/{UNIT}: no longer defines function 'kernel_mul', from which "
        f"{built.artifact}/{KERNEL} is made; restore the function's name, or compile the program again\n"
    )
    built.edit(UNIT, "@kernel_times(", "@kernel_mul(")
    check(built.replay(), 0, [])


def test_a_kernel_with_the_source_of_another_is_an_error_of_the_manifest(built: Project) -> None:
    built.edit("kernel_config.py", "kernel_mul.cpp", "kernel_add.cpp")
    run = built.replay()
    assert (run.status, run.actions) == (2, [])
    assert re.search(
        r"kernel_config\.py:\d+: kernel 'kernel_mul' has the source kernel_add\.cpp, but that file is made from "
        r"function 'kernel_add' of kernel_add\.pto; set the kernel's source to the file made from its own function\n",
        run.output,
    ), run.output


def test_a_function_that_lost_its_name_before_the_first_look(project: Project) -> None:
    """The functions in the compiler's own ``ptoas/<unit>.cpp`` show the function that a kernel was made from."""
    project.use_example("_jit_vector_dag")
    project.edit(UNIT, "@kernel_mul(", "@kernel_times(")
    run = project.replay()
    assert (run.status, run.actions) == (2, [])
    assert f"{UNIT}: no longer defines function 'kernel_mul'" in run.output


def test_a_module_that_was_away_comes_back_as_it_was(built: Project) -> None:
    """A checkout or an editor takes a file away and puts it back: neither is an edit, whatever its time."""
    text = (built.artifact / UNIT).read_bytes()
    (built.artifact / UNIT).unlink()
    check(built.replay(), 0, [])
    (built.artifact / UNIT).write_bytes(b"")
    assert "no longer defines function 'kernel_mul'" in built.replay().output
    (built.artifact / UNIT).write_bytes(text)
    check(built.replay(), 0, [])


def test_hardware_needs_ptoas_for_an_edited_module(built: Project) -> None:
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    run = built.scons("build", "JIT=_jit_vector_dag", "PLATFORM=a2a3", "HARDWARE=1", "PTOAS=own")
    assert (run.status, run.actions) == (2, [])
    assert (
        f"{built.artifact}/{UNIT}: was edited, and a2a3 needs ptoas to assemble it; set PTOAS_ROOT or PTOAS="
    ) in run.output


def test_hand_edited_body_alone_is_just_an_edit(built: Project) -> None:
    built.edit(KERNEL, "TMUL(", "TADD(")
    check(
        built.replay(),
        2,
        ["compile kernels/aiv/kernel_mul.cpp", "link kernels/aiv/kernel_mul.so", "run _jit_vector_dag"],
    )


def test_both_edited(built: Project) -> None:
    built.edit(UNIT, "pto.tmul", "pto.tsub")
    built.edit(KERNEL, "TMUL(", "TADD(")
    run = built.replay()
    check(run, 2, [])
    assert run.output == (
        f"scons: *** {built.artifact}/{UNIT}: this module and the body of {built.artifact}/{KERNEL} were both edited; "
        "choose which edit counts with PREFER=pto or PREFER=cpp\n"
    )
    run = built.replay("PREFER=cpp")
    check(run, 2, ["compile kernels/aiv/kernel_mul.cpp", "link kernels/aiv/kernel_mul.so", "run _jit_vector_dag"])
    assert f"[pto->cpp] skipped (PREFER=cpp): {UNIT}\n" in run.output
    check(built.replay("PREFER=pto"), 2, SPLICED)


def test_which_counts_is_asked_once(built: Project) -> None:
    """The choice holds, without PREFER=, until what does not count is edited once more."""
    question = "were both edited; choose which edit counts with PREFER=pto or PREFER=cpp\n"
    built.edit(UNIT, "pto.tmul", "pto.tsub")
    built.edit(KERNEL, "TMUL(", "TADD(")
    assert question in built.scons("build", "JIT=_jit_vector_dag").output
    compiled = ["compile kernels/aiv/kernel_mul.cpp", "link kernels/aiv/kernel_mul.so"]
    assert built.scons("build", "JIT=_jit_vector_dag", "PREFER=cpp").actions == compiled
    run = built.scons("build", "JIT=_jit_vector_dag")
    assert (run.status, run.actions) == (0, [])
    assert f"[pto->cpp] skipped (PREFER=cpp): {UNIT}\n" in run.output
    built.edit(KERNEL, "TADD(", "TMAX(")
    assert built.scons("build", "JIT=_jit_vector_dag").actions == compiled
    built.edit(UNIT, "pto.tsub", "pto.tmin")
    assert question in built.scons("build", "JIT=_jit_vector_dag").output
    spliced = [action for action in SPLICED if not action.startswith("run")]
    assert built.scons("build", "JIT=_jit_vector_dag", "PREFER=pto").actions == spliced
    built.edit(UNIT, "pto.tmin", "pto.tadd")
    run = built.scons("build", "JIT=_jit_vector_dag")
    relinked = "restored kernels/aiv/kernel_mul.so"  # the object is that of the edited kernel
    assert run.actions == sorted(relinked if action.startswith("link") else action for action in spliced)
    assert f"[pto->cpp] edited cpp skipped (PREFER=pto): {UNIT}\n" in run.output
    built.edit(KERNEL, "TMAX(", "TMUL(")
    assert built.scons("build", "JIT=_jit_vector_dag").actions == spliced[-1:]  # as it was made: nothing to ask
    built.edit(KERNEL, "TMUL(", "TMIN(")
    assert question in built.scons("build", "JIT=_jit_vector_dag").output


def test_prefer_without_two_edits(built: Project) -> None:
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    run = built.scons("build", "JIT=_jit_vector_dag", "PREFER=cpp")
    assert (run.status, "skipped" in run.output) == (0, False)
    assert "regenerating from ptoas/kernel_mul.pto" in run.actions


def test_a_crash_of_a_spliced_kernel_names_its_line(built: Project) -> None:
    """That of the file that was compiled; the kernel's own stays in the list for editors."""
    built.edit(
        UNIT,
        "%c1_index = arith.constant 1",
        "%far = arith.constant 99999999999 : index\n  %c1_index = arith.constant 1",
    )
    built.edit(UNIT, "%a__ssa_v0_view, offsets = [%c0_index", "%a__ssa_v0_view, offsets = [%far")
    assert built.replay().status == 2
    lines = (built.out / "spliced" / KERNEL).read_text(encoding="utf-8").splitlines()
    load = next(number for number, line in enumerate(lines, 1) if "TLOAD(" in line)
    error = built.verdict()["error"]
    assert isinstance(error, dict)
    assert error["message"].startswith("kernel 'kernel_mul' crashed at ")
    assert f"/spliced/{KERNEL}:{load}: SIGSEGV" in error["message"]
    files = [entry["file"] for entry in json.loads((built.root / "build/compile_commands.json").read_bytes())]
    assert {str(built.out / "spliced" / KERNEL), str(built.artifact / KERNEL)} <= set(files)


def test_wrapper_edit_survives_a_splice(built: Project) -> None:
    built.edit(KERNEL, "// --- Kernel entry point ---", "// --- Kernel entry point ---\n// my note")
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    assert built.replay().status == 2
    assert "// my note" in (built.out / "spliced" / KERNEL).read_text(encoding="utf-8")


def test_write_back(built: Project) -> None:
    before = (built.artifact / KERNEL).read_bytes()
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    run = built.scons("splice", "JIT=_jit_vector_dag", "WRITE=1")
    check(run, 0, ["regenerating from ptoas/kernel_mul.pto", "spliced -> kernels/aiv/kernel_mul.cpp"])
    assert f"[pto->cpp] wrote {KERNEL}, the previous one is kernel_mul.cpp.bak" in run.output
    text = (built.artifact / KERNEL).read_text(encoding="utf-8")
    assert "TADD(" in text
    assert "TMUL(" not in text
    assert (built.artifact / f"{KERNEL}.bak").read_bytes() == before
    run = built.replay()
    assert "[pto->cpp] no .pto changes detected" in run.output
    assert "regenerating from ptoas/kernel_mul.pto" not in run.actions
    assert run.status == 2


def test_failed_assembly_leaves_everything_and_is_tried_again(built: Project) -> None:
    built.edit(UNIT, "pto.tmul", "pto.tmull")
    for _ in range(2):
        run = built.replay()
        check(run, 2, ["regenerating from ptoas/kernel_mul.pto"])
        assert f"{UNIT}:18:3: unknown operation 'pto.tmull'; did you mean pto.tmul?" in run.output
        assert not (built.out / "spliced").exists() or not list((built.out / "spliced").rglob("*.cpp"))
    assert built.verdict()["status"] == "build_error"
    built.edit(UNIT, "pto.tmull", "pto.tmul")
    check(built.replay(), 0, [])


def stand_in(path: Path, version: str = "1.0") -> Path:
    """A program that takes ptoas' command line, notes it, and lets our assembler do the work."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "stand-in {version}" && exit 0\n'
        f'echo "$4 $5 $6 $7" > {path}.flags.$$\n'
        f'exec {sys.executable} -m pypto_build.pto.assemble "$1" --platform a2a3sim -o "$3"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def test_ptoas_gets_its_flags_and_is_part_of_the_key(built: Project, tmp_path: Path) -> None:
    program = stand_in(tmp_path / "tools" / "bin" / "ptoas")
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    environment = {"PTOAS_ROOT": str(tmp_path / "tools")}
    run = built.scons("replay", "JIT=_jit_vector_dag", env=environment)
    check(run, 2, SPLICED)
    (flags,) = program.parent.glob("ptoas.flags.*")
    assert flags.read_text(encoding="utf-8") == "--enable-insert-sync --pto-level=level3 --pto-arch a3\n"
    stand_in(program, "2.0")
    run = built.scons("replay", "JIT=_jit_vector_dag", env=environment)
    assert run.reasons["regenerating from ptoas/kernel_mul.pto"] == "the assembler changed"
    noted = set(program.parent.glob("ptoas.flags.*"))
    assert len(noted) == 2
    built.scons("build", "JIT=_jit_vector_dag", "PLATFORM=a5sim", "PTOAS=own", env=environment)
    assert set(program.parent.glob("ptoas.flags.*")) == noted


@pytest.mark.parametrize(
    "words, environment, message",
    [
        (
            ["PTOAS=no-such-ptoas"],
            {},
            (
                "PTOAS=no-such-ptoas: no such program; name the ptoas executable, or use PTOAS=own "
                "for the built-in assembler"
            ),
        ),
        (
            [],
            {"PTOAS_ROOT": "/nowhere"},
            "PTOAS_ROOT=/nowhere: contains none of ptoas, ptoas.sh, bin/ptoas; "
            "correct the path, or use PTOAS=own for the built-in assembler",
        ),
    ],
)
def test_missing_assembler_is_an_error(
    built: Project, words: list[str], environment: dict[str, str], message: str
) -> None:
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    run = built.scons("replay", "JIT=_jit_vector_dag", *words, env=environment)
    assert (run.status, run.output) == (2, f"scons: *** {message}\n")


def test_pto_diff(built: Project) -> None:
    shutil.copytree(built.artifact, built.artifact.with_name("_jit_other"))
    run = built.scons("pto_diff", "JIT=_jit_vector_dag", "OTHER=_jit_other")
    assert (run.status, run.output) == (0, "3 modules, nothing differs\n")
    run = built.scons("pto_diff", "JIT=_jit_vector_dag", "OTHER=_jit_othe")
    assert run.output.startswith("scons: *** OTHER=_jit_othe: no such artifact in ")
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    run = built.scons("pto_diff", "JIT=_jit_vector_dag", "OTHER=_jit_other")
    assert run.status == 0, run.output
    assert "pto.tadd" in run.output
    assert "pto.tmul" in run.output
    built.edit(KERNEL, "TMUL(", "TADD(")  # a question for a build, none for a look at the modules
    assert built.scons("pto_diff", "JIT=_jit_vector_dag", "OTHER=_jit_other").output == run.output
    run = built.scons("pto_diff", "JIT=_jit_vector_dag")
    assert run.output.endswith(
        "scons: *** OTHER=: 'scons pto_diff' compares two artifacts; name the second artifact with OTHER=\n"
    )


SHIFT = "ptoas/kernel_shift.pto"
SHIFT_SPLICED = [
    "compile kernels/aiv/kernel_shift.cpp",
    "link kernels/aiv/kernel_shift.so",
    "regenerating from ptoas/kernel_shift.pto",
    "run _jit_vector_dag",
    "spliced -> kernels/aiv/kernel_shift.cpp",
]


def forwarded(project: Project) -> str:
    """The call of the kernel function in the spliced file."""
    text = (project.out / "spliced/kernels/aiv/kernel_shift.cpp").read_text(encoding="utf-8")
    return text.partition("// Forward to ptoas-generated function\n")[2].split("\n")[0].strip()


def test_function_that_drops_an_argument_gets_a_new_entry(built: Project) -> None:
    """Without steps, both shifts are by alpha: the run differs from the golden, and runs."""
    built.edit(SHIFT, ", %arg3: i32)", ")")
    built.edit(SHIFT, "  %0 = arith.sitofp %arg3 : i32 to f32\n", "")
    built.edit(SHIFT, "%1 = arith.mulf %arg2, %0 : f32", "%1 = arith.addf %arg2, %arg2 : f32")
    run = built.replay()
    check(run, 2, SHIFT_SPLICED)
    assert "[pto->cpp]   kernel_shift takes other arguments than before: kernel_entry is generated again" in run.output
    assert forwarded(built) == "kernel_shift(x, out, alpha);"


def test_function_that_swaps_arguments_gets_a_new_entry(built: Project) -> None:
    built.edit(SHIFT, "%arg2: f32, %arg3: i32)", "%arg3: index, %arg2: f32)")
    built.edit(SHIFT, "%0 = arith.sitofp %arg3 : i32 to f32", "%i = arith.index_cast %arg3 : index to i32\n"
               "  %0 = arith.sitofp %i : i32 to f32")  # fmt: skip
    run = built.replay()
    # the compiler may make the same object of it, which is then not linked
    assert (run.status, [a for a in run.actions if a.split()[0] not in ("link", "run")]) == (
        0,
        [a for a in SHIFT_SPLICED if a.split()[0] not in ("link", "run")],
    ), run.output
    assert forwarded(built) == "kernel_shift(x, out, steps, alpha);"


def test_new_argument_that_the_orchestration_passes(built: Project) -> None:
    """Orchestration and module gain a tensor; the signed manifest says so though the artifact's own does not."""
    built.edit("orchestration/vector_dag.cpp", "params_t1.add_output(d);",
               "params_t1.add_output(d);\n        params_t1.add_input(ext_b);")  # fmt: skip
    built.edit("orchestration/vector_dag.cpp", "params_t2.add_output(e);",
               "params_t2.add_output(e);\n        params_t2.add_input(ext_b);")  # fmt: skip
    built.edit(SHIFT, "%arg2: f32, %arg3: i32)", "%arg2: f32, %arg3: i32, %more: !pto.ptr<f32>)")
    run = built.replay()
    assert run.status == 0, run.output
    assert forwarded(built) == "kernel_shift(x, out, alpha, steps, more);"
    text = (built.out / "spliced/kernels/aiv/kernel_shift.cpp").read_text(encoding="utf-8")
    assert "more_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[2]);" in text
    assert "alpha_conv.u64 = args[3];" in text
    kernels = json.loads((built.out / "interface.json").read_bytes())["kernels"]
    assert [kernel["signature"] for kernel in kernels if kernel["name"] == "kernel_shift"] == [["IN", "OUT", "IN"]]


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (
            "%arg2: f32, %arg3: i32, %w: !pto.ptr<f32>)",
            "argument 4 (%w: !pto.ptr<f32>) has no value: the orchestration passes 2 tensors and 2 scalars",
        ),
        (
            "%arg2: i32, %arg3: i32)",
            "argument 2 (%arg2: i32) no longer fits: kernel_entry passes float alpha, which the orchestration decides",
        ),
    ],
)
def test_argument_without_a_value_is_named(built: Project, new: str, message: str) -> None:
    built.edit(SHIFT, "%arg2: f32, %arg3: i32)", new)
    if "%arg2: i32" in new:
        built.edit(SHIFT, "%1 = arith.mulf %arg2, %0 : f32", "%q = arith.sitofp %arg2 : i32 to f32\n"
                   "  %1 = arith.mulf %q, %0 : f32")  # fmt: skip
    run = built.replay()
    assert run.status == 2
    assert f"error: {built.artifact}/{SHIFT}:2:3: func.func @kernel_shift: {message}\n" in run.output
    assert not (built.out / "spliced/kernels/aiv/kernel_shift.cpp").exists()


def test_older_backups_are_never_overwritten(built: Project) -> None:
    original = (built.artifact / KERNEL).read_bytes()
    built.edit(UNIT, "pto.tmul", "pto.tadd")
    built.scons("splice", "JIT=_jit_vector_dag", "WRITE=1")
    added = (built.artifact / KERNEL).read_bytes()
    built.edit(UNIT, "pto.tadd", "pto.tsub")
    run = built.scons("splice", "JIT=_jit_vector_dag", "WRITE=1")
    assert f"[pto->cpp] wrote {KERNEL}, the previous one is kernel_mul.cpp.bak2\n" in run.output
    assert (built.artifact / f"{KERNEL}.bak").read_bytes() == original
    assert (built.artifact / f"{KERNEL}.bak2").read_bytes() == added
