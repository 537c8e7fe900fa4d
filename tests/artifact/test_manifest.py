"""Manifests of every form are read, and every fault is one line that names file, line, field and the way out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pypto_build.artifact import ArgDirection, ArtifactError, Manifest, load_artifact, read_manifest
from pypto_build.artifact.manifest_eval import ALLOWED, evaluate

from .artifacts import HEADER, KERNELS, MANIFEST, ORCHESTRATION, make_artifact, write

IN, OUT, INOUT = ArgDirection.IN, ArgDirection.OUT, ArgDirection.INOUT
_AGAIN = "compile again or correct the manifest"
_BELOW = "the files of an artifact lie below it; copy the file there or mark the kernel `external`"


def manifest(root: Path, text: str) -> Manifest:
    make_artifact(root, text)
    return read_manifest(root / "kernel_config.py")


def complaint(root: Path, text: str) -> str:
    """The error the manifest gives, without the directory."""
    with pytest.raises(ArtifactError) as caught:
        manifest(root, text)
    assert caught.value.kind == "usage_error"
    return str(caught.value).replace(f"{root}/kernel_config.py", "M").replace(str(root), "ROOT")


def kernel(fields: str) -> str:
    """A manifest with one kernel."""
    return f"{HEADER}{ORCHESTRATION}KERNELS = [\n\t{{{fields}}},\n]\n"


SCALE = '"func_id": 0, "core_type": "aiv"'
SCALE_SOURCE = '"source": str(_ROOT_DIR / "kernels" / "aiv" / "scale.cpp")'


def test_plain_manifest(tmp_path: Path) -> None:
    read = manifest(tmp_path, MANIFEST)
    assert [(k.func_id, k.name, k.core_type, k.signature, k.external) for k in read.kernels] == [
        (0, "mm", "aic", None, False),
        (1, "scale", "aiv", None, False),
    ]
    assert [k.source for k in read.kernels] == [tmp_path / "kernels/aic/mm.cpp", tmp_path / "kernels/aiv/scale.cpp"]
    assert read.orchestration.source == tmp_path / "orchestration/scaled_mm.cpp"
    assert read.orchestration.function_name == "aicpu_orchestration_entry"
    assert read.orchestration.config_name == "aicpu_orchestration_config"
    assert (read.orchestration.signature, read.runtime_config) == (None, {})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            '{"runtime": "tensormap_and_ringbuffer", "aicpu_thread_num": 4, "block_dim": 24, "orch_thread_num": 1}',
            {"runtime": "tensormap_and_ringbuffer", "aicpu_thread_num": 4, "block_dim": 24, "orch_thread_num": 1},
        ),
        (
            '{"runtime": "host_build_graph", "aicpu_thread_num": 0, "enable_sdma": True}',
            {"runtime": "host_build_graph", "aicpu_thread_num": 0, "enable_sdma": True},
        ),
    ],
)
def test_runtime_config(tmp_path: Path, config: str, expected: dict[str, object]) -> None:
    assert manifest(tmp_path, f"{MANIFEST}RUNTIME_CONFIG = {config}\n").runtime_config == expected
    artifact = load_artifact(tmp_path)
    assert artifact.runtime == expected["runtime"]


@pytest.mark.parametrize(
    ("statement", "direction"),
    [
        ("from simpler.task_interface import ArgDirection as _D", "_D"),
        ("from simpler.task_interface import ArgDirection", "ArgDirection"),
        ("from task_interface import ArgDirection as D", "D"),
        ("import simpler.task_interface", "simpler.task_interface.ArgDirection"),
        ("import simpler.task_interface as ti", "ti.ArgDirection"),
        ("from simpler import task_interface", "task_interface.ArgDirection"),
    ],
)
def test_signatures(tmp_path: Path, statement: str, direction: str) -> None:
    fields = f'{SCALE}, {SCALE_SOURCE}, "signature": [{direction}.IN, {direction}.INOUT, {direction}.SCALAR]'
    orchestration = ORCHESTRATION.replace("}", f', "signature": ({direction}.IN, {direction}.OUT)}}')
    read = manifest(tmp_path, f"{statement}\n{HEADER}{orchestration}KERNELS = [{{{fields}}}]\n")
    assert read.kernels[0].signature == (IN, INOUT)
    assert read.orchestration.signature == (IN, OUT)


@pytest.mark.parametrize(
    "source",
    [
        'str(_ROOT_DIR / "kernels" / "aiv" / "scale.cpp")',
        '_ROOT_DIR / "kernels/aiv/scale.cpp"',
        '"kernels/aiv/scale.cpp"',
        '"./kernels/aiv/scale.cpp"',
        'f"{_ROOT_DIR}/kernels/aiv/scale.cpp"',
        "f\"{_ROOT_DIR / 'kernels'}/aiv/{NAME}.cpp\"",
        'os.path.join(_ROOT_DIR, "kernels", "aiv", "scale.cpp")',
        'os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels", "aiv", NAME + ".cpp")',
        'join(dirname(realpath(__file__)), "kernels/aiv/scale.cpp")',
        'os.fspath(_ROOT_DIR / "kernels" / "aiv" / "scale.cpp")',
        'str(Path(__file__).parent / "kernels" / "aiv" / "scale.cpp")',
        'str(Path(__file__).resolve().parent / "kernels" / "aiv" / "scale.cpp")',
        'str(Path(__file__).absolute().parents[0] / "kernels" / "aiv" / "scale.cpp")',
        'str(pathlib.Path(__file__).parent.joinpath("kernels", "aiv", "scale.cpp"))',
        '(_ROOT_DIR / "kernels" / "aiv" / "scale.cpp").as_posix()',
        'str(_ROOT_DIR) + "/kernels/aiv/scale.cpp"',
        '"/home/other/build_output/_jit_x_20260509_101112/kernels/aiv/scale.cpp"',
    ],
)
def test_forms_of_a_path(tmp_path: Path, source: str) -> None:
    imports = 'import os\nimport pathlib\nfrom os.path import dirname, join, realpath\nNAME: str = "scale"\n'
    read = manifest(tmp_path, imports + kernel(f'{SCALE}, "source": {source}'))
    assert read.kernels[0].source == tmp_path / "kernels" / "aiv" / "scale.cpp"


def test_longest_suffix_wins_when_rerooting(tmp_path: Path) -> None:
    write(tmp_path / "scale.cpp")
    read = manifest(tmp_path, kernel(f'{SCALE}, "source": "/elsewhere/kernels/aiv/scale.cpp"'))
    assert read.kernels[0].source == tmp_path / "kernels" / "aiv" / "scale.cpp"


def test_rerooting_prefers_the_copy_over_the_original(tmp_path: Path) -> None:
    original = make_artifact(tmp_path / "original")
    copy = tmp_path / "copy"
    read = manifest(copy, kernel(f'{SCALE}, "source": "{original}/kernels/aiv/scale.cpp"'))
    assert read.kernels[0].source == copy / "kernels" / "aiv" / "scale.cpp"


def test_artifact_behind_a_link(tmp_path: Path) -> None:
    real = make_artifact(tmp_path / "real")
    link = tmp_path / "link"
    link.symlink_to(real)
    write(real / "kernel_config.py", kernel(f'{SCALE}, "source": "{real}/kernels/aiv/scale.cpp"'))
    assert load_artifact(link).kernels[0].source == link / "kernels" / "aiv" / "scale.cpp"


def test_kernels_are_sorted_by_func_id(tmp_path: Path) -> None:
    swapped = MANIFEST.replace('"func_id": 0', '"func_id": 5')
    assert [(k.func_id, k.name) for k in manifest(tmp_path, swapped).kernels] == [(1, "scale"), (5, "mm")]


def test_name_from_the_manifest_or_the_file(tmp_path: Path) -> None:
    named = MANIFEST.replace('"mm", ', '"matmul", ').replace('"name": "scale", ', "")
    assert [k.name for k in manifest(tmp_path, named).kernels] == ["matmul", "scale"]


def test_unnamed_kernels_of_one_file_name_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path / "more" / "scale.cpp")
    more = '{"func_id": 2, "source": str(_ROOT_DIR / "more" / "scale.cpp"), "core_type": "aiv"},\n]'
    read = manifest(tmp_path, MANIFEST.replace("]\n", more + "\n"))
    assert [k.name for k in read.kernels] == ["mm", "scale", "scale_2"]


def test_external_kernel(tmp_path: Path) -> None:
    source = write(tmp_path / "elsewhere" / "ext.cpp")
    root = tmp_path / "art"
    fields = f'{SCALE}, "source": "{source}", "external": True, "extra_include_dirs": ["{source.parent}"]'
    (read,) = manifest(root, kernel(fields)).kernels
    assert (read.source, read.external, read.extra_include_dirs) == (source, True, (source.parent,))


def test_callable(tmp_path: Path) -> None:
    text = MANIFEST.replace("ORCHESTRATION = ", "_O = ").replace("KERNELS = ", "_K = ")
    assert manifest(tmp_path, text + 'CALLABLE = {"orchestration": {**_O}, "incores": [*_K]}\n') == manifest(
        tmp_path, MANIFEST
    )


def test_nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaint(tmp_path, MANIFEST + '__import__("os").mkdir("victim")\n') == (
        f"M:9: statement \"__import__('os').mkdir('victim')\" is not allowed here: the manifest is "
        f"read without executing it; {ALLOWED}"
    )
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("import subprocess", "import of 'subprocess' is not allowed here: the manifest is read without executing it"),
        (
            "from os import system",
            "import of 'os.system' is not allowed here: the manifest is read without executing it",
        ),
        (
            "from . import settings",
            "import of '.settings' is not allowed here: the manifest is read without executing it",
        ),
        (
            "for k in KERNELS: pass",
            "statement 'for k in KERNELS: pass' is not allowed here: the manifest is read without executing it",
        ),
        (
            "def f(): return 1",
            "statement 'def f(): return 1' is not allowed here: the manifest is read without executing it",
        ),
        (
            "import sys; sys.path.append('x')",
            "import of 'sys' is not allowed here: the manifest is read without executing it",
        ),
        (
            "KERNELS.append({})",
            "statement 'KERNELS.append({})' is not allowed here: the manifest is read without executing it",
        ),
        (
            "KERNELS[0]['name'] = 'x'",
            "assignment to \"KERNELS[0]['name']\" is not allowed here: assign to a plain name",
        ),
        ("X = [k for k in KERNELS]", "'[k for k in KERNELS]' is not supported in a manifest"),
        ("X = lambda: 1", "'lambda: 1' is not supported in a manifest"),
        ("X = open('/etc/passwd')", "name 'open' is not defined"),
        ("X = os.environ", "name 'os' is not defined"),
        ("X = Path(__file__).read_text()", "'Path(__file__).read_text()' is not supported in a manifest"),
        ("X = Path.home()", "'Path.home()' is not supported in a manifest"),
        ("X = Path", "'Path' is not allowed as a value here: use literals and names"),
        ("X = str(1, 2)", "'str(1, 2)' is not supported in a manifest"),
        ("X = str(object=1)", "'str(object=1)' is not supported in a manifest"),
        ("X = 1 << 90", "'1 << 90' is not supported in a manifest"),
        ("X = {} * 3", "'{} * 3' is not supported in a manifest"),
        ("X = 'x' * 3", "\"'x' * 3\" is not supported in a manifest"),
        ("X = 3 / 2", "'3 / 2' is not supported in a manifest"),
        ("X = 3 // 0", "'3 // 0' cannot be evaluated"),
        ("X = 4294967296 * 4294967296", "a number of 65 bits is too large to be evaluated"),
        ("X = [1] * 65537", "'[1] * 65537' is too long to be evaluated"),
        ("X = KERNELS[9]", "'KERNELS[9]' is not supported in a manifest"),
        ("X = {1: 2}", "dict key '1' is not a string"),
        ("X = {**_ROOT_DIR}", "'_ROOT_DIR' is not a dict"),
        ("X = f'{_ROOT_DIR:>99}'", "\"f'{_ROOT_DIR:>99}'\" is not supported in a manifest"),
    ],
)
def test_other_code_is_refused(tmp_path: Path, statement: str, what: str) -> None:
    assert complaint(tmp_path, MANIFEST + statement + "\n") == f"M:9: {what}; {ALLOWED}"


def test_arithmetic(tmp_path: Path) -> None:
    text = "A = 4 * 1024 - 1\nB = [A // 2 % 1000] * 3\nC = [1] * -1\n"
    assert evaluate(tmp_path / "M", text) == {"A": 4095, "B": [47, 47, 47], "C": []}


@pytest.mark.parametrize("doubled", ["A + A", "[*A, *A]", "A * 2", 'f"{A}{A}"'])
def test_endless_growth_is_refused(tmp_path: Path, doubled: str) -> None:
    start = "[1]" if "[" in doubled or "*" in doubled else "'x'"
    text = f"A = {start}\n" + f"A = {doubled}\n" * 60 + MANIFEST
    assert " is too long to be evaluated; a manifest may hold " in complaint(tmp_path, text)


def test_syntax_error(tmp_path: Path) -> None:
    assert complaint(tmp_path, MANIFEST + "X = (1,\nY = 2\n") == (
        "M:9: syntax error: '(' was never closed; correct the line, or compile again"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("X = 'a\0b'\n", r"M(:1)?: (not Python source|syntax error): source code string cannot contain null bytes; .*"),
        (f"X = {'[' * 5000}{']' * 5000}\n", r"M(:1)?: .*(too many nested parentheses|nested too deeply).*"),
        (f"X = {'+'.join(['1'] * 20000)}\n", r"M(:1)?: .*(not Python source|nested too deeply|not supported).*"),
    ],
)
def test_monstrous_source(tmp_path: Path, text: str, message: str) -> None:
    assert re.fullmatch(message, complaint(tmp_path, text))


def test_not_text(tmp_path: Path) -> None:
    make_artifact(tmp_path)
    write(tmp_path / "kernel_config.py", b"\xff\xfe\x00")
    with pytest.raises(ArtifactError) as caught:
        load_artifact(tmp_path)
    assert str(caught.value) == f"{tmp_path}/kernel_config.py: cannot be read: it is not UTF-8 text (line 1); {_AGAIN}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + ORCHESTRATION, f"M: KERNELS is missing; {_AGAIN}"),
        (HEADER + KERNELS, f"M: ORCHESTRATION is missing; {_AGAIN}"),
        (HEADER + ORCHESTRATION + "KERNELS = {}\n", f"M: KERNELS is not a list; {_AGAIN}"),
        (HEADER + ORCHESTRATION + "KERNELS = [1]\n", f"M: KERNELS[0] is not a dict; {_AGAIN}"),
        (HEADER + KERNELS + "ORCHESTRATION = []\n", f"M: ORCHESTRATION is not a dict; {_AGAIN}"),
        (HEADER + KERNELS + "ORCHESTRATION = {}\n", f"M:8: ORCHESTRATION.source is missing; {_AGAIN}"),
        (MANIFEST + "RUNTIME_CONFIG = 1\n", f"M: RUNTIME_CONFIG is not a dict; {_AGAIN}"),
        (
            MANIFEST + 'RUNTIME_CONFIG = {"block_dim": 0}\n',
            f"M:9: RUNTIME_CONFIG.block_dim: 0 is not a number of 1 or more; {_AGAIN}",
        ),
        (
            MANIFEST + 'RUNTIME_CONFIG = {"aicpu_thread_num": "4"}\n',
            f"M:9: RUNTIME_CONFIG.aicpu_thread_num: '4' is not a number of 0 or more; {_AGAIN}",
        ),
        (MANIFEST + 'RUNTIME_CONFIG = {"runtime": 1}\n', f"M:9: RUNTIME_CONFIG.runtime: 1 is not a name; {_AGAIN}"),
        (
            MANIFEST + 'RUNTIME_CONFIG = {"x": [[1]]}\n',
            f"M:9: RUNTIME_CONFIG.x: [[1]] is not a string, a number or a list of them; {_AGAIN}",
        ),
        (MANIFEST + "CALLABLE = 1\n", f"M: CALLABLE is not a dict; {_AGAIN}"),
        (
            MANIFEST.replace("aicpu_orchestration_entry", "a b"),
            f"M:4: ORCHESTRATION.function_name: 'a b' is not a C++ function name; {_AGAIN}",
        ),
        (
            MANIFEST.replace('"scaled_mm.cpp"', '"gone.cpp"'),
            "M:4: ORCHESTRATION.source: file 'orchestration/gone.cpp' is missing; restore the file or compile again",
        ),
    ],
)
def test_faults_of_the_manifest(tmp_path: Path, text: str, message: str) -> None:
    assert complaint(tmp_path, text) == message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (f'"core_type": "aiv", {SCALE_SOURCE}', f"M:6: KERNELS[0].func_id is missing; {_AGAIN}"),
        (
            f'"func_id": -1, "core_type": "aiv", {SCALE_SOURCE}',
            f"M:6: KERNELS[0].func_id: -1 is not a number of 0 or more; {_AGAIN}",
        ),
        (
            f'"func_id": "0", "core_type": "aiv", {SCALE_SOURCE}',
            f"M:6: KERNELS[0].func_id: '0' is not a number of 0 or more; {_AGAIN}",
        ),
        (f'"func_id": 0, {SCALE_SOURCE}', f"M:6: KERNELS[0].core_type is missing; {_AGAIN}"),
        (
            f'"func_id": 0, "core_type": "gpu", {SCALE_SOURCE}',
            "M:6: KERNELS[0].core_type: unknown core type 'gpu'; use one of aic, aiv",
        ),
        (SCALE, f"M:6: KERNELS[0].source is missing; {_AGAIN}"),
        (
            f'{SCALE}, "source": 7',
            "M:6: KERNELS[0].source: 7 is not a path; give the path of a file in the artifact",
        ),
        (
            f'{SCALE}, "source": str(_ROOT_DIR / "kernels" / "aiv" / "gone.cpp")',
            "M:6: KERNELS[0].source: file 'kernels/aiv/gone.cpp' is missing; restore the file or compile again",
        ),
        (
            f'{SCALE}, "source": str(_ROOT_DIR / "kernels")',
            f"M:6: KERNELS[0].source: 'ROOT/kernels' is not a file; {_AGAIN}",
        ),
        (
            f'{SCALE}, "source": "../secret.cpp"',
            f"M:6: KERNELS[0].source: path '../secret.cpp' contains '..'; {_BELOW}",
        ),
        (
            f'{SCALE}, "source": str(_ROOT_DIR / "kernels" / ".." / "x.cpp")',
            f"M:6: KERNELS[0].source: path 'ROOT/kernels/../x.cpp' contains '..'; {_BELOW}",
        ),
        (
            f'{SCALE}, "source": "/etc/passwd"',
            f"M:6: KERNELS[0].source: path '/etc/passwd' is outside the artifact ROOT; {_BELOW}",
        ),
        (
            f'{SCALE}, "source": "/nowhere/x.cpp", "external": True',
            "M:6: KERNELS[0].source: the file '/nowhere/x.cpp', outside of the artifact, is missing; "
            "copy the file to this machine or correct the path",
        ),
        (
            f'{SCALE}, "source": "/tmp", "external": True',
            f"M:6: KERNELS[0].source: '/tmp' is not a file; {_AGAIN}",
        ),
        (
            f'{SCALE}, {SCALE_SOURCE}, "extra_include_dirs": ["/nowhere"]',
            "M:6: KERNELS[0].extra_include_dirs[0]: the file '/nowhere', outside of the artifact, is missing; "
            "copy the file to this machine or correct the path",
        ),
        (
            f'{SCALE}, {SCALE_SOURCE}, "extra_include_dirs": "/nowhere"',
            f"M:6: KERNELS[0].extra_include_dirs is not a list; {_AGAIN}",
        ),
        (
            f'{SCALE}, {SCALE_SOURCE}, "name": "../../x"',
            "M:6: KERNELS[0].name: '../../x' is not a valid kernel name; use letters, digits and _",
        ),
        (
            f'{SCALE}, {SCALE_SOURCE}, "signature": ["IN"]',
            f"M:6: KERNELS[0].signature is not a list of ArgDirection members; {_AGAIN}",
        ),
    ],
)
def test_faults_of_a_kernel(tmp_path: Path, fields: str, message: str) -> None:
    assert complaint(tmp_path, kernel(fields)) == message


def test_unknown_direction(tmp_path: Path) -> None:
    text = "from simpler.task_interface import ArgDirection as _D\n" + kernel(
        f'{SCALE}, {SCALE_SOURCE}, "signature": [_D.INPUT]'
    )
    assert complaint(tmp_path, text) == "M:7: '_D.INPUT' is not an ArgDirection; use one of SCALAR, IN, OUT, INOUT"


def test_duplicate_func_id(tmp_path: Path) -> None:
    assert complaint(tmp_path, MANIFEST.replace('"func_id": 1', '"func_id": 0')) == (
        "M:7: KERNELS[1].func_id: kernel 'mm' already has the func_id 0; give every kernel its own func_id"
    )


def test_duplicate_name(tmp_path: Path) -> None:
    text = MANIFEST.replace('"name": "mm"', '"name": "k"').replace('"name": "scale"', '"name": "k"')
    assert [k.name for k in manifest(tmp_path, text).kernels] == ["k", "k"]  # one aic, one aiv
    assert complaint(tmp_path, text.replace('"aic"}', '"aiv"}')) == (
        "M: KERNELS: two kernels are named 'k' for the core type aiv: those with func_id 0 and 1; "
        "give every kernel its own name"
    )


def test_link_out_of_the_artifact(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside.cpp")
    root = make_artifact(tmp_path / "art")
    (root / "kernels" / "aiv" / "out.cpp").symlink_to(outside)
    text = kernel(f'{SCALE}, "source": str(_ROOT_DIR / "kernels" / "aiv" / "out.cpp")')
    assert complaint(root, text) == (
        f"M:6: KERNELS[0].source: 'ROOT/kernels/aiv/out.cpp' is a symbolic link to {outside}, "
        f"outside of the artifact; {_BELOW}"
    )


def test_link_inside_the_artifact(tmp_path: Path) -> None:
    make_artifact(tmp_path)
    (tmp_path / "kernels" / "alias.cpp").symlink_to(tmp_path / "kernels" / "aiv" / "scale.cpp")
    (read,) = manifest(tmp_path, kernel(f'{SCALE}, "source": "kernels/alias.cpp"')).kernels
    assert (read.name, read.source) == ("alias", tmp_path / "kernels" / "alias.cpp")
