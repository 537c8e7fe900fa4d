"""`replay_compiled()`: replays an artifact from Python, with tensors and scalars in place of a snapshot's files."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto_build.artifact import ArtifactError, is_distributed, load_artifact
from pypto_build.artifact.distributed import interface_of, load_distributed
from pypto_build.artifact.errors import require_torch
from pypto_build.artifact.interface import Param, sign
from pypto_build.artifact.layout import artifact_root
from pypto_build.artifact.scene_test import SNAPSHOT_CASE
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import RUN_OPTIONS
from pypto_build.interop.pytest_items import find_case
from pypto_build.replay.verdict import Verdict, read_verdict
from pypto_build.toolchain.python import own_environment, own_tool

if TYPE_CHECKING:
    import torch

    Argument = torch.Tensor | ctypes._SimpleCData[Any] | int | float | bool

#: The statuses of a run that completed.
_ENDED = ("pass", "mismatch", "unchecked")


class ReplayError(Exception):
    """A replay that did not complete; ``verdict`` has the details, ``str()`` is one line."""

    def __init__(self, verdict: Verdict) -> None:
        error = verdict.error
        self.verdict = verdict
        super().__init__(f"{verdict.status}: {error.message}; {error.hint}" if error else verdict.status)


def replay_compiled(
    work_dir: str | Path,
    *arguments: Argument,
    case_name: str = "snapshot",
    platform: str = "a2a3sim",
    device_id: int = 0,
    runtime: str | None = None,
    skip_compile: bool = False,
    simpler: str = "",
    pto_isa: str = "",
    rtol: float | None = None,
    atol: float | None = None,
    rounds: int = 1,
    timeout_s: float = 60.0,
    dump_args: int = 0,
    dep_gen: bool = False,
    swimlane: int = 0,
    pmu: int = 0,
    world: int = 0,
    build_dir: str | Path = "build",
    simpler_kwargs: Mapping[str, object] | None = None,
    quiet: bool = False,
) -> Verdict:
    """Build the changed parts of an artifact, run it, and compare with the golden if there is one.

    ``arguments`` are CPU tensors and scalars in the order of the program's parameters. compiled_meta.json has that
    order; an artifact without it takes tensors first, then scalars. Outputs are written in place.

    Without arguments, the case ``case_name`` is replayed: ``snapshot`` is the artifact's ``data/``, any other name a
    directory ``data/<name>`` with ``in/`` and ``out/``. ``runtime`` is ``embedded``, ``torch`` or ``simpler`` (default:
    ``embedded`` on a simulated platform, ``simpler`` on hardware). ``skip_compile`` uses the binaries in the artifact.
    ``world`` is the number of ranks of a distributed artifact (0: the number it was compiled for), whose arguments are
    whole host tensors. ``simpler_kwargs`` are fields of PyPTO's or simpler's run configuration, by the names of any
    generation, such as ``enable_l2_swimlane=4``. They apply to every runtime that supports them. Results are below
    ``build_dir``, as after `pypto-build replay`.

    Raises:
        ReplayError: the artifact, the arguments or a binary are at fault, or the run failed.
        ArtifactError: there is no such platform, artifact, case or parameter.
    """
    if platform not in PLATFORMS:
        raise ArtifactError("replay_compiled()", f"unknown platform '{platform}'", f"use one of {', '.join(PLATFORMS)}")
    root = artifact_root(work_dir)
    name = (load_distributed(root) if is_distributed(root) else load_artifact(root)).name
    words = [*own_tool("pypto_build.cli"), "replay", str(root), "-p", platform, "--force"]
    words += ["--build-dir", str(build_dir)]
    options: dict[str, object] = {"ROUNDS": rounds, "TIMEOUT": timeout_s, "RTOL": rtol, "ATOL": atol}
    options |= {"RUNTIME": runtime, "SIMPLER": simpler, "PTO_ISA": pto_isa, "SKIP_COMPILE": skip_compile}
    options |= {"DUMP": dump_args, "SWIMLANE": swimlane, "PMU": pmu, "DEP_GEN": dep_gen, "WORLD": world}
    options |= {} if PLATFORMS[platform].simulated else {"DEVICE": device_id}
    options |= _options_of(simpler_kwargs or {})
    words += [word for name, value in options.items() for word in RUN_OPTIONS[name].words(value)]
    out = Path(os.path.abspath(build_dir)) / platform / name
    if not arguments:
        data = find_case(root, case_name)
        words += ["--golden-data", str(data)] if case_name != SNAPSHOT_CASE else []
        return _run(words, out, quiet)
    require_torch("replay_compiled()")
    with tempfile.TemporaryDirectory(prefix="pypto-arguments-") as scratch:
        params = _save(root, arguments, Path(scratch, "in"))
        verdict = _run([*words, "--golden-data", scratch], out, quiet)
    _bring_back(params, arguments, out / "actual")
    return verdict


def _options_of(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the run options for fields of PyPTO's or simpler's configurations."""
    names = {field: option.name for option in RUN_OPTIONS.values() for field in option.fields}
    for field in fields:
        if field not in names:
            message = f"simpler_kwargs: '{field}' is not a field of the run configuration"
            raise ArtifactError("replay_compiled()", message, f"the fields are {', '.join(names)}")
    return {names[field]: value for field, value in fields.items()}


