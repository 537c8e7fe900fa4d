"""From a program's file to the texts of its artifact; several programs in one file become sub-builds."""

from __future__ import annotations

import ast
import builtins
import json
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from pypto_build.artifact.compiled_files import COMPILED_FILES_NAME
from pypto_build.artifact.scene_test import SCENE_TEST_NAME
from pypto_build.facts.dtypes import DType
from pypto_build.facts.positions import SourcePosition

from .collectives import BUILTIN, chip_directory
from .emit_artifact import Options, generate
from .emit_host import build_host, generate_distributed_meta, generate_driver
from .errors import CompileError
from .frontend import build_program
from .ir import Direction, IrFunction, IrParam, Ref, ScalarParam, TensorParam
from .language import Dynamic, JitFunction
from .load import definition_of, entries_of, load_module, namespace_of
from .pipeline import own_faults, run_passes
from .write import files_document

# `golden.py`: the program's reference with everything it uses, so that an artifact can be checked without its
# program.
# The file makes the inputs too, from fixed seeds, so data/in and data/out follow from it alone.

_HEAD = """\
# Golden of {name}: inputs from fixed seeds, outputs from the program's reference. Written by pypto-build.

import zlib
from pathlib import Path

import torch
"""
_SEEDED = """

def _random(name, shape, dtype):
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()){seed})
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if not dtype.is_floating_point:
        return torch.randint(0, 8, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)
"""


def generate_golden(jit: JitFunction, entry: IrFunction, seed: int = 0) -> str:
    """Return the text of golden.py.

    Another `seed` gives other random inputs. Raises CompileError if the reference uses objects that cannot be written
    as source text.
    """
    if jit.reference_function is None:
        raise CompileError(entry.position, f"{jit.name} has no reference", f"decorate one with @{jit.name}.reference")
    sources = _Sources()
    reference = sources.function(jit.reference_function)
    inputs = sources.function(jit.inputs_function) if jit.inputs_function else ""
    examples = _examples(jit)
    outputs = [p.variable for p in entry.tensors() if p.direction is not Direction.IN]
    text = _HEAD.format(name=entry.name) + "".join(f"\n{line}" for line in sources.imports)
    text += "\n" * bool(sources.imports) + '\n_DATA_DIR = Path(__file__).parent / "data"\n\n'
    text += f"__outputs__ = {json.dumps(outputs)}\n"
    for key, value in zip(("RTOL", "ATOL"), jit.accepted or (), strict=True):
        text += f"{key} = {value!r}\n"
    text += "".join(f"{line}\n" for line in sources.constants)
    text += _SEEDED.replace("{seed}", f" + {seed}" if seed else "")
    text += "".join(f"\n\n{source}\n" for source in sources.helpers)
    text += f"\n\n{inputs}\n" if inputs else ""
    text += f"\n\n{reference}\n" + _make_inputs(jit, entry, examples) + _generate_inputs(entry, examples)
    return text + _compute(jit.reference_function, entry)


def _examples(jit: JitFunction) -> dict[str, int]:
    """Return the sizes of dynamic extents in the snapshot."""
    globals_ = namespace_of(jit.function).values()
    return {value.name: value.example for value in globals_ if isinstance(value, Dynamic)}


def _shape(param: IrParam, examples: dict[str, int]) -> str:
    shape = param.type.shape if isinstance(param, TensorParam) else ()
    return str([examples.get(d.name, 1) if isinstance(d, Ref) else d for d in shape])


def _make_inputs(jit: JitFunction, entry: IrFunction, examples: dict[str, int]) -> str:
    lines = ["", "", "def make_inputs():"]
    lines += ['    """What data/in holds."""', "    made = {"]
    for param in entry.params:
        name, dtype = param.variable, f"torch.{param.type.dtype.torch}"
        if param.direction is Direction.OUT:
            continue
        if isinstance(param, ScalarParam):
            value = f"torch.tensor({1 if param.default is None else param.default!r}, dtype={dtype})"
        else:
            value = f"_random({name!r}, {_shape(param, examples)}, {dtype})"
        lines.append(f'        "{name}": {value},'.replace("'", '"'))
    lines.append("    }")
    if jit.inputs_function:
        lines.append(f"    made.update({jit.inputs_function.__name__}())")
    return "\n".join([*lines, "    return made", ""])


