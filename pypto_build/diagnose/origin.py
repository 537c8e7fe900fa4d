"""The lines of module and program that a line of a kernel was generated from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact.files import read_text
from pypto_build.pto.live.module import LiveFunction, LiveModule
from pypto_build.pto.live.pairs import pair
from pypto_build.pto.model import Location


def kernel_text(path: Path) -> str:
    """Return the text of a kernel's file; empty if it cannot be read."""
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""


def module_files(kernel: Path) -> list[Path]:
    """Return the modules of the artifact that contains a kernel's file; modules that name its function come first."""
    if kernel.parent.parent.name != "kernels":
        return []
    modules = sorted((kernel.parent.parent.parent / "ptoas").glob("*.pto"))
    return [path for path in modules if f"@{kernel.stem}(" in kernel_text(path)]


@dataclass(frozen=True)
class Origin:
    """The module's line that a kernel's line was generated from, and what the module says of its program's line."""

    module: Path
    line: int
    operation: str
    program: Location | None


def origin(kernel: Path, line: int, platform: str = "") -> Origin | None:
    """Return the origin of a kernel's line, which counts from 1; None where no module has one."""
    text = kernel_text(kernel)
    for path in module_files(kernel):
        live = LiveModule(str(path), platform)
        live.update(kernel_text(path))
        for function in live.functions:
            if function.model.name == kernel.stem and function.names is not None:
                at = pair(function, text).in_module(line - 1)
                if at is not None:
                    return _origin(path, function, at)
    return None


def _origin(path: Path, function: LiveFunction, line: int) -> Origin | None:
    for node in function.every:
        for op in node.own():
            if node.line(node.source.position(op.token).line - 1) == line:
                return Origin(path, line + 1, op.name, op.loc)
    return None
