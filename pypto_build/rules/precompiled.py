"""Main headers, precompiled: once per content, compiler and flags, shared by every artifact and workspace of this user.

g++ takes ``NAME.gch`` beside a header that ``-include`` names, and reads the header itself where that is missing or was
made otherwise. Either way a unit becomes the same code, so nothing of this is part of a key or a signature.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from SCons.Action import Action

from pypto_build.artifact.atomic import write_bytes
from pypto_build.rules.confinement import confined
from pypto_build.rules.headers import HeaderIndex
from pypto_build.rules.workspace import escape, workspace_of
from pypto_build.toolchain.cache import cache_dir
from pypto_build.toolchain.recipe import UnitRecipe


def stand_in(recipe: UnitRecipe, headers: HeaderIndex, reached: Sequence[str]) -> Path | None:
    """The file to ``-include`` in a unit that reaches the recipe's main header: it includes just that."""
    main = next((path for d in recipe.include_dirs if str(path := d / recipe.main_header) in reached), None)
    if not recipe.main_header or main is None:
        return None
    inputs = [recipe.identity, recipe.precompile_argv("", ""), headers.key(str(main))]
    digest = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:32]
    return cache_dir() / "headers" / digest / main.name


def precompile(env: Any, recipe: UnitRecipe, header: Path) -> Any:
    """The node that precompiles ``header``; None where that has been done."""
    nodes: dict[Path, Any] = workspace_of(env).precompiled
    made = header.with_name(f"{header.name}.gch")
    if made.is_file():
        return None
    if made not in nodes:
        announce = f"[headers] precompile {recipe.main_header}, once for these flags"
        action = Action(_precompile, lambda *_: announce)
        nodes[made] = env.Command(escape(str(made)), [], action, PYPTO_PRECOMPILE=(recipe, header))
    return nodes[made]


def _precompile(target: list[Any], source: list[Any], env: Any) -> None:
    """What cannot be precompiled is no failure: the unit's own compilation says what is wrong with the flags."""
    recipe, header = env["PYPTO_PRECOMPILE"]
    header.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(header, f"#include <{recipe.main_header}>\n".encode())
    made = target[0].get_abspath()
    unfinished = f"{made}.{os.getpid()}"  # another run may be at it too
    words = confined(recipe.precompile_argv(str(header), unfinished), header.parent)
    run = subprocess.run(words, capture_output=True, check=False)
    if run.returncode == 0:
        os.replace(unfinished, made)
