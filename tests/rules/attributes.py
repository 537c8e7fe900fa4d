"""Every attribute that names a file or directory, by every kind of input: the life of a workspace, action by action.

A workspace has all attributes in one SConstruct; a row says which actions its attribute is the reason for. Texts, paths
and nodes take turns: every run gives each attribute by the next of these kinds, and what one kind built is up to date
for the others. `python -m tests.rules.attributes` prints docs/lookup/attributes.md from the rows.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.rules.project import Project

#: Kinds of input: the heading in the table.
KINDS = {
    "string": '`"k.cpp"`',
    "path": '`Path("k.cpp")`',
    "node": "`File`, `Dir`",
    "entry": "`Entry`",
    "builder": "a builder's list",
    "rule": "a rule's result",
}
_HEAD = """import itertools
import os
import shutil
from pathlib import Path
from pypto_build.rules import pypto

env = Environment(tools=[pypto])


def copy(target, source, env):
    for to, of in zip(target, source):
        shutil.copyfile(str(of), str(to))


def build(path):
    below = [os.path.join(at, name) for at, _, names in os.walk(f"src/{path}") for name in names]
    files = sorted(below) or [f"src/{path}"]
    to = "made_tests/" if path.startswith("tests/") else "made/"  # pytest looks at what is beside and above a file
    made = [file.replace("src/", to, 1) for file in files]
    return env.Command(made, [*files, "generator.txt"], Action(copy, "[copy] make " + path))


def node(path):
    return (env.Dir if os.path.isdir(f"src/{path}") else env.File)(f"src/{path}")


KINDS = {
    "string": lambda path: f"src/{path}",
    "path": lambda path: Path("src") / path,
    "node": node,
    "entry": lambda path: env.Entry(f"src/{path}"),
}
turns = itertools.cycle(list(KINDS.values()))
KINDS["builder"] = build
KINDS["plain"] = lambda path: next(turns)(path)
for _ in range(int(os.environ.get("TURN", 0))):
    next(turns)
"""
#: The call of a rule for each attribute; only that attribute is given by the kind of input.
_RULES = """
at = KINDS["%s"]
env.Alias("all", env.PtoKernel(name="k", source=at("k.cpp"), core_type="aiv"))
k = env.PtoKernel(name="included", source="fixed/included.cpp", core_type="aiv", extra_include_dirs=[at("inc")])
env.Alias("all", k)
env.Alias("all", env.PtoOrchestration(source=at("orch.cpp")))
art = at("_jit_chain")
env.Alias("all", env.PtoArtifact(dir=art))
env.Alias("all", env.KernelConfig(artifact=art, platform="a5sim"))
env.ReplayTest(name="replayed", artifact=art)
env.LintTest(name="linted", artifact=art)
env.HazardTest(name="examined", artifact=art)
env.Artifacts(name="many", artifacts=art)
env.ReplayTest(name="on_data", artifact=art, data=at("data"))
env.ReplayTest(name="on_golden", artifact=art, golden=at("golden"))
env.Artifacts(name="many_on_data", artifacts=art, data=at("many_data"))
env.Artifacts(name="many_on_golden", artifacts=art, golden=at("many_golden"))
env.ReplayTest(name="compared", artifact=art, compare=at("compare.py"))
env.Artifacts(name="many_compared", artifacts=art, compare=at("many_compare.py"))
env.HazardTest(name="examined_on_data", artifact=art, data=at("hazards_data"))
env.Alias("all", env.GoldenData(name="scripted", script=at("make.py")))
env.Alias("all", env.GoldenData(name="counted", script="fixed/read.py", deps=at("numbers.txt")))
env.Alias("all", env.GoldenData(name="computed", program=at("_jit_golden")))
env.Alias("all", env.PtoProgram(name="p", source=at("p.py")))
env.Alias("all", env.PtoProgram(name="q", source="fixed/q.py", deps=at("helper.txt")))
files = "fixed/modules/"
env.Alias("all", env.PtoModule(name="m_source", source=at("twice.pto"), kernel=files + "kernel_mul.cpp", func_id=2))
env.Alias("all", env.PtoModule(name="m_kernel", source=files + "a.pto", kernel=at("kernel_mul.cpp"), func_id=2))
m = env.PtoModule(
    name="m_orch", source=files + "b.pto", kernel=files + "kernel_mul.cpp", func_id=2, orchestration=at("submit.cpp")
)
env.Alias("all", m)
env.PyTest(name="unit", files=at("tests/test_one.py"))
env.PyTest(name="reading", files="fixed/test_reads.py", deps=at("words.txt"))
env.SceneTest(name="scene", file=at("scene_one.py"), cases=["small"])
"""
#: The same where each attribute takes what another rule makes, if one makes such a thing.
_CHAIN = """
art = env.PtoProgram(name="p", source="src/p.py")
data = env.GoldenData(name="scripted", script="src/make.py")
module = env.PtoModule(name="m_source", source="src/twice.pto", kernel="fixed/modules/kernel_mul.cpp", func_id=2)
kernel = env.PtoKernel(name="k", source=module, core_type="aiv")
env.Alias("all", kernel)
m = env.PtoModule(name="m_kernel", source="fixed/modules/a.pto", kernel=module, func_id=2)
env.Alias("all", m)
env.Alias("all", env.PtoArtifact(dir=art))
env.Alias("all", env.KernelConfig(artifact=art, platform="a5sim"))
env.ReplayTest(name="replayed", artifact=art)
env.LintTest(name="linted", artifact=art)
env.HazardTest(name="examined", artifact=art)
env.Artifacts(name="many", artifacts=art)
env.ReplayTest(name="on_data", artifact=art, data=data)
env.Artifacts(name="many_on_data", artifacts=art, data=data)
env.HazardTest(name="examined_on_data", artifact=art, data=data)
computed = env.GoldenData(name="computed", program=art)
env.Alias("all", computed)
env.ReplayTest(name="on_golden", artifact=art, golden=computed)
env.Artifacts(name="many_on_golden", artifacts=art, golden=computed)
env.Alias("all", env.GoldenData(name="counted", script="fixed/read.py", deps=kernel))
env.PyTest(name="reading", files="fixed/test_reads.py", deps=kernel)
"""
_REPOSITORY = Path(__file__).resolve().parents[2]
_MODULE = _REPOSITORY / "examples" / "artifacts" / "_jit_vector_dag"
_SCENES = _REPOSITORY / "tests" / "interop" / "scenes"
_KERNEL = """#include <cstdint>

