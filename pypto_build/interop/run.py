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
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.interop.engine import SimplerEngine
from pypto_build.replay import cli
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.git import changed_files
from pypto_build.toolchain.simpler_home import SimplerHome, find_home

RUNTIME = "simpler"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, cli.terminate)
    own, others = _parser().parse_known_args(words)
    try:
        if own.help:
            _parser().print_help()
            print("\nand the options of a replay:\n")
            cli.parser().print_help()
            return 0
        request = cli.request_from([*others, "--embedded", "", "--runtime", RUNTIME])
        if request.platform not in PLATFORMS:
            raise ArtifactError(f"--platform {request.platform}", "unknown platform", f"one of {', '.join(PLATFORMS)}")
        home = find_home(own.simpler, own.isa)
    except ArtifactError as error:
        return cli.usage_error(words, error, RUNTIME)
    except ToolchainError as error:
        message, _, hint = str(error).partition("; ")
        return cli.usage_error(words, ArtifactError("", message, hint), RUNTIME)
    for note in _notes(home):
        print(f"[RUN]   note: {note}")
    options = {**request.options, **({"pmu": own.pmu} if own.pmu else {})}
    engine = SimplerEngine(home, own.device, own.skip_compile)
    return cli.run(dataclasses.replace(request, options=options, engine=engine))


def _notes(home: SimplerHome) -> Iterator[str]:
    """Checkouts that are not at a revision: they are used as they are, and never touched."""
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
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this and the options of a replay")
    add("--simpler", default="", metavar="S", help="a checkout, an environment or a revision (the importable one)")
    add("--isa", default="", metavar="I", help="a checkout or a revision of pto-isa (the one simpler keeps)")
    add("--device", type=int, default=0, metavar="N", help="the device of a hardware platform (0)")
    add("--skip-compile", action="store_true", help="take the binaries that lie beside the artifact's sources")
    add(
        "--pmu",
        type=int,
        default=0,
        metavar="EVENT",
        help="count hardware events: 1 arithmetic, 2 pipes, 4 memory, ...",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
