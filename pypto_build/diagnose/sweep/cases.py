"""The cases of a sweep: a seed, a kind of values, and the sizes of dynamic dimensions."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.interface import Interface
from pypto_build.facts.dtypes import DTYPES, TORCH
from pypto_build.replay.binding import Binding, TensorArg
from pypto_build.replay.values import encode

# Inputs by kind: random ones, values at the edges of their type, values with a structure.
# Tensors of whole numbers are tables and lengths as a rule, so they stay what the artifact's data has.

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
    """The bytes of a floating-point tensor of ``shape``: they depend on nothing but the arguments."""
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
    """Between zero and the smallest normal number, of either sign; of types that have none, zeros."""
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
    """A dynamic size: the dimensions (parameter, axis) that have it, and what it is in the artifact's own data."""

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
    """The dynamic sizes. Those that are equal in the artifact's data are taken for one: nothing else tells."""
    shapes = {tensor.name: tensor.shape for tensor in binding.tensors}
    found: dict[int, list[tuple[str, int]]] = {}
    for param in interface.params:
        for axis, extent in enumerate(param.shape or ()):
            if extent == -1:
                found.setdefault(shapes[param.name][axis], []).append((param.name, axis))
    return tuple(Symbol(size, tuple(places)) for size, places in found.items())


def seeds_of(text: str) -> list[int]:
    """The seeds of `1-200` or `1,5,9-12`. Raises a usage error."""
    found: list[int] = []
    for part in text.split(","):
        match = _SEEDS.match(part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ArtifactError(f"SEEDS={text}", "is no range of seeds", "give 1-200, or several with commas")
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= _MOST_SEEDS:
            raise ArtifactError(f"SEEDS={text}", f"are more than {_MOST_SEEDS:,}", "give fewer")
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def kinds_of(text: str) -> list[str]:
    """The kinds that VALUES= names, by group or by themselves; half of them random. Raises a usage error."""
    names = [name.strip() for name in text.split(",") if name.strip()] or list(USUAL)
    every = [kind for kinds in GROUPS.values() for kind in kinds]
    found: list[str] = []
    for name in names:
        if name not in GROUPS and name not in every:
            raise ArtifactError(
                f"VALUES={text}", f"'{name}' is no kind of values", f"one of {', '.join(GROUPS)}; or {', '.join(every)}"
            )
        found += GROUPS.get(name, (name,))
    found = list(dict.fromkeys(found))
    others = [kind for kind in found if kind not in GROUPS["random"]]
    chance = [kind for kind in found if kind in GROUPS["random"]]
    if not others or not chance:
        return found
    return [one for at, other in enumerate(others) for one in (chance[at % len(chance)], other)]


def sizes_of(text: str, known: Sequence[Symbol]) -> list[tuple[int, ...]]:
    """The sizes that SHAPES= names: `1,7,64` where one size is dynamic, `1x16,7x32` for two. Raises a usage error."""
    if not text:
        return [tuple(symbol.size for symbol in known)]
    if not known:
        raise ArtifactError(f"SHAPES={text}", "no dimension of the artifact is dynamic", "leave it out")
    if text == "auto":
        return _sizes_around(known)
    found = []
    for part in text.split(","):
        words = part.strip().split("x")
        if len(words) != len(known) or not all(word.isdecimal() and 0 < len(word) < 10 for word in words):
            named = "x".join(symbol.name for symbol in known)
            raise ArtifactError(f"SHAPES={text}", f"'{part}' is no size for {named}", "give 1,7,64, or 1x16,7x32; auto")
        found.append(tuple(map(int, words)))
    return list(dict.fromkeys(found))


def _sizes_around(known: Sequence[Symbol]) -> list[tuple[int, ...]]:
    """One, two, odd ones, one less and one more than the data has: each dynamic size by itself, then all."""
    own = tuple(symbol.size for symbol in known)
    found = [own]
    for at, symbol in enumerate(known):
        tried = sorted({1, 2, 7, max(1, symbol.size // 2), max(1, symbol.size - 1), symbol.size + 1})
        found += [(*own[:at], size, *own[at + 1 :]) for size in tried]
    return list(dict.fromkeys([*found, tuple(1 for _ in known)]))


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
        raise ArtifactError(f"CASES={text}", f"is no range of 1-{len(every)}", "give 51-100, or 17")
    return list(every[first - 1 : last])


def bound(binding: Binding, case: SweepCase, known: Sequence[Symbol]) -> Binding:
    """The arguments of a case: floating-point inputs of its kind, sizes of its own.

    Raises a usage error for a tensor of whole numbers whose size changes: nobody knows what should be in it.
    """
    sizes = {place: size for symbol, size in zip(known, case.sizes, strict=True) for place in symbol.places}
    return replace(binding, tensors=tuple(_bound(tensor, case, sizes) for tensor in binding.tensors))


def _bound(tensor: TensorArg, case: SweepCase, sizes: dict[tuple[str, int], int]) -> TensorArg:
    shape = tuple(sizes.get((tensor.name, axis), extent) for axis, extent in enumerate(tensor.shape))
    if tensor.direction == "OUT":
        return replace(tensor, shape=shape, golden=None)
    if tensor.dtype in _FLOATS:
        values = make(case.kind, case.seed, tensor.name, tensor.dtype, shape)
        return replace(tensor, shape=shape, initial=values, golden=None)
    if shape != tensor.shape:
        what = f"'{tensor.name}' holds whole numbers and has a dynamic size"
        raise ArtifactError("SHAPES=", f"{what}: what should be in it is not known", "sweep without SHAPES=")
    return replace(tensor, golden=None)
