"""Checks a successful run without numpy, whose import takes longer than most runs.

It handles only runs that pass. For any other run it returns None, and the full check finds the cause.
"""

from __future__ import annotations

from typing import Any

from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding, TensorArg
from pypto_build.replay.verdict import OutputResult, OutputStatus


def quick_check(embedded: Any, binding: Binding, arena: Arena, rtol: float, atol: float) -> list[OutputResult] | None:
    """Return the results of a run if all outputs pass the default rule and all inputs are unchanged; else None.

    `embedded` is the runtime's extension module, which does the comparison.
    """
    if not binding.checked or arena.overrun() is not None:
        return None
    results = []
    for index, tensor in enumerate(binding.tensors):
        memory = arena.tensor(index)
        untouched = tensor.direction != "IN" or tensor.initial is None or memory is tensor.initial
        if not untouched and not embedded.same_bytes(memory, tensor.initial):
            return None
        if tensor.is_output:
            result = _compare(embedded, tensor, memory, rtol, atol)
            if result is None:
                return None
            results.append(result)
    return results


def _compare(embedded: Any, tensor: TensorArg, memory: memoryview, rtol: float, atol: float) -> OutputResult | None:
    if tensor.golden is None:
        return None
    maxima = embedded.compare(memory, tensor.golden, tensor.dtype, rtol, atol)
    if maxima is None:
        return None
    result = OutputResult(tensor.name, "pass", list(tensor.shape), tensor.dtype, tensor.numel, comparator="allclose")
    result.max_abs, result.max_rel = maxima
    return result


def judged_outputs(binding: Binding, against: str) -> list[OutputResult]:
    """Return the results of a run that a judge decides; ``against`` is the judge's objection, empty for a pass."""
    outputs = [tensor for tensor in binding.tensors if tensor.is_output]
    status: OutputStatus = "mismatch" if against else "pass"
    results = [
        OutputResult(tensor.name, status, list(tensor.shape), tensor.dtype, tensor.numel, comparator="its own judge")
        for tensor in outputs
    ]
    if results:
        results[0].detail = against
    return results
