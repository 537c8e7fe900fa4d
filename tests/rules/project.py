"""A workspace in a temporary directory, and what running SCons in it did, action by action."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact.pt import write_pt
from tests import forked

_VERBS = "compile|link|restored|sign|run|build|make|regenerating from|  spliced ->|  restored ->"
_ACTION = re.compile(rf"^\[([\w>.-]+)\] ({_VERBS})\s+(\S.*?)(?:  \((.*)\))?$", re.MULTILINE)
_EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "artifacts"

_KERNEL = """// Kernel Function: {name}
#include <cstdint>

#include "tensor.h"
{includes}
extern "C" void kernel_entry(int64_t* args) {{
    ChipTensor* x = reinterpret_cast<ChipTensor*>(args[0]);
    ChipTensor* y = reinterpret_cast<ChipTensor*>(args[1]);
    const float* in = reinterpret_cast<const float*>(x->buffer.addr) + x->start_offset;
    float* out = reinterpret_cast<float*>(y->buffer.addr) + y->start_offset;
    for (uint32_t i = 0; i < x->shapes[0]; ++i) out[i] = {expression};
}}
"""

_ORCHESTRATION = """// Orchestration Function: chain
#include <stdint.h>

#include "pto_orchestration_api.h"

extern "C" {

__attribute__((visibility("default")))
PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {
    (void)orch_args;
    return PTO2OrchestrationConfig{.expected_arg_count = 2};
}

__attribute__((visibility("default")))
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_y = orch_args.tensor(1).ref();
    PTO2_SCOPE() {
        uint32_t t_shapes[1] = {16};
        TensorCreateInfo t_ci(t_shapes, 1, DataType::FLOAT32);
        TaskOutputTensors alloc_0 = alloc_tensors(t_ci);
        const ChipTensor& t = alloc_0.get_ref(0);

        // Task 0: twice
        CoreTaskArgs params_t0;
        params_t0.add_input(ext_x);
        params_t0.add_output(t);
        rt_submit_aiv_task(0, params_t0);

        // Task 1: plus_one
        CoreTaskArgs params_t1;
        params_t1.add_input(t);
        params_t1.add_output(ext_y);
        rt_submit_aiv_task(1, params_t1);
    }
}

}
"""

_MANIFEST = """from pathlib import Path

_ROOT_DIR = Path(__file__).parent

RUNTIME_CONFIG = {"runtime": "tensormap_and_ringbuffer", "aicpu_thread_num": 0}

ORCHESTRATION = {
\t"source": str(_ROOT_DIR / "orchestration" / "chain.cpp"),
\t"function_name": "aicpu_orchestration_entry",
}

