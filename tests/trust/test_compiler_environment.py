"""The environment of compiler and run (6): each variable that decides is an input."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.trust.judged import RIGHT, SCALED, WRONG, agrees, copy_of_links, passes, write_compiler_proper
from tests.trust.space import Space, with_variables

CONDITIONAL = "#include <pto/pto-inst.hpp>\n#ifndef FACTOR\n#define FACTOR 2.0f\n#endif"


def evil_directory(space: Space, header: str) -> Path:
    """A directory with a header that defines the kernel's factor, and then is the header that it hides."""
    path = space.root / "evil" / header
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#define FACTOR 3.0f\n#include_next <{header}>\n", encoding="utf-8")
    return space.root / "evil"


@pytest.mark.parametrize(("variable", "header"), [("CPATH", "cstdint"), ("CPLUS_INCLUDE_PATH", "cmath")])
def test_6_precompiled_under_another_path(chain: Space, variable: str, header: str) -> None:
    """A header precompiled under a path of one workspace is not used by later workspaces."""
    chain.kernel("twice", "FACTOR * in[i]", CONDITIONAL)
    evil = evil_directory(chain, header)
    other = with_variables(chain, {variable: str(evil)})
    agrees(other)
    later = chain.fresh(chain.root.with_name("later"), chain.cache)
    passes(later)
    passes(chain)
    agrees(other)


def test_6_path_of_headers(chain: Space) -> None:
    chain.kernel("twice", SCALED, "#if __has_include(<scale_of.h>)\n#include <scale_of.h>\n#else\n" + RIGHT + "#endif")
    chain.write("evil/scale_of.h", WRONG)
    passes(chain)
    for variable in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"):
        other = with_variables(chain, {variable: f"{chain.root}/evil"})
        agrees(other)
        passes(chain)
        agrees(other)


def test_6_header_on_the_path_changes(chain: Space) -> None:
    chain.kernel("twice", SCALED, "#if __has_include(<scale_of.h>)\n#include <scale_of.h>\n#else\n" + RIGHT + "#endif")
    other = with_variables(chain, {"CPATH": f"{chain.root}/evil"})
    chain.write("evil/scale_of.h", RIGHT)
    agrees(other)
    chain.write("evil/scale_of.h", WRONG)
    agrees(other)
    (chain.root / "evil/scale_of.h").unlink()
    agrees(other)


@pytest.mark.parametrize("variable", ["COMPILER_PATH", "GCC_EXEC_PREFIX"])
def test_6_compiler_proper(chain: Space, variable: str) -> None:
    chain.kernel("twice", "FACTOR * in[i]", "#ifndef FACTOR\n#define FACTOR 2.0f\n#endif")
    tools = chain.root / "tools"
    if variable == "GCC_EXEC_PREFIX":
        real = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True).stdout
        beside = Path(real.strip()).parent
        tools = tools / beside.parent.name / beside.name
        copy_of_links(beside, tools)
        (tools / "cc1plus").unlink()
    write_compiler_proper(tools / "cc1plus", "-DFACTOR=3.0f")
    passes(chain)
    other = with_variables(chain, {variable: f"{chain.root}/tools/"})
    agrees(other)
    passes(chain)
    write_compiler_proper(tools / "cc1plus", "-DFACTOR=4.0f")
    agrees(other)


def test_6_path_of_libraries_for_the_link(chain: Space) -> None:
    chain.kernel("twice", "(factor ? factor() : 2.0f) * in[i]", 'extern "C" float factor() __attribute__((weak));')
    source = chain.write("evil/factor.cpp", 'extern "C" float factor() { return 3.0f; }\n')
    subprocess.run(["g++", "-fPIC", "-c", source, "-o", chain.root / "evil" / "factor.o"], check=True)
    for library in ("libgcc.a", "libgcc.so", "libc.so", "libm.so", "libstdc++.so"):
        chain.write(f"evil/{library}", f"INPUT({chain.root}/evil/factor.o)\n")
    passes(chain)
    other = with_variables(chain, {"LIBRARY_PATH": f"{chain.root}/evil"})
    agrees(other)
    passes(chain)
    agrees(other)


@pytest.mark.parametrize("variable", ["LD_LIBRARY_PATH", "LD_PRELOAD"])
def test_6_libraries_of_the_run(chain: Space, variable: str) -> None:
    """A kernel that finds another library under another path."""
    before = "#include <dlfcn.h>\nstatic float factor() {\n"
    before += '    void* library = dlopen("libfactor.so", RTLD_NOW);\n'
    before += '    void* found = dlsym(library ? library : RTLD_DEFAULT, "pypto_test_factor");\n'
    before += "    return found ? reinterpret_cast<float (*)()>(found)() : 2.0f;\n}"
    chain.kernel("twice", "factor() * in[i]", before)
    source = chain.write("evil/factor.cpp", 'extern "C" float pypto_test_factor() { return 3.0f; }\n')
    library = chain.root / "evil" / "libfactor.so"
    subprocess.run(["g++", "-fPIC", "-shared", source, "-o", library], check=True)
    passes(chain)
    value = str(library) if variable == "LD_PRELOAD" else str(library.parent)
    other = with_variables(chain, {variable: value})
    agrees(other)
    passes(chain)
    agrees(other)


def test_6_variable_that_a_kernel_reads(chain: Space) -> None:
    chain.kernel("twice", '(getenv("MY_FACTOR") ? 3.0f : 2.0f) * in[i]', "#include <cstdlib>")
    passes(chain)
    other = with_variables(chain, {"MY_FACTOR": "1"})
    agrees(other)
    passes(chain)


def test_6_date_of_the_compilation(chain: Space) -> None:
    """In 1970 the kernel is wrong."""
    chain.kernel("twice", "(__DATE__[7] == '1' ? 3.0f : 2.0f) * in[i]")
    passes(chain)
    other = with_variables(chain, {"SOURCE_DATE_EPOCH": "0"})
    agrees(other)
    passes(chain)
    agrees(other)


def test_6_date_of_the_precompilation(chain: Space) -> None:
    chain.kernel("twice", "(__DATE__[7] == '1' ? 3.0f : 2.0f) * in[i]", "#include <pto/pto-inst.hpp>")
    agrees(with_variables(chain, {"SOURCE_DATE_EPOCH": "0"}))
    later = chain.fresh(chain.root.with_name("later"), chain.cache)
    passes(later)
    passes(chain)


def test_6_date_of_the_source(chain: Space) -> None:
    """``__TIMESTAMP__`` is the time at which the source was saved."""
    kernel = chain.kernel("twice", "(__TIMESTAMP__[20] == '1' ? 3.0f : 2.0f) * in[i]")
    passes(chain)
    os.utime(kernel, (86400 * 200, 86400 * 200))
    assert chain.replay().outcome == chain.oracle(chain.root.with_name("oracle")).outcome
