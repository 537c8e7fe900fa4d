"""`scons lint` on a distributed artifact: chip programs, and the host driver against programs, metadata, domains."""

from __future__ import annotations

import ast
import difflib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec

from pypto_build.artifact.derive import Derived, derive
from pypto_build.artifact.distributed import Distributed
from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.files import read_source
from pypto_build.artifact.layout import DRIVER, load_artifact
from pypto_build.artifact.records import ArgDirection
from pypto_build.diagnose.findings import Edit, Finding, Level

# Reads a host driver as text: what it dispatches, with which arguments. Nothing of it is executed.


@dataclass(frozen=True)
class DriverTensor:
    """One tensor of a dispatch: the name of host tensor or buffer, and the tag; empty where the text does not tell."""

    line: int
    tag: str
    tensor: str = ""
    buffer: str = ""


@dataclass
class DriverCall:
    """One place that dispatches `program`, a chip program, or a host callable."""

    program: str
    line: int
    is_host: bool = False
    complete: bool = False  # whether the driver's text has all of its arguments
    tensors: list[DriverTensor] = field(default_factory=list)
    scalars: list[int] = field(default_factory=list)  # their lines


@dataclass
class DriverText:
    """Names that a driver uses, with the first line of each, and its dispatches in order."""

    calls: list[DriverCall] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)  # host tensors
    made: set[str] = field(default_factory=set)  # those that it makes or names itself
    declared: set[str] = field(default_factory=set)  # buffers of domains
    buffers: dict[str, int] = field(default_factory=dict)  # those that it uses
    computes_names: bool = False  # a name that is no constant: what is not found may be there


_SUBMITS = {"_submit_chip": 1, "submit_chip": 0, "submit_next_level": 0, "submit_next_level_group": 0, "submit_sub": 0}


