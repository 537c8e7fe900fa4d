"""Seven ways in which a build can say PASS for a wrong kernel, and what has to be said instead."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trust.commands import wait_for
from tests.trust.compilers import Holding, put_probe, write_asking, write_compiler
from tests.trust.oracle import Oracle
from tests.trust.readings import Reading, appearing, assembled, includes, linked, searched
from tests.trust.space import (
    BUILD,
    KERNELS,
    MISMATCH,
    PASS,
    UNCHECKED,
    USAGE,
    Replayed,
    Space,
    with_variables,
    write_kernels,
)
from tests.trust.tested import Tested

SCALED = "SCALE * in[i]"
RIGHT, WRONG = "#define SCALE 2.0f\n", "#define SCALE 3.0f\n"
HEADER = f"{KERNELS}/scale.h"


def passes(space: Space, *options: str) -> Replayed:
    """Replay what is right."""
    replayed = space.replay(*options)
    assert replayed.outcome.exit == PASS, replayed.done
    return replayed


def fails(space: Space, *options: str) -> Replayed:
    """Replay what is wrong."""
    replayed = space.replay(*options)
    assert (replayed.outcome.exit, replayed.outcome.status) == (MISMATCH, "mismatch"), (
        f"the kernel is wrong, and this is what is said of it:\n{replayed.done}"
    )
    return replayed


def agrees(space: Space, *options: str) -> Replayed:
    """Replay what a fresh build has to judge, or has judged: of sources only the content may count here."""
    replayed = space.replay(*options)
    answer = Oracle(space.tested).ask(space, "", options)
    assert replayed.outcome == answer.outcome, (
        f"{replayed.outcome}\nbut a fresh build says\n{answer.outcome}\n\n{replayed.done}\n\nfresh:\n{answer.log}"
    )
    return replayed


# 1: a run that is killed


def test_1_killed_at_the_run(chain: Space) -> None:
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    chain.kernel("twice", "2.0f * in[i]")
    done = chain.run("replay", see=lambda line: line.startswith("[replay] run"))
    assert done.status == -signal.SIGKILL and not done.left, done
    chain.kernel("twice", "3.0f * in[i]", before="// a comment")
    fails(chain)
    fails(chain, "FORCE=1")


def test_1_killed_at_the_run_first(chain: Space) -> None:
    done = chain.run("replay", see=lambda line: line.startswith("[replay] run"))
    assert done.status == -signal.SIGKILL and not done.left, done
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    chain.kernel("twice", "2.0f * in[i]")
    passes(chain)


def test_1_killed_at_the_link(chain: Space) -> None:
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    chain.kernel("twice", "2.0f * in[i]")
    done = chain.run("replay", see=lambda line: line.startswith("[cpp->.so] link"))
    assert done.status == -signal.SIGKILL and not done.left, done
    chain.kernel("twice", "3.0f * in[i]", before="// a comment")
    fails(chain)
    fails(chain, "FORCE=1")


# 2: edits while something runs


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("file", ["kernel", "header"])
def test_2_edited_while_it_compiles_then_undone(chain: Space, tmp_path: Path, file: str, nth: int) -> None:
    change = _kernel_that_changes(chain, file)
    change("3.0f")
    holding = Holding.write(chain, tmp_path / "holding", "twice", nth)
    command = chain.start(f"CXX={holding.program}")
    if not holding.started(command):
        command.end()
        pytest.skip(f"the compiler is not called {nth} times")
    change("2.0f")
    holding.let_it_read()
    change("3.0f")
    holding.let_it_end()
    done = command.end()
    assert done.status != PASS, f"what was compiled is not what is there\n{done}"
    fails(chain, f"CXX={holding.program}")
    change("2.0f")
    passes(chain, f"CXX={holding.program}")


@pytest.mark.parametrize("file", ["kernel", "header"])
def test_2_edited_while_it_compiles_then_undone_with_its_time(chain: Space, tmp_path: Path, file: str) -> None:
    change = _kernel_that_changes(chain, file)
    path = chain.artifact / (f"{KERNELS}/twice.cpp" if file == "kernel" else HEADER)
    change("3.0f")
    stamp = path.stat()
    holding = Holding.write(chain, tmp_path / "holding", "twice")
    command = chain.start(f"CXX={holding.program}")
    assert holding.started(command)
    change("2.0f")
    holding.let_it_read()
    change("3.0f")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    holding.let_it_end()
    done = command.end()
    assert done.status != PASS, f"what was compiled is not what is there\n{done}"
    fails(chain, f"CXX={holding.program}")


def test_2_edited_while_it_compiles_and_not_undone(chain: Space, tmp_path: Path) -> None:
    chain.kernel("twice", "2.0f * in[i]")
    holding = Holding.write(chain, tmp_path / "holding", "twice")
    command = chain.start(f"CXX={holding.program}")
    assert holding.started(command)
    chain.kernel("twice", "3.0f * in[i]")
    holding.let_it_read()
    holding.let_it_end()
    command.end()
    fails(chain, f"CXX={holding.program}")
    chain.kernel("twice", "2.0f * in[i]")
    passes(chain, f"CXX={holding.program}")


def test_2_edited_while_it_compiles_then_undone_under_watch(chain: Space, tmp_path: Path) -> None:
    chain.kernel("twice", "3.0f * in[i]")
    holding = Holding.write(chain, tmp_path / "holding", "twice")
    command = chain.start_scons("replay", f"JIT={chain.name}", f"CXX={holding.program}", "WATCH=1")
    try:
        assert holding.started(command)
        chain.kernel("twice", "2.0f * in[i]")
        holding.let_it_read()
        chain.kernel("twice", "3.0f * in[i]")
        holding.let_it_end()
        assert wait_for(lambda: "waiting for a change" in command.output, 60), command.output
        _wait_until_quiet(lambda: command.output)
    finally:
        command.send(signal.SIGINT)
        done = command.end(30)
    verdicts = re.findall(r"^\[RUN\] (PASS|FAIL)", done.output, re.MULTILINE)
    assert verdicts and verdicts[-1] == "FAIL", done
    fails(chain, f"CXX={holding.program}")


@pytest.mark.parametrize("file", ["in/x.pt", "out/y.pt"])
def test_2_data_edited_while_it_runs_then_undone(chain: Space, tmp_path: Path, file: str) -> None:
    right = (chain.artifact / "data" / file).read_bytes()
    chain.tensor(file, [7.0] * 16)
    wrong = (chain.artifact / "data" / file).read_bytes()
    before = '#include <unistd.h>\nstatic void note(const char* p) { if (FILE* f = fopen(p, "w")) fclose(f); }\n'
    wait = f'note("{tmp_path}/started"); while (access("{tmp_path}/go", F_OK)) usleep(10000);'
    chain.kernel("twice", "2.0f * in[i]", f"#include <cstdio>\n{before}", wait)
    command = chain.start("TIMEOUT=100")
    assert wait_for(lambda: (tmp_path / "started").exists() or not command.running, 60), command.output
    chain.write_in(f"data/{file}", right)
    (tmp_path / "go").touch()
    command.end()
    chain.write_in(f"data/{file}", wrong)
    fails(chain, "TIMEOUT=100")


def _kernel_that_changes(space: Space, file: str) -> Callable[[str], object]:
    """Something that sets the kernel's factor, in the kernel or in a header of its."""
    if file == "kernel":
        return lambda factor: space.kernel("twice", f"{factor} * in[i]")
    space.kernel("twice", SCALED, '#include "scale.h"')
    return lambda factor: space.write_in(HEADER, f"#define SCALE {factor}\n")


