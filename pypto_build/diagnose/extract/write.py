"""Writer of an extracted artifact: manifest, kernels with their modules, orchestration, metadata and data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto_build.artifact import Artifact, ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.manifest_writer import quoted
from pypto_build.artifact.modules import function_names
from pypto_build.artifact.pt import write_pt
from pypto_build.artifact.records import Kernel
from pypto_build.compiler.emit_artifact import manifest_text
from pypto_build.compiler.vintages import TODAY, VINTAGES, ApiVintage
from pypto_build.diagnose.extract.record import numbers
from pypto_build.diagnose.extract.tensors import OrderBesides, Parameter, ViewStep, steps_to
from pypto_build.facts.dtypes import DTYPES
from pypto_build.facts.tasks import Task, TaskArgument
from pypto_build.replay.reference.entry import read_entry

# Writer of an extracted artifact's orchestration: C++ that submits its tasks with the recorded views and scalars.

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
        tasks: Sequence[Task],
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

    def _task(self, at: int, task: Task, awaited: bool) -> Iterator[str]:
        names = {use.index: "" for use in task.tensors}
        for use in task.tensors:
            names[use.index] = yield from self._view(task, use)
        params = f"params_t{at}"
        yield f"// Task {at}: {task.kernel} (task {task.number} of the run)"
        yield f"{self.vintage.task_args} {params};"
        for arg in task.args:
            if arg.scalar:
                yield f"{params}.add_scalar({_scalar(arg)});"
            else:
                yield f"{params}.{_ADD[arg.direction]}({names[arg.index]});"
        before = self.after.get(task.number, ())
        if before:
            yield f"PTO2TaskId {params}_deps[{len(before)}] = {{{', '.join(f'id_{number}' for number in before)}}};"
            yield f"{params}.set_dependencies({params}_deps, {len(before)});"
        if task.block_num != 1:
            yield f"{params}.launch_spec.{self.setter}({task.block_num});"
        if task.together:
            yield f"{params}.launch_spec.set_require_sync_start(true);"
        aic, aiv, second = task.kernels
        if second >= 0 or (aic >= 0 and aiv >= 0):
            order = [str(func_id) if func_id >= 0 else "INVALID_KERNEL_ID" for func_id in task.kernels]
            yield f"MixedKernels mixed_{at} = {{{', '.join(order)}}};"
            submit = f"rt_submit_task(mixed_{at}, {params})"
        else:
            submit = f"rt_submit_{'aic' if aic >= 0 else 'aiv'}_task({max(aic, aiv)}, {params})"
        if awaited:
            yield f"TaskOutputTensors outs_t{at} = {submit};"
            yield f"id_{task.number} = outs_t{at}.task_id();"
        else:
            yield f"{submit};"

    def _view(self, task: Task, use: TaskArgument) -> Generator[str, None, str]:
        parameter, _ = self.uses[task.number, use.index]
        name = f"ext_{parameter.name}"
        stem = parameter.name
        for step in steps_to(parameter.shape, parameter.base, use.view):
            stepped = f"{name}.{step}"
            view = self.views.get(stepped) if task.number not in self.manual else None
            if view is None:
                view = f"{stem}_{len(self.views) + 1}"
                self.views[stepped if task.number not in self.manual else f"{stepped} {task.number}"] = view
                yield from self._call(view, name, step)
            name = view
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


def _scalar(arg: TaskArgument) -> str:
    """Return a scalar's 64-bit word as C++. Small words are decimal, because they are sizes and counts."""
    bits = arg.bits & (1 << 64) - 1
    if arg.view.dtype.startswith("int") and bits >= 1 << 63:
        return f"(int64_t){bits - (1 << 64)}" if bits != 1 << 63 else "(int64_t)INT64_MIN"
    return f"(uint64_t){bits}" if bits < 1 << 20 else f"(uint64_t)0x{bits:x}ULL"


#: The file that marks a directory as written by extract, and names its origin. Only such a directory is replaced.
ORIGIN_NAME = "extracted.json"
_HEADERS = (".h", ".hpp", ".inc", ".inl")


