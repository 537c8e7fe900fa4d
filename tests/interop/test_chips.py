"""Distributed artifacts on simpler's Worker of level 3, through the stand-in: driver, host callables, faults."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pypto_build.artifact import distributed, sign
from pypto_build.artifact.pt import write_pt
from pypto_build.replay.verdict import Verdict, read_verdict
from tests.artifact.artifacts import make_artifact, write
from tests.interop.rig import floats, put_binaries
from tests.interop.standins import STANDIN, environment

_DRIVER = """import torch
from simpler.task_interface import TaskArgs, TensorArgType
from pypto.runtime.tensor_arg import make_tensor_arg
from pypto.runtime.distributed_runner import _submit_chip


def _alloc_intermediates(tensors, world_size=1):
    tensors["parts"] = torch.zeros((world_size, 2)).share_memory_()


def total(orch, _args, config, *, tensors, callables, sub_ids, _keep, world_size, _domain_provider=None):
    for r in range(world_size):
        args = TaskArgs()
        args.add_tensor(make_tensor_arg(orch._worker, tensors["x"][r]), TensorArgType.INPUT)
        args.add_tensor(make_tensor_arg(orch._worker, tensors["parts"][r]), TensorArgType.OUTPUT_EXISTING)
        args.add_scalar(tensors["count"])
        _keep.append(args)
        _submit_chip(orch, callables["step"], args, config, RANK)
    args = TaskArgs()
    args.add_tensor(make_tensor_arg(orch._worker, tensors["parts"]), TensorArgType.INPUT)
    args.add_tensor(make_tensor_arg(orch._worker, tensors["y"]), TensorArgType.OUTPUT_EXISTING)
    orch.submit_sub(sub_ids["add_up"], args)


total._pypto_distributed_entry = True
"""
_ADD_UP = """from pypto.runtime.distributed_runner import _tensor_from_continuous


def add_up(args):
    parts, y = map(_tensor_from_continuous, args)
    y[:] = parts.sum(dim=0)
"""
#: The chip program on the stand-in: x times count, plus the number of the device.
_PROGRAM = """
def aicpu_orchestration_entry(device, tensors, scalars):
    x, part = tensors
    part[:] = x * scalars[0] + device
"""
_META = {
    "schema": 2,
    "params": [
        {"name": "x", "direction": "In", "shape": [2, 2], "dtype": "fp32"},
        {"name": "y", "direction": "Out", "shape": [2], "dtype": "fp32"},
        {"name": "count", "direction": "In", "shape": None, "dtype": "int32"},
    ],
    "num_return_types": 0,
    "platform": "a2a3sim",
    "backend_type": "Ascend910B",
    "distributed_config": {"device_ids": [0, 1], "num_sub_workers": 0, "runtime": "tensormap_and_ringbuffer"},
}


@dataclass
class Total:
    """An artifact with y = the sum over two ranks of 3 x[r] + the rank's device, built into ``out``."""

    root: Path
    out: Path

    def run(self, *words: str) -> tuple[subprocess.CompletedProcess[str], Verdict]:
        """Replay on the stand-in."""
        tool = [sys.executable, "-m", "pypto_build.interop.run", str(self.root), "--platform", "a2a3sim"]
        command = [*tool, "--build-dir", str(self.out), "--chip", f"step={self.out / 'chips/step'}", *words]
        program = str(self.root / "program.py")
        variables = {**environment(), "SIMPLER_ROOT": str(STANDIN), "PYPTO_STANDIN_PROGRAM": program}
        run = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        return run, read_verdict(self.out / "verdict.json")

    def golden(self, *values: float) -> None:
        """Set the expected y."""
        write_pt(self.root / "data/out/y.pt", "float32", (2,), floats(*values))


