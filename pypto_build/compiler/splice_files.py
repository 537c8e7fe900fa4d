"""Splices an assembled unit into kernel files: ``python -m pypto_build.pto.splice_files BODY --into WRAPPER OUTPUT …``.

Each wrapper takes the body of the function it is named after. Either all outputs are written or none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_build.pto.assemble import write_atomically
from pypto_build.pto.errors import PtoError
from pypto_build.pto.splice import preprocess, splice_unit


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0, 1 when the body does not fit a wrapper, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m pypto_build.pto.splice_files", description=__doc__.split("\n")[0])
    parser.add_argument("body", type=Path, help="the unit as assembled, by ptoas or by pypto_build.pto.assemble")
    parser.add_argument("--into", nargs=2, type=Path, action="append", required=True, metavar=("WRAPPER", "OUTPUT"))
    given = parser.parse_args(argv)
    try:
        raw = given.body.read_text(encoding="utf-8")
        written: list[tuple[Path, str]] = []
        for wrapper, output in given.into:
            text = wrapper.read_text(encoding="utf-8")
            spliced = splice_unit(preprocess(raw, text), {wrapper.stem: (str(wrapper), text)})
            written.append((output, spliced[wrapper.stem].text))
        for output, text in written:
            write_atomically(output, text)
    except PtoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
