"""Consequences of the rows of operations on elements.

The checks admit just the element types of the row. The assembled C++ computes the same as the translated PyTorch.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pypto_build.pto import parse
from pypto_build.pto.checks import check_module
from pypto_build.pto.checks.elements import element_types
from pypto_build.pto.torch import generate
from pypto_build.pto.torch.module import UnsupportedOperations
from tests.pto.harness import COMPILER, Library
from tests.pto.rows import ON_ELEMENTS, cases
from tests.pto.torch_case import Use, use
from tests.pto.torch_run import DTYPES, FLOATS, INTEGERS, Kernels, module_of
from tests.rows import every

CASES = {case.name: case for case in cases()}
TYPES = (*FLOATS, *INTEGERS)


def problems(name: str, dtype: str, arch: str) -> list[str]:
    """Return the checks' messages on a use."""
    made = use(replace(CASES[name], arch=arch), dtype)
    return [error.message for error in check_module(parse(module_of({"k": made.kernel}), "k.pto"), arch)]


@every("arch", ["a2a3", "a5"])
@every("name", CASES)
def test_checks_admit_the_element_types_of_the_row(name: str, arch: str) -> None:
    allowed = ON_ELEMENTS[CASES[name].op].elements[arch]
    for dtype in TYPES:
        refused = [message for message in problems(name, dtype, arch) if f"{arch} takes" in message]
        assert len(refused) == (dtype.removeprefix("u") not in allowed), (dtype, refused)


@every("name", ON_ELEMENTS)
def test_some_form_has_nothing_wrong(name: str) -> None:
    """Every element type of the row has a use without a message of the checks."""
    mine = [case.name for case in CASES.values() if case.op == name]
    for arch, allowed in ON_ELEMENTS[name].elements.items():
        for dtype in allowed & set(TYPES):
            assert [] in [problems(case, dtype, arch) for case in mine], (arch, dtype)


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
@pytest.mark.parametrize("dtype", TYPES)
def test_assembled_and_translated_agree(dtype: str, tmp_path: Path) -> None:
    """Integers bit for bit, floats within two units in the last place."""
    uses = {
        name: use(case, dtype)
        for name, case in CASES.items()
        if dtype in element_types(case.op) and not problems(name, dtype, "a5")
    }
    library = Library(module_of({name: made.kernel for name, made in uses.items()}), tmp_path, "a5sim")
    kernels = Kernels({name: made.kernel for name, made in uses.items()})
    for name, made in uses.items():
        copies = [tensor.clone() for tensor in made.kernel.tensors]
        library.run(name, [tensor.view(torch.uint8).numpy() for tensor in copies])
        kernels.run(name)
        for assembled, translated in zip(copies, made.kernel.tensors, strict=True):
            assert_close(assembled, translated, dtype, name)


def assert_close(actual: torch.Tensor, expected: torch.Tensor, dtype: str, name: str) -> None:
    if dtype not in FLOATS:
        assert torch.equal(actual, expected), name
        return
    unit = 2 * torch.finfo(DTYPES[dtype]).eps
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=unit, atol=torch.finfo(DTYPES[dtype]).tiny, equal_nan=True,
        msg=lambda text: f"{name}: {text}",
    )  # fmt: skip


_WITHOUT = [
    (name, dtype)
    for name, row in ON_ELEMENTS.items()
    for dtype in ("f32", "i16")
    if not row.meaning.expression(is_float=dtype == "f32")
]


@every(("name", "dtype"), _WITHOUT)
def test_what_has_no_meaning_is_not_translated(name: str, dtype: str) -> None:
    """Roots of integers and bits of floats: the hardware does not have them, and no PyTorch is written."""
    case = next(case for case in CASES.values() if case.op == name)
    with pytest.raises(UnsupportedOperations, match=f"{name[4:]} on elements of type {dtype}$"):
        generate(parse(module_of({"k": use(case, dtype).kernel}), "k.pto"))


def test_a_row_is_used() -> None:
    assert {case.op for case in CASES.values()} == ON_ELEMENTS.keys()
    assert all(isinstance(made, Use) for made in (use(case, "f32") for case in CASES.values()))
