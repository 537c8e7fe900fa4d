"""The artifact under the lint: everything read once, for all rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pypto_build.artifact import Artifact, Kernel, Vintage
from pypto_build.artifact.derive import Derived
from pypto_build.artifact.files import read_source
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.lint.orchestration import Orchestration, Submit, read_orchestration
from pypto_build.diagnose.lint.wrapper import Wrapper, read_wrapper


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
