"""Parts of a linked kernel that a device gets, and parts that it must not get."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pypto_build.toolchain.elf import ElfError, extract_text, read_elf
from pypto_build.toolchain.extract_text import main

ENTRY = 'extern "C" void kernel_entry(long* args) { *args = 1; }\n'


def compiled(tmp_path: Path, text: str) -> Path:
    source, target = tmp_path / "k.cpp", tmp_path / "k.o"
    source.write_text(text)
    command = [
        "g++",
        "-c",
        "-O1",
        "-fno-asynchronous-unwind-tables",
        "-fcf-protection=none",
        str(source),
        "-o",
        str(target),
    ]
    subprocess.run(command, check=True)
    return target


def test_the_code_begins_with_the_entry(tmp_path: Path) -> None:
    code = extract_text(read_elf(compiled(tmp_path, ENTRY)))
    assert code == bytes.fromhex("48c70701000000c3")


@pytest.mark.parametrize(
    "text, problem",
    [
        ("int x;", "has no code (.text is missing or empty)"),
        ("void f() {}", "does not define kernel_entry in .text"),
        ("void f() {}\n" + ENTRY, "has kernel_entry at offset 1 of .text, but the device starts at offset 0"),
        (
            "template <class T> __attribute__((noinline)) void f(T* x) { *x = 2; }\ntemplate void f(long*);\n" + ENTRY,
            "has code outside of .text (.text._Z1fIlEvPT_), which would not be loaded onto the device",
        ),
        (
            "void g();\n" + ENTRY.replace("*args", "g(); *args"),
            "has relocations (.rela.text), which the device loader does not apply",
        ),
    ],
)
def test_code_that_could_not_run(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ElfError) as raised:
        extract_text(read_elf(compiled(tmp_path, text)))
    assert str(raised.value) == problem


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel, target = compiled(tmp_path, ENTRY), tmp_path / "k.bin"
    assert main([str(kernel), str(target)]) == 0
    assert len(target.read_bytes()) == 8
    kernel.write_bytes(kernel.read_bytes()[:100])
    assert main([str(kernel), str(target)]) == 3
    assert capsys.readouterr().err == (
        f"{kernel}: error: is truncated; inline what the kernel calls, or link with a toolkit whose ld.lld merges the "
        "sections\n"
    )
