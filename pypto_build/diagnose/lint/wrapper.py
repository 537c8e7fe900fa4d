"""Wrapper of a kernel: the entry that unpacks the arguments, and the function that works on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact.files import read_source
from pypto_build.diagnose.lint.text import Code, arguments_at, matching

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
