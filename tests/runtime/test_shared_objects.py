"""Libraries that are loaded ahead: loading them has no effects, and unloading leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.toolchain.host import find_compiler, host_recipe

_PROGRAM = """
import sys
from pathlib import Path
from pypto_build.replay.loading import load_embedded
module = load_embedded(Path(sys.argv[1]))
print(module.load_ahead(sys.argv[2:]))
"""
_FUNCTION = 'extern "C" int f() { static int count; return ++count; }\n'

# What each text does when it is loaded, or leaves behind.
_ACTIVE = {
    "a constructor": "__attribute__((constructor)) static void g() { f(); }\n",
    "a destructor": "__attribute__((destructor)) static void g() { f(); }\n",
    "an object": "struct S { S(); int i; }; S::S() : i(1) {} S s;\n",
    "a choice of functions": "static int one() { return 1; }\n"
    'extern "C" int (*choose())() { return one; }\n'
    'extern "C" int chosen() __attribute__((ifunc("choose")));\n',
    "a symbol of the process": 'asm(".globl u\\n.type u, @gnu_unique_object\\n.data\\nu: .long 1\\n.size u, 4\\n.text");\n',
    "code among the first": 'asm(".section .init, \\"ax\\", @progbits\\ncall f\\n.text");\n',
}


class Loader:
    def __init__(self, module: Path, directory: Path) -> None:
        self._module, self._directory = module, directory

    def build(self, text: str, *link: str) -> Path:
        recipe = host_recipe(find_compiler(), PLATFORMS["a2a3sim"])["aiv"]
        source, target = self._directory / "unit.cpp", self._directory / "unit.so"
        source.write_text(text)
        subprocess.run(recipe.compile_argv(str(source), f"{source}.o"), check=True)
        subprocess.run([*recipe.steps[-1].argv(f"{source}.o", str(target)), *link], check=True)
        return target

    def load(self, *paths: Path, settle: float = 0.06) -> list[bool]:
        time.sleep(settle)
        words = [sys.executable, "-c", _PROGRAM, str(self._module), *map(str, paths)]
        run = subprocess.run(words, capture_output=True, text=True, check=True)
        return list(map("True".__eq__, run.stdout.strip("[]\n").split(", ")))


@pytest.fixture
def loader(runtime: Path, tmp_path: Path) -> Loader:
    return Loader(runtime, tmp_path)


def test_a_library_that_does_nothing_is(loader: Loader) -> None:
    assert loader.load(loader.build(_FUNCTION)) == [True]


@pytest.mark.parametrize("name", _ACTIVE)
def test_one_with_code_of_its_own_is_not(loader: Loader, name: str) -> None:
    assert loader.load(loader.build(_FUNCTION + _ACTIVE[name])) == [False]


def test_one_that_needs_another_is_not(loader: Loader) -> None:
    assert loader.load(loader.build(_FUNCTION, "-Wl,--no-as-needed", "-lm")) == [False]


def test_two_names_of_one_file_are_loaded_once(loader: Loader, tmp_path: Path) -> None:
    library, other = loader.build(_FUNCTION), tmp_path / "other.so"
    other.hardlink_to(library)
    assert loader.load(library, other) == [True, False]


def test_what_is_no_library_is_not(loader: Loader, tmp_path: Path) -> None:
    library = loader.build(_FUNCTION)
    damaged = []
    for size in (0, 10, 64, 700, library.stat().st_size - 100):
        damaged.append(tmp_path / f"{size}.so")
        damaged[-1].write_bytes(library.read_bytes()[:size])
    assert loader.load(*damaged, tmp_path, tmp_path / "none", tmp_path / "unit.cpp") == [False] * 8


def test_a_file_that_was_just_written_is_not(loader: Loader) -> None:
    library = loader.build(_FUNCTION)
    program = _PROGRAM.replace("print(", "import os\nos.utime(sys.argv[2])\nprint(")
    words = [sys.executable, "-c", program, str(loader._module), str(library)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[False]\n"