def _wait_until_quiet(read: Callable[[], str], quiet_s: float = 4.0) -> None:
    """Wait until nothing more is printed."""
    seen, since = read(), time.monotonic()
    while time.monotonic() - since < quiet_s:
        time.sleep(0.05)
        if read() != seen:
            seen, since = read(), time.monotonic()


# 3: what the compiler reads


def write_compiler_proper(path: Path, flags: str) -> Path:
    """A script in place of g++'s cc1plus."""
    real = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True).stdout
    prefix = f"{Path(real.strip()).parent}/"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\nunset GCC_EXEC_PREFIX\nexec {real.strip()} "$@" -iprefix {prefix} {flags}\n', encoding="utf-8"
    )
    path.chmod(0o755)
    return path


def test_3_everything_a_unit_reads_by_itself(tested: Tested, tmp_path: Path) -> None:
    """Headers by every spelling, headers that appear and go, what the assembler includes, links that are switched."""
    space = Space(tmp_path / "w", tested, tested.new_cache(tmp_path / "cache"))
    decides_by_each(
        space, [*includes(), *appearing(space), *assembled(space), *linked(space)], "KERNEL_FLAGS=-trigraphs"
    )


def test_3_everything_found_by_directories_in_the_flags(tested: Tested, tmp_path: Path) -> None:
    """Every flag that names a directory, headers that newly shadow others there, links to directories."""
    space = Space(tmp_path / "w", tested, tested.new_cache(tmp_path / "cache"))
    found = searched(space)
    decides_by_each(space, found.readings, f"KERNEL_FLAGS={' '.join(found.flags)}")


def decides_by_each(space: Space, readings: list[Reading], *options: str) -> None:
    """Each kernel is right, wrong and right again by what it alone reads: for one of them, and for all at once."""
    write_kernels(space, {reading.name: reading.text for reading in readings})
    for reading in readings:
        reading.set_right(space)
    passes(space, *options)
    first = readings[0]
    first.set_wrong(space)
    replayed = fails(space, *options)
    assert wrong_outputs(replayed) == {first.name}, replayed.done
    assert len(replayed.actions("[cpp->.so] compile")) == 1, f"what one reads is another's input\n{replayed.done}"
    for reading in readings[1:]:
        reading.set_wrong(space)
    replayed = fails(space, *options)
    overlooked = {reading.name: reading.text for reading in readings if reading.name not in wrong_outputs(replayed)}
    assert not overlooked, f"{overlooked}\n{replayed.done}"
    for reading in readings:
        reading.set_right(space)
    passes(space, *options)


