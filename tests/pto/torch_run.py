"""Runs .pto text as PyTorch: a kernel around some operations, its tensors, and values of every element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pypto_build.pto import parse
from pypto_build.pto.torch import generate
from tests.pto.samples import module

DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8, "i16": torch.int16,
    "i32": torch.int32, "i64": torch.int64, "ui8": torch.uint8, "ui16": torch.uint16, "ui32": torch.uint32,
}  # fmt: skip
FLOATS, INTEGERS = ("f32", "f16", "bf16"), ("i8", "i16", "i32", "ui8", "ui16", "ui32")
HEAD = "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"


ULP = {"f32": 2.0**-22, "f16": 2.0**-10, "bf16": 2.0**-7}


def wrap(value: int, dtype: str) -> int:
    limits = torch.iinfo(DTYPES[dtype])
    return (value - limits.min) % (limits.max - limits.min + 1) + limits.min


def as_floats(tensor: torch.Tensor) -> np.ndarray:
    return tensor.double().numpy()


def assert_floats(actual: torch.Tensor, expected: np.ndarray, dtype: str, slack: float = 1.0) -> None:
    np.testing.assert_allclose(as_floats(actual), expected, rtol=slack * ULP[dtype], atol=slack * 1e-7)


def assert_integers(actual: torch.Tensor, expected: list[list[int]], dtype: str) -> None:
    assert actual.to(torch.int64).tolist() == [[wrap(v, dtype) for v in row] for row in expected]


def namespace(text: str, *, in_memory: bool = False) -> dict[str, Any]:
    """What the PyTorch of a module defines."""
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
        result = torch.zeros(shape, dtype=DTYPES[dtype])
        pointer = self.pointer(result, dtype)
        self.body += view(f"{name[1:]}_o", pointer, *shape, dtype)
        part = f"!pto.partition_tensor_view<{shape[0]}x{shape[1]}x{dtype}>"
        self.body += f"  pto.tstore ins({name} : {type_}) outs({name}_o : {part})\n"
        return result

    def run(self) -> None:
        """Fill the results. Tiles in memories have to give the same bits as tiles that are tensors where they can."""
        text = module(self.body, ", ".join(self.arguments), self.kind, self.arch)
        copies = [tensor.clone() for tensor in self.tensors]
        namespace(text, in_memory=True)["k"](*copies)
        namespace(text)["k"](*self.tensors)
        for tensor, copy in zip(self.tensors, copies, strict=True):
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
