"""Brings revisions of simpler and pto-isa into the cache: the one command that uses the network.

python -m pypto_build.toolchain.fetch [--simpler REVISION|PATH@REVISION] [--isa REVISION|PATH@REVISION]

Without options, the pinned revisions (``pins.toml``). ``PATH@REVISION`` takes one from a local clone, and a
commit that is there already from the cache; neither needs the network. The pto-isa is the one that the fetched simpler
wants, unless another is named.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_build.toolchain import ToolchainError, pins

_COMMIT = re.compile(r"[0-9a-f]{7,40}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    options = _parser().parse_args(argv)
    try:
        simpler = fetch(pins.SIMPLER, options.simpler)
        fetch(pins.PTO_ISA, options.isa or pins.pinned_isa(simpler))
    except ToolchainError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def fetch(project: str, chosen: str) -> Path:
    """Return the checkout of a revision: from a local clone, from the cache, or else from the pinned address."""
    pin = pins.read_pins()[project]
    chosen = chosen or pin.revision
    repository = pins.Repository(project)
    source = "the cache"
    if "@" in chosen:
        source = chosen.rpartition("@")[0]
    elif not _COMMIT.fullmatch(chosen) or repository.commit(chosen) is None:
        source = pin.url
        print(f"[fetch] {project} from {source}", flush=True)
        repository.fetch(source)
    commit = pins.find_commit(repository, chosen)
    checkout = repository.checkout(commit)
    print(f"[fetch] {project} {repository.describe(commit)} (from {source}) -> {checkout}")
    return checkout


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.toolchain.fetch", description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    add = parser.add_argument
    add("--simpler", default="", metavar="S", help="a revision, or PATH@REVISION of a local clone (the pinned one)")
    add("--isa", default="", metavar="I", help="the same for pto-isa (what that simpler wants)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
