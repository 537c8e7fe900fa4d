"""A replay on simpler's runtime: `python -m pypto_build.replay`'s options, and those that say which simpler.

python -m pypto_build.interop.run ARTIFACT_DIR --platform P --build-dir OUT [--simpler S] [--isa I] [--device N] ...

Exit status: 0 pass, 1 mismatch, 2 usage, 3 build, 4 golden, 5 runtime fault, 6 hang, 7 unchecked.
"""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
from collections.abc import Iterator, Sequence

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.distributed import read_chips, read_devices
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import SIMPLER
from pypto_build.interop.chips import SimplerChipsEngine
from pypto_build.interop.engine import SimplerEngine
from pypto_build.replay import cli
from pypto_build.replay.request import Engine, Request
from pypto_build.replay.run_options import add_run_options, settings_of
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.git import changed_files
from pypto_build.toolchain.simpler_home import SimplerHome, find_home


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, cli.terminate)
    if {"-h", "--help"} & set(words):
        _parser().print_help()
        print("\nand the options of a replay:\n")
        cli.parser().print_help()
        return 0
    try:
        return cli.run(request_from(words))
    except ArtifactError as error:
        return cli.usage_error(words, error, SIMPLER)


def request_from(words: Sequence[str]) -> Request:
    """Return the request of a command line for simpler. Raises `ArtifactError` for an invalid one."""
    own, others = _parser().parse_known_args(words)
    request = cli.request_from([*others, "--embedded", "", "--runtime", SIMPLER])
    if request.platform not in PLATFORMS:
        raise ArtifactError(f"--platform {request.platform}", "unknown platform", f"one of {', '.join(PLATFORMS)}")
    try:
        home = find_home(own.simpler or "", own.isa or "")
    except ToolchainError as error:
        message, _, hint = str(error).partition("; ")
        raise ArtifactError("", message, hint) from None
    for note in _notes(home):
        print(f"[RUN]   note: {note}")
    options = {**request.options, **settings_of(own)}
    engine: Engine = SimplerEngine(home, own.device, own.skip_compile)
    if own.chip:
        chips = read_chips(own.chip)
        variant = request.binaries.name if request.binaries else ""
        devices = read_devices(request.devices, request.world)
        engine = SimplerChipsEngine(home, chips, variant, request.world, devices, own.skip_compile)
    return dataclasses.replace(request, options=options, engine=engine)


def _notes(home: SimplerHome) -> Iterator[str]:
    """Yield notes on checkouts that are not at a known revision; they are used unchanged."""
    for place in (home.tree.root, home.tree.isa):
        if changed := changed_files(place):
            yield f"{place} has {len(changed)} uncommitted change(s), such as {changed[0]}: it is used as it is"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.interop.run",
        description=(__doc__ or "").splitlines()[0],
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this and the options of a replay")
    parser.add_argument("--chip", action="append", default=[], metavar="NAME=DIR", help="where a program was built")
    add_run_options(parser, lambda option: option.runtimes == (SIMPLER,))
    return parser


if __name__ == "__main__":
    sys.exit(main())
