"""The runtime's callback for RUNTIME=torch: PyTorch executes every task of the orchestration."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from pypto_build.artifact.layout import load_artifact
from pypto_build.facts.faults import FaultKind
from pypto_build.facts.run_options import FAST
from pypto_build.facts.tasks import Slot, slots_of
from pypto_build.replay.reference.numerics import flushed
from pypto_build.replay.reference.tasks import Body, Member, Units, run_blocks, run_task
from pypto_build.runtime.faults import RuntimeFault, python_fault

#: The function of a unit that runs the members of a group in turns; it fails only if none can go on.
_SCHEDULER = "_run_scheduler"


class ReferenceFault(RuntimeFault):
    """A kernel cannot be executed, or its execution failed."""

    def __init__(self, message: str, task: int, kernel: str, kind: int) -> None:
        super().__init__(python_fault(kind, message, task, kernel))


class References:
    """The PyTorch of an artifact's kernels, by func_id."""

    def __init__(
        self, artifact: Path, probe: Callable[[int, str, Any], None] | None = None, numerics: str = FAST
    ) -> None:
        """Load the units. `probe` is called with the results of every instruction; `numerics` selects whose results to
        compute. See Units."""
        self.units = Units(artifact, probe, numerics)
        self.sources: Mapping[int, tuple[str, Path]] = {
            kernel.func_id: (kernel.name, kernel.source) for kernel in load_artifact(artifact).kernels
        }
        self._bodies: dict[int, Body | None] = {}
        self._members: dict[tuple[Any, ...], list[Member] | None] = {}

    def body(self, func_id: int, tensors: int) -> Body | None:
        """Return the PyTorch of a kernel; None if no .pto module defines it. Raises ArtifactError."""
        if func_id not in self._bodies:
            name, source = self.sources.get(func_id, (f"#{func_id}", Path()))
            self._bodies[func_id] = self.units.body(name, source, tensors)
        return self._bodies[func_id]

    def put(self, path: Path, text: str) -> None:
        """Replace the text of a module. Raises PtoError and UnsupportedOperations."""
        self._bodies.clear()
        self._members.clear()
        self.units.put(path, text)

    def members(self, call: Any) -> list[Member] | None:
        """Return the kernels of a task; None if one of them has no .pto module."""
        key = tuple(call.kernels)
        if key not in self._members:
            tensors = sum(hasattr(argument, "shape") for argument in call.args)
            bodies = [(name, self.body(func_id, tensors), role) for role, func_id, name in key]
            members = [
                Member(name, body, 1 if role == "aiv1" else 0) for name, body, role in bodies if body is not None
            ]
            self._members[key] = members if len(members) == len(bodies) else None
        return self._members[key]

    def execute(self, call: Any, slots: list[Slot] | None = None) -> bool:
        """Run a task's block in PyTorch. Return False, without doing anything, if a kernel has no .pto module.

        `slots` replace the task's own arguments. Raises ReferenceFault.
        """
        members = self.members(call)
        if members is None:
            return False
        arguments = slots_of(call) if slots is None else slots
        try:
            with flushed(self.units.numerics):
                if call.block is None:
                    run_blocks(members, arguments, call.block_num)
                else:
                    run_task(members, arguments, call.block, call.block_num)
        except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError, NameError) as error:
            kernels = "+".join(dict.fromkeys(member.name for member in members))
            kind = FaultKind.REFERENCE_DEADLOCK if _raiser(error) == _SCHEDULER else FaultKind.REFERENCE
            raise ReferenceFault(f"{_where(error, members)}{error}", call.number, kernels, kind) from error
        return True


def _raiser(error: BaseException) -> str:
    """Return the name of the function that raised an exception."""
    name = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_name
    return name


def _where(error: BaseException, members: list[Member]) -> str:
    """Return `gemm.pto:12: `, the innermost line of a unit in an exception's traceback."""
    files = {f"<{member.body.unit.path.name}>": member.body.unit for member in members}
    where = ""
    trace = error.__traceback__
    while trace is not None:
        unit = files.get(trace.tb_frame.f_code.co_filename)
        position = unit.place(trace.tb_lineno) if unit is not None else None
        if unit is not None and position is not None and position.line:
            where = f"{unit.path.name}:{position.line}: "
        trace = trace.tb_next
    return where


class ReferenceHook:
    """The callback that the runtime calls for every task. Kernels without a .pto module run as compiled."""

    def __init__(self, artifact: Path, numerics: str = FAST) -> None:
        torch.set_num_threads(1)  # tiles are small: more threads would only wait for each other
        self.references = References(artifact, numerics=numerics)
        self.compiled: set[str] = set()  # kernels without a module

    def __call__(self, call: Any) -> None:
        if self.references.execute(call):
            return
        self.compiled.update(name for _, _, name in call.kernels)
        call.run()
