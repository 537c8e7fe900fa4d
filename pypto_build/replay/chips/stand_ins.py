"""Stand-ins for the names that a driver imports from simpler and PyPTO, and the orchestrator that it gets."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto_build.artifact.distributed import MOST_RANKS
from pypto_build.facts.dtypes import DTYPES, ITEMSIZE
from pypto_build.replay.chips.dispatches import Dispatch, DispatchGraph, DispatchTensor, TensorArgType
from pypto_build.replay.chips.memory import BUFFER_ALIGNMENT, Buffer, Windows, make_windows, round_up
from pypto_build.replay.chips.regions import NO_REGIONS, HostRegions
from pypto_build.replay.chips.tensors import HostTensor, Storage, stand_in_torch
from pypto_build.replay.scalars import natural_dtype, scalar_bits

_MASK = (1 << 64) - 1
_TORCH_NAMES = {row.enum: row.torch for row in DTYPES.values() if row.enum and row.torch and row.name != "INDEX"}
DataType = Enum("DataType", {name: name for name in _TORCH_NAMES})  # type: ignore[misc]


class CommBufferSpec:
    """A buffer of every window of a domain: `count` elements in `nbytes` bytes."""

    def __init__(self, name: str, dtype: Any = "", count: int = 0, nbytes: int = 0, **_: Any) -> None:
        self.name, self.dtype, self.count, self.nbytes = name, dtype, count, nbytes


class CallConfig:
    """The settings of a dispatch, besides its arguments; any attribute may be set."""

    def __init__(self) -> None:
        self.aicpu_thread_num = 0
        self.block_dim = 0
        self.output_prefix = ""


class TaskArgs:
    """The arguments of a dispatch: tensors, then scalars."""

    def __init__(self) -> None:
        self.tensors: list[DispatchTensor] = []
        self.scalars: list[int] = []

    def add_tensor(self, tensor: Any, tag: TensorArgType = TensorArgType.INPUT) -> None:
        """Append a tensor. Raises `TypeError` after a scalar, and for an object that is no tensor of this replay."""
        if self.scalars:
            raise TypeError("cannot add tensor after scalar")
        if isinstance(tensor, WindowTensor):
            self.tensors.append(DispatchTensor(tensor, TensorArgType(tag), windowed=True))
        elif isinstance(tensor, HostTensor):
            self.tensors.append(DispatchTensor(tensor, TensorArgType(tag)))
        else:
            raise TypeError(f"add_tensor: {type(tensor).__name__} is not a tensor")

    def add_scalar(self, value: Any) -> None:
        """Append the 64 bits of a number."""
        plain = getattr(value, "value", value)
        bits = scalar_bits(plain, natural_dtype(plain)) if isinstance(plain, (bool, float)) else int(plain) & _MASK
        self.scalars.append(bits)


class WindowTensor(HostTensor):
    """A tensor in a buffer of a window."""


@dataclass(frozen=True)
class WindowBuffer:
    """One buffer in the window of one rank."""

    windows: Windows
    buffer: Buffer
    rank: int

    @property
    def base(self) -> int:
        """Return its address."""
        return self.windows.addresses[self.windows.ranks.index(self.rank)] + self.buffer.offset

    def tensor(self, *, shapes: Sequence[int], dtype: Any, offset: int = 0) -> WindowTensor:
        """Return a tensor at the beginning of the buffer. Raises `ValueError` for one that is larger."""
        name = _TORCH_NAMES[getattr(dtype, "name", str(dtype))]
        storage = Storage(f"{self.windows.domain}.{self.buffer.name}", self.base, self.buffer.nbytes)
        tensor = WindowTensor(storage, name, shapes, None, offset)
        if (offset + tensor.numel()) * ITEMSIZE[name] > self.buffer.nbytes:
            raise ValueError(
                f"buffer '{self.buffer.name}' of {self.buffer.nbytes} bytes is too small for {list(shapes)} {name}"
            )
        return tensor


@dataclass(frozen=True)
class DomainMember:
    """One rank's part of a domain."""

    buffers: Mapping[str, Any]
    device_ctx: int
    domain_rank: int
    domain_size: int
    name: str = ""
    local_window_base: int = 0
    actual_window_size: int = 0


class ByRanks(Mapping[int, DomainMember]):
    """A domain by ranks; a context manager, whose memory stays until the run ends."""

    def __init__(self, name: str, ranks: Sequence[int]) -> None:
        self.name, self.ranks = name, tuple(ranks)

    def __enter__(self) -> ByRanks:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Iterator[int]:
        return iter(self.ranks)

    def __len__(self) -> int:
        return len(self.ranks)


class Domain(ByRanks):
    """A domain with its windows."""

    def __init__(self, windows: Windows) -> None:
        super().__init__(windows.domain, windows.ranks)
        self.windows = windows

    def __getitem__(self, rank: int) -> DomainMember:
        windows = self.windows
        if rank not in windows.ranks:
            raise KeyError(f"rank {rank} is not a member of domain '{windows.domain}' of ranks {list(windows.ranks)}")
        index = windows.ranks.index(rank)
        buffers = {buffer.name: WindowBuffer(windows, buffer, rank) for buffer in windows.buffers}
        context, base = windows.contexts[index], windows.addresses[index]
        return DomainMember(buffers, context, index, len(windows.ranks), windows.domain, base, windows.size)


@dataclass(frozen=True)
class Handle:
    """The driver's handle of a chip program or a host callable."""

    name: str


