"""Tasks of an orchestration: the arguments of one submission, and what the manifest records of its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .cpp_scalars import float_literal
from .dtypes import DType
from .errors import CompileError
from .ir import Const, Direction, Function, Launch, Op, Operand, Ref, ScalarType

if TYPE_CHECKING:
    from .emit_orchestration import OrchestrationEmitter

_ADD = {Direction.IN: "add_input", Direction.OUT: "add_output", Direction.INOUT: "add_inout"}
_SIGNATURE = {Direction.IN: "IN", Direction.OUT: "OUT", Direction.INOUT: "INOUT"}


@dataclass(frozen=True)
class ParamEntry:
    """One argument of a task: a tensor with its direction, or a number (direction None)."""

    text: str
    direction: Direction | None


class TaskEmitter:
    def __init__(self, orchestration: OrchestrationEmitter) -> None:
        self.out = orchestration
        self.count = 0
        self.submitted: set[str] = set()  # tasks that are certain to have been submitted

    def emit(self, op: Op) -> None:
        members = self.members(op.attrs["callee"])
        entries = self.entries(members[0], op)
        ids = [self.record(member, entries) for member in members]
        out, number = self.out, self.count
        self.count += 1
        launch = op.attrs["launch"]
        assert isinstance(launch, Launch)
        out.add()
        out.add(f"// {self.comment(op.attrs['callee'], number, members, launch)}")
        out.add(f"{out.vintage.task_args} params_t{number};")
        for entry in entries:
            add = "add_scalar" if entry.direction is None else _ADD[entry.direction]
            out.add(f"params_t{number}.{add}({entry.text});")
        lanes = self.lanes(members, ids)
        if lanes:
            out.add(f"MixedKernels mixed_{number} = {{{', '.join(lanes)}}};")
        self.after(launch, number)
        if launch.blocks is not None:
            setter = "set_core_num" if out.program.arch == "a5" else "set_block_num"
            out.add(f"params_t{number}.launch_spec.{setter}({out.expression(launch.blocks)});")
        if launch.sync_start:
            out.add(f"params_t{number}.launch_spec.set_require_sync_start(true);")
        submit = f"rt_submit_task(mixed_{number}" if lanes else f"rt_submit_{members[0].core}_task({ids[0]}"
        outputs = f"TaskOutputTensors task_{number}_outs = " if op.results else ""
        out.add(f"{outputs}{submit}, params_t{number});")
        for name in op.results:
            out.add(f"PTO2TaskId {out.name(name)} = task_{number}_outs.task_id();")
            self.submitted.add(name)

    def lanes(self, members: list[Function], ids: list[int]) -> list[str]:
        """Kernels of the cube core and of the two vector cores, for a task that takes more than one core."""
        if len(members) == 1 and members[0].split < 0:
            return []
        vector = str(ids[-1])
        cube = str(ids[0]) if len(members) > 1 else "INVALID_KERNEL_ID"
        return [cube, vector, vector if members[-1].split >= 0 else "INVALID_KERNEL_ID"]

    def after(self, launch: Launch, number: int) -> None:
        """Tasks to wait for; one that need not have been submitted is asked whether it was."""
        if not launch.deps:
            return
        out, deps = self.out, f"params_t{number}_deps"
        out.add(f"PTO2TaskId {deps}[{len(launch.deps)}];")
        out.add(f"uint32_t {deps}_count = 0;")
        for dep in launch.deps:
            task = out.expression(dep)
            sure = isinstance(dep, Ref) and dep.name in self.submitted
            out.add(f"{'' if sure else f'if ({task}.is_valid()) '}{deps}[{deps}_count++] = {task};")
        out.add(f"params_t{number}.set_dependencies({deps}, {deps}_count);")

    def comment(self, callee: str, number: int, members: list[Function], launch: Launch) -> str:
        if len(members) > 1:
            return f"Group {callee}: MixedKernels (AIC + AIV lanes)"
        if members[0].split >= 0:
            return f"Group {callee}: AIV-only SPMD"
        return f"Spmd {callee}: {callee}" if launch.blocks is not None else f"Task {number}: {callee}"

    def members(self, callee: str) -> list[Function]:
        """The kernel, or the members of its group: cube first."""
        kernels = self.out.program.kernels
        group = sorted((k for k in kernels if k.group == callee), key=lambda k: k.core)
        return group or [self.out.program.functions[callee]]

    def entries(self, kernel: Function, op: Op) -> list[ParamEntry]:
        """Tensors, then numbers, each in order of declaration."""
        pairs = list(zip(kernel.params, op.args, strict=True))
        tensors = [
            ParamEntry(self.out.expression(arg), param.direction)
            for param, arg in pairs if not isinstance(param.type, ScalarType)
        ]  # fmt: skip
        scalars = [
            ParamEntry(self.scalar(arg, param.type.dtype), None)
            for param, arg in pairs if isinstance(param.type, ScalarType)
        ]  # fmt: skip
        vintage = self.out.vintage
        for what, have, limit in (
            ("tensors", len(tensors), vintage.max_tensors), ("numbers", len(scalars), vintage.max_scalars)
        ):  # fmt: skip
            if have > limit:
                raise CompileError(
                    op.place, f"{kernel.name} takes {have} {what}; a task of {vintage.name} has at most {limit}",
                    "split the kernel, or pack some of them into one tensor",
                )  # fmt: skip
        return tensors + scalars

    def scalar(self, arg: Operand, dtype: DType) -> str:
        if isinstance(arg, Const):
            if dtype.is_float:
                return f"to_u64({float_literal(float(arg.value))})"
            return f"(uint64_t){int(arg.value)}"
        text = self.out.expression(arg)
        return f"to_u64({text})" if dtype.is_float else text

    def record(self, kernel: Function, entries: list[ParamEntry]) -> int:
        """The kernel's id; the first task decides what the manifest says of it."""
        result = self.out.result
        number = result.func_name_to_id.setdefault(kernel.name, len(result.func_name_to_id))
        result.func_name_to_core_type.setdefault(kernel.name, kernel.core)
        signature = tuple(_SIGNATURE[e.direction] for e in entries if e.direction is not None)
        result.func_name_to_signature.setdefault(kernel.name, signature)
        return number


def written_tensors(function: Function, kernels: dict[str, Function]) -> dict[str, Op]:
    """Parameters of an orchestration that one of its tasks writes, views included, with the task."""
    source: dict[str, str] = {p.name: p.name for p in function.tensors()}
    found: dict[str, Op] = {}
    for op in function.body.walk():
        if op.name in ("slice", "reshape") and isinstance(op.args[0], Ref) and op.args[0].name in source:
            source[op.result] = source[op.args[0].name]
        if op.name == "write" and isinstance(op.args[0], Ref) and op.args[0].name in source:
            found.setdefault(source[op.args[0].name], op)
        if op.name != "call":
            continue
        callee = kernels[op.attrs["callee"]]
        for param, arg in zip(callee.params, op.args, strict=True):
            if param.direction is not Direction.IN and isinstance(arg, Ref) and arg.name in source:
                found.setdefault(source[arg.name], op)
    return found