def wrong_outputs(replayed: Replayed) -> set[str]:
    """The names of the outputs that were found to be wrong."""
    return {name for name, status, _, _ in replayed.outcome.outputs if status == "mismatch"}


def header_decides(space: Space, path: str, *options: str, wrong: str = WRONG, right: str = RIGHT) -> None:
    """Right, wrong and right again, by the content of one file."""
    space.write(path, right)
    passes(space, *options)
    space.write(path, wrong)
    fails(space, *options)
    space.write(path, right)
    passes(space, *options)


def inside(space: Space, path: str) -> str:
    """The path of a file of the artifact, from the workspace."""
    return str((space.artifact / path).relative_to(space.root))


def test_3_include_in_the_orchestration(chain: Space) -> None:
    chain.edit("orchestration/chain.cpp", "// Task 0", '#define NAME "order.h"\n#include NAME\n// Task 0')
    chain.edit("orchestration/chain.cpp", "task(0, params_t0)", "task(FIRST, params_t0)")
    path = inside(chain, "orchestration/order.h")
    header_decides(chain, path, right="#define FIRST 0\n", wrong="#define FIRST 1\n")


def test_3_files_in_the_flags(chain: Space) -> None:
    """Those that every unit reads: each of them alone, since all units are compiled anew for each."""
    chain.kernel("twice", "(A + B + C + D + E + F) / 3.0f * in[i]")
    ext, text = chain.root / "ext", "*cpp_unique_options:\n+ -DF={}f\n\n"
    chain.write("ext/outer", f"@{ext}/other.flags\n")
    files = {"a.h": "#define A {}f\n", "b.h": "#define B {}f\n", "c.h": "#define C {}f\n"}
    files |= {"flags": "-DD={}f\n", "other.flags": "-DE={}f\n", "my.specs": text}
    for name, content in files.items():
        chain.write(f"ext/{name}", content.format("1.0"))
    flags = f"-include {ext}/a.h -imacros {ext}/b.h --include={ext}/c.h @{ext}/flags @{ext}/outer -specs={ext}/my.specs"
    passes(chain, f"KERNEL_FLAGS={flags}")
    for number, (name, content) in enumerate(files.items()):
        chain.write(f"ext/{name}", content.format("4.0"))
        outputs = fails(chain, f"KERNEL_FLAGS={flags}").outcome.outputs
        assert [largest for _, _, _, largest in outputs] == [repr(15.0 * (number + 1))], name
    for name, content in files.items():
        chain.write(f"ext/{name}", content.format("1.0"))
    passes(chain, f"KERNEL_FLAGS={flags}")


def test_3_compiler_proper_in_the_flags(chain: Space) -> None:
    chain.kernel("twice", "FACTOR * in[i]", "#ifndef FACTOR\n#define FACTOR 2.0f\n#endif")
    flags = f"KERNEL_FLAGS=-B{chain.root}/tools"
    passes(chain, flags)
    write_compiler_proper(chain.root / "tools" / "cc1plus", "-DFACTOR=3.0f")
    fails(chain, flags)
    write_compiler_proper(chain.root / "tools" / "cc1plus", "-DFACTOR=2.0f")
    passes(chain, flags)


def test_3_compiler_that_is_a_script_and_changes(chain: Space, tmp_path: Path) -> None:
    chain.kernel("twice", "FACTOR * in[i]", "#ifndef FACTOR\n#define FACTOR 2.0f\n#endif")
    compiler = write_compiler(chain, tmp_path / "my-g++", 'exec g++ "$@"')
    passes(chain, f"CXX={compiler}")
    write_compiler(chain, compiler, 'exec g++ -DFACTOR=3.0f "$@"')
    fails(chain, f"CXX={compiler}")
    write_compiler(chain, compiler, 'exec g++ "$@"')
    passes(chain, f"CXX={compiler}")


