"""The example programs in every vintage; that they agree with their references is `tests/replay/test_reference.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.artifact import detect_vintage
from pypto_build.compiler import Compiled, build_program, compile_file, generate_orchestration, run_passes
from pypto_build.compiler.emit_artifact import Options
from pypto_build.compiler.golden import compute
from pypto_build.compiler.load import entries_of, load_module
from pypto_build.compiler.vintages import VINTAGES
from pypto_build.compiler.write import write_files
from tests.compiler.programs import in_vintage
from tests.replay.builder import build_artifact, replay

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "make_data")


def _compile(name: str, root: Path, options: Options | None = None) -> Compiled:
    compiled = compile_file(str(EXAMPLES / f"{name}.py"), root, "a2a3sim", options)
    write_files(root, compiled.files)
    return compiled


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_vintage(name: str) -> None:
    """The orchestration is that of today in other words, and the reader knows which generation it is."""
    for entry in entries_of(load_module(str(EXAMPLES / f"{name}.py"))):
        program = run_passes(build_program(entry))
        today = generate_orchestration(program, program.entries[0]).code
        for vintage in VINTAGES.values():
            text = generate_orchestration(program, program.entries[0], vintage).code
            assert text == in_vintage(today, vintage)
            assert detect_vintage(text).name == vintage.name


@pytest.mark.parametrize(("vintage", "name", "tasks"), [("2026-05", "relax", 7), ("2026-06", "vector_dag", 5)])
def test_older_vintages_replay(tmp_path: Path, vintage: str, name: str, tasks: int) -> None:
    _compile(name, tmp_path / "a", Options(VINTAGES[vintage]))
    compute(tmp_path / "a")
    build_artifact(tmp_path / "a", tmp_path / "out")
    run = replay(tmp_path / "a", tmp_path / "out")
    assert (run.status, run.verdict.vintage, run.verdict.tasks) == (0, vintage, tasks), run.stdout
