"""`scons pack` on a distributed artifact: driver, chip programs, data and options of a run in one archive.

python -m pypto_build.diagnose.ranks.pack ARTIFACT_DIR --platform P --build-dir OUT [--output x.tar.zst]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pypto_build.artifact.distributed import load_distributed, scene_test_of
from pypto_build.artifact.layout import SUB_WORKERS, load_artifact
from pypto_build.diagnose.console import run_tool
from pypto_build.diagnose.pack.__main__ import pack_run
from pypto_build.diagnose.pack.__main__ import parser as parser_of_one
from pypto_build.diagnose.pack.form import EXTERNAL
from pypto_build.diagnose.ranks.chips import add_chip_options


def main(argv: Sequence[str] | None = None) -> int:
    """Write the archive; 0, or 2 where there is nothing to pack."""
    words = list(sys.argv[1:] if argv is None else argv)
    options = parser_of_one()
    add_chip_options(options, world=False)  # that is one of the options of the run
    given = options.parse_args(words)

    def run() -> int:
        distributed = load_distributed(given.artifact)
        parts = {f"{EXTERNAL}/{name}": load_artifact(chip) for name, chip in distributed.chips.items()}
        tests = filter(None, map(scene_test_of, distributed.sub_workers.values()))
        others = {str(test): f"{EXTERNAL}/{SUB_WORKERS}/{test.name}" for test in tests if test.is_file()}
        return pack_run(given, words, distributed.as_artifact(), parts, others)

    return run_tool("pack", run)


if __name__ == "__main__":
    sys.exit(main())