#include "tensor.h"
{more}
extern "C" void kernel_entry(int64_t* args) {{
    float* x = reinterpret_cast<float*>(reinterpret_cast<ChipTensor*>(args[0])->buffer.addr);
    x[0] = {value} * x[1];
}}
"""
_PROGRAM = """from pathlib import Path

import pypto_build.compiler.language as pl

FACTOR = {factor}
M = pl.Tensor[[16, 16], pl.FP32]


@pl.jit.incore
def twice(x: M, y: pl.Out[M]):
    pl.store(pl.load(x, [0, 0], [16, 16]) * FACTOR, [0, 0], y)


@pl.jit
def prog(x: M, y: pl.Out[M]):
    twice(x, y)
"""
_REFERENCE = """

@prog.reference
def reference(x, y):
    y[:] = FACTOR * x
"""
_SCRIPT = """import struct
import sys
from pathlib import Path

from pypto_build.artifact.pt import write_pt

output = Path(sys.argv[sys.argv.index("--output") + 1])
for name in ("in/x.pt", "out/y.pt"):
    write_pt(output / name, "float32", {shape}, struct.pack("{count}f", *[{value}] * {count}))
"""
_GOLDEN = """import torch

__outputs__ = ["y"]


def make_inputs():
    return {"x": torch.ones(4)}


def generate_inputs(params):
    return [("x", torch.ones(4)), ("y", torch.zeros(4))]


def compute_golden(tensors, params):
    tensors["y"][:] = 2.0 * tensors["x"]
"""
_COMPARE = """def compare(name, actual, expected):
    return bool((actual == expected).all())
"""
_SCENE = """import torch
from simpler.task_interface import ArgDirection as D
from simpler_setup import SceneTestCase, TaskArgsBuilder, TensorArg, scene_test


