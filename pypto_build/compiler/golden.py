"""`python -m pypto_build.compiler.golden ARTIFACT`: data/in and data/out from the artifact's golden.py.

Nothing is computed again while golden.py and the files are what they were: data/golden.json has their digests. This is
the one place of the compiler that runs torch. Exit status 0, 2 for wrong usage, 4 when the reference fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.atomic import write_bytes
from pypto_build.artifact.extras import require_torch
from pypto_build.artifact.pt import write_pt

STAMP = "data/golden.json"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pypto_build.compiler.golden", description=__doc__)
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT")
    root = parser.parse_args(argv).artifact
    source = root / "golden.py"
    if not source.is_file():
        print(f"error: {source}: no such file; compile a program that has a reference", file=sys.stderr)
        return 2
    digest = _digest(source)
    if _up_to_date(root, digest):
        return 0
    try:
        require_torch(str(source))
        files = compute(root)
    except ArtifactError as error:
        print(f"error: {error}", file=sys.stderr)
        return 4
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(source)]
        line = f":{frames[-1].lineno}" if frames else ""
        print(f"error: {source}{line}: {type(error).__name__}: {error}", file=sys.stderr)
        return 4
    stamp = {"schema": 1, "golden": digest, "files": {path: _digest(root / path) for path in sorted(files)}}
    write_bytes(root / STAMP, (json.dumps(stamp, indent=2) + "\n").encode())
    for side in ("in", "out"):
        for stale in sorted((root / "data" / side).glob("*.pt")):
            if f"data/{side}/{stale.name}" not in files:
                stale.unlink()
    for path in sorted(files):
        print(f"[golden] wrote {root / path}")
    return 0


def compute(root: Path) -> list[str]:
    """Write the snapshot; returns its files, relative to `root`."""
    golden = runpy.run_path(str(root / "golden.py"))
    import torch

    inputs: dict[str, torch.Tensor] = golden["make_inputs"]()
    for name, tensor in inputs.items():
        _save(root / "data" / "in" / f"{name}.pt", tensor)
    tensors: dict[str, Any] = dict(golden["generate_inputs"]({"name": "Default"}))
    golden["compute_golden"](tensors, {"name": "Default"})
    for name in golden["__outputs__"]:
        _save(root / "data" / "out" / f"{name}.pt", tensors[name])
    return [f"data/in/{name}.pt" for name in inputs] + [f"data/out/{name}.pt" for name in golden["__outputs__"]]


def _save(path: Path, tensor: Any) -> None:
    import torch

    plain = tensor.detach().cpu().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    write_pt(path, str(plain.dtype).removeprefix("torch."), tuple(plain.shape), data)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _up_to_date(root: Path, digest: str) -> bool:
    try:
        stamp = json.loads((root / STAMP).read_text(encoding="utf-8"))
        return stamp["golden"] == digest and all(
            _digest(root / path) == known for path, known in stamp["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


if __name__ == "__main__":
    sys.exit(main())
