"""Makes the data of one case of a scene test: arguments, and their expected values after the run.

python -m pypto_build.interop.scene.data FILE::CLASS::CASE --output DIR [--outputs N] [--skip-golden] [--judged]

DIR gets ``in/``, and ``out/`` with the goldens of the outputs. If the class itself judges, goldens go to ``golden/``.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.artifact.scenes import ARGUMENTS_NAME, Arguments
from pypto_build.facts.dtypes import ITEMSIZE, TORCH
from pypto_build.interop.scene.arguments import TaskArgsBuilder
from pypto_build.interop.scene.faults import is_skip, why
from pypto_build.interop.scene.loading import load_file, scene_classes

# Writes the arguments of a scene test as files, and reads them back: tensors and scalars of a `TaskArgsBuilder`.

#: torch's dtype of a scalar by the ctypes type that carries it; integers count as 64 bits, floats as float32.
_OF_CTYPES: dict[type[Any], str] = {
    **{ctypes.c_float: "float32", ctypes.c_double: "float64"},
    **{getattr(ctypes, f"c_{name}"): name for name, row in TORCH.items() if not row.is_float},
}
#: The dtype that stores the bytes of tensors with element types unknown to this package.
_CARRIER = "uint8"


def write_tensor(path: Path, name: str, tensor: torch.Tensor) -> None:
    """Write one tensor. Raises a golden error for a tensor that cannot be passed to a run."""
    problem = (
        f"is a {type(tensor).__name__}, not a tensor"
        if not isinstance(tensor, torch.Tensor)
        else "has no dimensions; shape (1,) is the smallest"
        if tensor.dim() == 0
        else "is not contiguous"
        if not tensor.is_contiguous()
        else ""
    )
    if problem:
        raise ArtifactError(
            "generate_args", f"argument '{name}' {problem}", "change the argument in the test", kind="golden_error"
        )
    dtype, shape = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
    dtype = dtype if dtype in ITEMSIZE else _CARRIER
    data = tensor.detach().view(torch.uint8).numpy().data if tensor.numel() else b""
    write_pt(path, dtype, shape, data)


def write_scalar(path: Path, name: str, value: Any) -> None:
    """Write one scalar as a tensor without dimensions."""
    number = getattr(value, "value", value)
    dtype = _OF_CTYPES.get(type(value)) or ("float32" if isinstance(number, float) else "int64")
    if not isinstance(number, (int, float)):
        raise ArtifactError("generate_args", f"scalar '{name}' is a {type(value).__name__}", "give a number")
    carrier: Any = next(ctype for ctype, of_torch in _OF_CTYPES.items() if of_torch == dtype)
    write_pt(path, dtype, (), bytes(carrier(number)))


def read_tensor(path: Path) -> torch.Tensor:
    """Return the tensor in ``path``, in memory of its own."""
    stored = read_pt(path)
    data = bytearray(stored.contiguous())
    dtype = getattr(torch, stored.dtype)
    if not data:
        return torch.empty(stored.shape, dtype=dtype)
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(stored.shape)


def read_number(path: Path) -> Any:
    """Return the scalar in ``path``."""
    return read_tensor(path).item()


def arguments_of(tensors: Sequence[str], scalars: Iterable[str]) -> Arguments:
    """Return the names of the arguments. Raises a golden error for one that cannot name a file."""
    for name in (*tensors, *scalars):
        if not name.isidentifier():
            raise ArtifactError(
                "generate_args",
                f"'{name}' is not a valid parameter name",
                "use letters, digits and _",
                kind="golden_error",
            )
    return Arguments(tuple(tensors), tuple(scalars))


#: The directory of goldens that only the class itself compares.
JUDGED_GOLDEN = "golden"
#: Exit status for a case that is skipped; `outcomes` recognizes it.
SKIPPED = 5

_MOST_THREADS = 8  # more make many small operations slower


def find_scene(file: Path, class_name: str, case_name: str, with_stand_ins: bool = False) -> tuple[Any, dict[str, Any]]:
    """Return an instance of a class in ``file``, and one of its cases. Raises any exception of the file's code."""
    module = load_file(file, with_stand_ins)
    scene_class = next((scene for scene in scene_classes(module) if scene.__name__ == class_name), None)
    if scene_class is None:
        raise ArtifactError(file, f"has no scene test {class_name}", "name a class of this file")
    case = next((case for case in scene_class.CASES if case["name"] == case_name), None)
    if case is None:
        raise ArtifactError(file, f"{class_name} has no case {case_name}", "name a case of this class")
    return scene_class(), case


