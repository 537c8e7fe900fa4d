"""Uses of our rules by users of SCons: SConscripts, variant directories, clones, and targets of their own."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.rules.project import Project, Run, Saved
from tests.rules.test_hazards import ROUND_TRIP
from tests.rules.test_watch import watching

_TOOL = "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
_SCENES = Path(__file__).resolve().parents[1] / "interop" / "scenes"
_ART = "build_output/_jit_chain"
_KERNEL = '#include <cstdint>\n#include "tensor.h"\n#include "scale.h"\nextern "C" void kernel_entry(int64_t*) {}\n'


@pytest.fixture
def project(stocked: Project) -> Project:
    """Return a project whose binaries are built; most tests here concern later steps."""
    return stocked


def script(project: Project, text: str, path: str = "SConstruct") -> None:
    """Write a script; the one at the top calls the tool."""
    project.write(path, (_TOOL if path == "SConstruct" else "") + text)


def acted(run: Run) -> list[str]:
    """The actions of a run that did not fail, but for what the store had and the manifest."""
    return [action for action in ran(run) if not action.startswith(("restored", "sign"))]


def ran(run: Run) -> list[str]:
    """The actions of a run that did not fail."""
    assert run.status == 0, run.output
    return run.actions


def test_an_sconscript_has_its_own_paths(project: Project) -> None:
    """Its artifact, data and sources lie beside it; what it exports and returns is used at the top."""
    script(
        project, "Export('env')\ntest = SConscript('team/SConscript')\nenv.Alias('mine', env.Install('out', test))\n"
    )
    script(project, "Import('env')\nReturn('test')\n", "team/SConscript")
    project.edit_file(
        "team/SConscript", "Return", "test = env.ReplayTest(name='t', artifact='art/_jit_chain', data='data')\nReturn"
    )
    shutil.move(project.artifact / "data", project.root / "team" / "data")
    shutil.move(project.artifact, project.root / "team" / "art" / "_jit_chain")
    assert acted(project.scons("mine")) == ["run _jit_chain DATA=team/data"]
    assert (project.root / "out" / "verdict.json").is_file()
    assert ran(project.scons("t")) == []


def test_a_variant_directory(project: Project) -> None:
    """Sources are those of the directory, copied or not; what is made lies in the variant directory."""
    text = (
        "Import('env')\n"
        "env.Command('scale.h', 'scale.in', Copy('$TARGET', '$SOURCE'))\n"
        "env.PtoKernel(name='k', source='k.cpp', core_type='aiv', extra_include_dirs=['.'])\n"
        "env.ReplayTest(name='t', artifact='_jit_chain')\n"
    )
    script(project, text, "team/SConscript")
    project.write("team/k.cpp", _KERNEL)
    project.write("team/scale.in", "// nothing\n")
    shutil.move(project.artifact, project.root / "team" / "_jit_chain")
    for duplicate in (0, 1):
        script(
            project,
            f"Export('env')\nSConscript('team/SConscript', variant_dir='v{duplicate}', duplicate={duplicate})\n",
        )
        run = project.scons("k", "t")
        where = ("team", "v1")[duplicate]
        assert f"compile {where}/k.cpp" in ran(run) or "link kernels/aiv/k.so" in run.actions or not duplicate
        assert (project.root / f"v{duplicate}/scale.h").is_file() and not (project.root / "team/scale.h").exists()
        assert ran(project.scons("k", "t")) == []
        project.edit_file("team/scale.in", "nothing", f"nothing {duplicate}")
        assert ran(project.scons("k", "t")) == [f"compile {where}/k.cpp"]


def test_clones_and_other_environments_share_a_workspace(project: Project) -> None:
    script(
        project,
        "other = Environment(tools=[pypto])\n"
        "clone = env.Clone()\n"
        f"env.ReplayTest(name='a', artifact='{_ART}')\n"
        f"other.ReplayTest(name='b', artifact='{_ART}', rtol=1)\n"
        f"clone.ReplayTest(name='c', artifact=clone.PtoArtifact(dir='{_ART}'))\n"
        "for e in (env, other):\n"
        f"    e.PtoKernel(name='k', source='{_ART}/kernels/aiv/twice.cpp', core_type='aiv')\n",
    )
    actions = [action for action in ran(project.scons("a", "b", "c", "k")) if action.startswith("run")]
    assert actions == ["run _jit_chain", "run _jit_chain RTOL=1.0"]
    assert ran(project.scons("-j4", "a", "b", "c", "k")) == []


MISTAKES = {
    f"env.ReplayTest(name='a', artifact='{_ART}')\nenv.ReplayTest(name='a', artifact='{_ART}', rtol=1)\n": (
        "name='a': two tests have this name; give each test its own name"
    ),
    "env.PtoProgram(name='p', source='a.py')\nenv.PtoProgram(name='p', source='b.py')\n": (
        "PtoProgram: two programs make the artifact _jit_p: a.py for a2a3sim and b.py for a2a3sim; "
        "give one of them another name"
    ),
    "env.GoldenData(name='d')\n": "GoldenData: d has both or neither of script= and program=; give exactly one of them",
    "env.Artifacts(name='d', pattern='nowhere/*')\n": (
        "Artifacts: pattern='nowhere/*' matches no artifact; compile one, or declare its program earlier in the script"
    ),
    "env.PtoKernel(name='k', source=env.Alias('x'), core_type='aiv')\n": (
        "PtoKernel: source: x is an alias, but a file is expected; the attribute is the kernel's C++ file"
    ),
    "env.ReplayTest(name='t', artifact='a.py')\n": (
        "ReplayTest: artifact='a.py' is not a directory; the attribute is the artifact's directory"
    ),
    "env.TestSuite(name='s')\n": "TestSuite: s has neither tests nor tags; give one of the two",
    f"env.ReplayTest(name='t', artifact='{_ART}', comparators={{'y': 'a.py'}})\n": (
        "ReplayTest: comparators: y: a.py is not the name of a comparator; name a file of comparators with compare="
    ),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_one_line(project: Project, text: str) -> None:
    for name in ("a.py", "b.py"):
        project.write(name, "")
    script(project, text)
    run = project.quiet("test")
    assert (run.status, run.output) == (2, f"scons: *** {MISTAKES[text]}\n")


def test_two_artifacts_of_one_name(project: Project) -> None:
    """They would be built in one place."""
    shutil.copytree(project.artifact, project.root / "other" / "_jit_chain")
    script(
        project,
        f"env.ReplayTest(name='a', artifact='{_ART}')\nenv.ReplayTest(name='b', artifact='other/_jit_chain')\n",
    )
    run = project.scons("-j1", "test")
    message = f"{project.root}/other/_jit_chain: would be built in the same directory as {_ART}; give one another name"
    assert run.status == 2 and f"b: {message}" in run.output
    assert "[test] PASS      a" in run.output


def test_what_depends_on_a_test_waits_for_one_that_passes(project: Project) -> None:
    """By `Depends`, as a source and by `Requires`; `Default` runs it."""
    script(
        project,
        f"test = env.ReplayTest(name='t', artifact='{_ART}')\n"
        "release = env.Command('release.txt', 'SConstruct', Copy('$TARGET', '$SOURCE'))\n"
        "env.Depends(release, test)\n"
        "env.Requires(env.Command('other.txt', 'SConstruct', Copy('$TARGET', '$SOURCE')), test)\n"
        "env.Command('copy.json', test, Copy('$TARGET', '$SOURCE'))\n"
        "Default(test)\n",
    )
    project.edit("kernels/aiv/twice.cpp", "2.0f", "4.0f")
    run = project.quiet("-k", "release.txt", "other.txt", "copy.json")
    assert run.status == 2 and "Mismatched elements" in run.output
    assert not any((project.root / name).exists() for name in ("release.txt", "other.txt", "copy.json"))
    project.edit("kernels/aiv/twice.cpp", "4.0f", "2.0f")
    assert project.scons("release.txt", "other.txt", "copy.json").status == 0
    assert all((project.root / name).exists() for name in ("release.txt", "other.txt", "copy.json"))
    run = project.quiet("release.txt", "other.txt", "copy.json")
    assert (run.status, "Copy(" in run.output) == (0, False)  # signatures of builders that are not ours are kept
    assert "(cached)" in project.scons().output


def test_a_failure_with_keep_going_builds_the_rest(project: Project) -> None:
    script(
        project,
        "import sys\n"
        "broken = env.Command('made/broken.cpp', [], sys.executable + ' -c \"raise SystemExit(3)\"')\n"
        "env.PtoKernel(name='broken', source=broken, core_type='aiv')\n"
        f"env.ReplayTest(name='t', artifact='{_ART}')\n"
        f"env.ReplayTest(name='u', artifact='{_ART}', data=env.Command('made/in/x.pt', [], 'exit 3'))\n",
    )
    run = project.scons("-k", "broken", "t", "u")
    assert run.status == 2
    assert [action for action in run.actions if action.startswith("run")] == ["run _jit_chain"]
    run = project.scons("test")
    assert (run.status, run.actions) == (2, [])
    assert "[test] PASS      t    cached" in run.output and "[test] ERROR     u" in run.output


def test_decider_no_clean_always_build_and_explain(project: Project) -> None:
    script(
        project,
        "env.Decider('timestamp-match')\n"
        "header = env.Command('made/scale.h', 'scale.in', Copy('$TARGET', '$SOURCE'))\n"
        "kernel = env.PtoKernel(name='k', source='k.cpp', core_type='aiv', extra_include_dirs=['made'])\n"
        "env.NoClean(header)\n"
        "if ARGUMENTS.get('FORCE'):\n    env.AlwaysBuild(header)\n",
    )
    project.write("k.cpp", _KERNEL)
    project.write("scale.in", "// nothing\n")
    assert project.scons("k").status == 0
    os.utime(project.root / "scale.in", (1, 1))  # another time: their builder runs, ours finds nothing new
    run = project.scons("k", "--debug=explain")
    assert run.actions == [] and "scons: rebuilding `made/scale.h' because `scale.in' changed\n" in run.output
    run = project.scons("k", "FORCE=1")
    assert run.actions == [] and "Copy(" in run.output
    assert project.scons("-c", "k").status == 0
    assert (project.root / "made/scale.h").exists() and not (project.root / "build").exists()


_PROGRAM = """import pypto_build.compiler.language as pl

