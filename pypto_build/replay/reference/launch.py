"""Runs a built artifact with a callback in place of the kernels, in a process of its own, for diagnostic tools."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import importlib
import io
import mmap
import multiprocessing
import os
import pickle
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pypto_build import terminal
from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.interface import Interface, read_interface
from pypto_build.artifact.pt import write_pt
from pypto_build.artifact.records import kernel_binary
from pypto_build.artifact.snapshot import REFERENCE, is_reference, snapshot
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.facts.run_options import NUMERICS
from pypto_build.facts.system_calls import refuse_calls
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding, bind
from pypto_build.replay.child import tensor_buffers
from pypto_build.replay.faults import RunFault
from pypto_build.replay.listener import no_reply
from pypto_build.replay.loading import load_embedded
from pypto_build.replay.request import Request
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.replay.worker import LOADING_S
from pypto_build.runtime.faults import RuntimeFault

# Reads data from a child that ran code of an artifact: values and our own records, without calling any function.

_PLAIN = {
    ("pathlib", "PosixPath"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "complex"),
    ("builtins", "memoryview"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if module.startswith("pypto_build.") and "." not in name:
            cls = super().find_class(module, name)
            if isinstance(cls, type) and cls.__module__ == module and _is_record(cls):
                return cls
        raise pickle.UnpicklingError(f"{module}.{name} is not an allowed type in this data")


def written(value: Any) -> bytes:
    """Return the bytes that ``read_value`` reads. Objects are written by themselves, without reducers of other
    packages.

    Raises an error of pickle for a value that cannot be sent.
    """
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream)
    pickler.dispatch_table = {memoryview: lambda view: (memoryview, (bytes(view),))}
    pickler.dump(value)
    return stream.getvalue()


def _is_record(kind: type) -> bool:
    if issubclass(kind, tuple):
        return hasattr(kind, "_fields")  # a NamedTuple, whose `__new__` makes a tuple and does nothing else
    return dataclasses.is_dataclass(kind) or issubclass(kind, (enum.Enum, Exception, msgspec.Struct))


def read_value(data: bytes) -> Any:
    """Return the value. Raises ValueError for invalid bytes."""
    try:
        return _Reader(io.BytesIO(data)).load()
    except Exception as error:  # invalid bytes can raise any exception
        raise ValueError(str(error)) from None


Result = TypeVar("Result")

_REST_S = 1.0  # limit for reading the rest of a child's output


@dataclass
class Launch:
    """An artifact built in `build_dir`, with its data. `arena` has the tensors of the last run."""

    artifact: Path
    build_dir: Path
    embedded: Path
    platform: str
    interface: Interface
    binding: Binding
    arena: Arena
    options: dict[str, Any] = field(default_factory=dict)
    binaries: Path | None = None  # the directory of kernels/ and orchestration/, if elsewhere
    numerics: str = NUMERICS[0]  # whose results the kernels were compiled to give
    _runtime: Any = field(default=None, init=False, repr=False)
    _built_paths: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def replace(self, func_id: int, library: Path) -> None:
        """Use another build of a kernel from now on; the callback of a run calls this."""
        if self._runtime is not None:
            self._runtime.replace_kernel(func_id, str(library))

    def run(self, callback: Callable[[Any], None] | None, libraries: Mapping[str, Path] | None = None) -> Any:
        """Run the orchestration on fresh inputs, with `callback` for each task in submission order (None: the kernels).
        `libraries` replace the kernels of these names. Returns the runtime's statistics. Raises RuntimeFault, and any
        exception of the callback."""
        for index, tensor in enumerate(self.binding.tensors):
            self.arena.fill(index, tensor.initial)
        module = load_embedded(self.embedded)
        runtime = self._runtime = module.Runtime(platform=self.platform, threads=0)
        for kernel in self.interface.kernels:
            path = (libraries or {}).get(kernel.name)
            text = self._built(kernel.core_type, kernel.name) if path is None else str(path)
            runtime.load_kernel(kernel.func_id, kernel.name, kernel.core_type, text)
        entry = self.interface.orchestration
        orchestration = self._binaries / f"{entry.binary}.so"
        runtime.load_orchestration(str(orchestration), entry.function_name, entry.config_name)
        tensors = tensor_buffers(self.binding, self.arena)
        scalars = [scalar.bits for scalar in self.binding.scalars]
        options = {"protect_inputs": False, **self.options, "on_task": callback}  # a copy would lie elsewhere
        return runtime.run(tensors=tensors, scalars=scalars, options=options)

    def _built(self, core_type: str, name: str) -> str:
        """Return the path of a built kernel; empty if it is not built. The result is cached."""
        if name not in self._built_paths:
            path = self.library(core_type, name)
            self._built_paths[name] = str(path) if path.is_file() else ""
        return self._built_paths[name]

    def library(self, core_type: str, name: str) -> Path:
        """Return the path at which a kernel is built."""
        return self._binaries / f"{kernel_binary(core_type, name)}.so"

    @property
    def _binaries(self) -> Path:
        return self.binaries or self.build_dir


def open_launch(
    artifact: Path,
    build_dir: Path,
    embedded: Path,
    platform: str,
    data: Path | None = None,
    seed: int = 0,
    binaries: Path | None = None,
    numerics: str = NUMERICS[0],
) -> Launch:
    """Return a launch of the build in a directory, with its data; DATA=reference has inputs alone. Raises
    ArtifactError."""
    interface = read_interface(build_dir / "interface.json")
    if is_reference(data):
        binding = reference_inputs(interface, artifact, seed)
    else:
        binding = bind(interface, snapshot(artifact, data), artifact, seed=seed)
    arena = Arena([tensor.nbytes for tensor in binding.tensors])
    options = {"seed": seed, "output_dir": str(build_dir / "dfx_outputs")}
    return Launch(artifact, build_dir, embedded, platform, interface, binding, arena, options, binaries, numerics)


def reference_inputs(interface: Interface, artifact: Path, seed: int) -> Binding:
    """Return the arguments of DATA=reference: the artifact's `data/in`, or random ones without it. A seed above 0
    replaces floating-point numbers by others of the same shapes; integers (tables, lengths) stay."""
    binding = bind(interface, snapshot(artifact), artifact, seed=seed)
    return _other_numbers(binding, seed) if seed and binding.seed is None else binding


def _other_numbers(binding: Binding, seed: int) -> Binding:
    from pypto_build.replay.values import seeded_bytes

    tensors = tuple(
        replace(tensor, initial=seeded_bytes(seed, tensor.name, tensor.dtype, tensor.shape))
        if tensor.initial is not None and "float" in tensor.dtype
        else tensor
        for tensor in binding.tensors
    )
    return replace(binding, tensors=tensors)


class Progress:
    """The number of the current task, in memory that the parent can still read when the child dies."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)
        self.set(-1)

    def set(self, number: int) -> None:
        self._memory[:8] = struct.pack("<q", number)

    @property
    def task(self) -> int:
        return int(struct.unpack("<q", self._memory[:8])[0])


