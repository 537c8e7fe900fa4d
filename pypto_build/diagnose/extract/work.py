"""The steps of an extraction: record the tasks, derive parameters and order, write the artifact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from pypto_build.artifact import Artifact, ArtifactError, load_artifact
from pypto_build.artifact.modules import function_names, spliced_modules
from pypto_build.diagnose.extract.record import Choice, RecordedRun, record
from pypto_build.diagnose.extract.tensors import kept_graph, name_parameters, order_of, parameters
from pypto_build.diagnose.extract.write import Extracted, api_of, write_artifact
from pypto_build.facts.tasks import Task
from pypto_build.replay.reference.launch import Launch

# Sources that the build compiled: a kernel whose module was edited has the module's body, which is kept in OUT.


def as_built(artifact: Artifact, build_dir: Path) -> tuple[Artifact, dict[str, Path]]:
    """Return the artifact with the files that its kernels were compiled from.

    Also returns the assembler's output for each unit whose module was edited.
    """
    spliced: dict[str, Path] = {}
    raw: dict[str, Path] = {}
    for path in spliced_modules(artifact.root, build_dir):
        text = path.read_bytes().decode("utf-8", "replace")
        names = function_names(text)
        for kernel in artifact.kernels:
            file = build_dir / "spliced" / "kernels" / kernel.core_type / kernel.source.name
            if (kernel.name in names or kernel.source.stem in names) and file.is_file():
                spliced[kernel.name] = file
                raw[path.stem] = build_dir / "ptoas" / f"{path.stem}.cpp"
    kernels = tuple(
        msgspec.structs.replace(kernel, source=spliced[kernel.name]) if kernel.name in spliced else kernel
        for kernel in artifact.kernels
    )
    return msgspec.structs.replace(artifact, kernels=kernels), raw


#: The largest number of tensors that simpler passes to an orchestration.
_MOST_PARAMETERS = 128


@dataclass(frozen=True)
class Plan:
    """A planned extraction: the chosen tasks, and the directory ``root`` of the artifact.

    ``golden`` is `run` or `reference`, and ``scratch`` is a directory for temporary files.
    """

    choice: Choice
    root: Path
    golden: str
    scratch: Path
    timeout_s: float


def extract(launch: Launch, plan: Plan) -> tuple[Extracted, RecordedRun]:
    """Record the tasks and write their artifact. Raises ArtifactError and RunFault."""
    source = load_artifact(launch.artifact)
    api_of(launch.interface.vintage, source.orchestration.source)
    recorded, golden = record(launch, plan.choice, plan.timeout_s, golden=plan.golden)
    return write_tasks(launch, plan, recorded, recorded.tasks, golden), recorded


def write_tasks(launch: Launch, plan: Plan, recording: RecordedRun, tasks: list[Task], golden: str) -> Extracted:
    """Write some of the tasks of a recording as an artifact."""
    source, raw = as_built(load_artifact(launch.artifact), launch.build_dir)
    inputs = parameters(tasks)
    if len(inputs) > _MOST_PARAMETERS:
        what = (
            f"these {len(tasks)} tasks use {len(inputs)} tensors, but an orchestration takes at "
            f"most {_MOST_PARAMETERS} parameters"
        )
        raise ArtifactError("extract", what, "extract fewer tasks")
    graph = kept_graph(recording.graph, plan.scratch)
    name_parameters(inputs, tasks, source, graph)
    order = order_of(graph, tasks, inputs)
    name, vintage = plan.root.name, launch.interface.vintage
    written = Extracted(name, source, launch.platform, vintage, tasks, inputs, order, golden, raw)
    write_artifact(written, plan.root)
    return written
