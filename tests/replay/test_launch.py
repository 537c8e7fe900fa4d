"""A forked child computes with torch, although its parent has already used torch with several threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import torch
from pypto_build.replay.reference.launch import Progress, in_child

torch.set_num_threads(2)
torch.exp(torch.zeros(2_000_000)).sum()
print(in_child(lambda: float(torch.exp(torch.zeros(500_000)).sum()), Progress(), 20))
"""


def test_threads_of_the_parent_are_not_waited_for() -> None:
    root = Path(__file__).resolve().parents[2]
    variables = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=variables, capture_output=True, text=True, check=False, timeout=120
    )
    assert (run.returncode, run.stdout) == (0, "500000.0\n"), run.stderr
