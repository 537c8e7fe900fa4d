"""Makes one case of a scene test of several chips into a distributed artifact with its data.

python -m pypto_build.interop.scene.node_data FILE::CLASS::CASE --output DIR [--skip-golden] [--judged] [--seed N]

Only this module executes the orchestration. Its calls only enqueue work, and are written as the host driver. DIR gets
the driver, its metadata, a file for each host callable and, below ``programs/``, the manifest of each chip program.
``data/in`` has the inputs. ``data/out`` has goldens of the tensors that the case expects to change. If the class itself
judges, ``data/golden`` replaces ``data/out``.
"""

from __future__ import annotations

import argparse
import inspect
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.distributed import META_NAME, TEST_LINE
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.layout import CHILDREN_DIR, DRIVER, SUB_WORKERS
from pypto_build.artifact.manifest import portable_path
from pypto_build.artifact.manifest_writer import render_manifest
from pypto_build.artifact.pt import write_pt
from pypto_build.artifact.scenes import ARGUMENTS_NAME, PROGRAMS_DIR, SCALARS_DIR, file_name
from pypto_build.interop.scene.arguments import TaskArgsBuilder, Tensor, bytes_of, tensor_of
from pypto_build.interop.scene.case import CallableNamespace, config_of, program_of
from pypto_build.interop.scene.data import (
    JUDGED_GOLDEN,
    arguments_for,
    arguments_of,
    case_parser,
    expected_of,
    find_scene,
    make_of_case,
    reshaped_golden,
    write_scalar,
    write_tensor,
)
from pypto_build.interop.scene.faults import why
from pypto_build.interop.scene.loading import load_file, scene_classes
from pypto_build.interop.scene.node import meta_of
from pypto_build.interop.scene.recorder import MappedArgs, Recorder
from pypto_build.interop.scene.worker import ChipCallable, artifact_of

# Host callables of a scene test of several chips: writes the file that a replay calls, and executes the call.

_TEXT = '''"""Host callable {name!r} of {scene}, a scene test."""

{test}


def {name}(*given):
    from pypto_build.interop.scene.node_data import call

    call(__file__, _TEST, {scene!r}, {name!r}, given)
'''


class HostCallableFailed(Exception):
    """An exception of a host callable, with the line of the test's file."""

    says_where = True  # the text contains the line, so reporters need not add one


def file_of(file: Path, class_name: str, name: str, directory: Path) -> str:
    """Return the text of ``NAME.py`` for a host callable of a class; ``directory`` is the ``sub_workers`` of an
    artifact."""
    return _TEXT.format(test=TEST_LINE.format(portable_path(file, directory)), scene=class_name, name=name)


def call(caller: str, test: str, class_name: str, name: str, arguments: Sequence[Any]) -> None:
    """Call a host callable with torch tensors and then scalars, or with simpler's form of arguments. ``test`` is the
    path of its file, relative to the directory of ``caller``. Raises `HostCallableFailed`."""
    file = os.path.normpath(os.path.join(os.path.dirname(caller), test))
    of_simpler = len(arguments) == 1 and hasattr(arguments[0], "tensor_count")
    try:
        module = load_file(Path(file), with_stand_ins=not of_simpler)
        scene = next(scene_class for scene_class in scene_classes(module) if scene_class.__name__ == class_name)
        entry = next(one for one in scene.CALLABLE["callables"] if one["name"] == name)
        entry["callable"](arguments[0] if of_simpler else _arguments(arguments))
    except Exception as error:
        raise HostCallableFailed(why(error, Path(file))) from None


def _arguments(values: Sequence[Any]) -> MappedArgs:
    args = MappedArgs()
    for value in values:
        if hasattr(value, "untyped_storage"):
            args.add_tensor(tensor_of(value))
        else:
            args.add_scalar(value)
    return args


#: The platform of chip programs; it does not affect the recording.
_PLATFORM = "a2a3sim"


