"""The artifact under the lint: everything read once, for all rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pypto_build.artifact import Artifact, Kernel, Vintage
from pypto_build.artifact.derive import Derived
from pypto_build.artifact.files import read_source
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.lint.text import Code, arguments_at, matching, split_arguments
from pypto_build.facts.dtypes import torch_name

# Submissions in an orchestration file: arguments with their lines, launch settings, types of tensors.

_TOKEN = re.compile(
    r"\b(?:CoreTaskArgs\w*|L0TaskArgs\w*|ArgWithDeps|Arg)(?:\s*<\s*\d+\s*>)?\s+(?P<declared>\w+)\s*;"
    r"|\b(?P<variable>\w+)\s*\.\s*(?P<method>add_input|add_output|add_inout|add_no_dep|add_scalars?\w*|set_dependencies)\s*\("
    r"|\b(?P<launched>\w+)\s*\.\s*launch_spec\s*\.\s*(?P<setting>set_block_num|set_core_num|set_require_sync_start)\s*\("
    r"|\bMixedKernels\s+(?P<mixed>\w+)\s*=\s*\{(?P<lanes>[^}]{0,999})\}"
    r"|\b(?:pto2_)?rt_submit_(?P<core>aic_|aiv_|)task\s*\("
)
_CREATED = re.compile(
    r"\bTensorCreateInfo\s+(?P<name>\w+)\s*\(\s*(?P<shape>\w+)\s*,\s*(?P<rank>\d+)\s*(?:,\s*DataType::(?P<dtype>\w+))?"
)
_SHAPE = re.compile(r"\buint32_t\s+(?P<name>\w+)\s*\[\s*\d+\s*\]\s*=\s*\{(?P<extents>[^}]{0,999})\}")
_ALLOCATED = re.compile(r"\bTaskOutputTensors\s+(?P<name>\w+)\s*=\s*alloc_tensors\s*\((?P<infos>[^;]{0,4000})\)\s*;")
_REFERENCE = re.compile(r"\b(?P<name>\w+)\s*=\s*(?P<of>\w+)\s*\.\s*get_ref\s*\(\s*(?P<index>\d{1,9})\s*\)")
_EXTERNAL = re.compile(
    r"\b(?P<name>\w+)\s*=\s*(?:from_tensor_arg\s*\(\s*)?orch_args\s*\.\s*tensor\s*\(\s*(?P<index>\d{1,9})\s*\)"
)
_VIEW = re.compile(
    r"\b(?:ChipTensor|Tensor|auto)\s*&?\s+(?P<name>\w+)\s*=\s*(?P<of>\w+)\s*"
    r"(?:;|\.\s*(?:view|slice|reshape|transpose|permute)\s*\()"
)
#: Assigned after its declaration, as the compiler does for values that differ by branch: no name for one tensor.
_ASSIGNED = re.compile(r"^[ \t]*(\w+)\s*=(?!=)", re.MULTILINE)
_EXPECTED = re.compile(r"\bexpected_arg_count\s*=\s*(\d{1,9})\b")
_ENTRY_ARG = re.compile(r"\borch_args\s*\.\s*(tensor|scalar)\s*\(\s*(\d{1,9})\s*\)")


@dataclass
class Added:
    """One tensor argument: method, expression, line."""

    method: str
    expression: str
    line: int


@dataclass
class Submit:
    """One submit call with everything that led to it."""

    line: int
    func_ids: tuple[int, ...]
    core: str
    tensors: list[Added] = field(default_factory=list)
    scalars: list[int] = field(default_factory=list)
    late: list[Added] = field(default_factory=list)
    dependency_lines: list[int] = field(default_factory=list)
    block_num: int | None = None
    block_line: int = 0
    sync_line: int = 0


@dataclass(frozen=True)
class Created:
    """A tensor that the runtime allocates; extents that are no literals are -1."""

    line: int
    dtype: str | None
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Orchestration:
    """The whole file. `entry_args` are lines of first use by kind and index, `allocations` the lines that allocate."""

    code: Code
    submits: tuple[Submit, ...]
    externals: dict[str, int]
    created: dict[str, Created]
    bases: dict[str, str]
    expected: tuple[int, int] | None
    entry_args: dict[str, dict[int, int]]
    allocations: tuple[int, ...]

    def base(self, variable: str) -> str:
        """The variable of which this one is a view or another name."""
        seen: set[str] = set()
        while variable in self.bases and variable not in seen:
            seen.add(variable)
            variable = self.bases[variable]
        return variable


def read_orchestration(path: Path, name: str) -> Orchestration:
    """The orchestration at `path`, shown as `name`."""
    code = Code(name, read_source(path))
    text = code.code
    expected = _EXPECTED.search(text)
    args: dict[str, dict[int, int]] = {"tensor": {}, "scalar": {}}
    for match in _ENTRY_ARG.finditer(text):
        args[match[1]].setdefault(int(match[2]), code.line(match.start()))
    return Orchestration(
        code,
        tuple(_submits(code)),
        {match["name"]: int(match["index"]) for match in _EXTERNAL.finditer(text)},
        _created(code),
        _bases(text),
        (int(expected[1]), code.line(expected.start())) if expected else None,
        args,
        tuple(code.line(match.start()) for match in _ALLOCATED.finditer(text)),
    )


def _bases(text: str) -> dict[str, str]:
    varying = set(_ASSIGNED.findall(text))
    views = ((match["name"], match["of"]) for match in _VIEW.finditer(text))
    return {name: of for name, of in views if of != "orch_args" and name not in varying}


def _submits(code: Code) -> list[Submit]:
    collected: dict[str, Submit] = {}
    mixed: dict[str, tuple[int, ...]] = {}
    submits = []
    for match in _TOKEN.finditer(code.code):
        line = code.line(match.start())
        if match["declared"]:
            collected[match["declared"]] = Submit(0, (), "")
        elif match["mixed"]:
            mixed[match["mixed"]] = _numbers(match["lanes"].split(","))
        else:
            arguments = arguments_at(code.code, match.end() - 1)
            if match["method"]:
                _add(collected.setdefault(match["variable"], Submit(0, (), "")), match["method"], arguments, line)
            elif match["launched"]:
                _launch(collected.setdefault(match["launched"], Submit(0, (), "")), match["setting"], arguments, line)
            elif len(arguments) >= 2:
                task = collected.get(arguments[-1], Submit(0, (), ""))
                func_ids = mixed.get(arguments[-2]) or _numbers([arguments[-2]])
                copy = Submit(**{**vars(task), "line": line, "func_ids": func_ids, "core": match["core"].strip("_")})
                submits.append(copy)
    return submits


def _add(task: Submit, method: str, arguments: list[str], line: int) -> None:
    if method == "set_dependencies":
        task.dependency_lines.append(line)
    elif method.startswith("add_scalar"):
        task.scalars += [line] * (len(arguments) if method == "add_scalar" else 1)
    else:
        added = [Added(method, expression, line) for expression in arguments]
        task.late += added if task.scalars else []
        task.tensors += added


def _launch(task: Submit, setting: str, arguments: list[str], line: int) -> None:
    if setting == "set_require_sync_start":
        task.sync_line = line if arguments and arguments[0] in ("true", "1") else 0
    elif arguments and _is_number(arguments[0]):
        task.block_num, task.block_line = int(arguments[0]), line


def _numbers(words: list[str]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(word) for word in map(str.strip, words) if _is_number(word)))


def _is_number(word: str) -> bool:
    return word.isdecimal() and len(word) < 10


def _created(code: Code) -> dict[str, Created]:
    """Variables of runtime-allocated tensors: those that `get_ref` gives of an allocation, in order."""
    shapes = {match["name"]: match["extents"].split(",") for match in _SHAPE.finditer(code.code)}
    infos = {}
    for match in _CREATED.finditer(code.code):
        extents = [part.strip() for part in shapes.get(match["shape"], [])]
        shape = tuple(int(extent) if _is_number(extent) else -1 for extent in extents)
        dtype = torch_name(match["dtype"]) if match["dtype"] else "float32"
        infos[match["name"]] = Created(code.line(match.start()), dtype, shape)
    allocated = {match["name"]: split_arguments(match["infos"]) for match in _ALLOCATED.finditer(code.code)}
    created = {}
    for match in _REFERENCE.finditer(code.code):
        listed = allocated.get(match["of"], [])
        info = infos.get(listed[int(match["index"])]) if int(match["index"]) < len(listed) else None
        if info is not None:
            created[match["name"]] = info
    return created


# Wrapper of a kernel: the entry that unpacks the arguments, and the function that works on them.

_ENTRY = re.compile(r"\bvoid\s+kernel_entry\s*\(")
_DESCRIPTOR = re.compile(
    r"\b(?P<name>\w+)\s*=\s*(?:reinterpret_cast\s*<[^;()]{0,400}\bTensor\w*\s*\*\s*>|reinterpret_cast\s*<[^;()]{0,400}ChipTensor\s*\*\s*>"
    r"|\([^;()]{0,400}Tensor\w*\s*\*\s*\))\s*\(?\s*args\s*\[\s*(?P<slot>\d{1,9})\s*\]"
)
_CONVERTED = re.compile(r"\b(?P<name>\w+?)_conv\s*\.\s*u64\s*=\s*args\s*\[\s*(?P<slot>\d{1,9})\s*\]")
_SCALAR_TYPE = re.compile(
    r"\bunion\s*\{\s*uint64_t\s+u64\s*;\s*(?P<type>[\w:]+)\s+val\s*;\s*\}\s*(?P<name>\w+?)_conv\b"
)
_POINTER = re.compile(
    r"(?<![\w:])(?P<type>[\w:]+)\s*\*\s*(?P<name>\w+)\s*=[^;]{0,999}?\b(?P<tensor>\w+)\s*->\s*buffer\s*\.\s*addr(?P<rest>[^;]{0,999});"
)
_FUNCTION = re.compile(r"(?:static\s+)?(?:__aicore__|AICORE)\s+(?:inline\s+)?void\s+(?P<name>\w+)\s*\(")


@dataclass(frozen=True)
class Unpacked:
    """One `args[slot]`. `ctype` is the element or scalar type, empty where the code does not tell."""

    slot: int
    kind: str
    name: str
    line: int
    ctype: str = ""
    uses_offset: bool = True


@dataclass(frozen=True)
class WrapperFunction:
    """A function of the file; `start` and `end` are offsets of its body."""

    name: str
    parameters: tuple[str, ...]
    line: int
    start: int
    end: int


@dataclass(frozen=True)
class Wrapper:
    """One kernel's file. `call` is the forward call to the function that does the work: line and arguments."""

    code: Code
    entry: tuple[int, int] | None
    unpacked: tuple[Unpacked, ...]
    functions: tuple[WrapperFunction, ...]
    called: WrapperFunction | None
    call_line: int
    call_arguments: tuple[str, ...]


