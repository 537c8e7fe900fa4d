"""``python -m pypto_build.proof.upload STORE``: sends the queued results of STORE to the remote store in
PYPTO_BUILD_REMOTE.
"""

import sys
from pathlib import Path

from pypto_build.proof.shared import worker

if __name__ == "__main__":
    sys.exit(worker(Path(sys.argv[1])))
