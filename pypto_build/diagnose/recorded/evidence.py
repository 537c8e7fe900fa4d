"""All records of a run, with names: graph, timeline, kernels, source lines and tensors. A missing record is None."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError, load_artifact
from pypto_build.artifact.cpp.orchestration import Submit
from pypto_build.artifact.files import read_record
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.recorded.critical_path import Analysis, Timeline, analyse, find_timeline, read_timeline
from pypto_build.diagnose.recorded.graph import Edge, Task, TaskGraph, TaskOrder, find_graph, id_text, read_graph
from pypto_build.diagnose.recorded.names import (
    Names,
    find_names,
    match_tasks,
    submissions,
    tensor_names,
)
from pypto_build.replay.timing import TIMING_NAME, Spread, Timing
from pypto_build.replay.verdict import EXIT_STATUS, Verdict, read_verdict

# Measurement of a timeline: warm or cold, number of rounds, and spread over the rounds.

COLD = "taken cold: first tasks take many times what they take later, as they load and touch what they need"


class Measured:
    """The content of `timing.json` beside a timeline. Timelines of simpler and of older replays have no such file."""

    def __init__(self, timing: Timing | None) -> None:
        self.timing = timing

    @cached_property
    def tasks(self) -> dict[int, Spread]:
        """Return the time of each task over the rounds, by id; empty after a single round."""
        return {spread.task: spread for spread in self.timing.tasks} if self.timing else {}

    @property
    def is_cold(self) -> bool:
        """Return whether the record says that no run came before to warm up."""
        return self.timing is not None and not self.timing.warm

    @property
    def line(self) -> str:
        """Return a sentence about the rounds, or an empty text without a `timing.json`."""
        if self.timing is None:
            return ""
        if self.timing.rounds == 1:
            return COLD if self.is_cold else "after a warm-up round; ROUNDS=n gives median and spread"
        spread = spread_text(self.timing.makespan)
        more = f"{self.timing.rounds} rounds: makespan {spread}; shown is round {self.timing.shown}, the median"
        return f"{more}; {COLD}" if self.is_cold else f"after a warm-up round, {more}"


def spread_text(spread: Spread) -> str:
    """`12.3 us (11.9 to 14.0)`."""
    return f"{spread.median:,.1f} us ({spread.least:,.1f} to {spread.most:,.1f})"


def read_measured(timeline: Path) -> Measured:
    """Read `timing.json` beside a timeline. Raises a usage error that names the file and its fault."""
    path = timeline.with_name(TIMING_NAME)
    if not path.exists():
        return Measured(None)
    return Measured(read_record(path, Timing, "is not a record of rounds", "run again with SWIMLANE=4"))


#: Said wherever times of a simulated platform are shown.
SIMULATED = (
    "simulated platform: times are this machine's, not the NPU's; only their order and proportions mean something"
)


def no_record(directory: Path, missing: str, way_out: str) -> ArtifactError:
    """Return the error for a run that left no record, because it ended too early or was not asked to record."""
    with suppress(ArtifactError):
        verdict = read_verdict(directory / "verdict.json")
        if verdict.exit_status > EXIT_STATUS["mismatch"] and verdict.error:
            ended = f"{missing}: the replay ended with {verdict.status} ({verdict.error.message})"
            return ArtifactError(directory, ended, "mend that first")
    return ArtifactError(directory, missing, way_out)


@dataclass(frozen=True)
class Evidence:
    """One run. `root` is the artifact or a directory with records, `build_dir` where the artifact was replayed."""

    root: Path
    build_dir: Path | None
    platform: str = "a2a3sim"

    @property
    def _roots(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.build_dir, self.root) if path is not None)

    @property
    def simulated(self) -> bool:
        """Return whether the times come from a simulation and mean little."""
        return self.platform.endswith("sim")

    @cached_property
    def artifact(self) -> Artifact | None:
        """The artifact, if `root` is one."""
        try:
            return load_artifact(self.root)
        except ArtifactError:
            return None

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict of the run."""
        try:
            return read_verdict(self.build_dir / "verdict.json") if self.build_dir else None
        except ArtifactError:
            return None

    @cached_property
    def graph(self) -> TaskGraph | None:
        """The task graph."""
        path = find_graph(*self._roots)
        return read_graph(path) if path else None

    @cached_property
    def timeline(self) -> Timeline | None:
        """The timeline."""
        path = find_timeline(*self._roots)
        return read_timeline(path) if path else None

    @cached_property
    def measured(self) -> Measured:
        """Read how the timeline was measured."""
        return read_measured(self.timeline.path) if self.timeline else Measured(None)

    @cached_property
    def analysis(self) -> Analysis | None:
        """The timeline related with the graph."""
        return analyse(self.timeline, self.graph) if self.timeline and self.timeline.rows else None

    @cached_property
    def names(self) -> Names:
        """The names of kernels and arguments, from the artifact, the build, or a file beside the records."""
        records = self.graph or self.timeline
        return find_names(self.root, *self._roots, *([records.path.parent] if records else []))

    @cached_property
    def order(self) -> TaskOrder:
        """Numbers of the tasks."""
        if self.graph:
            return self.graph.order
        return TaskOrder.guessed(row.task for row in self.timeline.rows) if self.timeline else TaskOrder({})

    @cached_property
    def sites(self) -> dict[int, Submit]:
        """Return the source position of each task's submission, if it is certain."""
        if not self.graph or not self.artifact:
            return {}
        return match_tasks(self.graph, submissions(self.artifact.orchestration.source).submits)

    @cached_property
    def _tensors(self) -> dict[int, str]:
        if not self.graph or not self.artifact:
            return {}
        return tensor_names(self.graph, self.sites, submissions(self.artifact.orchestration.source))

    # -- words --------------------------------------------------------------------------------------------------

    def kernel(self, task: Task) -> str:
        """The kernels of a task by name."""
        return self.names.joined(task.func_ids)

    def title(self, raw: int) -> str:
        """`task 3 (1:4) kernel_mul`, `allocation 1:0`."""
        if self.graph and raw not in self.graph.by_id:
            return f"allocation {id_text(raw)}"
        return f"task {self.label(raw)}"

    def label(self, raw: int) -> str:
        """`3 (1:4) kernel_mul`."""
        return f"{self.order.label(raw)} {self.kernel_of(raw)}".rstrip()

    def kernel_of(self, raw: int) -> str:
        """The kernels of a task by its id; empty where the graph was not recorded."""
        task = self.graph.by_id.get(raw) if self.graph else None
        return self.kernel(task) if task is not None else ""

    def tensor(self, raw: int | None) -> str:
        """Return a buffer's name in the orchestration, or an empty text."""
        return self._tensors.get(raw, "") if raw is not None else ""

    def argument(self, task: Task, index: int) -> str:
        """`arg 0 'a'`."""
        name = self.names.argument(task.func_ids, index)
        return f"arg {index}" + (f" '{name}'" if name else "")

    def submitted_at(self, raw: int) -> str:
        """Return `orchestration/x.cpp:48`, or an empty text if several lines may have submitted the task."""
        site = self.sites.get(raw)
        if site is None or self.artifact is None:
            return ""
        return f"{relative_source(self.artifact.orchestration.source, self.artifact.root)}:{site.line}"

    def reason(self, edge: Edge) -> str:
        """Why `edge.succ` waits: through which tensor and argument, and by which rule."""
        task = self.graph.by_id.get(edge.succ) if self.graph else None
        if edge.arg < 0 or task is None:
            return "explicit dependency" if edge.arg < 0 and edge.source in ("explicit", "") else edge.source
        name = self.tensor(edge.tensor)
        words = [f"through {name}:" if name else "through", self.argument(task, edge.arg)]
        arg = next((arg for arg in task.args if arg.index == edge.arg), None)
        if arg is not None and arg.shape:
            words.append(f"{arg.dtype}[{', '.join(map(str, arg.shape))}]")
            words.append("bytes {}..{}".format(*arg.span))
        rule = _RULES.get((edge.source, edge.overlap), edge.source)
        return " ".join(words) + (f" ({rule})" if rule else "")


_RULES = {
    ("creator", ""): "it holds what that task allocated",
    ("tensormap", "covered"): "that task was passed all of it to write",
    ("tensormap", "other"): "that task was passed a part of it to write",
    ("explicit", ""): "explicit",
}
