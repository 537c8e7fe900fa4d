"""A use of one operation as data: its operands, and what it computes as a function of exact numbers. The table is in
torch_operations.py.

An operand is a word: a name, and behind a colon its element type where that is not the one under test. The first
letter says what it is:
    x y w z   a tile of 32 x 64, of which 11 x 40 are valid        t   the same, as scratch
    r         one row          c   one column         b   32 bytes a row, as broadcasts take them
    m         a mask, a bit for each element          n   a number
    k8        the constant 8, an index
Of the results, those with an exclamation mark have values before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pypto_build.pto.checks.elements import element_types
from tests.pto.samples import tile
from tests.pto.torch_run import DTYPES, FLOATS, Exact, Kernel, assert_equal, exact, limits

ROWS, COLS = 32, 64
VALID = (11, 40)
Shape = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """`compute` takes what the operands hold, in their order, then what the results held before, and gives what each
    result holds afterwards. The result may be `ulps` units in the last place away from that, or of 16 bits `halves`.

    `domains`: what values an operand has. `places`: rows and columns of an operand, and how many are valid.
    `within` follows the operands, `behind` the whole operation. `dtypes` are all of the table unless given.
    """

    name: str
    op: str
    ins: str
    outs: str
    compute: Callable[..., Any]
    ulps: float = 0
    domains: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, tuple[Shape, Shape]] = field(default_factory=dict)
    within: str = ""
    behind: str = ""
    dtypes: tuple[str, ...] = ()
    number: str = ""
    arch: str = "a5"
    halves: float | None = None

    def types(self) -> tuple[str, ...]:
        return self.dtypes or tuple(sorted(element_types(self.op)))


def sized(dtype: str) -> int:
    return DTYPES[dtype].itemsize


def random(domain: str, dtype: str, shape: Shape, seed: int) -> torch.Tensor:
    """Values of an element type.

    - any: floats with zeros, infinities and large ones; integers of all sizes with their limits
    - positive: above zero; negative: below, of floats; nonzero; unit: around one
    - ties: few different ones; exponent: -2 to 4; shift: 0 to two more than the width
    - position: of an element of a tile; count: 0 to 45 times the size
    - half: of integers; bit: 0 or 1; bytes: the lowest any, of the others the lowest bits
    """
    torch_dtype, generator = DTYPES[dtype], torch.Generator().manual_seed(seed)

    def whole(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high + 1, shape, generator=generator)

    if domain == "position":
        return torch.randperm(ROWS * COLS, generator=generator)[: shape[0] * shape[1]].reshape(shape).to(torch_dtype)
    if domain == "half":
        return (whole(-9, 8) + 0.5).to(torch_dtype)
    if domain in ("bit", "bytes"):
        numbers = whole(0, 255) if domain == "bytes" else whole(0, 1)
        for position in range(1, sized(dtype) if domain == "bytes" else 1):
            numbers += whole(0, 1) << (8 * position)
        return numbers.to(torch_dtype)
    if domain == "count":
        return (whole(0, min(45, 127 // sized(dtype))) * sized(dtype)).to(torch_dtype)
    if domain == "ties":
        return whole(0 if dtype.startswith("u") else -2, 2).float().to(torch_dtype)
    if torch_dtype.is_floating_point:
        return _floats(domain, dtype, shape, generator).to(torch_dtype)
    if domain == "shift":
        return whole(0, 8 * sized(dtype) + 2).to(torch_dtype)
    if domain == "exponent":
        return whole(0 if dtype.startswith("u") else -2, 4).to(torch_dtype)
    made = torch.randint(0, 256, (shape[0], shape[1] * sized(dtype)), generator=generator, dtype=torch.uint8)
    made = made.view(torch_dtype)
    made[:, ::2] = whole(0 if dtype.startswith("u") else -9, 9)[:, ::2].to(torch_dtype)
    if made.numel() > 2:
        made.view(-1)[:2] = torch.tensor(limits(dtype), dtype=torch_dtype)
    if domain == "any":
        return made
    if domain in ("positive", "negative"):
        return made.view(torch.uint8).bitwise_and(127).view(torch_dtype)
    assert domain in ("nonzero", "unit")
    flat = [x or 1 for x in made.reshape(-1).tolist()]
    return torch.tensor(flat, dtype=torch_dtype).reshape(shape)


def _floats(domain: str, dtype: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    made = torch.randn(shape, generator=generator) * 3
    if dtype not in FLOATS:
        return made.abs() + 0.25 if dtype == "f8E8M0" else made
    if domain == "exponent":
        return torch.randint(-4, 9, shape, generator=generator) / 2
    if domain == "unit":
        return made.sign() * (0.75 + torch.rand(shape, generator=generator) / 2)
    if domain in ("positive", "negative"):
        return (made.abs() + 0.25) * (1 if domain == "positive" else -1)
    if domain == "nonzero":
        return made + made.sign() / 4
    made.reshape(-1)[:5] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 3e4])[: made.numel()]
    return made


@dataclass(frozen=True)
class _Operand:
    name: str
    dtype: str
    shape: Shape
    valid: Shape
    type: str

    @property
    def is_tile(self) -> bool:
        return self.name[0] not in "nk"

    @property
    def variable(self) -> str:
        return f"%{self.name}"


def _operand(case: Case, word: str, dtype: str) -> _Operand:
    name, _, own = word.rstrip("!").partition(":")
    dtype = own or dtype
    if name[0] in "nk":
        return _Operand(name, dtype, (1, 1), (1, 1), dtype if name[0] == "n" or own else "index")
    if name[0] == "m":
        dtype = own or "ui8"
    rows, cols = VALID
    usual: dict[str, tuple[Shape, Shape]] = {
        "r": ((1, COLS), (1, cols)), "c": ((ROWS, 1), (rows, 1)), "m": ((ROWS, 32), (ROWS, 32)),
        "b": ((ROWS, 32 // sized(dtype)), (rows, 32 // sized(dtype))),
    }  # fmt: skip
    shape, valid = case.places.get(name, usual.get(name[0], ((ROWS, COLS), VALID)))
    column = shape[1] == 1
    made = tile(rows=shape[0], cols=shape[1], dtype=dtype, blayout="col_major" if column else "row_major")
    return _Operand(name, dtype, shape, valid, made)


@dataclass
class Use:
    """A case with one element type as a kernel, its inputs and where its results will be."""

    case: Case
    kernel: Kernel
    inputs: list[Any]
    results: list[tuple[torch.Tensor, str]]

    def check(self) -> None:
        """Compare the results, once the kernel has run, with what the case computes."""
        with np.errstate(all="ignore"):
            expected = self.case.compute(*self.inputs)
        results = expected if isinstance(expected, tuple) else (expected,)
        for (actual, dtype), numbers in zip(self.results, results, strict=True):
            if dtype == "mask":
                bits = np.unpackbits(actual.numpy(), axis=1, bitorder="little")
                assert np.array_equal(bits[: numbers.shape[0], : numbers.shape[1]], numbers)
            else:
                halves = self.case.ulps if self.case.halves is None else self.case.halves
                ulps = {"f32": self.case.ulps, "f16": halves, "bf16": halves}.get(dtype, 0)
                assert_equal(actual, np.broadcast_to(numbers, actual.shape), dtype, ulps)


def use(case: Case, dtype: str) -> Use:
    kernel = Kernel(arch=case.arch)
    ins = [_operand(case, word, dtype) for word in case.ins.split()]
    outs = [_operand(case, word, dtype) for word in case.outs.split()]
    before = [word.endswith("!") for word in case.outs.split()]
    inputs: list[Any] = []
    held: list[Any] = []
    for seed, (o, loaded) in enumerate(zip((*ins, *outs), [True] * len(ins) + before, strict=True), 1):
        if o.name[0] == "k":
            if o in ins[: seed - 1]:
                continue
            kernel.add(f"{o.variable} = arith.constant {o.name[1:].replace('_', '-')} : {o.type}")
        elif o.name == "n":
            number = case.number or ("-1.25" if o.dtype in FLOATS else "7")
            kernel.add(f"%n = arith.constant {number} : {o.dtype}")
            inputs.append(float(number) if o.dtype in FLOATS else int(number))
        elif not loaded or o.name[0] == "t":
            kernel.tile(o.variable, o.type, o.valid)
        else:
            value = random(case.domains.get(o.name, "any"), o.dtype, o.valid, seed)
            kernel.load(o.variable, value, o.dtype, o.type, o.valid)
            (held if o in outs else inputs).append(exact(value))
    types = ", ".join(o.type for o in ins)
    expected = ", ".join(o.type for o in outs)
    operands = ", ".join(o.variable for o in ins) + case.within
    results = f"outs({', '.join(o.variable for o in outs)} : {expected})"
    kernel.add(f"{case.op} ins({operands} : {types}) {results}{case.behind}")
    written = [
        (kernel.store(o.variable, o.type, o.valid, o.dtype), "mask" if o.name[0] == "m" else o.dtype)
        for o in outs
        if o.name[0] != "t"
    ]
    return Use(case, kernel, [*inputs, *held], written)


def safe(name: str) -> str:
    """As the name of a function."""
    return re.sub(r"\W", "_", name)


def both(floats: Callable[..., Any], integers: Callable[..., Any]) -> Callable[..., Any]:
    """A function of floats and another one of integers."""
    lifted = np.frompyfunc(integers, integers.__code__.co_argcount, 1)

    def compute(*operands: Any) -> Any:
        is_float = any(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in operands)
        return floats(*operands) if is_float else lifted(*operands)

    return compute


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    return both(function, function)


def bits_of(mask: Exact) -> Exact:
    """The truth values of a mask's bytes."""
    return np.unpackbits(mask.astype(np.uint8), axis=1, bitorder="little").astype(bool)[: VALID[0], : VALID[1]]
