"""Chooses the recipe that makes an artifact's binaries, by platform and variant."""

from __future__ import annotations

import os
import shlex

from pypto_build.facts.platforms import Platform
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.variants import FOR_SIMPLER, VARIANTS
from pypto_build.toolchain.host import Recipe, host_recipe


def recipe_of(workspace: Workspace, platform: Platform, variant: str, runtime: str) -> Recipe:
    """The recipe of an artifact's units. ``runtime`` is simpler's runtime that the artifact was compiled for.

    Raises:
        ToolchainError: a compiler, a toolkit or simpler is missing.
    """
    if not platform.simulated:
        from pypto_build.toolchain.ascend import find_toolkit, hardware_recipe

        toolkit = find_toolkit(platform, os.environ)
        return hardware_recipe(toolkit, workspace.simpler.tree, platform, runtime)
    if variant == FOR_SIMPLER.directory:
        from pypto_build.toolchain.simpler import simulator_recipe

        return simulator_recipe(workspace.simpler.tree, platform, runtime)
    binaries = VARIANTS[variant]
    users = shlex.split(workspace.options["KERNEL_FLAGS"])
    shared, alone = ((), [*binaries.kernel_flags, *users]) if binaries.alone else (binaries.kernel_flags, users)
    return host_recipe(workspace.compiler, platform, runtime, workspace.options["ARCH"], shared, alone)
