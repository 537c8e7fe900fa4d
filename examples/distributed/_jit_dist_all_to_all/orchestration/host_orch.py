# Host driver: dist_all_to_all
# Example artifact of pypto-build, written in the form of PyPTO's distributed backend
import torch
from simpler.task_interface import CallConfig, CommBufferSpec, DataType, TaskArgs, TensorArgType
from pypto.runtime.tensor_arg import make_tensor_arg
from pypto.runtime.distributed_runner import _submit_chip


def _alloc_intermediates(tensors, world_size=1):
    tensors["__comm_d0_ord"] = [torch.zeros((1,), dtype=torch.int32).share_memory_() for _ in range(max(world_size, 1))]


def dist_all_to_all(orch, _args, config, *, tensors, callables, sub_ids, _keep, world_size, _domain_provider=None):
    with (_domain_provider or orch.allocate_domain)(
        name="comm_d0",
        workers=[*range(world_size)],
        window_size=(world_size * 64 * 4) + (256),
        buffers=[
            CommBufferSpec(name="inbox_buf", dtype="float32", count=world_size * 64, nbytes=world_size * 64 * 4),
            CommBufferSpec(name="arrived_buf", dtype="int32", count=64, nbytes=256),
        ],
    ) as __comm_d0:
        for r in range(0, world_size, 1):
            tensors["x_r"] = tensors["x"][r, 0 : world_size * 64]
            tensors["y_r"] = tensors["y"][r, 0 : world_size * 64]
            _ta_0 = TaskArgs()
            _ta_0.add_tensor(make_tensor_arg(orch._worker, tensors["x_r"]), TensorArgType.INPUT)
            _ta_0.add_tensor(__comm_d0[r].buffers["inbox_buf"].tensor(shapes=(world_size * 64,), dtype=DataType.FLOAT32), TensorArgType.INOUT)
            _ta_0.add_tensor(__comm_d0[r].buffers["arrived_buf"].tensor(shapes=(64,), dtype=DataType.INT32), TensorArgType.INOUT)
            _ta_0.add_tensor(make_tensor_arg(orch._worker, tensors["y_r"]), TensorArgType.OUTPUT_EXISTING)
            _ta_0.add_tensor(make_tensor_arg(orch._worker, tensors["__comm_d0_ord"][r]), TensorArgType.INOUT)
            _ta_0.add_scalar(__comm_d0[r].device_ctx)
            _ta_0.add_scalar(__comm_d0[r].domain_size)
            _keep.append(_ta_0)
            _submit_chip(orch, callables["exchange"], _ta_0, config, r)


dist_all_to_all._pypto_distributed_entry = True