@pytest.fixture
def total(tmp_path: Path) -> Total:
    """Return the artifact, with the binaries of its chip program where the rules put them."""
    root, out = tmp_path / "_jit_total", tmp_path / "out"
    write(root / "orchestration/host_orch.py", _DRIVER.replace("RANK", "r"))
    write(root / "sub_workers/add_up.py", _ADD_UP)
    write(root / "program.py", _PROGRAM)
    write(root / "distributed_meta.json", json.dumps(_META))
    chip = make_artifact(root / "next_levels" / "step")
    for part in ("in", "out"):
        (root / "data" / part).mkdir(parents=True)
    write_pt(root / "data/in/x.pt", "float32", (2, 2), floats(1, 2, 3, 4))
    write_pt(root / "data/in/count.pt", "int32", (), (3).to_bytes(4, "little"))
    (out / "chips/step").mkdir(parents=True)
    assert distributed.main([str(root), "--interface", str(out / "interface.json")]) == 0
    signed = [str(chip), "--manifest", str(out / "chips/step/kernel_config.py")]
    assert sign.main([*signed, "--interface", str(out / "chips/step/interface.json")]) == 0
    put_binaries(out / "chips/step")
    made = Total(root, out)
    made.golden(13, 19)
    return made


def test_driver_chips_and_host_callable(total: Total) -> None:
    run, verdict = total.run("--rounds", "2", "--dep-gen")
    assert run.returncode == 0, run.stdout + run.stderr
    assert (verdict.status, verdict.runtime, verdict.rounds) == ("pass", "simpler", 2)
    records = total.out / "dfx_outputs"
    assert sorted(str(path.relative_to(records)) for path in records.glob("rank*/d*/*")) == [
        f"rank{rank}/d0/{name}" for rank in (0, 1) for name in ("deps.json", "dispatch_program.json")
    ]
    assert json.loads((records / "rank1/d0/dispatch_program.json").read_text()) == {"program": "step"}


def test_dispatches_without_a_rank_go_round_robin_over_the_devices(total: Total) -> None:
    driver = total.root / "orchestration/host_orch.py"
    driver.write_text(driver.read_text().replace("config, r)", "config, None)"))
    total.golden(12 + 4 + 5, 18)
    run, verdict = total.run("--devices", "4,5")
    assert run.returncode == 1
    assert [(one.index, one.actual, one.expected) for one in verdict.outputs[0].first] == [([1], 27.0, 18.0)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("host_orch.py", 'tensors["x"]', 'tensors["z"]'), "simpler: 'z'"),
        (("add_up.py", "def add_up", "def another"), "sub_workers/add_up.py defines no function 'add_up'"),
    ],
)
def test_faults(total: Total, change: tuple[str, str, str], message: str) -> None:
    name, old, new = change
    (path,) = total.root.glob(f"*/{name}")
    path.write_text(path.read_text().replace(old, new))
    run, verdict = total.run()
    assert run.returncode == 5 and verdict.error is not None
    assert message in verdict.error.message


def test_a_missing_binary(total: Total) -> None:
    shutil.rmtree(total.out / "chips/step/orchestration")
    run, verdict = total.run()
    assert run.returncode == 3 and verdict.error is not None
    assert verdict.error.message.endswith("chips/step/orchestration/scaled_mm.so: is missing")


def test_options_of_ours_are_refused(total: Total) -> None:
    run, verdict = total.run("--shuffle")
    assert run.returncode == 2 and verdict.error is not None
    assert "is for the embedded runtime" in verdict.error.message


def test_a_callable_that_the_caller_has_may_be_written_there(total: Total) -> None:
    """Use an existing file of a callable, and name a missing one, as the embedded runtime does."""
    required = total.root / "sub_workers/__required__.json"
    required.write_text('["add_up"]')
    assert total.run()[1].status == "pass"
    required.write_text('["add_up", "log"]')
    run, verdict = total.run()
    assert run.returncode == 2 and verdict.error is not None
    assert verdict.error.message.endswith("log.py: is missing: the program expects its caller to define 'log'")