def _run(words: Sequence[str], out: Path, quiet: bool) -> Verdict:
    (out / "verdict.json").unlink(missing_ok=True)
    run = subprocess.run(
        words,
        env=own_environment(),
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )
    if not (out / "verdict.json").is_file():
        last = (run.stdout or "its output is above").strip().splitlines()[-1]
        raise ArtifactError(out, f"the replay ended without a verdict: {last}", "correct that and try again")
    verdict = read_verdict(out / "verdict.json")
    if verdict.status not in _ENDED:
        raise ReplayError(verdict)
    return verdict


def _save(root: Path, arguments: Sequence[Argument], directory: Path) -> list[Param]:
    """Write the arguments as a snapshot's inputs, and return their parameters."""
    import torch

    params = _in_program_order(root)
    if len(params) != len(arguments):
        names = ", ".join(param.name for param in params)
        raise ArtifactError(
            "replay_compiled()",
            f"got {len(arguments)} arguments for {len(params)} parameters",
            f"the parameters are {names}",
        )
    directory.mkdir()
    for param, argument in zip(params, arguments, strict=True):
        is_tensor = isinstance(argument, torch.Tensor)
        if is_tensor != (param.kind == "tensor"):
            type_name = type(argument).__name__
            raise ArtifactError(
                "replay_compiled()", f"parameter '{param.name}' is a {param.kind}", f"do not pass a {type_name}"
            )
        torch.save(_saved(param, argument), directory / f"{param.name}.pt")
    return params


def _in_program_order(root: Path) -> list[Param]:
    """Return the parameters in the program's order, if the compiler recorded it."""
    if is_distributed(root):
        distributed = load_distributed(root)
        by_name = {param.name: param for param in interface_of(distributed).params}
        return [by_name[param.name] for param in distributed.params]
    artifact = load_artifact(root)
    params = {param.name: param for param in sign(artifact).interface.params}
    declared = [param.name for param in artifact.meta.params] if artifact.meta else []
    return [params[name] for name in (declared if set(declared) == set(params) else params)]


def _saved(param: Param, argument: Argument) -> torch.Tensor:
    import torch

    if isinstance(argument, torch.Tensor):
        _check(param, str(argument.dtype).removeprefix("torch."), tuple(argument.shape))
        return argument.detach().cpu().contiguous().clone()
    value = argument.value if isinstance(argument, ctypes._SimpleCData) else argument
    return torch.tensor(value, dtype=getattr(torch, param.dtype) if param.dtype else None)


def _check(param: Param, dtype: str, shape: tuple[int, ...]) -> None:
    if not param.fits(shape) or param.dtype not in (None, dtype):
        declared = f"{param.dtype or 'any dtype'} {list(param.shape) if param.shape is not None else 'of any shape'}"
        actual = f"not {dtype} {list(shape)}"
        raise ArtifactError("replay_compiled()", f"parameter '{param.name}' is {declared}", actual)


def _bring_back(params: Sequence[Param], arguments: Sequence[Argument], directory: Path) -> None:
    """Copy the outputs of the run into the caller's tensors."""
    import torch

    for param, argument in zip(params, arguments, strict=True):
        path = directory / f"{param.name}.pt"
        if isinstance(argument, torch.Tensor) and path.is_file():
            with torch.no_grad():
                argument.copy_(torch.load(path, weights_only=True).reshape(argument.shape))
