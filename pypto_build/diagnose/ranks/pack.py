"""`scons pack` on a distributed artifact: driver, chip programs, data and options of a run in one archive.

python -m pypto_build.diagnose.ranks.pack ARTIFACT_DIR --platform P --build-dir OUT [--output x.tar.zst]
"""

from __future__ import annotations

import argparse
import sys

from pypto_build.artifact.distributed import load_distributed, scene_test_of
from pypto_build.artifact.layout import SUB_WORKERS, load_artifact
from pypto_build.diagnose.console import command
from pypto_build.diagnose.pack.__main__ import pack_run
from pypto_build.diagnose.pack.__main__ import parser as parser_of_one
from pypto_build.diagnose.pack.form import EXTERNAL
from pypto_build.diagnose.ranks.run import add_chip_options


@command("pack", parser_of_one, add_chip_options)  # --world is one of the options of the run
def main(given: argparse.Namespace) -> int:
    """Write the archive; 0, or 2 where there is nothing to pack."""
    distributed = load_distributed(given.artifact)
    parts = {f"{EXTERNAL}/{name}": load_artifact(chip) for name, chip in distributed.chips.items()}
    tests = {test for test in map(scene_test_of, distributed.sub_workers.values()) if test and test.is_file()}
    others = {test: f"{EXTERNAL}/{SUB_WORKERS}/{test.name}" for test in tests}
    return pack_run(given, distributed.as_artifact(), parts, others)


if __name__ == "__main__":
    sys.exit(main())
