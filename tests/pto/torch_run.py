"""Runs .pto text as PyTorch: a kernel around some operations, its tensors, and values of every element type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pypto_build.pto import parse
from pypto_build.pto.torch import generate
from tests.pto.samples import function

DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8, "i16": torch.int16,
    "i32": torch.int32, "i64": torch.int64, "ui8": torch.uint8, "ui16": torch.uint16, "ui32": torch.uint32,
    "ui64": torch.uint64, "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2, "f8E8M0": torch.float8_e8m0fnu,
}  # fmt: skip
FLOATS, INTEGERS = ("f32", "f16", "bf16"), ("i8", "i16", "i32", "ui8", "ui16", "ui32")
HEAD = "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"


ULP = {"f32": 2.0**-22, "f16": 2.0**-10, "bf16": 2.0**-7}


def wrap(value: int, dtype: str) -> int:
    limits = torch.iinfo(DTYPES[dtype])
    return (value - limits.min) % (limits.max - limits.min + 1) + limits.min


def as_floats(tensor: torch.Tensor) -> np.ndarray:
    return tensor.double().numpy()


Exact = npt.NDArray[Any]  # float64, or Python's integers


def exact(tensor: torch.Tensor) -> Exact:
    """The numbers of a tensor as numbers that do not round or wrap: float64, or Python's integers."""
    if tensor.dtype.is_floating_point:
        return tensor.double().numpy()
    return np.array(tensor.tolist(), dtype=object).reshape(tensor.shape)


