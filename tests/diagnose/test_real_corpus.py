"""The recipes for artifacts that are not kept here: the table of the documentation, and how a recipe is planted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.diagnose.checked import copy_example
from tests.diagnose.corpus.real import PatternError, Recipe, plant
from tests.diagnose.corpus.real.__main__ import CLASSES, main
from tests.diagnose.corpus.real.table import PAGE, page

_MUL = "kernels/aiv/kernel_mul.cpp"
_RECIPE = Recipe("sum", "_jit_vector_dag", ((_MUL, r"TMUL\((v\d+)", r"TADD(\1"),), "diverge/kernel", _MUL, "TADD")


def test_documented_table() -> None:
    """`python -m tests.diagnose.corpus.real --write` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text, CLASSES)


def test_every_class_has_its_recipes() -> None:
    assert sum(map(len, CLASSES.values())) >= 90
    names = Counter((recipe.artifact, recipe.name) for recipes in CLASSES.values() for recipe in recipes)
    assert set(names.values()) == {1}
    assert all(recipe.edits for recipes in CLASSES.values() for recipe in recipes)


def test_a_recipe_is_planted(tmp_path: Path) -> None:
    artifact = copy_example("_jit_vector_dag", tmp_path)
    plant(_RECIPE, artifact)
    assert "TADD(v17, v7, v13);" in (artifact / _MUL).read_text()


def test_a_recipe_that_does_not_fit(tmp_path: Path) -> None:
    artifact = copy_example("_jit_vector_dag", tmp_path)
    edits = ((_MUL, r"TLOAD\(", "TSTORE("),)
    with pytest.raises(PatternError, match=r"sum: 'TLOAD.*' matches 2 times in _jit_vector_dag/kernels/aiv/kernel_mul"):
        plant(replace(_RECIPE, edits=edits), artifact)


def test_without_the_artifacts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--artifacts", str(tmp_path), "--only", "exponential left out"])
    assert end.value.code == 2
    assert "there is no e_02_softmax-_jit_tile_softmax" in capsys.readouterr().err