def in_child(work: Callable[[], Result], progress: Progress, timeout_s: float, *, loads: str = "torch") -> Result:
    """Run `work` in a forked child, and return its result. Loading PyTorch there does not count for the time limit.

    `loads` names a smaller package if no reference is needed. Raises ArtifactError from `work`, and RunFault for a
    crash, the time limit, and any other exception.
    """
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    printed, printing = os.pipe()
    child = context.Process(target=_serve, args=(work, send, loads, printing), daemon=True)
    child.start()
    send.close()
    os.close(printing)
    listener = threading.Thread(target=_pass_on, args=(printed,), daemon=True)
    listener.start()
    try:
        if receive.poll(LOADING_S):
            receive.recv_bytes()
        if not receive.poll(timeout_s):
            text = f"the run had not finished after {timeout_s:g} s, {_where(progress)}"
            raise RunFault("hang", ErrorInfo("hang", text, hint="raise the limit with TIMEOUT="))
        kind, value = read_value(receive.recv_bytes())
    except (ValueError, TypeError):
        raise no_reply() from None
    except EOFError:
        child.join()
        text = f"the run died {_where(progress)} (exit status {child.exitcode})"
        hint = "run 'scons replay', which names the kernel and the cause"
        raise RunFault("runtime_error", ErrorInfo("crash", text, hint=hint)) from None
    finally:
        child.kill()
        child.join()
        listener.join(_REST_S)  # something may hold the pipe open
    if kind == "artifact":
        raise value
    if kind == "fault":
        raise RunFault(value[1], ErrorInfo(value[1], value[0]))
    result: Result = value
    return result


