"""Handles modules edited since their kernels were built: assembles, splices, and on request writes back into the
artifact.
"""

from __future__ import annotations

import itertools
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from SCons.Action import Action as SConsAction

from pypto_build import terminal
from pypto_build.artifact import Artifact
from pypto_build.artifact.files import write_bytes
from pypto_build.facts.platforms import Platform
from pypto_build.proof import Action, OutputDir
from pypto_build.rules.completion import assembled_units
from pypto_build.rules.machinery.environment import search_paths
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.staleness import PtoUnit, find_stale, find_units, remember
from pypto_build.rules.machinery.steps import Step, declare_step
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.ptoas import Ptoas, find_ptoas, ptoas_argv

SPLICED = "spliced/"


@dataclass(frozen=True)
class Assembler:
    """The program that turns a module into C++ for one platform: ``ptoas``, or our own if there is none."""

    platform: Platform
    ptoas: Ptoas | None

    def action(self, workspace: Workspace, output_dir: OutputDir, path: Path, text: str, name: str) -> Action:
        """Return the action that assembles the module at ``path``, which holds ``text``."""
        target, source = f"{output_dir.path(name)}.tmp", str(path)
        if self.ptoas is None:
            argv = [source, "--platform", self.platform.name, "-o", target]
            return python_tool(workspace, "pypto_build.pto.assemble", argv, name=name, inputs=[source], outputs=(name,))
        environment = workspace.environment
        return Action(
            name=name,
            argv=tuple(ptoas_argv(self.ptoas, self.platform, text, source, target)),
            inputs=(source,),
            outputs=(name,),
            settings={"the assembler": self.ptoas.identity, **search_paths(environment)},
            environment=environment,
            main=source,
        )


@dataclass(frozen=True)
class Splices:
    """The stale units of an artifact, and for each of their kernels the replaced source file."""

    units: tuple[PtoUnit, ...] = ()
    assembler: Assembler | None = None
    files: dict[str, Path] | None = None  # by kernel name
    orchestration: Path | None = None

    def file(self, kernel: str) -> Path | None:
        """Return the spliced file of a kernel; None if its own file is up to date."""
        return (self.files or {}).get(kernel)


def find_splices(workspace: Workspace, artifact: Artifact, output: Path, platform: Platform) -> Splices:
    """Compare modules and bodies, and find the assembler if it is needed.

    Raises:
        ArtifactError: a module and its body were both edited, or a module lacks a kernel's function.
        ToolchainError: there is no assembler for this platform.
    """
    units = find_units(artifact)
    assembled = assembled_units(artifact)
    if assembled and assembled.issuperset(unit.name for unit in units):
        return Splices()  # from their modules, just now
    stale = find_stale(artifact, output, units, workspace.options["PREFER"], assembled)
    for outcome, chosen in (
        ("skipped (PREFER=cpp)", stale.left),
        ("edited cpp skipped (PREFER=pto)", stale.without_body),
    ):
        if chosen:
            terminal.say(f"[pto->cpp] {outcome}: {', '.join(workspace.short(unit.path) for unit in chosen)}")
    if not stale.units:
        if units and not stale.left:
            terminal.detail("[pto->cpp] no .pto changes detected")
        return Splices()
    assembler = Assembler(platform, find_ptoas(workspace.options["PTOAS"], os.environ))
    if assembler.ptoas is None and not platform.simulated:
        edited = ", ".join(str(unit.path) for unit in stale.units)
        raise ToolchainError(
            f"{edited}: was edited, and {platform.name} needs ptoas to assemble it; set PTOAS_ROOT or PTOAS="
        )
    files = {
        kernel.name: output / SPLICED / "kernels" / kernel.core_type / f"{kernel.source.name}"
        for unit in stale.units
        for kernel in unit.kernels
    }
    return Splices(stale.units, assembler, files, artifact.orchestration.source)


@dataclass(frozen=True)
class Spliced:
    """The nodes of the spliced files, and whether all of them are proven."""

    nodes: tuple[Node, ...] = ()
    proven: bool = True