def read_wrapper(path: Path, name: str) -> Wrapper:
    """The wrapper at `path`, shown as `name`."""
    code = Code(name, read_source(path))
    functions = tuple(_functions(code))
    match = _ENTRY.search(code.code)
    opening = code.code.find("{", match.end()) if match else -1
    if opening < 0:
        return Wrapper(code, None, (), functions, None, 0, ())
    end = matching(code.code, opening)
    called, line, arguments = _call(code, functions, opening, end)
    return Wrapper(code, (opening, end), tuple(_unpacked(code, opening, end)), functions, called, line, arguments)


def _functions(code: Code) -> list[WrapperFunction]:
    functions = []
    for match in _FUNCTION.finditer(code.code):
        if match["name"] == "kernel_entry":
            continue
        close = matching(code.code, match.end() - 1)
        opening = code.code.find("{", close)
        if opening < 0 or code.code[close + 1 : opening].strip():
            continue  # a declaration
        parameters = tuple(arguments_at(code.code, match.end() - 1))
        end = matching(code.code, opening)
        functions.append(WrapperFunction(match["name"], parameters, code.line(match.start()), opening, end))
    return functions


def _unpacked(code: Code, start: int, end: int) -> list[Unpacked]:
    pointers = {match["tensor"]: match for match in _POINTER.finditer(code.code, start, end)}
    types = {match["name"]: match["type"] for match in _SCALAR_TYPE.finditer(code.code, start, end)}
    result = []
    for match in _DESCRIPTOR.finditer(code.code, start, end):
        pointer = pointers.get(match["name"])
        result.append(
            Unpacked(
                int(match["slot"]),
                "tensor",
                match["name"].removesuffix("_tensor"),
                code.line(match.start()),
                pointer["type"] if pointer else "",
                pointer is None or "start_offset" in pointer["rest"],
            )
        )
    for match in _CONVERTED.finditer(code.code, start, end):
        name = match["name"]
        result.append(Unpacked(int(match["slot"]), "scalar", name, code.line(match.start()), types.get(name, "")))
    return sorted(result, key=lambda item: item.slot)


