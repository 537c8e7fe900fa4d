"""The child process: loads the runtime and the compiled files, runs rounds on command, answers with one line of JSON.

It is forked, so it inherits the tensors' memory. A kernel that crashes, hangs, exits or allocates without end harms the
child alone, and not the parent.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact.errors import ArtifactError
from pypto_build.facts.faults import FaultKind
from pypto_build.facts.run_options import FAST, LOG_PATH
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding
from pypto_build.replay.faults import UNHEARD
from pypto_build.replay.loading import KernelBinary, Libraries, LoadingNote
from pypto_build.replay.run_options import SettingValue
from pypto_build.runtime.faults import FaultRecord, RuntimeFault, python_fault
from pypto_build.trace import span

RUN = b"R"

#: The name that the loading note shows while PyTorch is loaded.
REFERENCE = Path("PyTorch")


# Prefixes of the variables that kernels get from the caller: limits, which are in a result's key, and the run's own.
_SEEN = ("PTO2_", LOG_PATH, "PYPTO_PROBE_DIR")
# Variables that have the same value in every run.
_DEFINED = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


# Begin and end of the environment in memory: fields 50 and 51 of /proc/PID/stat, counted from 3 (the state).
_ENVIRONMENT = 50 - 3


def define_environment() -> None:
    """Remove every environment variable that a kernel could read although no result key contains it."""
    tempfile.tempdir = tempfile.gettempdir()
    kept = {name: value for name, value in os.environ.items() if name.startswith(_SEEN)}
    os.environ.clear()
    os.environ.update(kept | _DEFINED)
    _rewrite_initial_environment()


def _rewrite_initial_environment() -> None:
    """Let ``/proc/self/environ`` show this environment instead of the one that the process began with.

    An emulator of another processor does not tell where that is.
    """
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    if len(fields) <= _ENVIRONMENT + 1:
        return
    begin, end = int(fields[_ENVIRONMENT]), int(fields[_ENVIRONMENT + 1])
    shown = b"".join(name + b"=" + value + b"\0" for name, value in os.environb.items())
    ctypes.memmove(begin, shown.ljust(end - begin, b"\0"), end - begin)


@dataclass(frozen=True)
class Job:
    """The settings and files of a child, besides the tensors. `threads` 0 means the number of this machine."""

    embedded: Path
    platform: str
    kernels: tuple[KernelBinary, ...]
    orchestration: Path
    function_name: str
    config_name: str
    scalars: tuple[int, ...]
    threads: int = 0
    options: Mapping[str, SettingValue] = field(default_factory=dict)
    reference: Path | None = None  # the artifact whose .pto modules PyTorch executes instead of the kernels
    numerics: str = FAST  # whose results PyTorch gives

    @property
    def binaries(self) -> tuple[Path, ...]:
        """Return all files that the child loads."""
        return (self.embedded, self.orchestration, *(kernel.path for kernel in self.kernels))

    @property
    def place(self) -> Path:
        """Return a directory on the file system that runs write to."""
        return self.orchestration.parent


class Unwritten(msgspec.Struct):
    """Elements of an OUT tensor that no task wrote; `first` are flat indices."""

    tensor: int
    count: int
    first: list[int]


class InputWrite(msgspec.Struct):
    """The first write to a tensor declared IN, `offset` bytes into it; `in_copy`: it changed a copy of the tensor.

    In a copy it may also have been past the tensor's end.
    """

    tensor: int
    offset: int
    task: str | None
    kernel: str | None
    in_copy: bool


class Origin(msgspec.Struct):
    """The origin of a reply: the rank, the number of its dispatch, and the program of that dispatch. If the rank's
    process ended, `status` is that of `os.waitpid`."""

    rank: int
    dispatch: int
    program: str
    status: int | None = None


class Reply(msgspec.Struct):
    """The child's answer to one round: the statistics of the run, or the fault that ended it.

    A fault of one of several chips has an `origin`; nothing else need be set then. A reply with `loaded` reports only
    that PyTorch has been loaded; it comes before any code of the artifact runs.
    """

    tasks: int = 0
    run_s: float = 0.0
    unwritten: list[Unwritten] = []
    input_writes: list[InputWrite] = []
    fault: FaultRecord | None = None
    loaded: bool = False
    origin: Origin | None = None


#: The file size limit is never below this many bytes.
_MIN_FILE_BYTES = 1 << 30

#: (memory, shape, dtype, direction, name)
TensorBuffer = tuple[memoryview, tuple[int, ...], str, str, str]


def tensor_buffers(binding: Binding, arena: Arena) -> list[TensorBuffer]:
    """Return the tensors of a run in the runtime's form."""
    return [
        (arena.tensor(index), tensor.shape, tensor.dtype, tensor.direction, tensor.name)
        for index, tensor in enumerate(binding.tensors)
    ]


