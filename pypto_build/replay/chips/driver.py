"""Executes the driver of a distributed artifact, which submits work, and records its dispatches.

The driver imports stand-ins under the names of simpler and PyPTO. This happens in the child process of the replay, and
never where files are merely inspected.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto_build.artifact.distributed import MOST_RANKS
from pypto_build.facts.dtypes import ITEMSIZE, TORCH
from pypto_build.facts.faults import FaultKind
from pypto_build.replay.chips.dispatches import Dispatch, DispatchGraph, DispatchTensor, Plan, TensorArgType
from pypto_build.replay.chips.memory import (
    BUFFER_ALIGNMENT,
    NO_REGIONS,
    Buffer,
    HostRegions,
    HostTensor,
    Storage,
    Windows,
    make_windows,
    round_up,
    stand_in_torch,
)
from pypto_build.replay.scalars import natural_dtype, scalar_bits
from pypto_build.runtime.faults import RuntimeFault, python_fault

_MASK = (1 << 64) - 1
_NUMBERED = (
    *("FLOAT32", "FLOAT16", "INT32", "INT16", "INT8", "UINT8", "BFLOAT16", "INT64", "UINT64", "UINT16", "UINT32"),
    *("BOOL", "FP8E4M3FN", "FP8E8M0", "FP4E2M1"),
)
#: simpler's element types by their numbers.
DataType = IntEnum("DataType", {name: number for number, name in enumerate(_NUMBERED)})  # type: ignore[misc]
#: torch's names; a type that torch lacks is stored as bytes.
_TORCH_NAMES = {"FP4E2M1": "uint8"} | {row.enum: row.torch for row in TORCH.values() if row.enum}


def dtype_name(dtype: Any) -> str:
    """Return torch's name for an element type of simpler's, or for its number."""
    return _TORCH_NAMES[DataType(dtype).name]


class CommBufferSpec:
    """A buffer of every window of a domain: `count` elements in `nbytes` bytes."""

    def __init__(self, name: str, dtype: Any = "", count: int = 0, nbytes: int = 0, **_: Any) -> None:
        self.name, self.dtype, self.count, self.nbytes = name, dtype, count, nbytes


@dataclass
class RuntimeEnv:
    """Sizes of the rings; 0 means the default."""

    ring_task_window: Any = 0
    ring_heap: Any = 0
    ring_dep_pool: Any = 0


@dataclass
class CallConfig:
    """The settings of a run or a dispatch, besides its arguments; any attribute may be set."""

    aicpu_thread_num: int = 0
    block_dim: int = 0
    enable_chip_swimlane: int = 0
    enable_l2_swimlane: int = 0
    enable_dump_args: int = 0
    enable_pmu: int = 0
    enable_dep_gen: bool = False
    enable_scope_stats: bool = False
    output_prefix: str = ""
    runtime_env: RuntimeEnv = field(default_factory=RuntimeEnv)


class TaskArgs:
    """The arguments of a dispatch: tensors with their uses, then scalars."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.tags: list[TensorArgType] = []
        self.scalars: list[int] = []

    def add_tensor(self, tensor: Any, tag: Any = None) -> None:
        """Append a tensor with its use. Raises `TypeError` after a scalar, and for an object that is no tensor."""
        if self.scalars:
            raise TypeError("cannot add tensor after scalar")
        if not hasattr(tensor, "shape"):
            raise TypeError(f"add_tensor: {type(tensor).__name__} is not a tensor")
        self.tensors.append(tensor)
        self.tags.append(TensorArgType(tag or 0))

    def add_scalar(self, value: Any) -> None:
        """Append the 64 bits of a number."""
        plain = getattr(value, "value", value)
        bits = scalar_bits(plain, natural_dtype(plain)) if isinstance(plain, (bool, float)) else int(plain) & _MASK
        self.scalars.append(bits)

    def tensor_count(self) -> int:
        """Return the number of tensors."""
        return len(self.tensors)

    def scalar_count(self) -> int:
        """Return the number of scalars."""
        return len(self.scalars)

    def tensor(self, index: int) -> Any:
        """Return a tensor by index."""
        return self.tensors[index]

    def scalar(self, index: int) -> int:
        """Return a scalar by index."""
        return self.scalars[index]


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
        name = dtype_name(dtype)
        storage = Storage(f"{self.windows.name}.{self.buffer.name}", self.base, self.buffer.nbytes)
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


