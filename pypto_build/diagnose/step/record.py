"""Records one run up to a task: the instructions of its kernels, and the values of their variables.

The module's PyTorch runs on the same inputs, and tells the right values of each instruction.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tree_sitter import Node

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.cpp.syntax import NestedTooDeeply, Unparseable, declared_name, parse
from pypto_build.artifact.files import read_source
from pypto_build.artifact.records import kernel_binary
from pypto_build.diagnose.console import counted
from pypto_build.diagnose.diverge.lockstep import Copies, Stop
from pypto_build.diagnose.diverge.probe import Event, Recorder
from pypto_build.diagnose.recorded.names import artifact_names
from pypto_build.diagnose.why.runs import Expected, aligned, position_of
from pypto_build.diagnose.why.trace import Trace, read_trace
from pypto_build.facts.tasks import LANES, TensorView, slots_of
from pypto_build.pto.torch.followed import line_on
from pypto_build.replay.reference.hook import ReferenceFault, References
from pypto_build.replay.reference.launch import Launch, Progress

# A kernel that tells what its variables hold: its text with a PYPTO_VARIABLE behind each declaration and assignment,
# compiled as the checked build is. Lines keep their numbers.

#: Where a statement may have another one behind it.
_SPACES = re.compile(rb"\b__(?:gm|ubuf|cbuf|ca|cb|cc|aicore)__(?!\w)")
_BLOCKS = ("compound_statement", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "case_statement")


@dataclass(frozen=True)
class Kernel:
    """The text of a kernel with statements that record its variables. `parameters` and `loops` have the names of
    parameters and of loop variables of each function, in the order of the text.
    """

    text: str
    parameters: dict[str, list[str]]
    loops: dict[str, list[str]]


def instrument(source: str) -> Kernel:
    """Return a kernel with statements that record its variables. Raises Unparseable and NestedTooDeeply."""
    data = source.encode()
    statements: list[tuple[int, str]] = []
    parameters: dict[str, list[str]] = {}
    loops: dict[str, list[str]] = {}
    for node, function in _nodes(parse(_without_spaces(data))):
        if node.type == "function_definition" and function and node.child_by_field_name("body") is not None:
            parameters[function] = _parameters(node)
        if node.type == "for_statement":
            loops.setdefault(function, []).extend(_initialised(node.child_by_field_name("initializer")))
        if function:
            statements += _recorded_variables(node)
    for at, name in sorted(statements, reverse=True):
        data = data[:at] + f" PYPTO_VARIABLE({name});".encode() + data[at:]
    return Kernel(data.decode(errors="replace"), parameters, loops)


def _without_spaces(data: bytes) -> bytes:
    """The text with blanks for the names of memories and of the core, which are macros and no C++: `__gm__ half* x`."""
    lines = data.splitlines(keepends=True)
    blank = (
        line if line.lstrip().startswith(b"#") else _SPACES.sub(lambda match: b" " * len(match[0]), line)
        for line in lines
    )
    return b"".join(blank)


def _nodes(root: Node) -> Iterator[tuple[Node, str]]:
    """Yield all nodes, each with the function it is in. Functions that are evaluated at compile time are left out."""
    todo = [(root, "")]
    while todo:
        node, function = todo.pop()
        if node.type == "function_definition":
            head = (node.text or b"").partition(b"{")[0]
            if b"constexpr" in head or b"consteval" in head:
                continue
            function = declared_name(node.child_by_field_name("declarator")) or function
        yield node, function
        todo += [(child, function) for child in reversed(node.named_children)]


def _recorded_variables(node: Node) -> list[tuple[int, str]]:
    """Return the positions behind which a variable is recorded, with its name."""
    in_block = node.parent is not None and node.parent.type in _BLOCKS
    if node.type == "declaration" and in_block and not _static(node):
        return [(node.end_byte, name) for name in _initialised(node)]
    if node.type == "expression_statement" and in_block:
        return [(node.end_byte, name) for name in _changed(node.named_children[:1])]
    body = node.child_by_field_name("body")
    if body is None or body.type != "compound_statement":
        return []
    if node.type == "for_statement":
        return [(body.start_byte + 1, name) for name in _initialised(node.child_by_field_name("initializer"))]
    if node.type == "function_definition":
        return [(body.start_byte + 1, name) for name in _parameters(node)]
    return []


def _static(node: Node) -> bool:
    return any(child.type == "storage_class_specifier" for child in node.named_children)


def _initialised(node: Node | None) -> list[str]:
    """The variables that a declaration gives a value."""
    if node is None or node.type != "declaration":
        return []
    declarators = [child for child in node.children_by_field_name("declarator") if child.type == "init_declarator"]
    return [name for one in declarators if not _array(one) and (name := declared_name(one))]


def _array(declarator: Node) -> bool:
    inner = declarator.child_by_field_name("declarator")
    return inner is not None and inner.type in ("array_declarator", "function_declarator")


def _changed(expressions: list[Node]) -> list[str]:
    """The variable that a statement assigns, counts up or, being a tile, places."""
    for node in expressions:
        if node.type == "call_expression":
            arguments = node.child_by_field_name("arguments")
            function = node.child_by_field_name("function")
            operands = arguments.named_children if arguments is not None else []
            if function is not None and function.text in (b"TASSIGN", b"pto::TASSIGN") and operands:
                return _name(operands[0])
        if node.type == "assignment_expression":
            return _name(node.child_by_field_name("left"))
        if node.type == "update_expression":
            return _name(node.child_by_field_name("argument"))
    return []


def _name(node: Node | None) -> list[str]:
    return [(node.text or b"").decode()] if node is not None and node.type == "identifier" else []


def _parameters(node: Node) -> list[str]:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    declarations = listed.named_children if listed is not None else []
    return [name for one in declarations if (name := declared_name(one.child_by_field_name("declarator")))]


def compile_kernel(source: Path, core_type: str, platform: str, library: Path) -> Kernel:
    """Compile a kernel that records its variables to a library. Raises a build_error."""
    from pypto_build.facts.platforms import PLATFORMS
    from pypto_build.toolchain.host import CHECKED_FLAGS, INCLUDE_DIR, find_compiler, kernel_flags

    try:
        kernel = instrument(read_source(source))
    except (Unparseable, NestedTooDeeply):
        raise ArtifactError(source, "cannot be parsed as C++", kind="build_error") from None
    library.parent.mkdir(parents=True, exist_ok=True)
    source_of_steps = library.with_suffix(".cpp")
    source_of_steps.write_text(f'#line 1 "{source}"\n{kernel.text}', encoding="utf-8")
    compiler = find_compiler()
    words = [compiler.path, *kernel_flags(compiler, PLATFORMS[platform], core_type), *CHECKED_FLAGS, "-O1"]
    words += [
        "-I",
        str(INCLUDE_DIR),
        "-I",
        str(source.parent),
        "-include",
        str(Path(__file__).with_name("variables.hpp")),
    ]
    words += ["-shared", str(source_of_steps), "-o", str(library)]
    process = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if process.returncode:
        reason = next((line for line in process.stderr.splitlines() if "error:" in line), process.stderr.strip()[:200])
        raise ArtifactError(source, f"cannot be compiled for recording its variables: {reason}", kind="build_error")
    return kernel


MEMBERS = ("aic", "aiv0", "aiv1")


@dataclass
class KernelCall:
    """One kernel call: a member of a block of the task. `scalars` are the numbers in the module's PyTorch after each of
    its instructions. `compiled` is the instrumented kernel.
    """

    block: int
    member: int
    kernel: str
    core_type: str
    source: Path
    module: str
    trace: Trace
    expected: Expected
    scalars: list[dict[str, float | int]] = field(default_factory=list)
    compiled: Kernel | None = None


@dataclass(frozen=True)
class TaskTensor:
    """A tensor of the task: its kernel's name for it, where it lies, the file with its buffer before the task ran."""

    name: str
    tensor: TensorView
    direction: str
    before: Path