def read_driver(path: Path) -> DriverText:
    """Read the text of a driver. Raises `SyntaxError`, `ValueError` or `OSError` if it is not valid Python."""
    reader = _Reader()
    with warnings.catch_warnings():  # what Python thinks of its style
        warnings.simplefilter("ignore")
        tree = ast.parse(read_source(path))
    reader.visit(tree)
    return reader.text


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.text = DriverText()
        self._arguments: dict[str, tuple[list[DriverTensor], list[int], bool]] = {}

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and _called(node.value) == "TaskArgs":
                self._arguments[target.id] = ([], [], True)
            name = _key(target, "tensors")
            if name:
                self.text.made.add(name)
            elif isinstance(target, ast.Subscript) and _is_name(target.value, "tensors"):
                self.text.computes_names = True
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _is_name(node.value, "tensors") and isinstance(node.ctx, ast.Load):
            self._note(self.text.read, node)
        if isinstance(node.value, ast.Attribute) and node.value.attr == "buffers":
            self._note(self.text.buffers, node)
        self.generic_visit(node)

    def _note(self, names: dict[str, int], node: ast.Subscript) -> None:
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            names.setdefault(node.slice.value, node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        name = _called(node)
        if name == "CommBufferSpec":
            buffer = _word(node, "name", 0)
            if isinstance(buffer, ast.Constant):
                self.text.declared.add(str(buffer.value))
            else:
                self.text.computes_names = True
        elif name in ("add_tensor", "add_scalar") and isinstance(node.func, ast.Attribute):
            self._argument(node, name, node.func.value)
        elif name in _SUBMITS:
            self._submit(node, name)
        self.generic_visit(node)

    def _argument(self, node: ast.Call, name: str, owner: ast.expr) -> None:
        if not isinstance(owner, ast.Name) or owner.id not in self._arguments:
            return
        tensors, scalars, _ = self._arguments[owner.id]
        if name == "add_scalar":
            scalars.append(node.lineno)
            return
        tag = _word(node, "tag", 1)
        text = tag.attr if isinstance(tag, ast.Attribute) else "INPUT" if tag is None else ""
        inside = list(ast.walk(node.args[0])) if node.args else []
        tensor = next(filter(None, (_key(one, "tensors") for one in inside)), "")
        buffer = next(filter(None, map(_buffer, inside)), "")
        tensors.append(DriverTensor(node.lineno, text, tensor, buffer))

    def _submit(self, node: ast.Call, name: str) -> None:
        index = _SUBMITS[name]
        if len(node.args) <= index:
            return
        handle = node.args[index]
        program = _key(handle, "sub_ids" if name == "submit_sub" else "callables")
        if not program:
            self.text.computes_names = True
            return
        call = DriverCall(program, node.lineno, name == "submit_sub")
        args = node.args[index + 1] if len(node.args) > index + 1 else None
        if isinstance(args, ast.Name) and args.id in self._arguments:
            tensors, scalars, call.complete = self._arguments[args.id]
            call.tensors, call.scalars = list(tensors), list(scalars)
        self.text.calls.append(call)


def _called(node: ast.AST) -> str:
    """Return the name of the function that a call calls, or an empty text."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _word(node: ast.Call, name: str, index: int) -> ast.expr | None:
    """An argument of a call, by name or place."""
    named = next((word.value for word in node.keywords if word.arg == name), None)
    return named if named is not None else node.args[index] if len(node.args) > index else None


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _key(node: ast.AST, owner: str) -> str:
    """The constant key of `owner["key"]`."""
    if not isinstance(node, ast.Subscript) or not _is_name(node.value, owner):
        return ""
    return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""


def _buffer(node: ast.AST) -> str:
    """The constant key of `….buffers["key"]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Attribute):
        return ""
    return str(node.slice.value) if node.value.attr == "buffers" and isinstance(node.slice, ast.Constant) else ""


#: Tags by which a dispatch is known as one that writes, and as one that reads.
_WRITING = ("OUTPUT", "INOUT", "OUTPUT_EXISTING")
_READING = ("INPUT", "INOUT")


def lint_driver(artifact: Distributed) -> list[Finding]:
    """Report contradictions between the driver's text and the artifact, and faults in the text."""
    try:
        text = read_driver(artifact.driver)
    except SyntaxError as error:
        return [
            _driver_finding(
                "driver", f"is not valid Python: {error.msg}", error.lineno or 0, "correct the file, or compile again"
            )
        ]
    except (ValueError, RecursionError, MemoryError) as error:
        return [
            _driver_finding("driver", f"cannot be read as Python: {error}", 0, "correct the file, or compile again")
        ]
    return [*_names(artifact, text), *_arguments(artifact, text), *_tokens(text)]


def _driver_finding(
    rule: str, message: str, line: int, hint: str, level: Level = "error", edits: tuple[Edit, ...] = ()
) -> Finding:
    return Finding(f"lint/{rule}", message, DRIVER, line, hint, level, edits=edits)


def _names(artifact: Distributed, text: DriverText) -> Iterator[Finding]:
    """Programs, host callables, tensors and buffers that there are not."""
    callables = {*artifact.sub_workers, *artifact.required}
    for call in text.calls:
        names = callables if call.is_host else artifact.chips
        where = "sub_workers/" if call.is_host else "next_levels/"
        if call.program not in names:
            message = f"dispatches '{call.program}', but {where} has no such chip program"
            yield _driver_finding("driver-program", message, call.line, _nearest(call.program, names))
    if text.computes_names:
        return
    params = {param.name for param in artifact.params}
    for name, line in text.read.items():
        if name not in params and name not in text.made:
            message = (
                f"tensors['{name}'] is not a parameter in distributed_meta.json, and the driver does not create it"
            )
            yield _driver_finding("driver-tensor", message, line, _nearest(name, params | text.made))
    for name, line in text.buffers.items():
        if name not in text.declared:
            message = f"buffers['{name}'] belongs to no domain"
            yield _driver_finding("driver-buffer", message, line, _nearest(name, text.declared))


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean '{near[0]}'?" if near else f"known are: {', '.join(sorted(names)) or 'none'}"


def _arguments(artifact: Distributed, text: DriverText) -> Iterator[Finding]:
    """Check the number of arguments of each dispatch, and the tags that say how the program uses them."""
    programs: dict[str, Derived | None] = {}
    for call in text.calls:
        if call.is_host or not call.complete or call.program not in artifact.chips:
            continue
        if call.program not in programs:
            programs[call.program] = _derived(artifact.chips[call.program])
        derived = programs[call.program]
        if derived is None or derived.order:
            continue
        for kind, used, passed in (
            ("tensor", len(derived.tensors), len(call.tensors)),
            ("scalar", len(derived.scalars), len(call.scalars)),
        ):
            if used > passed:
                message = f"'{call.program}' is passed {_count(passed, kind)}, but takes {used}"
                yield _driver_finding(
                    "driver-arguments",
                    message,
                    call.line,
                    f"pass the {kind}s that the orchestration of the chip program reads",
                )
        for argument, one in zip(derived.tensors, call.tensors, strict=False):
            yield from _tag(call, argument.name, argument.direction, one)


def _tag(call: DriverCall, name: str, direction: ArgDirection, argument: DriverTensor) -> Iterator[Finding]:
    """A host tensor's tag decides which dispatches wait for each other; windows are not ordered by it."""
    if not argument.tensor or not argument.tag or argument.tag == "NO_DEP":
        return
    what = f"tensors['{argument.tensor}'] is tagged {argument.tag}, but '{call.program}' %s it as '{name}'"
    if direction in (ArgDirection.OUT, ArgDirection.INOUT) and argument.tag not in _WRITING:
        tag = "INOUT" if direction is ArgDirection.INOUT else "OUTPUT_EXISTING"
        hint = f"use TensorArgType.{tag}, so that dispatches which read the tensor wait for this dispatch"
        yield _driver_finding("driver-tag", what % "writes", argument.line, hint, edits=_retag(argument, tag))
    elif direction is ArgDirection.IN and argument.tag not in _READING:
        hint = "use TensorArgType.INPUT, so that this dispatch waits for the dispatch that writes the tensor"
        yield _driver_finding("driver-tag", what % "reads", argument.line, hint, edits=_retag(argument, "INPUT"))


def _retag(argument: DriverTensor, tag: str) -> tuple[Edit, ...]:
    return (Edit(DRIVER, argument.line, f"TensorArgType.{argument.tag}", f"TensorArgType.{tag}"),)


def _derived(chip: Path) -> Derived | None:
    """Return how a program's orchestration uses its arguments, or None if the orchestration cannot be read."""
    try:
        artifact = load_artifact(chip)
        derived = derive(artifact)
    except ArtifactError:
        return None
    declared = artifact.orchestration.signature if artifact.orchestration else None
    if not declared or len(declared) != len(derived.tensors):
        return derived
    # A tensor that is written part by part counts as read where nothing says that it is an output.
    tensors = tuple(
        msgspec.structs.replace(one, direction=direction)
        if direction is ArgDirection.OUT and one.direction is ArgDirection.INOUT
        else one
        for one, direction in zip(derived.tensors, declared, strict=True)
    )
    return msgspec.structs.replace(derived, tensors=tensors)


def _tokens(text: DriverText) -> Iterator[Finding]:
    """Several programs that use one buffer of a window, and no host tensor that orders them."""
    using: dict[str, list[DriverCall]] = {}
    for call in text.calls:
        for buffer in dict.fromkeys(one.buffer for one in call.tensors if one.buffer):
            using.setdefault(buffer, []).append(call)
    reported: set[tuple[int, int]] = set()
    for buffer, calls in using.items():
        for first, second in pairwise(calls):
            complete = first.complete and second.complete
            if (first.line, second.line) in reported or not complete or _ordered(first, second, text.calls):
                continue
            reported.add((first.line, second.line))
            message = (
                f"'{first.program}' and '{second.program}' use window buffer '{buffer}', but no "
                "host tensor orders their dispatches on the same rank"
            )
            hint = "pass one INOUT host tensor for each rank to both dispatches, as the compiler does "
            hint += "(__comm_d<n>_ord)"
            yield Finding("lint/driver-token", message, DRIVER, second.line, hint, "warning")


def _ordered(first: DriverCall, second: DriverCall, calls: Sequence[DriverCall]) -> bool:
    """Return whether the second dispatch waits for the first, directly or through others."""
    after = [first]
    for call in calls[calls.index(first) + 1 :]:
        if any(_waits_for(call, one) for one in after):
            if call is second:
                return True
            after.append(call)
    return False


def _waits_for(second: DriverCall, first: DriverCall) -> bool:
    """Return whether one dispatch may wait for another through a shared tensor; unknown directions count as a wait."""
    tags: Mapping[str, str] = {one.tensor: one.tag for one in first.tensors if one.tensor}
    return any(
        tags.get(one.tensor, "NO_DEP") in (*_WRITING, "") and one.tag in (*_READING, "")
        for one in second.tensors
        if one.tensor
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
