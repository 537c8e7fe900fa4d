"""Modules edited since their kernels were made: assemble, splice, and on request write back into the artifact."""

from __future__ import annotations

import itertools
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from SCons.Action import Action

from pypto_build.artifact import Artifact
from pypto_build.artifact.atomic import write_bytes
from pypto_build.rules.actions import command
from pypto_build.rules.completion import is_completed
from pypto_build.rules.reason import setting
from pypto_build.rules.sources import tool_digest
from pypto_build.rules.staleness import PtoUnit, find_stale, find_units, remember
from pypto_build.rules.workspace import Workspace, escape, workspace_of
from pypto_build.toolchain import Platform, ToolchainError
from pypto_build.toolchain.ptoas import Ptoas, find_ptoas, ptoas_argv
from pypto_build.toolchain.python import own_tool


@dataclass(frozen=True)
class Assembler:
    """What turns a module into C++ for one platform: ``ptoas``, or our own where there is none."""

    platform: Platform
    ptoas: Ptoas | None

    @property
    def identity(self) -> str:
        """Part of the key of everything it makes."""
        return self.ptoas.identity if self.ptoas else f"own {tool_digest('pto')}"

    def argv(self, unit: PtoUnit, target: str) -> list[str]:
        """The command that assembles ``unit``."""
        if self.ptoas:
            return ptoas_argv(self.ptoas, self.platform, unit.text, str(unit.path), target)
        words = [*own_tool("pypto_build.pto.assemble"), str(unit.path)]
        return [*words, "--platform", self.platform.name, "-o", target]


@dataclass(frozen=True)
class Splices:
    """The stale units of an artifact, and the file each of their kernels is compiled from instead of its own."""

    units: tuple[PtoUnit, ...] = ()
    assembler: Assembler | None = None
    files: dict[str, Path] | None = None  # by kernel name
    orchestration: Path | None = None

    def file(self, kernel: str) -> Path | None:
        """The spliced file of a kernel; None if its own is current."""
        return (self.files or {}).get(kernel)

    def key(self, kernel: str) -> str:
        """What a spliced kernel depends on besides its wrapper."""
        unit = next(unit for unit in self.units if any(mine.name == kernel for mine in unit.kernels))
        return f"{unit.digest} {self.assembler.identity if self.assembler else ''}"


def find_splices(workspace: Workspace, artifact: Artifact, output: Path, platform: Platform) -> Splices:
    """Compare modules and bodies; finds the assembler only if one is needed.

    Raises:
        ArtifactError: a module and its body were both edited, or a module lacks a kernel's function.
        ToolchainError: there is no assembler for this platform.
    """
    if is_completed(artifact):
        return Splices()  # assembled from its modules just now
    units = find_units(artifact)
    stale = find_stale(artifact, output, units, workspace.options["PREFER"])
    for said, chosen in (("skipped (PREFER=cpp)", stale.left), ("edited cpp skipped (PREFER=pto)", stale.without_body)):
        if chosen:
            print(f"[pto->cpp] {said}: {', '.join(workspace.short(unit.path) for unit in chosen)}")
    if not stale.units:
        if units and not stale.left:
            print("[pto->cpp] no .pto changes detected")
        return Splices()
    assembler = Assembler(platform, find_ptoas(workspace.options["PTOAS"], os.environ))
    if assembler.ptoas is None and not platform.simulated:
        edited = ", ".join(str(unit.path) for unit in stale.units)
        raise ToolchainError(
            f"{edited}: edited, and {platform.name} needs ptoas to assemble it; set PTOAS_ROOT or PTOAS="
        )
    files = {
        kernel.name: output / "spliced" / "kernels" / kernel.core_type / f"{kernel.source.name}"
        for unit in stale.units
        for kernel in unit.kernels
    }
    return Splices(stale.units, assembler, files, artifact.orchestration.source)


def declare_splices(env: Any, output: Path, splices: Splices) -> list[Any]:
    """The nodes that assemble and splice; returns the spliced files."""
    nodes = [node for unit in splices.units for node in _declare_unit(env, output, splices, unit)]
    if nodes:
        files = f"[pto->cpp] updated {len(nodes)} kernel cpp(s)"
        env.AddPostAction(nodes[-1], Action(lambda target, source, env: print(files), None))
    return nodes


def _declare_unit(env: Any, output: Path, splices: Splices, unit: PtoUnit) -> list[Any]:
    workspace = workspace_of(env)
    assert splices.assembler is not None and splices.files is not None
    body = output / "ptoas" / f"{unit.name}.cpp"
    argv = [escape(word) for word in splices.assembler.argv(unit, f"{body}.tmp")]
    assembled = env.Command(
        escape(str(body)),
        env.File(escape(str(unit.path))),
        command("[pto->cpp] regenerating from", argv, show=lambda node: workspace.short(str(node))),
    )
    env.Depends(assembled, setting(env, "the assembler", splices.assembler.identity))
    words = [*own_tool("pypto_build.compiler.splice_files"), str(body), "--module", str(unit.path)]
    words += ["--orchestration", str(splices.orchestration)]
    for kernel in unit.kernels:
        words += ["--into", str(kernel.func_id), str(kernel.source), f"{splices.files[kernel.name]}.tmp"]
    spliced = env.Command(
        [escape(str(splices.files[kernel.name])) for kernel in unit.kernels],
        [
            assembled,
            *(env.File(escape(str(kernel.source))) for kernel in unit.kernels),
            env.File(escape(str(splices.orchestration))),
        ],
        command(
            "[pto->cpp]   spliced ->",
            [escape(word) for word in words],
            show=lambda _: ", ".join(workspace.short(kernel.source) for kernel in unit.kernels),
        ),
    )
    env.Depends(spliced, setting(env, "the splicer", tool_digest("pto") + tool_digest("compiler")))
    return list(spliced)


def write_back(output: Path, splices: Splices) -> list[tuple[Path, Path | None]]:
    """Put the spliced files, and the assembled units PyPTO tells staleness by, into the artifact.

    Each file is replaced by one rename. Returns the files with what keeps the previous one.
    """
    written = []
    for unit in splices.units:
        pairs = [(output / "ptoas" / f"{unit.name}.cpp", unit.path.with_suffix(".cpp"))]
        pairs += [(file, kernel.source) for kernel in unit.kernels if (file := splices.file(kernel.name))]
        for made, place in reversed(pairs):  # the unit last: it is what says that the others are done
            written.append((place, replace_kept(place, made.read_bytes())))
    remember(output, splices.units)
    return written


def replace_kept(place: Path, data: bytes) -> Path | None:
    """Write ``place`` atomically; what was there is kept beside it under a name with ``.bak``, which is returned.

    A ``.bak`` with another content is never overwritten: the next is ``.bak2``. None if nothing had to be kept.
    """
    kept = None
    if place.exists() and (before := place.read_bytes()) != data:
        names = itertools.chain([".bak"], (f".bak{number}" for number in itertools.count(2)))
        candidates = (place.with_name(place.name + name) for name in names)
        kept = next(path for path in candidates if not path.exists() or path.read_bytes() == before)
        if not kept.exists():
            write_bytes(kept, before)
            shutil.copystat(place, kept)
    write_bytes(place, data)
    return kept
