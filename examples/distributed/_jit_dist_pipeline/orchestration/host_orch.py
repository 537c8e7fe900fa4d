# Host driver: dist_pipeline
# Example artifact of pypto-build, written in the form of PyPTO's distributed backend
import torch
from simpler.task_interface import CallConfig, CommBufferSpec, DataType, TaskArgs, TensorArgType
from pypto.runtime.tensor_arg import make_tensor_arg
from pypto.runtime.distributed_runner import _submit_chip


def _alloc_intermediates(tensors, world_size=1):
    tensors["__comm_d0_ord"] = [torch.zeros((1,), dtype=torch.int32).share_memory_() for _ in range(max(world_size, 1))]


def dist_pipeline(orch, _args, config, *, tensors, callables, sub_ids, _keep, world_size, _domain_provider=None):
    with (_domain_provider or orch.allocate_domain)(
        name="comm_d0",
        workers=[0, 1],
        window_size=(2048) + (64) + (64),
        buffers=[
            CommBufferSpec(name="slots_buf", dtype="float32", count=512, nbytes=2048),
            CommBufferSpec(name="full_buf", dtype="int32", count=16, nbytes=64),
            CommBufferSpec(name="free_buf", dtype="int32", count=16, nbytes=64),
        ],
    ) as __comm_d0:
        _ta_0 = TaskArgs()
        _ta_0.add_tensor(make_tensor_arg(orch._worker, tensors["x"]), TensorArgType.INPUT)
        _ta_0.add_tensor(__comm_d0[0].buffers["slots_buf"].tensor(shapes=(2, 256), dtype=DataType.FLOAT32), TensorArgType.INOUT)
        _ta_0.add_tensor(__comm_d0[0].buffers["full_buf"].tensor(shapes=(16,), dtype=DataType.INT32), TensorArgType.INOUT)
        _ta_0.add_tensor(__comm_d0[0].buffers["free_buf"].tensor(shapes=(16,), dtype=DataType.INT32), TensorArgType.INOUT)
        _ta_0.add_tensor(make_tensor_arg(orch._worker, tensors["__comm_d0_ord"][0]), TensorArgType.INOUT)
        _ta_0.add_scalar(__comm_d0[0].device_ctx)
        _keep.append(_ta_0)
        _submit_chip(orch, callables["stage_one"], _ta_0, config, 0)
        _ta_1 = TaskArgs()
        _ta_1.add_tensor(__comm_d0[1].buffers["slots_buf"].tensor(shapes=(2, 256), dtype=DataType.FLOAT32), TensorArgType.INOUT)
        _ta_1.add_tensor(__comm_d0[1].buffers["full_buf"].tensor(shapes=(16,), dtype=DataType.INT32), TensorArgType.INOUT)
        _ta_1.add_tensor(__comm_d0[1].buffers["free_buf"].tensor(shapes=(16,), dtype=DataType.INT32), TensorArgType.INOUT)
        _ta_1.add_tensor(make_tensor_arg(orch._worker, tensors["y"]), TensorArgType.OUTPUT_EXISTING)
        _ta_1.add_tensor(make_tensor_arg(orch._worker, tensors["__comm_d0_ord"][1]), TensorArgType.INOUT)
        _ta_1.add_scalar(__comm_d0[1].device_ctx)
        _keep.append(_ta_1)
        _submit_chip(orch, callables["stage_two"], _ta_1, config, 1)


dist_pipeline._pypto_distributed_entry = True
