"""`speed` on runs of a billion elements, beside a replay of the same run: processor seconds and memory.

    python -m benchmarks.device_time.cost [--scale 1.0]

The runs are those of `python -m benchmarks.why`. The goal is at most three times the replay's processor seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.why import measure, prepare, shapes
from pypto_build.rules.machinery.runtime_module import module_path
from pypto_build.runtime.build import build
from pypto_build.toolchain.host import find_compiler


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args(argv)
    embedded = module_path(find_compiler())
    if not embedded.exists():
        build(embedded.parent)
    print("| run | what | processor s | times | largest process, MB |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="speed") as temporary:
        for name, shape in shapes(options.scale).items():
            artifact = prepare(Path(temporary), name, shape)
            out = Path(temporary) / "build" / "a2a3sim" / artifact.name
            common = [str(artifact), "--platform", "a2a3sim", "--build-dir", str(out), "--embedded", str(embedded)]
            replay = 0.0
            for what, module in (("replay", "pypto_build.replay"), ("speed", "pypto_build.diagnose.speed")):
                seconds, megabytes = measure([sys.executable, "-m", module, *common], (0, 7))
                replay = replay or seconds
                print(f"| {name} | {what} | {seconds:.2f} | {seconds / replay:.1f} | {megabytes:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
