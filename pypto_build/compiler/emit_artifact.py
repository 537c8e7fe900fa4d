"""All files of an artifact from a program: one .pto module a unit, wrappers, orchestration, manifest, metadata."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_build.artifact import Artifact, Orchestration
from pypto_build.artifact.interface import INTERFACE_SCHEMA, Interface, OrchestrationInterface, Param
from pypto_build.artifact.records import DEFAULT_RUNTIME
from pypto_build.artifact.scene_test import SCENE_TEST_NAME, SceneTest, render_scene_test
from pypto_build.artifact.snapshot import Snapshot
from pypto_build.facts.positions import SourcePosition
from pypto_build.pto import Module, PtoError, parse, print_module
from pypto_build.pto.checks import check_module
from pypto_build.pto.wrapper import Passed, launched, write_wrapper

from .assembler import assemble_unit, body_of
from .emit_orchestration import OrchestrationResult, generate_orchestration
from .emit_pto import GM_PIPE_BUFFER, LAUNCH_IDS, FunctionEmitter, KernelSignature, context_name, signature_of
from .errors import CompileError
from .ir import Direction, IrFunction, Program, Ref, TensorType
from .vintages import TODAY, ApiVintage

# `kernel_config.py` and `compiled_meta.json`: what the artifact consists of, and the program's parameters.

BACKENDS = {"a2a3": "Ascend910B", "a5": "Ascend950"}


def generate_manifest(entry: IrFunction, result: OrchestrationResult, vintage: ApiVintage = TODAY) -> str:
    """Return the manifest's text. Importing it needs simpler, for `ArgDirection`, as upstream's manifests do."""
    config = "".join(f'\t"{key}": {value},\n' for key, value in vintage.runtime_config)
    tensors = ", ".join(f"_D.{p.direction.name}" for p in entry.tensors())
    kernels = "".join(
        _kernel(name, result) for name in sorted(result.func_name_to_id, key=result.func_name_to_id.__getitem__)
    )
    runtime = f'\t"runtime": "tensormap_and_ringbuffer",\n{config}'
    return manifest_text(
        entry.name, runtime, tensors, kernels, "# Runtime configuration for tensormap_and_ringbuffer\n"
    )


def manifest_text(program: str, config: str, signature: str, kernels: str, about: str = "") -> str:
    """Return the text of a manifest with these rows for configuration and kernels; ``about`` is a comment on the
    configuration.
    """
    return f"""\
# Kernel and Orchestration Configuration

from pathlib import Path

from simpler.task_interface import ArgDirection as _D

_ROOT_DIR = Path(__file__).parent

{about}RUNTIME_CONFIG = {{
{config}}}

ORCHESTRATION = {{
	"source": str(_ROOT_DIR / "orchestration" / "{program}.cpp"),
	"function_name": "aicpu_orchestration_entry",
	"signature": [{signature}],
}}

KERNELS = [
{kernels}]

CALLABLE = {{
	"orchestration": ORCHESTRATION,
	"incores": KERNELS,
}}
"""


def _kernel(name: str, result: OrchestrationResult) -> str:
    core = result.func_name_to_core_type[name]
    signature = ", ".join(f"_D.{word}" for word in result.func_name_to_signature[name])
    return (
        f'\t{{"func_id": {result.func_name_to_id[name]}, "name": "{name}", '
        f'"source": str(_ROOT_DIR / "kernels" / "{core}" / "{name}.cpp"), "core_type": "{core}", '
        f'"signature": [{signature}]}},\n'
    )


def generate_meta(program: Program, entry: IrFunction) -> str:
    """Return the program's metadata (schema 1); a dynamic extent is -1, a scalar has no shape."""
    outputs = sum(p.direction.value != "In" for p in entry.tensors())
    document = {
        "schema": 1,
        "params": params_document(entry),
        "num_return_types": outputs,
        "platform": program.platform,
        "backend_type": BACKENDS[program.arch],
    }
    return json.dumps(document, indent=2) + "\n"


def params_document(entry: IrFunction) -> list[dict[str, Any]]:
    """Return the parameters of a program for its metadata."""
    params = []
    for param in entry.params:
        shape = None
        if isinstance(param.type, TensorType):
            shape = [-1 if isinstance(d, Ref) else d for d in param.type.shape]
        params.append(
            {"name": param.variable, "direction": param.direction.value, "shape": shape, "dtype": param.type.dtype.meta}
        )
    return params


# The scene test: a Python file by which simpler's own test machinery compiles, runs and checks the artifact.
# Its text is the same as `scons scene_test` writes for any artifact, made here from the compiler's data.


