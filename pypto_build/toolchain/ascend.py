"""Command lines for hardware: kernels by the toolkit's ``ccec`` and ``ld.lld``, orchestrations for the device's CPU.

Everything comes from the toolkit in ``ASCEND_HOME_PATH`` and from simpler's and pto-isa's headers. A kernel is loaded
as bare machine code, so its ``.text`` is taken out of the linked file and checked (``toolchain.elf``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pypto_build.facts import places
from pypto_build.facts.platforms import HOST_GRAPH, Platform
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.host import SOURCE, TARGET, Recipe, ToolStep, UnitRecipe
from pypto_build.toolchain.programs import identify
from pypto_build.toolchain.python import own_tool
from pypto_build.toolchain.simpler import (
    LINK_FLAGS,
    ORCHESTRATION_FLAGS,
    VARIABLES,
    host_orchestration,
    orchestration_recipe,
)
from pypto_build.toolchain.simpler_tree import SimplerTree

VARIABLE = "ASCEND_HOME_PATH"
_PROGRAMS = ("bin/ccec", "bin/ld.lld", "tools/hcc/bin/aarch64-target-linux-gnu-g++")

_KERNEL_FLAGS = ("-O3", "-g", "-x", "cce", "-Wall", "-std=c++17", "--cce-aicore-only")
_LLVM_FLAGS = (
    "-cce-aicore-stack-size=0x8000",
    "-cce-aicore-function-stack-size=0x8000",
    "-cce-aicore-record-overflow=false",
    "-cce-aicore-addr-transform",
    "-cce-aicore-dcci-insert-for-scalar=false",
)
_A5_LLVM_FLAGS = ("-cce-vf-aa-between-iters=true",)
_ARCH = {"a2a3": "dav-c220", "a5": "dav-c310"}
_CORE = {"aiv": "vec", "aic": "cube"}


class AscendToolkit(NamedTuple):
    """The programs of a toolkit."""

    ccec: Path
    linker: Path
    device_cxx: Path


def find_toolkit(platform: Platform, environment: Mapping[str, str]) -> AscendToolkit:
    """Return the toolkit of ``ASCEND_HOME_PATH``.

    Raises:
        ToolchainError: the variable is not set, or a program is missing; names which.
    """
    way_out = f"or replay with PLATFORM={platform.name}sim"
    home = environment.get(VARIABLE)
    if not home:
        raise ToolchainError(
            f"PLATFORM={platform.name}: the variable {VARIABLE} is not set; set it to the toolkit's "
            f"directory, {way_out}"
        )
    toolkit = AscendToolkit(*(Path(home, program) for program in _PROGRAMS))
    for program in toolkit:
        if not program.is_file():
            has = program.relative_to(home)
            raise ToolchainError(
                f"PLATFORM={platform.name}: {program} does not exist; set {VARIABLE} to a toolkit "
                f"that has {has}, {way_out}"
            )
    return toolkit


def kernel_flags(platform: Platform, core_type: str) -> tuple[str, ...]:
    """Return the flags of ``ccec`` for a kernel."""
    llvm = _LLVM_FLAGS + (_A5_LLVM_FLAGS if platform.arch == "a5" else ())
    arch = f"--cce-aicore-arch={_ARCH[platform.arch]}-{_CORE[core_type]}"
    return (*_KERNEL_FLAGS, arch, *(word for flag in llvm for word in ("-mllvm", flag)), "-DMEMORY_BASE")


def hardware_recipe(toolkit: AscendToolkit, tree: SimplerTree, platform: Platform, runtime: str) -> Recipe:
    """Return the recipe for ``platform``, a hardware platform."""
    ccec, linker = str(toolkit.ccec), str(toolkit.linker)
    identity = f"{identify(ccec)} {identify(linker)} {tree.root} {tree.isa}"
    extract = (*own_tool("pypto_build.toolchain.extract_text"), SOURCE, TARGET)
    steps = (
        ToolStep("link   ", ".elf", (linker, "-e", "kernel_entry", "-o", TARGET, SOURCE)),
        ToolStep("extract", ".bin", extract, python=True),
    )
    kernels = {
        core_type: UnitRecipe(
            identity=identity,
            compiler=(ccec, *kernel_flags(platform, core_type)),
            include_dirs=tree.kernel_includes(platform, runtime),
            steps=steps,
            naming=places.OLD_FLAG,
            named=tree.named,
            variables=VARIABLES,
        )
        for core_type in _CORE
    }
    return {**kernels, "orchestration": _orchestration(toolkit, tree, platform, runtime)}


def _orchestration(toolkit: AscendToolkit, tree: SimplerTree, platform: Platform, runtime: str) -> UnitRecipe:
    """Return the recipe of an orchestration. A graph built on the host is compiled for the host, any other for the
    device's CPU.
    """
    if runtime == HOST_GRAPH:
        return host_orchestration(tree, platform, runtime)
    compiler = str(toolkit.device_cxx)
    return orchestration_recipe(
        (compiler, *ORCHESTRATION_FLAGS, "-fno-gnu-unique"),
        identify(compiler),
        LINK_FLAGS,
        tree.orchestration_includes(platform, runtime),
        tree.orchestration_sources(platform, runtime, host=False),
        tree.named,
        naming=places.OLD_FLAG,
    )
