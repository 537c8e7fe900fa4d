"""Runs cases: each in a process of its own, forked from one that has loaded everything, several of those at once."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.sweep.cases import SweepCase, Symbol, bound
from pypto_build.diagnose.sweep.errors import Distribution, OutputError, compare
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding
from pypto_build.replay.faults import RunFault
from pypto_build.replay.reference.launch import Launch, Progress, in_child

GOLDEN, MODULES = "golden.py", "the .pto modules"


class Result(msgspec.Struct, frozen=True):
    """Result of a case: pass, mismatch, fault (of the kernels) or unknown (the reference has no answer)."""

    seed: int
    kind: str
    sizes: tuple[int, ...]
    status: str
    elements: int = 0
    outputs: tuple[OutputError, ...] = ()
    message: str = ""

    @property
    def case(self) -> SweepCase:
        """The case."""
        return SweepCase(self.seed, self.kind, self.sizes)

    @property
    def failed(self) -> bool:
        """Return whether the case failed because of the kernels: a mismatch or a fault."""
        return self.status in ("mismatch", "fault")


class Document(msgspec.Struct):
    """A sweep as a file: what JSON= gets, and what comes back from a farm."""

    artifact: str
    oracle: str
    rtol: float
    atol: float
    sizes: list[str]
    outputs: list[Distribution]
    smallest: Result | None
    cases: list[Result]
    schema: int = 1


@dataclass(frozen=True)
class Sweep:
    """Settings that all cases share; ``oracle`` names the source of the expected outputs."""

    launch: Launch
    symbols: tuple[Symbol, ...]
    oracle: str
    rtol: float
    atol: float
    timeout_s: float

    def run(self, case: SweepCase) -> Result:
        """One case, in a process of its own."""
        progress = Progress()
        try:
            return in_child(lambda: self._inside(case, progress), progress, self.timeout_s)
        except RunFault as fault:
            return Result(case.seed, case.kind, case.sizes, "fault", message=fault.error.message)

    def data(self, case: SweepCase) -> tuple[Binding, dict[str, bytes]]:
        """The arguments of a case, and what its outputs should be; nothing where the reference does not know."""
        binding = bound(self.launch.binding, case, self.symbols)
        progress = Progress()
        try:
            return binding, in_child(lambda: self._expected(binding, progress), progress, self.timeout_s)
        except RunFault:
            return binding, {}

    def _inside(self, case: SweepCase, progress: Progress) -> Result:
        binding = bound(self.launch.binding, case, self.symbols)
        elements = sum(tensor.numel for tensor in binding.tensors)
        told = (case.seed, case.kind, case.sizes)
        try:
            actual = self._run(binding, progress, lambda call: call.run())
        except Exception as fault:  # of the runtime, whatever its kind
            return Result(*told, "fault", elements, message=str(fault))
        try:
            expected = self._expected(binding, progress)
        except Exception as error:  # of golden.py, which is anybody's code, or of the reference
            return Result(*told, "unknown", elements, message=f"{self.oracle}: {type(error).__name__}: {error}"[:500])
        outputs = tuple(
            compare(tensor.name, tensor.dtype, actual[tensor.name], expected[tensor.name], self.rtol, self.atol)
            for tensor in binding.tensors
            if tensor.name in expected
        )
        status = "mismatch" if any(one.mismatched for one in outputs) else "pass"
        return Result(*told, status, elements, outputs)

    def _run(self, binding: Binding, progress: Progress, execute: Callable[[Any], object]) -> dict[str, bytes]:
        """The outputs of a run in which ``execute`` is called for every task."""
        arena = Arena([tensor.nbytes for tensor in binding.tensors])

        def task(call: Any) -> None:
            progress.set(call.number)
            execute(call)

        replace(self.launch, binding=binding, arena=arena).run(task)
        return {
            tensor.name: bytes(arena.tensor(index))
            for index, tensor in enumerate(binding.tensors)
            if tensor.direction != "IN"
        }

    def _expected(self, binding: Binding, progress: Progress) -> dict[str, bytes]:
        if self.oracle == GOLDEN:
            return golden_outputs(self.launch.artifact, binding)
        from pypto_build.replay.reference.hook import ReferenceHook

        return self._run(binding, progress, ReferenceHook(self.launch.artifact, self.launch.numerics))


def golden_outputs(artifact: Path, binding: Binding) -> dict[str, bytes]:
    """Run ``compute_golden`` of the artifact's golden.py on these arguments and return the bytes of its outputs."""
    import runpy

    import torch

    found = runpy.run_path(str(artifact / GOLDEN))
    tensors: dict[str, Any] = {}
    for one in binding.tensors:
        dtype = getattr(torch, one.dtype)
        raw = bytearray(one.initial if one.initial is not None else bytes(one.nbytes))
        tensors[one.name] = torch.frombuffer(raw, dtype=dtype).reshape(one.shape) if raw else torch.zeros(one.shape)
    tensors |= {one.name: torch.tensor(one.value, dtype=getattr(torch, one.dtype)) for one in binding.scalars}
    found["compute_golden"](tensors, {"name": "Default"})
    written = {one.name for one in binding.tensors if one.direction != "IN"}
    names = [name for name in found.get("__outputs__", sorted(written)) if name in written]
    return {name: tensors[name].detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for name in names}


def run_all(sweep: Sweep, cases: Sequence[SweepCase], jobs: int) -> Iterator[Result]:
    """The results as they come. Each of ``jobs`` processes takes its share of the cases in turn."""
    importlib.import_module("torch")  # once, so that every fork has it
    context = multiprocessing.get_context("fork")
    workers = []
    for share in range(max(1, min(jobs, len(cases)))):
        receive, send = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(sweep, cases[share :: max(1, jobs)], send))
        worker.start()
        send.close()
        workers.append((receive, worker))
    try:
        open_pipes: list[Any] = [receive for receive, _ in workers]
        while open_pipes:
            for pipe in wait(open_pipes):
                received = _received(pipe)
                if received is None:
                    open_pipes.remove(pipe)
                else:
                    yield received
    finally:
        for _, worker in workers:
            worker.terminate()
            worker.join()


def _received(pipe: Any) -> Result | None:
    """A result, or the error for which a share could not go on; None at the end."""
    try:
        data = pipe.recv_bytes()
    except EOFError:
        return None
    word, content = data[:1], data[1:]
    if word == b"E":
        raise ArtifactError(*msgspec.msgpack.decode(content, type=tuple[str, str, str]))
    return msgspec.msgpack.decode(content, type=Result)


def _work(sweep: Sweep, cases: Sequence[SweepCase], send: Connection) -> None:
    try:
        for case in cases:
            send.send_bytes(b"R" + msgspec.msgpack.encode(sweep.run(case)))
    except ArtifactError as error:
        send.send_bytes(b"E" + msgspec.msgpack.encode((str(error.path), error.message, error.hint)))
    except (BrokenPipeError, KeyboardInterrupt):
        pass