class WindowedDomain(ByRanks):
    """A domain with its windows."""

    def __init__(self, windows: Windows) -> None:
        super().__init__(windows.name, windows.ranks)
        self.windows = windows

    def __getitem__(self, rank: int) -> DomainMember:
        windows = self.windows
        if rank not in windows.ranks:
            raise KeyError(f"rank {rank} is not a member of domain '{windows.name}' of ranks {list(windows.ranks)}")
        index = windows.ranks.index(rank)
        buffers = {buffer.name: WindowBuffer(windows, buffer, rank) for buffer in windows.buffers}
        context, base = windows.contexts[index], windows.addresses[index]
        return DomainMember(buffers, context, index, len(windows.ranks), windows.name, base, windows.size)


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
    ) -> WindowedDomain:
        """Return windows for `workers`. Raises `ValueError` for ranks that do not exist, and for buffers beyond the
        window."""
        ranks = tuple(workers)
        if not ranks or len(set(ranks)) < len(ranks) or not all(0 <= rank < self.world for rank in ranks):
            raise ValueError(f"domain '{name}': workers {list(ranks)} are not distinct ranks below {self.world}")
        if len(ranks) > MOST_RANKS:
            raise ValueError(f"domain '{name}': has {len(ranks)} ranks, but at most {MOST_RANKS} are supported")
        placed, offset = [], 0
        for spec in buffers:
            placed.append(Buffer(spec.name, offset, spec.nbytes))
            offset += round_up(spec.nbytes, BUFFER_ALIGNMENT)
        if offset > round_up(window_size, BUFFER_ALIGNMENT):
            raise ValueError(f"domain '{name}': its buffers need {offset} bytes, but the window has only {window_size}")
        self.domains.append(make_windows(name, ranks, max(window_size, offset), placed))
        return WindowedDomain(self.domains[-1])

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
            raise ValueError(f"{len(args)} argument lists for {len(workers)} workers; pass one for each worker")
        self._groups += 1
        return [self._submit(handle, one, rank, self._groups) for one, rank in zip(args, workers, strict=True)]

    def submit_sub(self, handle: Any, args: TaskArgs | None = None) -> Dispatch:
        """Enqueue a host callable."""
        return self._add(handle.name, None, args or TaskArgs())

    def submit_chip(self, handle: Any, args: TaskArgs, config: Any, worker: int | None) -> Dispatch:
        """Enqueue a chip program on a rank; None: on the next one in turn."""
        if worker is None:
            worker, self._next = self._next % self.world, self._next + 1
        return self._submit(handle, args, worker)

    def _submit(self, handle: Any, args: TaskArgs, rank: int, group: int | None = None) -> Dispatch:
        name = getattr(handle, "name", handle)
        if name not in self.programs:
            raise ValueError(f"no chip program '{name}' is under next_levels/")
        if not 0 <= rank < self.world:
            raise ValueError(
                f"'{name}' is dispatched to rank {rank}, but there are only {self.world} ranks; set "
                "their number with WORLD="
            )
        for tensor in args.tensors:
            if not tensor.is_contiguous():
                raise ValueError(f"'{name}': {tensor} is not contiguous")
        return self._add(name, rank, args, group)

    def _add(self, name: str, rank: int | None, args: TaskArgs, group: int | None = None) -> Dispatch:
        tensors = tuple(
            DispatchTensor(tensor, tag, isinstance(tensor, WindowTensor))
            for tensor, tag in zip(args.tensors, args.tags, strict=True)
        )
        return self.graph.add(Dispatch(name, rank, tensors, tuple(args.scalars), self._line(), group))

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


_MODULES: Mapping[str, Mapping[str, Any]] = {
    "simpler": {},
    "simpler.task_interface": {
        one.__name__: one for one in (CallConfig, CommBufferSpec, DataType, TaskArgs, TensorArgType)
    },
    "pypto": {},
    "pypto.runtime": {},
    "pypto.runtime.tensor_arg": {"make_tensor_arg": make_tensor_arg},
    "pypto.runtime.distributed_runner": {
        "_submit_chip": _submit_chip,
        "_tensor_from_continuous": _tensor_from_continuous,
    },
}