@dataclass
class _Registered:
    """The callables of a class's orchestration: names by handle, chip programs by name, host callables by handle."""

    scene: type[Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    chips: dict[int, str] = field(default_factory=dict)
    programs: dict[str, ChipCallable] = field(default_factory=dict)
    functions: dict[int, Any] = field(default_factory=dict)
    hosts: dict[int, str] = field(default_factory=dict)


def make_node(file: Path, class_name: str, case_name: str, options: argparse.Namespace) -> None:
    """Write the artifact of a case, as the command line says. Raises any exception of the file's code."""
    output: Path = options.output
    scene, case = find_scene(file, class_name, case_name, with_stand_ins=True)
    params, config = case.get("params", {}), case.get("config", {})
    args = arguments_for(scene, file, params, options.seed)
    expected = None if options.skip_golden else expected_of(scene, args, params)
    world, registered = int(config.get("device_count", 1)), _register(scene, file)
    recorder = Recorder(world, registered.chips, registered.functions, registered.hosts, _tensors(args))
    scene.CALLABLE["orchestration"](recorder, CallableNamespace(registered.parameters), args, config_of(config))
    if not recorder.first:
        raise ArtifactError(
            file, f"{class_name}: the orchestration of the case {case_name} submits nothing to a chip", ""
        )
    shutil.rmtree(output, ignore_errors=True)
    _write_data(args, expected, recorder, output / "data", options.judged)
    _write_program(file, registered, recorder, output)


def _register(scene: Any, file: Path) -> _Registered:
    """Return all callables that the class names, with the signature of each chip program."""
    directory, registered = Path(inspect.getfile(type(scene))).resolve().parent, _Registered(type(scene))
    for handle, entry in enumerate(scene.CALLABLE["callables"]):
        name = entry["name"]
        if not name.isidentifier() or name in registered.parameters:
            hint = "use letters, digits and _, and each name only once"
            raise ArtifactError(
                file, f"{type(scene).__name__}.CALLABLE: {name!r} is not a valid name of a callable", hint
            )
        registered.parameters[name] = handle
        if "callable" in entry:
            registered.functions[handle], registered.hosts[handle] = entry["callable"], name
            continue
        registered.chips[handle] = file_name(name)
        registered.programs[name] = program_of(entry, directory, _PLATFORM, type(scene)._st_runtime)
        registered.parameters[f"{name}_sig"] = list(entry["orchestration"].get("signature", []))
    return registered


def _tensors(args: TaskArgsBuilder) -> dict[str, Tensor]:
    """Return the tensors by name. Raises a golden error for a tensor that is a part of a larger one."""
    tensors, bases = dict[str, Tensor](), set[int]()
    for name in args.tensor_names():
        tensor = tensor_of(getattr(args, name))
        if tensor.extent is None or tensor.extent.nbytes != tensor.memory.nbytes or tensor.base in bases:
            what = f"argument '{name}' is a view of a larger tensor"
            raise ArtifactError("generate_args", what, "add .clone() to the argument", kind="golden_error")
        bases.add(tensor.base)
        tensors[name] = tensor
    return tensors


def _write_data(
    args: TaskArgsBuilder, expected: TaskArgsBuilder | None, recorder: Recorder, data: Path, judged: bool
) -> None:
    """Write the tensors before the run, and the expected ones that differ or that chips may write."""
    for name in args.tensor_names():
        tensor = getattr(args, name)
        write_tensor(data / "in" / f"{name}.pt", name, tensor)
        if expected is None:
            continue
        golden = reshaped_golden(tensor, name, getattr(expected, name))
        if recorder.writes(name) or bytes(bytes_of(golden)) != bytes(bytes_of(tensor)):
            write_tensor(data / (JUDGED_GOLDEN if judged else "out") / f"{name}.pt", name, golden)
    for address, own in recorder.own().items():
        if any(own.memory):
            write_pt(data / "in" / f"{recorder.start_of(address)}.pt", own.dtype, own.shape, own.memory)
    for spec in args.specs:
        if judged and not isinstance(spec.value, torch.Tensor):
            write_scalar(data / SCALARS_DIR / f"{spec.name}.pt", spec.name, spec.value)
    arguments = arguments_of(args.tensor_names(), args.scalar_names())
    write_bytes(data / ARGUMENTS_NAME, msgspec.json.encode(arguments) + b"\n")


def _write_program(file: Path, registered: _Registered, recorder: Recorder, output: Path) -> None:
    """Write driver, metadata, host callables, and the manifests of the called chip programs."""
    write_bytes(output / DRIVER, recorder.driver().encode())
    params = [_param(name, tensor.shape, recorder.writes(name)) for name, tensor in recorder.arguments.items()]
    params += [
        _param(recorder.start_of(address), own.shape, False)
        for address, own in recorder.own().items()
        if any(own.memory)
    ]
    write_bytes(output / META_NAME, meta_of(params, recorder.world, len(registered.hosts)))
    for name in registered.hosts.values():
        directory = output / SUB_WORKERS
        write_bytes(directory / f"{name}.py", file_of(file, registered.scene.__name__, name, directory).encode())
    for name, program in registered.programs.items():
        if name in recorder.first:
            artifact = artifact_of(
                program, recorder.first[name], registered.scene._st_runtime, output / CHILDREN_DIR / name
            )
            write_bytes(output / PROGRAMS_DIR / f"{name}.py", render_manifest(artifact, artifact.root).encode())


def _param(name: str, shape: Sequence[int], written: bool) -> Mapping[str, Any]:
    return {"name": name, "direction": "InOut" if written else "In", "shape": list(shape), "dtype": ""}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = case_parser("node_data", "a case of a scene test of several chips", "where the artifact goes")
    return make_of_case(parser, argv, make_node)


if __name__ == "__main__":
    sys.exit(main())
