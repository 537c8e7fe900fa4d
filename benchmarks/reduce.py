"""`reduce` on an artifact of thirty tasks with one wrong instruction: down to what, in what time.

python -m benchmarks.reduce [--jobs 2]

The budget is one task and a tile of at most 64 elements within 120 s on two cores.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from pypto_build.toolchain.python import own_tool

_PROGRAM = Path(__file__).parents[1] / "tests" / "diagnose" / "chain30.py"
_FAULT = ("kernels/aiv/blend.cpp", "TEXP(tmp0__ssa_v0", "TABS(tmp0__ssa_v0")


def main() -> None:
    """Compile, plant, build, reduce; print what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    jobs = parser.parse_args().jobs
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        artifact = root / "_jit_chain30"
        run = [*own_tool("pypto_build.compiler"), str(_PROGRAM), "--output", str(artifact)]
        subprocess.run(run, check=True, capture_output=True)
        kernel = artifact / _FAULT[0]
        text = kernel.read_text()
        assert text.count(_FAULT[1]) == 1
        kernel.write_text(text.replace(_FAULT[1], _FAULT[2]))
        cli = own_tool("pypto_build.cli")
        subprocess.run([*cli, "build", str(artifact)], cwd=root, check=True, capture_output=True)
        begun, used = time.monotonic(), _cpu_s()
        words = [*cli, "reduce", str(artifact), "--keep", "mismatch:f", "-j", str(jobs)]
        subprocess.run(words, cwd=root, check=True)
        took, cpu = time.monotonic() - begun, _cpu_s() - used
        meta = json.loads((root / "build_output/_jit_chain30_reduced/compiled_meta.json").read_bytes())
        sizes = [param["shape"] for param in meta["params"]]
        print(f"30 tasks -> tensors {sizes}: {took:.1f} s, {cpu:.1f} s of processors")


def _cpu_s() -> float:
    """Processor time of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
