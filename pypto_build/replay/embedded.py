"""Starts the child process of the embedded runtime, with the files and settings of one run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from pypto_build.artifact.errors import ArtifactError, require_torch
from pypto_build.artifact.interface import Interface, KernelInterface
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding
from pypto_build.replay.child import Job, tensor_buffers
from pypto_build.replay.loading import KernelBinary
from pypto_build.replay.request import Request
from pypto_build.replay.worker import Worker, bounds_of


def open_embedded(request: Request, interface: Interface, binding: Binding, arena: Arena) -> Worker:
    """Start the embedded runtime in a process of its own, and return its worker."""
    return Worker(job_of(request, interface, binding), tensor_buffers(binding, arena), bounds_of(request))


def job_of(request: Request, interface: Interface, binding: Binding | None = None) -> Job:
    """Return the child's job after checking that every file exists. Without a binding the job has no scalars and cannot
    run."""
    built = request.binaries or request.build_dir
    kernels = _kernels_of(interface.kernels, built)
    entry, reference = interface.orchestration, request.artifact_dir if request.runtime == "torch" else None
    if reference is not None:
        require_torch("RUNTIME=torch")
    orchestration = built / f"{entry.binary}.so"
    require_files([request.embedded, orchestration, *(kernel.path for kernel in kernels if reference is None)])
    return Job(
        request.embedded,
        request.platform,
        kernels,
        orchestration,
        entry.function_name,
        entry.config_name,
        tuple(scalar.bits for scalar in binding.scalars) if binding else (),
        request.threads,
        {
            "seed": request.seed,
            **request.options,
            "output_dir": str(request.results_dir / "dfx_outputs"),
            "parameter_order": interface.parameter_order,
        },
        reference,
        request.numerics,
    )


@lru_cache(maxsize=1)  # a process that is forked for a run has the job of its parent
def _kernels_of(kernels: tuple[KernelInterface, ...], built: Path) -> tuple[KernelBinary, ...]:
    return tuple(KernelBinary(k.func_id, k.name, k.core_type, built / f"{k.binary}.so", k.signature) for k in kernels)


def require_files(paths: Iterable[Path | str]) -> None:
    """Raise `ArtifactError` for files that have not been built."""
    for path in paths:
        if not os.path.isfile(path):
            raise ArtifactError(path, "is missing", "build the artifact first: scons build JIT=…", kind="build_error")