@dataclass(frozen=True)
class Scalar:
    """A number that the task is given, as its kernel takes it."""

    name: str
    type: str
    value: float | int | bool


@dataclass(frozen=True)
class Referred:
    """Results of the module's PyTorch for a member of a block: events, their element types, and scalars at each."""

    module: str
    events: list[Event]
    dtypes: list[str]
    scalars: list[dict[str, float | int]]


@dataclass
class Recorded:
    """Records of the run besides the traces, which it leaves in `directory`.

    `members` names the kernels by member, and `compiled` has their compiled form. `referred` has the results of the
    module's PyTorch by block and member. `notes` lists what is missing.
    """

    directory: Path
    task: int
    blocks: int
    members: dict[int, str]
    compiled: dict[str, Kernel]
    referred: dict[tuple[int, int], Referred]
    arguments: dict[int, TaskTensor | Scalar]
    notes: list[str]


@dataclass
class TaskRecording:
    """Recording of a task: its calls by block and member, and its arguments."""

    artifact: Path
    task: int
    blocks: int
    calls: dict[tuple[int, int], KernelCall]
    arguments: dict[int, TaskTensor | Scalar]
    notes: list[str]


def record(launch: Launch, checked: Path, task: int, block: int, progress: Progress) -> Recorded:
    """Run up to the task twice: to see which kernels it has, and with these compiled to tell everything.

    Raises ArtifactError for a task or block that the run does not have.
    """
    directory = launch.build_dir / "step"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    kernels, blocks, count = _kernels_of(launch, task, progress)
    if not kernels:
        raise ArtifactError("", f"the run submits no TASK={task}", f"its tasks are 0 to {count - 1}")
    if not 0 <= block < blocks:
        raise ArtifactError(
            "",
            f"BLOCK={block}: task {task} has only {counted(blocks, 'block')}",
            f"give a block from 0 to {blocks - 1}" if blocks > 1 else "leave out BLOCK=",
        )
    libraries, compiled, notes = _compiled(launch, checked, kernels, directory)
    at_task = _AtTask(launch, task, progress, directory)
    settings = {"output_dir": str(directory), "accesses": True, "trace": [task, block], "poison": True}
    with suppress(Stop):
        replace(launch, options={**launch.options, **settings}).run(at_task, libraries)
    notes += [*at_task.notes, *filter(None, [line_on(launch.numerics, launch.artifact)])]
    return Recorded(directory, task, blocks, at_task.members, compiled, at_task.referred, at_task.arguments, notes)


