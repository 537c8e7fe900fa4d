"""Why an element of an output has its value: `python -m pypto_build.diagnose.why ARTIFACT_DIR --out f --at 127,0 …`.

The task that wrote the element last runs again with every instruction recorded, and its bytes are followed back to the
inputs, through earlier tasks too. The reference runs beside it; where it has another value, that is shown, and the
first link that differs though nothing before it does is marked.

Exit status: 0, whatever the value; 2 usage, 3 build, 5 runtime fault, 6 hang.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.extras import require_torch
from pypto_build.diagnose.console import add_run_options, run_tool, tool_parser


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    options = tool_parser("why", __doc__)
    add = options.add_argument
    add_run_options(options, 600.0)
    add("--seed", type=int, default=0, metavar="N", help="seed of inputs made up without data/in (0)")
    add("--out", metavar="NAME", help="the output; the only one needs no name")
    add("--at", default="", metavar="I,J", help="the element; of a range (I:J) the one that is most wrong")
    add("--rtol", type=float, metavar="R", help="relative tolerance (what the element type's rounding explains)")
    add("--atol", type=float, metavar="A", help="absolute tolerance")
    add("--json", type=Path, metavar="FILE", help="also write the chain as JSON")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    given = parser().parse_args(argv)
    return run_tool("why", lambda: _why(given))


def _why(given: argparse.Namespace) -> int:
    require_torch("the reference")
    import msgspec

    from pypto_build.artifact.atomic import write_bytes
    from pypto_build.diagnose.why.answer import answer
    from pypto_build.diagnose.why.text import lines_of
    from pypto_build.replay.faults import RunFault
    from pypto_build.replay.verdict import EXIT_STATUS

    try:
        top = answer(given)
    except RunFault as fault:
        hint = f"; {fault.error.hint}" if fault.error.hint else ""
        print(f"why: {fault.error.message}{hint}", file=sys.stderr)
        return EXIT_STATUS[fault.status]
    print("\n".join(lines_of(top)))
    if given.json:
        try:
            write_bytes(given.json, msgspec.json.format(msgspec.json.encode(top), indent=1) + b"\n")
        except OSError as error:
            raise ArtifactError(given.json, f"cannot be written: {error.strerror}", "name another file") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
