"""A public class has a name that no other class of its room has."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.rows import every
from tests.test_imports import MODULES, allowed, syntax


@every("room", sorted(allowed()))
def test_no_class_has_a_namesake_in_its_room(room: str) -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for module, path in MODULES.items():
        if module.split(".")[1:2] == [room]:
            for node in ast.walk(syntax(path)):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}
