"""`scons hazards` and `scons flaky` from the command line: the classic case found, explained, fixed by its own edit."""

from __future__ import annotations

from pathlib import Path

from tests.rules.project import Project

ORCHESTRATION = "orchestration/vector_dag.cpp"
ROUND_TRIP = (
    "TSTORE(v20, v17);\n  pipe_barrier(PIPE_ALL);\n  TLOAD(v7, v20);\n  pipe_barrier(PIPE_ALL);\n  TSTORE(v20, v7);"
)


def test_round_trip_through_global_memory(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.use_example("_jit_vector_dag")
    project.edit("kernels/aiv/kernel_mul.cpp", "TSTORE(v20, v17);", ROUND_TRIP)
    run = project.scons("hazards", "JIT=_jit_vector_dag")
    assert run.status == 2  # of SCons, for any action that failed
    assert (
        f"{ORCHESTRATION}:73: error: task 3 kernel_mul reads 'g' (TLOAD), after it has written it: a round trip "
        "through global memory, but declares it add_output(g), so the task does not wait for tasks that write "
        "these bytes [hazards/read-output]" in run.output
    )
    assert "kernels/aiv/kernel_mul.cpp:69: TLOAD accesses the bytes here" in run.output
    edit = f"edit {ORCHESTRATION}:73: params_t3.add_output(g);  ->  params_t3.add_inout(g);"
    assert edit in run.output
    assert "[hazards] _jit_vector_dag: 1 error" in run.output
    project.edit(ORCHESTRATION, "params_t3.add_output(g);", "params_t3.add_inout(g);")
    run = project.scons("hazards", "JIT=_jit_vector_dag")
    assert run.status == 0
    assert "[hazards] _jit_vector_dag: nothing found" in run.output
    run = project.scons("flaky", "JIT=_jit_vector_dag", "ROUNDS=3")
    assert run.status == 0
    assert "[flaky] 3 orders of 5 tasks\n[flaky] _jit_vector_dag: nothing found" in run.output


def test_the_same_round_trip_on_memory_as_the_hardware_has_it(tmp_path: Path) -> None:
    """Declared as it is, it is right wherever memory is one; on the device, and here, it wants a fence."""
    kernel, load = "kernels/aiv/kernel_mul.cpp", "TLOAD(v7, v20);"
    project = Project(tmp_path)
    project.use_example("_jit_vector_dag")
    project.edit(kernel, "TSTORE(v20, v17);", ROUND_TRIP)
    project.edit(ORCHESTRATION, "params_t3.add_output(g);", "params_t3.add_inout(g);")
    weak = ("JIT=_jit_vector_dag", "MEMORY=weak")
    assert project.scons("replay", *weak[:1]).status == 0
    run = project.scons("replay", *weak)
    assert run.status == 2
    assert "Output(s) does not match golden: ['f']" in run.output
    run = project.scons("hazards", *weak)
    assert run.status == 2
    assert f"{kernel}:69: error: task 3 kernel_mul: TLOAD loads bytes 0 to 65536 of 'g'" in run.output
    fenced = f"pipe_barrier(PIPE_MTE3); dsb(DSB_DDR); {load}"
    assert f"edit {kernel}:69: {load}  ->  {fenced}" in run.output
    project.edit(kernel, load, f"{fenced} __atomic_thread_fence(__ATOMIC_SEQ_CST);")
    run = project.scons("hazards", *weak)
    assert "[hazards] _jit_vector_dag: nothing found" in run.output
    assert "warning" not in run.output  # of a compiler that does not instrument a host's fence
    assert project.scons("replay", *weak).status == 0
    refused = project.scons("replay", *weak, "CHECK=1")
    assert refused.status == 2
    assert "CHECK=1 MEMORY=weak: need two different builds of the kernels; leave out one of the two" in refused.output
    assert "MEMORY=weak: has no effect with RUNTIME=torch" in project.scons("replay", *weak, "RUNTIME=torch").output


def test_checked_replay_ends_at_the_first_error(tmp_path: Path) -> None:
    """The line number comes from a program that gets the library's path, which has special characters here."""
    project = Project(tmp_path / "it's ;false")
    project.use_example("_jit_softmax")
    project.edit("kernels/aiv/softmax_rows.cpp", "  TROWMAX(v15, v7, v13);\n", "")
    run = project.scons("replay", "JIT=_jit_softmax", "CHECK=1")
    assert run.status != 0
    assert (
        "TROWEXPANDSUB: reads a tile at UB 0x20000 of the 64x1 tile at 0x20000, which nothing in this kernel has "
        "written" in run.output
    )
    assert "softmax_rows.cpp:62)" in run.output


def test_a_checked_run_names_the_line_of_this_machine(tmp_path: Path) -> None:
    kernel = "kernels/aiv/kernel_mul.cpp"
    project = Project(tmp_path)
    project.use_example("_jit_vector_dag")
    text = (project.artifact / kernel).read_text()
    number = next(number for number, line in enumerate(text.splitlines(), 1) if "TMUL(" in line)
    project.edit(kernel, "TLOAD(", "if (v3 == 0) TLOAD(")
    run = project.scons("replay", "JIT=_jit_vector_dag", "CHECK=1")
    assert run.status == 2
    assert f"nothing in this kernel has written ({project.artifact / kernel}:{number})" in run.output, run.output