M = pl.Tensor[[16, 16], pl.FP32]


@pl.jit.incore
def twice(x: M, y: pl.Out[M]):
    pl.store(pl.load(x, [0, 0], [16, 16]) * 2.0, [0, 0], y)


@pl.jit
def prog(x: M, y: pl.Out[M]):
    twice(x, y)
"""
_REFERENCE = """

@prog.reference
def reference(x, y):
    y[:] = x * 2
"""


def test_files_of_an_artifact_before_the_rule_that_makes_it(project: Project) -> None:
    """The order of rules decides nothing: program, what it is made from, and files in its artifact by their names."""
    project.write("p.in", _PROGRAM)
    script(
        project,
        "kernel = env.PtoKernel(name='k', source='build_output/_jit_p/kernels/aiv/twice.cpp', core_type='aiv')\n"
        "env.Alias('all', [kernel, env.Install('inst', 'build_output/_jit_p/orchestration/prog.cpp')])\n"
        "env.PtoProgram(name='p', source='made/p.py')\n"
        "env.Command('made/p.py', 'p.in', Copy('$TARGET', '$SOURCE'))\n",
    )
    unit = ["compile build_output/_jit_p/kernels/aiv/twice.cpp", "link kernels/aiv/k.so"]
    before = ["compile made/p.py", "make build_output/_jit_p/data"]
    assert ran(project.scons("-n", "k")) == [*unit[:1], *before[:1], *unit[1:], *before[1:]]
    assert not (project.root / "build_output/_jit_p").exists()
    run = project.scons("all")
    assert ran(run) == [*unit[:1], *before[:1], *unit[1:], *before[1:]]
    assert (project.root / "inst/prog.cpp").is_file()
    assert ran(project.scons("all")) == []
    shutil.rmtree(project.root / "build_output/_jit_p")
    assert ran(project.scons("build_output/_jit_p/kernels/aiv/twice.cpp")) == before
    project.edit_file("p.in", "2.0", "3.0")
    run = project.scons("compile", "PROGRAM=made/p.py")  # the same target as that of the rule
    assert ran(run) == before[:1] and "warning" not in run.output


CIRCLES = {
    "a = env.Command('a.cpp', 'b.cpp', Copy('$TARGET', '$SOURCE'))\n"
    "env.Command('b.cpp', a, Copy('$TARGET', '$SOURCE'))\n"
    "env.Alias('t', env.PtoKernel(name='k', source=a, core_type='aiv'))\n": (
        "a.cpp depends on itself: a.cpp needs b.cpp needs a.cpp"
    ),
    f"test = env.ReplayTest(name='t', artifact='{_ART}', data='d')\n"
    "env.Command('d/in/x.pt', test, Copy('$TARGET', '$SOURCE'))\n": (
        "t depends on itself: t needs d/in/x.pt needs "
        "build/a2a3sim/_jit_chain/replays/DATA=d-26b9dca9/verdict.json needs t"
    ),
}


@pytest.mark.parametrize("text", CIRCLES)
def test_circles_are_one_line(project: Project, text: str) -> None:
    script(project, text)
    run = project.quiet("t")
    assert (run.status, run.output) == (2, f"scons: *** {CIRCLES[text]}\n")


@pytest.mark.parametrize("target", ["Dir('made')", "'made'"])
def test_a_directory_of_headers_that_a_builder_makes_whole(project: Project, target: str) -> None:
    project.write("make.py", "from pathlib import Path\nPath('made').mkdir()\nPath('made/scale.h').touch()\n")
    project.write("k.cpp", _KERNEL)
    script(
        project,
        "import sys\n"
        "env.PtoKernel(name='k', source='k.cpp', core_type='aiv', extra_include_dirs=['made'])\n"
        f"made = env.Command({target}, 'make.py', sys.executable + ' make.py')\n"
        "env.PtoKernel(name='l', source='k.cpp', core_type='aiv', extra_include_dirs=[made])\n",
    )
    assert ran(project.scons("l", "k")) == ["compile k.cpp"] * 2 + ["link kernels/aiv/k.so", "link kernels/aiv/l.so"]
    assert ran(project.scons("l", "k")) == []


@pytest.mark.parametrize(
    "made",
    ["Install('made', '_jit_x')", "Command('made/_jit_x', 'x.in', '')", "Command(Dir('made/_jit_x'), 'x.in', '')"],
)
@pytest.mark.parametrize("attribute", ["artifact", "data", "golden"])
def test_a_directory_that_a_builder_makes_whole_would_stay_as_it_is(
    project: Project, made: str, attribute: str
) -> None:
    """SCons compares such a target with nothing, so a test of it would be cached after every edit."""
    project.write("_jit_x/kernel_config.py", "")
    others = "" if attribute == "artifact" else f"artifact='{_ART}', "
    script(project, f"env.ReplayTest(name='t', {others}{attribute}=env.{made})\n")
    run = project.quiet("t")
    what = "'made/_jit_x' is a directory that a builder makes, and SCons does not update such a directory after an edit"
    message = f"ReplayTest: {attribute}: {what}; declare the files in it as the builder's targets"
    assert (run.status, run.output) == (2, f"scons: *** {message}\n")


def test_commands_of_users_run_in_a_shell(project: Project) -> None:
    """An alias of what they make is up to date then."""
    script(project, "env.Alias('a', env.Command('a.txt', [], 'printf \"%s\" \"one two\" | tr a-z A-Z > $TARGET'))\n")
    assert project.scons("a").status == 0
    assert (project.root / "a.txt").read_text() == "ONE TWO"
    run = project.quiet("a")
    assert (run.status, run.output) == (0, "scons: `a' is up to date.\n")


def test_the_tree_and_the_commands_for_editors_know_of_it(project: Project) -> None:
    project.write("k.cpp", _KERNEL)
    kernel = "env.PtoKernel(name='k', source='k.cpp', core_type='aiv')\n"
    script(project, f"env.ReplayTest(name='t', artifact='{_ART}')\n{kernel}")
    run = project.quiet("t", "--tree=all")
    assert (
        f"{_ART}/kernels/aiv/twice.cpp" in run.output and "build/a2a3sim/_jit_chain/kernels/aiv/twice.so" in run.output
    )
    entries = json.loads((project.root / "build/compile_commands.json").read_bytes())
    assert sorted(Path(entry["file"]).name for entry in entries) == ["chain.cpp", "k.cpp", "plus_one.cpp", "twice.cpp"]


def test_suites_by_names_and_tags(project: Project) -> None:
    script(
        project,
        f"def test(name, **more):\n    return env.ReplayTest(name=name, artifact='{_ART}', **more)\n"
        "one = test('one', rtol=[1, 2])\n"
        "env.TestSuite(name='inner', tests=one)\n"
        "env.TestSuite(name='slow', tags=['slow'])\n"
        "test('two', tags=['slow'])\n"
        "env.TestSuite(name='outer', tests=['inner', 'two'])\n"
        "env.TestSuite(name='wrong', tests=['nine'])\n",
    )
    assert acted(project.scons("slow")) == ["run _jit_chain"]
    assert acted(project.scons("one.rtol-2")) == ["run _jit_chain RTOL=2.0"]
    run = project.scons("outer")
    assert acted(run) == ["run _jit_chain RTOL=1.0"]
    assert "3 passed (2 cached)" in run.output
    run = project.quiet("wrong")
    assert run.status == 2 and "scons: *** TestSuite: wrong: there is no test nine\n" in run.output


def test_findings_that_are_accepted(project: Project) -> None:
    """A finding fails a test unless it is accepted; a test that accepts what is not found says so."""
    project.use_example("_jit_vector_dag")
    project.edit("kernels/aiv/kernel_mul.cpp", "TSTORE(v20, v17);", ROUND_TRIP)
    artifact = "artifact='build_output/_jit_vector_dag'"
    script(
        project,
        f"env.HazardTest(name='strict', {artifact}, accept=['hazards/order'])\n"
        f"env.HazardTest(name='lenient', {artifact}, accept=['hazards/read-*'])\n"
        f"env.LintTest(name='idle', {artifact}, accept=['lint/edited-*', 'lint/nothing'])\n",
    )
    run = project.quiet("test")
    assert run.status == 2
    lines = {line.split()[2]: line for line in run.output.splitlines() if line.startswith("[test]")}
    assert "FAIL" in lines["strict"] and "hazards/read-output" in lines["strict"]
    assert "PASS" in lines["lenient"] and "PASS" in lines["idle"] and "accepts lint/nothing" in lines["idle"]
    repeated = project.scons("test")
    assert (repeated.status, repeated.actions) == (2, [])


def test_watch_sees_what_others_make_things_from(chain: Saved) -> None:
    """A save of a source of a builder of the user's is a round; what the round makes is none."""
    project = chain.repeated()
    copy = "Copy('$TARGET', '$SOURCE')"
    script(
        project,
        f"data = [env.Command(f'made/{{s}}.pt', f'{_ART}/data/{{s}}.pt', {copy})[0] for s in ('in/x', 'out/y')]\n"
        f"env.ReplayTest(name='t', artifact='{_ART}', data=data)\n",
    )
    with watching(project, "t") as rounds:
        assert rounds.round().actions == ["run _jit_chain DATA=made"]
        project.write_tensor("in/x", [0.0] * 16)
        project.write_tensor("out/y", [1.0] * 16)
        actions = rounds.round().actions
        assert actions == ["run _jit_chain DATA=made"]
    assert Path(project.root, "made/in/x.pt").read_bytes() == Path(project.artifact, "data/in/x.pt").read_bytes()


