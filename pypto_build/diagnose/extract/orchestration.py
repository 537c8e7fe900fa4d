"""Writer of an extracted artifact's orchestration: C++ that submits its tasks with the recorded views and scalars."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence

from pypto_build.compiler.vintages import ApiVintage
from pypto_build.diagnose.extract.record import RecordedTask, ScalarUse, TensorUse
from pypto_build.diagnose.extract.tensors import Parameter, ViewStep, steps_to
from pypto_build.facts.dtypes import DTYPES

_ADD = {"IN": "add_input", "OUT": "add_output", "INOUT": "add_inout", "NO_DEP": "add_no_dep"}
_HEAD = """\
// Orchestration Function: {name}
// Extracted by pypto-build from {origin}

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pto_orchestration_api.h"

extern "C" {{

__attribute__((visibility("default")))
PTO2OrchestrationConfig aicpu_orchestration_config(const {args}& orch_args) {{
    (void)orch_args;
    return PTO2OrchestrationConfig{{
        .expected_arg_count = {count},
    }};
}}

__attribute__((visibility("default")))
void aicpu_orchestration_entry(const {args}& orch_args) {{
"""


class Text:
    """Writer of the orchestration of ``tasks`` on ``parameters``.

    ``after`` maps task numbers to the tasks that a task waits for explicitly. ``manual`` are tasks whose dependencies
    the runtime does not track.
    """

    def __init__(
        self,
        tasks: Sequence[RecordedTask],
        parameters: Sequence[Parameter],
        vintage: ApiVintage,
        *,
        after: Mapping[int, Sequence[int]] = {},
        manual: frozenset[int] = frozenset(),
        a5: bool = False,
    ) -> None:
        self.tasks, self.vintage, self.after, self.manual = tasks, vintage, after, manual
        self.setter = "set_core_num" if a5 else "set_block_num"
        self.parameters = parameters
        self.views: dict[str, str] = {}  # expression of a view -> the variable that holds it
        self.uses = {
            (number, use.index): (parameter, use) for parameter in parameters for number, use in parameter.uses
        }

    def render(self, name: str, origin: str) -> str:
        """Return the text of the whole file."""
        external = [one for one in self.parameters if not one.scratch]
        head = _HEAD.format(name=name, origin=origin, args=self.vintage.entry_args, count=len(external))
        kind = f"{self.vintage.tensor} " if self.vintage.by_value else f"const {self.vintage.tensor}& "
        lines = ["// External tensors"]
        for number, one in enumerate(external):
            lines.append(f"{kind}ext_{one.name} = {self.vintage.external.format(i=number)};")
        lines += ["", "PTO2_SCOPE() {"]
        for one in self.parameters:
            lines += [f"    {line}" for line in self._allocated(one)] if one.scratch else []
        awaited = {number for numbers in self.after.values() for number in numbers}
        lines += [f"    PTO2TaskId id_{number};" for number in sorted(awaited)]
        for at, task in enumerate(self.tasks):
            body = list(self._task(at, task, task.number in awaited))
            if task.number in self.manual:
                body = ["PTO2_SCOPE(PTO2ScopeMode::MANUAL) {", *(f"    {line}" for line in body), "}"]
            lines += [""] if at or awaited else []
            lines += [f"    {line}" if line else "" for line in body]
        lines.append("}")
        text = "\n".join(f"    {line}" if line else "" for line in lines)
        return f'{head}{text}\n}}\n\n}}  // extern "C"\n'

    def _allocated(self, one: Parameter) -> Iterator[str]:
        info = f"{one.name}_ci"
        dtype = next(row.enum for row in DTYPES.values() if row.torch == one.dtype)
        yield f"uint32_t {info}_shapes[{len(one.shape)}] = {{{_numbers(one.shape)}}};"
        yield f"TensorCreateInfo {info}({info}_shapes, {len(one.shape)}, DataType::{dtype}, /*manual_dep=*/true);"
        yield f"TaskOutputTensors {one.name}_alloc = alloc_tensors({info});"
        yield f"const {self.vintage.tensor}& ext_{one.name} = {one.name}_alloc.get_ref(0);"

    def _task(self, at: int, task: RecordedTask, awaited: bool) -> Iterator[str]:
        names = {use.index: "" for use in task.tensors}
        for use in task.tensors:
            names[use.index] = yield from self._view(task, use)
        params = f"params_t{at}"
        yield f"// Task {at}: {task.title.partition(' ')[2].partition(' ')[2]} (task {task.number} of the run)"
        yield f"{self.vintage.task_args} {params};"
        for arg in task.args:
            if isinstance(arg, TensorUse):
                yield f"{params}.{_ADD[arg.direction]}({names[arg.index]});"
            else:
                yield f"{params}.add_scalar({_scalar(arg)});"
        before = self.after.get(task.number, ())
        if before:
            yield f"PTO2TaskId {params}_deps[{len(before)}] = {{{', '.join(f'id_{number}' for number in before)}}};"
            yield f"{params}.set_dependencies({params}_deps, {len(before)});"
        if task.blocks != 1:
            yield f"{params}.launch_spec.{self.setter}({task.blocks});"
        if task.together:
            yield f"{params}.launch_spec.set_require_sync_start(true);"
        lanes = {role: func_id for role, func_id, _ in task.kernels}
        if len(lanes) > 1 or "aiv1" in lanes:
            order = [str(lanes.get(role, "INVALID_KERNEL_ID")) for role in ("aic", "aiv0", "aiv1")]
            yield f"MixedKernels mixed_{at} = {{{', '.join(order)}}};"
            submit = f"rt_submit_task(mixed_{at}, {params})"
        else:
            core = "aic" if "aic" in lanes else "aiv"
            submit = f"rt_submit_{core}_task({next(iter(lanes.values()))}, {params})"
        if awaited:
            yield f"TaskOutputTensors outs_t{at} = {submit};"
            yield f"id_{task.number} = outs_t{at}.task_id();"
        else:
            yield f"{submit};"

    def _view(self, task: RecordedTask, use: TensorUse) -> Generator[str, None, str]:
        parameter, _ = self.uses[task.number, use.index]
        name = f"ext_{parameter.name}"
        stem = parameter.name
        for step in steps_to(parameter.shape, parameter.base, use.view):
            stepped = f"{name}.{step}"
            known = self.views.get(stepped) if task.number not in self.manual else None
            if known is None:
                known = f"{stem}_{len(self.views) + 1}"
                self.views[stepped if task.number not in self.manual else f"{stepped} {task.number}"] = known
                yield from self._call(known, name, step)
            name = known
        return name

    def _call(self, variable: str, of: str, step: ViewStep) -> Iterator[str]:
        tensor = self.vintage.tensor
        if step.shape:
            yield f"uint32_t {variable}_shapes[{len(step.shape)}] = {{{_numbers(step.shape)}}};"
        if step.method == "view":
            yield f"uint32_t {variable}_offsets[{len(step.more)}] = {{{_numbers(step.more)}}};"
            yield f"{tensor} {variable} = {of}.view({variable}_shapes, {variable}_offsets);"
        elif step.method == "reshape":
            yield f"{tensor} {variable} = {of}.reshape({variable}_shapes, {len(step.shape)});"
        elif step.method == "slice":
            yield f"{tensor} {variable} = {of}.slice({_numbers(step.more)});"
        else:
            yield f"uint32_t {variable}_order[{len(step.more)}] = {{{_numbers(step.more)}}};"
            yield f"{tensor} {variable} = {of}.permute({variable}_order);"


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _scalar(arg: ScalarUse) -> str:
    """Return a scalar's 64-bit word as C++. Small words are decimal, because they are sizes and counts."""
    bits = arg.bits & (1 << 64) - 1
    if arg.dtype.startswith("int") and bits >= 1 << 63:
        return f"(int64_t){bits - (1 << 64)}" if bits != 1 << 63 else "(int64_t)INT64_MIN"
    return f"(uint64_t){bits}" if bits < 1 << 20 else f"(uint64_t)0x{bits:x}ULL"
