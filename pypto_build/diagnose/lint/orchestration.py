"""Submissions in an orchestration file: arguments with their lines, launch settings, types of tensors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact.files import read_source
from pypto_build.diagnose.lint.text import Code, arguments_at, split_arguments
from pypto_build.facts.dtypes import torch_name

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
            given = arguments_at(code.code, match.end() - 1)
            if match["method"]:
                _add(collected.setdefault(match["variable"], Submit(0, (), "")), match["method"], given, line)
            elif match["launched"]:
                _launch(collected.setdefault(match["launched"], Submit(0, (), "")), match["setting"], given, line)
            elif len(given) >= 2:
                task = collected.get(given[-1], Submit(0, (), ""))
                func_ids = mixed.get(given[-2]) or _numbers([given[-2]])
                copy = Submit(**{**vars(task), "line": line, "func_ids": func_ids, "core": match["core"].strip("_")})
                submits.append(copy)
    return submits


def _add(task: Submit, method: str, given: list[str], line: int) -> None:
    if method == "set_dependencies":
        task.dependency_lines.append(line)
    elif method.startswith("add_scalar"):
        task.scalars += [line] * (len(given) if method == "add_scalar" else 1)
    else:
        added = [Added(method, expression, line) for expression in given]
        task.late += added if task.scalars else []
        task.tensors += added


def _launch(task: Submit, setting: str, given: list[str], line: int) -> None:
    if setting == "set_require_sync_start":
        task.sync_line = line if given and given[0] in ("true", "1") else 0
    elif given and _is_number(given[0]):
        task.block_num, task.block_line = int(given[0]), line


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
    found = {}
    for match in _REFERENCE.finditer(code.code):
        listed = allocated.get(match["of"], [])
        info = infos.get(listed[int(match["index"])]) if int(match["index"]) < len(listed) else None
        if info is not None:
            found[match["name"]] = info
    return found
