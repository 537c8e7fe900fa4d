"""The work of `why`: which element is meant, the runs, the chain."""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import msgspec
import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.diverge.compare import Limits
from pypto_build.diagnose.why.chain import Chain, Link
from pypto_build.diagnose.why.runs import Runs, tasks_of
from pypto_build.replay.reference.hook import ReferenceHook
from pypto_build.replay.reference.launch import Launch, Progress, in_child, open_launch
from pypto_build.replay.values import STORAGE, decode

#: Of a range that is larger, the first elements count.
_MOST_ELEMENTS = 1 << 16


def answer(given: argparse.Namespace) -> Link:
    """The chain of the element that is asked for. Raises ArtifactError and RunFault."""
    built = (given.artifact, given.build_dir, given.embedded, given.platform)
    launch = open_launch(*built, given.data, given.seed, given.binaries, given.numerics)
    number = _output(launch, given.out)
    wanted = _elements(given.at, launch.binding.tensors[number].shape)
    checked = given.binaries or given.build_dir / "check"
    limits = Limits(given.rtol, given.atol)
    text = in_child(lambda: _in_child(launch, checked, number, wanted, limits), Progress(), given.timeout)
    return msgspec.json.decode(text, type=Link)


def _output(launch: Launch, name: str | None) -> int:
    """The number of a tensor of the program."""
    tensors = launch.binding.tensors
    outputs = [i for i, tensor in enumerate(tensors) if tensor.direction != "IN"]
    if name is None and len(outputs) == 1:
        return outputs[0]
    found = next((i for i, tensor in enumerate(tensors) if tensor.name == name), None)
    if found is None or found not in outputs:
        known = ", ".join(tensors[i].name for i in outputs) or "none"
        raise ArtifactError("", f"OUT={name or ''} is no output of the program", f"it has {known}")
    return found


def _elements(text: str, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """`127,0` and `0:4,7`: coordinates, within the shape."""
    parts = [part.strip() for part in text.split(",")] if text else []
    if len(parts) != len(shape):
        example = ",".join("0" for _ in shape)
        raise ArtifactError("", f"AT={text} does not fit the shape {list(shape)}", f"give it as AT={example}")
    ranges = []
    for part, extent in zip(parts, shape, strict=True):
        low, colon, high = part.partition(":")
        try:
            first = int(low) if low or not colon else 0
            last = (int(high) if high else extent) if colon else first + 1
        except ValueError:
            raise ArtifactError("", f"AT={text}: '{part}' is no index and no range", "I or I:J") from None
        if not 0 <= first < last <= extent:
            raise ArtifactError("", f"AT={text}: {part} is outside of 0 to {extent - 1}", f"the shape is {list(shape)}")
        ranges.append(range(first, last))
    return list(itertools.islice(itertools.product(*ranges), _MOST_ELEMENTS))


def _in_child(launch: Launch, checked: Any, number: int, wanted: list[tuple[int, ...]], limits: Limits) -> str:
    import torch

    torch.set_num_threads(1)
    tensor = launch.binding.tensors[number]
    tasks = tasks_of(launch)
    base, _ = _span(launch, number)
    actual = _values(launch, number)
    expected = _expected(launch, number) if len(wanted) > 1 else None
    index = wanted[0] if expected is None else max(wanted, key=lambda i: _distance(actual[i], expected[i]))
    flat = int(np.ravel_multi_index(index, tensor.shape))
    item = np.dtype(STORAGE[tensor.dtype]).itemsize
    external = {_span(launch, i) for i, one in enumerate(launch.binding.tensors) if one.nbytes}
    chain = Chain(Runs(launch, checked), tasks, external, limits)
    where = f"'{tensor.name}' [{', '.join(map(str, index))}]"
    top = chain.memory(base + flat * item, len(tasks), where, tensor.dtype, float(actual[index]))
    chain.locate(launch.artifact, top)
    return msgspec.json.encode(top).decode()


def _span(launch: Launch, number: int) -> tuple[int, int]:
    """Where a tensor of the program lies: first byte and one past the last."""
    data = np.frombuffer(launch.arena.tensor(number), dtype=np.uint8)
    return int(data.ctypes.data), int(data.ctypes.data) + len(data)


def _values(launch: Launch, number: int) -> Any:
    tensor = launch.binding.tensors[number]
    stored = np.frombuffer(bytes(launch.arena.tensor(number)), dtype=STORAGE[tensor.dtype])
    return decode(stored, tensor.dtype).reshape(tensor.shape)


def _expected(launch: Launch, number: int) -> Any:
    launch.run(ReferenceHook(launch.artifact))
    return _values(launch, number)


def _distance(actual: Any, expected: Any) -> float:
    distance = abs(float(actual) - float(expected))
    same = float(actual) == float(expected) or (np.isnan(actual) and np.isnan(expected))
    return 0.0 if same else float("inf") if np.isnan(distance) else distance
