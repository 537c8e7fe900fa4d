"""After a run: were the inputs left alone, and what is each output worth?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding, TensorArg
from pypto_build.replay.comparators.base import Comparator
from pypto_build.replay.compare import coordinates, difference, first_mismatches
from pypto_build.replay.hints import Case, find_hints
from pypto_build.replay.values import Array, decode, storage
from pypto_build.replay.verdict import ErrorInfo, OutputResult


@dataclass(frozen=True)
class Rules:
    """How outputs are compared: tolerances, and comparators by output name."""

    rtol: float
    atol: float
    comparators: Mapping[str, Comparator]


def check_memory(binding: Binding, arena: Arena) -> ErrorInfo | None:
    """A write that must not have been: into an IN tensor, or next to a tensor."""
    overrun = arena.overrun()
    if overrun is not None:
        tensor = binding.tensors[overrun.index]
        where = f"{overrun.offset} bytes after its end" if overrun.offset >= 0 else f"{-overrun.offset} bytes before it"
        return ErrorInfo(
            "out_of_bounds",
            f"a kernel wrote outside tensor '{tensor.name}' ({tensor.nbytes} bytes): {where}",
            hint="look for an offset or a valid shape that passes the tensor's end",
        )
    for index, tensor in enumerate(binding.tensors):
        if tensor.direction != "IN" or tensor.initial is None:
            continue
        before = np.frombuffer(tensor.initial, dtype=np.uint8)
        after = np.frombuffer(arena.tensor(index), dtype=np.uint8)
        if np.array_equal(before, after):
            continue
        changed = (before != after).reshape(tensor.numel, -1).any(axis=1)
        at = tuple(coordinates(int(np.argmax(changed)), tensor.shape))
        share = f"{int(np.count_nonzero(changed))} of {tensor.numel} elements"
        return ErrorInfo(
            "input_changed",
            f"input '{tensor.name}' was changed by a kernel: {share}, first at {at}",
            hint=f"declare '{tensor.name}' INOUT in the program, or find the kernel that writes it",
        )
    return None


def check_outputs(binding: Binding, arena: Arena, rules: Rules) -> list[OutputResult]:
    """One result per output, in argument order; all are compared, whatever the first ones gave."""
    outputs = {tensor.name: index for index, tensor in enumerate(binding.tensors) if tensor.is_output}
    stored = {
        name: storage(arena.tensor(i), binding.tensors[i].dtype, binding.tensors[i].shape)
        for name, i in outputs.items()
    }
    return [
        _unchecked(binding.tensors[i]) if not binding.checked else _compare(binding, binding.tensors[i], stored, rules)
        for i in outputs.values()
    ]


def _unchecked(tensor: TensorArg) -> OutputResult:
    return OutputResult(tensor.name, "unchecked", list(tensor.shape), tensor.dtype, tensor.numel, comparator="")


def _compare(binding: Binding, tensor: TensorArg, stored: Mapping[str, Array], rules: Rules) -> OutputResult:
    if tensor.golden is None:
        return _unchecked(tensor)
    actual, expected = stored[tensor.name], storage(tensor.golden, tensor.dtype, tensor.shape)
    found = difference(actual, expected, tensor.dtype, rules.rtol, rules.atol)
    result = OutputResult(
        tensor.name,
        "mismatch" if found.count else "pass",
        list(tensor.shape),
        tensor.dtype,
        tensor.numel,
        found.count,
        found.max_abs,
        found.max_rel,
        first_mismatches(actual, expected, tensor.dtype, found.mask) if found.count else [],
    )
    comparator = rules.comparators.get(tensor.name)
    decoded = decode(actual, tensor.dtype), decode(expected, tensor.dtype)
    if comparator is not None:
        ok, result.detail = _apply(comparator, decoded, binding, stored, rules)
        result.status, result.comparator = "pass" if ok else "mismatch", comparator.__name__
    if result.status == "mismatch":
        initial = None
        if tensor.direction == "INOUT" and tensor.initial is not None:
            initial = decode(storage(tensor.initial, tensor.dtype, tensor.shape), tensor.dtype)
        result.hints = find_hints(Case(*decoded, tensor.dtype, found, tensor.direction, initial))
    return result


def _apply(
    comparator: Comparator, decoded: tuple[Array, Array], binding: Binding, stored: Mapping[str, Array], rules: Rules
) -> tuple[bool, str]:
    """Call a comparator with everything it may look at."""
    tensors = {tensor.name: tensor for tensor in binding.tensors}
    inputs: dict[str, Array] = {
        tensor.name: decode(storage(tensor.initial, tensor.dtype, tensor.shape), tensor.dtype)
        for tensor in binding.tensors
        if tensor.direction == "IN" and tensor.initial is not None
    }
    inputs |= {scalar.name: np.asarray(scalar.value) for scalar in binding.scalars}
    goldens = {name: tensors[name].golden for name in stored}
    return comparator(
        *decoded,
        actual_outputs={name: decode(array, tensors[name].dtype) for name, array in stored.items()},
        expected_outputs={
            name: decode(storage(golden, tensors[name].dtype, tensors[name].shape), tensors[name].dtype)
            for name, golden in goldens.items()
            if golden is not None
        },
        inputs=inputs,
        rtol=rules.rtol,
        atol=rules.atol,
    )