def modules_of(contents: Mapping[str, Mapping[str, Any]]) -> dict[str, ModuleType]:
    """Return packages with these contents. A package comes before those inside it, which are attributes of it unless
    it has another object of that name."""
    modules: dict[str, ModuleType] = {}
    for name, content in contents.items():
        module = modules[name] = ModuleType(name)
        module.__spec__, module.__path__ = ModuleSpec(name, None, is_package=True), []
        vars(module).update(content)
        package, _, own = name.rpartition(".")
        if package:
            vars(modules[package]).setdefault(own, module)
    return modules


@contextmanager
def stand_ins(torch: bool = True) -> Iterator[None]:
    """In the block, make the imports of a driver find stand-ins. Without `torch`, torch itself is imported, as for a
    host callable."""
    modules = modules_of(_MODULES) | ({"torch": stand_in_torch()} if torch else {})
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


_MARK = "_pypto_distributed_entry"
_HINT = "correct orchestration/host_orch.py, or compile again"


def execute_driver(orchestrator: Orchestrator, names: dict[str, Any], host_callables: Iterable[str] = ()) -> Plan:
    """Return the plan that a driver makes with the tensors and scalars in `names`. Raises `RuntimeFault` with the
    driver's line for any exception in it."""
    driver = orchestrator.driver
    try:
        code = compile(driver.read_text(encoding="utf-8"), str(driver), "exec")
        with stand_ins():
            namespace: dict[str, Any] = {"__name__": "host_orch", "__file__": str(driver)}
            exec(code, namespace)
            entry = _entry(driver, namespace)
            _allocate(namespace.get("_alloc_intermediates"), names, orchestrator.world)
            _call(entry, orchestrator, names, host_callables)
    except RuntimeFault:
        raise
    except Exception as error:
        raise _fault(driver, error) from None
    return Plan(orchestrator.graph.all, orchestrator.domains, names)


def _entry(driver: Path, namespace: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the single function that carries the mark. Raises `RuntimeFault`."""
    entries = {name: value for name, value in namespace.items() if getattr(value, _MARK, False) is True}
    if len(entries) != 1:
        what = (
            f"{len(entries)} functions carry {_MARK}: {', '.join(entries)}"
            if entries
            else f"no function carries {_MARK}"
        )
        raise RuntimeFault(python_fault(FaultKind.DRIVER, f"{driver.name}: {what}", hint=_HINT))
    function: Callable[..., Any] = next(iter(entries.values()))
    return function


def _allocate(allocate: Callable[..., Any] | None, names: dict[str, Any], world: int) -> None:
    """Let the driver add its intermediates; older drivers take no number of ranks."""
    if allocate is not None:
        takes_world = len(inspect.signature(allocate).parameters) > 1
        allocate(names, *([world] if takes_world else []))


def _call(
    entry: Callable[..., Any], orchestrator: Orchestrator, names: dict[str, Any], host_callables: Iterable[str]
) -> None:
    arguments: dict[str, Any] = {
        "tensors": names,
        "callables": {name: Handle(name) for name in orchestrator.programs},
        "sub_ids": {name: Handle(name) for name in host_callables},
        "_keep": [],
        "world_size": orchestrator.world,
        "_domain_provider": None,
    }
    taken = inspect.signature(entry).parameters
    entry(orchestrator, None, CallConfig(), **{name: value for name, value in arguments.items() if name in taken})


def _fault(driver: Path, error: Exception) -> RuntimeFault:
    """Return the fault for an exception of the driver, with its line."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(driver)]
    line = f":{lines[-1]}" if lines else ""
    text = str(error) or type(error).__name__
    if isinstance(error, KeyError):
        text = f"there is no {error}"
    elif isinstance(error, ImportError):
        text = f"{error}: nothing stands in for it"
    return RuntimeFault(
        python_fault(FaultKind.DRIVER, f"orchestration/{driver.name}{line}: {type(error).__name__}: {text}", hint=_HINT)
    )
