"""Instructions in the shared objects of kernels: operands recorded by a checked run, and source positions."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from pypto_build.artifact.outputs import local_source


class AccessSite(msgspec.Struct, frozen=True):
    """An instruction in a kernel's shared object."""

    kernel: Annotated[int, msgspec.Meta(ge=-1, le=(1 << 31) - 1)]
    instruction: str
    file: str
    offset: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,20}$")]


class Executed(msgspec.Struct, frozen=True, array_like=True):
    """The distinct operands that an instruction was executed with: eight numbers for each tile."""

    site: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
    numbers: Annotated[list[int], msgspec.Meta(max_length=64)]


# Lookup of instructions and source lines for addresses in the shared objects of checked kernels.
# The debug information has the inlined calls of an address. The addr2line program of binutils reads it, once for
# each file.

#: Headers of the runtime, whose frames are inlined into the kernel's line.
_OURS = re.compile(r"/include/pto/|/include/pypto/")


@dataclass(frozen=True)
class InstructionPosition:
    """The source position of an instruction. The path is empty without debug information."""

    instruction: str
    path: str = ""
    line: int = 0


def find_positions(sites: Iterable[AccessSite], root: Path) -> dict[AccessSite, InstructionPosition]:
    """Return the positions of `sites`. Paths below `root`, the artifact's directory, are relative to it."""
    by_file: dict[str, list[AccessSite]] = {}
    for site in dict.fromkeys(sites):
        by_file.setdefault(site.file, []).append(site)
    positions: dict[AccessSite, InstructionPosition] = {}
    for file, of_file in by_file.items():
        offsets = [f"0x{int(site.offset):x}" for site in of_file]
        text = _looked_up(file, offsets) if os.path.isfile(file) else ""  # isfile is False for invalid names, too
        blocks = re.split(r"(?m)^0x[0-9a-f]+\n", text)[1:]
        for site, block in zip(of_file, blocks or [""] * len(of_file), strict=False):
            positions[site] = _position(site, block.splitlines(), root)
    return positions


def _looked_up(file: str, offsets: list[str]) -> str:
    try:
        return subprocess.run(
            ["addr2line", "-Cfiae", file, *offsets], capture_output=True, text=True, errors="replace", check=False
        ).stdout
    except OSError:  # addr2line is not installed: positions have no lines
        return ""


def _position(site: AccessSite, lines: list[str], root: Path) -> InstructionPosition:
    """Return the position of a site. ``lines`` alternate function and position, from the innermost call outwards."""
    instruction = site.instruction
    for function, where in zip(lines[::2], lines[1::2], strict=False):
        path, _, line = where.partition(" (")[0].rpartition(":")
        if _OURS.search(path):
            name = _instruction_name(function)
            instruction = name or instruction
        elif path and path != "??" and line.isdigit():
            path = local_source(path, site.file)
            return InstructionPosition(instruction, relative(Path(path), root), int(line))
    return InstructionPosition(instruction)


def _instruction_name(function: str) -> str:
    """Return the instruction in a function's name: TADD for `pto::RecordEvent pto::TADD<...>(...)`; else an empty
    text.
    """
    head = re.sub(r"<.*", "", function.partition("(")[0].replace("operator()", ""))
    name = head.split("::")[-1].split(" ")[-1]
    return name if re.fullmatch(r"T[A-Z0-9_]+|M(?:GATHER|SCATTER)|[GS]etValue", name) else ""


def relative(path: Path, root: Path) -> str:
    """Return the path relative to `root` if it lies below it after resolving links, else the path unchanged."""
    try:
        return str(path.resolve().relative_to(root.resolve()))
    except ValueError:
        return str(path)
