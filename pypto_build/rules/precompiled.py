"""Main headers, precompiled: once for each command line, shared by every artifact and workspace of this user.

g++ takes ``NAME.gch`` beside a header that ``-include`` names. A unit becomes the same code without it. So the files
that the header was compiled from count as inputs of the unit, and the precompiled file itself does not.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping

from pypto_build.artifact.files import write_bytes
from pypto_build.proof import Action
from pypto_build.proof.action import Helper
from pypto_build.rules.machinery.environment import search_paths
from pypto_build.rules.machinery.steps import Step, perform
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.toolchain.cache import cache_dir
from pypto_build.toolchain.host import UnitRecipe


class Precompiled:
    """The main header of ``recipe``."""

    def __init__(self, workspace: Workspace, recipe: UnitRecipe, environment: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._aid: list[Helper | None] = []
        words = [*recipe.settings.values(), *recipe.precompile_argv("", "")]
        directory = cache_dir() / "headers" / hashlib.sha256(json.dumps(words).encode()).hexdigest()[:32]
        header = directory / recipe.main_header.rpartition("/")[2]
        self._header, self._text = header, f"#include <{recipe.main_header}>\n".encode()
        self._output_dir = workspace.output_dir(directory)
        compiled = f"{header.name}.gch"
        target = f"{directory / compiled}.tmp"
        # Some of what it names ends in what is compiled with it.
        named = recipe.names(*recipe.named) if recipe.located else ()
        self._step = Step(
            self._output_dir,
            Action(
                name=compiled,
                argv=tuple(recipe.precompile_argv(str(header), target, named)),
                inputs=(str(header),),
                outputs=(compiled,),
                settings=recipe.settings | search_paths(environment),
                environment=environment,
                main=str(header),
                shared=False,
            ),
            "[headers] precompile",
            f"{recipe.main_header}, once for these flags",
            spawn=lambda command, env: (workspace.compile(command, env)[0], ""),
            writes_to=directory,
            in_common=True,
        )

    def ready(self) -> Helper | None:
        """Return the header to include and its precompiled file, which is compiled if necessary.

        None if that fails: the unit's own compilation then reports the error.
        """
        with self._lock:
            if not self._aid:
                self._aid.append(self._make())
            return self._aid[0]

    def _make(self) -> Helper | None:
        if not self._header.is_file() or self._header.read_bytes() != self._text:
            write_bytes(self._header, self._text)
        if perform(self._workspace, self._step).status:
            return None
        result = self._output_dir.proven(self._step.action)
        if result is None:
            return None
        compiled = self._step.action.outputs[0]
        path = str(self._output_dir.path(compiled))
        return Helper(
            path, result.outputs[compiled], self._output_dir.contents(result), ("-include", str(self._header))
        )
