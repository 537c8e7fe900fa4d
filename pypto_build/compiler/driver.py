"""From a program's file to the texts of its artifact; several programs in one file become sub-builds."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from pypto_build.artifact.compiled_files import COMPILED_FILES_NAME
from pypto_build.artifact.scene_test import SCENE_TEST_NAME

from .collectives import BUILTIN, chip_directory
from .emit_artifact import Options, generate
from .emit_golden import generate_golden
from .emit_host import generate_distributed_meta, generate_driver
from .errors import CompileError
from .frontend import build_program
from .host import build_host
from .language import JitFunction
from .load import entries_of, load_module
from .pipeline import own_faults, run_passes
from .write import files_document


@dataclass(frozen=True)
class Compiled:
    """`files` by path relative to the artifact; `roots` the directories with a golden.py, relative too."""

    files: dict[str, str]
    roots: tuple[str, ...]


def compile_file(
    path: str, output_dir: str | Path, platform: str, options: Options | None = None, *, dump_passes: bool = False
) -> Compiled:
    """Everything the artifact of a program consists of, except data. Raises CompileError; writes nothing."""
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
    """The files of one program."""
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
    """The files of a program for several chips: its driver, and one artifact a chip program."""
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
