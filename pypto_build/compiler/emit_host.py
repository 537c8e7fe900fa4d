"""`orchestration/host_orch.py` and `distributed_meta.json`: the host driver that dispatches the chip programs, in
the form of PyPTO's backend.
"""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pypto_build.facts.dtypes import UINT8, DType
from pypto_build.facts.positions import SourcePosition

from .collectives import chip_directory
from .emit_artifact import BACKENDS, params_document
from .emit_orchestration import Statements
from .errors import CompileError
from .frontend import build_program, read_function
from .infer import Inference, check_entry
from .ir import (
    Block,
    BufferType,
    Const,
    Dim,
    Direction,
    IrFunction,
    Op,
    Operand,
    Program,
    Ref,
    ScalarType,
    TensorParam,
    Values,
    WindowType,
    expect,
)
from .language import JitFunction
from .operations import INFIX
from .pipeline import flatten_calls, own_faults, run_passes
from .ssa import convert_to_ssa
from .vintages import ApiVintage

# A host program: its function and the chip programs that it dispatches, read and typed.


@dataclass(frozen=True)
class HostProgram:
    """`function` dispatches `chips`, whose passes have run; `dumps` has each program after each pass, if requested."""

    function: IrFunction
    chips: dict[str, Program]
    ranks: int
    platform: str


def build_host(entry: JitFunction, platform: str, dumps: dict[str, str] | None = None) -> HostProgram:
    """Return the host program `entry` and its chip programs, ready for emission. Raises CompileError."""
    chips: dict[str, Program] = {}
    inlined: dict[str, IrFunction] = {}

    def reach(jit: JitFunction, caller: SourcePosition) -> IrFunction:
        """Return the entry of a chip program, or an inline function."""
        if jit.kind == "inline":
            inlined.setdefault(jit.name, read_function(jit, reach))
            return inlined[jit.name]
        chip = chips.get(jit.name)
        if chip is None:
            chip_dumps: dict[str, str] | None = None if dumps is None else {}
            chips[jit.name] = chip = run_passes(build_program(jit, platform), chip_dumps)
            if dumps is not None and chip_dumps:
                dumps.update(
                    {f"next_levels/{chip_directory(jit.name)}/{name}": text for name, text in chip_dumps.items()}
                )
        return chip.entries[0]

    function = read_function(entry, reach)
    program = Program(entry.name, {**inlined, entry.name: function}, platform, function.position, entry.accepted)
    callees = {name: chip.entries[0] for name, chip in chips.items()}
    with own_faults("host", program):
        program = convert_to_ssa(flatten_calls(program))
        typed = Inference(program.functions[entry.name], callees).run()
        if not any(op.name == "call" for op in typed.body.walk()):
            raise CompileError(
                function.position,
                f"{entry.name} dispatches no chip program",
                "call a @pl.jit function with device=rank",
            )
        check_entry(typed, callees)
    return HostProgram(typed, chips, entry.ranks, platform)


# The domains of a host program: which ranks share the windows that its buffers lie in.
# Buffers whose windows go to the same ranks lie in one domain. Ranks that are known when compiling are named; where
# a rank depends on how many there are, all of them share the windows.

Ranks = tuple[int, ...]  # none: all of them


@dataclass(frozen=True)
class Domain:
    """A domain of ranks that share windows: `ranks` are its members (empty for all), `buffers` the names of its
    buffers in their order.
    """

    number: int
    ranks: Ranks
    buffers: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"comm_d{self.number}"

    @property
    def handle(self) -> str:
        """Return the driver's variable for the domain."""
        return f"__{self.name}"


def domains_of(host: HostProgram) -> list[Domain]:
    """Return the domains, in the order of their first buffers. Raises CompileError for an unused buffer."""
    function = host.function
    used: dict[str, list[Ranks]] = {}
    _collect(function.body, {}, {}, used)
    groups: dict[Ranks, list[str]] = {}
    for op in function.body.walk():
        if op.name == "alloc_window_buffer":
            if op.result not in used:
                name = function.values[op.result].variable
                raise CompileError(op.position, f"no dispatch takes a window of the buffer {name}", "remove the buffer")
            groups.setdefault(_union(used[op.result]), []).append(op.result)
    return [Domain(number, ranks, tuple(names)) for number, (ranks, names) in enumerate(groups.items())]