def test_a_target_that_succeeds_says_so(project: Project) -> None:
    """Built, restored or up to date; by its name, an alias of the user's and its path; not twice, and not with -s."""
    project.write("k.cpp", _KERNEL.replace('#include "scale.h"\n', ""))
    project.write("p.py", _PROGRAM)
    script(
        project,
        "env.Alias('mine', env.PtoKernel(name='k', source='k.cpp', core_type='aiv'))\n"
        "env.PtoProgram(name='p', source='p.py')\n"
        f"config = env.KernelConfig(artifact='{_ART}')\n"
        "env.Alias('copied', env.Install('inst', config[0]))\n",
    )
    so, built = "build/a2a3sim/units/kernels/aiv/k.so", "scons: `k' is built: compile k.cpp, link kernels/aiv/k.so\n"
    assert project.quiet("-n", "k").output.startswith("[cpp->.so] compile k.cpp  (not built before)\n")
    assert project.quiet("k").output == built
    assert project.quiet("k").output == "scons: `k' is up to date.\n"
    assert project.quiet(so, "mine").output == f"scons: `{so}' is up to date.\nscons: `mine' is up to date.\n"
    shutil.rmtree(project.root / "build/a2a3sim/units")
    assert project.quiet("k").output == "scons: `k' is built: restored k.cpp, restored kernels/aiv/k.so\n"
    assert "scons: " not in project.quiet("p").output  # it has said what it wrote
    assert project.quiet("p").output == "scons: `p' is up to date.\n"
    assert "Install file: " in project.quiet("copied").output
    assert project.quiet("copied").output == "scons: `copied' is up to date.\n"
    assert project.quiet("-s", "k").output == ""
    project.edit_file("k.cpp", "extern", "mistake extern")
    run = project.quiet("k")
    assert run.status == 2 and "error" in run.output and "scons: `k'" not in run.output


