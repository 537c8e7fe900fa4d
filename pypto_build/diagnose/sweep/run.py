"""Runs cases in parallel. Each runs in its own process, forked from a process that has loaded everything."""

from __future__ import annotations

import importlib
import math
import multiprocessing
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.interface import Interface
from pypto_build.diagnose import console
from pypto_build.facts.dtypes import DTYPES, TORCH
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding, TensorArg
from pypto_build.replay.compare import difference
from pypto_build.replay.faults import RunFault
from pypto_build.replay.reference.launch import Launch, Progress, in_child
from pypto_build.replay.values import STORAGE, decode, encode, is_float

# Inputs by kind: random ones, values at the edges of their type, values with a structure.
# Tensors of whole numbers are tables and lengths as a rule, so they stay what the artifact's data has.


# The cases of a sweep: a seed, a kind of values, and the sizes of dynamic dimensions.

Values = np.ndarray[Any, Any]
Shape = tuple[int, ...]

#: The groups of kinds that VALUES= takes; "special" only when it is asked for.
GROUPS: dict[str, tuple[str, ...]] = {
    "random": ("normal", "uniform", "wide"),
    "edge": ("zeros", "ones", "negative-zeros", "denormals", "large", "alternating"),
    "structured": ("ramp", "one-hot", "constant-rows", "small-integers"),
    "special": ("infinities", "nans"),
}
USUAL = ("random", "edge", "structured")
#: From plain to wild: among failing cases of one size the plainest is kept.
PLAINNESS = (
    "zeros", "ones", "small-integers", "ramp", "one-hot", "constant-rows", "alternating", "negative-zeros", "normal",
    "uniform", "wide", "large", "denormals", "infinities", "nans",
)  # fmt: skip


def make(kind: str, seed: int, name: str, dtype: str, shape: Shape) -> bytes:
    """Return the bytes of a floating-point tensor of ``shape``. Equal arguments give equal bytes."""
    generator = np.random.default_rng([seed, zlib.crc32(f"{name} {kind}".encode())])
    with np.errstate(all="ignore"):
        values = np.asarray(_MAKERS[kind](generator, shape, dtype), dtype=np.float32)
        return encode(np.ascontiguousarray(values), dtype).tobytes()


