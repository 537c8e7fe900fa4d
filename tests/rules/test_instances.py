"""Kernels only call: bodies of instructions are compiled once for all, and compute the same as a kernel's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import pypto_build
from pypto_build.toolchain.elf import read_elf
from pypto_build.toolchain.host import find_compiler
from tests.rules.project import Project, Run

ADD = "kernels/aiv/kernel_add"
pytestmark = pytest.mark.skipif(find_compiler().family != "g++", reason="only g++ leaves instances out")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache that has what every build begins with, and no instance."""
    project = Project(tmp_path_factory.mktemp("prepared") / "here")
    project.use_example("_jit_vector_dag")
    assert build(project).status == 0
    shutil.rmtree(project.root / "cache" / "instructions")
    return project.root / "cache"


@pytest.fixture
def dag(project: Project, prepared: Path) -> Project:
    """The artifact of three kernels that load, compute and store; nothing of it has been compiled before."""
    project.use_example("_jit_vector_dag")
    shutil.copytree(prepared, project.root / "cache", symlinks=True)
    return project


def build(project: Project, *words: str, cache: Path | None = None) -> Run:
    """Build one kernel in a cache of its own."""
    env = {"PYPTO_BUILD_CACHE": str(cache or project.root / "cache")}
    return project.scons(str(project.out / f"{ADD}.so"), f"JIT={project.artifact.name}", *words, env=env)


def instances(project: Project) -> list[Path]:
    return sorted((project.root / "cache" / "instructions").glob("*/*.o"))


def own(project: Project, kernel: str = ADD) -> set[str]:
    """The instances of ours that an object has."""
    return {name for name in read_elf(project.out / f"{kernel}.o").defined if "pto6detail3map" in name}


def test_an_instance_is_compiled_once(dag: Project) -> None:
    run = build(dag)
    assert run.status == 0, run.output
    assert "[instructions] compiles 4 instruction templates, once for these compiler flags\n" in run.output
    assert own(dag) == set()
    first = {path: path.stat().st_mtime_ns for path in instances(dag)}
    assert len(first) == 4
    dag.edit(f"{ADD}.cpp", "TADD(v17, v7, v13)", "TSUB(v17, v7, v13)")
    run = build(dag)
    assert run.actions == [f"compile {ADD}.cpp", f"link {ADD}.so"]
    assert "[instructions] compiles 1 instruction templates, once for these compiler flags\n" in run.output
    assert {path: path.stat().st_mtime_ns for path in instances(dag) if path in first} == first
    dag.edit(f"{ADD}.cpp", "TSUB(v17, v7, v13)", "TSUB(v17, v13, v7)")
    run = build(dag)
    assert "[instructions]" not in run.output


def test_no_build_with_nothing_changed(dag: Project) -> None:
    build(dag)
    assert build(dag).actions == []
    shutil.rmtree(dag.root / "cache" / "instructions")
    assert build(dag).actions == []


@pytest.mark.parametrize("damage", ["", "not an object", "neighbour"])
def test_a_damaged_instance_is_compiled_again(dag: Project, damage: str) -> None:
    build(dag)
    library = (dag.out / f"{ADD}.so").read_bytes()
    first, *_, last = instances(dag)
    first.write_bytes(last.read_bytes() if damage == "neighbour" else damage.encode())
    (dag.out / f"{ADD}.so").unlink()
    assert build(dag, "STORE_SIZE=0").actions == [f"link {ADD}.so"]
    assert (dag.out / f"{ADD}.so").read_bytes() == library


@pytest.mark.parametrize(
    "name", ["_jit_rms_norm", "_jit_gemm_silu", "_jit_matmul", "_jit_softmax", "_jit_gemm_silu_lanes"]
)
def test_a_kernel_computes_the_same_with_instances_of_its_own(project: Project, name: str) -> None:
    project.use_example(name)
    assert project.replay().status == 0
    called = {path.name: path.read_bytes() for path in (project.out / "actual").iterdir()}
    objects = sorted(project.out.glob("kernels/*/*.o"))
    assert [
        path for path in objects if b"map" in b"".join(n.encode() for n in read_elf(path).defined if "pto6" in n)
    ] == []
    assert project.replay("KERNEL_FLAGS=-DUNUSED").status == 0
    assert {path.name: path.read_bytes() for path in (project.out / "actual").iterdir()} == called


def test_templates_of_the_users_are_compiled_with_the_kernel(dag: Project) -> None:
    helper = "template <class T> __attribute__((noinline)) T helped(T value) { return value; }\n"
    dag.edit(f"{ADD}.cpp", "static __aicore__ void kernel_add", f"{helper}static __aicore__ void kernel_add")
    dag.edit(f"{ADD}.cpp", "const int64_t v4 = 128;", "const int64_t v4 = helped(int64_t(128));")
    assert dag.replay().status == 0
    assert own(dag) != set()


