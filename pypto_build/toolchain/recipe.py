"""Recipes: the compile command of one kind of unit, and the steps from its object to the binary that a runtime loads.

A kind is ``aic``, ``aiv`` or ``orchestration``. Command lines have the words `SOURCE` and `TARGET` in place of file
names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.facts import places

SOURCE, TARGET = "{source}", "{target}"


@dataclass(frozen=True)
class ToolStep:
    """One command after the compilation; ``label`` is the word it is announced by. ``python`` is a tool of ours."""

    label: str
    suffix: str
    words: tuple[str, ...]
    python: bool = False

    def argv(self, source: str, target: str) -> list[str]:
        """The command for these file names."""
        return [word.replace(SOURCE, source).replace(TARGET, target) for word in self.words]


@dataclass(frozen=True)
class UnitRecipe:
    """Everything that decides what a unit's binary is, besides its text and headers.

    ``identity`` names the programs and their versions. ``also`` are further files that a step reads. ``main_header`` is
    the header to precompile, as ``#include`` names it; it is empty if the compiler cannot. With the flags ``calling``
    the compiler leaves out instances of that header's templates, which are compiled apart.

    ``naming`` is the beginning of the flag that renames a directory in the output. ``named`` are the directories of its
    own headers and sources that are renamed. ``variables`` are prefixes of the environment variables that its programs
    may read. ``processor`` identifies this machine's processor, if a flag asks for it.
    """

    identity: str
    compiler: tuple[str, ...]
    include_dirs: tuple[Path, ...]
    steps: tuple[ToolStep, ...]
    also: tuple[Path, ...] = ()
    main_header: str = ""
    calling: tuple[str, ...] = ()
    naming: str = places.FLAG
    named: tuple[tuple[Path, str], ...] = ()
    variables: tuple[str, ...] = ()
    processor: str = ""

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that decide besides the command and its inputs."""
        return {"the compiler": self.identity, **({"this processor": self.processor} if self.processor else {})}

    @property
    def suffix(self) -> str:
        """Return the suffix of the binary that a runtime loads."""
        return self.steps[-1].suffix

    def compile_argv(
        self, source: str, target: str, extra_dirs: Sequence[Path] = (), extra_flags: Sequence[str] = ()
    ) -> list[str]:
        """Return the command that compiles one translation unit to one object."""
        dirs = [f"-I{directory}" for directory in (*self.include_dirs, *extra_dirs)]
        return [*self.compiler, *extra_flags, *dirs, "-c", source, "-o", target]

    @property
    def located(self) -> bool:
        """Return True if the output names its sources, as line numbers of debug information do."""
        return any(word.startswith("-g") and word != "-g0" for word in self.compiler)

    def names(self, *named: tuple[Path, str]) -> tuple[str, ...]:
        """The flags by which the compiler calls directories by other names; of several that fit, the last counts."""
        return tuple(f"{self.naming}{path}={name}" for path, name in named)

    def precompile_argv(self, header: str, target: str, extra_flags: Sequence[str] = ()) -> list[str]:
        """The command that precompiles the header."""
        dirs = [f"-I{directory}" for directory in self.include_dirs]
        return [*self.compiler, *extra_flags, *dirs, "-x", "c++-header", header, "-o", target]


#: A recipe for each kind of unit.
Recipe = Mapping[str, UnitRecipe]
