"""Facts about values: the source variable, the kind of definition and its position, under any variable name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pypto_build.compiler import CompileError
from pypto_build.compiler.ir import ValueKind as Kind
from tests.compiler.programs import files, kernel, passed

TILE = "pl.load({}, [0, 0], [64, 64])"


def test_a_value_tells_its_variable_and_line(tmp_path: Path) -> None:
    body = f"total = {TILE.format('x')}\nfor i in pl.range(8):\n    total = total + {TILE.format('x')} * 2.0"
    program, _ = passed(tmp_path, kernel(body + "\npl.store(total, [0, 0], out)"))
    values = program.functions["k"].values
    assert {name: (v.variable, v.kind, v.position.line) for name, v in values.items()} == {
        "x__ssa_v0": ("x", Kind.PARAMETER, 4),
        "out__ssa_v0": ("out", Kind.PARAMETER, 4),
        "total__ssa_v0": ("total", Kind.VARIABLE, 5),
        "i__idx_v0": ("i", Kind.INDEX, 6),
        "total__iter_v1": ("total", Kind.CARRIED, 6),
        "total__rv_v3": ("total", Kind.LEFT, 6),
        "total__ssa_v2": ("total", Kind.VARIABLE, 7),
        "tmp0__ssa_v0": ("tmp0", Kind.TEMPORARY, 7),
        "tmp1__ssa_v0": ("tmp1", Kind.TEMPORARY, 7),
    }


def test_a_variable_may_be_called_like_a_temporary(tmp_path: Path) -> None:
    """It is one of the program's, so the orchestration has it too."""
    numbers = "x: M, out: pl.Out[M], n: pl.Scalar[pl.INDEX]"
    body = kernel("pl.store(pl.load(x, [n, 0], [8, 64]), [0, 0], out)", numbers, "x, out, tmp_rows + x__tmp_y")
    body = body.replace("    k(x, out, tmp", "    tmp_rows = n * 2\n    x__tmp_y = n * 3\n    k(x, out, tmp")
    code = files(tmp_path, body)["orchestration/main.cpp"]
    assert "int64_t tmp_rows = (n * 2);" in code
    assert "int64_t x__tmp_y = (n * 3);" in code
    assert "add_scalar((tmp_rows + x__tmp_y));" in code


def test_a_parameter_may_be_called_like_a_value(tmp_path: Path) -> None:
    body = kernel(f"pl.store({TILE.format('a__ssa_b')}, [0, 0], a__)", "a__ssa_b: M, a__: pl.Out[M]", "a__ssa_b, a__")
    texts = files(tmp_path, body)
    assert [p["name"] for p in json.loads(texts["compiled_meta.json"])["params"]] == ["a__ssa_b", "a__"]
    assert " ext_a__ssa_b = " in texts["orchestration/main.cpp"]


def test_a_variable_with_underscores_keeps_its_name_in_errors(tmp_path: Path) -> None:
    body = kernel(f"pl.store({TILE.format('out')}, [0, 0], in__put)", "in__put: M, out: pl.Out[M]", "in__put, out")
    with pytest.raises(CompileError, match="k writes in__put, which is declared as an input"):
        passed(tmp_path, body)


def test_assigning_two_variables_leaves_others_alone(tmp_path: Path) -> None:
    """The intermediate values do not become variables of the program."""
    body = f"t0 = {TILE.format('x')}\na = t0 + 1.0\nb = t0 + 2.0\na, b = b, a\npl.store(t0 * b, [0, 0], out)"
    program, _ = passed(tmp_path, kernel(body))
    function = program.functions["k"]
    product = next(op for op in function.body.walk() if op.name == "mul")
    first, second = (function.values[product.ref(number).name] for number in (0, 1))
    assert (first.variable, first.position.line) == ("t0", 5)
    assert (second.variable, second.position.line) == ("a", 6)


def test_variables_of_inline_functions_keep_their_names(tmp_path: Path) -> None:
    """They are expanded under other names, which mean nothing to anybody."""
    inline = "@pl.jit.inline\ndef twice(part):\n    doubled = part + part\n    return doubled * doubled\n\n"
    program, _ = passed(tmp_path, inline + kernel(f"pl.store(twice({TILE.format('x')}), [0, 0], out)"))
    values = program.functions["k"].values
    assert (values["doubled_0__ssa_v0"].variable, values["doubled_0__ssa_v0"].position.line) == ("doubled", 5)