_HARMLESS = """#pragma once
#include <algorithm>
namespace mine {
namespace detail { constexpr int rows = 128; }
template <class T> inline __attribute__((always_inline)) T helped(T value) { return std::max(value, T(detail::rows)); }
}
#define ROWS mine::helped(int64_t(128))
"""


def test_a_header_of_the_users_that_changes_nothing_of_ours_costs_no_instance(dag: Project) -> None:
    header = f"{dag.artifact.relative_to(dag.root)}/kernels/aiv/mine.h"
    dag.write(header, _HARMLESS)
    dag.edit(f"{ADD}.cpp", "using namespace pto;", '#include "mine.h"\nusing namespace pto;')
    dag.edit(f"{ADD}.cpp", "const int64_t v4 = 128;", "const int64_t v4 = ROWS;")
    assert "[instructions] compiles 4 instruction templates, once for these compiler flags\n" in build(dag).output
    assert own(dag) == set()
    dag.write(header, f"{_HARMLESS}namespace pto::detail {{}}\n")
    run = build(dag)
    assert (run.actions, bool(own(dag))) == ([f"compile {ADD}.cpp", f"link {ADD}.so"], True)
    dag.write(header, f"{_HARMLESS}inline int also() {{ return 1; }}\n")
    run = build(dag)
    assert (run.actions, own(dag)) == ([f"compile {ADD}.cpp", f"restored {ADD}.so"], set())
    assert "[instructions]" not in run.output
    assert dag.replay().status == 0


MEANINGS = {
    "overload": "namespace pto::detail { inline float helped(float x) { return x; } }",
    "specialisation": "template <> struct pto::detail::FunctionOf<pto::detail::Add, double> { using type = void; };",
    "header of the user's": '#include "mine.h"',
    "header by a macro": '#define NAME "mine.h"\n#include NAME',
    "header by a digraph": '%:include "mine.h"',
    "pragma": '#pragma GCC optimize("O3")',
    "continued": '#inc\\\nlude "mine.h"',
}


@pytest.mark.parametrize("meaning", sorted(MEANINGS))
def test_what_may_give_templates_another_meaning_has_instances_of_its_own(dag: Project, meaning: str) -> None:
    base = dag.artifact.relative_to(dag.root)
    dag.write(f"{base}/kernels/aiv/mine.h", "namespace pto::detail {}\n")
    dag.edit(f"{ADD}.cpp", "using namespace pto;", f"{MEANINGS[meaning]}\nusing namespace pto;")
    run = build(dag)
    assert run.status == 0, run.output
    assert "[instructions]" not in run.output
    assert own(dag) != set()


def test_a_kernel_that_redefines_something_first_has_instances_of_its_own(dag: Project) -> None:
    dag.edit(f"{ADD}.cpp", "#include <pto/pto-inst.hpp>", "#define UNHEARD 1\n#include <pto/pto-inst.hpp>")
    run = build(dag)
    assert run.status == 0
    assert "[instructions]" not in run.output
    assert own(dag) != set()


def test_what_is_wrong_in_a_body_is_said_of_the_kernel(dag: Project) -> None:
    """The message has the line of the kernel, for an error in the kernel's own text or in an instruction's body."""
    dag.edit(f"{ADD}.cpp", "TADD(v17, v7, v13);", "TADD(v17, v7, v11);")
    run = build(dag)
    assert run.status == 2
    assert "kernels/aiv/kernel_add.cpp" in run.output


def test_another_processor_has_instances_of_its_own(dag: Project) -> None:
    build(dag)
    count = len(instances(dag))
    run = build(dag, "ARCH=x86-64-v2" if find_compiler() and _is_x86() else "ARCH=armv8.2-a")
    assert f"link {ADD}.so" in run.actions
    assert len(instances(dag)) == 2 * count


def _is_x86() -> bool:
    from platform import machine

    return machine() in ("x86_64", "AMD64")


def test_another_copy_of_the_tool_finds_what_this_one_built(dag: Project) -> None:
    store = {"PYPTO_BUILD_STORE": str(dag.root / "store")}
    replay = ("replay", f"JIT={dag.artifact.name}")
    assert dag.scons(*replay, env=store).status == 0
    copy = dag.root / "elsewhere"
    shutil.copytree(
        Path(pypto_build.__file__).parent, copy / "pypto_build", ignore=shutil.ignore_patterns("__pycache__")
    )
    run = dag.scons(*replay, env={**store, "PYTHONPATH": str(copy)})
    assert (run.status, [line for line in run.actions if line.startswith(("compile", "link"))]) == (0, [])
