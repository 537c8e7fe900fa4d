"""A workspace with artifacts in it, written and judged from the outside; and the oracle, a fresh build of the same."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.trust.commands import LONGEST_S, Command, Done, run
from tests.trust.tested import Tested, must

CHAIN = "_jit_chain"
MODULE = "_jit_sum"
KERNELS_BESIDE = "_jit_beside"
RANKS = "_jit_dist_pipeline"
KERNELS = "kernels/aiv"
#: Exit statuses of ``pypto-build replay``.
PASS, MISMATCH, USAGE, BUILD, GOLDEN, FAULT, HANG, UNCHECKED = range(8)

_KERNEL = """// Kernel Function: {name}
#include <cstdint>
#include "tensor.h"
{before}
extern "C" void kernel_entry(int64_t* args) {{
    ChipTensor* x = reinterpret_cast<ChipTensor*>(args[0]);
    ChipTensor* y = reinterpret_cast<ChipTensor*>(args[1]);
    const float* in = reinterpret_cast<const float*>(x->buffer.addr) + x->start_offset;
    float* out = reinterpret_cast<float*>(y->buffer.addr) + y->start_offset;
    {inside}
    for (uint32_t i = 0; i < x->shapes[0]; ++i) out[i] = {expression};
}}
"""

ORCHESTRATION = """// Orchestration Function: chain
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

MANIFEST = """from pathlib import Path

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

_ONE_TASK = """
        // Task {number}: {name}
        CoreTaskArgs params_t{number};
        params_t{number}.add_input(orch_args.tensor(0).ref());
        params_t{number}.add_output(orch_args.tensor({argument}).ref());
        rt_submit_aiv_task({number}, params_t{number});