def test_3_compiler_that_is_a_script_and_changes_with_its_time_kept(chain: Space, tmp_path: Path) -> None:
    chain.kernel("twice", "FACTOR * in[i]", "#ifndef FACTOR\n#define FACTOR 4.0f\n#endif")
    compiler = write_compiler(chain, tmp_path / "my-g++", 'exec g++ -DFACTOR=2.0f "$@"')
    stamp = compiler.stat()
    passes(chain, f"CXX={compiler}")
    write_compiler(chain, compiler, 'exec g++ -DFACTOR=3.0f "$@"')
    os.utime(compiler, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    fails(chain, f"CXX={compiler}")


def test_3_script_that_the_compiler_calls(chain: Space, tmp_path: Path) -> None:
    chain.kernel("twice", "FACTOR * in[i]", "#ifndef FACTOR\n#define FACTOR 2.0f\n#endif")
    helper = tmp_path / "helper"
    compiler = write_compiler(chain, tmp_path / "my-g++", f'exec g++ $(sh {helper}) "$@"')
    for text, expected in (("", passes), ("echo -DFACTOR=3.0f", fails), ("", passes)):
        helper.write_text(text)
        expected(chain, f"CXX={compiler}")


def test_3_compiler_found_first_on_the_path(chain: Space, tmp_path: Path) -> None:
    chain.kernel("twice", "FACTOR * in[i]", "#ifndef FACTOR\n#define FACTOR 2.0f\n#endif")
    real = shutil.which("g++")
    passes(chain)
    write_compiler(chain, tmp_path / "bin" / "g++", f'exec {real} -DFACTOR=3.0f "$@"')
    text = (tmp_path / "bin" / "g++").read_text().replace(" g++ ", f" {real} ")
    (tmp_path / "bin" / "g++").write_text(text)
    other = with_variables(chain, {"PATH": f"{tmp_path / 'bin'}:{chain.environment()['PATH']}"})
    fails(other)
    passes(chain)


# 4: our own code, and libraries

_TWICE_AS_MUCH = """

_as_it_was = PtTensor.contiguous


def _twice_as_much(self):
    import array

    values = array.array("f", bytes(_as_it_was(self)))
    return memoryview(array.array("f", [value * 2 for value in values]).tobytes())


PtTensor.contiguous = _twice_as_much
"""


def with_own_package(space: Space, directory: Path) -> Space:
    """The workspace, tested with a copy of the package that can be edited."""
    return Space(space.root, space.tested.with_own_package(directory), space.cache, space.variables, space.name)


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
    table = tmp_path / "package" / "pypto_build" / "pto" / "ops" / "functions.py"
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
    found = module.tested.ask(f"import {library}; print({library}.__path__[0], {library}.__version__)")
    installed, version = Path(found.split()[0]), found.split()[1]
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
    found = other.tested.ask(
        "import importlib.metadata, importlib.util\n"
        f"print(importlib.util.find_spec({library!r}).origin, importlib.metadata.version({library!r}))"
    )
    assert found == f"{tmp_path / 'site' / library / '__init__.py'} {version}.post1"
    replayed = passes(other, *options)
    assert not replayed.cached and replayed.actions("[replay] run"), replayed.done
    passes(module, *options)


def copy_of_links(package: Path, copy: Path) -> None:
    """A package directory whose entries are links to those of another."""
    copy.mkdir(parents=True)
    for entry in package.iterdir():
        if entry.name != "__pycache__":
            (copy / entry.name).symlink_to(entry)


# 5: files put back by hand


class Kept:
    """Files of OUT as they were at one time."""

    def __init__(self, space: Space, copy: Path) -> None:
        self.space, self.copy = space, copy
        shutil.copytree(space.out, copy, symlinks=True)

    def put_back(self, *patterns: str) -> list[str]:
        """Put back those whose names match; which they were."""
        done = []
        for pattern in patterns:
            for file in sorted(self.copy.rglob(pattern)):
                name = file.relative_to(self.copy)
                target = self.space.out / name
                if file.is_file() and not file.is_symlink():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.unlink(missing_ok=True)
                    shutil.copy2(file, target)
                    done.append(str(name))
        return done


@pytest.fixture
def kept(chain: Space, tmp_path: Path) -> Kept:
    """OUT after a pass, in a workspace whose kernel is wrong now, and known to be."""
    passes(chain)
    kept = Kept(chain, tmp_path / "kept")
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    return kept


def test_5_old_object_and_no_library(kept: Kept) -> None:
    kept.put_back("*.o")
    for library in kept.space.out.rglob("*.so"):
        library.unlink()
    fails(kept.space)
    fails(kept.space)


def test_5_old_library(kept: Kept) -> None:
    kept.put_back("*.so")
    fails(kept.space)
    fails(kept.space)


def test_5_old_object_and_library(kept: Kept) -> None:
    kept.put_back("*.o", "*.so")
    fails(kept.space)
    fails(kept.space)


def test_5_old_verdict(kept: Kept) -> None:
    kept.put_back("verdict.json")
    fails(kept.space)


def test_5_old_object_library_and_verdict(kept: Kept) -> None:
    kept.put_back("*.o", "*.so", "verdict.json")
    fails(kept.space)
    fails(kept.space)


def test_5_all_but_the_records(kept: Kept) -> None:
    kept.put_back("[!.]*")
    fails(kept.space)
    fails(kept.space)


def test_5_only_the_records(kept: Kept) -> None:
    kept.put_back(".[!.]*")
    fails(kept.space)
    fails(kept.space)


def test_5_everything(kept: Kept) -> None:
    shutil.rmtree(kept.space.out)
    shutil.copytree(kept.copy, kept.space.out, symlinks=True)
    fails(kept.space)
    fails(kept.space)


def test_5_records_and_verdict_deleted_libraries_old(kept: Kept) -> None:
    shutil.rmtree(kept.space.out)
    kept.put_back("*.o", "*.so")
    fails(kept.space)


@pytest.mark.parametrize(
    ("verb", "options"),
    [(("report",), ("DEP_GEN=1", "SWIMLANE=4")), (("dump", "TASK=0"), ("DUMP=2",))],
    ids=["report", "dump"],
)
def test_5_old_verdict_after_a_run_that_counts_as_made(
    chain: Space, tmp_path: Path, verb: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """A tool gets the run it looks at even if that failed; a replay with the same records is the same run."""
    passes(chain, *options)
    kept = Kept(chain, tmp_path / "kept")
    chain.kernel("twice", "3.0f * in[i]")
    chain.run(*verb)
    kept.put_back("verdict.json")
    chain.run(*verb)
    fails(chain, *options)


def test_5_damaged_interface(chain: Space) -> None:
    passes(chain)
    for content in ("", "{", "{}", "[]", "null", '{"kernels": []}', "\0" * 100):
        files = [path for path in chain.out.rglob("interface.json") if path.is_file()]
        assert files
        for file in files:
            file.write_text(content)
        done = chain.run("replay")
        assert done.status == PASS or clear_line(done.output), done
        passes(chain)
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)


def clear_line(output: str) -> bool:
    """Whether an error is told in words."""
    return "Traceback" not in output and bool(re.search(r"^(scons: \*\*\* |pypto-build: |error: )\S", output, re.M))


# 6: the environment of the compiler

CONDITIONAL = "#include <pto/pto-inst.hpp>\n#ifndef FACTOR\n#define FACTOR 2.0f\n#endif"


def evil_directory(space: Space, header: str) -> Path:
    """A directory with a header that defines the kernel's factor, and then is the header that it hides."""
    path = space.root / "evil" / header
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#define FACTOR 3.0f\n#include_next <{header}>\n", encoding="utf-8")
    return space.root / "evil"


@pytest.mark.parametrize(("variable", "header"), [("CPATH", "cstdint"), ("CPLUS_INCLUDE_PATH", "cmath")])
def test_6_precompiled_under_another_path(chain: Space, variable: str, header: str) -> None:
    """Whoever precompiles a header under a path of his own must not do so for all workspaces to come."""
    chain.kernel("twice", "FACTOR * in[i]", CONDITIONAL)
    evil = evil_directory(chain, header)
    other = with_variables(chain, {variable: str(evil)})
    agrees(other)
    later = chain.fresh(chain.root.with_name("later"), chain.cache)
    passes(later)
    passes(chain)
    agrees(other)


def test_6_path_of_headers(chain: Space) -> None:
    chain.kernel("twice", SCALED, "#if __has_include(<scale_of.h>)\n#include <scale_of.h>\n#else\n" + RIGHT + "#endif")
    chain.write("evil/scale_of.h", WRONG)
    passes(chain)
    for variable in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"):
        other = with_variables(chain, {variable: f"{chain.root}/evil"})
        agrees(other)
        passes(chain)
        agrees(other)


def test_6_header_on_the_path_changes(chain: Space) -> None:
    chain.kernel("twice", SCALED, "#if __has_include(<scale_of.h>)\n#include <scale_of.h>\n#else\n" + RIGHT + "#endif")
    other = with_variables(chain, {"CPATH": f"{chain.root}/evil"})
    chain.write("evil/scale_of.h", RIGHT)
    agrees(other)
    chain.write("evil/scale_of.h", WRONG)
    agrees(other)
    (chain.root / "evil/scale_of.h").unlink()
    agrees(other)


@pytest.mark.parametrize("variable", ["COMPILER_PATH", "GCC_EXEC_PREFIX"])
def test_6_compiler_proper(chain: Space, variable: str) -> None:
    chain.kernel("twice", "FACTOR * in[i]", "#ifndef FACTOR\n#define FACTOR 2.0f\n#endif")
    tools = chain.root / "tools"
    if variable == "GCC_EXEC_PREFIX":
        real = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True).stdout
        beside = Path(real.strip()).parent
        tools = tools / beside.parent.name / beside.name
        copy_of_links(beside, tools)
        (tools / "cc1plus").unlink()
    write_compiler_proper(tools / "cc1plus", "-DFACTOR=3.0f")
    passes(chain)
    other = with_variables(chain, {variable: f"{chain.root}/tools/"})
    agrees(other)
    passes(chain)
    write_compiler_proper(tools / "cc1plus", "-DFACTOR=4.0f")
    agrees(other)


