"""Search for the line at which a task of one rank diverges from its module.

The program runs twice more, as compiled and by PyTorch, with probes in the kernels of that task alone. All other tasks
and ranks run unchanged, so that a kernel that communicates with other ranks finds them.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact import load_artifact
from pypto_build.artifact.files import read_bytes
from pypto_build.diagnose.diverge.compare import Limits
from pypto_build.diagnose.diverge.kernel import KernelParting, run_probed
from pypto_build.diagnose.diverge.probe import Event, Recorder, compile_probe, find_parting, read_events
from pypto_build.diagnose.ranks.chips import engine_of
from pypto_build.replay.chips.dispatches import Dispatch
from pypto_build.replay.chips.engine import ChipsEngine
from pypto_build.replay.chips.memory import Windows
from pypto_build.replay.chips.reference import RankHook
from pypto_build.replay.reference.hook import ReferenceFault, References
from pypto_build.replay.reference.slots import Slot, TensorArgument

OnTask = Callable[[Any], None]
_TOLD = "module"


class Told(msgspec.Struct):
    """Events of one kernel's module in a block of the task: `lane` is its vector core, `module` its file."""

    kernel: str
    lane: int
    module: str
    events: list[Event]
    dtypes: list[str]


class ToldBlock(msgspec.Struct):
    """A block of the task by its modules: tensors as [buffer, size, offset, dtype, shape, strides]."""

    tensors: list[tuple[int, int, int, str, tuple[int, ...], tuple[int, ...]]]
    members: list[Told]


@dataclass(frozen=True)
class At:
    """A task: the `task`-th of the `dispatch`-th dispatch on a rank, which runs `program` as it lies in `root`."""

    rank: int
    dispatch: int
    task: int
    program: str
    root: Path
    kernels: tuple[str, ...]


def partings(
    given: argparse.Namespace, at: At, limits: Limits, run: Callable[[ChipsEngine, str], object]
) -> list[KernelParting]:
    """Find where the kernels of a task diverge from their modules, block by block up to the first block that does.

    `run` executes the program by an engine, under a name.
    Raises ArtifactError if a kernel does not compile with probes.
    """
    directory = given.build_dir / "diverge" / "probes"
    shutil.rmtree(directory, ignore_errors=True)
    kernels = {kernel.name: kernel for kernel in load_artifact(at.root).kernels if kernel.name in at.kernels}
    libraries = {
        (at.program, name): compile_probe(kernel.source, name, kernel.core_type, given.platform, directory)
        for name, kernel in kernels.items()
    }
    compiled = replace(engine_of(given), libraries=libraries, watch=_Compiled(at, directory))
    run(compiled, "probed")
    run(replace(engine_of(given, reference=True), by_modules=True, watch=_Modules(at, directory)), "torch-probed")
    for path in sorted(directory.glob(f"{_TOLD}.*"), key=lambda path: int(path.suffix[1:])):
        block = msgspec.msgpack.decode(read_bytes(path), type=ToldBlock)
        tensors = [TensorArgument(*tensor) for tensor in block.tensors]
        found = []
        for told in block.members:
            events = read_events(directory / f"{told.kernel}.{told.lane}{path.suffix}", tensors)
            parting = find_parting(events, told.events, told.dtypes, limits)
            if parting is not None:
                source = kernels[told.kernel].source
                found.append(KernelParting(told.kernel, told.lane, Path(told.module), source, parting))
        if found:
            return sorted(found, key=lambda each: each.parting.instruction == "TPOP")
    return []


@dataclass(frozen=True)
class _Watcher:
    """Wraps what the runtime calls for the tasks of the dispatch that is looked at."""

    at: At
    directory: Path

    def __call__(
        self, rank: int, dispatch: Dispatch, domains: Sequence[Windows], usual: OnTask | None
    ) -> OnTask | None:
        if (rank, dispatch.index) != (self.at.rank, self.at.dispatch):
            return usual
        there = self.watching(domains)

        def on_task(call: Any) -> None:
            if call.number == self.at.task:
                there(call)
            elif usual is not None:
                usual(call)
            else:
                call.run()

        return on_task

    def watching(self, domains: Sequence[Windows]) -> OnTask:
        """Return the function to call for the task itself."""
        raise NotImplementedError


class _Compiled(_Watcher):
    """Lets the probes of compiled kernels write."""

    def watching(self, domains: Sequence[Windows]) -> OnTask:
        return lambda call: run_probed(call, self.directory)


class _Modules(_Watcher):
    """Executes the task by its modules with probes, and writes down what they told."""

    def watching(self, domains: Sequence[Windows]) -> OnTask:
        recorder = Recorder()
        hook = RankHook(References(self.at.root, recorder), domains)

        def run(call: Any) -> None:
            recorder.clear()
            slots: list[Slot] = hook.slots(call)
            try:
                with suppress(ReferenceFault):  # what it had written until then counts
                    hook(call)
            finally:
                block = ToldBlock([slot for slot in slots if isinstance(slot, TensorArgument)], [])
                for member in hook.members(call):
                    wrote, unit = recorder.of(member), str(member.body.unit.path)
                    block.members.append(Told(member.name, member.lane, unit, wrote.events, wrote.dtypes))
                self.directory.mkdir(parents=True, exist_ok=True)
                (self.directory / f"{_TOLD}.{call.block or 0}").write_bytes(msgspec.msgpack.encode(block))

        return run
