"""The engine of a distributed artifact's replay: the child process that drives many chips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact.distributed import Distributed, devices_of, load_distributed, require_callables
from pypto_build.artifact.errors import require_torch
from pypto_build.artifact.interface import Interface, read_interface
from pypto_build.artifact.manifest import MANIFEST_NAME
from pypto_build.facts.layouts import REPORT_BYTES
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding
from pypto_build.replay.child import Origin, Reply, tensor_buffers
from pypto_build.replay.chips.host import ChipProgram, ChipsJob, Watcher, serve_chips
from pypto_build.replay.chips.memory import map_regions
from pypto_build.replay.embedded import require_files
from pypto_build.replay.faults import Death, RunFault, describe_death
from pypto_build.replay.request import Request
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.session import require_platform
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.replay.worker import Worker, bounds_of
from pypto_build.runtime.report import Report, read_report


@dataclass(frozen=True)
class ChipsEngine:
    """Runs a distributed artifact on `world` ranks; 0 means one rank for each of `devices`. Without devices, it means
    the number that the artifact was compiled for. `chips` are the build directories of its chip programs, by name.
    `variant` is the directory below them that holds the binaries."""

    chips: Mapping[str, Path]
    world: int = 0
    variant: str = ""
    reference: bool = False  # PyTorch made from .pto modules executes the kernels' tasks
    by_modules: bool = False  # with `reference`: also for collectives, in place of torch.distributed's definition
    watch: Watcher | None = None  # sees the tasks of all ranks, in their processes
    devices: tuple[int, ...] = ()
    libraries: Mapping[tuple[str, str], Path] = field(default_factory=dict)  # instead of a (program, kernel)'s own

    def open(self, request: Request, interface: Interface, binding: Binding, arena: Arena) -> ChipsWorker:
        """Start the process. Raises `ArtifactError` for an unsupported request."""
        require_platform(request)
        artifact = load_distributed(request.artifact_dir)
        devices = devices_of(artifact, self.devices, self.world)
        require_callables(artifact)
        job = ChipsJob(
            request.embedded,
            request.platform,
            len(devices),
            artifact.driver,
            {name: self._program(name, directory) for name, directory in self.chips.items()},
            {scalar.name: scalar.value for scalar in binding.scalars},
            artifact.sub_workers,
            request.threads,
            _options(request),
            self._programs(artifact) if self.reference else None,
            self.by_modules,
            self.watch,
            devices,
            map_regions(),
        )
        require_files(job.binaries)
        return ChipsWorker(job, tensor_buffers(binding, arena), bounds_of(request), serve_chips, job.world)

    def _program(self, name: str, directory: Path) -> ChipProgram:
        """Return a chip program from its build in `directory`."""
        interface, binaries = read_interface(directory / "interface.json"), directory / self.variant
        kernels = tuple(
            (
                kernel.func_id,
                kernel.name,
                kernel.core_type,
                self.libraries.get((name, kernel.name), binaries / f"{kernel.binary}.so"),
                kernel.signature,
            )
            for kernel in interface.kernels
        )
        entry = interface.orchestration
        library = binaries / f"{entry.binary}.so"
        return ChipProgram(name, kernels, library, entry.function_name, entry.config_name, interface.parameter_order)

    def _programs(self, artifact: Distributed) -> dict[str, Path]:
        """Return the chip programs that PyTorch executes. Those that consist of modules alone are in their completed
        form."""
        require_torch("RUNTIME=torch")
        directories = {}
        for name, root in artifact.chips.items():
            completed = self.chips[name] / "completed" if name in self.chips else root
            directories[name] = completed if (completed / MANIFEST_NAME).is_file() else root
        return directories


class ChipsWorker(Worker):
    """The child process of many chips; its faults name rank and dispatch."""

    _job: ChipsJob

    def _rank_report(self, rank: int) -> Report | None:
        start = (rank + 1) * REPORT_BYTES
        return read_report(self._report[start : start + REPORT_BYTES])

    @property
    def _starts(self) -> Sequence[int]:
        return [(rank + 1) * REPORT_BYTES for rank in range(self._job.world)]

    def _reports(self) -> Mapping[str, Report]:
        return {f"rank {rank} ": report for rank in range(self._job.world) if (report := self._rank_report(rank))}

    def _read_report(self) -> Report | None:
        """Return the report of the rank that has run for longest, or the host's report during loading."""
        reports = [report for rank in range(self._job.world) if (report := self._rank_report(rank)) and report.running]
        return min(reports, key=lambda report: report.running[0].start_ns, default=None)

    def _binary_of(self, reply: Reply) -> Path:
        program = self._job.programs.get(reply.origin.program) if reply.origin else None
        return program.orchestration if program else super()._binary_of(reply)

    def _fault(self, reply: Reply) -> RunFault:
        origin = reply.origin
        if origin is None:
            return super()._fault(reply)
        if not 0 <= origin.rank <= self._job.world:
            origin.rank = 0
        if origin.status is not None:
            death = Death(origin.status, 0, self._memory_bytes, self._said.tail)
            fault = RunFault("runtime_error", describe_death(death, self._rank_report(origin.rank), "", self._binaries))
        else:
            fault = super()._fault(reply)
        _prefix_rank(fault.error, origin, self._job.world)
        return fault


def _options(request: Request) -> dict[str, SettingValue]:
    """Return the runtime's options. As in PyPTO, a timeline of several chips includes the task graph of each."""
    records = {"dep_gen": True} if request.options.get("swimlane") else {}
    return {"seed": request.seed, **request.options, **records, "output_dir": str(request.results_dir / "dfx_outputs")}


def _prefix_rank(error: ErrorInfo, origin: Origin, world: int) -> None:
    """Prefix a message with its rank and dispatch."""
    where = "host callable" if origin.rank == world else f"rank {origin.rank}, d{origin.dispatch}"
    error.message = f"{where} '{origin.program}': {error.message}"