KERNELS = [
\t{"func_id": 0, "name": "twice", "source": str(_ROOT_DIR / "kernels" / "aiv" / "twice.cpp"), "core_type": "aiv"},
\t{"func_id": 1, "name": "plus_one", "source": str(_ROOT_DIR / "kernels" / "aiv" / "plus_one.cpp"), "core_type": "aiv"},
]
"""


@dataclass(frozen=True)
class Run:
    """One SCons run: exit status, output, and the actions with their reasons."""

    status: int
    output: str
    actions: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)


class Project:
    """A workspace with one artifact, ``_jit_chain``: y = 2x + 1 in two kernels, written by hand in plain C++."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.artifact = root / "build_output" / "_jit_chain"
        self.out = root / "build" / "a2a3sim" / "_jit_chain"
        self.write("SConstruct", "from pypto_build.rules import pypto\n\nenv = Environment(tools=[pypto])\n")
        self.write_artifact()

    def write_artifact(self) -> None:
        """Write the artifact's files and its snapshot."""
        base = "build_output/_jit_chain"
        self.write_kernel("twice", "2.0f * in[i]")
        self.write_kernel("plus_one", "in[i] + 1.0f")
        self.write(f"{base}/orchestration/chain.cpp", _ORCHESTRATION)
        self.write(f"{base}/kernel_config.py", _MANIFEST)
        params = [
            {"name": "x", "direction": "In", "shape": [16], "dtype": "fp32"},
            {"name": "y", "direction": "Out", "shape": [16], "dtype": "fp32"},
        ]
        meta = {
            "schema": 1,
            "params": params,
            "num_return_types": 0,
            "platform": "a2a3sim",
            "backend_type": "Ascend910B",
        }
        self.write(f"{base}/compiled_meta.json", json.dumps(meta))
        self.write_tensor("in/x", [float(i) for i in range(16)])
        self.write_tensor("out/y", [2.0 * i + 1.0 for i in range(16)])

    def use_example(self, name: str) -> None:
        """Make a copy of an example artifact the one this project works on."""
        self.artifact = self.root / "build_output" / name
        self.out = self.root / "build" / "a2a3sim" / name
        shutil.copytree(_EXAMPLES / name, self.artifact)

    def write_kernel(self, name: str, expression: str, includes: str = "") -> None:
        """Write one kernel that sets ``out[i]`` to ``expression``."""
        text = _KERNEL.format(name=name, expression=expression, includes=includes)
        self.write(f"build_output/_jit_chain/kernels/aiv/{name}.cpp", text)

    def write_tensor(self, name: str, values: list[float]) -> None:
        """Write a float32 vector into the snapshot."""
        import array

        path = self.artifact / "data" / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_pt(path, "float32", (len(values),), array.array("f", values).tobytes())

    def write(self, path: str, text: str) -> Path:
        """Write a file of the workspace."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace ``old``, which must be there, in a file of the artifact."""
        self.edit_file(str((self.artifact / path).relative_to(self.root)), old, new)

    def edit_file(self, path: str, old: str, new: str) -> None:
        """Replace ``old``, which must be there, in a file of the workspace."""
        file = self.root / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    def scons(self, *words: str, env: dict[str, str] | None = None) -> Run:
        """Run SCons in the workspace, in a way that tells every action."""
        return self.quiet("VERBOSE=1", *words, env=env)

    def quiet(self, *words: str, env: dict[str, str] | None = None) -> Run:
        """Run SCons in the workspace as people do."""
        return self._run("SCons", ["-Q", *words], env)

    def cli(self, *words: str) -> Run:
        """Run ``pypto-build`` in the workspace."""
        return self._run("pypto_build.cli", words, None)

    def start(self, module: str, *words: str) -> subprocess.Popen[str]:
        """Start a module in the workspace, as the leader of a group of processes that Ctrl-C reaches."""
        return subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=self.root,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
        )

    def replay(self, *words: str) -> Run:
        """``scons replay`` of the artifact, with more options."""
        return self.scons("replay", f"JIT={self.artifact.name}", *words)

    def verdict(self) -> dict[str, object]:
        """The verdict on disk."""
        value = json.loads((self.out / "verdict.json").read_bytes())
        assert isinstance(value, dict)
        return value

    @property
    def store(self) -> str:
        """Its store of results."""
        return f"{self.root}.store"

    def environment(self) -> dict[str, str]:
        """The environment of a run: this checkout's package, and a store of its own."""
        here = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        return {**os.environ, **here, "PYPTO_BUILD_STORE": self.store}

    def _run(self, module: str, words: Sequence[str], env: dict[str, str] | None) -> Run:
        run = forked.run(module, words, self.root, self.environment() | (env or {}))
        return run_of(run.returncode, run.stdout)


def run_of(status: int, output: str) -> Run:
    """Return the actions of a run, from its output."""
    actions = [(f"{verb.strip()} {subject}", reason) for _, verb, subject, reason in _ACTION.findall(output)]
    return Run(status, output, sorted(action for action, _ in actions), dict(actions))


class Saved:
    """A workspace to go back to, under the same name, since records of builds hold paths: built once, used often."""

    def __init__(self, project: Project) -> None:
        self.project, self.places = project, (str(project.root), project.store)
        for directory in self.places:
            shutil.copytree(directory, f"{directory}.saved", symlinks=True)

    def repeated(self) -> Project:
        """The workspace as it was saved, and its store."""
        for directory in self.places:
            shutil.rmtree(directory)
            shutil.copytree(f"{directory}.saved", directory, symlinks=True)
        return self.project


def open_when_read(pipe: Path) -> int:
    """Return a writer of the pipe, as soon as a process waits for one."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with suppress(OSError):  # ENXIO: nobody reads it yet
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.01)
    raise AssertionError("no process reads the pipe")
