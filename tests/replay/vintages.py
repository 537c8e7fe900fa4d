"""One artifact per vintage of the orchestration API, as that vintage wrote it: y = (x @ w) * alpha.

The orchestrations are those of tests/artifact/generated; where tensors and scalars share one argument array, alpha
stands before y, so that nothing works by accident of order.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from pypto_build.artifact.pt import write_pt
from tests.artifact.artifacts import MANIFEST, generated

SIZE = 64
ALPHA = 0.375

_KERNEL = """// Kernel Function: {name}
#include <cstdint>

#include "tensor.h"

#ifndef __gm__
#define __gm__
#endif
#ifndef __aicore__
#define __aicore__
#endif

template <typename T> static T *data_of(__gm__ int64_t *args, int slot) {{
    __gm__ {tensor} *tensor = reinterpret_cast<__gm__ {tensor} *>(args[slot]);
    return reinterpret_cast<__gm__ T *>(tensor->buffer.addr) + tensor->start_offset;
}}

// --- Kernel entry point ---
extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args) {{
{body}
}}
"""
_MM = """    float *x = data_of<float>(args, 0), *t = data_of<float>(args, 2);
    _Float16 *w = data_of<_Float16>(args, 1);
    for (int i = 0; i < 64; ++i)
        for (int j = 0; j < 64; ++j) {
            float sum = 0;
            for (int k = 0; k < 64; ++k)
                sum += x[i * 64 + k] * float(w[k * 64 + j]);
            t[i * 64 + j] = sum;
        }"""
_SCALE = """    float *t = data_of<float>(args, {t}), *y = data_of<float>(args, {y});
    union {{
        uint64_t u64;
        float val;
    }} alpha_conv;
    alpha_conv.u64 = args[{alpha}];
    for (int i = 0; i < 64 * 64; ++i)
        y[i] = t[i] * alpha_conv.val;"""
_FLOAT_TO_U64 = """
static uint64_t float_to_u64(float f) {
    union {
        float f32;
        uint64_t u64;
    } conv;
    conv.u64 = 0;
    conv.f32 = f;
    return conv.u64;
}
"""
_GRAPH = """// The first API of the host_build_graph runtime.
#include <stddef.h>
#include <stdint.h>

#include "orchestration_api.h"
#include "runtime.h"

extern "C" int build_scaled_mm(OrchestrationRuntime *runtime, const ChipStorageTaskArgs &orch_args) {
    const size_t bytes = 64 * 64 * sizeof(float);
    float alpha = from_u64<float>(orch_args.scalar(0));
    void *dev_x = device_malloc(runtime, bytes);
    copy_to_device(runtime, dev_x, orch_args.tensor(0).data_as<void>(), bytes);
    void *dev_w = device_malloc(runtime, bytes / 2);
    copy_to_device(runtime, dev_w, orch_args.tensor(1).data_as<void>(), bytes / 2);
    void *dev_t = device_malloc(runtime, bytes);
    void *dev_y = device_malloc(runtime, bytes);
    record_tensor_pair(runtime, orch_args.tensor(2).data_as<void>(), dev_y, bytes);
    uint64_t args_t0[3] = {(uint64_t)dev_x, (uint64_t)dev_w, (uint64_t)dev_t};
    int t0 = add_task(runtime, args_t0, 3, 0, CoreType::AIC);
    uint64_t args_t1[3] = {(uint64_t)dev_t, (uint64_t)dev_y, to_u64(alpha)};
    int t1 = add_task(runtime, args_t1, 3, 1, CoreType::AIV);
    add_successor(runtime, t0, t1);
    return 0;
}
"""
_METHODS = """// The first API of the host_build_graph runtime until 2026-04-03: methods, here with words for arguments.
#include "runtime.h"

