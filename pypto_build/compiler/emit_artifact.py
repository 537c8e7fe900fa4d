"""All files of an artifact from a program: one .pto module a unit, wrappers, orchestration, manifest, metadata."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact.scene_test import SCENE_TEST_NAME
from pypto_build.pto import Module, PtoError, parse, print_module
from pypto_build.pto.checks import check_module

from .assembler import assemble_unit, body_of
from .emit_manifest import generate_manifest, generate_meta
from .emit_orchestration import generate_orchestration
from .emit_pto import FunctionEmitter
from .emit_scene_test import generate_scene_test
from .emit_wrapper import generate_wrapper
from .errors import CompileError, SourcePosition
from .ir import IrFunction, Program
from .vintages import TODAY, ApiVintage


@dataclass(frozen=True)
class Options:
    """Options of writing an artifact.

    `skip_ptoas` stops after the .pto modules. `ptoas` is an executable to assemble with instead of our own assembler.
    `locations` puts the program's lines into the .pto modules. `seed` is the seed of random inputs.
    """

    vintage: ApiVintage = TODAY
    skip_ptoas: bool = False
    ptoas: Path | None = None
    locations: bool = True
    seed: int = 0


def generate(program: Program, output_dir: str | Path, options: Options | None = None) -> dict[str, str]:
    """The files of the artifact of a program whose passes have run, by path relative to `output_dir`; writes nothing.

    Raises CompileError.
    """
    options = options or Options()
    entry = program.entries[0]
    result = generate_orchestration(program, entry, options.vintage)
    called = set(result.func_name_to_id)
    files: dict[str, str] = {}
    for unit, members in units(program).items():
        if not any(m.name in called for m in members):
            continue
        module, text = generate_unit(program, members, unit, options.locations)
        if options.skip_ptoas:
            directory = "kernels" if len(members) > 1 else f"kernels/{members[0].core}"
            files[f"{directory}/{unit}.pto"] = text
            continue
        raw = assemble_unit(module, text, unit, program.platform, options.ptoas)
        files[f"ptoas/{unit}.pto"] = text
        files[f"ptoas/{unit}.cpp"] = raw
        body = body_of(raw, options.vintage.tensor)
        for member in members:
            files[f"kernels/{member.core}/{member.name}.cpp"] = generate_wrapper(member, body, options.vintage)
    files[f"orchestration/{entry.name}.cpp"] = result.code
    files["compiled_meta.json"] = generate_meta(program, entry)
    if not options.skip_ptoas:
        files["kernel_config.py"] = generate_manifest(entry, result, options.vintage)
        files[SCENE_TEST_NAME] = generate_scene_test(program, entry, output_dir, options.vintage)
    return files


def units(program: Program) -> dict[str, list[IrFunction]]:
    """Return the kernels by their module: their own, or their group's."""
    kernels: dict[str, list[IrFunction]] = {}
    for kernel in program.kernels:
        kernels.setdefault(kernel.group or kernel.name, []).append(kernel)
    return kernels


def generate_unit(program: Program, members: list[IrFunction], unit: str, locations: bool = True) -> tuple[Module, str]:
    """A unit's module and its text, parsed, checked and printed by the .pto package."""
    lines = [f'module attributes {{pto.target_arch = "{program.arch}"}} {{']
    for member in members:
        lines += FunctionEmitter(member, program.arch, locations).emit()
    text = "\n".join([*lines, "}", ""])
    path = f"ptoas/{unit}.pto"
    try:
        module = parse(text, path)
    except PtoError as error:
        raise CompileError(members[0].position, f"{unit}: the emitted module does not parse: {error}") from None
    problems = check_module(module, program.platform)
    if problems:
        first = problems[0]
        position = _in_program(module, first.position.line if first.position else 0, members[0].position)
        raise CompileError(position, f"{unit}: {first.message}")
    return module, print_module(module)


def _in_program(module: Module, line: int, otherwise: SourcePosition) -> SourcePosition:
    """The program's line that a line of the module came from."""
    for function in module.functions():
        for op in function.body.walk() if function.body else ():
            if op.loc and op.loc.file and module.source.position(op.token).line == line:
                return SourcePosition(op.loc.file, op.loc.line, op.loc.column)
    return otherwise
