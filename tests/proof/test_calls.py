"""Programs that read files past the C library are told from those that only hold the bytes of the instruction."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.proof.calls import NO_CALLS, OWN_CALLS, calls_of
from pypto_build.toolchain.host import find_compiler

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="instructions are known for x86-64 alone")

_CALL = 'long result; asm volatile("syscall" : "=a"(result) : "a"({}), "D"(a), "S"(0L) : "rcx", "r11", "memory");'
_PROGRAMS = {
    "opens": (_CALL.format("2L") + " return (int)result;", OWN_CALLS),
    "asks for status": (_CALL.format("262L") + " return (int)result;", OWN_CALLS),
    "by any number": (_CALL.format("a") + " return (int)result;", OWN_CALLS),
    "asks who it is": (_CALL.format("39L") + " return (int)result;", NO_CALLS),
    "waits": (_CALL.format("202L") + " return (int)result;", NO_CALLS),
    "by a constant": ("volatile unsigned long x = 0x050f050f00000002; return (int)(x ^ (unsigned long)a);", NO_CALLS),
}


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_program(tmp_path: Path, name: str, level: str) -> None:
    body, expected = _PROGRAMS[name]
    (tmp_path / "a.cpp").write_text(f"int main(int argc, char **) {{ long a = argc; {body} }}\n")
    subprocess.run([find_compiler().path, level, "a.cpp", "-o", "a"], cwd=tmp_path, check=True)
    assert calls_of(str(tmp_path / "a")) == expected


@pytest.mark.parametrize(
    "program", ["/bin/sh", "/usr/bin/env", "/usr/bin/as", "/usr/bin/ld", "/usr/bin/perl", "cc1plus"]
)
def test_the_systems_own(program: str) -> None:
    if program == "cc1plus":
        run = subprocess.run(["g++", f"-print-prog-name={program}"], capture_output=True, text=True, check=False)
        program = run.stdout.strip()
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    assert calls_of(os.path.realpath(program)) == NO_CALLS


def test_the_interpreter_and_the_c_library() -> None:
    with open("/proc/self/maps", encoding="utf-8") as file:
        libraries = {line.split()[-1] for line in file if "/libc." in line or "/ld-linux" in line}
    assert libraries
    assert {calls_of(path) for path in (os.path.realpath(sys.executable), *libraries)} == {NO_CALLS}


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02" + b"\xff" * 100, b"text"])
def test_what_is_no_program(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert calls_of(str(tmp_path / "a")) == NO_CALLS
