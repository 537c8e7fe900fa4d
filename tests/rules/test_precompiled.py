"""Precompiled main headers: built once, shared, and nothing depends on them but time."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.rules.units import begins_with
from pypto_build.toolchain.host import find_compiler
from tests.rules.project import Project, Run

KERNEL = "kernels/aiv/twice"
LINE = "[headers] precompile {}, once for these flags"
pytestmark = pytest.mark.skipif(find_compiler().family != "g++", reason="only g++ falls back on a header's text")


@pytest.fixture
def cache(project: Project) -> dict[str, str]:
    """A cache without precompiled headers; one kernel and the orchestration include a main header."""
    project.edit(f"{KERNEL}.cpp", '#include "tensor.h"', '#include <pto/pto-inst.hpp>\n#include "tensor.h"')
    return {"PYPTO_BUILD_CACHE": str(project.root / "cache")}


def build(project: Project, cache: dict[str, str], *words: str) -> Run:
    run = project.scons(str(project.out / f"{KERNEL}.so"), f"JIT={project.artifact.name}", *words, env=cache)
    assert run.status == 0, run.output
    return run


def precompiled(project: Project) -> list[Path]:
    return sorted((project.root / "cache" / "headers").glob("*/*.gch"))


def test_once_for_each_set_of_flags(project: Project, cache: dict[str, str]) -> None:
    assert LINE.format("pto/pto-inst.hpp") in build(project, cache).output
    (first,) = precompiled(project)
    project.edit(f"{KERNEL}.cpp", "2.0f", "3.0f")
    run = build(project, cache, "VERBOSE=1")
    assert "[headers]" not in run.output
    assert f"g++ -include {first.with_suffix('')} " in run.output
    assert "[headers]" in build(project, cache, "KERNEL_FLAGS=-DMORE").output
    assert len(precompiled(project)) == 2
    project.edit(f"{KERNEL}.cpp", "#include <pto/pto-inst.hpp>\n", "")
    assert "-include" not in build(project, cache, "VERBOSE=1").output


def test_once_for_all_workspaces(
    project: Project, cache: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.mktemp("shared")
    cache = {"PYPTO_BUILD_CACHE": str(shared / "cache")}
    assert "[headers]" in build(project, cache).output
    (header,) = (shared / "cache" / "headers").glob("*/*.gch")
    begun = header.stat().st_mtime_ns
    other = Project(shared / "workspace")
    other.edit(f"{KERNEL}.cpp", '#include "tensor.h"', '#include <pto/pto-inst.hpp>\n#include "tensor.h"')
    other.edit(f"{KERNEL}.cpp", "2.0f", "3.0f")
    run = build(other, cache, "VERBOSE=1")
    assert "[headers]" not in run.output
    assert f"g++ -include {header.with_suffix('')} " in run.output
    assert header.stat().st_mtime_ns == begun


def test_same_object_without_and_no_rebuild(project: Project, cache: dict[str, str]) -> None:
    build(project, cache)
    built = (project.out / f"{KERNEL}.o").read_bytes()
    (header,) = precompiled(project)
    header.unlink()
    assert build(project, cache).actions == []
    header.write_bytes(b"not a precompiled header")
    (project.out / f"{KERNEL}.o").unlink()
    (project.out / f"{KERNEL}.so").unlink()
    assert build(project, cache, "STORE_SIZE=0").actions == [f"compile {KERNEL}.cpp", f"link {KERNEL}.so"]
    assert (project.out / f"{KERNEL}.o").read_bytes() == built


def test_bad_flags_are_the_kernels_error(project: Project, cache: dict[str, str]) -> None:
    words = (str(project.out / f"{KERNEL}.so"), f"JIT={project.artifact.name}", "KERNEL_FLAGS=-fnonsense")
    for _ in range(2):
        run = project.quiet(*words, env=cache)
        assert run.status == 2
        assert run.output.count("-fnonsense") == 1
        assert f"{KERNEL}.o] Error 1" in run.output
    assert precompiled(project) == []


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('#include "pto/pto-inst.hpp"\n', True),
        ('#include <stdint.h>\n#include "pto/pto-inst.hpp"  // a remark\n', True),
        ('#include "pto/pto-inst.hpp" //\n', True),
        ('#include "pto/pto-inst.hpp"  // a remark that goes on \\\nint x;\n', False),
        ('#include "pto/pto-inst.hpp" /* a remark */\n', False),
        ('int x;\n#include "pto/pto-inst.hpp"  // a remark\n', False),
    ],
)
def test_which_sources_begin_with_the_header(tmp_path: Path, text: str, first: bool) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text(text)
    assert begins_with(source, "pto/pto-inst.hpp") is first