def limits(dtype: str) -> tuple[int, int]:
    """The min and max integer of an element type."""
    bits = int(dtype.lstrip("ui"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_LAST = {"f32": (-23, -126), "f16": (-10, -14), "bf16": (-7, -126)}  # of the fraction, and of the exponent


def assert_equal(actual: torch.Tensor, expected: Exact, dtype: str, ulps: float = 0, name: str = "") -> None:
    """Integers have to be equal once `expected` has wrapped, floats once it has been rounded; or they may be so many
    units in the last place away from `expected`."""
    result = exact(actual)
    if result.dtype == object:
        low, high = limits(dtype)
        wrapped = [(int(x) - low) % (high - low + 1) + low for x in expected.reshape(-1)]
        assert result.reshape(-1).tolist() == wrapped, name
        return
    if not ulps:
        rounded = torch.from_numpy(np.array(expected, np.float64)).float().to(DTYPES[dtype]).double().numpy()
        np.testing.assert_array_equal(result, rounded, name)
        return
    fraction, least = _LAST[dtype]
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.floor(np.log2(np.abs(expected))), least)
        far = np.abs(result - expected) > ulps * np.exp2(np.where(np.isfinite(exponent), exponent, least) + fraction)
    far |= np.isnan(result) != np.isnan(expected)
    far &= result != expected  # infinities
    assert not far.any(), [(tuple(at), result[tuple(at)], expected[tuple(at)]) for at in np.argwhere(far)[:4]]


def assert_floats(actual: torch.Tensor, expected: np.ndarray, dtype: str, slack: float = 1.0) -> None:
    np.testing.assert_allclose(as_floats(actual), expected, rtol=slack * ULP[dtype], atol=slack * 1e-7)


def assert_integers(actual: torch.Tensor, expected: list[list[int]], dtype: str) -> None:
    assert actual.to(torch.int64).tolist() == [[wrap(v, dtype) for v in row] for row in expected]


def namespace(text: str, *, in_memory: bool = False) -> dict[str, Any]:
    """Return the definitions of a module's PyTorch."""
    made: dict[str, Any] = {}
    exec(generate(parse(text, "t.pto"), in_memory=in_memory).text, made)
    return made


def view(name: str, pointer: str, rows: int, cols: int, dtype: str) -> str:
    """A window of a whole matrix in global memory; needs HEAD."""
    return (
        f"  %{name}_r = arith.constant {rows} : index\n  %{name}_c = arith.constant {cols} : index\n"
        f"  %{name}_v = pto.make_tensor_view {pointer}, shape = [%{name}_r, %{name}_c], strides = [%{name}_c, %c1] "
        f": !pto.tensor_view<?x?x{dtype}>\n"
        f"  %{name} = pto.partition_view %{name}_v, offsets = [%c0, %c0], sizes = [%{name}_r, %{name}_c] "
        f": !pto.tensor_view<?x?x{dtype}> -> !pto.partition_tensor_view<{rows}x{cols}x{dtype}>\n"
    )


class Kernel:
    """A kernel under construction: tensors are loaded into tiles, results stored."""

    def __init__(self, kind: str = "vector", arch: str = "a2a3") -> None:
        self.kind, self.arch = kind, arch
        self.body = HEAD
        self.arguments: list[str] = []
        self.tensors: list[torch.Tensor] = []

    def pointer(self, tensor: torch.Tensor, dtype: str) -> str:
        name = f"%a{len(self.arguments)}"
        self.arguments.append(f"{name}: !pto.ptr<{dtype}>")
        self.tensors.append(tensor)
        return name

    def tile(self, name: str, type_: str, valid: tuple[int, int] | None = None) -> None:
        """A tile of its own memory."""
        more = ""
        if valid is not None:
            self.body += "".join(
                f"  {name}_{k} = arith.constant {n} : index\n" for k, n in zip("rc", valid, strict=True)
            )
            more = f" valid_row = {name}_r valid_col = {name}_c"
        self.body += f"  {name} = pto.alloc_tile{more} : {type_}\n"

    def load(
        self, name: str, tensor: torch.Tensor, dtype: str, type_: str, valid: tuple[int, int] | None = None
    ) -> None:
        pointer = self.pointer(tensor, dtype)
        rows, cols = tensor.shape
        self.body += view(f"{name[1:]}_g", pointer, rows, cols, dtype)
        self.tile(name, type_, valid)
        part = f"!pto.partition_tensor_view<{rows}x{cols}x{dtype}>"
        self.body += f"  pto.tload ins({name}_g : {part}) outs({name} : {type_})\n"

    def add(self, line: str) -> None:
        self.body += f"  {line}\n"

    def store(self, name: str, type_: str, shape: tuple[int, int], dtype: str) -> torch.Tensor:
        return self.store_to(name, type_, shape, dtype)

    def store_to(
        self, name: str, type_: str, shape: tuple[int, int], dtype: str, more: str = "", types: str = "", how: str = ""
    ) -> torch.Tensor:
        """A store with further operands and attributes."""
        result = torch.zeros(shape, dtype=torch.uint8).to(DTYPES[dtype])
        pointer = self.pointer(result, dtype)
        self.body += view(f"{name[1:]}_o", pointer, *shape, dtype)
        part = f"!pto.partition_tensor_view<{shape[0]}x{shape[1]}x{dtype}>"
        self.body += f"  pto.tstore ins({name}{more} : {type_}{types}) outs({name}_o : {part}){how}\n"
        return result

    def run(self) -> None:
        Kernels({"k": self}).run("k")


def module_of(kernels: Mapping[str, Kernel]) -> str:
    """The module of several kernels."""
    functions = (function(k.body, ", ".join(k.arguments), k.kind, name) for name, k in kernels.items())
    return f'module attributes {{pto.target_arch = "{next(iter(kernels.values())).arch}"}} {{\n{"".join(functions)}}}\n'


class Kernels:
    """Several kernels in one module, which is cheaper than a module for each."""

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self.kernels = kernels
        self.text = module_of(kernels)
        self.made = [namespace(self.text, in_memory=in_memory) for in_memory in (True, False)]

    def run(self, name: str) -> None:
        """Fill the results. Tiles in memories have to give the same bits as tiles that are tensors where they can."""
        tensors = self.kernels[name].tensors
        copies = [tensor.clone() for tensor in tensors]
        for made, arguments in zip(self.made, (copies, tensors), strict=True):
            made[name](*arguments)
        for tensor, copy in zip(tensors, copies, strict=True):
            assert torch.equal(tensor.view(torch.uint8), copy.view(torch.uint8))


def values(dtype: str, rows: int, cols: int, seed: int = 0, low: int = -100, high: int = 100) -> torch.Tensor:
    """Numbers of an element type; integers reach their limits, unsigned ones are not negative."""
    generator = torch.Generator().manual_seed(seed)
    if dtype in FLOATS:
        return (torch.randn(rows, cols, generator=generator) * 3).to(DTYPES[dtype])
    limits = torch.iinfo(DTYPES[dtype])
    made = torch.randint(max(low, limits.min), min(high, limits.max) + 1, (rows, cols), generator=generator)
    made[0, :2] = torch.tensor([limits.min, limits.max])
    return made.to(DTYPES[dtype])
