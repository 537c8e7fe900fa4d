"""The work of `why`: which element is meant, the runs, the chain."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.diverge.compare import Limits
from pypto_build.diagnose.why.chain import Chain
from pypto_build.diagnose.why.differ import differ
from pypto_build.diagnose.why.forward import NAMED, Forward, Reached, Walk
from pypto_build.diagnose.why.kept import KeptChain, keep
from pypto_build.diagnose.why.links import Link
from pypto_build.diagnose.why.runs import Runs, tasks_of
from pypto_build.replay.reference.hook import ReferenceHook
from pypto_build.replay.reference.launch import Launch, Progress, in_child, open_launch
from pypto_build.replay.values import STORAGE, decode

#: Of a range, so many wrong elements besides the one that is most wrong have their chains kept.
_OTHERS = 12


def answer(given: argparse.Namespace) -> Link:
    """The chain of the element that is asked for; it and those of others of a range are kept for the report.

    Raises ArtifactError and RunFault.
    """
    launch, checked = _launched(given)
    number = _output(launch, given.out)
    wanted = elements(given.at, launch.binding.tensors[number].shape)
    limits = Limits(given.rtol, given.atol)
    text = in_child(lambda: _in_child(launch, checked, number, wanted, limits), Progress(), given.timeout)
    chains = msgspec.json.decode(text, type=list[KeptChain])
    keep(given.build_dir, given.artifact, chains)
    return chains[0].link


def forward(given: argparse.Namespace) -> Forward:
    """What was made of the elements that are asked for. Raises ArtifactError and RunFault."""
    launch, checked = _launched(given)
    names = [tensor.name for tensor in launch.binding.tensors]
    if given.source not in names:
        raise ArtifactError("", f"FROM={given.source} is no tensor of the program", f"it has {', '.join(names)}")
    number = names.index(given.source)
    wanted = elements(given.at, launch.binding.tensors[number].shape)
    text = in_child(lambda: _forward_in_child(launch, checked, number, wanted), Progress(), given.timeout)
    return msgspec.json.decode(text, type=Forward)


def _forward_in_child(launch: Launch, checked: Path, number: int, wanted: tuple[slice, ...]) -> str:
    import torch

    torch.set_num_threads(1)
    tasks = tasks_of(launch)
    spans = {i: _span(launch, i) for i, one in enumerate(launch.binding.tensors) if one.nbytes}
    walk = Walk(Runs(launch, checked), tasks)
    masks = {i: np.zeros(high - low, bool) for i, (low, high) in spans.items()}
    walk.tainted.masks = {spans[i][0]: mask for i, mask in masks.items()}
    tensor = launch.binding.tensors[number]
    item = np.dtype(STORAGE[tensor.dtype]).itemsize
    marked = masks[number][: len(masks[number]) // item * item].reshape(*tensor.shape, item)
    marked[wanted] = True
    count = int(marked[..., 0].sum())
    values = {i: _values(launch, i) for i, one in enumerate(launch.binding.tensors) if one.direction != "IN"}
    walk.follow()
    outputs = []
    for index, there in values.items():
        one = launch.binding.tensors[index]
        item = np.dtype(STORAGE[one.dtype]).itemsize
        mask = masks[index].reshape(-1, item)[: there.size].any(axis=1).reshape(one.shape)
        if index != number and mask.any():
            found = there[mask].astype(np.float64)
            first = np.argwhere(mask)[:NAMED].tolist()
            outputs.append(
                Reached(one.name, int(mask.sum()), there.size, float(found.min()), float(found.max()), first)
            )
    source = f"'{tensor.name}' [{given_text(wanted)}]"
    answer = Forward(source, count, walk.located(launch.artifact), outputs, walk.note)
    return msgspec.json.encode(answer).decode()


def given_text(wanted: tuple[slice, ...]) -> str:
    """Parts of each dimension as they are typed."""
    return ", ".join(str(part.start) if part.stop == part.start + 1 else f"{part.start}:{part.stop}" for part in wanted)


def _launched(given: argparse.Namespace) -> tuple[Launch, Path]:
    """What is built, and where its checked binaries are."""
    built = (given.artifact, given.build_dir, given.embedded, given.platform)
    launch = open_launch(*built, given.data, given.seed, given.usual, given.numerics)
    return launch, given.binaries or given.build_dir / "check"


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


def elements(text: str, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """`127,0` and `0:4,7`: parts of each dimension, within the shape."""
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
        ranges.append(slice(first, last))
    return tuple(ranges)


def _in_child(launch: Launch, checked: Any, number: int, wanted: tuple[slice, ...], limits: Limits) -> str:
    import torch

    torch.set_num_threads(1)
    tensor = launch.binding.tensors[number]
    tasks = tasks_of(launch)
    base, _ = _span(launch, number)
    actual = _values(launch, number)
    indices = [tuple(part.start for part in wanted)]
    if actual[wanted].size > 1:
        indices = _most_wrong(actual, _expected(launch, number), wanted, tensor.dtype, limits)
    item = np.dtype(STORAGE[tensor.dtype]).itemsize
    external = {_span(launch, i) for i, one in enumerate(launch.binding.tensors) if one.nbytes}
    runs = Runs(launch, checked)
    chains = []
    for index in indices:
        chain = Chain(runs, tasks, external, limits)
        where = f"'{tensor.name}' [{', '.join(map(str, index))}]"
        flat = int(np.ravel_multi_index(index, tensor.shape))
        top = chain.memory(base + flat * item, len(tasks), where, tensor.dtype, float(actual[index]))
        chain.locate(launch.artifact, top)
        chains.append(KeptChain(tensor.name, list(index), top))
    return msgspec.json.encode(chains).decode()


def _most_wrong(
    actual: Any, expected: Any, wanted: tuple[slice, ...], dtype: str, limits: Limits
) -> list[tuple[int, ...]]:
    """The element of a range that is most wrong, then some of the others that are wrong, from all over the range."""
    mine, theirs = actual[wanted], expected[wanted]
    first = int(np.argmax(_distance(mine, theirs)))
    wrong = np.flatnonzero(differ(mine, theirs, dtype, limits, expected))
    others = wrong[np.linspace(0, len(wrong) - 1, min(_OTHERS, len(wrong))).astype(np.int64)] if len(wrong) else wrong
    flat = dict.fromkeys([first, *others.tolist()])
    starts = [part.start for part in wanted]
    return [tuple(int(a + b) for a, b in zip(starts, np.unravel_index(one, mine.shape), strict=True)) for one in flat]


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


@np.errstate(all="ignore")
def _distance(actual: Any, expected: Any) -> Any:
    """Of each element; infinite where only one of the two is a number."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    return np.where(same, 0.0, np.nan_to_num(np.abs(a - e), nan=np.inf))
