"""The rules stand on the machinery, not the other way round: of the rules it knows the tables alone."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from SCons import SConsign
from SCons.Node.Alias import Alias

import pypto_build.rules
from benchmarks.generated import write_chain
from pypto_build.artifact import ArtifactError, load_artifact, manifest
from pypto_build.artifact.manifest_eval import evaluate
from pypto_build.proof import Action, Store
from pypto_build.proof.output_dir import Outcome
from pypto_build.rules.machinery.database import keep_signatures_of_users
from pypto_build.rules.machinery.manifests import EvaluatedManifests
from pypto_build.rules.machinery.progress import Progress
from pypto_build.rules.machinery.steps import Step, perform
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.options import parse_options

_TABLES = {"options", "targets", "variants", "verbs"}
_IMPORTED = re.compile(r"^\s*from pypto_build\.rules\.(\w+)", re.MULTILINE)


def test_the_machinery_knows_no_rule() -> None:
    machinery = Path(pypto_build.rules.__file__).parent / "machinery"
    imported = {path.name: {*_IMPORTED.findall(path.read_text(encoding="utf-8"))} for path in machinery.glob("*.py")}
    wrong = {name: rules for name, names in imported.items() if (rules := names - _TABLES - {"machinery"})}
    assert imported and wrong == {}


def test_names_for_people(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "top", parse_options({}), whole_graph=False)
    elsewhere = tmp_path / "elsewhere" / "_jit_a"
    inside, out = workspace.top / "_jit_c", workspace.top / "build" / "_jit_a"
    workspace.outputs.update({out: elsewhere, inside / "build": inside})
    for path, shown in {
        elsewhere / "kernels" / "k.cpp": "kernels/k.cpp",
        inside / "kernels" / "k.cpp": "kernels/k.cpp",
        out / "kernels" / "k.so": "kernels/k.so",
        elsewhere / "kernel_config.py": "kernel_config.py",
        inside / "kernel_config.py": "kernel_config.py",
        workspace.top / "k.cpp": "k.cpp",
        workspace.top / "src" / "k.cpp": "src/k.cpp",
        tmp_path / "k.cpp": str(tmp_path / "k.cpp"),
    }.items():
        assert workspace.short(path) == shown


@pytest.mark.parametrize(
    ("hushed", "verbose", "how", "shown"),
    [(True, False, "built", 0), (True, True, "built", 1), (True, False, "failed", 1), (False, False, "built", 1)],
)
def test_warnings_in_headers_of_others_are_details(
    capsys: pytest.CaptureFixture[str], hushed: bool, verbose: bool, how: Any, shown: int
) -> None:
    """As in simpler's own headers, which warn in every kernel; not where the command fails."""

    def act(*_args: Any, **_options: Any) -> Outcome:
        return Outcome(how, int(how == "failed"), "x.h:1: warning: once more\n")

    action: Any = SimpleNamespace(name="k.o", command=lambda helpers: [])
    output_dir: Any = SimpleNamespace(
        proven=lambda action: None, directory=Path(), alone=nullcontext, perform=act, reason=lambda action, other: other
    )
    workspace: Any = SimpleNamespace(progress=Progress(), verbose=verbose)
    assert perform(workspace, Step(output_dir, action, "[cpp->.so] compile", "k.cpp", hushed=hushed)).how == how
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("warning: once more") == shown


def test_what_is_done_is_counted_until_all_units_are_built() -> None:
    """Then the count would say that there is nothing to wait for, beside what is still being done."""
    progress, out = Progress(), Path("out")
    runtime, kernel, other = (Action(name, (), ()) for name in ("runtime", "k.so", "m.so"))
    progress.expect([(out, kernel.name), (out, other.name)])
    progress.begin(out, runtime, "[runtime] build", "")
    progress.note(out, kernel, "built")
    assert progress._doing() == "[runtime] build  (1 of 2 built)"
    progress.note(out, other, "restored")
    assert progress._doing() == "[runtime] build"
    progress.end(out, runtime)
    assert progress._doing() == ""


def test_large_manifests_are_evaluated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_chain(tmp_path, 200)
    store, texts = Store(tmp_path / "store"), list[str]()

    def counted(path: Path, text: str) -> dict[str, Any]:
        texts.append(text)
        return evaluate(path, text)

    monkeypatch.setattr(manifest, "evaluate", counted)
    plain = load_artifact(root)
    assert [load_artifact(root, EvaluatedManifests(store)) for _ in range(2)] == [plain, plain]
    assert len(texts) == 2  # once without the store, once with it
    (root / "kernels" / "aiv" / "step_7.cpp").unlink()
    with pytest.raises(ArtifactError, match=r"kernel_config\.py:\d+: KERNELS\[7\]\.source: .* is missing"):
        load_artifact(root, EvaluatedManifests(store))
    text = (root / "kernel_config.py").read_text()
    (root / "kernel_config.py").write_text(text.replace("step_7.cpp", "step_8.cpp"))
    assert load_artifact(root, EvaluatedManifests(store)).kernels[7].source.name == "step_8.cpp"


def test_a_manifest_that_was_read_is_read_again_only_where_its_files_changed(tmp_path: Path) -> None:
    root = write_chain(tmp_path, 200)
    manifests = EvaluatedManifests(Store(tmp_path / "store"))
    first = load_artifact(root, manifests)
    assert load_artifact(root, manifests).kernels is first.kernels
    source = root / "kernels" / "aiv" / "step_7.cpp"
    text = source.read_text()
    source.unlink()
    source.write_text(text + "\n")  # as editors save
    assert load_artifact(root, manifests).kernels is first.kernels
    source.unlink()
    for kind in ("missing", "not a file"):
        with pytest.raises(ArtifactError, match=rf"kernel_config\.py:\d+: KERNELS\[7\]\.source: .* is {kind}"):
            load_artifact(root, manifests)
        if kind == "missing":
            source.mkdir()
    source.rmdir()
    (tmp_path / "elsewhere").write_text(text)
    source.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match=r"is a symbolic link to .*, outside of the artifact"):
        load_artifact(root, manifests)
    source.unlink()
    source.write_text(text)
    assert load_artifact(root, manifests).kernels is first.kernels
    (root / "kernels" / "aiv").rename(tmp_path / "aiv")
    (root / "kernels" / "aiv").symlink_to(tmp_path / "aiv")
    with pytest.raises(ArtifactError, match=r"is a symbolic link to .*, outside of the artifact"):
        load_artifact(root, manifests)


def test_no_file_is_read_for_the_signature_of_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime's module has megabytes, and every replay depends on it."""
    for owner, name in ((Alias, "make_ready"), (SConsign, "Get_DataBase"), (SConsign, "ForDirectory")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    read = list[str]()

    def contents(alias: Alias) -> str:
        read.append(alias.name)
        return ""

    monkeypatch.setattr(Alias, "get_contents", contents)
    Alias("before").make_ready()
    keep_signatures_of_users(Path("build"), lambda: None)
    Alias("replay").make_ready()
    assert read == ["before"]