def test_clean_keeps_what_no_clean_names(project: Project) -> None:
    project.write("k.cpp", _KERNEL.replace('#include "scale.h"\n', ""))
    project.write("make.py", _MAKE)
    rules = (
        "kernel = env.PtoKernel(name='k', source='k.cpp', core_type='aiv')\n"
        "data = env.GoldenData(name='d', script='make.py')\n"
        f"test = env.ReplayTest(name='t', artifact='{_ART}')\n"
    )
    script(project, f"{rules}env.NoClean(kernel, data, test)\n")
    assert project.scons("k", "d", "t").status == 0
    run = project.scons("-c")
    assert run.status == 0
    left = {str(path.relative_to(project.root / "build")) for path in (project.root / "build").rglob("*.*")}
    verdict = "a2a3sim/_jit_chain/replays/default/verdict.json"
    assert left == {"a2a3sim/units/kernels/aiv/k.so", "data/d/snapshot/in/x.pt", verdict}
    assert project.scons("k", "d", "t").status == 0
    script(project, rules)
    assert project.scons("-c").status == 0
    assert [path for path in (project.root / "build").rglob("*") if path.is_file()] == []
    assert not (project.root / "build").exists()


def files_in(directory: Path) -> set[str]:
    """The files below a directory."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_clean_removes_the_artifacts_that_programs_make(project: Project) -> None:
    """All that the compiler and the reference wrote, and no file that a user added or edited."""
    shutil.rmtree(project.artifact)
    project.write("p.py", _PROGRAM + _REFERENCE)
    project.write("q.py", _PROGRAM)
    script(
        project,
        "p = env.PtoProgram(name='p', source='p.py')\n"
        "q = env.PtoProgram(name='q', source='q.py')\n"
        "env.ReplayTest(name='t', artifact=p)\n"
        "made = env.Command('made.txt', 'p.py', Copy('$TARGET', '$SOURCE'))\n"
        "env.NoClean(q, made) if ARGUMENTS.get('FORCE') else None\n",
    )
    before = files_in(project.root)
    output = project.root / "build_output"
    assert project.scons("t", "q", "made.txt").status == 0
    q_files, removed = files_in(output / "_jit_q"), sorted(files_in(output / "_jit_p"))
    assert {"data/golden.json", "data/in/x.pt", "data/out/y.pt", "compiled_files.json"} < set(removed)

    run = project.scons("-c", "-n", "t")
    lines = [line for line in run.output.splitlines() if "_jit_p/" in line and "build_output" in line]
    assert sorted(lines) == [f"Removed build_output/_jit_p/{name}" for name in removed], run.output
    assert sorted(files_in(output / "_jit_p")) == removed
    run = project.quiet("-c", "t")
    assert f"Removed build_output/_jit_p ({len(removed)} files; VERBOSE=1 lists them)\n" in run.output
    assert not (output / "_jit_p").exists() and files_in(output / "_jit_q") == q_files

    assert project.scons("t").status == 0
    project.write("build_output/_jit_p/notes.md", "mine")
    project.edit_file("build_output/_jit_p/kernels/aiv/twice.cpp", "#include", "// mine\n#include")
    shutil.copyfile(output / "_jit_p/data/out/y.pt", output / "_jit_p/data/in/x.pt")
    run = project.quiet("-c", "FORCE=1")
    assert [line for line in run.output.splitlines() if line.startswith("Kept")] == [
        f"Kept build_output/_jit_p/{name}, which was edited since it was made"
        for name in ("kernels/aiv/twice.cpp", "data/in/x.pt")
    ]
    assert files_in(output / "_jit_p") == {"data/in/x.pt", "kernels/aiv/twice.cpp", "notes.md"}
    assert files_in(output / "_jit_q") == q_files
    shutil.rmtree(output / "_jit_p")
    assert project.quiet("-c", "JIT=_jit_q").status == 0
    assert files_in(output / "_jit_q") == q_files and (project.root / "made.txt").is_file()
    assert project.quiet("-c").status == 0
    assert files_in(project.root) == before
    assert project.scons("t").status == 0


_MAKE = """import argparse
import struct
from pathlib import Path

