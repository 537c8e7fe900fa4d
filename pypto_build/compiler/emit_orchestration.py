"""The orchestration's C++: tensors, numbers, loops and conditions, and one task for each call of a kernel.

The record of each kernel (id, core type, signature) comes from the list of arguments emitted for its first task, so
manifest and orchestration cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pypto_build.facts.dtypes import DType

from .cpp_scalars import RESERVED, float_literal, literal, scalar_text
from .emit_pto import signature_of
from .errors import CompileError
from .ir import (
    Block,
    Const,
    Dim,
    Direction,
    IrFunction,
    Launch,
    Op,
    Operand,
    Predicate,
    Program,
    Ref,
    ScalarParam,
    ScalarType,
    TaskType,
    ValueKind,
    WindowType,
)
from .vintages import TODAY, ApiVintage

# The lines of a function while they are written, and the names that its values have in them.


# The text of an orchestration while it is written: lines, and the C++ names and expressions of values.


class Statements:
    """Common parts of the texts of host drivers and orchestrations. ``names`` are C++ or Python expressions by
    value.
    """

    def __init__(self, function: IrFunction, taken: Iterable[str]) -> None:
        self.function = function
        self.values = function.values
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, str] = {}
        self.taken = set(taken)

    def add(self, line: str = "") -> None:
        """Append a line, indented as the current block."""
        self.lines.append("    " * self.depth + line if line else "")

    def give(self, value: str, name: str) -> str:
        """Assign a unique name to a value, and return it."""
        self.taken.add(name)
        self.names[value] = name
        return name


@dataclass
class OrchestrationResult:
    """`func_name_to_signature` has IN, OUT or INOUT for each tensor of a kernel's task, in payload order."""

    code: str
    func_name_to_id: dict[str, int] = field(default_factory=dict)
    func_name_to_core_type: dict[str, str] = field(default_factory=dict)
    func_name_to_signature: dict[str, tuple[str, ...]] = field(default_factory=dict)


class OrchestrationText(Statements):
    def __init__(self, program: Program, function: IrFunction, vintage: ApiVintage) -> None:
        self.program = program
        super().__init__(function, RESERVED)
        self.vintage = vintage
        self.contexts: dict[str, str] = {}  # tensor in a window -> the variable that has its context
        self.result = OrchestrationResult("")

    def name(self, value: str, prefix: str = "") -> str:
        """Return the C++ name of a value: the variable's own name if unused, else with its version."""
        plain = prefix + self.values[value].stem
        return self.give(value, plain if plain not in self.taken else prefix + value)

    def expression(self, operand: Operand) -> str:
        match operand:
            case Const(value):
                return literal(value)
            case Ref(name):
                return self.names[name]
        raise TypeError("a list is no expression")

    def dim(self, dim: Dim | Operand) -> str:
        """Return an extent or index as the API takes it."""
        match dim:
            case int():
                return str(dim)
            case Const(value):
                return str(int(value))
        return f"static_cast<uint32_t>({self.expression(dim)})"

    def scalar_type(self, name: str) -> str:
        match self.values.types[name]:
            case TaskType():
                return "PTO2TaskId"
            case ScalarType(dtype):
                return dtype.cpp
        return self.vintage.tensor


# Tasks of an orchestration: the arguments of one submission, and what the manifest records of its kernels.

_ADD = {Direction.IN: "add_input", Direction.OUT: "add_output", Direction.INOUT: "add_inout"}


@dataclass(frozen=True)
class ParamEntry:
    """One argument of a task: a tensor with its direction, or a number (direction None)."""

    text: str
    direction: Direction | None


