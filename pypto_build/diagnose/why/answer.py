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
from pypto_build.diagnose.why.find import Call, Found, find, run
from pypto_build.diagnose.why.forward import NAMED, Cone, Forward, Reached, Walk, cone_of
from pypto_build.diagnose.why.kept import KeptChain, Link, keep
from pypto_build.diagnose.why.runs import Runs, as_many, flat
from pypto_build.diagnose.why.trace import Intervals
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
    tensor = launch.binding.tensors[number]
    source = _intervals(_span(launch, number)[0], tensor, wanted)
    found = find(launch, checked)
    values = {i: _values(launch, i) for i, one in enumerate(launch.binding.tensors) if one.direction != "IN"}
    walk = Walk(found, source, lambda plan: Runs(launch, checked, found, plan))
    walk.follow()
    outputs = []
    for index, there in values.items():
        carries = _carried(walk, launch, index).reshape(there.shape)
        if index != number and carries.any():
            reached = there[carries].astype(np.float64)
            first = np.argwhere(carries)[:NAMED].tolist()
            name, low, high = launch.binding.tensors[index].name, float(reached.min()), float(reached.max())
            outputs.append(Reached(name, int(carries.sum()), there.size, low, high, first))
    count = int(np.prod([part.stop - part.start for part in wanted]))
    answer = Forward(
        f"'{tensor.name}' [{given_text(wanted)}]", count, walk.located(launch.artifact), outputs, walk.note
    )
    return msgspec.json.encode(answer).decode()


def _carried(walk: Walk, launch: Launch, index: int) -> Any:
    """Return a mask of the elements of a tensor that carry tainted bytes."""
    tensor, (low, _) = launch.binding.tensors[index], _span(launch, index)
    item = np.dtype(STORAGE[tensor.dtype]).itemsize
    carries = np.zeros(int(np.prod(tensor.shape)), bool)
    within = walk.tainted.within(low, low + len(carries) * item)
    for first, end in zip(within.low.tolist(), within.high.tolist(), strict=True):
        carries[(first - low) // item : -((low - end) // item)] = True
    return carries


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


def _in_child(launch: Launch, checked: Path, number: int, wanted: tuple[slice, ...], limits: Limits) -> str:
    import torch

    torch.set_num_threads(1)
    tensor = launch.binding.tensors[number]
    base, _ = _span(launch, number)
    found = find(launch, checked)
    actual = _values(launch, number)
    cone = cone_of(found, _intervals(base, tensor, wanted), len(found.tasks))
    indices = [tuple(part.start for part in wanted)]
    if actual[wanted].size > 1:
        indices = _most_wrong(actual, _expected(launch, number, found, cone), wanted, tensor.dtype, limits)
    external = {_span(launch, i) for i, one in enumerate(launch.binding.tensors) if one.nbytes}
    runs = _runs(launch, checked, found, cone)
    runs.intact = lambda: _values(launch, number)[wanted].tobytes() == actual[wanted].tobytes()
    item = np.dtype(STORAGE[tensor.dtype]).itemsize
    chains = []
    for index in indices:
        chain = Chain(runs, external, limits)
        where = f"'{tensor.name}' [{', '.join(map(str, index))}]"
        flat = int(np.ravel_multi_index(index, tensor.shape))
        top = chain.memory(base + flat * item, len(found.tasks), where, float(actual[index]))
        if runs.varies and not top.note:
            top.note = f"it varies: the first run left {float(actual[index]):.7g}"
        chain.locate(launch.artifact, top)
        chains.append(KeptChain(tensor.name, list(index), top))
    return msgspec.json.encode(chains).decode()


def _runs(launch: Launch, checked: Path, found: Found, cone: Cone) -> Runs:
    """The second runs, for a cone."""

    def plan(call: Call) -> tuple[list[Call], list[Call] | None]:
        chosen = as_many(found, [call, *(one for one in cone.calls if one[0] < call[0])])
        return chosen, cone_of(found, Intervals(), call[0] + 1, chosen).calls if found.by_itself else None

    runs = Runs(launch, checked, found, plan)
    runs.poison = not found.by_itself or len(cone.left.without(_given(launch))) > 0
    runs.last = cone.calls[0] if cone.calls else (-1, -1)
    return runs


def _given(launch: Launch) -> Intervals:
    """The bytes that hold something before the run."""
    tensors = enumerate(launch.binding.tensors)
    spans = [_span(launch, i) for i, one in tensors if one.nbytes and one.direction != "OUT"]
    low, high = np.array(sorted(spans), np.int64).reshape(-1, 2).T
    return Intervals.of(low, high)


def _intervals(base: int, tensor: Any, wanted: tuple[slice, ...]) -> Intervals:
    """The bytes of a part of a tensor of the program, which lies at `base`."""
    item = np.dtype(STORAGE[tensor.dtype]).itemsize
    *outer, last = wanted or (slice(0, 1),)
    shape = tensor.shape or (1,)
    strides = np.cumprod((1, *shape[:0:-1]))[::-1] * item
    first = np.array([last.start * item], np.int64)
    for part, stride in zip(outer, strides[:-1].tolist(), strict=True):
        first = (np.arange(part.start, part.stop, dtype=np.int64)[:, None] * stride + first.reshape(1, -1)).reshape(-1)
    low = base + first
    return Intervals.of(low, low + (last.stop - last.start) * item)


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
    """Return the address range of a tensor of the program: first byte and one past the last."""
    data = np.frombuffer(launch.arena.tensor(number), dtype=np.uint8)
    return int(data.ctypes.data), int(data.ctypes.data) + len(data)


def _values(launch: Launch, number: int) -> Any:
    tensor = launch.binding.tensors[number]
    stored = np.frombuffer(bytes(launch.arena.tensor(number)), dtype=STORAGE[tensor.dtype])
    return decode(stored, tensor.dtype).reshape(tensor.shape)


def _expected(launch: Launch, number: int, found: Found, cone: Cone) -> Any:
    only = flat(cone.calls) if found.by_itself else []
    run(launch, ReferenceHook(launch.artifact, launch.numerics), {"only": only}, {})
    return _values(launch, number)


@np.errstate(all="ignore")
def _distance(actual: Any, expected: Any) -> Any:
    """Return the absolute difference of each element; infinite if only one of the two is a number."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    return np.where(same, 0.0, np.nan_to_num(np.abs(a - e), nan=np.inf))
