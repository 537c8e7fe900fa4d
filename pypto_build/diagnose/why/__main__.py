"""Why an element of an output has its value: `python -m pypto_build.diagnose.why ARTIFACT_DIR --out f --at 127,0 …`.

The task that wrote the element last runs again with every instruction recorded, and its bytes are followed back to the
inputs, through earlier tasks too. The reference runs beside it; where it has another value, that is shown, and the
first link that differs though nothing before it does is marked.

Exit status: 0, whatever the value; 2 usage, 3 build, 5 runtime fault, 6 hang.
"""

from __future__ import annotations

import argparse
import sys

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.errors import require_torch
from pypto_build.diagnose.console import add_beside, add_options_of, add_run_options, command, tool_parser
from pypto_build.diagnose.requests import run_tool_on_runs


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    options = tool_parser("why", __doc__)
    add_run_options(options)
    add_beside(options)
    add_options_of(options, "why", TIMEOUT=600.0)
    return options


@command("why", parser, run=run_tool_on_runs)
def main(options: argparse.Namespace) -> int:
    """The exit status."""
    require_torch("the reference")
    import msgspec

    from pypto_build.artifact.files import write_bytes
    from pypto_build.diagnose.why.answer import answer, forward
    from pypto_build.diagnose.why.forward import forward_lines
    from pypto_build.diagnose.why.kept import lines_of
    from pypto_build.pto.torch.followed import line_on

    if options.from_ and options.out:
        raise ArtifactError(
            "", f"OUT={options.out} and FROM={options.from_} cannot be used together", "leave out one of the two"
        )
    top: msgspec.Struct
    if options.from_:
        top = forward(options)
        lines = forward_lines(top)
    else:
        top = answer(options)
        lines = list(lines_of(top))
    print("\n".join([*lines, *filter(None, [line_on(options.numerics, options.artifact)])]))
    if options.json:
        try:
            write_bytes(options.json, msgspec.json.format(msgspec.json.encode(top), indent=1) + b"\n")
        except OSError as error:
            raise ArtifactError(options.json, f"cannot be written: {error.strerror}", "name another file") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
