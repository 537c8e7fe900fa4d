"""The child of a run that is started before its turn: it has loaded the libraries, and the tensors' memory is mapped.

A child that was started early is only a prefetch. When the turn comes, the parent reads all inputs as usual. It uses
the child only if that was started for exactly this run. The child then checks each library again, and reloads those
that have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.interface import Interface, read_interface
from pypto_build.artifact.snapshot import is_reference, snapshot
from pypto_build.facts.run_options import EMBEDDED
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding, bind, lent
from pypto_build.replay.child import serve, tensor_buffers
from pypto_build.replay.embedded import job_of, require_files
from pypto_build.replay.faults import RunFault
from pypto_build.replay.loading import Files, Libraries, load_embedded
from pypto_build.replay.request import Request
from pypto_build.replay.worker import Worker, bounds_of, default_memory_bytes
from pypto_build.trace import span

# A run whose tensors need more than 1/_SHARE of memory is not started ahead: another run may need that memory first.
_SHARE = 8


@dataclass
class PrestartedChild:
    """A child that was started ahead of a run, with the memory of the tensors."""

    _started_for: tuple[Request, Interface, Sequence[object]]
    _files: Files
    _arena: Arena
    _worker: Worker | None

    def take(self, request: Request, interface: Interface, binding: Binding) -> tuple[Worker, Arena] | None:
        """Return the child and its memory if it still runs and was started for exactly this request; else end it and
        return None."""
        worker = self._worker
        if worker is None or not worker.is_usable or self._started_for != (request, interface, _looks(binding)):
            self.cancel()
            return None
        if not self._files_are_whole():
            self.cancel()
            return None
        self._worker = None
        return worker, self._arena

    def _files_are_whole(self) -> bool:
        """Return whether no loaded library was overwritten in place. A library that another file replaced is fine, as
        it can be reloaded. A library that was overwritten while it was loaded can be neither used nor unloaded."""
        changed = list(self._files.changed())
        require_files(path for path, _ in changed)
        return all(is_other for _, is_other in changed)

    def cancel(self) -> None:
        """End the child, unless `take` has handed it out."""
        worker, self._worker = self._worker, None
        if worker is not None:
            with worker:
                pass


def prestart_child(request: Request, libraries: Libraries | None = None) -> PrestartedChild | None:
    """Start the child of a run that will probably be requested; this process already has ``libraries`` loaded.

    Returns None for any error: the run itself reports that when its turn comes.
    """
    if request.runtime != EMBEDDED or is_reference(request.data):
        return None
    try:
        with span("load ahead"):
            return _start(request, libraries)
    except (ArtifactError, RunFault, ImportError, OSError):
        return None


def _start(request: Request, libraries: Libraries | None) -> PrestartedChild | None:
    interface = read_interface(request.build_dir / "interface.json")
    data = snapshot(request.artifact_dir, request.data, request.golden)
    if not data.inputs:  # making them up takes its time
        return None
    binding = bind(interface, data, request.artifact_dir, seed=request.seed, scalars=request.scalars)
    if lent(binding):  # the file may be another one when the turn comes
        return None
    arena = Arena([tensor.nbytes for tensor in binding.tensors])
    job = job_of(request, interface, binding)
    module = load_embedded(request.embedded)
    if libraries is None or not libraries.is_for(module, job):
        libraries = Libraries(module, job)
    files = Files(module, map(str, job.binaries))
    worker = Worker(job, tensor_buffers(binding, arena), bounds_of(request), partial(serve, prebuilt=libraries))
    if sum(tensor.nbytes for tensor in binding.tensors) * _SHARE <= default_memory_bytes():
        for index, tensor in enumerate(binding.tensors):
            if tensor.initial is not None:
                arena.fill(index, tensor.initial)
    return PrestartedChild((request, interface, _looks(binding)), files, arena, worker)


def _looks(binding: Binding) -> Sequence[object]:
    """Return the properties that a child's arguments must have in common: those of the tensors except their
    contents, and scalars.
    """
    tensors = [(tensor.name, tensor.direction, tensor.dtype, tensor.shape) for tensor in binding.tensors]
    return [*tensors, *binding.scalars]