@dataclass
class Orchestrator:
    """Records the work that a driver submits. Nothing runs before the driver returns: its calls only enqueue."""

    world: int
    driver: Path
    programs: frozenset[str]
    regions: HostRegions = NO_REGIONS
    graph: DispatchGraph = field(default_factory=DispatchGraph)
    domains: list[Windows] = field(default_factory=list)
    _worker: Any = None
    _next: int = 0
    _groups: int = 0

    def allocate_domain(
        self, *, name: str, workers: Sequence[int], window_size: int, buffers: Sequence[CommBufferSpec] = ()
    ) -> Domain:
        """Return windows for `workers`. Raises `ValueError` for ranks that do not exist, and for buffers beyond the
        window."""
        ranks = tuple(workers)
        if not ranks or len(set(ranks)) < len(ranks) or not all(0 <= rank < self.world for rank in ranks):
            raise ValueError(f"domain '{name}': workers {list(ranks)} are not distinct ranks below {self.world}")
        if len(ranks) > MOST_RANKS:
            raise ValueError(f"domain '{name}': has {len(ranks)} ranks, and at most {MOST_RANKS} are supported")
        placed, offset = [], 0
        for spec in buffers:
            placed.append(Buffer(spec.name, offset, spec.nbytes))
            offset += round_up(spec.nbytes, BUFFER_ALIGNMENT)
        if offset > round_up(window_size, BUFFER_ALIGNMENT):
            raise ValueError(f"domain '{name}': buffers need {offset} bytes, the window has {window_size}")
        self.domains.append(make_windows(name, ranks, max(window_size, offset), placed))
        return Domain(self.domains[-1])

    def attach_region(self, payload: tuple[int, int], counters: tuple[int, int]) -> None:
        """Attach memory that the program which started this replay shares with chips. Each part is an offset and a size
        in bytes. Raises `RuntimeFault` if there is no such memory."""
        self.regions.attach(payload, counters)

    def submit_next_level(self, handle: Any, args: TaskArgs, config: Any = None, *, worker: int) -> Dispatch:
        """Enqueue a chip program on a rank. Raises `ValueError` for an unknown rank or program."""
        return self._submit(handle, args, worker)

    def submit_next_level_group(
        self, handle: Any, args: Sequence[TaskArgs], config: Any = None, *, workers: Sequence[int]
    ) -> list[Dispatch]:
        """Enqueue a chip program on several ranks, which start it together."""
        if len(args) != len(workers):
            raise ValueError(f"{len(args)} arguments for {len(workers)} workers")
        self._groups += 1
        return [self._submit(handle, one, rank, self._groups) for one, rank in zip(args, workers, strict=True)]

    def submit_sub(self, handle: Any, args: TaskArgs | None = None) -> Dispatch:
        """Enqueue a host callable."""
        arguments = args or TaskArgs()
        return self.graph.add(handle.name, None, arguments.tensors, arguments.scalars, self._line())

    def submit_chip(self, handle: Any, args: TaskArgs, config: Any, worker: int | None) -> Dispatch:
        """Enqueue a chip program on a rank; None: on the next one in turn."""
        if worker is None:
            worker, self._next = self._next % self.world, self._next + 1
        return self._submit(handle, args, worker)

    def _submit(self, handle: Any, args: TaskArgs, rank: int, group: int | None = None) -> Dispatch:
        name = getattr(handle, "name", handle)
        if name not in self.programs:
            raise ValueError(f"there is no chip program '{name}' under next_levels/")
        if not 0 <= rank < self.world:
            raise ValueError(f"'{name}' is dispatched to rank {rank}; there are {self.world}: WORLD= names the number")
        for item in args.tensors:
            if not item.tensor.is_contiguous():
                raise ValueError(f"'{name}': {item.tensor} is not contiguous")
        return self.graph.add(name, rank, args.tensors, args.scalars, self._line(), group)

    def _line(self) -> int:
        """Return the driver's line that is being executed."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != str(self.driver):
            frame = frame.f_back  # type: ignore[assignment]
        return frame.f_lineno if frame is not None else 0


def _submit_chip(orch: Orchestrator, handle: Any, args: TaskArgs, config: Any, worker: int | None) -> Dispatch:
    return orch.submit_chip(handle, args, config, worker)


def make_tensor_arg(_worker: Any, tensor: Any) -> Any:
    """Return a host tensor as an argument."""
    return tensor


def _tensor_from_continuous(tensor: Any) -> Any:
    """Return an argument of a host callable unchanged: here it is a tensor already."""
    return tensor


def _modules(torch: bool) -> dict[str, ModuleType]:
    modules = {"torch": stand_in_torch()} if torch else {}
    for name, content in (
        ("simpler", {}),
        (
            "simpler.task_interface",
            {
                "CallConfig": CallConfig,
                "CommBufferSpec": CommBufferSpec,
                "DataType": DataType,
                "TaskArgs": TaskArgs,
                "TensorArgType": TensorArgType,
            },
        ),
        ("pypto", {}),
        ("pypto.runtime", {}),
        ("pypto.runtime.tensor_arg", {"make_tensor_arg": make_tensor_arg}),
        (
            "pypto.runtime.distributed_runner",
            {"_submit_chip": _submit_chip, "_tensor_from_continuous": _tensor_from_continuous},
        ),
    ):
        module = modules[name] = ModuleType(name)
        module.__path__ = []
        vars(module).update(content)
    return modules


@contextmanager
def stand_ins(torch: bool = True) -> Iterator[None]:
    """In the block, make the imports of a driver find stand-ins. Without `torch`, torch itself is imported, as for a
    host callable."""
    modules = _modules(torch)
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