def _generate_inputs(entry: IrFunction, examples: dict[str, int]) -> str:
    lines = ["", "", "def generate_inputs(params):", "    return ["]
    for param in entry.params:
        name = param.variable
        if param.direction is Direction.OUT:
            value = f"torch.zeros({_shape(param, examples)}, dtype=torch.{param.type.dtype.torch})"
        else:
            value = f'torch.load(_DATA_DIR / "in" / "{name}.pt", weights_only=True)'
        lines.append(f'        ("{name}", {value}),')
    return "\n".join([*lines, "    ]", ""])


def _compute(function: Callable[..., Any], entry: IrFunction) -> str:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    params = {p.variable: p for p in entry.params}
    values = []
    for name in names:
        if name not in params:
            raise CompileError(
                SourcePosition(code.co_filename, code.co_firstlineno),
                f"the reference takes {name}, which is not a parameter of {entry.name}",
                f"use the names of its parameters: {', '.join(params)}",
            )  # fmt: skip
        tensor = isinstance(params[name], TensorParam)
        values.append(f'tensors["{name}"]' if tensor else f'_number(tensors["{name}"])')
    return f"""

def _number(value):
    return value.item() if isinstance(value, torch.Tensor) else getattr(value, "value", value)


def compute_golden(tensors, params):
    {function.__name__}({", ".join(values)})
"""


class _Sources:
    """The sources that a function needs to run on its own: imports, constants, other functions."""

    def __init__(self) -> None:
        self.imports: dict[str, None] = {}
        self.constants: dict[str, None] = {}
        self.helpers: dict[str, None] = {}
        self.seen: set[str] = set()

    def function(self, function: Callable[..., Any]) -> str:
        file, node = definition_of(function)
        names = namespace_of(function)
        for name in _free(node):
            self.name(name, names, SourcePosition(file, node.lineno))
        segment = ast.get_source_segment(Path(file).read_text(encoding="utf-8"), node)
        assert segment is not None
        return textwrap.dedent(" " * node.col_offset + segment)

    def name(self, name: str, names: dict[str, Any], position: SourcePosition) -> None:
        if name in self.seen or name == "torch" or (name not in names and hasattr(builtins, name)):
            return
        self.seen.add(name)
        if name not in names:
            raise CompileError(position, f"the reference uses {name}, which is not defined")
        value = names[name]
        if isinstance(value, Dynamic):
            value = value.example
        if isinstance(value, ModuleType):
            alias = "" if value.__name__ == name else f" as {name}"
            self.imports.setdefault(f"import {value.__name__}{alias}")
        elif isinstance(value, FunctionType) and value.__module__ == names.get("__name__"):
            self.helpers.setdefault(self.function(value))
        elif isinstance(value, DType):
            self.constants.setdefault(f"{name} = torch.{value.torch}")
        elif _is_constant(value):
            self.constants.setdefault(f"{name} = {value!r}")
        else:
            raise CompileError(
                position, (
                    f"the reference uses {name}, whose type {type(value).__name__} cannot be "
                    f"written to golden.py"
                ),
                "use only numbers, modules and plain functions of the program",
            )  # fmt: skip


