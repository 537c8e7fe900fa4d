"""Files that a tool reads, as the library that is preloaded into it reports them."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.proof.witness import VARIABLE, Account, library, of_python, read_account, remove_stale_bytecode
from pypto_build.toolchain.host import find_compiler


def watched(watcher: Path, directory: Path, *command: str) -> Account:
    """Run a command in ``directory``; what was seen of it."""
    log = directory / "log"
    log.touch()
    environment = {**os.environ, "LD_PRELOAD": str(watcher), VARIABLE: str(log), "TMPDIR": str(directory / "tmp")}
    (directory / "tmp").mkdir(exist_ok=True)
    subprocess.run(command, cwd=directory, env=environment, check=True, capture_output=True)
    return read_account(log, command, [str(directory / "tmp")])


def write(directory: Path, **files: str) -> None:
    for name, text in files.items():
        (directory / name.replace("_", ".")).write_text(text)


def test_a_compiler(watcher: Path, tmp_path: Path) -> None:
    write(
        tmp_path,
        a_cpp='#define X "x.h"\n#/**/include X\n#if __has_include("later.h")\n#endif\nasm(".incbin \\"raw.bin\\"");\n',
        x_h="int x;\n",
        raw_bin="bytes",
    )
    compiler = find_compiler().path
    account = watched(watcher, tmp_path, compiler, "-c", "a.cpp", "-o", "a.o")
    assert account.unseen == ""
    here = {path for path in account.read if path.startswith(f"{tmp_path}/")}
    assert here == {f"{tmp_path}/{name}" for name in ("a.cpp", "x.h", "raw.bin")}
    assert f"{tmp_path}/later.h" in account.absent
    assert account.read[f"{tmp_path}/x.h"][3] == (tmp_path / "x.h").stat().st_size
    assert any(os.path.basename(path) in ("cc1plus", "clang") for path in account.loaded) or "clang" in compiler
    assert not any(path.startswith(f"{tmp_path}/tmp") for path in account.files)


def test_a_compiler_that_is_a_script(watcher: Path, tmp_path: Path) -> None:
    script = tmp_path / "c++"
    script.write_text(f'#!/bin/sh\n. {tmp_path}/flags\nexec {find_compiler().path} $FLAGS "$@"\n')
    script.chmod(0o755)
    write(tmp_path, flags="FLAGS=-DONE\n", a_cpp="int x;\n")
    account = watched(watcher, tmp_path, str(script), "-c", "a.cpp", "-o", "a.o")
    assert account.unseen == ""
    assert {str(script), f"{tmp_path}/flags", f"{tmp_path}/a.cpp"} <= account.read.keys()


def test_a_program_that_cannot_be_watched(watcher: Path, tmp_path: Path) -> None:
    write(tmp_path, a_cpp="int main() { return 0; }\n")
    build = [find_compiler().path, "-static", "a.cpp", "-o", "still"]
    if subprocess.run(build, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("no static C library")
    assert watched(watcher, tmp_path, f"{tmp_path}/still").unseen == f"{tmp_path}/still"
    account = watched(watcher, tmp_path, "/bin/sh", "-c", "./still; true")
    assert os.path.realpath(os.path.join(tmp_path, account.unseen)) == f"{tmp_path}/still"


def test_the_table_of_libraries(watcher: Path, tmp_path: Path) -> None:
    """`ctypes` starts a static program for it, of which one knows what it reads."""
    if not os.path.isfile("/sbin/ldconfig"):
        pytest.skip("no ldconfig on this machine")
    account = watched(watcher, tmp_path, sys.executable, "-c", "import ctypes.util; ctypes.util.find_library('c')")
    assert account.unseen == ""
    assert "/sbin/ldconfig" in account.loaded
    assert "/etc/ld.so.cache" in (account.loaded if os.path.isfile("/etc/ld.so.cache") else account.absent)


def test_what_a_tool_makes_is_no_input(watcher: Path, tmp_path: Path) -> None:
    code = (
        "import os\n"
        "os.path.exists('new'); open('new', 'w').write('x'); open('new').read()\n"
        "os.path.exists('dir'); os.mkdir('dir'); os.listdir('dir')\n"
        "open('part', 'w').close(); os.path.exists('whole'); os.rename('part', 'whole'); open('whole').read()\n"
        "open('given').read(); os.listdir('names'); os.path.exists('missing')\n"
    )
    write(tmp_path, given="x")
    (tmp_path / "names").mkdir()
    account = of_python(watched(watcher, tmp_path, sys.executable, "-c", code))
    here = f"{tmp_path}/"
    assert {path.removeprefix(here) for path in account.files if path.startswith(here)} == {"given", "names/"}
    assert {path.removeprefix(here) for path in account.absent if path.startswith(here)} == {"missing"}


@pytest.mark.parametrize("call", ["mkstemp(path)", "mkostemp(path, 0)", "mkstemps(path, 0)", "creat(path, 0700)"])
def test_a_library_that_a_tool_makes_and_loads_is_no_input(watcher: Path, tmp_path: Path, call: str) -> None:
    """Simpler's simulator loads a copy of its own library, under a name that is new in each run."""
    write(
        tmp_path,
        lib_cpp='extern "C" int f() { return 3; }\n',
        tool_cpp="#include <cstdlib>\n#include <dlfcn.h>\n#include <fcntl.h>\n#include <unistd.h>\n"
        f'int main() {{ char path[] = "{tmp_path}/copy_XXXXXX"; static char bytes[1 << 20];\n'
        f'int from = open("lib.so", O_RDONLY), to = {call};\n'
        "long size = read(from, bytes, sizeof(bytes)); if (write(to, bytes, size) != size) return 1; close(to);\n"
        "return dlopen(path, RTLD_NOW) ? 0 : 2; }\n",
    )
    compiler = find_compiler().path
    subprocess.run([compiler, "-shared", "-fPIC", "lib.cpp", "-o", "lib.so"], cwd=tmp_path, check=True)
    subprocess.run([compiler, "tool.cpp", "-o", "tool", "-ldl"], cwd=tmp_path, check=True)
    account = watched(watcher, tmp_path, "./tool")
    assert f"{tmp_path}/lib.so" in account.read
    assert len(list(tmp_path.glob("copy_*"))) == 1
    assert not any("/copy_" in path for path in account.files)