class TaskEmitter:
    def __init__(self, orchestration: OrchestrationText) -> None:
        self.out = orchestration
        self.count = 0
        self.submitted: set[str] = set()  # tasks that are certain to have been submitted

    def emit(self, op: Op) -> None:
        members = self.members(op.callee)
        entries = self.entries(members[0], op)
        ids = [self.record(member, entries) for member in members]
        out, number = self.out, self.count
        self.count += 1
        launch = op.launch
        out.add()
        out.add(f"// {self.comment(op.attrs['callee'], number, members, launch)}")
        out.add(f"{out.vintage.task_args} params_t{number};")
        for entry in entries:
            add = "add_scalar" if entry.direction is None else _ADD[entry.direction]
            out.add(f"params_t{number}.{add}({entry.text});")
        self.marks_exist(op, launch)
        if launch.dumps:
            out.add(f"params_t{number}.dump({', '.join(map(out.expression, launch.dumps))});")
        lanes = self.lanes(members, ids)
        if lanes:
            out.add(f"MixedKernels mixed_{number} = {{{', '.join(lanes)}}};")
        self.after(launch.deps, number)
        if launch.blocks is not None:
            setter = "set_core_num" if out.program.arch == "a5" else "set_block_num"
            out.add(f"params_t{number}.launch_spec.{setter}({out.expression(launch.blocks)});")
        if launch.sync_start:
            out.add(f"params_t{number}.launch_spec.set_require_sync_start(true);")
        if launch.early_resolve:
            out.add(f"params_t{number}.set_allow_early_resolve(true);")
        if launch.predicate is not None:
            self.predicate(launch.predicate, number)
        submit = f"rt_submit_task(mixed_{number}" if lanes else f"rt_submit_{members[0].core}_task({ids[0]}"
        outputs = f"TaskOutputTensors task_{number}_outs = " if op.results else ""
        out.add(f"{outputs}{submit}, params_t{number});")
        for name in op.results:
            out.add(f"PTO2TaskId {out.name(name)} = task_{number}_outs.task_id();")
            self.submitted.add(name)

    def lanes(self, members: list[IrFunction], ids: list[int]) -> list[str]:
        """Return the kernels for the cube core and both vector cores, for a task on more than one core."""
        if len(members) == 1 and members[0].split < 0:
            return []
        vector = str(ids[-1])
        cube = str(ids[0]) if len(members) > 1 else "INVALID_KERNEL_ID"
        return [cube, vector, vector if members[-1].split >= 0 else "INVALID_KERNEL_ID"]

    def dummy(self, op: Op) -> None:
        """Write a task without kernels, which ends after the tasks that it depends on."""
        out, number = self.out, self.count
        self.count += 1
        out.add()
        out.add(f"// Task {number}: waits, runs nothing")
        out.add(f"{out.vintage.task_args} params_t{number};")
        self.after(op.items(0), number)
        out.add(f"TaskOutputTensors task_{number}_outs = rt_submit_dummy_task(params_t{number});")
        out.add(f"PTO2TaskId {out.name(op.result)} = task_{number}_outs.task_id();")
        self.submitted.add(op.result)

    def marks_exist(self, op: Op, launch: Launch) -> None:
        marks = [name for name, there in (
            ("dumps", launch.dumps), ("allow_early_resolve", launch.early_resolve), ("predicate", launch.predicate)
        ) if there]  # fmt: skip
        if marks and not self.out.vintage.predicate:
            raise CompileError(
                op.position,
                f"tasks of the API version {self.out.vintage.name} have no {marks[0]}",
                "compile for a later API version",
            )

    def predicate(self, predicate: Predicate, number: int) -> None:
        """Write the element, the comparison and the number that the runtime checks when it dispatches the task."""
        out, name = self.out, f"params_t{number}_pred"
        out.add(f"{out.vintage.predicate} {name};")
        out.add(f"{name}.operand.tensor = &{out.expression(predicate.tensor)};")
        out.add(f"{name}.operand.ndims = {len(predicate.indices)};")
        for axis, index in enumerate(predicate.indices):
            text = out.expression(index)
            text = text if isinstance(index, Const) else f"static_cast<uint32_t>({text})"
            out.add(f"{name}.operand.indices[{axis}] = {text};")
        out.add(f"{name}.op = PredicateOp::{predicate.op.upper()};")
        out.add(f"{name}.target = {predicate.target};")
        out.add(f"params_t{number}.set_predicate({name});")

    def after(self, tasks: tuple[Operand, ...], number: int) -> None:
        """Write the tasks to wait for; a task that may not have been submitted is checked first."""
        if not tasks:
            return
        out, deps = self.out, f"params_t{number}_deps"
        out.add(f"PTO2TaskId {deps}[{len(tasks)}];")
        out.add(f"uint32_t {deps}_count = 0;")
        for dep in tasks:
            task = out.expression(dep)
            sure = isinstance(dep, Ref) and dep.name in self.submitted
            out.add(f"{'' if sure else f'if ({task}.is_valid()) '}{deps}[{deps}_count++] = {task};")
        out.add(f"params_t{number}.set_dependencies({deps}, {deps}_count);")

    def comment(self, callee: str, number: int, members: list[IrFunction], launch: Launch) -> str:
        if len(members) > 1:
            return f"Group {callee}: MixedKernels (AIC + AIV lanes)"
        if members[0].split >= 0:
            return f"Group {callee}: AIV-only SPMD"
        return f"Spmd {callee}: {callee}" if launch.blocks is not None else f"Task {number}: {callee}"

    def members(self, callee: str) -> list[IrFunction]:
        """Return the kernel, or the members of its group with the cube kernel first."""
        kernels = self.out.program.kernels
        group = sorted((k for k in kernels if k.group == callee), key=lambda k: k.core)
        return group or [self.out.program.functions[callee]]

    def entries(self, kernel: IrFunction, op: Op) -> list[ParamEntry]:
        """Return the arguments of a task: tensors, then numbers, each in order of declaration."""
        pairs = list(zip(kernel.params, op.args, strict=True))
        tensors = [
            ParamEntry(self.out.expression(arg), param.direction)
            for param, arg in pairs if not isinstance(param, ScalarParam)
        ]  # fmt: skip
        scalars = [
            ParamEntry(self.scalar(arg, param.type.dtype), None)
            for param, arg in pairs if isinstance(param, ScalarParam)
        ]  # fmt: skip
        scalars += [
            ParamEntry(self.context(arg, op), None) for param, arg in pairs if isinstance(param.type, WindowType)
        ]
        vintage = self.out.vintage
        for what, have, limit in (
            ("tensors", len(tensors), vintage.max_tensors), ("numbers", len(scalars), vintage.max_scalars)
        ):  # fmt: skip
            if have > limit:
                raise CompileError(
                    op.position, (
                        f"{kernel.name} takes {have} {what}, but a task of the API version {vintage.name} "
                        f"has at most {limit}"
                    ),
                    "split the kernel, or combine some of them in one tensor",
                )  # fmt: skip
        return tensors + scalars

    def context(self, arg: Operand, op: Op) -> str:
        """Return the variable with the context of a tensor in a window."""
        if not (isinstance(arg, Ref) and arg.name in self.out.contexts):
            raise CompileError(
                op.position, f"{op.callee}: a condition or loop decides which window is passed",
                "call the kernel in each branch, with one window",
            )  # fmt: skip
        return self.out.contexts[arg.name]

    def scalar(self, arg: Operand, dtype: DType) -> str:
        if isinstance(arg, Const):
            if dtype.is_float:
                return f"to_u64({float_literal(float(arg.value))})"
            return f"(uint64_t){int(arg.value)}"
        text = self.out.expression(arg)
        return f"to_u64({text})" if dtype.is_float else text

    def record(self, kernel: IrFunction, entries: list[ParamEntry]) -> int:
        """Return the kernel's id; the first task decides its entry in the manifest."""
        result = self.out.result
        number = result.func_name_to_id.setdefault(kernel.name, len(result.func_name_to_id))
        result.func_name_to_core_type.setdefault(kernel.name, kernel.core)
        signature = tuple(e.direction.name for e in entries if e.direction is not None)
        result.func_name_to_signature.setdefault(kernel.name, signature)
        return number