@scene_test(level=2, runtime="tensormap_and_ringbuffer")
class TestOne(SceneTestCase):
    CALLABLE = {
        "orchestration": {
            "source": "../fixed/scene/chain.cpp",
            "function_name": "aicpu_orchestration_entry",
            "signature": [D.IN, D.OUT],
        },
        "incores": [
            {"func_id": 0, "source": "../fixed/scene/twice.cpp", "core_type": "aiv", "signature": [D.IN, D.OUT]},
            {"func_id": 1, "source": "../fixed/scene/plus_one.cpp", "core_type": "aiv", "signature": [D.IN, D.OUT]},
        ],
    }
    CASES = [{"name": "small", "platforms": ["a2a3sim"], "params": {"value": 1.0}}]

    def generate_args(self, params):
        return TaskArgsBuilder(TensorArg("x", torch.full((16,), params["value"])), TensorArg("y", torch.zeros(16)))

    def compute_golden(self, args, params):
        args.y[:] = 2 * args.x + 1
"""


def fill(project: Project, kind: str) -> None:
    """Write the sources of all rules, and the SConstruct."""
    where = "made" if kind == "builder" else "src"
    root, artifact = project.root, project.artifact
    data = artifact / "data"
    for name in ("data", "many_data", "hazards_data"):
        shutil.copytree(data, root / "src" / name)
    for name in ("golden", "many_golden"):
        shutil.copytree(data / "out", root / "src" / name)
    shutil.copytree(artifact, root / "src/_jit_chain")
    shutil.copyfile(artifact / "orchestration/chain.cpp", root / "src/orch.cpp")
    (root / "fixed/scene").mkdir(parents=True)
    for file in artifact.glob("*/**/*.cpp"):
        shutil.copyfile(file, root / "fixed/scene" / file.name)
    shutil.rmtree(root / "build_output")
    for name in ("fixed/modules/a.pto", "fixed/modules/b.pto", "src/twice.pto"):
        project.write(name, (_MODULE / "ptoas/kernel_mul.pto").read_text())
    for name in ("fixed/modules/kernel_mul.cpp", "src/kernel_mul.cpp"):
        shutil.copyfile(_MODULE / "kernels/aiv/kernel_mul.cpp", root / name)
    shutil.copyfile(_MODULE / "orchestration/vector_dag.cpp", root / "src/submit.cpp")
    chain = kind == "rule"
    one, tile = {"shape": "(1,)", "count": 1}, {"shape": "(16, 16)", "count": 256}
    read = f'float(Path("{where}/numbers.txt").read_text())'
    if chain:
        read = 'float(len(Path("build/a2a3sim/units/kernels/aiv/k.so").read_bytes()))'
    words = "build/a2a3sim/units/kernels/aiv/k.so" if chain else f"{where}/words.txt"
    texts = {
        "generator.txt": "copies\n",
        "src/k.cpp": _KERNEL.format(more="", value="5.0f"),
        "fixed/included.cpp": _KERNEL.format(more='#include "scale.h"', value="SCALE"),
        "src/inc/scale.h": "#define SCALE 6.0f\n",
        "src/make.py": _SCRIPT.format(value="0.0", **(tile if chain else one)),
        "fixed/read.py": _SCRIPT.format(value=read, **one),
        "src/numbers.txt": "3",
        "src/compare.py": _COMPARE,
        "src/many_compare.py": _COMPARE,
        "src/_jit_golden/golden.py": _GOLDEN,
        "src/p.py": _PROGRAM.format(factor="3.0") + (_REFERENCE if chain else ""),
        "fixed/q.py": _PROGRAM.format(factor=f'float(Path("{where}/helper.txt").read_text())'),
        "src/helper.txt": "4.0",
        "src/tests/test_one.py": "def test_one():\n    assert 1 == 1\n",
        "src/words.txt": "one\n",
        "fixed/test_reads.py": f"def test_reads():\n    assert open({words!r}, 'rb').read()\n",
        "src/scene_one.py": _SCENE,
        "SConstruct": _HEAD + (_CHAIN if chain else _RULES % kind),
    }
    for name, text in texts.items():
        project.write(name, text)


Edit = tuple[str, str, str]  # a file, what is replaced in it, and by what; of a tensor one number changes


@dataclass(frozen=True)
class Row:
    """The actions that an attribute is the reason for; {0} is the directory of what is given.

    ``builds``: from nothing. ``follows``: after an ``edit``. ``stays``: after an edit that changes nothing downstream,
    ``idle``, or after the file was written again as it was.
    """

    builds: list[str]
    edit: Edit
    follows: list[str]
    idle: Edit | None = None
    stays: tuple[str, ...] = ()


def _unit(source: str, library: str) -> list[str]:
    return [f"compile {source}", f"link {library}.so"]


_TWICE = _unit("{0}/_jit_chain/kernels/aiv/twice.cpp", "kernels/aiv/twice")
_UNITS = [
    *_TWICE,
    *_unit("{0}/_jit_chain/kernels/aiv/plus_one.cpp", "kernels/aiv/plus_one"),
    *_unit("{0}/_jit_chain/orchestration/chain.cpp", "orchestration/chain"),
]
_ARTIFACT = ("_jit_chain/kernels/aiv/twice.cpp", "in[i];", "in[i] + 0.0f;")
_RUN = "run _jit_chain"
_DATA, _GOLD = "run _jit_chain DATA={0}/data", "run _jit_chain golden={0}/golden"
_MANY_DATA, _MANY_GOLD = "run _jit_chain DATA={0}/many_data", "run _jit_chain golden={0}/many_golden"
_BY_FILE, _MANY_BY_FILE = (f"run _jit_chain comparator *={{0}}/{name}compare.py" for name in ("", "many_"))
#: What reads the artifact, with whatever data; which row it belongs to is another attribute.
_READ_ARTIFACT = [_DATA, _GOLD, _MANY_DATA, _MANY_GOLD, _BY_FILE, _MANY_BY_FILE, "run examined_on_data"]


def _module(name: str, source: str) -> list[str]:
    return [f"regenerating from {source}", f"spliced -> {name}"]


def _comment(file: str, before: str, mark: str = "//") -> Edit:
    return (file, before, f"{mark} a comment\n{before}")


_K, _INC, _ORCH = (
    _unit("{0}/k.cpp", "kernels/aiv/k"),
    _unit("fixed/included.cpp", "kernels/aiv/included"),
    _unit("{0}/orch.cpp", "orchestration/orch"),
)
_TEST = "tests/test_one.py"
_CASE = "run TestOne::small"
_SCENE_UNITS = [
    *_unit("fixed/scene/twice.cpp", "kernels/aiv/twice"),
    *_unit("fixed/scene/plus_one.cpp", "kernels/aiv/plus_one"),
    *_unit("fixed/scene/chain.cpp", "orchestration/chain"),
    "sign build/scenes/{1}/{1}.TestOne/kernel_config.py",
]
_MADE_P, _MADE_Q = ["compile {0}/p.py"], ["compile fixed/q.py"]

ROWS = {
    "PtoKernel.source": Row(_K, ("k.cpp", "5.0f", "7.0f"), _K, _comment("k.cpp", "#include <"), (_K[0],)),
    "PtoKernel.extra_include_dirs": Row(
        _INC, ("inc/scale.h", "6.0f", "8.0f"), _INC, _comment("inc/scale.h", "#define"), (_INC[0],)
    ),
    "PtoOrchestration.source": Row(
        _ORCH, ("orch.cpp", "= 2}", "= 3}"), _ORCH, ("orch.cpp", "<stdint.h>", "<stdint.h>  // a comment"), (_ORCH[0],)
    ),
    "PtoArtifact.dir": Row([*_UNITS, "sign {0}/_jit_chain/kernel_config.py"], _ARTIFACT, _TWICE),
    "KernelConfig.artifact": Row(["sign {0}/_jit_chain/kernel_config.py"], _ARTIFACT, []),
    "ReplayTest.artifact": Row([_RUN], _ARTIFACT, [_RUN]),
    "ReplayTest.data": Row([_DATA], ("data/in/x.pt", "", ""), [_DATA]),
    "ReplayTest.golden": Row([_GOLD], ("golden/y.pt", "", ""), [_GOLD]),
    "ReplayTest.compare": Row([_BY_FILE], ("compare.py", ".all()", ".min()"), [_BY_FILE]),
    "Artifacts.compare": Row([_MANY_BY_FILE], ("many_compare.py", ".all()", ".min()"), [_MANY_BY_FILE]),
    "Artifacts.artifacts": Row([], _ARTIFACT, []),  # the test on the artifact alone is that of ReplayTest
    "Artifacts.data": Row([_MANY_DATA], ("many_data/in/x.pt", "", ""), [_MANY_DATA]),
    "Artifacts.golden": Row([_MANY_GOLD], ("many_golden/y.pt", "", ""), [_MANY_GOLD]),
    "LintTest.artifact": Row(["run linted"], _ARTIFACT, ["run linted"]),
    "HazardTest.artifact": Row([*_UNITS, "run examined"], _ARTIFACT, [*_TWICE, "run examined"]),
    "HazardTest.data": Row(e := ["run examined_on_data"], ("hazards_data/in/x.pt", "", ""), e),
    "GoldenData.script": Row(
        e := ["make scripted"], ("make.py", "0.0", "-0.0"), e, _comment("make.py", "import sys", "#"), tuple(e)
    ),
    "GoldenData.deps": Row(
        e := ["make counted"], ("numbers.txt", "3", "4"), e, ("numbers.txt", "3", "3.0"), tuple(e)
    ),
    "GoldenData.program": Row(
        e := ["make computed"], ("_jit_golden/golden.py", "2.0", "3.0"), e,
        _comment("_jit_golden/golden.py", "import torch", "#"), tuple(e),
    ),
    "PtoProgram.source": Row(
        [*_MADE_P, "make build_output/_jit_p/data"], ("p.py", "3.0", "5.0"), _MADE_P,
        _comment("p.py", "FACTOR =", "#"), tuple(_MADE_P),
    ),
    "PtoProgram.deps": Row(
        [*_MADE_Q, "make build_output/_jit_q/data"], ("helper.txt", "4.0", "6.0"), _MADE_Q,
        ("helper.txt", "4.0", "4.00"), tuple(_MADE_Q),
    ),
    "PtoModule.source": Row(
        e := _module("m_source", "{0}/twice.pto"), ("twice.pto", "pto.tmul", "pto.tadd"), e,
        _comment("twice.pto", "module"), tuple(e),
    ),
    "PtoModule.kernel": Row(
        _module("m_kernel", "fixed/modules/a.pto"),
        ("kernel_mul.cpp", "// Kernel", "// The kernel"), ["spliced -> m_kernel"],
    ),
    "PtoModule.orchestration": Row(
        _module("m_orch", "fixed/modules/b.pto"),
        ("submit.cpp", "#include <stdint", "// more\n#include <stdint"), ["spliced -> m_orch"],
    ),
    "PyTest.files": Row(e := ["run {2}/tests/test_one.py"], (_TEST, "1 == 1", "2 == 2"), e),
    "PyTest.deps": Row(e := ["run fixed/test_reads.py"], ("words.txt", "one", "two"), e),
    "SceneTest.file": Row([*_SCENE_UNITS, _CASE], ("scene_one.py", "1.0", "2.0"), [_CASE]),
}  # fmt: skip
#: What an attribute would take from a rule, where no rule makes it.
NO_RULE = {
    "PtoKernel.extra_include_dirs": "headers",
    "PtoOrchestration.source": "an orchestration",
    "ReplayTest.compare": "a function that compares",
    "Artifacts.compare": "a function that compares",
    "GoldenData.script": "a script",
    "PtoProgram.source": "a program",
    "PtoProgram.deps": "Python modules",
    "PtoModule.source": "a module",
    "PtoModule.orchestration": "an orchestration",
    "PyTest.files": "a file of tests",
    "SceneTest.file": "a scene test",
}


#: The rows where every attribute is given what a rule makes: the edit is that of what the other rule takes.
_P, _S = "build_output/_jit_p", "build/data/scripted/snapshot"
_P_TWICE = _unit(f"{_P}/kernels/aiv/twice.cpp", "kernels/aiv/twice")
_P_UNITS = [*_P_TWICE, *_unit(f"{_P}/orchestration/prog.cpp", "orchestration/prog")]
_P_RUN, _P_DATA, _P_GOLD = "run _jit_p", f"run _jit_p DATA={_S}", "run _jit_p golden=build/data/computed/snapshot"
_P_EDIT, _P_IDLE = ("p.py", "3.0", "5.0"), _comment("p.py", "FACTOR =", "#")
_S_EDIT, _S_IDLE = ("make.py", "0.0", "-0.0"), _comment("make.py", "import sys", "#")
_M_EDIT, _M_IDLE = ("twice.pto", "pto.tmul", "pto.tadd"), _comment("twice.pto", "module")
_M_K = _unit("spliced/m_source.cpp", "kernels/aiv/k")
#: What the edits are of: the rules that make what others take.
MAKERS = [
    Row(["compile src/p.py", f"make {_P}/data"], _P_EDIT, ["compile src/p.py", f"make {_P}/data"],
        _P_IDLE, ("compile src/p.py",)),
    Row(e := ["make scripted"], _S_EDIT, e, _S_IDLE, tuple(e)),
    Row(e := _module("m_source", "src/twice.pto"), _M_EDIT, e, _M_IDLE, tuple(e)),
]  # fmt: skip
RULE_ROWS = {
    "PtoKernel.source": Row(_M_K, _M_EDIT, _M_K, _M_IDLE),
    "PtoModule.kernel": Row(
        _module("m_kernel", "fixed/modules/a.pto"), _M_EDIT, ["spliced -> m_kernel"], _M_IDLE
    ),
    "PtoArtifact.dir": Row([*_P_UNITS, f"sign {_P}/kernel_config.py"], _P_EDIT, _P_TWICE, _P_IDLE),
    "KernelConfig.artifact": Row([f"sign {_P}/kernel_config.py"], _P_EDIT, [], _P_IDLE),
    "ReplayTest.artifact": Row([_P_RUN], _P_EDIT, [_P_RUN], _P_IDLE),
    "ReplayTest.data": Row([_P_DATA], _S_EDIT, [_P_DATA], _S_IDLE),
    "Artifacts.artifacts": Row([], _P_EDIT, [], _P_IDLE),
    "Artifacts.data": Row([], _S_EDIT, [], _S_IDLE),
    "ReplayTest.golden": Row([_P_GOLD], _P_EDIT, [_P_GOLD], _P_IDLE),
    "Artifacts.golden": Row([], _P_EDIT, [], _P_IDLE),
    "LintTest.artifact": Row(["run linted"], _P_EDIT, ["run linted"], _P_IDLE, ("run linted",)),
    "HazardTest.artifact": Row([*_P_UNITS, "run examined"], _P_EDIT, [*_P_TWICE, "run examined"], _P_IDLE),
    "HazardTest.data": Row(e := ["run examined_on_data"], _S_EDIT, e, _S_IDLE),
    "GoldenData.program": Row(e := ["make computed"], _P_EDIT, e, _P_IDLE),
    "GoldenData.deps": Row(e := ["make counted"], _M_EDIT, e, _M_IDLE),
    "PyTest.deps": Row(e := ["run fixed/test_reads.py"], _M_EDIT, e, _M_IDLE),
}  # fmt: skip


def actions(rows: Iterable[Row], name: str, kind: str = "") -> list[str]:
    """Return the actions of rows that their field ``name`` has, as the kind of input has them."""
    directory = "made" if kind == "builder" else "src"
    tests = "made_tests" if kind == "builder" else "src"
    scene = f"scene_one-{hashlib.sha256(directory.encode()).hexdigest()[:6]}"
    return [action.format(directory, scene, tests) for row in rows for action in getattr(row, name)]


def change(project: Project, edit: Edit) -> None:
    """Edit a source."""
    name, old, new = edit
    if not name.endswith(".pt"):
        project.edit_file(f"src/{name}", old, new)
        return
    path = project.root / "src" / name
    before = path.read_bytes()
    at = before.index(b"\x80\x3f")
    path.write_bytes(before[: at - 2] + bytes([1]) + before[at - 1 :])  # by less than any tolerance


def run(project: Project, expected: Iterable[str], turn: int) -> None:
    """Build and test everything, and expect these actions and no more, each as often as it is listed."""
    done = project.scons("STORE_SIZE=0", "all", "test", env={"TURN": str(turn)})
    actual, planned = Counter(done.actions), Counter(expected)
    more, fewer = sorted((actual - planned).elements()), sorted((planned - actual).elements())
    assert (done.status, more, fewer) == (0, [], []), f"{more=}\n{fewer=}\n{done.output}"


def live(project: Project, kind: str) -> None:
    """Go through the life of a workspace, ``kind`` being plain, builder or rule.

    It is a first build, an edit that changes nothing downstream, edits, and ``-c``.

    A null build comes after each. The artifact is edited after the rest, so that what reads it is no reason to run what
    other attributes name.
    """
    fill(project, kind)
    sources = _files(project)
    rows = [*MAKERS, *RULE_ROWS.values()] if kind == "rule" else list(ROWS.values())
    artifact = [row for row in rows if row.edit == _ARTIFACT]
    others = [row for row in rows if row.edit != _ARTIFACT]
    copied = _copied if kind == "builder" else lambda edits: []
    turns = count()

    def step(expected: list[str], edits: Iterable[Edit | None] = ()) -> None:
        for edit in dict.fromkeys(edits):
            if edit:
                change(project, edit)
        run(project, expected, next(turns))
        run(project, [], next(turns))

    step(actions(rows, "builds", kind) + copied(row.edit for row in rows))
    if kind == "builder":
        project.write("generator.txt", "copies, with a comment\n")
        step(copied(row.edit for row in rows))
    for name in {row.edit[0] for row in rows}:
        file = project.root / "src" / name
        file.write_bytes(file.read_bytes())
    step([])
    step(actions(rows, "stays", kind) + copied(row.idle for row in rows), (row.idle for row in rows))
    step(actions(others, "follows", kind) + copied(row.edit for row in others), (row.edit for row in others))
    if artifact:
        directory = "made" if kind == "builder" else "src"
        read = [action.format(directory) for action in _READ_ARTIFACT]
        step(actions(artifact, "follows", kind) + read + copied([_ARTIFACT]), [_ARTIFACT])
    done = project.scons("-c", "all", "test")
    assert (done.status, _files(project)) == (0, sources), done.output


def _copied(edits: Iterable[Edit | None]) -> list[str]:
    """Return the actions of the builder that copies what ``edits`` are of: directories whole, files by name."""
    tops = {edit[0] if edit[0] == _TEST else edit[0].partition("/")[0] for edit in edits if edit}
    return [f"make {top}" for top in sorted(tops)]


def _files(project: Project) -> set[str]:
    """Return the paths of all files of the workspace, but modules that Python compiled."""
    paths = (path.relative_to(project.root) for path in project.root.rglob("*") if not path.is_dir())
    return {str(path) for path in paths if "__pycache__" not in path.parts}


PAGE = _REPOSITORY / "docs" / "lookup" / "attributes.md"
_INTRODUCTION = """# Attributes and what they take

