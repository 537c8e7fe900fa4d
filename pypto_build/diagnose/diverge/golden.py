"""The outputs of a plain run against the golden, which only tells that something is wrong."""

from __future__ import annotations

from pathlib import Path

from pypto_build.artifact.snapshot import snapshot
from pypto_build.diagnose.diverge.compare import Limits, compare_bytes
from pypto_build.diagnose.findings import Finding
from pypto_build.replay.binding import with_goldens
from pypto_build.replay.reference.launch import Launch, Progress, in_child
from pypto_build.replay.tolerances import tolerances


def golden_findings(launch: Launch, data: Path | None, limits: Limits, timeout_s: float, hint: str) -> list[Finding]:
    """The outputs of a plain run against the golden, which only tells that something is wrong."""
    binding = (
        with_goldens(launch.binding, snapshot(launch.artifact, data)) if launch.binding.seed is None else launch.binding
    )
    rtol, atol = tolerances(launch.artifact, limits.rtol, limits.atol)
    within = Limits(max(rtol, 1e-3), max(atol, 1e-3))

    def outputs() -> list[Finding]:
        launch.run(lambda call: call.run())
        findings = []
        for index, tensor in enumerate(binding.tensors):
            if tensor.golden is None or not tensor.is_output:
                continue
            found = compare_bytes(bytes(launch.arena.tensor(index)), bytes(tensor.golden), tensor.dtype, within)
            if found is not None:
                text = (
                    f"every kernel agrees with its module, yet {found.count} of {found.numel} elements of output "
                    f"'{tensor.name}' differ from the golden"
                )
                wrong = f"the modules or the orchestration are wrong; {hint}"
                findings.append(Finding("diverge/golden", text, hint=wrong))
        return findings

    return in_child(outputs, Progress(), timeout_s)
