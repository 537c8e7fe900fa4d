"""Findings on rules of the device that a run broke, where the kernel's text alone does not decide.

What the text decides every replay says; it is not repeated here.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto_build.device.run import RunRules
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.hazards.context import Context


def rule_findings(context: Context, arch: str) -> Iterator[Finding]:
    """Yield one finding for each call and rule that it broke, on the first operands that did."""
    artifact, document = context.artifact, context.record.document
    rules = RunRules({kernel.func_id: kernel.source for kernel in artifact.kernels}, artifact.root, arch)
    for one in rules.broken(document.sites, document.executed):
        hint = "keep the rule: docs/lookup/device-rules.md"
        yield Finding(f"rules/{one.rule}", one.message, one.path, one.line, hint=hint)
