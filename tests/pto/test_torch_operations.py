"""Every vector operation as PyTorch, on every element type that the table of operations admits, against an
independent computation (torch_operations.py)."""

from __future__ import annotations

from functools import cache

from tests.pto.torch_case import Use, safe
from tests.pto.torch_operations import CASES, uses_of
from tests.pto.torch_run import Kernels
from tests.rows import every

TYPES = sorted({dtype for case in CASES.values() for dtype in case.types()})


@cache
def module(dtype: str) -> tuple[Kernels, dict[str, Use]]:
    """All cases with one element type, in one module."""
    uses = uses_of(dtype)
    return Kernels({name: made.kernel for name, made in uses.items()}), uses


@every(("dtype", "name"), [(d, c.name) for d in TYPES for c in CASES.values() if d in c.types()])
def test_operation(dtype: str, name: str) -> None:
    kernels, uses = module(dtype)
    kernels.run(safe(name))
    uses[safe(name)].check()