def test_6_path_of_libraries_for_the_link(chain: Space) -> None:
    chain.kernel("twice", "(factor ? factor() : 2.0f) * in[i]", 'extern "C" float factor() __attribute__((weak));')
    source = chain.write("evil/factor.cpp", 'extern "C" float factor() { return 3.0f; }\n')
    subprocess.run(["g++", "-fPIC", "-c", source, "-o", chain.root / "evil" / "factor.o"], check=True)
    for library in ("libgcc.a", "libgcc.so", "libc.so", "libm.so", "libstdc++.so"):
        chain.write(f"evil/{library}", f"INPUT({chain.root}/evil/factor.o)\n")
    passes(chain)
    other = with_variables(chain, {"LIBRARY_PATH": f"{chain.root}/evil"})
    agrees(other)
    passes(chain)
    agrees(other)


@pytest.mark.parametrize("variable", ["LD_LIBRARY_PATH", "LD_PRELOAD"])
def test_6_libraries_of_the_run(chain: Space, variable: str) -> None:
    """A kernel that finds another library under another path."""
    before = "#include <dlfcn.h>\nstatic float factor() {\n"
    before += '    void* library = dlopen("libfactor.so", RTLD_NOW);\n'
    before += '    void* found = dlsym(library ? library : RTLD_DEFAULT, "pypto_test_factor");\n'
    before += "    return found ? reinterpret_cast<float (*)()>(found)() : 2.0f;\n}"
    chain.kernel("twice", "factor() * in[i]", before)
    source = chain.write("evil/factor.cpp", 'extern "C" float pypto_test_factor() { return 3.0f; }\n')
    library = chain.root / "evil" / "libfactor.so"
    subprocess.run(["g++", "-fPIC", "-shared", source, "-o", library], check=True)
    passes(chain)
    value = str(library) if variable == "LD_PRELOAD" else str(library.parent)
    other = with_variables(chain, {variable: value})
    agrees(other)
    passes(chain)
    agrees(other)


