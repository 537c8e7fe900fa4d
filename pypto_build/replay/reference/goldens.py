"""DATA=reference: a snapshot whose goldens the PyTorch reference computes, from the artifact's inputs or a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pypto_build.artifact.interface import read_interface
from pypto_build.artifact.pt import write_pt
from pypto_build.artifact.snapshot import REFERENCE
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding
from pypto_build.replay.reference.launch import Launch, Progress, in_child, reference_inputs
from pypto_build.replay.request import Request


def make_goldens(request: Request) -> Path:
    """Write ``RESULTS``/reference/{in,out}/*.pt, of the `reference_inputs`, and return that directory.

    Raises ArtifactError and RunFault.
    """
    artifact, build_dir, seed = request.artifact_dir, request.build_dir, request.seed
    interface = read_interface(build_dir / "interface.json")
    binding = reference_inputs(interface, artifact, seed)
    arena = Arena([tensor.nbytes for tensor in binding.tensors])
    options = {"seed": seed, "output_dir": str(request.results_dir / "dfx_outputs"), "poison": False}
    files = request.embedded, request.platform, interface, binding, arena, options, request.binaries
    launch = Launch(artifact, build_dir, *files)
    progress = Progress()

    def run() -> None:
        from pypto_build.replay.reference.hook import ReferenceHook

        hook = ReferenceHook(artifact)

        def task(call: Any) -> None:
            progress.set(call.number)
            hook(call)

        launch.run(task)

    in_child(run, progress, request.timeout_s)
    return _write(request.results_dir / REFERENCE, binding, arena)


def _write(root: Path, binding: Binding, arena: Arena) -> Path:
    for stale in root.glob("*/*.pt"):
        stale.unlink()
    for index, tensor in enumerate(binding.tensors):
        if tensor.direction != "OUT" and tensor.initial is not None:
            write_pt(root / "in" / f"{tensor.name}.pt", tensor.dtype, tensor.shape, tensor.initial)
        if tensor.direction != "IN":
            write_pt(root / "out" / f"{tensor.name}.pt", tensor.dtype, tensor.shape, arena.tensor(index))
    for scalar in binding.scalars:
        raw = scalar.bits.to_bytes(8, "little")[: ITEMSIZE[scalar.dtype]]
        write_pt(root / "in" / f"{scalar.name}.pt", scalar.dtype, (), raw)
    return root
