"""simpler's command lines for its simulator: headers of simpler and pto-isa, compilers, flags.

Kernels go through the compiler called ``g++-15`` (C++23), orchestrations through ``g++`` with sources of simpler's.
"""

from __future__ import annotations

from pathlib import Path

from pypto_build.facts import places
from pypto_build.facts.platforms import Platform
from pypto_build.toolchain.host import SOURCE, TARGET, Recipe, ToolStep, UnitRecipe
from pypto_build.toolchain.programs import find_program
from pypto_build.toolchain.simpler_tree import SimplerTree

#: Prefixes of the variables that simpler and toolkits read.
VARIABLES = ("ASCEND_", "SIMPLER_")
KERNEL_COMPILER, HOST_COMPILER = "g++-15", "g++"

_SHARED = ("-shared", "-O2", "-fPIC")
_KERNEL_FLAGS = (
    "-O2",
    "-fPIC",
    "-std=c++23",
    "-fpermissive",
    "-Wno-macro-redefined",
    "-Wno-attributes",  # PyPTO writes always_inline without inline
    "-Wno-ignored-attributes",
    "-D__CPU_SIM",
    "-DPTO_CPU_MAX_THREADS=1",
    "-DNDEBUG",
)
_CORE_MACRO = {"aiv": "-D__DAV_VEC__", "aic": "-D__DAV_CUBE__"}
ORCHESTRATION_FLAGS = ("-fPIC", "-O3", "-g", "-std=c++17")
LINK_FLAGS = ("-Wl,--build-id=sha1",)


def simulator_recipe(tree: SimplerTree, platform: Platform, runtime: str) -> Recipe:
    """Return the recipe for ``platform``, a simulated platform. Raises `ToolchainError` if a compiler is missing."""
    compiler, identity = find_program(KERNEL_COMPILER, "simpler compiles kernels for its simulator with it")
    kernels = {
        core_type: UnitRecipe(
            identity=f"{identity} {tree.root} {tree.isa}",
            compiler=(compiler, *_KERNEL_FLAGS, macro),
            include_dirs=tree.kernel_includes(platform, runtime),
            steps=(ToolStep("link   ", ".so", (compiler, *_SHARED, SOURCE, "-o", TARGET)),),
            named=tree.named,
            variables=VARIABLES,
        )
        for core_type, macro in _CORE_MACRO.items()
    }
    return {**kernels, "orchestration": host_orchestration(tree, platform, runtime)}


def host_orchestration(tree: SimplerTree, platform: Platform, runtime: str) -> UnitRecipe:
    """Return the recipe of an orchestration that runs on this machine."""
    compiler, identity = find_program(HOST_COMPILER, "simpler compiles orchestrations with it")
    gcc_only = () if "clang" in identity.lower() else ("-fno-gnu-unique",)
    return orchestration_recipe(
        (compiler, *ORCHESTRATION_FLAGS, *gcc_only),
        identity,
        (*LINK_FLAGS, "-pthread"),
        tree.orchestration_includes(platform, runtime),
        tree.orchestration_sources(platform, runtime, host=True),
        tree.named,
    )


def orchestration_recipe(
    compiler: tuple[str, ...],
    identity: str,
    link_flags: tuple[str, ...],
    include_dirs: tuple[Path, ...],
    sources: tuple[Path, ...],
    named: tuple[tuple[Path, str], ...],
    naming: str = places.FLAG,
) -> UnitRecipe:
    """Return the recipe that compiles an orchestration to an object and links it with ``sources`` of simpler's."""
    dirs = [f"-I{directory}" for directory in include_dirs]
    link = (*compiler, "-shared", *link_flags, SOURCE, *map(str, sources), *dirs, "-o", TARGET)
    steps = (ToolStep("link   ", ".so", link),)
    return UnitRecipe(
        identity, compiler, include_dirs, steps, also=sources, naming=naming, named=named, variables=VARIABLES
    )