def test_6_variable_that_a_kernel_reads(chain: Space) -> None:
    chain.kernel("twice", '(getenv("MY_FACTOR") ? 3.0f : 2.0f) * in[i]', "#include <cstdlib>")
    passes(chain)
    other = with_variables(chain, {"MY_FACTOR": "1"})
    agrees(other)
    passes(chain)


def test_6_date_of_the_compilation(chain: Space) -> None:
    """In 1970 the kernel is wrong."""
    chain.kernel("twice", "(__DATE__[7] == '1' ? 3.0f : 2.0f) * in[i]")
    passes(chain)
    other = with_variables(chain, {"SOURCE_DATE_EPOCH": "0"})
    agrees(other)
    passes(chain)
    agrees(other)


def test_6_date_of_the_precompilation(chain: Space) -> None:
    chain.kernel("twice", "(__DATE__[7] == '1' ? 3.0f : 2.0f) * in[i]", "#include <pto/pto-inst.hpp>")
    agrees(with_variables(chain, {"SOURCE_DATE_EPOCH": "0"}))
    later = chain.fresh(chain.root.with_name("later"), chain.cache)
    passes(later)
    passes(chain)


def test_6_date_of_the_source(chain: Space) -> None:
    """``__TIMESTAMP__`` is the time at which the source was saved."""
    kernel = chain.kernel("twice", "(__TIMESTAMP__[20] == '1' ? 3.0f : 2.0f) * in[i]")
    passes(chain)
    os.utime(kernel, (86400 * 200, 86400 * 200))
    assert chain.replay().outcome == chain.oracle(chain.root.with_name("oracle")).outcome


# 7: no golden

DECLARED = """from pypto_build.rules import pypto

env = Environment(tools=[pypto])
env.ReplayTest(name="declared", artifact="build_output/_jit_chain", platform="a2a3sim")
"""


def says_pass(output: str) -> bool:
    """Whether a log says that something passed."""
    return bool(re.search(r"^\[RUN\] PASS", output, re.MULTILINE))


@pytest.mark.parametrize("target", ["declared", "test"])
@pytest.mark.parametrize("before", [True, False], ids=["after a pass", "at first"])
def test_7_declared_test_without_golden(chain: Space, target: str, before: bool) -> None:
    chain.write("SConstruct", DECLARED)
    if before:
        done = chain.scons(target)
        assert done.status == 0 and says_pass(done.output), done
    shutil.rmtree(chain.artifact / "data" / "out")
    for _ in range(2):
        done = chain.scons(target)
        assert done.status != 0, f"nothing was compared\n{done}"
        assert not says_pass(done.output), done
    chain.tensor("out/y.pt", [2.0 * i + 1.0 for i in range(16)])
    done = chain.scons(target)
    assert done.status == 0 and says_pass(done.output), done


@pytest.mark.parametrize("before", [True, False], ids=["after a pass", "at first"])
def test_7_replay_without_golden(chain: Space, before: bool) -> None:
    if before:
        passes(chain)
    shutil.rmtree(chain.artifact / "data" / "out")
    for _ in range(2):
        done = chain.run("replay")
        assert done.status == UNCHECKED, done
        assert re.search(r"^\[RUN\] UNCHECKED", done.output, re.MULTILINE), done
        assert not says_pass(done.output), done
        assert chain.verdict()["status"] == "unchecked"


def test_7_replay_without_golden_where_that_is_allowed(chain: Space) -> None:
    shutil.rmtree(chain.artifact / "data" / "out")
    for _ in range(2):
        done = chain.run("replay", "ALLOW_UNCHECKED=1")
        assert done.status == PASS, done
        assert re.search(r"^\[RUN\] UNCHECKED", done.output, re.MULTILINE), done
        assert not says_pass(done.output), done
    assert chain.run("replay").status == UNCHECKED


def test_7_scons_without_golden(chain: Space) -> None:
    shutil.rmtree(chain.artifact / "data" / "out")
    for _ in range(2):
        done = chain.scons("replay", f"JIT={chain.name}")
        assert done.status != 0 and not says_pass(done.output), done
        assert re.search(r"^\[RUN\] UNCHECKED", done.output, re.MULTILINE), done


def test_7_data_without_golden_after_a_pass_on_other_data(chain: Space) -> None:
    """The data that DATA= names, without any golden, after a pass on the artifact's own."""
    passes(chain)
    shutil.copytree(chain.artifact / "data" / "in", chain.root / "more" / "in")
    done = chain.run("replay", f"DATA={chain.root}/more")
    assert done.status == UNCHECKED and not says_pass(done.output), done
    assert passes(chain).cached


