"""With NUMERICS=, the PyTorch reference gives the same bits as kernels for all functions that it covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.facts.run_options import DEVICE_RESULTS, FAST, NUMERICS, SIMULATOR
from pypto_build.pto.ops.agreement import AGREEMENTS
from pypto_build.pto.torch.followed import FOLLOWED, line_on, not_followed
from pypto_build.replay.values import STORAGE, decode
from tests.rules.project import Project


def outputs(project: Project, name: str, numerics: str, runtime: str) -> tuple[dict[str, bytes], str]:
    """Run an artifact of the kit; return its outputs with all NaNs made equal, and the printed text."""
    run = project.cli("replay", f"kit/_jit_conformance_{name}", f"NUMERICS={numerics}", f"RUNTIME={runtime}")
    contents = {}
    for path in sorted((project.root / "build/a2a3sim" / f"_jit_conformance_{name}" / "actual").glob("*.pt")):
        tensor = read_pt(path)
        values = np.array(decode(np.frombuffer(bytes(tensor.data), STORAGE[tensor.dtype]), tensor.dtype))
        contents[path.stem] = np.where(values != values, np.nan, values).astype(values.dtype).tobytes()
    return contents, run.output


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a workspace with the kit of `pypto-build conformance`."""
    made = Project(tmp_path_factory.mktemp("numerics"))
    assert made.cli("conformance", "kit").status == 0
    return made


@pytest.mark.parametrize(
    ("numerics", "name", "questions"),
    [
        (DEVICE_RESULTS, "sums", {"row_sum_order", "row_sum_half", "col_sum_half"}),
        (DEVICE_RESULTS, "functions", {"subnormal"}),
        (SIMULATOR, "sums", {"row_sum_order", "col_sum_half"}),
        (SIMULATOR, "rounding", {"round_to_half", "round_to_bfloat16", "round_to_whole", "round_words"}),
        (SIMULATOR, "choices", {"max_with_nan", "row_max_with_nan"}),
        (SIMULATOR, "functions", {"exponential", "logarithm", "inverse_root"}),
        (SIMULATOR, "products", {"accumulate_from_c"}),
    ],
)
def test_the_same_bits_as_compiled(numerics: str, name: str, questions: set[str], project: Project) -> None:
    compiled, _ = outputs(project, name, numerics, "embedded")
    reference, output = outputs(project, name, numerics, "torch")
    assert questions <= FOLLOWED[numerics] & compiled.keys()
    assert {question for question in questions if compiled[question] != reference[question]} == set()
    line = line_on(numerics, project.root / "kit" / f"_jit_conformance_{name}")
    assert (line in output) if line else ("does not follow" not in output)


_PROGRAM = """
import pypto_build.compiler.language as pl


@pl.jit.incore
def products(x: pl.Tensor[[16, 48], pl.{dtype}], y: pl.Out[pl.Tensor[[16, 1], pl.{dtype}]]):
    pl.store(pl.row_sum(pl.load(x, [0, 0], [16, 48])), [0, 0], y)


@pl.jit
def rows(x: pl.Tensor[[16, 48], pl.{dtype}], y: pl.Out[pl.Tensor[[16, 1], pl.{dtype}]]):
    products(x, y)
"""


@pytest.mark.parametrize("numerics", [DEVICE_RESULTS, SIMULATOR])
@pytest.mark.parametrize(("dtype", "stored"), [("FP32", np.float32), ("FP16", np.float16)])
def test_products_of_rows(numerics: str, dtype: str, stored: Any, project: Project) -> None:
    """Edit a sum into a product, since neither the kit nor any program has one."""
    name = f"{dtype.lower()}_{numerics}"
    program = project.root / f"{name}.py"
    program.write_text(_PROGRAM.format(dtype=dtype))
    run = project.cli("compile", str(program))
    assert run.status == 0, run.output
    root = project.root / f"build_output/_jit_{name}"
    for path in (root / "ptoas/products.pto", root / "ptoas/products.cpp", root / "kernels/aiv/products.cpp"):
        text = path.read_text().replace("pto.trowsum", "pto.trowprod").replace("TROWSUM(", "TROWPROD(")
        path.write_text(text)
    values = np.random.default_rng(0).uniform(0.9, 1.1, (16, 48)).astype(stored)
    write_pt(root / "data/in/x.pt", values.dtype.name, values.shape, values.tobytes())
    products: list[np.ndarray[Any, Any]] = []
    for runtime in ("embedded", "torch"):
        words = (f"NUMERICS={numerics}", f"RUNTIME={runtime}", "ALLOW_UNCHECKED=1")
        run = project.cli("replay", f"build_output/_jit_{name}", *words)
        assert run.status == 0, run.output
        tensor = read_pt(project.root / f"build/a2a3sim/_jit_{name}/actual/y.pt")
        products.append(np.frombuffer(bytes(tensor.data), stored))
    exact = values.astype(np.float64).prod(axis=1)
    assert np.allclose(products[0], exact, rtol=0.05) and not np.array_equal(products[0], exact.astype(stored))
    assert products[0].tobytes() == products[1].tobytes()


def test_the_line_names_what_is_asked_and_not_followed(tmp_path: Path) -> None:
    module = tmp_path / "ptoas" / "one.pto"
    module.parent.mkdir()
    module.write_text("pto.tsel ins() outs()\npto.trowsum ins() outs()\n")
    assert line_on(FAST, tmp_path) == line_on(DEVICE_RESULTS, tmp_path) == ""
    line = line_on(SIMULATOR, tmp_path)
    assert line.startswith("the reference does not follow NUMERICS=simulator in ")
    assert "mask_rows" in line and "row_sum_order" not in line and line.endswith(" (docs/lookup/agreement.md)")


def test_what_is_followed_is_a_question_that_the_setting_decides() -> None:
    assert set(FOLLOWED) == set(NUMERICS) - {FAST}
    for numerics, names in FOLLOWED.items():
        decided = {
            row.name for row in AGREEMENTS.values()
            if numerics == (row.device_by if numerics == DEVICE_RESULTS else row.simulator_by) and not row.only_broken
        }  # fmt: skip
        assert names <= decided
        everything = {name for row in AGREEMENTS.values() for name in row.names()}
        assert set(not_followed(numerics, everything)) == decided - names