def _collect(block: Block, indices: dict[str, Ranks], windows: dict[str, str], used: dict[str, list[Ranks]]) -> None:
    """Collect the ranks that windows of each buffer are dispatched to; `indices` has the constant values of loop
    indices.
    """
    for op in block.ops:
        if op.name == "window":
            windows[op.result] = op.ref(0).name
        elif op.name == "for":
            bounds = [int(a.value) if isinstance(a, Const) else None for a in op.args[:3]]
            counted = tuple(range(*bounds)) if None not in bounds else ()  # type: ignore[arg-type]
            _collect(op.blocks[0], {**indices, op.blocks[0].params[0]: counted}, windows, used)
        else:
            for inner in op.blocks:
                _collect(inner, indices, windows, used)
        if op.name == "call":
            ranks = _ranks(op, indices)
            for arg in op.args:
                if isinstance(arg, Ref) and arg.name in windows:
                    used.setdefault(windows[arg.name], []).append(ranks)


def _ranks(op: Op, indices: dict[str, Ranks]) -> Ranks:
    device: Operand | None = op.launch.device
    if isinstance(device, Const):
        return (int(device.value),)
    return indices.get(device.name, ()) if isinstance(device, Ref) else ()


def _union(sets: list[Ranks]) -> Ranks:
    return () if () in sets else tuple(sorted({rank for ranks in sets for rank in ranks}))


def buffer_count(values: Values, name: str) -> list[Dim]:
    """Return the extents whose product is a buffer's number of elements."""
    buffer = expect(values.types[name], BufferType, name)
    constant = math.prod(extent for extent in buffer.shape if isinstance(extent, int))
    rest: list[Dim] = [extent for extent in buffer.shape if not isinstance(extent, int)]
    return [*rest, constant] if constant != 1 or not rest else rest


def buffer_bytes(values: Values, name: str) -> list[Dim]:
    """Return the factors of a buffer's size in bytes."""
    buffer = expect(values.types[name], BufferType, name)
    size = buffer.dtype.size if buffer.dtype else 1
    *rest, last = buffer_count(values, name)
    return [*rest, last * size] if isinstance(last, int) else [*rest, last, size]


# The text of a host driver while it is written: lines, and the Python expressions of numbers and tensors.

_INFIX = INFIX | {"floordiv": "//", "and": "and", "or": "or"}
_OTHERS = {
    "min": "min({0}, {1})", "max": "max({0}, {1})", "neg": "(-{0})", "not": "(not {0})",
    "select": "({1} if {0} else {2})", "cast": "{0}",
}  # fmt: skip
_TAKEN = {
    *keyword.kwlist, "orch", "_args", "config", "tensors", "callables", "sub_ids", "_keep", "world_size",
    "_domain_provider", "torch", "range", "min", "max", "CallConfig", "CommBufferSpec", "DataType", "TaskArgs",
    "TensorArgType", "make_tensor_arg",
}  # fmt: skip