# And besides


# Its result follows from when a file was changed, which is no input.
FLAKY = """#include <sys/stat.h>
static bool bad(const char* path) {
    struct stat now;
    return stat(path, &now) == 0 && now.st_mtime == 0;
}"""
ASKING = "#include <unistd.h>\nstatic bool bad(const char* path) { return access(path, F_OK) == 0; }"


def test_a_pass_counts_no_more_once_the_same_has_failed(chain: Space, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    chain.kernel("twice", f'(bad("{file}") ? 3.0f : 2.0f) * in[i]', FLAKY)
    passes(chain)
    os.utime(file, (0, 0))
    assert passes(chain).cached
    fails(chain, "FORCE=1")
    fails(chain)
    fails(chain.fresh(chain.root.with_name("other"), chain.cache))
    file.touch()
    replayed = passes(chain)
    assert not replayed.cached, replayed.done


def test_a_pass_counts_no_more_in_other_workspaces_once_the_same_has_failed(chain: Space, tmp_path: Path) -> None:
    chain.kernel("twice", f'(bad("{tmp_path}/bad") ? 3.0f : 2.0f) * in[i]', ASKING)
    passes(chain)
    other = chain.fresh(chain.root.with_name("other"), chain.cache)
    passes(other)
    (tmp_path / "bad").touch()
    fails(chain, "FORCE=1")
    fails(other)
    fails(chain.fresh(chain.root.with_name("third"), chain.cache))


def test_edit_and_back_does_nothing(chain: Space) -> None:
    passes(chain)
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    chain.kernel("twice", "2.0f * in[i]")
    replayed = passes(chain)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done


def test_edited_header_and_back_does_nothing(chain: Space) -> None:
    chain.kernel("twice", SCALED, '#define NAME "scale.h"\n#include NAME')
    chain.write_in(HEADER, RIGHT)
    passes(chain)
    chain.write_in(HEADER, WRONG)
    fails(chain)
    chain.write_in(HEADER, RIGHT)
    replayed = passes(chain)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done


def test_edited_golden_and_back_does_nothing(chain: Space) -> None:
    passes(chain)
    chain.tensor("out/y.pt", [0.0] * 16)
    fails(chain)
    chain.tensor("out/y.pt", [2.0 * i + 1.0 for i in range(16)])
    replayed = passes(chain)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done


def test_edited_module_and_back_does_nothing(module: Space) -> None:
    passes(module)
    module.edit("ptoas/add.pto", "pto.tadd", "pto.tsub")
    fails(module)
    module.edit("ptoas/add.pto", "pto.tsub", "pto.tadd")
    replayed = passes(module)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done
    module.edit("ptoas/add.pto", "pto.tadd", "pto.tsub")
    replayed = fails(module)
    assert [line for line in replayed.work if "compile" in line or "link" in line] == [], replayed.done


def test_second_workspace_with_the_same_content_does_nothing(chain: Space) -> None:
    passes(chain)
    second = chain.fresh(chain.root.with_name("second"), chain.cache)
    replayed = passes(second)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done
    second.kernel("twice", "3.0f * in[i]")
    fails(second)
    assert passes(chain).cached


def test_the_signed_manifest_leads_to_the_artifact_wherever_that_lies(chain: Space) -> None:
    passes(chain)
    moved = chain.root.parent / "moved" / chain.name
    shutil.copytree(chain.artifact, moved)
    shutil.rmtree(chain.artifact)
    done = chain.scons("replay", f"JIT={moved}")
    assert done.status == 0 and "(cached)" in done.output, done  # only the manifest tells where the artifact lies
    signing = [line for line in done.output.splitlines() if line.startswith("[manifest]")]
    assert signing == ["[manifest] sign kernel_config.py  (where its files lie changed)"], done
    reads = f"described_root(Path({str(chain.out)!r}, 'kernel_config.py'))"
    code = f"from pathlib import Path; from pypto_build.artifact.manifest import described_root; print({reads})"
    assert chain.tested.ask(code) == str(moved)


def test_second_workspace_without_the_store_does_everything(chain: Space) -> None:
    passes(chain)
    second = chain.fresh(chain.root.with_name("second"))
    assert len(passes(second).actions("[cpp->.so] compile", "[replay] run")) == 4


def test_build_directory_removed_does_nothing(chain: Space) -> None:
    passes(chain)
    shutil.rmtree(chain.root / "build")
    replayed = passes(chain)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done
    assert (chain.out / "actual" / "y.pt").exists()


def test_store_removed_is_no_loss(chain: Space) -> None:
    passes(chain)
    shutil.rmtree(chain.cache / "store", ignore_errors=True)
    passes(chain)
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)


def test_store_that_is_cleaned(chain: Space) -> None:
    passes(chain)
    done = chain.scons("gc", "STORE_SIZE=0")
    assert done.status == 0, done
    passes(chain)
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    assert chain.scons("gc").status == 0
    fails(chain)


