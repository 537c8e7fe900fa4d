"""Tests that drive a worker themselves, as simpler's own do: compile, register, run, look at what came of it."""

import os
import re
import struct

import pytest
import torch
from simpler.task_interface import ArgDirection as D
from simpler.task_interface import CallConfig, ChipCallable, CoreCallable, DataType, TaskArgs, TensorArgType
from simpler.worker import Worker
from simpler_setup.kernel_compiler import KernelCompiler
from simpler_setup.pto_isa import ensure_pto_isa_root
from simpler_setup.torch_interop import make_tensor_arg

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")
RUNTIME = "tensormap_and_ringbuffer"


def program(platform, orchestration, kernels):
    compiler = KernelCompiler(platform=platform)
    include_dirs = compiler.get_orchestration_include_dirs(RUNTIME)
    children = []
    for func_id, (name, signature) in kernels.items():
        binary = compiler.compile_incore(
            source_path=os.path.join(KERNELS, name),
            core_type="aiv",
            pto_isa_root=ensure_pto_isa_root(),
            extra_include_dirs=include_dirs,
        )
        children.append((func_id, CoreCallable.build(signature=signature, binary=binary)))
    binary = compiler.compile_orchestration(RUNTIME, os.path.join(KERNELS, orchestration))
    return ChipCallable.build([D.IN, D.OUT, D.INOUT], "aicpu_orchestration_entry", binary, children)


@pytest.mark.platforms(["a2a3sim", "a5sim", "a2a3"])
@pytest.mark.device_count(1)
def test_a_program(st_platform, st_device_ids, capfd):
    worker = Worker(level=2, platform=st_platform, runtime=RUNTIME, device_id=st_device_ids[0])
    kernels = {3: ("scaled.cpp", [D.IN, D.OUT, D.INOUT]), 7: ("twice.cpp", [D.INOUT])}
    handle = worker.register(program(st_platform, "chain.cpp", kernels))
    again, other = (worker.register(program(st_platform, name, kernels)) for name in ("chain.cpp", "fatal.cpp"))
    assert handle.hashid.startswith("sha256:") and again.hashid == handle.hashid != other.hashid
    worker.init()
    x, y, z = torch.rand(16), torch.zeros(16), torch.ones(16)
    buffer = worker.malloc(64)
    worker.copy_to(buffer, z)
    for _ in range(2):
        args = TaskArgs()
        args.add_tensor(make_tensor_arg(worker, x), TensorArgType.INPUT)
        args.add_tensor(make_tensor_arg(worker, y), TensorArgType.OUTPUT_EXISTING)
        args.add_tensor(buffer.tensor(shapes=(16,), dtype=DataType.FLOAT32), TensorArgType.INOUT)
        args.add_scalar(struct.unpack("<I", struct.pack("<f", 1.5))[0])
        worker.run(handle, args, CallConfig())
    worker.copy_from(z, buffer)
    assert torch.allclose(y, 3 * x) and torch.allclose(z, 1 + x + x)
    log = capfd.readouterr().err
    for name in ("chip.run", "chip.run.runner_run.device_wall", "chip.run.runner_run.device_wall.task_slot_3"):
        assert len(re.findall(rf"\[STRACE\] .* name={name} ts=\d+ dur=[1-9]", log)) == 2, name
    worker.close()


@pytest.mark.platforms(["a2a3sim"])
def test_the_code_of_a_fault(st_platform, capfd):
    worker = Worker(level=2, platform=st_platform, runtime=RUNTIME)
    handle = worker.register(program(st_platform, "fatal.cpp", {}))
    with pytest.raises(RuntimeError, match=r"run failed with code -5\b.*geometry 3"):
        worker.run(handle, None, CallConfig())
    captured = capfd.readouterr()
    assert "orch_error_code=5" in captured.err and "error detail: INVALID_ARGS" in captured.err


@pytest.mark.platforms(["a2a3sim"])
@pytest.mark.parametrize("mode, code", [(0, 101), (1, 102), (2, 0)])
def test_what_a_kernel_leaves_to_wait_for(st_platform, capfd, mode, code):
    worker = Worker(level=2, platform=st_platform, runtime=RUNTIME)
    kernels = {1: ("defers.cpp", [D.INOUT]), 2: ("notifies.cpp", [D.IN])}
    handle = worker.register(program(st_platform, "defer.cpp", kernels))
    counter = worker.malloc(64)
    worker.copy_to(counter, torch.zeros(16, dtype=torch.int32))
    args = TaskArgs()
    args.add_tensor(counter.tensor(shapes=(16,), dtype=DataType.INT32), TensorArgType.INOUT)
    args.add_scalar(mode)
    if code:
        with pytest.raises(RuntimeError, match=rf"run failed with code -{code}\b"):
            worker.run(handle, args, CallConfig())
        assert f"sched_error_code={code}" in capfd.readouterr().err
        return
    worker.run(handle, args, CallConfig())
    after = torch.zeros(16, dtype=torch.int32)
    worker.copy_from(after, counter)
    assert after.tolist()[:3] == [3, 4, 0]


@pytest.mark.platforms(["a2a3sim", "a5sim"])
def test_what_nothing_stands_in_for(st_platform):
    Worker(level=4, platform=st_platform)


@pytest.mark.manual(["a2a3sim"])
def test_manual(st_platform):
    assert st_platform == "a5sim"


@pytest.mark.requires_hardware
def test_on_a_chip(st_worker):
    raise AssertionError