def test_modules_of_ours_count_by_their_sources(watcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).resolve().parents[2]
    monkeypatch.chdir("/")
    code = f"import sys; sys.path.insert(0, {str(root)!r}); import pypto_build.artifact.pt, msgspec"
    for _ in range(2):  # compiled and from the source
        account = of_python(watched(watcher, tmp_path, sys.executable, "-c", code))
        assert str(root / "pypto_build/artifact/pt.py") in account.files
        assert not [path for path in account.files if path.endswith(".pyc")]
        assert f"{root}/" not in account.files  # where they were looked for
        assert {Path(path).name for path in account.files if "/msgspec-" in path} == {"METADATA", "RECORD"}


def test_a_damaged_library_is_built_again(tmp_path: Path) -> None:
    watcher = library(find_compiler().path, tmp_path, os.environ)
    assert watcher is not None
    whole = watcher.read_bytes()
    watcher.write_bytes(whole[:-1])
    assert library(find_compiler().path, tmp_path, os.environ) == watcher
    assert len(watcher.read_bytes()) == len(whole)


def test_without_a_compiler_there_is_none(tmp_path: Path) -> None:
    assert library("/bin/false", tmp_path, os.environ) is None
    assert library(str(tmp_path / "missing"), tmp_path, os.environ) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["pipe", "directory", "empty"])
@pytest.mark.parametrize("suffix", [".so", ".sha256"])
def test_whatever_lies_in_place_of_the_library_is_replaced(tmp_path: Path, damage: str, suffix: str) -> None:
    compiler = find_compiler().path
    watcher = library(compiler, tmp_path, os.environ)
    assert watcher is not None
    victim, content = watcher.with_suffix(suffix), watcher.read_bytes()
    victim.unlink()
    match damage:
        case "pipe":
            os.mkfifo(victim)
        case "directory":
            victim.mkdir()
        case "empty":
            victim.write_bytes(b"")
    assert library(compiler, tmp_path, os.environ) == watcher and watcher.read_bytes() == content


_UNLOADS = """
import _ctypes, sys
first, second, third, fourth = sys.argv[1:]
handle = _ctypes.dlopen(first, 2)
_ctypes.dlopen(second, 2)
_ctypes.dlclose(handle)
_ctypes.dlopen(third, 2)
_ctypes.dlclose(_ctypes.dlopen(fourth, 2))
_ctypes.dlopen(first, 2)
"""


def test_libraries_are_told_once_where_others_are_unloaded(watcher: Path, tmp_path: Path) -> None:
    """A replay unloads what is another file by now; it has thousands of others loaded."""
    libraries = [str(tmp_path / f"{name}.so") for name in "abcd"]
    for path in libraries:
        source = Path(path).with_suffix(".cpp")
        source.write_text(f"int {source.stem};\n")
        subprocess.run([find_compiler().path, "-shared", "-fPIC", str(source), "-o", path], check=True)
    account = watched(watcher, tmp_path, sys.executable, "-c", _UNLOADS, *libraries)
    assert account.loaded.issuperset(libraries)
    lines = [line for line in (tmp_path / "log").read_text().split("\0") if line.startswith("L\t")]
    assert [lines.count(f"L\t{path}") for path in libraries] == [1, 1, 1, 1]
    assert len(lines) == len(set(lines))