def declare_splices(env: Environment, output_dir: OutputDir, splices: Splices) -> Spliced:
    """Return the nodes that assemble and splice."""
    nodes: list[Node] = []
    proven = True
    for unit in splices.units:
        steps = _steps(workspace_of(env), output_dir, splices, unit)
        proven = proven and all(step.proven for step in steps)
        before: list[Node] = []
        for step in steps:
            sources = [env.File(escape(path)) for path in step.action.inputs]
            before = list(declare_step(env, step, [*before, *sources]))
        nodes += before
    if nodes:
        env.AddPostAction(nodes[-1], SConsAction(_report, None))
    return Spliced(tuple(nodes), proven)


def _report(target: Nodes, source: Nodes, env: Environment) -> None:
    """Print the line that users search logs for, if kernels were spliced in this run."""
    done = [action for action in workspace_of(env).progress.renewed if action.name.startswith(SPLICED)]
    if done:
        terminal.detail(f"[pto->cpp] updated {sum(len(action.outputs) for action in done)} kernel cpp(s)")


def _steps(workspace: Workspace, output_dir: OutputDir, splices: Splices, unit: PtoUnit) -> list[Step]:
    """Return the steps that assemble a unit, and splice its body into its kernels."""
    assert splices.assembler is not None and splices.files is not None
    body = f"ptoas/{unit.name}.cpp"
    assemble = Step(
        output_dir,
        splices.assembler.action(workspace, output_dir, unit.path, unit.text, body),
        "[pto->cpp] regenerating from",
        workspace.short(unit.path),
        shown=True,
    )
    argv = [str(output_dir.path(body)), "--module", str(unit.path), "--orchestration", str(splices.orchestration)]
    for kernel in unit.kernels:
        argv += ["--into", str(kernel.func_id), str(kernel.source), f"{splices.files[kernel.name]}.tmp"]
    sources = [*(kernel.source for kernel in unit.kernels), splices.orchestration]
    outputs = tuple(os.path.relpath(splices.files[kernel.name], output_dir.directory) for kernel in unit.kernels)
    action = python_tool(
        workspace,
        "pypto_build.compiler.splice_files",
        argv,
        name=f"{SPLICED}{unit.name}",
        inputs=[output_dir.path(body), unit.path, *filter(None, sources)],
        outputs=outputs,
    )
    shown = ", ".join(workspace.short(kernel.source) for kernel in unit.kernels)
    splice = Step(output_dir, action, "[pto->cpp]   spliced ->", shown, restored=f"[pto->cpp]   restored -> {shown}")
    return [assemble, splice]


def write_back(output: Path, splices: Splices) -> list[tuple[Path, Path | None]]:
    """Put the spliced files, and the assembled units that PyPTO detects staleness by, into the artifact.

    Each file is replaced by one rename. Returns the files, each with the path of its backup.
    """
    written = []
    for unit in splices.units:
        pairs = [(output / "ptoas" / f"{unit.name}.cpp", unit.path.with_suffix(".cpp"))]
        pairs += [(file, kernel.source) for kernel in unit.kernels if (file := splices.file(kernel.name))]
        for spliced, source in reversed(pairs):  # the unit last: it says that the others are done
            written.append((source, replace_kept(source, spliced.read_bytes())))
    remember(output, splices.units)
    return written


def replace_kept(path: Path, data: bytes) -> Path | None:
    """Write ``path`` atomically; keep the old file under a name with ``.bak``, and return that path.

    A ``.bak`` with another content is never overwritten: the next is ``.bak2``. Returns None if no backup was
    necessary.
    """
    kept = None
    if path.exists() and (before := path.read_bytes()) != data:
        names = itertools.chain([".bak"], (f".bak{number}" for number in itertools.count(2)))
        candidates = (path.with_name(path.name + name) for name in names)
        kept = next(one for one in candidates if not one.exists() or one.read_bytes() == before)
        if not kept.exists():
            write_bytes(kept, before)
            shutil.copystat(path, kept)
    write_bytes(path, data)
    return kept