def read_recording(artifact: Path, recorded: Recorded) -> TaskRecording:
    """Read the traces of a run, and add what the run recorded besides. Raises ArtifactError."""
    sources = {kernel.name: kernel.source for kernel in load_artifact(artifact).kernels}
    calls: dict[tuple[int, int], KernelCall] = {}
    for path in sorted(recorded.directory.glob("trace.*.json"), key=position_of):
        _, block, member = position_of(path)
        trace = read_trace(path.with_name(path.name.removesuffix(".json")))
        name = recorded.members.get(member, "")
        referred = recorded.referred.get((block, member), Referred("", [], [], []))
        expected = aligned(trace.instructions, referred.events, referred.dtypes) if referred.events else Expected()
        core_type = "aic" if member == 0 else "aiv"
        calls[block, member] = KernelCall(
            block, member, name, core_type, sources.get(name, Path()), referred.module, trace, expected,
            referred.scalars, recorded.compiled.get(name),
        )  # fmt: skip
    calls = {key: call for key, call in calls.items() if call.trace.instructions}
    if not calls:
        raise ArtifactError("", f"the kernels of task {recorded.task} recorded nothing", "they execute no instruction")
    return TaskRecording(artifact, recorded.task, recorded.blocks, calls, recorded.arguments, recorded.notes)


def _kernels_of(launch: Launch, task: int, progress: Progress) -> tuple[dict[str, str], int, int]:
    """The task's kernels with their core types, its blocks, and how many tasks were seen."""
    kernels: dict[str, str] = {}
    blocks = 1
    seen = 0

    def record_call(call: Any) -> None:
        nonlocal blocks, seen
        progress.set(call.number)
        seen = max(seen, call.number + 1)
        if call.number == task:
            kernels.update({name: role[:3] for role, _, name in call.kernels})
            blocks = call.block_num
            raise Stop
        call.run()

    with suppress(Stop):
        launch.run(record_call)
    return kernels, blocks, seen