def _call(
    code: Code, functions: tuple[WrapperFunction, ...], start: int, end: int
) -> tuple[WrapperFunction | None, int, tuple[str, ...]]:
    """The last call in the entry of a function that the file defines."""
    names = {function.name: function for function in functions}
    called: tuple[WrapperFunction | None, int, tuple[str, ...]] = (None, 0, ())
    for match in re.finditer(r"\b(\w+)\s*\(", code.code[start:end]):
        function = names.get(match[1])
        if function is not None:
            opening = start + match.end() - 1
            arguments = arguments_at(code.code, opening)
            called = (function, code.line(start + match.start()), tuple(arguments))
    return called


@dataclass(frozen=True)
class Subject:
    """An artifact that could be loaded, with its vintage and what its orchestration derives to."""

    artifact: Artifact
    vintage: Vintage
    derived: Derived
    platform: str

    def short(self, path: Path) -> str:
        """A path relative to the artifact, or absolute if it lies elsewhere."""
        return relative_source(path, self.artifact.root)

    @cached_property
    def orchestration(self) -> Orchestration:
        """The orchestration as text."""
        source = self.artifact.orchestration.source
        return read_orchestration(source, self.short(source))

    @cached_property
    def wrappers(self) -> dict[int, Wrapper]:
        """The kernels' files by func_id."""
        return {k.func_id: read_wrapper(k.source, self.short(k.source)) for k in self.artifact.kernels}

    @cached_property
    def kernels(self) -> dict[int, Kernel]:
        """The kernels by func_id."""
        return {kernel.func_id: kernel for kernel in self.artifact.kernels}

    def submits(self, func_id: int) -> list[Submit]:
        """The submissions of one kernel."""
        return [submit for submit in self.orchestration.submits if func_id in submit.func_ids]

    def in_kernel(
        self, kernel: Kernel, line: int, rule: str, message: str, hint: str, level: Level = "error"
    ) -> Finding:
        """A finding in a kernel's file."""
        return Finding(f"lint/{rule}", message, self.short(kernel.source), line, hint, level, kernel=kernel.name)

    def in_orchestration(self, line: int, rule: str, message: str, hint: str, level: Level = "error") -> Finding:
        """A finding in the orchestration."""
        return Finding(f"lint/{rule}", message, self.orchestration.code.name, line, hint, level)

    def in_manifest(self, needle: str, rule: str, message: str, hint: str, level: Level = "error") -> Finding:
        """A finding in the manifest, at the first line that holds `needle`."""
        path = self.artifact.manifest_path
        lines = read_source(path).splitlines()
        line = next((number for number, text in enumerate(lines, 1) if needle in text), 0)
        return Finding(f"lint/{rule}", message, self.short(path), line, hint, level)
