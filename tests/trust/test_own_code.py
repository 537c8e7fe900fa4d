"""Our own code and libraries (4): a result of other code does not count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trust.judged import copy_of_links, fails, passes, with_own_package
from tests.trust.space import KERNELS, Space

_TWICE_AS_MUCH = """

_as_it_was = PtTensor.contiguous


def _twice_as_much(self):
    import array

    values = array.array("f", bytes(_as_it_was(self)))
    return memoryview(array.array("f", [value * 2 for value in values]).tobytes())


PtTensor.contiguous = _twice_as_much
"""


def test_4_the_reader_of_tensors(chain: Space, tmp_path: Path) -> None:
    space = with_own_package(chain, tmp_path / "package")
    passes(space)
    file = tmp_path / "package" / "pypto_build" / "artifact" / "pt.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + _TWICE_AS_MUCH, encoding="utf-8")
    fails(space)
    file.write_text(text, encoding="utf-8")
    passes(space)


def test_4_a_header_of_the_runtime(chain: Space, tmp_path: Path) -> None:
    space = with_own_package(chain, tmp_path / "package")
    space.kernel("twice", "FACTOR * in[i]", "#include <pto/pto-inst.hpp>\n#ifndef FACTOR\n#define FACTOR 2.0f\n#endif")
    passes(space)
    file = tmp_path / "package" / "pypto_build" / "runtime" / "include" / "pto" / "pto-inst.hpp"
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{text}\n#define FACTOR 3.0f\n", encoding="utf-8")
    fails(space)
    file.write_text(text, encoding="utf-8")
    passes(space)


def change(file: Path, old: str, new: str) -> Callable[[], object]:
    """Replace ``old``, which must be there, in a file; how to undo it."""
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{file}: has no {old}"
    file.write_text(text.replace(old, new), encoding="utf-8")
    return lambda: file.write_text(text, encoding="utf-8")


def test_4_the_translation_to_pytorch(module: Space, tmp_path: Path) -> None:
    space = with_own_package(module, tmp_path / "package")
    passes(space, "RUNTIME=torch")
    table = tmp_path / "package" / "pypto_build" / "pto" / "ops" / "spec.py"
    undo = change(table, 'ADD = Meaning("add", "{a} + {b}"', 'ADD = Meaning("add", "{a} - {b}"')
    fails(space, "RUNTIME=torch")
    undo()
    passes(space, "RUNTIME=torch")


def test_4_the_assembler(module: Space, tmp_path: Path) -> None:
    space = with_own_package(module, tmp_path / "package")
    space.edit("ptoas/add.pto", "module attributes", "// edited\nmodule attributes")
    passes(space)
    table = tmp_path / "package" / "pypto_build" / "pto" / "cpp" / "instructions.py"
    undo = change(table, "call(e, cpp, operands", 'call(e, cpp.replace("TADD", "TSUB"), operands')
    fails(space)
    undo()
    passes(space)


def test_4_an_edited_module_beside_preferred_cpp(module: Space) -> None:
    """PyTorch executes the modules, whatever counts for the kernels."""
    called = "TADD(tmp0__ssa_v0, {}__ssa_v0, {}__ssa_v0)"
    module.edit(f"{KERNELS}/add.cpp", called.format("x", "y"), called.format("y", "x"))
    module.edit("ptoas/add.pto", "module attributes", "// edited\nmodule attributes")
    options = ("RUNTIME=torch", "PREFER=cpp")
    passes(module, *options)
    module.edit("ptoas/add.pto", "pto.tadd", "pto.tsub")
    fails(module, *options)


@pytest.mark.parametrize(("library", "options"), [("numpy", ()), ("torch", ("RUNTIME=torch",))])
def test_4_another_version_of_a_library(module: Space, tmp_path: Path, library: str, options: tuple[str, ...]) -> None:
    passes(module, *options)
    assert passes(module, *options).cached
    location = module.tested.ask(f"import {library}; print({library}.__path__[0], {library}.__version__)")
    installed, version = Path(location.split()[0]), location.split()[1]
    copy_of_links(installed, tmp_path / "site" / library)
    text = (installed / "version.py").read_text(encoding="utf-8")
    (tmp_path / "site" / library / "version.py").unlink()
    other_text = text.replace(version, f"{version}.post1")
    (tmp_path / "site" / library / "version.py").write_text(other_text, encoding="utf-8")
    info = tmp_path / "site" / f"{library}-{version}.post1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: {version}.post1\n")
    (info / "RECORD").write_text(f"{library}/__init__.py,,\n")
    other = Space(module.root, module.tested.with_path(tmp_path / "site"), module.cache, {}, module.name)
    location = other.tested.ask(
        "import importlib.metadata, importlib.util\n"
        f"print(importlib.util.find_spec({library!r}).origin, importlib.metadata.version({library!r}))"
    )
    assert location == f"{tmp_path / 'site' / library / '__init__.py'} {version}.post1"
    replayed = passes(other, *options)
    assert not replayed.cached and replayed.actions("[replay] run"), replayed.done
    passes(module, *options)