def _compiled(
    launch: Launch, checked: Path, kernels: dict[str, str], directory: Path
) -> tuple[dict[str, Path], dict[str, Kernel], list[str]]:
    """Return libraries of all kernels. The task's kernels record their variables if they then still compile."""
    sources = {kernel.name: kernel for kernel in load_artifact(launch.artifact).kernels}
    libraries = {
        kernel.name: checked / f"{kernel_binary(kernel.core_type, kernel.name)}.so"
        for kernel in launch.interface.kernels
        if kernel.name in kernels
    }
    compiled: dict[str, Kernel] = {}
    notes: list[str] = []
    for name, core_type in kernels.items():
        library = directory / f"{name}.so"
        try:
            compiled[name] = compile_kernel(sources[name].source, core_type, launch.platform, library)
            libraries[name] = library
        except ArtifactError as error:
            notes.append(f"{error}; variables have no names here")
    return libraries, compiled, notes


class _AtTask:
    """The runtime's callback. Tasks before the chosen one run as compiled. For the chosen task, PyTorch runs on copies
    of the outputs before the kernels run.
    """

    def __init__(self, launch: Launch, task: int, progress: Progress, directory: Path) -> None:
        self.launch, self.task, self.progress, self.directory = launch, task, progress, directory
        self.recorder = Recorder(with_scalars=True)
        self.arguments: dict[int, TaskTensor | Scalar] = {}
        self.notes: list[str] = []
        self.members: dict[int, str] = {}
        self.referred: dict[tuple[int, int], Referred] = {}
        self._references: References | None = None
        try:
            self._references = References(launch.artifact, self.recorder, launch.numerics)
        except ArtifactError as error:
            self.notes.append(f"{error}: there are no PyTorch values")

    def __call__(self, call: Any) -> None:
        self.progress.set(call.number)
        if call.number > self.task:
            raise Stop
        if call.number == self.task:
            if not self.members:
                self.members = {LANES[role]: name for role, _, name in call.kernels}
                self.arguments = _arguments(self.launch, call, self.directory)
            self._refer(call)
        call.run()

    def _refer(self, call: Any) -> None:
        """Run the module's PyTorch on copies of the same inputs and keep its results."""
        if self._references is None or (call.block is None and call.block_num > 1):
            return  # all blocks at once: whose events are whose is not known
        copies = Copies(slots_of(call), call)  # the kernels' own stay as they are
        self.recorder.clear()
        try:
            members = self._references.members(call) or []
            executed = self._references.execute(call, copies.slots)
        except ReferenceFault as fault:
            self.notes.append(f"the module ends early: {fault.message}")
            executed = True
        except ArtifactError as error:
            self.notes.append(f"{error}: there are no PyTorch values")
            self._references = None
            return
        if not executed:
            return
        for member, (role, _, _) in zip(members, call.kernels, strict=True):
            module = member.body.unit.path.relative_to(self.launch.artifact).as_posix()
            reference = self.recorder.of(member)
            self.referred[call.block or 0, LANES[role]] = Referred(
                module, reference.events, reference.dtypes, reference.scalars
            )


def _arguments(launch: Launch, call: Any, directory: Path) -> dict[int, TaskTensor | Scalar]:
    """The task's arguments as its kernels find them."""
    names = artifact_names(launch.artifact)
    func_ids = [func_id for _, func_id, _ in call.kernels]
    by_index: dict[int, TaskTensor | Scalar] = {}
    for index, slot in enumerate(slots_of(call)):
        name = names.argument(func_ids, index) or f"arg{index}"
        if isinstance(slot, TensorView):
            before = directory / f"arg.{index}.bin"
            before.write_bytes(memoryview((ctypes.c_uint8 * slot.size).from_address(slot.buffer)))
            direction = getattr(call.args[index], "direction", "")
            by_index[index] = TaskTensor(name, slot, direction, before)
        else:
            typed = names.scalar(func_ids, index, slot)
            by_index[index] = Scalar(name, *(typed or ("64 bits", slot)))
    return by_index
