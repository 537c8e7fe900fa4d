"""The flags and the engine of tools that make runs of their own of a distributed artifact."""

from __future__ import annotations

import argparse

from pypto_build.artifact.distributed import read_chips, read_devices
from pypto_build.replay.chips.engine import ChipsEngine


def add_world_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the number of ranks and their devices."""
    parser.add_argument("--world", type=int, default=0, metavar="N", help="ranks (those it was compiled for)")
    parser.add_argument("--devices", default="", metavar="A,B", help="a device for each rank")


def engine_of(given: argparse.Namespace, variant: str = "", reference: bool = False) -> ChipsEngine:
    """Return the engine that executes the runs, by PyTorch if `reference` is set.

    Raises `ArtifactError` for a flag without a name.
    """
    world = int(given.world or 0)
    devices = read_devices(given.devices or "", world)
    return ChipsEngine(read_chips(given.chip), world, variant, reference, devices=devices)
