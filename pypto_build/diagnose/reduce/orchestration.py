"""Faults of an orchestration: its C++ with fewer lines, run with the artifact's own kernels and data.

Where the run ends in a fault, that has to stay the same. Where an output differs from what a right orchestration makes,
that one is reduced along with it, and what differs between the two is carried along.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.pt import write_pt
from pypto_build.diagnose.reduce.build import Builder, Refused
from pypto_build.diagnose.reduce.by_itself import ORCHESTRATION, Reduction, copy_artifact
from pypto_build.diagnose.reduce.case import Passed
from pypto_build.diagnose.reduce.judge import MISMATCHES, RunLimits, contents_after, ended
from pypto_build.diagnose.reduce.text_search import fewer_lines
from pypto_build.diagnose.reduce.texts import FaultLost, carry
from pypto_build.replay.child import Job
from pypto_build.replay.loading import KernelBinary
from pypto_build.replay.reference.launch import Launch
from pypto_build.replay.run_options import SettingValue

#: A candidate that hangs is waited for so long.
_TIMEOUT_S = 10.0


class Orchestrations:
    """Compiles and runs texts. ``clean`` is the right one, where there is one, and ``faulty`` the artifact's."""

    def __init__(self, one: Reduction, launch: Launch, limits: RunLimits, faulty: str, clean: str | None) -> None:
        self.one, self.launch, self.faulty, self.clean = one, launch, faulty, clean
        self.limits = replace(limits, timeout_s=min(limits.timeout_s, _TIMEOUT_S))
        self.builder = Builder(one.scratch / "built", one.given, one.artifact.runtime)
        self.arguments = [
            Passed(tensor.name, tensor.direction, tensor.dtype, tuple(tensor.shape), bytes(tensor.initial or b""))
            for tensor in launch.binding.tensors
        ]

    def with_fault(self, text: str) -> str:
        """What the faulty orchestration has become where the right one has become ``text``. Raises FaultLost."""
        if self.clean is None:
            return text
        return "\n".join(carry(self.clean.splitlines(), self.faulty.splitlines(), text.splitlines())) + "\n"

    def compiled(self, text: str) -> None:
        """Compile a candidate, which may be done for several at once."""
        with suppress(FaultLost, Refused):
            self._library(self.with_fault(text))
            if self.clean is not None:
                self._library(text)

    def ending(self, text: str) -> str:
        """How a candidate ends: the fault, or which outputs differ."""
        try:
            faulty = self._library(self.with_fault(text))
            clean = None if self.clean is None else self._library(text)
        except FaultLost:
            return "lost"
        except Refused as refused:
            return f"refused {refused}"
        run = partial(self.contents, clean) if clean else None
        return ended(self.arguments, self.limits, partial(self.contents, faulty), run)

    def outputs(self, text: str) -> list[bytes]:
        """What the parameters hold after a run of a text."""
        return self.contents(self._library(text))

    def _library(self, text: str) -> Path:
        return self.builder.build([(ORCHESTRATION, text)])[ORCHESTRATION, text]

    def contents(self, library: Path) -> list[bytes]:
        """What the parameters hold after a run of what is compiled. Raises RunFault."""
        interface, launch = self.launch.interface, self.launch
        kernels = tuple(
            KernelBinary(kernel.func_id, kernel.name, kernel.core_type, launch.library(kernel.core_type, kernel.name))
            for kernel in interface.kernels
        )
        entry = interface.orchestration
        scalars = tuple(scalar.bits for scalar in launch.binding.scalars)
        options: dict[str, SettingValue] = {
            "seed": 0,
            "serial": self.clean is not None,
            "output_dir": str(self.one.scratch / "records"),
        }
        job = Job(
            launch.embedded, launch.platform, kernels, library, entry.function_name, entry.config_name, scalars, 0,
            options,
        )  # fmt: skip
        return contents_after(job, self.arguments, self.limits.timeout_s)


def reduce_orchestration(one: Reduction, launch: Launch, limits: RunLimits, clean: str | None) -> Path | None:
    """The artifact with the shortest orchestration that ends in the same fault, or has outputs that differ from those
    of the right one, ``clean``, reduced in the same way; None where it does not show."""
    source = one.artifact.orchestration.source
    faulty = source.read_text("utf-8", "replace")
    runs = Orchestrations(one, launch, limits, faulty, clean)
    text = faulty if clean is None else clean
    wanted = runs.ending(text)
    word = wanted.partition(" ")[0]
    if word not in (("crash", "hang") if clean is None else MISMATCHES):
        return None
    one.say(f"orchestration: {wanted}")
    search = one.search(runs.ending, wanted, faulty, runs.compiled)
    short = one.shortest(search, text, fewer_lines, "lines")
    golden = runs.outputs(short) if clean is not None else []
    with one.result() as root:
        _write(runs, root, runs.with_fault(short), golden)
    return one.root


def _write(runs: Orchestrations, root: Path, text: str, golden: list[bytes]) -> None:
    """The artifact as it was built, with another orchestration; ``golden`` are its parameters after a right run."""
    artifact = runs.one.artifact
    copy_artifact(artifact, root)
    if not artifact.orchestration.source.is_relative_to(artifact.root):
        raise ArtifactError(artifact.orchestration.source, "lies outside of the artifact", "copy it there")
    write_bytes(root / artifact.orchestration.source.relative_to(artifact.root), text.encode())
    for kernel in artifact.kernels:  # with the bodies of edited modules
        place = Path("kernels", kernel.core_type, f"{kernel.source.stem}.cpp")
        if not kernel.source.is_relative_to(artifact.root) and (root / place).is_file():
            shutil.copyfile(kernel.source, root / place)
    for one, content in zip(runs.arguments, golden, strict=False):
        if one.direction != "IN":
            write_pt(root / "data" / "out" / f"{one.name}.pt", one.dtype, one.shape, content)
