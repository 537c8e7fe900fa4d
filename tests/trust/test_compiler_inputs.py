"""Files that the compiler reads (3): each decides, and no other."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.trust.compilers import write_compiler
from tests.trust.judged import fails, header_decides, inside, passes, write_compiler_proper, wrong_outputs
from tests.trust.readings import Reading, appearing, assembled, includes, linked, searched
from tests.trust.space import Space, with_variables, write_kernels
from tests.trust.tested import Tested


def test_3_everything_a_unit_reads_by_itself(tested: Tested, tmp_path: Path) -> None:
    """Headers by every spelling, headers that appear and go, what the assembler includes, links that are switched."""
    space = Space(tmp_path / "w", tested, tested.new_cache(tmp_path / "cache"))
    decides_by_each(
        space, [*includes(), *appearing(space), *assembled(space), *linked(space)], "KERNEL_FLAGS=-trigraphs"
    )


def test_3_everything_found_by_directories_in_the_flags(tested: Tested, tmp_path: Path) -> None:
    """Every flag that names a directory, headers that newly shadow others there, links to directories."""
    space = Space(tmp_path / "w", tested, tested.new_cache(tmp_path / "cache"))
    all_searched = searched(space)
    decides_by_each(space, all_searched.readings, f"KERNEL_FLAGS={' '.join(all_searched.flags)}")


def decides_by_each(space: Space, readings: list[Reading], *options: str) -> None:
    """A kernel is right, wrong and right again by the files that it alone reads: one kernel, then all at once."""
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


def test_3_include_in_the_orchestration(chain: Space) -> None:
    chain.edit("orchestration/chain.cpp", "// Task 0", '#define NAME "order.h"\n#include NAME\n// Task 0')
    chain.edit("orchestration/chain.cpp", "task(0, params_t0)", "task(FIRST, params_t0)")
    path = inside(chain, "orchestration/order.h")
    header_decides(chain, path, right="#define FIRST 0\n", wrong="#define FIRST 1\n")


def test_3_files_in_the_flags(chain: Space) -> None:
    """Files that every unit reads: one at a time, since all units are compiled anew for each."""
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
