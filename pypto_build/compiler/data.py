"""`python -m pypto_build.compiler.data --script S --output DIR --seed N [-- ARGS ...]`: inputs and goldens for replays.

A script is run as `S --output DIR --seed N ARGS ...` and writes `DIR/in/*.pt` and `DIR/out/*.pt`. With `--golden`
in its place, an artifact's golden.py makes the inputs from the seed and computes the outputs. DIR is emptied before.
Exit status 0, 2 for wrong usage, 4 when the data cannot be made.
"""

from __future__ import annotations

import argparse
import runpy
import shutil
import sys
import traceback
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.beside import modules_beside
from pypto_build.artifact.errors import require_torch
from pypto_build.compiler.golden import save

_FAILED = 4


def main(argv: list[str] | None = None) -> int:
    """Compute the data, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m pypto_build.compiler.data", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--script", type=Path)
    source.add_argument("--golden", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("args", nargs="*")
    arguments = parser.parse_args(argv)
    output: Path = arguments.output
    if output.is_dir():
        shutil.rmtree(output)
    for side in ("in", "out"):
        (output / side).mkdir(parents=True)
    if arguments.script:
        reason = _run(arguments.script, ["--output", str(output), "--seed", str(arguments.seed), *arguments.args])
    else:
        reason = _compute(arguments.golden, output, arguments.seed)
    if not reason and not any(output.glob("*/*.pt")):
        reason = f"wrote no .pt file into {output}/in or {output}/out"
    if reason:
        print(f"error: {arguments.script or arguments.golden}: {reason}", file=sys.stderr)
        return _FAILED
    return 0


def _run(script: Path, words: list[str]) -> str:
    """Run a script as Python does, and return the error; empty without one."""
    if not script.is_file():
        return "no such file"
    sys.argv[:] = [str(script), *words]
    try:
        with modules_beside(script):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        return f"ended with status {error.code}" if error.code else ""
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(script)]
        line = f"line {frames[-1].lineno}: " if frames else ""
        return f"{line}{type(error).__name__}: {error}"
    return ""


def _compute(path: Path, output: Path, seed: int) -> str:
    """Compute the data of a golden.py with another seed, and return the error; empty without one."""
    if not path.is_file():
        return "no such file; compile a program that has a reference"
    try:
        require_torch(str(path))
        golden = runpy.run_path(str(path))
        variables = golden["make_inputs"].__globals__
        variables["_DATA_DIR"] = output
        variables["zlib"] = SimpleNamespace(crc32=lambda name: zlib.crc32(name) + seed)  # by which it seeds each input
        for name, tensor in golden["make_inputs"]().items():
            save(output / "in" / f"{name}.pt", tensor)
        tensors: dict[str, Any] = dict(golden["generate_inputs"]({"name": "Default"}))
        golden["compute_golden"](tensors, {"name": "Default"})
        for name in golden["__outputs__"]:
            save(output / "out" / f"{name}.pt", tensors[name])
    except ArtifactError as error:
        return str(error).removeprefix(f"{path}: ")
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = f"line {frames[-1].lineno}: " if frames else ""
        return f"{line}{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
