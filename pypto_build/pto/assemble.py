"""Assembling: a .pto unit to the C++ body its kernel wrappers contain, for the simulated platforms.

The body has the form ptoas output takes once a wrapper has taken it in: `static __aicore__ void f(__gm__ float* …)`,
no includes. No pipeline synchronisation is inserted, which the CPU does not need and hardware does, so the hardware
platforms are refused.

    python -m pypto_build.pto.assemble UNIT.pto --platform a2a3sim -o OUT.cpp

What the checks find wrong is printed as warnings; only what has no translation is an error.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.positions import SourcePosition

from .atomic import write_atomically
from .checks import CAPACITY, check_module, module_arch
from .cpp.emitter import Emitter
from .cpp.lowering import find_lowering
from .errors import PtoError
from .model import Function, Module, Operation
from .ops import TABLE, TILE_ALLOCATIONS
from .parser import parse_file
from .resolve import resolve
from .types import MultiTileType, TileType

# Names of functions: MLIR allows any text between quotes, C++, Python and files do not.

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def require_names(module: Module) -> None:
    """Raise PtoError for a function whose name is invalid in C++ or Python, or as a kernel's file."""
    for function in module.functions():
        if function.body is not None and not _IDENTIFIER.fullmatch(function.name):
            what = "the name is not a C++ identifier; use letters, digits and _"
            raise module.error(function, what)


HARDWARE = ("a2a3", "a5")


@dataclass(frozen=True)
class Assembled:
    """The C++ body `text`; `lines` has, for each of its lines, the line of the .pto file that it came from (0:
    none).
    """

    text: str
    functions: tuple[str, ...]
    lines: tuple[int, ...]


def assemble(module: Module, platform: str) -> Assembled:
    """Return the C++ of every function with a body, callees first. Raises PtoError."""
    if platform in HARDWARE:
        raise PtoError(
            SourcePosition(module.source.path),
            f"{platform} needs ptoas: the built-in assembler inserts no pipeline synchronisation; "
            f"set PTOAS_ROOT, or build for {platform}sim",
        )
    if platform not in PLATFORMS:
        raise PtoError(
            SourcePosition(module.source.path), f"unknown platform '{platform}'; one of {', '.join(PLATFORMS)}"
        )
    require_names(module)
    arch = module_arch(module, platform)
    texts: list[str] = []
    tokens: list[int] = []
    names: list[str] = []
    addresses: dict[int, int] = {}
    functions = [f for f in _callees_first(module) if f.body is not None]
    for function in functions:
        addresses |= place_tiles(function, module, arch)
    for function in functions:
        lines = Emitter(function, module, addresses, find_lowering, arch).emit()
        texts += [*lines.text, ""]
        tokens += [*lines.tokens, -1]
        names.append(function.name)
    places = tuple(module.source.position(token).line if token >= 0 else 0 for token in tokens)
    return Assembled("\n".join(texts), tuple(names), places)


def _callees_first(module: Module) -> list[Function]:
    """Return functions in program order, each after the functions that it calls."""
    by_name = {f.name: f for f in module.functions()}
    done: dict[str, Function] = {}
    visiting: set[str] = set()

    def visit(function: Function) -> None:
        if function.name in done:
            return
        if function.name in visiting:
            raise module.error(function, "calls itself, which is not supported")
        visiting.add(function.name)
        for op in function.walk():
            callee = by_name.get(getattr(op.attrs.get("callee"), "name", "")) if TABLE[op.name].fn == "call" else None
            if callee is not None:
                visit(callee)
        done[function.name] = function

    for function in module.functions():
        visit(function)
    return list(done.values())


def place_tiles(function: Function, module: Module, arch: str) -> dict[int, int]:
    """Choose addresses for the tiles and buffers without one (`--pto-level=level2` leaves them to the assembler)."""
    resolved = resolve(function, module)
    top: dict[str, int] = {}
    open_: list[tuple[Operation, str, int]] = []
    for op in function.walk():
        space, size, base = _allocation(op)
        if size == 0:
            continue
        base = resolved.constant(op, "addr") if "addr" in op.operands else base
        if base is not None:
            top[space] = max(top.get(space, 0), base + size)
        elif "addr" not in op.operands:
            open_.append((op, space, size))
    placed = {}
    for op, space, size in open_:
        start = -(-top.get(space, 0) // 128) * 128
        top[space] = start + size
        if top[space] > CAPACITY[arch or "a2a3"].get(space, 1 << 62):
            message = f"has no address, and {size} bytes do not fit into {space} beside the other tiles; give addresses"
            raise module.error(op, message)
        placed[id(op)] = start
    return placed


def _allocation(op: Operation) -> tuple[str, int, int | None]:
    """Return memory space, bytes, and address (if it is an attribute) of an operation that allocates."""
    type_ = op.result_types[0] if op.result_types else None
    if op.name in TILE_ALLOCATIONS and isinstance(type_, TileType):
        return type_.loc, type_.bytes, None
    if op.name == "pto.alloc_multi_tile" and isinstance(type_, MultiTileType) and isinstance(type_.tile, TileType):
        return type_.tile.loc, type_.tile.bytes * type_.count, None
    if op.name == "pto.reserve_buffer":
        space = getattr(op.attrs.get("location"), "case", "vec")
        base = getattr(op.attrs.get("base"), "value", None)
        return space, int(getattr(op.attrs.get("size"), "value", 0)), base
    return "", 0, None


def main(argv: list[str] | None = None) -> int:
    """Return exit status 0, 1 if the unit cannot be assembled, 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.pto.assemble", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("unit", type=Path, help="the .pto file")
    parser.add_argument("--platform", required=True, help=f"one of {', '.join(PLATFORMS)}")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the C++ file to write")
    options = parser.parse_args(argv)
    try:
        module = parse_file(options.unit)
        body = assemble(module, options.platform)
        for finding in check_module(module, options.platform):  # shown, since what can run may also be debugged
            print(f"warning: {finding}", file=sys.stderr)
        write_atomically(options.output, body.text)
    except PtoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {options.output}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
