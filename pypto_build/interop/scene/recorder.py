"""Records the submissions of an orchestration of several chips, and writes them as the driver of a distributed
artifact.

The orchestration's calls only enqueue work, so everything is known when it returns. The program is a driver that makes
the same calls, with host tensors by name. Host callables without a name in the driver are left to the caller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pypto_build.artifact import ArgDirection
from pypto_build.facts.dtypes import ITEMSIZE, TORCH
from pypto_build.interop.scene.arguments import Buffer, TaskArgsBuilder, Tensor, bytes_of, tensor_of
from pypto_build.interop.scene.faults import NeedsSimpler
from pypto_build.interop.scene.queues import WorkerChipQueue, create_worker_chip_queue
from pypto_build.interop.scene.regions import Exchange, WorkerChipOrchRegion
from pypto_build.replay.chips import driver
from pypto_build.replay.chips.driver import ByRanks, DomainMember, dtype_name
from pypto_build.replay.chips.memory import BUFFER_ALIGNMENT, round_up
from pypto_build.replay.scalars import natural_dtype, scalar_bits

_HEAD = '''"""What an orchestration submitted, recorded call by call."""

import torch
from pypto.runtime.tensor_arg import make_tensor_arg
from simpler.task_interface import CommBufferSpec, DataType, TaskArgs, TensorArgType


{made}def host_orch(orch, _args, config, *, tensors, callables, sub_ids, _keep, world_size, _domain_provider=None):
'''
_TAIL = "\n\nhost_orch._pypto_distributed_entry = True\n"
_WRITES = (1, 2, 3, 4)
_OF_DIRECTIONS = {ArgDirection.IN: 0, ArgDirection.OUT: 3, ArgDirection.INOUT: 2}


class DriverNumber(int):
    """A number that only the run knows: holds the driver's expression, and a value that a test may print and
    compare."""

    text: str

    def __new__(cls, text: str, shown: int) -> DriverNumber:
        self = super().__new__(cls, shown)
        self.text = text
        return self


class TaskArgs(driver.TaskArgs):
    """The arguments of a dispatch, whose scalars may be numbers that only the run knows."""

    def add_scalar(self, value: Any) -> None:
        """Append the 64 bits of a number."""
        if isinstance(value, DriverNumber):
            self.scalars.append(value)
        else:
            super().add_scalar(value)


class MappedArgs(TaskArgs, Sequence[Any]):
    """The arguments of a host callable: also a sequence of the tensors."""

    def __len__(self) -> int:
        return len(self.tensors)

    def __getitem__(self, index: Any) -> Any:
        return self.tensors[index]


def mapped(args: TaskArgs) -> MappedArgs:
    """Return arguments in the form that a host callable gets."""
    mapped_args = MappedArgs()
    mapped_args.tensors, mapped_args.tags, mapped_args.scalars = args.tensors, args.tags, args.scalars
    return mapped_args


def task_args_of(args: TaskArgsBuilder, signature: Sequence[Any]) -> tuple[TaskArgs, list[str]]:
    """Return all arguments of a case for one dispatch, tagged by a signature, and the names of its outputs."""
    task_args, outputs = TaskArgs(), list[str]()
    ways = [ArgDirection(word) for word in signature if ArgDirection(word) is not ArgDirection.SCALAR]
    for name, direction in zip(args.tensor_names(), ways, strict=False):
        task_args.add_tensor(tensor_of(getattr(args, name)), _OF_DIRECTIONS[direction])
        outputs += [name] if direction is not ArgDirection.IN else []
    for name in args.scalar_names():
        value = getattr(args, name)
        plain = getattr(value, "value", value)
        task_args.add_scalar(scalar_bits(plain, "float32" if isinstance(plain, float) else natural_dtype(plain)))
    return task_args, outputs


@dataclass(frozen=True)
class WindowTensor:
    """A tensor in a rank's window; holds the driver's expression for it."""

    text: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class _WindowBuffer:
    member: str
    name: str
    shown: int

    @property
    def base(self) -> int:
        """Return its address in the window of this rank."""
        return DriverNumber(f"{self.member}.buffers[{self.name!r}].base", self.shown)

    def tensor(self, shapes: Sequence[int], dtype: Any, offset: int = 0) -> WindowTensor:
        """Return a tensor in the buffer that begins `offset` elements after the start."""
        name = dtype_name(dtype)
        shifted = f", offset={offset}" if offset else ""
        buffer = f"{self.member}.buffers[{self.name!r}]"
        text = f"{buffer}.tensor(shapes={tuple(shapes)}, dtype=DataType.{TORCH[name].enum}{shifted})"
        return WindowTensor(text, tuple(shapes), name)


class _Domain(ByRanks):
    """A domain by ranks."""

    def __init__(self, number: int, name: str, ranks: Sequence[int], window: int, buffers: Sequence[Any]) -> None:
        super().__init__(name, ranks)
        self._number, self._window, self._buffers = number, window, list(buffers)

    def release(self) -> None:
        """Do nothing: the memory is freed when the run ends."""

    def __getitem__(self, rank: int) -> DomainMember:
        if rank not in self.ranks:
            raise KeyError(rank)
        text, shown = f"d{self._number}[{rank}]", (self._number + 1 << 40) + (rank + 1 << 32)
        buffers, start = {}, shown
        for spec in self._buffers:
            buffers[spec.name] = _WindowBuffer(text, spec.name, start)
            start += round_up(spec.nbytes, BUFFER_ALIGNMENT)
        context, base = (
            DriverNumber(f"{text}.{name}", shown + more) for name, more in (("device_ctx", 8), ("local_window_base", 0))
        )
        index, size = self.ranks.index(rank), len(self.ranks)
        return DomainMember(buffers, context, index, size, self.name, base, self._window)


@dataclass(frozen=True)
class HostCall:
    """A host callable that is called after all chips have finished."""

    function: Any
    args: TaskArgs


@dataclass
class Recorder:
    """The orchestrator object that an orchestration gets. `chips` are names of chip programs by handle, `functions`
    host callables by handle.

    The driver calls the host callables that have a name in `hosts`. `arguments` are tensors by name, which are
    parameters of the driver. All other memory belongs to the orchestration.
    """

    world: int
    chips: Mapping[int, str]
    functions: Mapping[int, Any]
    hosts: Mapping[int, str] = field(default_factory=dict)
    arguments: Mapping[str, Tensor] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    tensors: dict[int, Tensor] = field(default_factory=dict)  # by address: the first tensor of each memory
    written: set[int] = field(default_factory=set)
    first: dict[str, TaskArgs] = field(default_factory=dict)  # by chip program: what it is called with first
    calls: list[HostCall] = field(default_factory=list)
    exchange: Exchange | None = None  # runs submitted work while the orchestration goes on
    _domains: int = 0
    _gone: int = 0  # number of domains of earlier programs
    _args: int = 0

    def __post_init__(self) -> None:
        self._names = {tensor.base: name for name, tensor in self.arguments.items()}
        self.tensors |= {tensor.base: tensor for tensor in self.arguments.values()}

    def allocate_domain(
        self, *, name: str, workers: Sequence[int], window_size: int, buffers: Sequence[Any] = (), **_: Any
    ) -> _Domain:
        """Return windows of some ranks."""
        number, self._domains = self._domains, self._domains + 1
        specs = [
            f"CommBufferSpec(name={spec.name!r}, dtype={str(spec.dtype)!r}, count={spec.count}, nbytes={spec.nbytes})"
            for spec in buffers
        ]
        arguments = f"name={name!r}, workers={list(workers)}, window_size={int(window_size)}"
        self.lines.append(f"d{number} = orch.allocate_domain({arguments}, buffers=[{', '.join(specs)}])")
        return _Domain(number, name, workers, int(window_size), buffers)

    def submit_next_level(self, handle: int, args: TaskArgs, config: Any = None, *, worker: int = 0, **_: Any) -> None:
        """Record a chip program on a rank."""
        variable, name = self._arguments(handle, args), self._name(handle)
        self.lines.append(f"orch.submit_next_level(callables[{name!r}], {variable}, config, worker={worker})")

    def submit_next_level_group(
        self, handle: int, args: Sequence[TaskArgs], config: Any = None, *, workers: Sequence[int] = (), **_: Any
    ) -> None:
        """Record a chip program on several ranks, which start it together."""
        variables = ", ".join([self._arguments(handle, one) for one in args])
        name, ranks = self._name(handle), list(workers) or list(range(len(args)))
        self.lines.append(f"orch.submit_next_level_group(callables[{name!r}], [{variables}], config, workers={ranks})")

    def submit_sub(self, handle: int, args: TaskArgs | None = None, *_: Any, **__: Any) -> None:
        """Record a host callable.

        A callable without a name is called here after the chips have finished, so no dispatch may wait for it.
        """
        if handle not in self.functions:
            raise NeedsSimpler("a host callable that is not registered")
        if handle in self.hosts:
            variable = self._variable(args or TaskArgs())
            self.lines.append(f"orch.submit_sub(sub_ids[{self.hosts[handle]!r}], {variable})")
            return
        if any(tag in _WRITES for tag in (args or TaskArgs()).tags):
            raise NeedsSimpler("a host callable whose result chips wait for")
        self.calls.append(HostCall(self.functions[handle], args or TaskArgs()))

    def malloc(self, worker_id: int = 0, nbytes: int = 0, **_: Any) -> Buffer:
        """Return memory of a chip, which is never freed."""
        return Buffer(nbytes)

    def alloc_child_tensor(self, worker_id: int, shapes: Sequence[int], dtype: Any, **_: Any) -> Buffer:
        """Return memory of a chip for a tensor."""
        return Buffer(math.prod(shapes) * ITEMSIZE[dtype_name(dtype)])

    def alloc(self, shape: Sequence[int], dtype: Any) -> Buffer:
        """Return zeroed memory of the host."""
        return Buffer(math.prod(shape) * ITEMSIZE[dtype_name(dtype)])

    def create_worker_chip_region(
        self, *, worker_id: int, payload_bytes: int, counter_bytes: int
    ) -> WorkerChipOrchRegion:
        """Return memory that this orchestration and that of a chip share. Raises ValueError for an invalid chip or
        size."""
        return self._exchange_with(worker_id).create(int(worker_id), int(payload_bytes), int(counter_bytes))

    def create_worker_chip_queue(self, *, worker_id: int, **sizes: int) -> WorkerChipQueue:
        """Return a message queue between this orchestration and that of a chip. Its `sizes` are `depth`,
        `input_arena_bytes` and `output_arena_bytes`. Raises ValueError for an invalid chip or size."""
        return create_worker_chip_queue(self._exchange_with(worker_id), worker_id=int(worker_id), **sizes)

    def _exchange_with(self, worker: int) -> Exchange:
        if self.exchange is None:
            raise NeedsSimpler("shared memory of host and chips, which a test must create while it runs")
        if not 0 <= int(worker) < self.world:
            raise ValueError(f"worker_id={worker}: is not a chip; the {self.world} chips are numbered from 0")
        return self.exchange

    def start_program(self) -> None:
        """Begin another program: later submissions belong to it, without the domains of this one."""
        self.lines, self.tensors, self.written, self.first = [], {}, set(), {}
        self._gone = self._domains

    def copy_to(self, target: Buffer, source: Any) -> None:
        """Copy to memory of a chip at once, since no submission has run yet."""
        data = source.memory if isinstance(source, Buffer) else bytes_of(source)
        target.memory[: data.nbytes] = data

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsSimpler(f"an orchestrator's {name}")

    def driver(self) -> str:
        """Return the text of the driver."""
        made = self._intermediates() if self.arguments else ""
        lines = [*self._regions(), *self.lines] or ["pass"]
        return _HEAD.format(made=made) + "".join(f"    {line}\n" for line in lines) + _TAIL

    def _regions(self) -> Iterator[str]:
        for region in self.exchange.regions if self.exchange else ():
            spans = [(span.offset, span.nbytes) for span in (region.payload, region.counters)]
            yield f"orch.attach_region(payload={spans[0]}, counters={spans[1]})"

    def own(self) -> dict[int, Tensor]:
        """Return memory that is no argument, by address."""
        return {address: tensor for address, tensor in self.tensors.items() if address not in self._names}

    def start_of(self, address: int) -> str:
        """Return the parameter that holds the initial contents of memory that is no argument."""
        return f"{self.name_of(address)}_start"

    def _intermediates(self) -> str:
        """Return the driver's function that allocates memory that is no argument."""
        lines = []
        for address, tensor in self.own().items():
            name = self.name_of(address)
            made = f"torch.zeros({tuple(tensor.shape)}, dtype=torch.{tensor.dtype}).share_memory_()"
            lines.append(f"    tensors[{name!r}] = {made}\n")
            if any(tensor.memory):
                lines.append(f"    tensors[{name!r}][:] = tensors[{self.start_of(address)!r}]\n")
        return f"def _alloc_intermediates(tensors):\n{''.join(lines)}\n\n" if lines else ""

    def name_of(self, address: int) -> str:
        """Return the parameter for the memory at an address."""
        name = self._names.get(address) or f"t{list(self.tensors).index(address)}"
        while address not in self._names and name in self.arguments:
            name = f"_{name}"
        return name

    def writes(self, name: str) -> bool:
        """Return whether a dispatch may write an argument."""
        return self.arguments[name].base in self.written

    def _name(self, handle: int) -> str:
        if handle not in self.chips:
            raise NeedsSimpler("a program that is not registered")
        return self.chips[handle]

    def _arguments(self, handle: int, args: TaskArgs) -> str:
        """Write the arguments of a dispatch to the driver; return the variable that holds them."""
        self.first.setdefault(self._name(handle), args)
        return self._variable(args)

    def _variable(self, args: TaskArgs) -> str:
        variable, self._args = f"a{self._args}", self._args + 1
        self.lines.append(f"{variable} = TaskArgs()")
        if self._gone and any(isinstance(one, (WindowTensor, DriverNumber)) for one in [*args.tensors, *args.scalars]):
            raise NeedsSimpler("windows of a domain that was allocated before the orchestration read shared memory")
        for tensor, tag in zip(args.tensors, args.tags, strict=True):
            windowed = isinstance(tensor, WindowTensor)
            text = tensor.text if windowed else f"make_tensor_arg(orch._worker, {self._host(tensor, tag)})"
            self.lines.append(f"{variable}.add_tensor({text}, TensorArgType.{tag.name})")
        for value in args.scalars:
            self.lines.append(f"{variable}.add_scalar({value.text if isinstance(value, DriverNumber) else value})")
        self.lines.append(f"_keep.append({variable})")
        return variable

    def _host(self, tensor: Tensor, tag: int) -> str:
        """Return the driver's expression for a host tensor: a whole memory block, or a part of it."""
        address = tensor.base
        whole = self.tensors.setdefault(address, tensor.whole())
        if tag in _WRITES:
            self.written.add(address)
        text = f"tensors[{self.name_of(address)!r}]"
        if (tensor.offset, tensor.shape, tensor.dtype) == (0, whole.shape, whole.dtype):
            return text
        if tensor.dtype != whole.dtype:
            text += f".reshape(-1).view(torch.{tensor.dtype})"
        start, count = tensor.offset // ITEMSIZE[tensor.dtype], tensor.memory.nbytes // ITEMSIZE[tensor.dtype]
        return f"{text}.reshape(-1)[{start}:{start + count}].reshape({tensor.shape})"
