"""The artifacts that come with the project are read without a remark, and their data as torch reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pypto_build.artifact import load_artifact, missing_goldens, snapshot
from pypto_build.artifact.interface import sign
from pypto_build.artifact.pt import read_pt

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "artifacts").glob("_jit_*"))


@pytest.mark.parametrize("root", EXAMPLES, ids=lambda path: path.name)
def test_example(root: Path) -> None:
    artifact = load_artifact(root)
    signed = sign(artifact)
    assert signed.interface.notes == ()
    assert all(kernel.signature is not None for kernel in signed.artifact.kernels)
    data = snapshot(artifact)
    assert missing_goldens(data, [p.name for p in signed.interface.params if p.direction in ("OUT", "INOUT")]) == ()
    for path in (*data.inputs.values(), *data.outputs.values()):
        read, loaded = read_pt(path), torch.load(path, weights_only=True)
        assert (f"torch.{read.dtype}", read.shape) == (str(loaded.dtype), tuple(loaded.shape))
        assert bytes(read.contiguous()) == loaded.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
