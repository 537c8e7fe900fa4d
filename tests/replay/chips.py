"""Small distributed artifacts: programs of one kernel in plain C++ on a row of x and y and a window of data and signals."""

from __future__ import annotations

import array
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pypto_build.artifact.distributed import interface_of, load_distributed
from pypto_build.artifact.interface import encode_interface
from pypto_build.artifact.pt import write_pt
from tests.replay.builder import PLATFORM, Replayed, build_artifact, embedded_module, run_tool

COUNT = 16

_KERNEL = """#include <cstdint>
#include <cstdlib>
#include <unistd.h>

#include "platform_comm/comm_context.h"
#include "pypto/core_context.h"
#include "tensor.h"

static thread_local PyptoCoreContext *core;
extern "C" void pypto_bind_core(PyptoCoreContext *context) { core = context; }
enum { EQ, NE, GT, GE, LT, LE };

template <typename T> static T *at(int64_t slot) {
    ChipTensor *tensor = reinterpret_cast<ChipTensor *>(slot);
    return reinterpret_cast<T *>(tensor->buffer.addr) + tensor->start_offset;
}
static CommContext *ctx;
template <typename T> static T *peer(T *mine, int rank) {
    return reinterpret_cast<T *>(ctx->windowsIn[rank] + (reinterpret_cast<uint64_t>(mine) - ctx->windowsIn[ctx->rankId]));
}
static inline void notify(int32_t *signal, int value) { core->signal_notify(core, signal, value, 0); }
static inline void set(int32_t *signal, int value) { core->signal_notify(core, signal, value, 1); }
static inline void wait(int32_t *signal, int value, int comparison = GE) {
    core->signal_wait(core, signal, value, comparison);
}

extern "C" void kernel_entry(int64_t *args) {
    [[maybe_unused]] float *x = at<float>(args[0]), *y = at<float>(args[1]), *data = at<float>(args[2]);
    [[maybe_unused]] int32_t *signal = at<int32_t>(args[3]);
    ctx = reinterpret_cast<CommContext *>(args[4]);
    [[maybe_unused]] const int rank = static_cast<int>(ctx->rankId), ranks = static_cast<int>(ctx->rankNum);
    constexpr int count = 16;
    (void)count;
    BODY
}
"""

_ORCHESTRATION = """#include <stdint.h>

#include "pto_orchestration_api.h"

extern "C" {

PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {
    (void)orch_args;
    return PTO2OrchestrationConfig{.expected_arg_count = 5};
}

void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
    for (int i = 0; i < TASKS; ++i) {
        CoreTaskArgs params;
        params.add_input(orch_args.tensor(0).ref());
        params.add_output(orch_args.tensor(1).ref());
        params.add_inout(orch_args.tensor(2).ref());
        params.add_inout(orch_args.tensor(3).ref());
        params.add_scalar(orch_args.scalar(0));
        rt_submit_aiv_task(i, params);
    }
}

}
"""

_MANIFEST = """from pathlib import Path

_ROOT_DIR = Path(__file__).parent
ORCHESTRATION = {"source": str(_ROOT_DIR / "orchestration" / "one.cpp"), "function_name": "aicpu_orchestration_entry"}
KERNELS = [
KERNEL_ROWS]
"""

_DRIVER = """import torch
from simpler.task_interface import CallConfig, CommBufferSpec, DataType, TaskArgs, TensorArgType
from pypto.runtime.tensor_arg import make_tensor_arg
from pypto.runtime.distributed_runner import _submit_chip


def _alloc_intermediates(tensors, world_size=1):
    tensors["__comm_d0_ord"] = [torch.zeros((1,), dtype=torch.int32).share_memory_() for _ in range(world_size)]


def host(orch, _args, config, *, tensors, callables, sub_ids, _keep, world_size, _domain_provider=None):
    with (_domain_provider or orch.allocate_domain)(
        name="comm_d0",
        workers=[*range(world_size)],
        window_size=(64) + (256),
        buffers=[
            CommBufferSpec(name="data", dtype="float32", count=16, nbytes=64),
            CommBufferSpec(name="signal", dtype="int32", count=64, nbytes=256),
        ],
    ) as domain:
        for program, r, tag, token in DISPATCHES:
            args = TaskArgs()
            args.add_tensor(make_tensor_arg(orch._worker, tensors["x"][r]), tag)
            args.add_tensor(make_tensor_arg(orch._worker, tensors["y"][r]), TensorArgType.NO_DEP)
            args.add_tensor(domain[r].buffers["data"].tensor(shapes=(16,), dtype=DataType.FLOAT32), TensorArgType.INOUT)
            args.add_tensor(domain[r].buffers["signal"].tensor(shapes=(64,), dtype=DataType.INT32), TensorArgType.INOUT)
            if token:
                args.add_tensor(make_tensor_arg(orch._worker, tensors["__comm_d0_ord"][r]), TensorArgType.INOUT)
            args.add_scalar(domain[r].device_ctx)
            _keep.append(args)
            _submit_chip(orch, callables[program], args, config, r)


host._pypto_distributed_entry = True
"""

