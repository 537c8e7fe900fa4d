"""Search for the first instruction where a kernel and its module compute different values."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_build.artifact import load_artifact
from pypto_build.diagnose.diverge.compare import Limits
from pypto_build.diagnose.diverge.lockstep import Copies, Stop, TaskFinding
from pypto_build.diagnose.diverge.probe import Parting, Recorder, compile_probe, find_parting, read_events
from pypto_build.replay.reference.hook import ReferenceFault, References, slots_of
from pypto_build.replay.reference.launch import Launch
from pypto_build.toolchain.host import kernel_numerics

#: The environment variable with the directory that probes write to. Without it, they write nothing.
PROBE_DIRECTORY = "PYPTO_PROBE_DIR"


@dataclass(frozen=True)
class KernelParting:
    """The instruction where one kernel of a task first differs from its module. `lane` is its vector core."""

    kernel: str
    lane: int
    module: Path
    source: Path
    parting: Parting


def locate(launch: Launch, finding: TaskFinding, limits: Limits) -> list[KernelParting]:
    """Run again up to the finding's task, with probes in its kernels.

    Raises ArtifactError if a kernel with probes cannot be compiled.
    """
    directory = launch.build_dir / "diverge"
    shutil.rmtree(directory, ignore_errors=True)
    sources = {kernel.name: kernel for kernel in load_artifact(launch.artifact).kernels}
    names = dict.fromkeys(name for _, _, name in finding.kernels)
    flags = kernel_numerics(launch.numerics)
    libraries = {
        name: compile_probe(sources[name].source, name, sources[name].core_type, launch.platform, directory, flags)
        for name in names
    }
    at_task = _AtTask(launch, finding, directory)
    with suppress(Stop):
        launch.run(at_task, libraries)
    return at_task.partings(limits, {name: kernel.source for name, kernel in sources.items()})


def run_probed(call: Any, directory: Path) -> None:
    """Run a task whose kernels have probes. The probes write to a directory."""
    os.environ[PROBE_DIRECTORY] = str(directory)
    try:
        call.run()
    finally:
        del os.environ[PROBE_DIRECTORY]


class _AtTask:
    """The callback that runs the task's kernels and its PyTorch with probes, and then ends the run."""

    def __init__(self, launch: Launch, finding: TaskFinding, directory: Path) -> None:
        self.finding, self.directory = finding, directory
        self.recorder = Recorder()
        self.references = References(launch.artifact, self.recorder, launch.numerics)
        self.slots: list[Any] = []
        self.members: list[Any] = []
        self.block = 0

    def __call__(self, call: Any) -> None:
        if (call.number, call.block) != (self.finding.task, self.finding.block):
            call.run()
            return
        self.slots, self.block = slots_of(call), call.block or 0
        copies = Copies(self.slots, call)
        self.members = self.references.members(call) or []
        with suppress(ReferenceFault):  # the records before the fault are still valid
            self.references.execute(call, copies.slots)
        run_probed(call, self.directory)
        raise Stop

    def partings(self, limits: Limits, sources: Mapping[str, Path]) -> list[KernelParting]:
        found = []
        for member in self.members:
            name, lane = member.name, member.lane
            kernel = read_events(self.directory / f"{name}.{lane}.{self.block}", self.slots)
            module = self.recorder.of(member)
            parting = find_parting(kernel, module.events, module.dtypes, limits)
            if parting is not None:
                found.append(KernelParting(name, lane, member.body.unit.path, sources[name], parting))
        # A difference at TPOP may come from another member, so it is sorted last.
        return sorted(found, key=lambda each: each.parting.instruction == "TPOP")
