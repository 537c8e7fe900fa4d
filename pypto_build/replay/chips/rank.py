"""The process of one rank: executes dispatches one by one on the embedded runtime."""

from __future__ import annotations

import ctypes
import inspect
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pypto_build.artifact.errors import require_torch
from pypto_build.facts.faults import FaultKind
from pypto_build.replay.chips.dispatches import Dispatch
from pypto_build.replay.chips.driver import stand_ins
from pypto_build.replay.chips.memory import HostTensor
from pypto_build.replay.faults import UNHEARD
from pypto_build.runtime.faults import FaultRecord, RuntimeFault, python_fault

if TYPE_CHECKING:
    import torch


# Host callables: Python functions of an artifact that run between dispatches, on host tensors as torch has them.


def call_host(files: Mapping[str, Path], dispatch: Dispatch) -> RankReply:
    """Call the function named after its file, with the dispatch's tensors and then its scalars; it writes in place. A
    function that the compiler wrapped, whose only parameter is ``args``, gets them as a list.

    Raises `RuntimeFault` with file and line for any exception of the function.
    """
    require_torch("sub_workers/")
    path = files[dispatch.program]
    namespace: dict[str, Any] = {"__name__": dispatch.program, "__file__": str(path)}
    try:
        with stand_ins(torch=False):
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
        function = namespace.get(dispatch.program)
        if not callable(function):
            raise TypeError(f"defines no function '{dispatch.program}'")
        arguments = [*(as_torch(item.tensor) for item in dispatch.tensors), *dispatch.scalars]
        wrapped = list(inspect.signature(function).parameters) == ["args"]
        function(*([arguments] if wrapped else arguments))
    except Exception as error:
        raise RuntimeFault(_fault(path, error)) from None
    finally:
        sys.stdout.flush()  # the process ends without
    return RankReply()


def as_torch(tensor: HostTensor) -> torch.Tensor:
    """Return a torch tensor on the same memory."""
    import torch

    storage = (ctypes.c_char * max(tensor.storage.nbytes, 1)).from_address(tensor.storage.address)
    whole = torch.frombuffer(storage, dtype=getattr(torch, tensor.dtype))
    return whole.as_strided(tensor.shape, tensor.strides, tensor.offset)


def _fault(path: Path, error: Exception) -> Any:
    import traceback

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = f":{lines[-1]}" if lines else ""
    text = f"sub_workers/{path.name}{line}: {type(error).__name__}: {error}"
    if getattr(error, "says_where", False):  # the function of a scene test, in another file
        text = str(error)
    return python_fault(FaultKind.DRIVER, text, hint="correct the host callable")


class RankReply(msgspec.Struct):
    """The result of a dispatch: its number of tasks, or its fault."""

    tasks: int = 0
    fault: FaultRecord | None = None


class RankProcess:
    """A forked process that executes dispatches. `fileno` is readable once it has answered, or has ended."""

    def __init__(self, rank: int, execute: Callable[[int], RankReply]) -> None:
        self.rank, self.status = rank, 0
        self.current: Dispatch | None = None
        commands, self._commands = os.pipe()
        self._replies, replies = os.pipe()
        self._pending = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._commands)
            os.close(self._replies)
            _serve(commands, replies, execute)
        os.close(commands)
        os.close(replies)

    def fileno(self) -> int:
        """Return the descriptor on which its replies arrive."""
        return self._replies

    def start(self, dispatch: Dispatch) -> None:
        """Tell the process to execute a dispatch."""
        self.current = dispatch
        with suppress(BrokenPipeError):  # the process has ended, which reply() reports
            os.write(self._commands, f"{dispatch.number}\n".encode())

    def reply(self) -> RankReply | None:
        """Return its reply; None if it has ended, and then `status` is as of `os.waitpid`."""
        while b"\n" not in self._pending:
            data = os.read(self._replies, 1 << 16)
            if not data:
                _, self.status = os.waitpid(self.pid, 0)
                self.pid = 0
                return None
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return msgspec.json.decode(line, type=RankReply)

    def end(self) -> None:
        """Kill the process: its output is complete, or no longer needed."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        os.close(self._replies)
        os.close(self._commands)


def _serve(commands: int, replies: int, execute: Callable[[int], RankReply]) -> None:
    """Do the work of the process. Does not return."""
    status = UNHEARD
    try:
        with os.fdopen(commands, "rb") as lines:
            for line in lines:
                os.write(replies, msgspec.json.encode(_answer(execute, int(line))) + b"\n")
        status = 0
    except OSError:  # a kernel closed what the answer goes through
        pass
    finally:
        os._exit(status)


def _answer(execute: Callable[[int], RankReply], number: int) -> RankReply:
    process = os.getpid()
    try:
        return execute(number)
    except RuntimeFault as fault:
        return RankReply(fault=fault.record)
    except Exception as error:
        kind = FaultKind.OUT_OF_MEMORY if isinstance(error, MemoryError) else FaultKind.ESCAPED_EXCEPTION
        return RankReply(fault=python_fault(kind, str(error) or type(error).__name__))
    finally:
        if os.getpid() != process:  # a kernel forked, and the copy came back too
            os._exit(0)


def execute_dispatch(
    module: Any,
    runtimes: Mapping[str, Any],
    dispatches: Sequence[Dispatch],
    options: Callable[[Dispatch], Mapping[str, Any]],
    number: int,
) -> RankReply:
    """Run one dispatch on the runtime of its program."""
    dispatch = dispatches[number]
    tensors = [
        (item.tensor.address, list(item.tensor.shape), item.tensor.dtype, item.direction, item.tensor.storage.name)
        for item in dispatch.tensors
    ]
    try:
        stats = runtimes[dispatch.program].run(
            tensors=tensors, scalars=list(dispatch.scalars), options=dict(options(dispatch))
        )
    finally:
        module.flush_output()
    return RankReply(tasks=stats.tasks)


def write_program(directory: Path, program: str) -> None:
    """Write the program's name beside the records of a dispatch."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "dispatch_program.json").write_bytes(msgspec.json.encode({"program": program}))