"""

_META: dict[str, Any] = {
    "schema": 1,
    "params": [
        {"name": "x", "direction": "In", "shape": [16], "dtype": "fp32"},
        {"name": "y", "direction": "Out", "shape": [16], "dtype": "fp32"},
    ],
    "num_return_types": 0,
    "platform": "a2a3sim",
    "backend_type": "Ascend910B",
}

PROGRAM = '''"""c = a + b on one tile."""

import pypto_build.compiler.language as pl

Matrix = pl.Tensor[[16, 16], pl.FP32]


@pl.jit.incore
def add(a: Matrix, b: Matrix, c: pl.Out[Matrix]):
    x = pl.load(a, [0, 0], [16, 16])
    y = pl.load(b, [0, 0], [16, 16])
    pl.store(x + y, [0, 0], c)


@pl.jit
def sum(a: Matrix, b: Matrix, c: pl.Out[Matrix]):
    add(a, b, c)


@sum.reference
def reference(a, b, c):
    c[:] = a + b
'''

_TENSOR = (
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK%ctQK\x00K%c\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR."
)


@dataclass(frozen=True)
class Outcome:
    """The result of a replay: its exit status, and its verdict where there has to be one."""

    exit: int
    status: str = ""
    outputs: tuple[tuple[str, str, int, str], ...] = ()


@dataclass(frozen=True)
class Replayed:
    """One replay: what it said, and the log."""

    outcome: Outcome
    done: Done
    on_disk: str  # the status of the verdict that lies there, also after a run that did not get as far

    @property
    def cached(self) -> bool:
        """Return True if the result was shown as that of an earlier run."""
        return "(cached)" in self.done.output

    def actions(self, *labels: str) -> list[str]:
        """The lines of actions that begin with one of ``labels``."""
        return [line for line in self.done.output.splitlines() if line.startswith(labels)]

    @property
    def work(self) -> list[str]:
        """The compilations, links and runs that it did."""
        return self.actions("[cpp->.so] compile", "[cpp->.so] link", "[replay] run", "[pto->cpp] regenerating")


@dataclass
class Space:
    """A workspace of its own, with a cache that only those have that are given it."""

    root: Path
    tested: Tested
    cache: Path
    variables: dict[str, str] = field(default_factory=dict)
    name: str = CHAIN

    @property
    def artifact(self) -> Path:
        """The artifact's directory."""
        return self.root / "build_output" / self.name

    @property
    def out(self) -> Path:
        """Return the directory of all that is built of the artifact."""
        return self.root / "build" / "a2a3sim" / self.name

    def write(self, path: str, content: str | bytes) -> Path:
        """Write a file of the workspace."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def write_in(self, path: str, content: str | bytes) -> Path:
        """Write a file of the artifact."""
        return self.write(f"build_output/{self.name}/{path}", content)

    def kernel(self, name: str, expression: str, before: str = "", inside: str = "") -> Path:
        """Write one kernel that sets ``out[i]`` to ``expression``."""
        return self.write_in(f"{KERNELS}/{name}.cpp", kernel_text(name, expression, before, inside))

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace ``old``, which must be there, in a file of the artifact."""
        file = self.artifact / path
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{file}: has no {old!r}"
        file.write_text(text.replace(old, new), encoding="utf-8")

    def tensor(self, path: str, values: list[float]) -> None:
        """Write a vector of float32 into the artifact's data."""
        self.write_in(f"data/{path}", tensor_bytes(values))

    def environment(self) -> dict[str, str]:
        """The environment of its commands."""
        return self.tested.environment(self.cache) | self.variables

    def words(self, verb: str, *options: str) -> list[str]:
        """The command line of a verb of ``pypto-build``."""
        return [
            str(self.tested.python),
            "-m",
            "pypto_build.cli",
            verb,
            f"build_output/{self.name}",
            "VERBOSE=1",
            *options,
        ]

    def run(
        self, verb: str, *options: str, longest_s: float = LONGEST_S, see: Callable[[str], bool] | None = None
    ) -> Done:
        """Run a verb of ``pypto-build`` on the artifact."""
        return run(self.words(verb, *options), self.root, self.environment(), longest_s, see, self.tested.forks)

    def scons(self, *words: str, longest_s: float = LONGEST_S, see: Callable[[str], bool] | None = None) -> Done:
        """Run SCons in the workspace."""
        command = [str(self.tested.python), "-m", "SCons", "-Q", "VERBOSE=1", *words]
        return run(command, self.root, self.environment(), longest_s, see, self.tested.forks)

    def start(self, *options: str) -> Command:
        """Start a replay, and leave it running."""
        return Command(self.words("replay", *options), self.root, self.environment(), forks=self.tested.forks)

    def start_scons(self, *words: str) -> Command:
        """Start SCons in the workspace, and leave it running."""
        command = [str(self.tested.python), "-m", "SCons", "-Q", "VERBOSE=1", *words]
        return Command(command, self.root, self.environment(), forks=self.tested.forks)

    def replay(self, *options: str, longest_s: float = LONGEST_S) -> Replayed:
        """Replay the artifact; that log, verdict and exit status agree is part of the test."""
        return self.judged(self.run("replay", *options, longest_s=longest_s))

    def judged(self, done: Done) -> Replayed:
        """Return the result of a replay that has ended; it must not contradict itself."""
        replayed = self.outcome_of(done)
        faults = contradictions(replayed)
        assert not faults, f"{'; '.join(faults)}\n{done}"
        return replayed

    def outcome_of(self, done: Done) -> Replayed:
        """Return the result of a replay that has ended, even if it contradicts itself."""
        return Replayed(self._outcome(done.status), done, (self.verdict() or {"status": ""})["status"])

    def _outcome(self, status: int) -> Outcome:
        """The verdict on disk; a run that did not get as far as to a verdict leaves none that counts."""
        verdict = self.verdict()
        if status == USAGE or status < 0 or verdict is None:
            return Outcome(status)
        outputs = tuple(
            (each["name"], each["status"], each["mismatched"], repr(each["max_abs"])) for each in verdict["outputs"]
        )
        return Outcome(status, verdict["status"], outputs)

    def verdict(self) -> Any:
        """The verdict on disk; None where there is none that can be read."""
        try:
            return json.loads((self.out / "verdict.json").read_bytes())
        except (OSError, ValueError):
            return None

    def fresh(self, directory: Path, cache: Path | None = None) -> Space:
        """The same sources in an empty directory; with a cache of its own where none is given."""
        shutil.copytree(self.root, directory, symlinks=True, ignore=_ignore_built(self.root))
        own = cache or self.tested.new_cache(directory.with_name(f"{directory.name}-cache"))
        variables = {name: value.replace(str(self.root), str(directory)) for name, value in self.variables.items()}
        return Space(directory, self.tested, own, variables, self.name)

    def oracle(self, directory: Path, *options: str) -> Replayed:
        """Return the result of a fresh build in an empty directory with an empty store; all of it is removed."""
        space = self.fresh(directory)
        try:
            moved = [option.replace(str(self.root), str(directory)) for option in options]
            return space.replay(*moved)
        finally:
            shutil.rmtree(space.root, ignore_errors=True)
            shutil.rmtree(space.cache, ignore_errors=True)


