"""Answers that a compiler gets without reading a file (8): each is an input, or the result is made anew."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.trust.compilers import put_probe, write_asking, write_compiler
from tests.trust.judged import RIGHT, SCALED, WRONG, fails, passes
from tests.trust.space import Space, with_variables


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


_SAID = ("so it is made again every time", "what tools read cannot be watched here")


@pytest.mark.parametrize("how", _UNSEEN)
def test_8_what_cannot_be_seen_is_made_anew(chain: Space, tmp_path: Path, how: str) -> None:
    chain.write("factor", "2")
    compiler = write_compiler(chain, tmp_path / "unseen-g++", f"scale=\n{_UNSEEN[how].format(root=chain.root)}")
    chain.kernel("twice", SCALED, "#ifndef SCALE\n#define SCALE 2.0f\n#endif")
    passes(chain, f"CXX={compiler}")
    replayed = passes(chain, f"CXX={compiler}")
    assert replayed.actions("[cpp->.so] compile kernels/aiv/twice.cpp"), replayed.done
    assert any(line in replayed.done.output for line in _SAID), replayed.done
    if "library" in how:
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
    "path_of_header", ["/dev/shm/pypto-trust-{pid}", "/proc/self/root{root}/seen", "{root}/lib/python3.11/seen"]
)
def test_8_headers_wherever_they_lie(chain: Space, path_of_header: str) -> None:
    path = Path(path_of_header.format(pid=os.getpid(), root=chain.root))
    path.mkdir(parents=True, exist_ok=True)
    try:
        chain.kernel("twice", SCALED, f'#include "{path}/scale.h"')
        for text, expected in ((RIGHT, passes), (WRONG, fails), (RIGHT, passes)):
            (path / "scale.h").write_text(text)
            expected(chain)
    finally:
        shutil.rmtree(path, ignore_errors=True)