extern "C" int build_scaled_mm(Runtime *runtime, uint64_t *args, int arg_count) {
    if (arg_count < 4)
        return -1;
    void *x = reinterpret_cast<void *>(args[0]);
    void *w = reinterpret_cast<void *>(args[1]);
    void *y = reinterpret_cast<void *>(args[3]);
    const size_t bytes = 64 * 64 * sizeof(float);
    void *dev_x = runtime->host_api.device_malloc(bytes);
    runtime->host_api.copy_to_device(dev_x, x, bytes);
    void *dev_w = runtime->host_api.device_malloc(bytes / 2);
    runtime->host_api.copy_to_device(dev_w, w, bytes / 2);
    void *dev_t = runtime->host_api.device_malloc(bytes);
    void *dev_y = runtime->host_api.device_malloc(bytes);
    runtime->record_tensor_pair(y, dev_y, bytes);
    float alpha = from_u64<float>(args[2]);
    uint64_t args_t0[3] = {(uint64_t)dev_x, (uint64_t)dev_w, (uint64_t)dev_t};
    int t0 = runtime->add_task(args_t0, 3, 0);
    uint64_t args_t1[3] = {(uint64_t)dev_t, (uint64_t)dev_y, to_u64(alpha)};
    int t1 = runtime->add_task(args_t1, 3, 1, CoreType::AIV);
    runtime->add_successor(t0, t1);
    return 0;
}
"""
_RECORDED_GRAPH = """
static void scaled_mm_graph(GraphTaskArgs &args, const ChipTensor *x, const ChipTensor *w, const ChipTensor *y,
                            float alpha) {
    (void)args;
    uint32_t t_shapes[2] = {64, 64};
    TensorCreateInfo t_ci(t_shapes, 2, DataType::FLOAT32);
    TaskOutputTensors alloc_0 = alloc_tensors(t_ci);
    const ChipTensor &t = alloc_0.get_ref(0);
    CoreTaskArgs params_t0;
    params_t0.add_input(*x);
    params_t0.add_input(*w);
    params_t0.add_output(t);
    rt_submit_aic_task(0, params_t0);
    CoreTaskArgs params_t1;
    params_t1.add_input(t);
    params_t1.add_output(*y);
    params_t1.add_scalar(to_u64(alpha));
    rt_submit_aiv_task(1, params_t1);
}
"""
_LISTED = {"host_build_graph, first API": _GRAPH, "host_build_graph, methods": _METHODS}


def _scalar_before_output(text: str) -> str:
    """Put alpha third and y last in a shared argument array."""
    text = text.replace("ARG_PTR_Y 2", "ARG_PTR_Y 3").replace("ARG_ALPHA 3", "ARG_ALPHA 2")
    return re.sub(r"orch_args\[([23])\]", lambda match: f"orch_args[{5 - int(match[1])}]", text)


def _orchestration(vintage: str) -> str:
    if vintage in _LISTED:
        return _LISTED[vintage]
    if vintage == "host_build_graph, second API":
        text = generated("2026-08")
        start = text.index("    PTO2_SCOPE() {")
        call = """    PTO2_SCOPE() {
        GraphTaskArgs graph_args;
        rt_submit_graph(GRAPH_KEY("scaled_mm"), scaled_mm_graph, graph_args, &ext_x, &ext_w, &ext_y, alpha);
    }
}

}  // extern "C"
"""
        return text[:start].replace('extern "C" {', _RECORDED_GRAPH + '\nextern "C" {', 1) + call
    text = generated(vintage)
    if "float_to_u64(" in text:
        text = text.replace(
            '#include "pto_orchestration_api.h"\n', f'#include "pto_orchestration_api.h"\n{_FLOAT_TO_U64}'
        )
    return _scalar_before_output(text)


def _raw(body: str) -> str:
    """Return a kernel for graphs that list arguments: it gets addresses, not descriptors."""
    return re.sub(r"data_of<(\w+)>\(args, (\d)\)", r"reinterpret_cast<\1 *>(args[\2])", body)


def write_artifact(root: Path, vintage: str) -> Path:
    """Write the artifact of a vintage with its snapshot; return its directory."""
    tensor = "ChipTensor" if vintage in ("2026-08", "host_build_graph, second API") else "Tensor"
    scale = _SCALE.format(t=0, y=1, alpha=2)
    graph = vintage.startswith("host_build_graph")
    manifest = (
        MANIFEST + f'RUNTIME_CONFIG = {{"runtime": "{"host_build_graph" if graph else "tensormap_and_ringbuffer"}"}}\n'
    )
    listed = vintage in _LISTED
    files = {
        "kernel_config.py": manifest.replace("aicpu_orchestration_entry", "build_scaled_mm") if listed else manifest,
        "orchestration/scaled_mm.cpp": _orchestration(vintage),
    }
    for name, core_type, body in (("mm", "aic", _MM), ("scale", "aiv", scale)):
        text = _KERNEL.format(name=name, tensor=tensor, body=_raw(body) if listed else body)
        files[f"kernels/{core_type}/{name}.cpp"] = text
    # An entry that lists tensors as objects contains no names.
    objects = vintage == "host_build_graph, first API"
    names = ["tensor0", "tensor1", "tensor2", "alpha"] if objects else ["x", "w", "y", "alpha"]
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    _write_data(root / "data", *names)
    return root


def _write_data(data: Path, x_name: str, w_name: str, y_name: str, alpha_name: str) -> None:
    generator = np.random.default_rng(7)
    x = generator.integers(-4, 5, (SIZE, SIZE)).astype(np.float32)
    w = generator.integers(-4, 5, (SIZE, SIZE)).astype(np.float16)
    y = (x @ w.astype(np.float32) * np.float32(ALPHA)).astype(np.float32)
    for folder, name, dtype, array in (
        ("in", x_name, "float32", x),
        ("in", w_name, "float16", w),
        ("in", alpha_name, "float32", np.array(ALPHA, np.float32)),
        ("out", y_name, "float32", y),
    ):
        path = data / folder / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_pt(path, dtype, array.shape, array.tobytes())
