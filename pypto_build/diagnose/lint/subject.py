"""The artifact under the lint: everything read once, for all rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pypto_build.artifact import Artifact, Kernel, Vintage
from pypto_build.artifact.derive import Derived
from pypto_build.artifact.files import read_source
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.lint.orchestration import Orchestration, Submit, read_orchestration
from pypto_build.diagnose.lint.text import Code, arguments_at, matching

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
    found = _ENTRY.search(code.code)
    opening = code.code.find("{", found.end()) if found else -1
    if opening < 0:
        return Wrapper(code, None, (), functions, None, 0, ())
    end = matching(code.code, opening)
    called, line, arguments = _call(code, functions, opening, end)
    return Wrapper(code, (opening, end), tuple(_unpacked(code, opening, end)), functions, called, line, arguments)


def _functions(code: Code) -> list[WrapperFunction]:
    found = []
    for match in _FUNCTION.finditer(code.code):
        if match["name"] == "kernel_entry":
            continue
        close = matching(code.code, match.end() - 1)
        opening = code.code.find("{", close)
        if opening < 0 or code.code[close + 1 : opening].strip():
            continue  # a declaration
        parameters = tuple(arguments_at(code.code, match.end() - 1))
        end = matching(code.code, opening)
        found.append(WrapperFunction(match["name"], parameters, code.line(match.start()), opening, end))
    return found


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
    found: tuple[WrapperFunction | None, int, tuple[str, ...]] = (None, 0, ())
    for match in re.finditer(r"\b(\w+)\s*\(", code.code[start:end]):
        function = names.get(match[1])
        if function is not None:
            opening = start + match.end() - 1
            arguments = arguments_at(code.code, opening)
            found = (function, code.line(start + match.start()), tuple(arguments))
    return found


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
