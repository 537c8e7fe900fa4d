"""Findings on rules of the device that a run broke, where the kernel's text alone does not decide.

What the text decides every replay says; it is not repeated here.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto_build.artifact.files import read_bytes
from pypto_build.device.kernel import OpenCall, open_calls
from pypto_build.device.run import ExecutedTile, broken_by
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.hazards.context import Context

_FIELDS = len(ExecutedTile._fields)


def rule_findings(context: Context, arch: str) -> Iterator[Finding]:
    """Yield one finding for each call and rule that it broke, on the first operands that did."""
    record = context.record
    for kernel in context.artifact.kernels:
        calls = {(call.line, call.name): call for call in open_calls(read_bytes(kernel.source), arch)}
        names = {name for _, name in calls}
        executed = [
            one
            for one in record.document.executed
            if record.sites[one.site].kernel == kernel.func_id and record.sites[one.site].instruction in names
        ]
        context.resolve(one.site for one in executed)
        reported: set[object] = set()
        for one in executed:
            position = context.position(one.site)
            call = calls.get((position.line, record.sites[one.site].instruction))
            for finding in _findings(call, _tiles(one.numbers), position.path) if call else ():
                key = (finding.line, finding.rule, finding.message.partition(" (")[0])
                if key not in reported:
                    reported.add(key)
                    yield finding


def _tiles(numbers: list[int]) -> list[ExecutedTile]:
    return [ExecutedTile(*numbers[at : at + _FIELDS]) for at in range(0, len(numbers), _FIELDS)]


def _findings(call: OpenCall, operands: list[ExecutedTile], path: str) -> Iterator[Finding]:
    for constraint, message in broken_by(call, operands):
        yield Finding(
            f"rules/{constraint.kind}", message, path, call.line, hint="keep the rule: docs/lookup/device-rules.md"
        )
