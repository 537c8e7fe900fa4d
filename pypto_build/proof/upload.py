"""``python -m pypto_build.proof.upload STORE``: sends what waits there to the store that PYPTO_BUILD_REMOTE names."""

import sys
from pathlib import Path

from pypto_build.proof.shared import worker

if __name__ == "__main__":
    sys.exit(worker(Path(sys.argv[1])))
