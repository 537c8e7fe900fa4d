"""Functions of a module, by its text."""

from __future__ import annotations

from pypto_build.artifact.modules import function_names


def test_functions_in_order_each_once() -> None:
    text = (
        "module {\n  func.func private @helper(i32)\n  func.func public @k_aiv(%a: i32) {\n    func.call @helper(%a)\n"
        "  }\n"
        "  func.func @k.v2() {\n  }\n  func.func private @helper(i32)\n}\n"
    )
    assert function_names(text) == ["helper", "k_aiv", "k.v2"]