def test_tools_of_ours_ask_for_no_size(watcher: Path, tmp_path: Path) -> None:
    """An edit of a file that is only looked at is no reason to do more."""
    write(tmp_path, given="x")
    code = "import os; os.path.isfile('given'); os.lstat('given'); os.path.isdir('missing')"
    account = of_python(watched(watcher, tmp_path, sys.executable, "-c", code))
    here = {
        question: answer for question, answer in account.answers.items() if question.startswith(f"{tmp_path}/given")
    }
    assert here == {f"{tmp_path}/given//?": "file 600", f"{tmp_path}/given//@?": "file 600"}


@pytest.mark.parametrize("name", ["lib/python3.11/given", "lib/python3.11/site-packages/given", "dist-packages/given"])
def test_a_directory_with_the_name_of_a_standard_library_is_none(watcher: Path, tmp_path: Path, name: str) -> None:
    """The libraries of the interpreters that run are no inputs of our tools; a file of the user's elsewhere is one."""
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text("x")
    code = f"import contextlib; open({str(file)!r}).read()\nwith contextlib.suppress(OSError): open('{file}.no')"
    account = of_python(watched(watcher, tmp_path, sys.executable, "-c", code))
    assert str(file) in account.files and f"{file}.no" in account.absent


def test_what_python_compiled_before_an_edit_is_removed(watcher: Path, tmp_path: Path) -> None:
    """Else Python takes it, if the source has its old size and time."""
    module, command = tmp_path / "given.py", (sys.executable, "-c", "import given; assert given.VALUE == 1")
    module.write_text("VALUE = 1\n")
    status = module.stat()
    subprocess.run(command, cwd=tmp_path, check=True)
    (compiled,) = tmp_path.glob("__pycache__/*.pyc")
    assert remove_stale_bytecode(watched(watcher, tmp_path, *command)) == ""
    module.write_text("VALUE = 2\n")
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns))
    account = watched(watcher, tmp_path, *command)
    assert (remove_stale_bytecode(account), compiled.exists(), account.unseen) == (str(module), False, "")


@pytest.mark.parametrize("mode", py_compile.PycInvalidationMode)
def test_compiled_modules_of_another_text_are_removed(
    watcher: Path, tmp_path: Path, mode: py_compile.PycInvalidationMode
) -> None:
    """Python takes them if they name the source's size and time, or say that it does not count."""
    module, command = tmp_path / "given.py", (sys.executable, "-c", "import given")
    compiled = Path(f"{tmp_path}/__pycache__/given.{sys.implementation.cache_tag}.pyc")
    for text in ("VALUE = 1\n", "VALUE = 1e999 - 1e999\n"):  # two NaNs are never equal
        module.write_text(text)
        py_compile.compile(str(module), doraise=True, invalidation_mode=mode)
        assert remove_stale_bytecode(watched(watcher, tmp_path, *command)) == ""
    other = tmp_path / "other.py"
    other.write_text("VALUE = 1 - 1\n".ljust(module.stat().st_size))
    shutil.copystat(module, other)
    py_compile.compile(str(other), str(compiled), doraise=True, invalidation_mode=mode)
    module.write_text("VALUE = 2 - 1\n".ljust(other.stat().st_size))
    shutil.copystat(other, module)
    py_compile.compile(str(other), str(compiled), doraise=True, invalidation_mode=mode)  # after the source
    stale = remove_stale_bytecode(watched(watcher, tmp_path, *command))
    if mode is py_compile.PycInvalidationMode.CHECKED_HASH:  # Python itself sees that the source differs
        assert stale in ("", str(module))
    else:
        assert (stale, compiled.exists()) == (str(module), False)


def test_names_of_shared_memory_are_no_inputs_of_tools_of_ours(watcher: Path, tmp_path: Path) -> None:
    shared = Path(f"/dev/shm/pypto-test-{os.getpid()}")
    shared.write_text("x")
    try:
        code = f"import os; os.listdir('/dev/shm'); open({str(shared)!r}).read()"
        account = of_python(watched(watcher, tmp_path, sys.executable, "-c", code))
        assert {path for path in account.files if path.startswith("/dev/shm")} == {str(shared)}
    finally:
        shared.unlink()


def test_memory_that_processes_share_is_no_file(watcher: Path, tmp_path: Path) -> None:
    code = """
import os
memory = os.memfd_create("shared")
os.write(memory, b"one")
open(f"/proc/self/fd/{memory}").read()
"""
    account = watched(watcher, tmp_path, sys.executable, "-S", "-c", code)
    assert account.unseen == ""
    assert not [path for path in (*account.files, *account.changed) if "memfd" in path]


def test_equal_events_are_noted_once_but_programs_each_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    read, start, ran = "R\t1\t2\t33188\t4\t5\t6\t/made/a.h", "E\t7\t/made/tool", "X\t7\t/made/tool"
    log.write_text("\0".join((ran, read, read, start, ran, start, ran, "")))
    account = read_account(log, ["/made/tool"], ())
    assert (list(account.read), account.executions["7"], account.ran["7"]) == (["/made/a.h"], ["/made/tool"] * 2, 2)