def arguments_for(scene: Any, file: Path, params: Any, seed: int) -> TaskArgsBuilder:
    """Return the arguments of a case. Raises a usage error for a class that returns another type."""
    seed_all(seed)
    args: TaskArgsBuilder = scene.generate_args(params)
    if not hasattr(args, "tensor_names"):
        problem = f"{type(scene).__name__}.generate_args returns a {type(args).__name__}"
        raise ArtifactError(file, problem, "return a TaskArgsBuilder")
    return args


def make_data(file: Path, class_name: str, case_name: str, options: argparse.Namespace) -> None:
    """Write the data of a case, as the command line says."""
    output: Path = options.output
    scene, case = find_scene(file, class_name, case_name)
    params = case.get("params", {})
    args = arguments_for(scene, file, params, options.seed)
    scalars = [spec for spec in args.specs if not isinstance(spec.value, torch.Tensor)]
    names = args.tensor_names()
    for name in names:
        write_tensor(output / "in" / f"{name}.pt", name, getattr(args, name))
    for spec in scalars:
        write_scalar(output / "in" / f"{spec.name}.pt", spec.name, spec.value)
    arguments = arguments_of(names, [spec.name for spec in scalars])
    if not options.skip_golden:
        _write_golden(args, expected_of(scene, args, params), options)
    write_bytes(output / ARGUMENTS_NAME, msgspec.json.encode(arguments) + b"\n")


def _write_golden(args: TaskArgsBuilder, expected: TaskArgsBuilder, options: argparse.Namespace) -> None:
    directory = options.output / (JUDGED_GOLDEN if options.judged else "out")
    outputs = options.outputs.split(",")
    for index, name in enumerate(args.tensor_names()):
        if str(index) in outputs:
            golden = getattr(expected, name)
            golden = golden.contiguous() if options.judged else reshaped_golden(getattr(args, name), name, golden)
            write_tensor(directory / f"{name}.pt", name, golden)


def expected_of(scene: Any, args: TaskArgsBuilder, params: Any) -> TaskArgsBuilder:
    """Return the expected arguments after the run."""
    expected = args.clone()
    with _golden_threads():
        scene.compute_golden(expected, params)
    return expected


def reshaped_golden(argument: torch.Tensor, name: str, golden: Any) -> torch.Tensor:
    """Return a golden in the shape of its argument. Raises a golden error for one that cannot be compared with it."""
    what = f"after compute_golden, '{name}' is {_described(golden)}, but the argument is {_described(argument)}"
    if not isinstance(golden, torch.Tensor) or golden.dtype != argument.dtype:
        raise ArtifactError(
            "compute_golden", what, "write into the tensor in place: args.NAME[:] = …", kind="golden_error"
        )
    try:
        return golden.broadcast_to(argument.shape).contiguous()
    except RuntimeError:
        raise ArtifactError("compute_golden", what, "give it the argument's shape", kind="golden_error") from None


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def seed_all(seed: int) -> None:
    """Seed all random generators, so that data is the same every time; a file may set its own seed."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@contextmanager
def _golden_threads() -> Iterator[None]:
    """In the block, use the number of torch threads for goldens."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, _MOST_THREADS))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def selector(text: str) -> tuple[Path, str, str]:
    """Return the parts of FILE::CLASS::CASE."""
    file, class_name, case = text.split("::")
    return Path(file).resolve(), class_name, case


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = case_parser("data", "a case of a scene test", "where the data goes")
    parser.add_argument("--outputs", default="", metavar="N,N", help="the tensors that have goldens, by number")
    return make_of_case(parser, argv, make_data)


def case_parser(module: str, case: str, output: str) -> argparse.ArgumentParser:
    """Return the command line parser of a tool that executes a test's file for one of its cases."""
    parser = argparse.ArgumentParser(prog=f"python -m pypto_build.interop.scene.{module}", allow_abbrev=False)
    add = parser.add_argument
    add("case", type=selector, metavar="FILE::CLASS::CASE", help=case)
    add("--output", type=Path, required=True, metavar="DIR", help=output)
    add("--skip-golden", action="store_true", help="make no goldens")
    add("--judged", action="store_true", help="the class itself compares")
    add("--seed", type=int, default=0, metavar="N", help="of random data (0)")
    return parser


def make_of_case(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    make: Callable[[Path, str, str, argparse.Namespace], None],
) -> int:
    """Execute a command line; return its exit status. An exception of the user's code is printed as one line."""
    options = parser.parse_args(argv)
    file, class_name, case = options.case
    try:
        make(file, class_name, case, options)
    except ArtifactError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        print(f"error: {file}::{class_name}::{case}: {why(error, file)}", file=sys.stderr)
        return SKIPPED if is_skip(error) else 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