class HostText(Statements):
    def __init__(self, function: IrFunction) -> None:
        super().__init__(function, _TAKEN)
        self.tensors: dict[str, str] = {}  # host tensor -> expression
        self.made = {op.result: op for op in function.body.walk() if op.results and not op.blocks}

    def name(self, value: str) -> str:
        """Return the Python name of a number: the variable's own name if unused, else with its version."""
        stem = self.values[value].stem
        return self.give(value, stem if stem not in self.taken and not stem.startswith("_") else value)

    def expression(self, operand: Operand) -> str:
        match operand:
            case Const(value):
                return repr(value)
            case Ref(name) if name in self.names:
                return self.names[name]
            case Ref(name) if name in self.made:
                return self.names.setdefault(name, self.pure(self.made[name]))
        raise CompileError(self.function.position, f"{operand} has no value here")

    def dim(self, dim: Dim) -> str:
        return str(dim) if isinstance(dim, int) else self.expression(dim)

    def pure(self, op: Op) -> str:
        """Return a number as one expression, its operands in parentheses."""
        if op.name == "world_size":
            return "world_size"
        name, args = op.name[2:], [self.expression(arg) for arg in op.args]
        if not op.name.startswith("s."):
            raise CompileError(op.position, f"{op.name} is not a number that is known before the first dispatch")
        if name in _INFIX:
            return args[0] if (name, args[1]) == ("add", "0") else f"({args[0]} {_INFIX[name]} {args[1]})"
        if name in _OTHERS:
            return _OTHERS[name].format(*args)
        raise CompileError(op.position, f"{name} cannot be used in a host program")

    def inlined(self, factors: Sequence[Dim] | Operand) -> str:
        """Return a product of extents as an expression that is valid when the driver begins."""
        if not isinstance(factors, list):
            return self.expression(factors)  # type: ignore[arg-type]
        texts = [self.dim(factor) for factor in factors]
        return " * ".join(text for text in texts if text != "1" or len(texts) == 1)

    # --- control flow ------------------------------------------------------------------------------------------------

    def number(self, op: Op) -> None:
        """Record a number, whose expression is written at its uses."""
        self.names.setdefault(op.result, self.pure(op))

    def loop(self, op: Op) -> None:
        body = op.blocks[0]
        targets = self.carried(op.results, body.params[1:], op.args[3:])
        start, stop, step = map(self.expression, op.args[:3])
        self.add(f"for {self.name(body.params[0])} in range({start}, {stop}, {step}):")
        self.nested(body, targets)
        self.taken.discard(self.names[body.params[0]])

    def tuple(self, extents: Sequence[Dim]) -> str:
        """Return extents as a Python tuple."""
        return f"({', '.join(map(self.dim, extents))}{',' if len(extents) == 1 else ''})"

    def carried(self, results: Sequence[str], params: Sequence[str], inits: Sequence[Operand]) -> list[str]:
        targets = []
        for result, param, init in zip(results, params, inits, strict=True):
            value = self.expression(init)
            targets.append(self.name(result))
            self.names[param] = targets[-1]
            self.add(f"{targets[-1]} = {value}")
        return targets

    def branch(self, op: Op) -> None:
        condition = self.expression(op.args[0])
        targets = [self.name(result) for result in op.results]
        self.add(f"if {condition}:")
        self.nested(op.blocks[0], targets)
        if op.blocks[1].ops or targets:
            self.add("else:")
            self.nested(op.blocks[1], targets)

    def nested(self, block: Block, targets: Sequence[str]) -> None:
        """Write a block one level deeper, and assign all values that it yields at once."""
        self.depth += 1
        self.block(block)
        pairs = [(t, self.expression(y)) for t, y in zip(targets, block.yields, strict=True)]
        pairs = [(target, value) for target, value in pairs if target != value]
        if pairs:
            self.add(f"{', '.join(t for t, _ in pairs)} = {', '.join(v for _, v in pairs)}")
        self.depth -= 1

    def block(self, block: Block) -> None:
        raise NotImplementedError


_TAGS = {Direction.IN: "INPUT", Direction.OUT: "OUTPUT_EXISTING", Direction.INOUT: "INOUT"}
_HEAD = """\
# Host driver: {name}
# Generated by pypto-build, in the form of PyPTO's distributed backend
import torch
from simpler.task_interface import CallConfig, CommBufferSpec, DataType, TaskArgs, TensorArgType
from pypto.runtime.tensor_arg import make_tensor_arg
from pypto.runtime.distributed_runner import _submit_chip

"""


def generate_driver(host: HostProgram) -> str:
    """Return the text of host_orch.py. Raises CompileError."""
    return _Driver(host).text()


def generate_distributed_meta(host: HostProgram, vintage: ApiVintage) -> str:
    """Return the metadata (schema 2); a dynamic extent is -1, a scalar has no shape."""
    document = {
        "schema": 2,
        "params": params_document(host.function),
        "num_return_types": 0,
        "platform": host.platform,
        "backend_type": BACKENDS[host.platform.removesuffix("sim")],
        "distributed_config": {
            "device_ids": list(range(host.ranks)),
            "num_sub_workers": 0,
            "runtime": "tensormap_and_ringbuffer",
            "aicpu_thread_num": dict(vintage.runtime_config).get("aicpu_thread_num", 0),
        },
    }
    return json.dumps(document, indent=2) + "\n"


