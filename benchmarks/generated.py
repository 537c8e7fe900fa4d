"""Artifacts of any size, in the form the compiler writes, for benchmarks."""

from __future__ import annotations

import array
import json
import random
from pathlib import Path

from pypto_build.artifact.pt import write_pt

_ROWS, _COLUMNS = 64, 64

_KERNEL = """// Kernel Function: {name}
// Generated for a benchmark

#include <cstdint>

#ifndef __gm__
#define __gm__
#endif
#ifndef __aicore__
#ifdef __CPU_SIM
#define __aicore__
#else
#define __aicore__ [aicore]
#endif
#endif

#include <pto/pto-inst.hpp>
#include "tensor.h"

using namespace pto;

// --- ptoas-generated code ---
static __aicore__ void {name}(__gm__ float* v1, __gm__ float* v2) {{
  const int64_t v3 = {rows};
  const int64_t v4 = {columns};
  using T = float;
#if defined(__DAV_VEC__)
  set_mask_norm();
  set_vector_mask(-1, -1);
  Tile<TileType::Vec, float, {rows}, {columns}, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null> v5(v3, v4);
  TASSIGN(v5, (uint64_t)0);
  Tile<TileType::Vec, float, {rows}, {columns}, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null> v6(v3, v4);
  TASSIGN(v6, (uint64_t){bytes});
  pto::Shape<1, 1, 1, {rows}, {columns}> v7 = pto::Shape<1, 1, 1, {rows}, {columns}>();
  pto::Stride<{area}, {area}, {area}, {columns}, 1> v8 = pto::Stride<{area}, {area}, {area}, {columns}, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, {rows}, {columns}>, pto::Stride<{area}, {area}, {area}, {columns}, 1>, pto::Layout::ND> v9(v1, v7, v8);
  TLOAD(v5, v9);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TMULS(v6, v5, {factor}f);
  TADDS(v6, v6, {offset}f);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  GlobalTensor<float, pto::Shape<1, 1, 1, {rows}, {columns}>, pto::Stride<{area}, {area}, {area}, {columns}, 1>, pto::Layout::ND> v10(v2, v7, v8);
  TSTORE(v10, v6);
#endif
  return;
}}

// --- Kernel entry point ---
extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t* args) {{
    // Unpack tensor: x
    __gm__ ChipTensor* x_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[0]);
    __gm__ float* x = reinterpret_cast<__gm__ float*>(x_tensor->buffer.addr) + x_tensor->start_offset;

    // Unpack tensor: y
    __gm__ ChipTensor* y_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[1]);
    __gm__ float* y = reinterpret_cast<__gm__ float*>(y_tensor->buffer.addr) + y_tensor->start_offset;

    {name}(x, y);
}}
"""

_ORCHESTRATION = """// Orchestration Function: chain
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pto_orchestration_api.h"

extern "C" {{

__attribute__((visibility("default")))
PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {{
    (void)orch_args;
    return PTO2OrchestrationConfig{{
        .expected_arg_count = 2,
    }};
}}

__attribute__((visibility("default")))
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {{
    // External tensors
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_y = orch_args.tensor(1).ref();

    PTO2_SCOPE() {{
{body}    }}
}}

}}  // extern "C"
"""


def write_chain(directory: Path, kernels: int) -> Path:
    """An artifact of ``kernels`` AIV kernels, each ``y = factor * x + offset`` on the output of the one before.

    Written into ``directory/_jit_chain_<kernels>`` with a snapshot; returns that path.
    """
    root = directory / f"_jit_chain_{kernels}"
    numbers = random.Random(0)
    golden = [numbers.uniform(-1.0, 1.0) for _ in range(_ROWS * _COLUMNS)]
    _write_tensor(root / "data/in/x.pt", golden)
    entries, body = [], ""
    for index in range(kernels):
        name, factor, offset = f"step_{index}", (1.5, 0.5, 1.0)[index % 3], 0.25 * (index % 5)
        golden = [value * factor + offset for value in _rounded(golden)]
        _write(root / f"kernels/aiv/{name}.cpp", _kernel(name, factor, offset))
        entries.append(_entry(index, name, "[_D.IN, _D.OUT]"))
        body += _task(index, index == kernels - 1)
    _write_tensor(root / "data/out/y.pt", _rounded(golden))
    _write(root / "orchestration/chain.cpp", _ORCHESTRATION.format(body=body))
    _write(root / "kernel_config.py", _manifest(entries))
    _write(root / "compiled_meta.json", _meta())
    return root


def _kernel(name: str, factor: float, offset: float) -> str:
    area = _ROWS * _COLUMNS
    sizes = {"rows": _ROWS, "columns": _COLUMNS, "area": area, "bytes": 4 * area}
    return _KERNEL.format(name=name, factor=f"{factor:.6f}", offset=f"{offset:.6f}", **sizes)


def _task(index: int, last: bool) -> str:
    source = "ext_x" if index == 0 else f"t{index - 1}"
    target = "ext_y" if last else f"t{index}"
    text = ""
    if not last:
        text += f"        uint32_t t{index}_ci_shapes[2] = {{{_ROWS}, {_COLUMNS}}};\n"
        text += f"        TensorCreateInfo t{index}_ci(t{index}_ci_shapes, 2, DataType::FLOAT32);\n"
        text += f"        TaskOutputTensors alloc_{index} = alloc_tensors(t{index}_ci);\n"
        text += f"        const ChipTensor& t{index} = alloc_{index}.get_ref(0);\n"
    text += f"\n        // Task {index}: step_{index}\n        CoreTaskArgs params_t{index};\n"
    text += f"        params_t{index}.add_input({source});\n        params_t{index}.add_output({target});\n"
    return text + f"        rt_submit_aiv_task({index}, params_t{index});\n"


def _entry(func_id: int, name: str, signature: str) -> str:
    source = f'str(_ROOT_DIR / "kernels" / "aiv" / "{name}.cpp")'
    fields = f'"func_id": {func_id}, "name": "{name}", "source": {source}, "core_type": "aiv", "signature": {signature}'
    return f"\t{{{fields}}},"


def _meta() -> str:
    ways = (("x", "In"), ("y", "Out"))
    params = [
        {"name": name, "direction": direction, "shape": [_ROWS, _COLUMNS], "dtype": "fp32"} for name, direction in ways
    ]
    meta = {"schema": 1, "params": params, "num_return_types": 0, "platform": "a2a3sim", "backend_type": "Ascend910B"}
    return json.dumps(meta, indent=2)


def _manifest(entries: list[str]) -> str:
    lines = [
        "from pathlib import Path",
        "from simpler.task_interface import ArgDirection as _D",
        "_ROOT_DIR = Path(__file__).parent",
        'RUNTIME_CONFIG = {"runtime": "tensormap_and_ringbuffer", "aicpu_thread_num": 0}',
        'ORCHESTRATION = {"source": str(_ROOT_DIR / "orchestration" / "chain.cpp"), '
        '"function_name": "aicpu_orchestration_entry", "signature": [_D.IN, _D.OUT]}',
        "KERNELS = [",
        *entries,
        "]",
    ]
    return "\n".join(lines) + "\n"


def _rounded(values: list[float]) -> list[float]:
    return list(array.array("f", values))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _write_tensor(path: Path, values: list[float]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_pt(path, "float32", (_ROWS, _COLUMNS), array.array("f", values).tobytes())