from pypto_build.artifact.pt import write_pt

parser = argparse.ArgumentParser()
parser.add_argument("--output", type=Path)
parser.add_argument("--seed")
write_pt(parser.parse_args().output / "in/x.pt", "float32", (1,), struct.pack("f", 1.0))
"""


_GOLDEN = '"out/y.pt", "float32", (16,), struct.pack("16f", *(2.0 * i + 1.0 for i in range(16)))'


@pytest.mark.parametrize("ordered", [True, False])
def test_depends_orders_what_no_scanner_sees(project: Project, ordered: bool) -> None:
    """A macro names the header: only `Depends` builds it before the kernel."""
    project.write("k.cpp", _KERNEL.replace('#include "scale.h"', '#define SCALE "made/scale.h"\n#include SCALE'))
    project.write("scale.in", "// nothing\n")
    script(
        project,
        "kernel = env.PtoKernel(name='k', source='k.cpp', core_type='aiv')\n"
        "header = env.Command('made/scale.h', 'scale.in', Copy('$TARGET', '$SOURCE'))\n"
        + ("env.Depends(kernel, header)\n" if ordered else ""),
    )
    run = project.scons("k")
    assert (run.status, (project.root / "made/scale.h").is_file()) == ((0, True) if ordered else (2, False)), run.output
    if ordered:
        assert ran(project.scons("k")) == []
        project.edit_file("scale.in", "nothing", "another")
        assert ran(project.scons("k")) == ["compile k.cpp"]


@pytest.mark.parametrize("function", ["Depends", "Requires"])
def test_an_order_holds_for_all_that_a_rule_makes(project: Project, function: str) -> None:
    """Program, script and kernel are errors where the slow file is not there that was ordered to come before."""
    project.write("p.py", "open('first')\n" + _PROGRAM)
    project.write("make.py", "open('first')\n" + _MAKE)
    project.edit(
        "kernels/aiv/twice.cpp", "#include", f'#if !__has_include("{project.root}/first")\n#error\n#endif\n#include'
    )
    script(
        project,
        "import sys\n"
        "wait = sys.executable + ' -c \"import os, time; time.sleep(1); open(r\\'$TARGET\\', \\'w\\')\"'\n"
        "first = env.Command('first', [], wait)\n"
        "program = env.PtoProgram(name='p', source='p.py')\n"
        f"test = env.ReplayTest(name='t', artifact='{_ART}')\n"
        "data = env.GoldenData(name='d', script='make.py')\n"
        f"for one in (program, test, data):\n    env.{function}(one, first)\n",
    )
    for target in ("p", "t", "d"):
        (project.root / "first").unlink(missing_ok=True)
        run = project.quiet(target)
        assert run.status == 0 and (project.root / "first").exists(), run.output


def test_suites_and_scene_tests_are_accepted_where_nodes_are(project: Project) -> None:
    """Targets after a suite wait until its tests pass."""
    shutil.copytree(_SCENES, project.root / "scenes", ignore=shutil.ignore_patterns("__pycache__"))
    copy = "Copy('$TARGET', 'SConstruct')"
    rules = (
        f"env.ReplayTest(name='t', artifact='{_ART}')\n"
        "suite = env.TestSuite(name='s', tests='t')\n"
        "scene = env.SceneTest(name='scene', file='scenes/scene_chain.py', cases=['small'])\n"
        f"env.Depends(env.Command('depends', [], {copy}), [suite, scene])\n"
        f"env.Requires(env.Command('requires', [], {copy}), [suite, scene])\n"
        f"env.Command('command', [suite, scene], {copy})\n"
        "env.Alias('mine', [suite, scene])\n"
    )
    script(project, f"{rules}Default(suite, scene)\n")
    names = ("depends", "requires", "command")
    run = project.scons()
    assert [action for action in acted(run) if action.startswith("run")] == ["run TestChain::small", "run _jit_chain"]
    assert acted(project.scons("mine", *names)) == []
    assert all((project.root / name).is_file() for name in names)
    project.edit("kernels/aiv/twice.cpp", "2.0f", "4.0f")
    for name in names:
        (project.root / name).unlink()
        assert project.quiet(name).status == 2 and not (project.root / name).exists(), name
    project.edit("kernels/aiv/twice.cpp", "4.0f", "2.0f")
    project.edit_file("scenes/scene_chain.py", "2 * args.factor", "3 * args.factor")
    for name in names:
        assert project.quiet(name).status == 2 and not (project.root / name).exists(), name


def test_what_has_no_file_cannot_be_installed(project: Project) -> None:
    """One line where SCons would end in a traceback; verdicts can be."""
    test = f"test = env.ReplayTest(name='t', artifact='{_ART}')\nsuite = env.TestSuite(name='s', tests='t')\n"
    script(project, f"{test}env.Install('inst', suite)\n")
    run = project.quiet("inst")
    message = "scons: *** Install: 's' is a target without a file; install the verdict files of the tests instead\n"
    assert (run.status, run.output) == (2, message)
    script(project, f"{test}env.Install('inst', test)\n")
    assert project.scons("inst").status == 0
    assert (project.root / "inst/verdict.json").is_file()


def test_a_scene_file_that_is_made(project: Project) -> None:
    """It is made first, and once; an edit of what it is made from runs its cases again."""
    shutil.copytree(_SCENES / "kernels", project.root / "made/kernels")
    shutil.copyfile(_SCENES / "scene_chain.py", project.root / "scene.in")
    script(
        project,
        "copy = Action('cp $SOURCE $TARGET', '[copy] make scene')\n"
        "made = env.Command('made/scene_chain.py', 'scene.in', copy)\n"
        "env.SceneTest(name='scene', file=made, cases=['small'])\n",
    )
    run = project.scons("scene")
    assert {"make scene", "run TestChain::small"} <= set(ran(run)), run.output
    assert ran(project.scons("scene")) == []
    project.edit_file("scene.in", "2 * args.factor", "3 * args.factor")
    run = project.scons("scene")
    assert run.status == 2 and {"make scene", "run TestChain::small"} <= set(run.actions), run.output


def test_goldens_of_data_that_a_rule_makes(project: Project) -> None:
    """`golden=` takes what GoldenData returns, whose out/ has the goldens."""
    project.write("make.py", _MAKE.replace('"in/x.pt", "float32", (1,), struct.pack("f", 1.0)', _GOLDEN))
    script(
        project,
        "data = env.GoldenData(name='d', script='make.py')\n"
        f"env.ReplayTest(name='t', artifact='{_ART}', golden=data)\n",
    )
    runs = ["run _jit_chain golden=build/data/d/snapshot"]
    assert acted(project.scons("t")) == ["make d", *runs]
    assert ran(project.scons("t")) == []
    project.edit_file("make.py", "2.0 * i", "3.0 * i")
    run = project.scons("t")
    assert (run.status, run.actions) == (2, ["make d", *runs]), run.output
