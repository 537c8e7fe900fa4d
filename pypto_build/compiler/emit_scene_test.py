"""The scene test: a Python file by which simpler's own test machinery compiles, runs and checks the artifact.

Its text is the same as `scons scene_test` writes for any artifact, made here from the compiler's data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pypto_build.artifact import Artifact, Orchestration
from pypto_build.artifact.interface import INTERFACE_SCHEMA, Interface, OrchestrationInterface
from pypto_build.artifact.params import Param
from pypto_build.artifact.records import DEFAULT_RUNTIME
from pypto_build.artifact.scene_test import SceneTest, render_scene_test
from pypto_build.artifact.snapshot import Snapshot

from .ir import Direction, IrFunction, Program
from .values import Ref
from .vintages import TODAY, ApiVintage


def generate_scene_test(
    program: Program, entry: IrFunction, output_dir: str | Path, vintage: ApiVintage = TODAY
) -> str:
    """The text of `kernel_config_scene_test.py`, beside the manifest.

    With a reference its values come from `data/`, which the reference fills; without one they are left to fill in.
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
    """The files that the program's reference makes."""
    inputs = [p.variable for p in entry.params if p.direction is not Direction.OUT]
    outputs = [p.variable for p in entry.tensors() if p.direction is not Direction.IN]
    data = root / "data"
    return Snapshot(
        data,
        {name: data / "in" / f"{name}.pt" for name in inputs},
        {name: data / "out" / f"{name}.pt" for name in outputs},
    )