def kernel_text(name: str, expression: str, before: str = "", inside: str = "") -> str:
    """The C++ of a kernel that sets ``out[i]`` to ``expression``."""
    return _KERNEL.format(name=name, expression=expression, before=before, inside=inside)


def contradictions(replayed: Replayed) -> list[str]:
    """Return the contradictions within a replay: between its exit status, its log, its verdict and the time it took."""
    outcome, done = replayed.outcome, replayed.done
    if done.late:
        return ["it did not end in time"]
    passed = any(line.startswith("[RUN] PASS") for line in done.output.splitlines())
    expected = {PASS: "pass", MISMATCH: "mismatch", BUILD: "build_error", UNCHECKED: "unchecked"}
    faults = []
    if passed != (outcome.exit == PASS) and "unchecked" not in outcome.status:
        faults.append(f"status {outcome.exit}, and the log says {'PASS' if passed else 'no PASS'}")
    if outcome.exit == PASS and outcome.status not in ("pass", "unchecked"):
        faults.append(f"status 0, and the verdict is {outcome.status or 'missing'}")
    elif outcome.exit in expected and outcome.exit != PASS and outcome.status != expected[outcome.exit]:
        faults.append(f"status {outcome.exit}, and the verdict is {outcome.status or 'missing'}")
    elif outcome.exit != PASS and replayed.on_disk == "pass":
        faults.append(f"status {outcome.exit}, and the verdict that lies there says pass")
    if "Traceback (most recent call last)" in done.output:
        faults.append("it ended with a traceback")
    if done.left:
        faults.append(f"it left processes running: {done.left}")
    return faults


