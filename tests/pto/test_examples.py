"""The example artifacts: their .pto modules are read, checked and assembled, and the bodies fit their wrappers."""

from __future__ import annotations

from pathlib import Path

from pypto_build.pto import parse_file, print_module
from pypto_build.pto.assemble import assemble
from pypto_build.pto.checks import check_module
from pypto_build.pto.splice import body_of, preprocess, splice_unit
from tests.rows import every

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "artifacts"
UNITS = sorted(EXAMPLES.glob("*/ptoas/*.pto"))


def wrappers(unit: Path, functions: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    actual = {}
    for name in functions:
        for core in ("aic", "aiv"):
            path = unit.parent.parent / "kernels" / core / f"{name}.cpp"
            if path.is_file():
                actual[name] = (str(path), path.read_text())
    return actual


@every("unit", UNITS)
def test_module_is_read_and_right(unit: Path) -> None:
    module = parse_file(unit)
    assert print_module(module) == unit.read_text()
    assert check_module(module) == []


@every("unit", UNITS)
def test_assembled_body_fits_the_wrappers(unit: Path) -> None:
    """Also of vintages whose wrappers say `Tensor`."""
    body = assemble(parse_file(unit), "a2a3sim")
    kernels = wrappers(unit, body.functions)
    assert kernels
    for spliced in splice_unit(body.text, kernels).values():
        assert body_of(spliced.text) == body.text.strip("\n")


@every("unit", [unit for unit in UNITS if unit.with_suffix(".cpp").is_file()])
def test_raw_output_becomes_the_body_that_the_wrapper_has(unit: Path) -> None:
    for path, text in wrappers(unit, assemble(parse_file(unit), "a2a3sim").functions).values():
        assert body_of(text, path) == preprocess(unit.with_suffix(".cpp").read_text(), text).strip("\n")