class _Driver(HostText):
    def __init__(self, host: HostProgram) -> None:
        super().__init__(host.function)
        self.host = host
        self.domains = domains_of(host)
        self.of_buffer = {buffer: domain for domain in self.domains for buffer in domain.buffers}
        self.windows: dict[str, str] = {}  # a window -> its buffer
        self.extents: list[str] = []
        self.intermediates: list[str] = []
        self.dispatches = 0

    def text(self) -> str:
        function = self.function
        self.entry()
        for domain in self.domains:
            self.domain(domain)
        self.block(function.body)
        head = _HEAD.format(name=function.name)
        signature = "orch, _args, config, *, tensors, callables, sub_ids, _keep, world_size, _domain_provider=None"
        body = "\n".join(["", f"def {function.name}({signature}):", *self.lines])
        return f"{head}{self.allocation()}{body}\n\n\n{function.name}._pypto_distributed_entry = True\n"

    def entry(self) -> None:
        """Write the driver's parameters: numbers, and extents of tensors."""
        for scalar in self.function.scalars():
            self.add(f'{self.name(scalar.name)} = tensors["{scalar.variable}"]')
        for param in self.function.tensors():
            self.tensors[param.name] = f'tensors["{param.variable}"]'
            for axis, extent in enumerate(param.type.shape):
                if isinstance(extent, Ref) and extent.name not in self.names:
                    self.extents.append(f"{self.name(extent.name)} = {self.tensors[param.name]}.shape[{axis}]")
        for line in self.extents:
            self.add(line)

    def allocation(self) -> str:
        """Return `_alloc_intermediates`, which allocates tensors of the host program, and for each rank a token that
        orders its communication.
        """
        lines = [*self.extents, *self.intermediates] if self.intermediates else []
        for domain in self.domains:
            lines += [
                f'tensors["{domain.handle}_ord"] = [',
                "    torch.zeros((1,), dtype=torch.int32).share_memory_() for _ in range(max(world_size, 1))",
                "]",
            ]
        if not lines:
            return ""
        return "\n".join(
            ["", "def _alloc_intermediates(tensors, world_size=1):", *(f"    {line}" for line in lines), "", ""]
        )

    def domain(self, domain: Domain) -> None:
        """Write the windows that some ranks share, and their initial content."""
        sizes = {name: self.inlined(buffer_bytes(self.values, name)) for name in domain.buffers}
        self.add("with (_domain_provider or orch.allocate_domain)(")
        self.depth += 1
        self.add(f'name="{domain.name}",')
        self.add(f"workers=[{', '.join(map(str, domain.ranks)) if domain.ranks else '*range(world_size)'}],")
        self.add(f"window_size={' + '.join(f'({(aligned(size))})' for size in sizes.values())},")
        self.add("buffers=[")
        for name, size in sizes.items():
            dtype = self.buffer_dtype(name)
            count = self.inlined(buffer_count(self.values, name))
            spec = f'name="{self.values[name].stem}", dtype="{dtype.torch}", count={count}, nbytes={size}'
            self.add(f"    CommBufferSpec({spec}),")
        self.add("],")
        self.depth -= 1
        self.add(f") as {domain.handle}:")
        self.depth += 1

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        start = len(self.lines)
        for op in block.ops:
            self.op(op)
        if len(self.lines) == start:
            self.add("pass")

    def op(self, op: Op) -> None:
        match op.name:
            case "for":
                self.loop(op)
            case "if":
                self.branch(op)
            case "call":
                self.dispatch(op)
            case "window":
                self.windows[op.result] = op.ref(0).name
            case "create_tensor":
                self.create(op)
            case "index" | "slice" | "reshape":
                self.tensors[op.result] = self.part(op)
            case "alloc_window_buffer" | "world_size":
                pass
            case _ if op.name.startswith("s."):
                self.number(op)
            case _:
                raise CompileError(op.position, f"{op.name} cannot be used in a host program")

    def create(self, op: Op) -> None:
        """Write a tensor that belongs to the host program; it is created before the first dispatch."""
        type_ = self.values.tensor(op.result)
        name = self.values[op.result].stem
        key = name if name not in {p.variable for p in self.function.params} else op.result
        zeros = f"torch.zeros({self.tuple(type_.shape)}, dtype=torch.{type_.dtype.torch})"
        self.intermediates.append(f'tensors["{key}"] = {zeros}.share_memory_()')
        self.tensors[op.result] = f'tensors["{key}"]'

    def part(self, op: Op) -> str:
        source = self.tensors[op.ref(0).name]
        if op.name == "reshape":
            return f"{source}.reshape({self.tuple(self.values.tensor(op.result).shape)})"
        if op.name == "index":
            rest = self.values.tensor(op.result).shape
            parts = [*map(self.expression, op.items(1)), *(f"0:{self.dim(extent)}" for extent in rest)]
        else:
            starts, extents = map(self.expression, op.items(2)), map(self.expression, op.items(1))
            parts = [
                f"{start}:{start} + {extent}" if start != "0" else f"0:{extent}"
                for start, extent in zip(starts, extents, strict=True)
            ]
        return f"{source}[{', '.join(parts)}]"

    def dispatch(self, op: Op) -> None:
        """Write the dispatch of a chip program to one rank: tensors, tokens of domains, numbers, contexts."""
        callee = self.host.chips[op.callee].entries[0]
        name = f"_ta_{self.dispatches}"
        self.dispatches += 1
        device = "None" if op.launch.device is None else self.expression(op.launch.device)
        pairs = list(zip(callee.params, op.args, strict=True))
        windows = [ref for param, ref in pairs if isinstance(param.type, WindowType) and isinstance(ref, Ref)]
        self.add(f"{name} = TaskArgs()")
        for param, ref in pairs:
            if isinstance(param, TensorParam) and isinstance(ref, Ref):
                self.add(f"{name}.add_tensor({self.argument(op, ref, device)}, TensorArgType.{_TAGS[param.direction]})")
        for domain in dict.fromkeys(self.of_buffer[self.windows[ref.name]] for ref in windows):
            token = f'tensors["{domain.handle}_ord"][{device}]'
            self.add(f"{name}.add_tensor(make_tensor_arg(orch._worker, {token}), TensorArgType.INOUT)")
        for param, arg in pairs:
            if isinstance(param.type, ScalarType):
                self.add(f"{name}.add_scalar({self.expression(arg)})")
        for ref in windows:
            self.add(f"{name}.add_scalar({self.handle(ref)}[{device}].device_ctx)")
        self.add(f"_keep.append({name})")
        self.add(f'_submit_chip(orch, callables["{chip_directory(op.callee)}"], {name}, config, {device})')

    def handle(self, window: Ref) -> str:
        return self.of_buffer[self.windows[window.name]].handle

    def argument(self, op: Op, ref: Ref, device: str) -> str:
        if ref.name in self.tensors:
            return f"make_tensor_arg(orch._worker, {self.tensors[ref.name]})"
        if ref.name not in self.windows:
            raise CompileError(
                op.position, f"{op.callee}: a condition or loop decides which tensor is passed",
                "call the chip program in each branch, with one tensor",
            )  # fmt: skip
        if op.launch.device is None:
            raise CompileError(
                op.position,
                f"{op.callee} takes a window, but the rank of this window is unknown",
                "name the rank with device=rank",
            )
        type_ = self.values.tensor(ref.name)
        buffer = self.values[self.windows[ref.name]].stem
        window = f'{self.handle(ref)}[{device}].buffers["{buffer}"]'
        return f"{window}.tensor(shapes={self.tuple(type_.shape)}, dtype=DataType.{type_.dtype.enum})"

    def buffer_dtype(self, name: str) -> DType:
        """Return the element type of a buffer: its allocation's, else its windows'."""
        return expect(self.values.types[name], BufferType, name).dtype or UINT8


def aligned(size: str) -> str:
    """Return a number of bytes, rounded up to the alignment of a window's buffers."""
    return str(-(-int(size) // 32) * 32) if size.isdigit() else f"({size} + 31) // 32 * 32"
