"""The smallest artifact: y = f(x) on 4x8 floats in one kernel of plain C++, submitted once for each given statement."""

from __future__ import annotations

import array
import copy
import json
import shutil
from pathlib import Path

from pypto_build.artifact.pt import write_pt
from tests.replay.builder import Replayed, build_artifact, replay

ROWS, COLUMNS = 4, 8
COUNT = ROWS * COLUMNS

#: An orchestration that runs the kernel on all of x and y.
CALL = """
        CoreTaskArgs params_t0;
        params_t0.add_input(ext_x);
        params_t0.add_output(ext_y);
        rt_submit_aiv_task(0, params_t0);
"""

_KERNEL = """#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

#include "tensor.h"
{headers}

static float *data_of(int64_t slot) {{
    ChipTensor *tensor = reinterpret_cast<ChipTensor *>(slot);
    return reinterpret_cast<float *>(tensor->buffer.addr) + tensor->start_offset;
}}

extern "C" void kernel_entry(int64_t *args) {{
    [[maybe_unused]] float *x = data_of(args[0]), *y = data_of(args[1]);
    {body}
}}
"""

_ORCHESTRATION = """// Orchestration Function: tiny
#include <stdint.h>

#include "pto_orchestration_api.h"

extern "C" {{

PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {{
    (void)orch_args;
    return PTO2OrchestrationConfig{{.expected_arg_count = 2}};
}}

void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {{
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_y = orch_args.tensor(1).ref();
    (void)ext_x;
    (void)ext_y;
    PTO2_SCOPE() {{{calls}    }}
}}

}}
"""

_MANIFEST = """from pathlib import Path

_ROOT_DIR = Path(__file__).parent
ORCHESTRATION = {
\t"source": str(_ROOT_DIR / "orchestration" / "tiny.cpp"),
\t"function_name": "aicpu_orchestration_entry",
}
KERNELS = [
\t{"func_id": 0, "name": "step", "source": str(_ROOT_DIR / "kernels" / "aiv" / "step.cpp"), "core_type": "aiv"},
]
"""


class Tiny:
    """The artifact under `root`; x counts up from 0 and the golden is x + 1."""

    def __init__(self, root: Path, body: str, calls: str = CALL, headers: str = "") -> None:
        self.artifact, self.out = root / "_jit_tiny", root / "out"
        self._write("kernels/aiv/step.cpp", _KERNEL.format(body=body, headers=headers))
        self._write("orchestration/tiny.cpp", _ORCHESTRATION.format(calls=calls))
        self._write("kernel_config.py", _MANIFEST)
        params = [
            {"name": name, "direction": direction, "shape": [ROWS, COLUMNS], "dtype": "fp32"}
            for name, direction in (("x", "In"), ("y", "Out"))
        ]
        meta = {
            "schema": 1,
            "params": params,
            "num_return_types": 0,
            "platform": "a2a3sim",
            "backend_type": "Ascend910B",
        }
        self._write("compiled_meta.json", json.dumps(meta))
        self.write_tensor("in/x", [float(i) for i in range(COUNT)])
        self.write_tensor("out/y", [i + 1.0 for i in range(COUNT)])

    def _write(self, name: str, text: str) -> None:
        path = self.artifact / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write_tensor(self, name: str, values: list[float]) -> None:
        """Write one file of the snapshot."""
        path = self.artifact / "data" / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_pt(path, "float32", (ROWS, COLUMNS), array.array("f", values).tobytes())

    def build(self) -> Tiny:
        """Compile the artifact."""
        build_artifact(self.artifact, self.out)
        return self

    def copy_to(self, root: Path) -> Tiny:
        """Copy the built artifact to another directory."""
        twin = copy.copy(self)
        twin.artifact, twin.out = root / "_jit_tiny", root / "out"
        shutil.copytree(self.artifact, twin.artifact)
        shutil.copytree(self.out, twin.out)
        return twin

    def replay(self, *options: str) -> Replayed:
        """Run the artifact."""
        return replay(self.artifact, self.out, *options)