def serve(
    module: Any,
    job: Job,
    tensors: list[TensorBuffer],
    report: memoryview,
    flight: memoryview,
    prebuilt: Libraries | None = None,
) -> None:
    """Run one round for every `RUN` byte that is read, until end of file. The first fault ends the service.

    `module` is the extension module of the embedded runtime; its process is the parent of this one. A child that is
    started before the build ends gets `prebuilt`, the existing libraries. Before its first round it loads those
    that have changed since.
    """
    process = os.getpid()

    def reply(message: Reply) -> None:
        if os.getpid() != process:  # a kernel forked, and the copy came back too
            os._exit(0)
        data = msgspec.json.encode(message) + b"\n"
        try:
            while data:
                data = data[os.write(module.RESULTS, data) :]
        except OSError:  # a kernel closed it, or the parent is gone
            os._exit(UNHEARD)

    try:
        note = LoadingNote(report)
        options = {**job.options, "report": report, "flight": flight, **_hook(job, note)}
        if job.reference is not None:  # no code of the artifact has run yet, so the parent can trust this
            reply(Reply(loaded=True))
        libraries, command = prebuilt or Libraries(module, job), b""
        if prebuilt:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the parent had blocked it
            with span("the run: load libraries ahead"):
                libraries.load_ahead()
            command = os.read(module.COMMANDS, 1)
            if command != RUN:
                return
        with span("the run: load libraries"):
            runtime = libraries.runtime(job, note)
        while (command or os.read(module.COMMANDS, 1)) == RUN:
            command = b""
            try:
                with span("the run: tasks"):
                    stats = runtime.run(tensors=tensors, scalars=list(job.scalars), options=options)
            finally:
                module.flush_output()
            reply(_stats_reply(stats))
    except RuntimeFault as fault:
        reply(Reply(fault=fault.record))
    except ArtifactError as error:
        prefix = f"{error.path}: " if error.path else ""
        kind = FaultKind.NOT_TRANSLATED if error.kind == "build_error" else FaultKind.UNUSABLE_INPUT
        reply(Reply(fault=python_fault(kind, f"{prefix}{error.message}", hint=error.hint)))
    except Exception as error:  # an exception of C++ code that the runtime did not catch
        kind = FaultKind.OUT_OF_MEMORY if isinstance(error, MemoryError) else FaultKind.ESCAPED_EXCEPTION
        reply(Reply(fault=python_fault(kind, str(error) or type(error).__name__)))


def _hook(job: Job, note: LoadingNote) -> dict[str, Any]:
    """Return the option that makes PyTorch execute the tasks in place of the kernels; torch is only imported here."""
    if job.reference is None:
        return {}
    note.set(REFERENCE)
    from pypto_build.replay.reference.hook import ReferenceHook

    note.set(None)
    return {"on_task": ReferenceHook(job.reference, job.numerics)}


def _stats_reply(stats: Any) -> Reply:
    """Return the statistics of a run as a reply."""
    return Reply(
        tasks=stats.tasks,
        run_s=stats.run_s,
        unwritten=[Unwritten(item.tensor, item.count, list(item.first)) for item in stats.unwritten],
        input_writes=[
            InputWrite(
                item.tensor,
                item.offset,
                None if item.task is None else str(item.task),
                item.kernel or None,
                item.in_copy,
            )
            for item in stats.input_writes
        ],
    )


def limit_resources(memory_bytes: int, cpu_s: int, directory: Path) -> None:
    """Limit data memory, limit files to half of the free space at `place`, and disable core dumps. A limit of processor
    time ends the process if its parent no longer does."""
    room = os.statvfs(directory)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, max(room.f_bavail * room.f_frsize // 2, _MIN_FILE_BYTES))
    _limit(resource.RLIMIT_CPU, cpu_s)


def _limit(what: int, value: int) -> None:
    """Lower a limit."""
    _, hard = resource.getrlimit(what)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, hard))


def leave(body: Callable[[], None]) -> None:
    """Run `body` in a forked child and leave without any of the parent's clean-up. Does not return."""
    status = 70
    try:
        body()
        status = 0
    except BaseException as error:
        print(f"replay: internal error in the child process: {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        with suppress(OSError, ValueError):  # a kernel closed them
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
