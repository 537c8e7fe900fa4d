"""The flags and the engine of tools that make runs of their own of a distributed artifact."""

from __future__ import annotations

import argparse
from pathlib import Path

from pypto_build.artifact.errors import ArtifactError
from pypto_build.replay.chips.engine import ChipsEngine


def add_chip_options(parser: argparse.ArgumentParser, world: bool = True) -> None:
    """Where the chip programs were built, and how many ranks there are."""
    add = parser.add_argument
    add("--chip", action="append", default=[], metavar="NAME=DIR", help="where a program was built")
    if world:
        add("--world", type=int, default=0, metavar="N", help="ranks (those it was compiled for)")


def engine_of(given: argparse.Namespace, variant: str = "") -> ChipsEngine:
    """What executes the runs. Raises `ArtifactError` for a flag that names no program."""
    chips = {}
    for word in given.chip:
        name, found, directory = word.partition("=")
        if not found:
            raise ArtifactError(f"--chip {word}", "is not NAME=DIR", "give the directory where the program was built")
        chips[name] = Path(directory)
    return ChipsEngine(chips, int(given.world or 0), variant)
