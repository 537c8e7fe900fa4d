"""Tasks of an orchestration: the arguments of one submission, and what the manifest records of its kernels."""

from __future__ import annotations

from dataclasses import dataclass

from .cpp_scalars import float_literal
from .dtypes import DType
from .errors import CompileError
from .ir import Direction, IrFunction, Launch, Op, Operand, Predicate, ScalarParam
from .orchestration_text import OrchestrationText
from .values import Const, Ref, WindowType

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
        """Kernels of the cube core and of the two vector cores, for a task that takes more than one core."""
        if len(members) == 1 and members[0].split < 0:
            return []
        vector = str(ids[-1])
        cube = str(ids[0]) if len(members) > 1 else "INVALID_KERNEL_ID"
        return [cube, vector, vector if members[-1].split >= 0 else "INVALID_KERNEL_ID"]

    def dummy(self, op: Op) -> None:
        """A task that runs nothing and ends when others have."""
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
                op.position, f"tasks of {self.out.vintage.name} have no {marks[0]}", "use a later vintage"
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
        """The kernel, or the members of its group: cube first."""
        kernels = self.out.program.kernels
        group = sorted((k for k in kernels if k.group == callee), key=lambda k: k.core)
        return group or [self.out.program.functions[callee]]

    def entries(self, kernel: IrFunction, op: Op) -> list[ParamEntry]:
        """Tensors, then numbers, each in order of declaration."""
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
                    op.position, f"{kernel.name} takes {have} {what}; a task of {vintage.name} has at most {limit}",
                    "split the kernel, or pack some of them into one tensor",
                )  # fmt: skip
        return tensors + scalars

    def context(self, arg: Operand, op: Op) -> str:
        """The variable with the context of a tensor in a window."""
        if not (isinstance(arg, Ref) and arg.name in self.out.contexts):
            raise CompileError(
                op.position, f"{op.callee}: which window is passed depends on a condition or loop",
                "call the kernel in each of its branches",
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
