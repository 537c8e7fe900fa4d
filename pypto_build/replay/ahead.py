"""A run's child that is started before its turn: it has loaded what was there, and the tensors' memory is mapped.

Nothing is believed because of it. When the turn comes everything is read as if nothing had been, and the child is used
only if it was started for just that; it looks at each library again, and loads those that are not what they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.interface import Interface, read_interface
from pypto_build.artifact.snapshot import is_reference, snapshot
from pypto_build.facts.run_options import EMBEDDED
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding, bind, lent
from pypto_build.replay.child import serve
from pypto_build.replay.embedded import job_of, require_files, start_worker
from pypto_build.replay.faults import RunFault
from pypto_build.replay.loading import Files, Libraries, load_embedded
from pypto_build.replay.request import Request
from pypto_build.replay.worker import Worker, default_memory_bytes
from pypto_build.trace import span

# More tensors than this part of the memory are left for their turn: somebody may need it before.
_SHARE = 8


class Ahead:
    """A child that does a job of these, with the memory of the tensors."""

    def __init__(
        self, request: Request, interface: Interface, binding: Binding, files: Files, arena: Arena, worker: Worker
    ) -> None:
        self._started_for, self._files, self._arena = (request, interface, _looks(binding)), files, arena
        self._worker: Worker | None = worker

    def take(self, request: Request, interface: Interface, binding: Binding) -> tuple[Worker, Arena] | None:
        """The child and its memory, if it was started for just this and is still there; else it is ended."""
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
        """Whether the libraries that were loaded are as they were, though others may lie in their places: one that was
        written to while it was loaded can be neither used nor unloaded."""
        changed = list(self._files.changed())
        require_files(path for path, _ in changed)
        return all(is_other for _, is_other in changed)

    def cancel(self) -> None:
        """End the child, unless somebody has taken it."""
        worker, self._worker = self._worker, None
        if worker is not None:
            with worker:
                pass


def start_ahead(request: Request, libraries: Libraries | None = None) -> Ahead | None:
    """Start the child of a run that will most likely be wanted; this process has ``libraries`` loaded already.

    Whatever is wrong is said when the turn comes.
    """
    if request.runtime != EMBEDDED or is_reference(request.data):
        return None
    try:
        with span("load ahead"):
            return _start(request, libraries)
    except (ArtifactError, RunFault, ImportError, OSError):
        return None


def _start(request: Request, libraries: Libraries | None) -> Ahead | None:
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
    worker = start_worker(request, job, binding, arena, body=partial(serve, ahead=libraries))
    if sum(tensor.nbytes for tensor in binding.tensors) * _SHARE <= default_memory_bytes():
        for index, tensor in enumerate(binding.tensors):
            if tensor.initial is not None:
                arena.fill(index, tensor.initial)
    return Ahead(request, interface, binding, files, arena, worker)


def _looks(binding: Binding) -> Sequence[object]:
    """What a child is told of arguments besides what tensors hold."""
    tensors = [(tensor.name, tensor.direction, tensor.dtype, tensor.shape) for tensor in binding.tensors]
    return [*tensors, *binding.scalars]