This page has every attribute that names files or directories, by every kind of value. A cell with *yes* is a test. It
takes a workspace through the three steps below and expects exactly these actions. A null build after each step does
nothing.

- *first*: what is done for the attribute in a fresh directory. What a builder makes is made before.
- *idle*: what is done after an edit that changes nothing downstream, such as a comment. A file that is written again
  with the same content leads to nothing, and so does a generator that writes the same again.
- *edit*: what is done after an edit of the file or directory that the attribute names.
- `-c` removes what was built, what programs and builders made, and no source.

The last kind of value is what a rule returns. It is PtoModule for a kernel's source, PtoProgram for an artifact,
GoldenData for data, and PtoKernel for files that are read. An edit is then one of the program, the script or the
module.

A test of `Artifacts` on an artifact alone is the replay of ReplayTest there. It runs once for both.

"""


def page() -> str:
    """Return docs/lookup/attributes.md."""
    heads = [*(KINDS[kind] for kind in KINDS), "first", "idle", "edit"]
    lines = [f"| attribute | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name, row in ROWS.items():
        of_rule = "yes" if name in RULE_ROWS else f"no rule makes {NO_RULE[name]}"
        cells = [*["yes"] * (len(KINDS) - 1), of_rule]
        rule, _, attribute = name.partition(".")
        cells += map(_verbs, (row.builds, row.stays, row.follows))
        lines.append(f"| {rule} `{attribute}` | {' | '.join(cells)} |")
    return _INTRODUCTION + "\n".join(lines) + "\n"


def _verbs(done: Iterable[str]) -> str:
    """Return the actions as words: how often each."""
    counts = Counter("splice" if action.startswith("spliced") else action.partition(" ")[0] for action in done)
    return ", ".join(verb if count == 1 else f"{count} {verb}" for verb, count in counts.items()) or "-"


if __name__ == "__main__":
    sys.stdout.write(page())