@dataclass(frozen=True)
class Extracted:
    """The content of the artifact ``name``. ``golden`` is the source of the outputs, empty if there are none."""

    name: str
    source: Artifact
    platform: str
    vintage: str
    tasks: Sequence[Task]
    parameters: Sequence[Parameter]
    order: OrderBesides
    golden: str
    raw: Mapping[str, Path] = field(default_factory=dict)  # assembler's output of edited modules, by unit

    @property
    def external(self) -> list[Parameter]:
        """The parameters of the artifact's orchestration."""
        return [one for one in self.parameters if not one.scratch]


def api_of(vintage: str, where: Path) -> ApiVintage:
    """Return the names of an API. Raises ArtifactError if extract does not write that API."""
    if vintage in VINTAGES:
        return VINTAGES[vintage]
    oldest = next(iter(VINTAGES))
    hint = (
        f"compile the program again for {TODAY.name}"
        if vintage < oldest
        else ("update pypto-build, which does not know this API version")
    )
    raise ArtifactError(
        where, f"was compiled for the API version {vintage}, but extract writes only {', '.join(VINTAGES)}", hint
    )


def write_artifact(extracted: Extracted, root: Path) -> None:
    """Write the artifact to ``root``, in place of one that was extracted there before.

    Raises ArtifactError if ``root`` holds anything else.
    """
    require_own(root)
    origin = {
        "artifact": str(extracted.source.root),
        "tasks": [task.number for task in extracted.tasks],
        "golden": extracted.golden,
    }
    with replacing(root, origin) as temporary:
        _write(extracted, temporary)