def tensor_bytes(values: list[float]) -> bytes:
    """A vector of less than 256 float32 values, in the form in which PyTorch saves it."""
    entries = {
        "data.pkl": _TENSOR.replace(b"K%c", b"K" + bytes([len(values)])),
        "byteorder": b"little",
        "data/0": struct.pack(f"<{len(values)}f", *values),
        "version": b"3\n",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", (1980, 1, 1, 0, 0, 0)), content)
    return file.getvalue()


def write_chain(space: Space) -> Space:
    """Write the artifact with y = 2x + 1 in two kernels of plain C++, its data, and an SConstruct."""
    space.write("SConstruct", "from pypto_build.rules import pypto\n\nenv = Environment(tools=[pypto])\n")
    space.kernel("twice", "2.0f * in[i]")
    space.kernel("plus_one", "in[i] + 1.0f")
    space.write_in("orchestration/chain.cpp", ORCHESTRATION)
    space.write_in("kernel_config.py", MANIFEST)
    space.write_in("compiled_meta.json", json.dumps(_META))
    space.tensor("in/x.pt", [float(i) for i in range(16)])
    space.tensor("out/y.pt", [2.0 * i + 1.0 for i in range(16)])
    return space


def write_kernels(space: Space, texts: Mapping[str, str]) -> Space:
    """Write an artifact of one task a kernel, each of which has to compute twice x, to an output of its own name."""
    space.name = KERNELS_BESIDE
    start, _, rest = ORCHESTRATION.partition("    const ChipTensor& ext_x")
    end = rest[rest.index("    }\n}\n}") :]
    tasks = "".join(_ONE_TASK.format(number=n, argument=n + 1, name=name) for n, name in enumerate(texts))
    text = f"{start}    PTO2_SCOPE() {{{tasks}{end}"
    space.write_in("orchestration/chain.cpp", text.replace("count = 2}", f"count = {len(texts) + 1}}}"))
    start, _, _ = MANIFEST.partition("KERNELS = [")
    rows = "".join(
        f'\t{{"func_id": {n}, "name": "{name}", "source": str(_ROOT_DIR / "kernels" / "aiv" / "{name}.cpp"), '
        '"core_type": "aiv"},\n'
        for n, name in enumerate(texts)
    )
    space.write_in("kernel_config.py", f"{start}KERNELS = [\n{rows}]\n")
    x, y = _META["params"]
    space.write_in("compiled_meta.json", json.dumps({**_META, "params": [x, *({**y, "name": name} for name in texts)]}))
    space.tensor("in/x.pt", [float(i) for i in range(16)])
    for name, text in texts.items():
        space.write_in(f"{KERNELS}/{name}.cpp", text)
        space.tensor(f"out/{name}.pt", [2.0 * i for i in range(16)])
    return space


def write_module(space: Space) -> Space:
    """Write the artifact with c = a + b, whose kernel comes from a .pto module."""
    space.name = MODULE
    space.write("SConstruct", "from pypto_build.rules import pypto\n\nenv = Environment(tools=[pypto])\n")
    shutil.copytree(space.tested.home / MODULE, space.artifact, copy_function=shutil.copy2)
    return space


def write_ranks(space: Space) -> Space:
    """Write the artifact whose first chip doubles rows and sends them, and whose second chip adds one."""
    space.name = RANKS
    space.write("SConstruct", "from pypto_build.rules import pypto\n\nenv = Environment(tools=[pypto])\n")
    shutil.copytree(Path(__file__).parents[2] / "examples" / "distributed" / RANKS, space.artifact)
    return space


def prepare_shared(tested: Tested) -> None:
    """Build the runtime's module and compile the module artifact, with the environment that is tested."""
    cache, root = tested.home / "cache", tested.home / "preparing"
    for directory in (cache, root, tested.runtime, tested.witness, tested.known, tested.home / MODULE):
        shutil.rmtree(directory, ignore_errors=True)
    cache.mkdir()
    _take_runtime(tested, cache)
    space = write_chain(Space(root, tested, cache))
    space.kernel("twice", "0.0f")
    done = space.run("replay", longest_s=600)
    if done.status != MISMATCH:
        raise RuntimeError(f"cannot prepare\n{done}")
    shutil.copytree(cache / "store", tested.known / "store")
    shutil.copytree(cache / "headers", tested.known / "headers")
    space.write("sum.py", PROGRAM)
    must(space.scons("compile", "PROGRAM=sum.py", longest_s=600))
    shutil.copytree(root / "build_output" / MODULE, tested.home / MODULE)
    for path in (tested.home / MODULE).rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    (cache / "runtime").rename(tested.runtime)
    (cache / "witness").rename(tested.witness)
    for directory in (cache, root):
        shutil.rmtree(directory)


def _take_runtime(tested: Tested, cache: Path) -> None:
    """Begin a cache with the runtime that the user's has or now gets: proven by content, it need not be built again."""
    code = "from pypto_build.rules.embedded_runtime import ensure_runtime; print(ensure_runtime())"
    outside = ("HOME", "XDG_CACHE_HOME", "PYPTO_BUILD_CACHE")
    variables = {name: value for name, value in tested.environment(cache).items() if name not in outside}
    variables |= {name: os.environ[name] for name in outside if name in os.environ}
    done = run([str(tested.python), "-c", code], tested.home, variables, longest_s=600)
    if not done.status:  # an environment with another way to build it builds it at its first replay
        directory = Path(done.output.splitlines()[-1]).parent
        shutil.copytree(directory, cache / "runtime" / directory.name, symlinks=True)


def _ignore_built(root: Path) -> Callable[[str, list[str]], list[str]]:
    """For a copy of the tree at ``root`` without what was built there."""
    return lambda directory, names: ["build"] if directory == str(root) and "build" in names else []


def with_variables(space: Space, variables: Mapping[str, str]) -> Space:
    """The same workspace under more environment variables."""
    return Space(space.root, space.tested, space.cache, {**space.variables, **variables}, space.name)