def generate_scene_test(
    program: Program, entry: IrFunction, output_dir: str | Path, vintage: ApiVintage = TODAY
) -> str:
    """Return the text of `kernel_config_scene_test.py`, which lies beside the manifest.

    With a reference its values come from `data/`, which the reference fills; without one the user must fill them in.
    """
    root = Path(output_dir).absolute()
    config: dict[str, Any] = {"runtime": DEFAULT_RUNTIME, **dict(vintage.runtime_config)}
    source = f"orchestration/{entry.name}.cpp"
    orchestration = Orchestration(root / source)
    artifact = Artifact(
        root=root, name=root.name, kernels=(), orchestration=orchestration, runtime_config=config, meta=None
    )
    interface = Interface(
        schema=INTERFACE_SCHEMA,
        artifact=root.name,
        vintage=vintage.name,
        orchestration=OrchestrationInterface(orchestration.function_name, orchestration.config_name, source),
        params=_params(entry),
        kernels=(),
        block_dim=config.get("block_dim"),
        aicpu_thread_num=config["aicpu_thread_num"],
        runtime=DEFAULT_RUNTIME,
    )
    rtol, atol = program.tolerances or (1e-5, 1e-5)
    test = SceneTest(
        artifact=artifact,
        interface=interface,
        data=_snapshot(root, entry) if program.tolerances else Snapshot(root / "data", {}, {}),
        platforms=(program.arch, f"{program.arch}sim"),
        rtol=rtol,
        atol=atol,
    )
    return render_scene_test(test, root)


def _params(entry: IrFunction) -> tuple[Param, ...]:
    params = []
    for index, param in enumerate(entry.tensors()):
        shape = tuple(-1 if isinstance(extent, Ref) else extent for extent in param.type.shape)
        params.append(Param(param.variable, "tensor", index, param.direction.name, param.type.dtype.torch, shape))
    for index, scalar in enumerate(entry.scalars()):
        params.append(Param(scalar.variable, "scalar", index, None, scalar.type.dtype.torch, None))
    return tuple(params)


def _snapshot(root: Path, entry: IrFunction) -> Snapshot:
    """Return the data files that the program's reference will write."""
    inputs = [p.variable for p in entry.params if p.direction is not Direction.OUT]
    outputs = [p.variable for p in entry.tensors() if p.direction is not Direction.IN]
    data = root / "data"
    return Snapshot(
        data,
        {name: data / "in" / f"{name}.pt" for name in inputs},
        {name: data / "out" / f"{name}.pt" for name in outputs},
    )


# A kernel's C++ file around its assembled body, by what the kernel's own parameters say.


def generate_wrapper(function: IrFunction, body: str, vintage: ApiVintage = TODAY) -> str:
    """Return the text of `kernels/<core>/<name>.cpp`; `body` is the assembled body of the kernel's unit."""
    # On both vector cores of a group, get_subblockid() has to tell them apart.
    bridge = function.core == "aiv" and bool(function.group) and function.split >= 0
    return write_wrapper(function.name, body, passed_to(signature_of(function)), vintage.tensor, bridge=bridge)


def passed_to(signature: KernelSignature) -> tuple[Passed, ...]:
    """Return the arguments of `kernel_entry`: `args[]` has all tensors, then all numbers, as declared."""
    by_block = "get_block_idx" in signature.launch_ids
    first = len(signature.tensors)
    last = first + len(signature.scalars)
    return (
        *(
            Passed("tensor", p.name, p.type.dtype.cpp, slot, shared=by_block and p.name == GM_PIPE_BUFFER)
            for slot, p in enumerate(signature.tensors)
        ),
        *(Passed("scalar", p.name, p.type.dtype.cpp, slot) for slot, p in enumerate(signature.scalars, first)),
        *(Passed("context", context_name(p.name), "int64_t", slot) for slot, p in enumerate(signature.contexts, last)),
        *(
            Passed("extent", name, "int64_t", value=f"static_cast<int64_t>({param.name}_tensor->shapes[{axis}])")
            for name, param, axis in signature.extents
        ),
        *(launched(LAUNCH_IDS[name]) for name in signature.launch_ids),
    )


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
    """Return the files of an artifact, by path relative to `output_dir`, for a program whose passes have run; writes
    nothing.

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
    """Return the kernels by module: a kernel's own module, or the module of its group."""
    kernels: dict[str, list[IrFunction]] = {}
    for kernel in program.kernels:
        kernels.setdefault(kernel.group or kernel.name, []).append(kernel)
    return kernels


def generate_unit(program: Program, members: list[IrFunction], unit: str, locations: bool = True) -> tuple[Module, str]:
    """Return a unit's module and its text, parsed, checked and printed by the .pto package."""
    lines = [f'module attributes {{pto.target_arch = "{program.arch}"}} {{']
    for member in members:
        lines += FunctionEmitter(member, program.arch, locations).emit()
    text = "\n".join([*lines, "}", ""])
    path = f"ptoas/{unit}.pto"
    try:
        module = parse(text, path)
    except PtoError as error:
        raise CompileError(members[0].position, f"{unit}: the generated module cannot be parsed: {error}") from None
    problems = check_module(module, program.platform)
    if problems:
        first = problems[0]
        position = _in_program(module, first.position.line if first.position else 0, members[0].position)
        raise CompileError(position, f"{unit}: {first.message}")
    return module, print_module(module)


def _in_program(module: Module, line: int, otherwise: SourcePosition) -> SourcePosition:
    """Return the program's line that a line of the module came from, else ``otherwise``."""
    for function in module.functions():
        for op in function.body.walk() if function.body else ():
            if op.loc and op.loc.file and module.source.position(op.token).line == line:
                return SourcePosition(op.loc.file, op.loc.line, op.loc.column)
    return otherwise
