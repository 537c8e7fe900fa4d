"""The steps of an extraction: record the tasks, derive parameters and order, write the artifact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.diagnose.extract.choice import Choice
from pypto_build.diagnose.extract.order import kept_graph, name_parameters, order_of
from pypto_build.diagnose.extract.record import RecordedRun, RecordedTask, record
from pypto_build.diagnose.extract.sources import as_built
from pypto_build.diagnose.extract.tensors import parameters
from pypto_build.diagnose.extract.write import Extracted, api_of, write_artifact
from pypto_build.replay.reference.launch import Launch

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
    found, golden = record(launch, plan.choice, plan.timeout_s, golden=plan.golden)
    return write_tasks(launch, plan, found, found.tasks, golden), found


def write_tasks(
    launch: Launch, plan: Plan, recording: RecordedRun, tasks: list[RecordedTask], golden: str
) -> Extracted:
    """Write some of the tasks of a recording as an artifact."""
    source, raw = as_built(load_artifact(launch.artifact), launch.build_dir)
    inputs = parameters(tasks)
    if len(inputs) > _MOST_PARAMETERS:
        what = f"these {len(tasks)} tasks use {len(inputs)} tensors, and an orchestration takes {_MOST_PARAMETERS}"
        raise ArtifactError("extract", what, "name fewer tasks")
    graph = kept_graph(recording.graph, plan.scratch)
    name_parameters(inputs, tasks, source, graph)
    order = order_of(graph, tasks, inputs)
    name, vintage = plan.root.name, launch.interface.vintage
    written = Extracted(name, source, launch.platform, vintage, tasks, inputs, order, golden, raw)
    write_artifact(written, plan.root)
    return written