INPUT, INOUT, NO_DEP = "TensorArgType.INPUT", "TensorArgType.INOUT", "TensorArgType.NO_DEP"


class Chips:
    """A small distributed artifact under `root` for `world` ranks.

    `programs` are kernel bodies by name, several for several tasks. `dispatches` are (program, rank, tag of x, whether
    it has the ordering token). y is expected to be `golden`.
    """

    def __init__(
        self,
        root: Path,
        world: int,
        programs: Mapping[str, str | Sequence[str]],
        dispatches: Sequence[tuple[object, ...]],
        golden: Sequence[float] | None = None,
    ) -> None:
        self.artifact, self.out = root / "_jit_chips", root / "out"
        for name, bodies in programs.items():
            listed = [bodies] if isinstance(bodies, str) else list(bodies)
            self._program(name, listed)
        rows = [
            f"        ({item[0]!r}, {item[1]}, {item[2] if len(item) > 2 else NO_DEP}, "
            f"{item[3] if len(item) > 3 else True}),\n"
            for item in dispatches
        ]
        self.write("orchestration/host_orch.py", _DRIVER.replace("DISPATCHES", f"[\n{''.join(rows)}        ]"))
        params = [
            {"name": "x", "direction": "In", "shape": [-1, COUNT], "dtype": "fp32"},
            {"name": "y", "direction": "Out", "shape": [-1, COUNT], "dtype": "fp32"},
        ]
        meta = {"schema": 2, "params": params, "distributed_config": {"device_ids": list(range(world))}}
        self.write("distributed_meta.json", json.dumps(meta))
        self._tensor("in/x", [float(COUNT * rank + i) for rank in range(world) for i in range(COUNT)], world)
        self._tensor("out/y", [value for value in golden or [0.0] * world for _ in range(COUNT)], world)

    def _program(self, name: str, bodies: Sequence[str]) -> None:
        base = f"next_levels/{name}"
        rows = []
        for number, body in enumerate(bodies):
            kernel = name if len(bodies) == 1 else f"{name}{number}"
            self.write(f"{base}/kernels/aiv/{kernel}.cpp", _KERNEL.replace("BODY", body))
            source = f'str(_ROOT_DIR / "kernels" / "aiv" / "{kernel}.cpp")'
            rows.append(f'\t{{"func_id": {number}, "name": "{kernel}", "source": {source}, "core_type": "aiv"}},\n')
        self.write(f"{base}/orchestration/one.cpp", _ORCHESTRATION.replace("TASKS", str(len(bodies))))
        self.write(f"{base}/kernel_config.py", _MANIFEST.replace("KERNEL_ROWS", "".join(rows)))

    def write(self, name: str, text: str) -> None:
        """Write a file of the artifact."""
        path = self.artifact / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _tensor(self, name: str, values: Sequence[float], world: int) -> None:
        path = self.artifact / "data" / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_pt(path, "float32", (world, COUNT), array.array("f", values).tobytes())

    def replay(self, *options: str) -> Replayed:
        """Compile and run the artifact."""
        return run_tool(self.command(*options), self.out)

    def command(self, *options: str) -> list[str]:
        """Compile the artifact; return the command that runs it."""
        distributed = load_distributed(self.artifact)
        self.out.mkdir(exist_ok=True)
        (self.out / "interface.json").write_bytes(encode_interface(interface_of(distributed)))
        words = []
        for name, chip in distributed.chips.items():
            build_artifact(chip, self.out / name)
            words += ["--chip", f"{name}={self.out / name}"]
        argv = [sys.executable, "-m", "pypto_build.replay.chips", str(self.artifact), "--platform", PLATFORM.name]
        return [*argv, "--build-dir", str(self.out), "--embedded", str(embedded_module()), *words, *options]