@contextmanager
def replacing(root: Path, origin: Mapping[str, object]) -> Iterator[Path]:
    """Yield a temporary directory for an artifact, which replaces ``root`` at the end of the block.

    ``origin`` describes where the artifact comes from, and is written into it.
    """
    temporary = root.with_name(f".{root.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    yield temporary
    write_bytes(temporary / ORIGIN_NAME, json.dumps({"schema": 1, **origin}, indent=2).encode() + b"\n")
    shutil.rmtree(root, ignore_errors=True)
    temporary.rename(root)


def require_own(root: Path) -> None:
    """Raise ArtifactError if ``root`` holds something that extract or reduce did not write."""
    if root.exists() and any(root.iterdir()) and not (root / ORIGIN_NAME).is_file():
        hint = "move the directory away, or name another with BUILD_OUTPUT="
        raise ArtifactError(root, "already exists, and pypto-build did not write it", hint)


def _write(extracted: Extracted, root: Path) -> None:
    used = {func_id for task in extracted.tasks for func_id in task.func_ids}
    kernels = [kernel for kernel in extracted.source.kernels if kernel.func_id in used]
    places = [(kernel, _copy_kernel(kernel, extracted.source.root, root)) for kernel in kernels]
    copy_modules(kernels, extracted.source.root, root, extracted.raw)
    frame = frame_of(extracted.source, extracted.platform, extracted.name)
    text = Text(
        extracted.tasks,
        extracted.parameters,
        api_of(extracted.vintage, extracted.source.orchestration.source),
        after=extracted.order.after,
        manual=extracted.order.manual,
        a5=frame.a5,
    )
    origin = f"{extracted.source.name}: task {numbers(extracted.tasks)}"
    write_texts(root, frame, text.render(frame.program, origin), places, extracted.external)
    write_data(extracted.external, root / "data", golden=bool(extracted.golden))


@dataclass(frozen=True)
class Frame:
    """Properties of an artifact besides its tasks: its name, platform, backend, and the runtime's configuration."""

    program: str
    platform: str
    runtime_config: Mapping[str, Any]
    backend: str | None = None

    @property
    def a5(self) -> bool:
        """True if the artifact is for a5, whose API has some other names."""
        return self.platform.startswith("a5")


def frame_of(source: Artifact, platform: str, name: str) -> Frame:
    """Return the frame of an artifact called ``name``, with the properties of ``source``."""
    meta = source.meta
    declared = (meta.platform if meta else None) or platform
    return Frame(name.removeprefix("_jit_"), declared, source.runtime_config, meta.backend_type if meta else None)


def write_texts(
    root: Path,
    frame: Frame,
    orchestration: str,
    kernels: Sequence[tuple[Kernel, Path]],
    external: Sequence[Parameter],
) -> None:
    """Write orchestration, manifest and metadata. ``kernels`` have their paths relative to ``root``."""
    write_bytes(root / "orchestration" / f"{frame.program}.cpp", orchestration.encode())
    write_bytes(root / "kernel_config.py", _manifest(frame, kernels, external).encode())
    write_bytes(root / "compiled_meta.json", _meta(frame, external).encode())


def write_data(parameters: Sequence[Parameter], data: Path, *, golden: bool) -> None:
    """Write the snapshot: the content before the tasks to in/, and the content after them to out/."""
    for one in parameters:
        if one.direction != "OUT":
            write_pt(data / "in" / f"{one.name}.pt", one.dtype, one.shape, one.initial.tobytes())
        if one.direction != "IN" and golden:
            write_pt(data / "out" / f"{one.name}.pt", one.dtype, one.shape, one.final.tobytes())


def _copy_kernel(kernel: Kernel, source: Path, root: Path) -> Path:
    """Copy a kernel's C++ and the headers beside it. Returns its path relative to ``root``."""
    inside = kernel.source.is_relative_to(source)
    target = kernel.source.relative_to(source) if inside else Path("kernels", kernel.core_type, f"{kernel.name}.cpp")
    (root / target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(kernel.source, root / target)
    for header in kernel.source.parent.iterdir():
        if header.suffix in _HEADERS and header.is_file():
            shutil.copyfile(header, (root / target).with_name(header.name))
    return target


def copy_modules(kernels: Sequence[Kernel], source: Path, root: Path, raw: Mapping[str, Path]) -> None:
    """Copy the .pto modules that the kernels were made from, and the assembler's output.

    ``raw`` has the output of modules, by unit, if it is not beside the module.
    """
    paths = sorted(source.glob("ptoas/**/*.pto"))
    modules = {path: function_names(path.read_text("utf-8", "replace")) for path in paths}
    functions = [name for names in modules.values() for name in names]
    for kernel in kernels:
        text = kernel.source.read_text("utf-8", "replace") if kernel.source.is_file() else ""
        read = read_entry(text, functions)
        name = read[0] if read is not None else kernel.name
        for path in (path for path, names in modules.items() if name in names):
            target = root / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            output = raw.get(path.stem, path.with_suffix(".cpp"))
            if output.is_file():
                shutil.copyfile(output, target.with_suffix(".cpp"))


def _manifest(frame: Frame, kernels: Sequence[tuple[Kernel, Path]], external: Sequence[Parameter]) -> str:
    config = "".join(f"\t{quoted(key)}: {value!r},\n" for key, value in frame.runtime_config.items())
    directions = ", ".join(f"_D.{one.direction}" for one in external)
    rows = "".join(_kernel(kernel, path) for kernel, path in kernels)
    return manifest_text(frame.program, config, directions, rows)


def _kernel(kernel: Kernel, path: Path) -> str:
    source = " / ".join(["_ROOT_DIR", *map(quoted, path.parts)])
    words = [f'"func_id": {kernel.func_id}', f'"name": {quoted(kernel.name)}', f'"source": str({source})']
    words.append(f'"core_type": {quoted(kernel.core_type)}')
    if kernel.signature is not None:
        words.append(f'"signature": [{", ".join(f"_D.{one.name}" for one in kernel.signature)}]')
    if kernel.extra_include_dirs:
        words.append(f'"extra_include_dirs": [{", ".join(quoted(str(path)) for path in kernel.extra_include_dirs)}]')
    return f"\t{{{', '.join(words)}}},\n"


def _meta(frame: Frame, external: Sequence[Parameter]) -> str:
    words = {"IN": "In", "OUT": "Out", "INOUT": "InOut"}
    names = {row.torch: row.meta for row in DTYPES.values()}
    params = [
        {
            "name": one.name,
            "direction": words[one.direction],
            "shape": list(one.shape),
            "dtype": names.get(one.dtype, one.dtype),
        }
        for one in external
    ]
    document = {
        "schema": 1,
        "params": params,
        "num_return_types": sum(one.direction != "IN" for one in external),
        "platform": frame.platform,
        "backend_type": frame.backend,
    }
    return json.dumps(document, indent=2) + "\n"
