"""Small things that people type: options that are honoured, targets that exist, messages that help."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from pypto_build import cli
from tests.rules.project import Project, Saved


def test_a_flag_that_stands_alone_takes_no_other_word() -> None:
    """`--dump-tensor` was a switch that dumped everything, and the artifact may come after it."""
    command = cli.scons_words(cli.parse(["replay", "--dump-tensor", "dir"]))
    assert command[command.index("replay") :] == ["replay", "JIT=dir", "DUMP=2", "DUMP_FORMAT=tensor"]
    command = cli.scons_words(cli.parse(["replay", "--dump-args", "3", "dir", "--swimlane", "RTOL=0"]))
    assert command[command.index("replay") :] == ["replay", "JIT=dir", "DUMP=3", "SWIMLANE=4", "RTOL=0"]


def test_dump_keeps_the_level_that_was_given(chain: Saved) -> None:
    project = chain.repeated()
    assert project.scons("dump", "JIT=_jit_chain").status == 0
    assert json.loads((project.out / "dfx_outputs/args_dump/args_dump.json").read_bytes())["total_args"] == 4
    run = project.scons("dump", "JIT=_jit_chain", "DUMP=3")
    assert "run _jit_chain DUMP=3" in run.actions, run.output
    run = project.scons("dump", "JIT=_jit_chain", "DUMP=1")  # its orchestration marks nothing
    assert "run _jit_chain DUMP=1" in run.actions and "DUMP=1 for the marked ones" in run.output, run.output


def test_a_mistyped_artifact(chain: Saved) -> None:
    run = chain.repeated().scons("replay", "JIT=_jit_cahin")
    assert run.output.endswith("did you mean _jit_chain? there are: _jit_chain\n")


def test_white_space_in_what_the_compiler_declared(chain: Saved) -> None:
    """It decides by what it says: nothing is run again."""
    project = chain.repeated()
    path = project.artifact / "compiled_meta.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=4))
    assert project.replay().actions == ["sign kernel_config.py"]
    text = path.read_text()
    path.write_text(text.replace('"x"', '"z"'))
    assert project.replay().status != 0


def test_a_kernel_by_its_name(chain: Saved) -> None:
    project = chain.repeated()
    source = "build_output/_jit_chain/kernels/aiv/twice.cpp"
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
        f"env.PtoKernel(name='k', source='{source}', core_type='aiv')\n",
    )
    assert project.scons("k").status == 0
    assert (project.root / "build/a2a3sim/units/kernels/aiv/k.so").is_file()


def test_an_option_that_is_empty_is_given(chain: Saved) -> None:
    run = chain.repeated().scons("bisect", "JIT=_jit_chain", "AXIS=flags", "GOOD=", "BAD=-O0")
    assert "GOOD=: 'scons bisect' needs this option" not in run.output
    assert (
        "GOOD=: 'scons bisect' needs this option"
        in chain.project.scons("bisect", "JIT=_jit_chain", "AXIS=flags").output
    )


def test_without_pytorch_nothing_is_built_for_what_needs_it(project: Project) -> None:
    project.write("hidden/sitecustomize.py", "import sys\nsys.modules['torch'] = None\n")
    environment = {"PYTHONPATH": f"{project.root}/hidden:{project.environment()['PYTHONPATH']}"}
    for words, user in {
        ("why", "AT=0"): "'scons why'",
        ("step", "TASK=0"): "'scons step'",
        ("sweep",): "'scons sweep'",
        ("replay", "RUNTIME=torch"): "RUNTIME=torch",
        ("report", "DATA=reference"): "DATA=reference",
    }.items():
        run = project.quiet(*words, "JIT=_jit_chain", env=environment)
        message = f"scons: *** {user}: needs PyTorch, which is not installed; pip install 'pypto-build[reference]'\n"
        assert (run.status, run.output) == (2, message)
    assert not project.out.exists()


def test_an_artifact_where_its_outputs_would_go(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "build").mkdir()
    project.artifact.rename(tmp_path / "moved")
    (tmp_path / "build" / "a2a3sim").mkdir()
    artifact = tmp_path / "build" / "a2a3sim" / "_jit_chain"
    (tmp_path / "moved").rename(artifact)
    before = sorted(path.name for path in artifact.iterdir())
    run = project.quiet("replay", f"JIT={artifact}")
    reason = "the artifact lies where what is built of it would go; move it, or name another directory with BUILD_DIR="
    assert (run.status, run.output) == (2, f"scons: *** {artifact}: {reason}\n")
    assert sorted(path.name for path in artifact.iterdir()) == before


def test_clean_with_declared_rules_leaves_nothing(chain: Saved) -> None:
    project = chain.repeated()
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
        "env.PtoArtifact(dir='build_output/_jit_chain')\n",
    )
    run = project.quiet("-c")
    assert run.status == 0, run.output
    (line,) = [line for line in run.output.splitlines() if line.startswith("Removed build/a2a3sim/")]
    assert re.fullmatch(r"Removed build/a2a3sim/_jit_chain \(\d+ files; VERBOSE=1 lists them\)", line)
    assert not (project.root / "build").exists()


def test_clean_of_what_was_named(chain: Saved) -> None:
    project = chain.repeated()
    other = project.root / "build/a5sim/_jit_chain"
    other.mkdir(parents=True)
    (other / ".pypto-build").write_text("")
    assert project.quiet("-c", "JIT=build_output/_jit_chain", "PLATFORM=a2a3sim").status == 0
    assert (other / ".pypto-build").exists() and not project.out.exists()
    run = project.quiet("-c", "JIT=nope")
    assert (run.status, run.output) == (0, "scons: JIT=nope: it has no build outputs; there are: _jit_chain\n")


def test_a_signature_that_the_orchestration_contradicts(chain: Saved) -> None:
    project = chain.repeated()
    project.edit("kernel_config.py", '"core_type": "aiv"}', '"core_type": "aiv", "signature": [D.IN, D.INOUT]}')
    imports = "from pathlib import Path\n"
    project.edit("kernel_config.py", imports, f"{imports}from simpler.task_interface import ArgDirection as D\n")
    run = project.quiet("replay", "JIT=_jit_chain")
    note = "note: kernel_config.py: the signature of 'twice' is [IN, INOUT], the orchestration passes [IN, OUT]\n"
    assert (run.status, run.output.count(note)) == (0, 1), run.output
    project.edit("orchestration/chain.cpp", "params_t0.add_output(t);", "params_t0.add_no_dep(t);")
    run = project.quiet("replay", "JIT=_jit_chain")  # without a direction it contradicts none
    assert "the signature of 'twice'" not in run.output


def test_names_in_the_lines_of_scons_are_escaped(project: Project) -> None:
    """Also where the output goes to a pipe, of which a terminal may show it later."""
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
        "env.Command('a\\x1b[2Jb', 'in\\x1b[2J', 'cp $SOURCE $TARGET')\nenv.Command('c\\x1b[2Jd', [], 'false')\n",
    )
    expected = {
        "no\x1b[2J\x1b]0;title\x07": "Do not know how to make File target `no\\x1b[2J\\x1b]0;title\\x07'",
        "a\x1b[2Jb": "Source `in\\x1b[2J' not found, needed by target `a\\x1b[2Jb'",
        "c\x1b[2Jd": "scons: *** [c\\x1b[2Jd] Error 1",
    }
    for target, line in expected.items():
        run = project.quiet(target)
        assert run.status == 2 and line in run.output and "\x1b" not in run.output, run.output


def test_a_report_on_an_artifact_with_the_name_of_a_mark(chain: Saved) -> None:
    project = chain.repeated()
    shutil.copytree(project.artifact, project.artifact.with_name("_jit_@DATA@"))
    run = project.quiet("report", "JIT=_jit_@DATA@")
    assert run.status == 0, run.output
    text = (project.root / "build/a2a3sim/_jit_@DATA@/report.html").read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data and json.loads(data[1])
    assert "_jit_@DATA@</title>" in text