BATCH = 16  # tensors one alloc_tensors call takes


def generate_orchestration(program: Program, func: IrFunction, vintage: ApiVintage = TODAY) -> OrchestrationResult:
    """Return the orchestration `func` of a program whose passes have run."""
    return OrchestrationEmitter(program, func, vintage).run()


class OrchestrationEmitter(OrchestrationText):
    def __init__(self, program: Program, function: IrFunction, vintage: ApiVintage) -> None:
        super().__init__(program, function, vintage)
        self.allocs = 0
        self.writes = 0
        self.manual = False  # inside pl.manual_scope()
        self.tasks = TaskEmitter(self)

    def run(self) -> OrchestrationResult:
        function, args = self.function, self.vintage.entry_args
        count = len(function.params) + len(function.windows())
        self.entry()
        self.add("PTO2_SCOPE() {")
        self.nested(function.body)
        self.add("}")
        head = [
            f"// Orchestration Function: {function.name}",
            "// Generated by pypto-build, in the form of PyPTO's PTO backend",
            "",
            "#include <stddef.h>",
            "#include <stdint.h>",
            "#include <stdio.h>",
            "",
            '#include "pto_orchestration_api.h"',
            "",
            'extern "C" {',
            "",
            '__attribute__((visibility("default")))',
            f"PTO2OrchestrationConfig aicpu_orchestration_config(const {args}& orch_args) {{",
            "    (void)orch_args;",
            "    return PTO2OrchestrationConfig{",
            f"        .expected_arg_count = {count},",
            "    };",
            "}",
            "",
            '__attribute__((visibility("default")))',
            f"void aicpu_orchestration_entry(const {args}& orch_args) {{",
        ]
        self.result.code = "\n".join([*head, *self.lines, "}", "", '}  // extern "C"', ""])
        return self.result

    def entry(self) -> None:
        """Write the parameters: external tensors, numbers, and dynamic extents."""
        function = self.function
        self.add("// External tensors")
        for number, param in enumerate(function.tensors()):
            name = self.name(param.name, "ext_")
            kind = f"{self.vintage.tensor} " if self.vintage.by_value else f"const {self.vintage.tensor}& "
            self.add(f"{kind}{name} = {self.vintage.external.format(i=number)};")
        if function.scalars():
            self.add()
            self.add("// Scalar params")
        for number, scalar in enumerate(function.scalars()):
            cpp = scalar.type.dtype.cpp
            self.add(f"{cpp} {self.name(scalar.name)} = from_u64<{cpp}>(orch_args.scalar({number}));")
        windows = function.windows()
        if windows:
            self.add()
            self.add("// Comm contexts of tensors in windows")
        for number, window in enumerate(windows, len(function.scalars())):
            name = self.contexts[window.name] = f"{self.names[window.name]}_ctx"
            self.add(f"uint64_t {name} = orch_args.scalar({number});")
        extents = signature_of(function).extents
        if extents:
            self.add()
            self.add("// Dynamic-dim symbols (extent of the declaring argument)")
        for symbol, param, axis in extents:
            self.names[symbol] = symbol
            self.taken.add(symbol)
            self.add(f"int64_t {symbol} = (int64_t){self.names[param.name]}.shapes[{axis}];")
        self.add()

    # --- blocks ------------------------------------------------------------------------------------------------------

    def nested(self, block: Block) -> None:
        self.depth += 1
        self.block(block)
        self.depth -= 1

    def block(self, block: Block) -> None:
        inside = {name for op in block.ops for name in op.results}
        early = [
            op for op in block.ops
            if op.name == "create_tensor" and not {r.name for r in op.items(0) if isinstance(r, Ref)} & inside
        ]  # fmt: skip
        for start in range(0, len(early), BATCH):
            self.allocate(early[start : start + BATCH])
        allocated = set(map(id, early))
        for op in block.ops:
            if id(op) not in allocated:
                self.op(op)

    def op(self, op: Op) -> None:
        if op.name.startswith("s."):
            self.number(op)
            return
        handler = _HANDLERS.get(op.name)
        if handler is None:
            raise CompileError(op.position, f"pl.{op.name} is not available in an orchestration")
        handler(self, op)

    def number(self, op: Op) -> None:
        """Write a number. A variable of the program becomes a C++ variable; a subexpression is inlined at its use."""
        text = scalar_text(op, self.expression, self.values.types)
        if self.values[op.result].kind is ValueKind.TEMPORARY:
            self.names[op.result] = text
            return
        type_ = self.scalar_type(op.result)
        self.add(f"{type_} {self.name(op.result)} = {text};")

    def allocate(self, ops: list[Op]) -> None:
        infos = []
        for op in ops:
            type_ = self.values.tensor(op.result)
            name, rank = self.name(op.result), len(type_.shape)
            self.add(f"uint32_t {name}_ci_shapes[{rank}] = {{{', '.join(map(self.dim, type_.shape))}}};")
            manual = ", /*manual_dep=*/true" if op.attrs.get("manual_dep") else ""
            self.add(f"TensorCreateInfo {name}_ci({name}_ci_shapes, {rank}, DataType::{type_.dtype.enum}{manual});")
            infos.append(name)
        self.add(f"TaskOutputTensors alloc_{self.allocs} = alloc_tensors({', '.join(f'{n}_ci' for n in infos)});")
        for number, name in enumerate(infos):
            self.add(f"const {self.vintage.tensor}& {name} = alloc_{self.allocs}.get_ref({number});")
        self.allocs += 1

    def same_window(self, op: Op) -> None:
        """Give a part of a tensor in a window the context of that tensor."""
        if op.ref(0).name in self.contexts:
            self.contexts[op.result] = self.contexts[op.ref(0).name]

    def view(self, op: Op) -> None:
        self.same_window(op)
        source, name = self.expression(op.args[0]), self.name(op.result)
        shape, offsets = op.items(1), op.items(2)
        rank = len(shape)
        self.add(f"uint32_t {name}_offsets[{rank}] = {{{', '.join(map(self.dim, offsets))}}};")
        clamped = [
            f"({name}_offsets[{i}] >= {source}.shapes[{i}] ? 0u : "
            f"std::min<uint32_t>({self.dim(extent)}, {source}.shapes[{i}] - {name}_offsets[{i}]))"
            for i, extent in enumerate(shape)
        ]
        self.add(f"uint32_t {name}_shapes[{rank}] = {{{', '.join(clamped)}}};")
        self.add(f"{self.vintage.tensor} {name} = {source}.view({name}_shapes, {name}_offsets);")

    def reshape(self, op: Op) -> None:
        self.same_window(op)
        source, name, shape = self.expression(op.args[0]), self.name(op.result), op.items(1)
        self.add(f"uint32_t {name}_shapes[{len(shape)}] = {{{', '.join(map(self.dim, shape))}}};")
        self.add(f"{self.vintage.tensor} {name} = {source}.reshape({name}_shapes, {len(shape)});")

    def indices(self, op: Op, name: str) -> str:
        indices = op.items(1)
        array = f"indices_{name}"
        self.add(f"uint32_t {array}[{len(indices)}] = {{{', '.join(map(self.dim, indices))}}};")
        return f"{len(indices)}, {array}"

    def read(self, op: Op) -> None:
        type_ = self.scalar_type(op.result)
        name = self.name(op.result)
        where = self.indices(op, name)
        self.add(f"{type_} {name} = get_tensor_data<{type_}>({self.expression(op.args[0])}, {where});")

    def write(self, op: Op) -> None:
        tensor = op.ref(0)
        where = self.indices(op, f"write_{self.writes}")
        self.writes += 1
        cpp, value = self.values.tensor(tensor.name).dtype.cpp, self.expression(op.args[2])
        self.add(f"set_tensor_data<{cpp}>({self.expression(tensor)}, {where}, {value});")

    # --- control flow ------------------------------------------------------------------------------------------------

    def carried(self, op: Op, params: tuple[str, ...], inits: tuple[Operand, ...]) -> list[str]:
        """Declare a loop's carried variables with their initial values, and return them."""
        for result, param, init in zip(op.results, params, inits, strict=True):
            kind = self.scalar_type(result)
            self.names[param] = self.name(result)
            self.add(f"{kind} {self.names[param]} = {self.expression(init)};")
        return [self.names[param] for param in params]

    def loop(self, op: Op) -> None:
        body = op.blocks[0]
        targets = self.carried(op, body.params[1:], op.args[3:])
        start, stop, step = map(self.expression, op.args[:3])
        index = self.name(body.params[0])
        self.add(f"for (int64_t {index} = {start}; {index} < {stop}; {index} += {step}) {{")
        self.scoped(body, targets, op.results)
        self.add("}")
        self.taken.discard(index)

    def repeat(self, op: Op) -> None:
        """Write `while`: a condition that is a single expression goes into the head, else a break follows its
        statements.
        """
        test, body = op.blocks
        targets = self.carried(op, test.params, op.args)
        start = len(self.lines)
        self.nested(test)
        test_lines, self.lines = self.lines[start:], self.lines[:start]
        condition = self.expression(test.yields[0])
        if test_lines:
            self.add("while (true) {")
            self.lines += test_lines
            self.depth += 1
            self.add(f"if (!{condition}) break;")
            self.depth -= 1
        else:
            self.add(f"while {condition if condition.startswith('(') else f'({condition})'} {{")
        self.scoped(body, targets, op.results)
        self.add("}")

    def scoped(self, block: Block, targets: list[str], results: tuple[str, ...]) -> None:
        """Write a block inside braces, then assign the values that it yields.

        The block is also a scope of the runtime, unless the program declares its dependencies itself.
        """
        self.depth += 1
        if not self.manual:
            self.add("PTO2_SCOPE() {")
            self.depth += 1
        self.block(block)
        self.assign(targets, [self.expression(y) for y in block.yields], [self.scalar_type(r) for r in results])
        if not self.manual:
            self.depth -= 1
            self.add("}")
        self.depth -= 1

    def assign(self, targets: list[str], values: list[str], types: list[str]) -> None:
        """Assign all values at once, because an assignment may read a value that another one changes."""
        pairs = [(t, v, k) for t, v, k in zip(targets, values, types, strict=True) if t != v]
        if len(pairs) > 1:
            for target, value, kind in pairs:
                self.add(f"{kind} next_{target} = {value};")
            pairs = [(target, f"next_{target}", kind) for target, _, kind in pairs]
        for target, value, _ in pairs:
            self.add(f"{target} = {value};")

    def branch(self, op: Op) -> None:
        targets = []
        for number, result in enumerate(op.results):
            kind, name = self.scalar_type(result), self.name(result)
            initial = f" = {self.placeholder(op, number)}" if kind == self.vintage.tensor else ""
            initial = " = PTO2TaskId::invalid()" if kind == "PTO2TaskId" else initial
            self.add(f"{kind} {name}{initial};")
            targets.append(name)
        self.add(f"if ({self.expression(op.args[0])}) {{")
        for number, block in enumerate(op.blocks):
            if number and not block.ops and not targets:
                break
            if number:
                self.add("} else {")
            self.scoped(block, targets, op.results)
        self.add("}")

    def placeholder(self, op: Op, number: int) -> str:
        """Return any tensor that is valid before the condition: C++ tensors cannot be declared without a value."""
        for block in op.blocks:
            operand = block.yields[number]
            if isinstance(operand, Ref) and operand.name in self.names:
                return self.names[operand.name]
        return self.names[self.function.tensors()[0].name]

    def scope(self, op: Op) -> None:
        outer, self.manual = self.manual, self.manual or bool(op.attrs.get("manual"))
        if outer and not op.attrs.get("manual"):
            raise CompileError(
                op.position,
                "pl.scope() cannot be used inside pl.manual_scope()",
                "remove pl.scope(); deps= orders the tasks",
            )
        self.add("PTO2_SCOPE(PTO2ScopeMode::MANUAL) {" if self.manual else "PTO2_SCOPE() {")
        self.nested(op.blocks[0])
        self.add("}")
        self.manual = outer

    def no_task(self, op: Op) -> None:
        self.names[op.result] = "PTO2TaskId::invalid()"


_HANDLERS: dict[str, Callable[[OrchestrationEmitter, Op], None]] = {
    "create_tensor": lambda e, op: e.allocate([op]),
    "slice": OrchestrationEmitter.view,
    "reshape": OrchestrationEmitter.reshape,
    "read": OrchestrationEmitter.read,
    "write": OrchestrationEmitter.write,
    "for": OrchestrationEmitter.loop,
    "while": OrchestrationEmitter.repeat,
    "no_task": OrchestrationEmitter.no_task,
    "dummy_task": lambda e, op: e.tasks.dummy(op),
    "if": OrchestrationEmitter.branch,
    "scope": OrchestrationEmitter.scope,
    "call": lambda e, op: e.tasks.emit(op),
}