def _where(progress: Progress) -> str:
    return f"in task {progress.task}" if progress.task >= 0 else "before the first task"


def _pass_on(printed: int) -> None:
    """Print the output of the child, line by line, marked."""
    with open(printed, encoding="utf-8", errors="backslashreplace", newline="\n") as lines:
        for line in lines:
            terminal.pass_on(terminal.marked(line.rstrip("\r\n")), error=False)


def _serve(work: Callable[[], Any], send: Connection, loads: str, printing: int) -> None:
    for stream in (1, 2):
        os.dup2(printing, stream)
    os.close(printing)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)  # the threads of a parent that has used torch are not here, and would be waited for
    else:
        importlib.import_module(loads)
    send.send_bytes(b"loaded")
    refuse_calls()
    try:
        result = work()
        ctypes.CDLL(None).fflush(None)  # printed text, as the parent ends this process after its answer
        send.send_bytes(written(("result", result)))
    except ArtifactError as error:
        send.send_bytes(written(("artifact", ArtifactError(error.path, error.message, error.hint, kind=error.kind))))
    except Exception as error:
        status = "hang" if isinstance(error, RuntimeFault) and error.kind == "hang" else "runtime_error"
        send.send_bytes(written(("fault", (str(error) or type(error).__name__, status))))


def make_goldens(request: Request) -> Path:
    """Write ``RESULTS``/reference/{in,out}/*.pt, of the `reference_inputs`, and return that directory.

    Raises ArtifactError and RunFault.
    """
    artifact, build_dir, seed = request.artifact_dir, request.build_dir, request.seed
    interface = read_interface(build_dir / "interface.json")
    binding = reference_inputs(interface, artifact, seed)
    arena = Arena([tensor.nbytes for tensor in binding.tensors])
    options = {"seed": seed, "output_dir": str(request.results_dir / "dfx_outputs"), "poison": False}
    files = request.embedded, request.platform, interface, binding, arena, options, request.binaries
    launch = Launch(artifact, build_dir, *files)
    progress = Progress()

    def run() -> None:
        from pypto_build.replay.reference.hook import ReferenceHook

        hook = ReferenceHook(artifact)

        def task(call: Any) -> None:
            progress.set(call.number)
            hook(call)

        launch.run(task)

    in_child(run, progress, request.timeout_s)
    return _write(request.results_dir / REFERENCE, binding, arena)


def _write(root: Path, binding: Binding, arena: Arena) -> Path:
    for stale in root.glob("*/*.pt"):
        stale.unlink()
    for index, tensor in enumerate(binding.tensors):
        if tensor.direction != "OUT" and tensor.initial is not None:
            write_pt(root / "in" / f"{tensor.name}.pt", tensor.dtype, tensor.shape, tensor.initial)
        if tensor.direction != "IN":
            write_pt(root / "out" / f"{tensor.name}.pt", tensor.dtype, tensor.shape, arena.tensor(index))
    for scalar in binding.scalars:
        raw = scalar.bits.to_bytes(8, "little")[: ITEMSIZE[scalar.dtype]]
        write_pt(root / "in" / f"{scalar.name}.pt", scalar.dtype, (), raw)
    return root
