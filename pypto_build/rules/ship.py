"""Builds all results that a first replay needs into a store that ships with the package.

python -m pypto_build.rules.ship DIR

The store holds results with their proofs, as a user's store does. None of them is used on a machine where an input
differs (the compiler, a header of the system, Python), or with sources that were edited since.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pypto_build.proof.store import Store
from pypto_build.rules.embedded_runtime import ensure_runtime
from pypto_build.toolchain.cache import SHIPPED


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 on success; 3, with the compiler's message, if the store cannot be built."""
    (directory,) = (Path(word).resolve() for word in (sys.argv[1:] if argv is None else argv))
    with tempfile.TemporaryDirectory(prefix="pypto-ship-") as scratch:
        store = Path(scratch, "store")
        os.environ["PYPTO_BUILD_CACHE"], os.environ["PYPTO_BUILD_STORE"] = scratch, str(store)
        try:
            ensure_runtime()
        except RuntimeError as error:
            print(f"pypto-build: {error}", file=sys.stderr)
            return 3
        made = store if any(Store(store).entries()) else SHIPPED  # which still holds what was asked for
        if not any(Store(made).entries()):  # it cannot be told what the compiler reads, so nothing would be believed
            print(
                (
                    "pypto-build: this system cannot record what the compiler reads, so nothing is stored "
                    "in advance; the first replay builds all"
                ),
                file=sys.stderr,
            )
            return 3
        if made != directory:
            shutil.rmtree(directory, ignore_errors=True)
            for kind in ("actions", "content"):
                shutil.copytree(made / kind, directory / kind)
    return 0


if __name__ == "__main__":
    sys.exit(main())
