"""`python -m pypto_build.replay`."""

from __future__ import annotations

import sys

from pypto_build.replay.cli import main

if __name__ == "__main__":
    sys.exit(main())
