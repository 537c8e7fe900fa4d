"""The artifact under the lint: everything read once, for all rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pypto_build.artifact import Artifact, Kernel, Vintage
from pypto_build.artifact.cpp.orchestration import OrchestrationFile, Submit
from pypto_build.artifact.cpp.text import Code
from pypto_build.artifact.cpp.wrapper import CppFunction, KernelFile, Unpacked
from pypto_build.artifact.derive import Derived
from pypto_build.artifact.files import read_source
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.findings import Finding, Level


@dataclass(frozen=True)
class Wrapper:
    """One kernel's file. `call` is the forward call to the function that does the work: line and arguments."""

    code: Code
    entry: tuple[int, int] | None
    unpacked: tuple[Unpacked, ...]
    functions: tuple[CppFunction, ...]
    called: CppFunction | None
    call_line: int
    call_arguments: tuple[str, ...]


def read_wrapper(path: Path, name: str) -> Wrapper:
    """The wrapper at `path`, shown as `name`."""
    code = Code(name, read_source(path))
    file = KernelFile(code.raw)
    functions = {function.name: function for function in file.functions}
    call = next((call for call in reversed(file.calls()) if call.name in functions), None)
    return Wrapper(
        code,
        (file.entry.start, file.entry.end) if file.entry else None,
        tuple(file.unpacked()),
        tuple(file.functions),
        functions[call.name] if call else None,
        call.line if call else 0,
        call.arguments if call else (),
    )


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
    def orchestration(self) -> OrchestrationFile:
        """The orchestration as it is written."""
        return OrchestrationFile(read_source(self.artifact.orchestration.source))

    @cached_property
    def orchestration_path(self) -> str:
        """Return the orchestration's path as messages show it."""
        return self.short(self.artifact.orchestration.source)

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
        return Finding(f"lint/{rule}", message, self.orchestration_path, line, hint, level)

    def in_manifest(self, needle: str, rule: str, message: str, hint: str, level: Level = "error") -> Finding:
        """A finding in the manifest, at the first line that holds `needle`."""
        path = self.artifact.manifest_path
        lines = read_source(path).splitlines()
        line = next((number for number, text in enumerate(lines, 1) if needle in text), 0)
        return Finding(f"lint/{rule}", message, self.short(path), line, hint, level)
