"""Parts of a key besides files: paths as text, times, variables, processors; across unlike workspaces, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trust.compilers import write_compiler
from tests.trust.space import HANG, MISMATCH, PASS, Space, with_variables

_LENGTH = "(sizeof(ROOT) == {length} ? 2.0f : 3.0f) * in[i]"


def elsewhere(space: Space, directory: Path) -> Space:
    """The same sources in a workspace of its own, which has the store in common."""
    return space.fresh(directory, space.cache)


@pytest.mark.parametrize("flag", ["-DROOT='\"{root}\"'", "-D 'ROOT=\"{root}\"'"])
def test_the_length_of_a_path_comes_from_no_other_workspace(chain: Space, tmp_path: Path, flag: str) -> None:
    chain.kernel("twice", _LENGTH.format(length=len(str(chain.root)) + 1))
    assert chain.replay(f"KERNEL_FLAGS={flag.format(root=chain.root)}").outcome.exit == PASS
    other = elsewhere(chain, tmp_path / "a" / "longer" / "place")
    replayed = other.replay(f"KERNEL_FLAGS={flag.format(root=other.root)}")
    assert replayed.outcome.exit == MISMATCH, replayed.done


def test_the_length_of_a_path_in_a_forced_header_is_that_here(chain: Space, tmp_path: Path) -> None:
    """Results that are the same in both workspaces still come from the other one."""
    chain.write("ext/forced.h", "#define SCALE 2.0f\n")
    chain.kernel("twice", "SCALE * in[i]")
    option = "KERNEL_FLAGS=-include {root}/ext/forced.h -I{root}/ext"
    assert chain.replay(option.format(root=chain.root)).outcome.exit == PASS
    other = elsewhere(chain, tmp_path / "other" / "place")
    replayed = other.replay(option.format(root=other.root))
    assert (replayed.outcome.exit, replayed.work) == (PASS, []), replayed.done


def test_a_flag_with_the_name_of_a_root_is_not_the_root(chain: Space) -> None:
    text = "(sizeof(ROOT) == {length} ? 2.0f : 3.0f) * in[i]"
    chain.kernel("twice", text.format(length=len(str(chain.root)) + 1))
    assert chain.replay(f"KERNEL_FLAGS=-DROOT='\"{chain.root}\"'").outcome.exit == PASS
    for name in ("here", "top", "artifact", "out"):
        assert chain.replay(f"KERNEL_FLAGS=-DROOT='\"{{{name}}}\"'").outcome.exit == MISMATCH


def test_a_directory_with_the_name_of_a_root_is_not_the_root(chain: Space) -> None:
    chain.write("inc/scale.h", "#define SCALE 2.0f\n")
    chain.write("{here}/inc/scale.h", "#define SCALE 3.0f\n")
    chain.kernel("twice", "SCALE * in[i]", "#include <scale.h>")
    assert chain.replay(f"KERNEL_FLAGS=-I{chain.root}/inc").outcome.exit == PASS
    assert chain.replay("KERNEL_FLAGS=-I{here}/inc").outcome.exit == MISMATCH


def test_a_pass_that_took_longer_than_the_time_limit_is_none(chain: Space, tmp_path: Path) -> None:
    slow = "timespec pause{1, 500000000}; nanosleep(&pause, nullptr);"
    chain.kernel("twice", "2.0f * in[i]", "#include <ctime>", slow)
    assert chain.replay("TIMEOUT=100").outcome.exit == PASS
    replayed = chain.replay("TIMEOUT=99")
    assert (replayed.outcome.exit, replayed.cached) == (PASS, True)
    assert chain.verdict()["longest_s"] > 1.5
    replayed = chain.replay("TIMEOUT=1")
    assert replayed.outcome.exit == HANG, replayed.done
    assert "took longer than 1 s" in replayed.done.output
    assert chain.replay("TIMEOUT=100").outcome.exit == PASS
    other = elsewhere(chain, tmp_path / "other")
    assert other.replay("TIMEOUT=1").outcome.exit == HANG
    assert other.replay("TIMEOUT=100").outcome.exit == PASS


def test_kernels_see_the_same_variables_whoever_runs_them(chain: Space) -> None:
    seen = "extern char** environ;\nstatic int seen() { int n = 0; while (environ[n]) ++n; return n; }"
    for name in (
        "HOME",
        "TERM",
        "COLUMNS",
        "PYPTO_X",
        "XDG_X",
        "CCACHE_X",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "NO_COLOR",
    ):
        space = with_variables(chain, {name: "something"})
        seen_now = f'(getenv("{name}") || seen() != 2 ? 3.0f : 2.0f) * in[i]'
        space.kernel("twice", seen_now, f"#include <cstdlib>\n{seen}")
        replayed = space.replay()
        assert replayed.outcome.exit == PASS, f"{name} is seen\n{replayed.done}"


def test_a_limit_that_kernels_see_is_part_of_the_key(chain: Space) -> None:
    chain.kernel("twice", '(getenv("PTO2_RING_HEAP") ? 3.0f : 2.0f) * in[i]', "#include <cstdlib>")
    assert chain.replay().outcome.exit == PASS
    assert with_variables(chain, {"PTO2_RING_HEAP": "1048576"}).replay().outcome.exit == MISMATCH
    replayed = chain.replay()
    assert (replayed.outcome.exit, replayed.cached) == (PASS, True)


def test_compilers_see_no_home_and_no_terminal(chain: Space, tmp_path: Path) -> None:
    body = 'exec g++ "$@" ${HOME:+-DEXTRA} ${TERM:+-DEXTRA} ${COLUMNS:+-DEXTRA} ${NO_COLOR:+-DEXTRA}\n'
    program = write_compiler(chain, tmp_path / "my-g++", body)
    chain.kernel("twice", "FACTOR * in[i]", "#ifdef EXTRA\n#define FACTOR 3.0f\n#else\n#define FACTOR 2.0f\n#endif")
    space = with_variables(chain, {"HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "40", "NO_COLOR": "1"})
    assert space.replay(f"CXX={program}").outcome.exit == PASS


_CPU = """case " $* " in *" -### "*) echo "cc1plus $(cat {cpu})" >&2; exit 0;; esac
exec g++ "$@"
"""


def test_objects_for_this_processor_come_from_no_other(chain: Space, tmp_path: Path) -> None:
    cpu = chain.write("tools/cpu", "-mavx2")
    program = write_compiler(chain, tmp_path / "my-g++", _CPU.format(cpu=cpu))
    chain.kernel("twice", "2.0f * in[i]")
    options = (f"CXX={program}", "ARCH=native")
    assert chain.replay(*options).outcome.exit == PASS
    replayed = chain.replay(*options)
    assert replayed.work == []
    cpu.write_text("-mavx512f")
    replayed = chain.replay(*options, "VERBOSE=1")
    compiled = replayed.actions("[cpp->.so] compile")
    assert len(compiled) == 2 and all("this processor changed" in line for line in compiled), replayed.done


@pytest.mark.parametrize("options", [(), ("CHECK=1",)])
def test_a_kernel_that_includes_itself_by_its_name(chain: Space, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Its object holds for this place alone."""
    twice = "#ifndef FACTOR\n#define FACTOR 2.0f\n#include __FILE__\n#else\nconstexpr int kLength = sizeof(__FILE__);\n"
    length = len(str(chain.artifact / "kernels/aiv/twice.cpp")) + 1
    expression = f"(kLength == {length} ? FACTOR : 3.0f) * in[i]"
    path = chain.kernel("twice", expression)
    path.write_text(f"{twice}{path.read_text()}#endif\n")
    assert chain.replay(*options).outcome.exit == PASS
    assert chain.replay(*options).cached
    other = elsewhere(chain, tmp_path / "a" / "longer" / "place")
    assert other.replay(*options).outcome.exit == MISMATCH


def test_a_header_that_is_missing_is_said_once(chain: Space) -> None:
    chain.kernel("twice", "2.0f * in[i]", '#include "nothing.h"')
    done = chain.replay().done
    assert done.output.count("fatal error: nothing.h: No such file") == 1


@pytest.mark.parametrize("name", ["_jit_a\nb", "_jit_a\u2028b", "_jit_a\rb"])
def test_names_with_ends_of_lines(chain: Space, name: str) -> None:
    renamed = chain.artifact.with_name(name)
    chain.artifact.rename(renamed)
    chain.name = name
    assert chain.replay().outcome.exit == PASS
    assert chain.replay().cached


def test_a_name_that_scons_would_change_is_refused(chain: Space) -> None:
    renamed = chain.artifact.with_name("_jit_$(id)\x1b[2J")
    chain.artifact.rename(renamed)
    chain.name = renamed.name
    done = chain.replay().done
    assert "the path contains '$(', which SCons interprets itself; rename the directory" in done.output
    assert "\x1b" not in done.output