def _wide(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    """Over many magnitudes."""
    return generator.standard_normal(shape) * np.exp2(generator.integers(-8, 9, shape))


def _filled(value: float) -> Callable[[np.random.Generator, Shape, str], Values]:
    return lambda generator, shape, dtype: np.full(shape, value)


def _denormals(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    """Return numbers of both signs below the smallest normal number, or zeros for a type without denormal numbers."""
    exponent, mantissa = _bits(dtype)
    smallest = 2.0 ** (2 - (1 << (exponent - 1)))
    return generator.integers(-(1 << mantissa) + 1, 1 << mantissa, shape) * (smallest / (1 << mantissa))


def _large(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    """A square or a sum of few of them still has room."""
    exponent, _ = _bits(dtype)
    sizes = generator.uniform(0.5, 1, shape) * generator.choice([-1, 1], shape)
    return np.asarray(sizes * 2.0 ** ((1 << (exponent - 1)) / 2 - 4))


def _alternating(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    return np.where(np.indices(shape).sum(0) % 2, -1.0, 1.0) if shape else np.ones(shape)


def _ramp(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    count = int(np.prod(shape))
    return np.arange(count).reshape(shape) / max(count, 1)


def _one_hot(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    """One in each row."""
    values = np.zeros(shape)
    if values.size:
        at = generator.integers(0, shape[-1], shape[:-1]) if shape else ()
        np.put_along_axis(values, np.expand_dims(at, -1), 1.0, -1) if shape else values.fill(1)
    return values


def _constant_rows(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    row = generator.standard_normal((*shape[:-1], 1) if shape else ())
    return np.array(np.broadcast_to(row, shape))


def _sprinkled(*special: float) -> Callable[[np.random.Generator, Shape, str], Values]:
    """Random values, a few of them special."""

    def sprinkled(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
        chosen = generator.random(shape) < 0.02
        return np.where(chosen, generator.choice(special, shape), generator.standard_normal(shape))

    return sprinkled


def _bits(dtype: str) -> tuple[int, int]:
    """Bits of exponent and mantissa."""
    return TORCH[dtype].exponent, TORCH[dtype].mantissa


_MAKERS: dict[str, Callable[[np.random.Generator, Shape, str], Values]] = {
    "normal": lambda generator, shape, dtype: generator.standard_normal(shape),
    "uniform": lambda generator, shape, dtype: generator.uniform(-1, 1, shape),
    "wide": _wide,
    "zeros": _filled(0.0),
    "ones": _filled(1.0),
    "negative-zeros": _filled(-0.0),
    "denormals": _denormals,
    "large": _large,
    "alternating": _alternating,
    "ramp": _ramp,
    "one-hot": _one_hot,
    "constant-rows": _constant_rows,
    "small-integers": lambda generator, shape, dtype: generator.integers(-4, 5, shape),
    "infinities": _sprinkled(np.inf, -np.inf),
    "nans": _sprinkled(np.nan),
}


_SEEDS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?\Z")
_MOST_SEEDS = 1_000_000
_FLOATS = frozenset(row.torch for row in DTYPES.values() if row.is_float)


@dataclass(frozen=True)
class Symbol:
    """A dynamic size: the dimensions (parameter, axis) that have it, and its value in the artifact's data."""

    size: int
    places: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """`x[0]`, the first dimension that has it."""
        parameter, axis = self.places[0]
        return f"{parameter}[{axis}]"


@dataclass(frozen=True)
class SweepCase:
    """One run: ``sizes`` of the dynamic dimensions, in the order of `symbols`."""

    seed: int
    kind: str
    sizes: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """`seed 17 (ramp), sizes 1x64`."""
        sizes = f", size {'x'.join(map(str, self.sizes))}" if self.sizes else ""
        return f"seed {self.seed} ({self.kind}){sizes}"


def plainness(case: SweepCase, elements: int) -> tuple[int, int, int]:
    """Order of cases: the smaller, then the plainer, then the lower seed."""
    return elements, PLAINNESS.index(case.kind), case.seed


def symbols(interface: Interface, binding: Binding) -> tuple[Symbol, ...]:
    """Return the dynamic sizes. Dimensions that are equal in the artifact's data are assumed to have the same size."""
    shapes = {tensor.name: tensor.shape for tensor in binding.tensors}
    by_size: dict[int, list[tuple[str, int]]] = {}
    for param in interface.params:
        for axis, extent in enumerate(param.shape or ()):
            if extent == -1:
                by_size.setdefault(shapes[param.name][axis], []).append((param.name, axis))
    return tuple(Symbol(size, tuple(places)) for size, places in by_size.items())


def seeds_of(text: str) -> list[int]:
    """The seeds of `1-200` or `1,5,9-12`. Raises a usage error."""
    seeds: list[int] = []
    for part in text.split(","):
        match = _SEEDS.match(part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ArtifactError(
                f"SEEDS={text}", "is not a range of seeds", "give a range such as 1-200, or several with commas"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= _MOST_SEEDS:
            raise ArtifactError(f"SEEDS={text}", f"contains more than {_MOST_SEEDS:,} seeds", "give fewer seeds")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def kinds_of(text: str) -> list[str]:
    """The kinds that VALUES= names, by group or by themselves; half of them random. Raises a usage error."""
    names = [name.strip() for name in text.split(",") if name.strip()] or list(USUAL)
    every = [kind for kinds in GROUPS.values() for kind in kinds]
    chosen: list[str] = []
    for name in names:
        if name not in GROUPS and name not in every:
            raise ArtifactError(
                f"VALUES={text}",
                f"'{name}' is not a kind of values",
                f"use one of {', '.join(GROUPS)}; or {', '.join(every)}",
            )
        chosen += GROUPS.get(name, (name,))
    chosen = list(dict.fromkeys(chosen))
    others = [kind for kind in chosen if kind not in GROUPS["random"]]
    chance = [kind for kind in chosen if kind in GROUPS["random"]]
    if not others or not chance:
        return chosen
    return [one for at, other in enumerate(others) for one in (chance[at % len(chance)], other)]


def sizes_of(text: str, symbols_of_run: Sequence[Symbol]) -> list[tuple[int, ...]]:
    """The sizes that SHAPES= names: `1,7,64` where one size is dynamic, `1x16,7x32` for two. Raises a usage error."""
    if not text:
        return [tuple(symbol.size for symbol in symbols_of_run)]
    if not symbols_of_run:
        raise ArtifactError(f"SHAPES={text}", "the artifact has no dynamic dimension", "leave out SHAPES=")
    if text == "auto":
        return _sizes_around(symbols_of_run)
    sizes = []
    for part in text.split(","):
        words = part.strip().split("x")
        if len(words) != len(symbols_of_run) or not all(word.isdecimal() and 0 < len(word) < 10 for word in words):
            named = "x".join(symbol.name for symbol in symbols_of_run)
            raise ArtifactError(
                f"SHAPES={text}", f"'{part}' is not a size for {named}", "give sizes as 1,7,64, or 1x16,7x32, or auto"
            )
        sizes.append(tuple(map(int, words)))
    return list(dict.fromkeys(sizes))


def _sizes_around(symbols_of_run: Sequence[Symbol]) -> list[tuple[int, ...]]:
    """Return sizes to try: 1, 2, 7, half of the data's size, and one less and one more. Each dynamic size varies alone,
    then all are 1.
    """
    own = tuple(symbol.size for symbol in symbols_of_run)
    sizes = [own]
    for at, symbol in enumerate(symbols_of_run):
        tried = sorted({1, 2, 7, max(1, symbol.size // 2), max(1, symbol.size - 1), symbol.size + 1})
        sizes += [(*own[:at], size, *own[at + 1 :]) for size in tried]
    return list(dict.fromkeys([*sizes, tuple(1 for _ in symbols_of_run)]))


def cases(seeds: Sequence[int], kinds: Sequence[str], sizes: Sequence[tuple[int, ...]]) -> Iterator[SweepCase]:
    """Every seed with the kind and the sizes that are its turn; kinds go round faster than sizes."""
    for at, seed in enumerate(seeds):
        yield SweepCase(seed, kinds[at % len(kinds)], sizes[at // max(1, min(len(kinds), 4)) % len(sizes)])


def chosen_of(text: str, every: Sequence[SweepCase]) -> list[SweepCase]:
    """The cases that CASES= names, counted from 1. Raises a usage error."""
    if not text:
        return list(every)
    match = _SEEDS.match(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last <= len(every):
        raise ArtifactError(
            f"CASES={text}", f"is not a range within 1-{len(every)}", "give a range such as 51-100, or a number"
        )
    return list(every[first - 1 : last])


def bound(binding: Binding, case: SweepCase, symbols_of_run: Sequence[Symbol]) -> Binding:
    """Return the arguments of a case, with its kind of floating-point values and its sizes.

    Raises a usage error if the size of an integer tensor changes, because its values at another size are unknown.
    """
    sizes = {axis: size for symbol, size in zip(symbols_of_run, case.sizes, strict=True) for axis in symbol.places}
    return replace(binding, tensors=tuple(_bound(tensor, case, sizes) for tensor in binding.tensors))


def _bound(tensor: TensorArg, case: SweepCase, sizes: dict[tuple[str, int], int]) -> TensorArg:
    shape = tuple(sizes.get((tensor.name, axis), extent) for axis, extent in enumerate(tensor.shape))
    if tensor.direction == "OUT":
        return replace(tensor, shape=shape, golden=None)
    if tensor.dtype in _FLOATS:
        values = make(case.kind, case.seed, tensor.name, tensor.dtype, shape)
        return replace(tensor, shape=shape, initial=values, golden=None)
    if shape != tensor.shape:
        what = f"'{tensor.name}' has an integer type and a dynamic size"
        raise ArtifactError("SHAPES=", f"{what}, so its values for another size are unknown", "leave out SHAPES=")
    return replace(tensor, golden=None)


# Errors of outputs against the reference: one case, the distribution over all, and the tolerance that follows.

#: Relative tolerances for each of which the absolute one is looked for that is needed besides.
RTOLS = (0.0, 1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1)
#: What a tolerance leaves beyond the largest error seen.
_MARGIN = 2.0


class OutputError(msgspec.Struct, frozen=True):
    """One output in one case.

    ``needed`` has the absolute tolerance needed with each of `RTOLS`. ``scale`` is the median size of the expected
    elements that are not zero. ``not_finite`` is set if elements differ and one of the two is not finite.
    """

    name: str
    dtype: str
    numel: int
    mismatched: int
    max_abs: float
    max_rel: float
    scale: float
    needed: tuple[float, ...]
    not_finite: bool = False


class Distribution(msgspec.Struct, frozen=True):
    """One output over all cases: 50th, 90th, 99th and 100th percentile of the largest errors, and what follows."""

    name: str
    dtype: str
    cases: int
    failed: int
    max_abs: tuple[float, float, float, float]
    max_rel: tuple[float, float, float, float]
    rtol: float | None
    atol: float | None
    reason: str


@np.errstate(all="ignore")
def compare(name: str, dtype: str, actual: bytes, expected: bytes, rtol: float, atol: float) -> OutputError:
    """One output against the reference."""
    a, e = (np.frombuffer(side, STORAGE[dtype]) for side in (actual, expected))
    differs = difference(a, e, dtype, rtol, atol)
    left, right = (decode(side, dtype).astype(np.float64) for side in (a, e))
    both_nan = np.isnan(left) & np.isnan(right)
    mask: Any = differs.mask & ~both_nan if is_float(dtype) else differs.mask
    finite = np.isfinite(left) & np.isfinite(right)
    off, size = np.abs(left - right)[finite], np.abs(right)[finite]
    needed = tuple(float(np.maximum(off - one * size, 0).max()) if off.size else 0.0 for one in RTOLS)
    size = size[size > 0]
    scale = float(np.median(size)) if size.size else 0.0
    return OutputError(
        name,
        dtype,
        len(a),
        int(mask.sum()),
        differs.max_abs,
        differs.max_rel,
        scale,
        needed,
        bool((mask & ~finite).any()),
    )


def distribution(errors: Sequence[OutputError], failed: int) -> Distribution:
    """Return the distribution of the errors of one output over all cases, with a proposed tolerance."""
    first = errors[0]
    rtol, atol, reason = proposal(errors)
    return Distribution(
        first.name,
        first.dtype,
        len(errors),
        failed,
        _percentiles([one.max_abs for one in errors]),
        _percentiles([one.max_rel for one in errors]),
        rtol,
        atol,
        reason,
    )


def _percentiles(values: Sequence[float]) -> tuple[float, float, float, float]:
    values_at = np.percentile(np.asarray(values), [50, 90, 99, 100], method="higher")
    return float(values_at[0]), float(values_at[1]), float(values_at[2]), float(values_at[3])


def proposal(errors: Sequence[OutputError]) -> tuple[float | None, float | None, str]:
    """Return a relative and an absolute tolerance for one output, and the reason. They are None if no tolerance makes
    sense.
    """
    row = TORCH[errors[0].dtype]
    counted = [one for one in errors if not one.not_finite]
    worst = max((one.max_abs for one in errors), default=0.0)
    if not row.is_float:
        off = sum(one.mismatched > 0 for one in errors)
        return 0.0, 0.0, f"whole numbers, {f'which differ in {off} cases' if off else 'equal in every case'}"
    if worst == 0.0 and len(counted) == len(errors):
        return 0.0, 0.0, "the same bits as the reference in every case"
    if not counted:
        return None, None, "outputs that are no finite numbers differ in every case"
    for at, rtol in enumerate(RTOLS[1:], 1):
        if rtol < row.epsilon:
            continue  # less than a rounding
        atol = max(one.needed[at] for one in counted)
        scale = float(np.median([one.scale for one in counted if one.scale] or [0.0]))
        if atol <= rtol * max(scale, 1e-30):
            units = max((one.max_abs / (2 * row.epsilon * one.scale) for one in counted if one.scale), default=0.0)
            chosen, beside = _rounded(_MARGIN * rtol), _rounded(max(_MARGIN * atol, row.epsilon * scale))
            of_size = (
                f", {units:.3g} units in the last place of {row.torch} at the median size {scale:.3g}" if units else ""
            )
            cases = console.counted(len(counted), "case")
            reason = f"the largest error in {cases} is {worst:.3g}{of_size}; twice what that needs"
            return chosen, beside, reason
    return None, None, f"an error of {worst:.3g} is more than a tenth of what is expected: no tolerance, a bug"


def _rounded(value: float) -> float:
    """Up to the next 1, 2 or 5."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    step = next(step for step in (1, 2, 5, 10) if value <= step * power * (1 + 1e-9))
    return float(f"{step * power:.3g}")


GOLDEN, MODULES = "golden.py", "the .pto modules"


class Result(msgspec.Struct, frozen=True):
    """Result of a case: pass, mismatch, fault (of the kernels) or unknown (the reference has no answer)."""

    seed: int
    kind: str
    sizes: tuple[int, ...]
    status: str
    elements: int = 0
    outputs: tuple[OutputError, ...] = ()
    message: str = ""

    @property
    def case(self) -> SweepCase:
        """The case."""
        return SweepCase(self.seed, self.kind, self.sizes)

    @property
    def failed(self) -> bool:
        """Return whether the case failed because of the kernels: a mismatch or a fault."""
        return self.status in ("mismatch", "fault")


class Document(msgspec.Struct):
    """A sweep as a file: what JSON= gets, and what comes back from a farm."""

    artifact: str
    oracle: str
    rtol: float
    atol: float
    sizes: list[str]
    outputs: list[Distribution]
    smallest: Result | None
    cases: list[Result]
    schema: int = 1


@dataclass(frozen=True)
class Sweep:
    """Settings that all cases share; ``oracle`` names the source of the expected outputs."""

    launch: Launch
    symbols: tuple[Symbol, ...]
    oracle: str
    rtol: float
    atol: float
    timeout_s: float

    def run(self, case: SweepCase) -> Result:
        """Run one case in a separate process."""
        progress = Progress()
        try:
            return in_child(lambda: self._inside(case, progress), progress, self.timeout_s)
        except RunFault as fault:
            return Result(case.seed, case.kind, case.sizes, "fault", message=fault.error.message)

    def data(self, case: SweepCase) -> tuple[Binding, dict[str, bytes]]:
        """Return the arguments of a case and its expected outputs. There are no outputs if the reference cannot compute
        them.
        """
        binding = bound(self.launch.binding, case, self.symbols)
        progress = Progress()
        try:
            return binding, in_child(lambda: self._expected(binding, progress), progress, self.timeout_s)
        except RunFault:
            return binding, {}

    def _inside(self, case: SweepCase, progress: Progress) -> Result:
        binding = bound(self.launch.binding, case, self.symbols)
        elements = sum(tensor.numel for tensor in binding.tensors)
        case_fields = (case.seed, case.kind, case.sizes)
        try:
            actual = self._run(binding, progress, lambda call: call.run())
        except Exception as fault:  # of the runtime, whatever its kind
            return Result(*case_fields, "fault", elements, message=str(fault))
        try:
            expected = self._expected(binding, progress)
        except Exception as error:  # of golden.py, which is anybody's code, or of the reference
            return Result(
                *case_fields, "unknown", elements, message=f"{self.oracle}: {type(error).__name__}: {error}"[:500]
            )
        outputs = tuple(
            compare(tensor.name, tensor.dtype, actual[tensor.name], expected[tensor.name], self.rtol, self.atol)
            for tensor in binding.tensors
            if tensor.name in expected
        )
        status = "mismatch" if any(one.mismatched for one in outputs) else "pass"
        return Result(*case_fields, status, elements, outputs)

    def _run(self, binding: Binding, progress: Progress, execute: Callable[[Any], object]) -> dict[str, bytes]:
        """The outputs of a run in which ``execute`` is called for every task."""
        arena = Arena([tensor.nbytes for tensor in binding.tensors])

        def task(call: Any) -> None:
            progress.set(call.number)
            execute(call)

        replace(self.launch, binding=binding, arena=arena).run(task)
        return {
            tensor.name: bytes(arena.tensor(index))
            for index, tensor in enumerate(binding.tensors)
            if tensor.direction != "IN"
        }

    def _expected(self, binding: Binding, progress: Progress) -> dict[str, bytes]:
        if self.oracle == GOLDEN:
            return golden_outputs(self.launch.artifact, binding)
        from pypto_build.replay.reference.hook import ReferenceHook

        return self._run(binding, progress, ReferenceHook(self.launch.artifact, self.launch.numerics))


def golden_outputs(artifact: Path, binding: Binding) -> dict[str, bytes]:
    """Run ``compute_golden`` of the artifact's golden.py on these arguments and return the bytes of its outputs."""
    import runpy

    import torch

    namespace = runpy.run_path(str(artifact / GOLDEN))
    tensors: dict[str, Any] = {}
    for one in binding.tensors:
        dtype = getattr(torch, one.dtype)
        raw = bytearray(one.initial if one.initial is not None else bytes(one.nbytes))
        tensors[one.name] = torch.frombuffer(raw, dtype=dtype).reshape(one.shape) if raw else torch.zeros(one.shape)
    tensors |= {one.name: torch.tensor(one.value, dtype=getattr(torch, one.dtype)) for one in binding.scalars}
    namespace["compute_golden"](tensors, {"name": "Default"})
    written = {one.name for one in binding.tensors if one.direction != "IN"}
    names = [name for name in namespace.get("__outputs__", sorted(written)) if name in written]
    return {name: tensors[name].detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for name in names}


def run_all(sweep: Sweep, cases: Sequence[SweepCase], jobs: int) -> Iterator[Result]:
    """The results as they come. Each of ``jobs`` processes takes its share of the cases in turn."""
    importlib.import_module("torch")  # once, so that every fork has it
    context = multiprocessing.get_context("fork")
    workers = []
    for share in range(max(1, min(jobs, len(cases)))):
        receive, send = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(sweep, cases[share :: max(1, jobs)], send))
        worker.start()
        send.close()
        workers.append((receive, worker))
    try:
        open_pipes: list[Any] = [receive for receive, _ in workers]
        while open_pipes:
            for pipe in wait(open_pipes):
                received = _received(pipe)
                if received is None:
                    open_pipes.remove(pipe)
                else:
                    yield received
    finally:
        for _, worker in workers:
            worker.terminate()
            worker.join()


def _received(pipe: Any) -> Result | None:
    """Return the next result of a worker, or None at its end. Raises the error that stopped the worker."""
    try:
        data = pipe.recv_bytes()
    except EOFError:
        return None
    word, content = data[:1], data[1:]
    if word == b"E":
        raise ArtifactError(*msgspec.msgpack.decode(content, type=tuple[str, str, str]))
    return msgspec.msgpack.decode(content, type=Result)


def _work(sweep: Sweep, cases: Sequence[SweepCase], send: Connection) -> None:
    try:
        for case in cases:
            send.send_bytes(b"R" + msgspec.msgpack.encode(sweep.run(case)))
    except ArtifactError as error:
        send.send_bytes(b"E" + msgspec.msgpack.encode((str(error.path), error.message, error.hint)))
    except (BrokenPipeError, KeyboardInterrupt):
        pass