def test_shared_store_that_is_cleaned(chain: Space, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    remote.mkdir()
    shared = f"STORE_REMOTE={remote}"
    passes(chain, shared, "STORE_UPLOAD=wait")
    files = list(remote.glob("*/*/*"))
    unused = files[::2]
    for path in unused:
        os.utime(path, (1e9, 1e9))
    done = chain.scons("gc", shared, "DAYS=30")
    assert done.status == 0 and f"[store] {len(unused)} files, " in done.output, done
    assert all(path.exists() for path in files)
    done = chain.scons("gc", shared, "DAYS=30", "WRITE=1")
    assert done.status == 0 and f"[store] removed {len(unused)} files, " in done.output, done
    assert [path for path in files if path.exists()] == files[1::2]
    shutil.rmtree(chain.cache / "store")
    passes(chain, shared)
    assert chain.scons("gc", "STORE_REMOTE=http://127.0.0.1:1/x").status == 2


def test_exit_status_of_what_cannot_be_built(chain: Space) -> None:
    passes(chain)
    chain.kernel("twice", "nothing * in[i]")
    for _ in range(2):
        assert chain.replay().outcome.exit == BUILD
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    assert chain.run("replay", "RTOL=much").status == USAGE


# 8: what a compiler asks, without reading it


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("exists", "nothing", "file"),
        ("directory", "file", "directory"),
        ("link", "file", "one"),
        ("target", "one", "two"),
        ("execute", "file", "executable"),
        ("size", "file", "larger"),
        ("names", "directory", "hidden"),
        ("refusal", "nothing", "file"),
        ("through", "nothing", "file"),
    ],
)
def test_8_what_a_compiler_asks(chain: Space, tmp_path: Path, question: str, right: str, wrong: str) -> None:
    """Here, and in another workspace with the same store."""
    compiler = write_asking(chain)
    chain.kernel("twice", SCALED, "#ifndef SCALE\n#define SCALE 2.0f\n#endif")
    chain.write("asked/question", question)
    put_probe(chain.root, right)
    passes(chain, f"CXX={compiler}")
    other = chain.fresh(tmp_path / "other", chain.cache)
    put_probe(other.root, wrong)
    fails(other, f"CXX={other.root}/tools/asking-g++")
    put_probe(chain.root, wrong)
    fails(chain, f"CXX={compiler}")
    put_probe(chain.root, right)
    passes(chain, f"CXX={compiler}")


_COUNTING = 'echo x >> {root}/log; test $(wc -l < {root}/log) -gt 1000 || scale=; exec g++ $scale "$@"'
_UNSEEN = {
    "appends to a file and reads it": _COUNTING,
    "without the library that watches": (
        'test "$(env -i cat {root}/factor)" = 3 && scale=-DSCALE=3.0f; exec g++ $scale "$@"'
    ),
}


_SAID = ("so it is made anew every time", "what tools read cannot be watched here")


@pytest.mark.parametrize("way", _UNSEEN)
def test_8_what_cannot_be_seen_is_made_anew(chain: Space, tmp_path: Path, way: str) -> None:
    chain.write("factor", "2")
    compiler = write_compiler(chain, tmp_path / "unseen-g++", f"scale=\n{_UNSEEN[way].format(root=chain.root)}")
    chain.kernel("twice", SCALED, "#ifndef SCALE\n#define SCALE 2.0f\n#endif")
    passes(chain, f"CXX={compiler}")
    replayed = passes(chain, f"CXX={compiler}")
    assert replayed.actions("[cpp->.so] compile kernels/aiv/twice.cpp"), replayed.done
    assert any(line in replayed.done.output for line in _SAID), replayed.done
    if "library" in way:
        chain.write("factor", "3")
        fails(chain, f"CXX={compiler}")


def test_8_a_header_in_a_directory_of_path(chain: Space, tmp_path: Path) -> None:
    """It is a file by its path, not a program that is searched for."""
    directory = tmp_path / "bin"
    directory.mkdir()
    condition = f'#if __has_include("{directory}/t.h")'
    chain.kernel("twice", SCALED, f"{condition}\n#define SCALE 3.0f\n#else\n#define SCALE 2.0f\n#endif")
    searched = with_variables(chain, {"PATH": f"{directory}:{chain.environment()['PATH']}"})
    passes(searched)
    (directory / "t.h").touch()
    fails(searched)
    fails(chain)
    (directory / "t.h").unlink()
    passes(chain)
    (directory / "t.h").touch()
    fails(searched)


@pytest.mark.parametrize(
    "place", ["/dev/shm/pypto-trust-{pid}", "/proc/self/root{root}/seen", "{root}/lib/python3.11/seen"]
)
def test_8_headers_wherever_they_lie(chain: Space, place: str) -> None:
    path = Path(place.format(pid=os.getpid(), root=chain.root))
    path.mkdir(parents=True, exist_ok=True)
    try:
        chain.kernel("twice", SCALED, f'#include "{path}/scale.h"')
        for text, expected in ((RIGHT, passes), (WRONG, fails), (RIGHT, passes)):
            (path / "scale.h").write_text(text)
            expected(chain)
    finally:
        shutil.rmtree(path, ignore_errors=True)