def _is_constant(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_constant, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _free(node: ast.FunctionDef) -> list[str]:
    """Return the names that a function uses and does not define."""
    own = {
        a.arg for inner in ast.walk(node) if isinstance(inner, ast.arguments) for a in (*inner.args, *inner.kwonlyargs)
    }
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            own.add(inner.id)
        elif isinstance(inner, (ast.Import, ast.ImportFrom)):
            own |= {(a.asname or a.name).partition(".")[0] for a in inner.names}
        elif isinstance(inner, ast.FunctionDef) and inner is not node:
            own.add(inner.name)
    body = [n for s in node.body for n in ast.walk(s)]
    used = [n.id for n in body if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return [name for name in dict.fromkeys(used) if name not in own]


@dataclass(frozen=True)
class Compiled:
    """The compiled files: `files` by path relative to the artifact; `roots` are the directories with a golden.py,
    relative too.
    """

    files: dict[str, str]
    roots: tuple[str, ...]


def compile_file(
    path: str, output_dir: str | Path, platform: str, options: Options | None = None, *, dump_passes: bool = False
) -> Compiled:
    """Compile a program and return all files of its artifact, except data. Raises CompileError; writes nothing."""
    before = set(sys.modules)
    module = load_module(path)
    entries = entries_of(module)
    files: dict[str, str] = {}
    roots = []
    if entries[0].kind == "host":
        files = compile_host(entries[0], Path(output_dir), platform, options, dump_passes=dump_passes)
        roots = ["."] if entries[0].reference_function is not None else []
        entries = []
    for entry in entries:
        prefix = f"next_levels/{entry.name}/" if len(entries) > 1 else ""
        try:
            texts = compile_entry(entry, Path(output_dir, prefix), platform, options, dump_passes=dump_passes)
        except CompileError as error:
            error.dumps = {prefix + name: text for name, text in error.dumps.items()}
            raise
        files |= {prefix + name: text for name, text in texts.items()}
        if entry.reference_function is not None:
            roots.append(prefix.rstrip("/") or ".")
    sources = [path, *_imported(path, before)]
    files[COMPILED_FILES_NAME] = files_document(path, sources, files).decode()
    return Compiled(files, tuple(roots))


def compile_entry(
    entry: JitFunction,
    output_dir: str | Path,
    platform: str = "a2a3sim",
    options: Options | None = None,
    *,
    dump_passes: bool = False,
) -> dict[str, str]:
    """Compile one program and return its files."""
    dumps: dict[str, str] | None = {} if dump_passes else None
    try:
        program = run_passes(build_program(entry, platform), dumps)
    except CompileError as error:
        error.dumps = dumps or {}
        raise
    with own_faults("emission", program):
        files = generate(program, output_dir, options)
    if entry.reference_function is not None:
        files["golden.py"] = generate_golden(entry, program.entries[0], options.seed if options else 0)
    return files | (dumps or {})


def compile_host(
    entry: JitFunction, output_dir: Path, platform: str, options: Options | None = None, *, dump_passes: bool = False
) -> dict[str, str]:
    """Compile a program for several chips and return its files: its driver, and one artifact for each chip program."""
    options = options or Options()
    dumps: dict[str, str] | None = {} if dump_passes else None
    try:
        host = build_host(entry, platform, dumps)
    except CompileError as error:
        error.dumps = dumps or {}
        raise
    files: dict[str, str] = {}
    for name, chip in host.chips.items():
        root = f"next_levels/{chip_directory(name)}"
        with own_faults("emission", chip):
            own = name.startswith(BUILTIN)  # the lines would be ours
            texts = generate(chip, output_dir / root, replace(options, locations=False) if own else options)
        for path in (SCENE_TEST_NAME, "compiled_meta.json"):  # what lies in windows cannot be said in them
            texts.pop(path, None)
        files |= {f"{root}/{path}": text for path, text in texts.items()}
    files["orchestration/host_orch.py"] = generate_driver(host)
    files["distributed_meta.json"] = generate_distributed_meta(host, options.vintage)
    if entry.reference_function is not None:
        files["golden.py"] = generate_golden(entry, host.function, options.seed)
    return files | (dumps or {})


def _imported(path: str, before: set[str]) -> list[str]:
    """Return the files beside the program that it imported."""
    root = Path(path).resolve().parent
    files = []
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).resolve().is_relative_to(root) and "site-packages" not in file:
            files.append(str(Path(path).parent / Path(file).resolve().relative_to(root)))
    return files
