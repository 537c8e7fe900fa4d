"""The header scanner resolves names as the compiler does, and keys by content."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pypto_build.rules.headers import HeaderIndex
from pypto_build.toolchain.host import INCLUDE_DIR


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def test_closure(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "k/k.cpp": '#include <vector>\n# include "a.h"\n#include <inc/b.h>\n// #include "never.h" is a comment\n',
            "k/a.h": '#include "sub/c.h"\n',
            "k/sub/c.h": '#include "a.h"\n#include "d.h"\n',
            "k/sub/d.h": "",
            "path/inc/b.h": "  #  include <e.h>\n",
            "path/e.h": "#pragma once\n",
            "path/a.h": "what sub/c.h means: a.h is not beside it",
        },
    )
    index = HeaderIndex((str(tmp_path / "path"),))
    found = [Path(header).relative_to(tmp_path).as_posix() for header in index.headers(str(tmp_path / "k/k.cpp"))]
    assert found == ["k/a.h", "k/sub/c.h", "k/sub/d.h", "path/a.h", "path/e.h", "path/inc/b.h"]


def test_quoted_name_is_searched_beside_its_includer_then_on_the_path(tmp_path: Path) -> None:
    write(tmp_path, {"k.cpp": '#include "x.h"\n', "first/x.h": "", "second/x.h": ""})
    index = HeaderIndex((str(tmp_path / "first"), str(tmp_path / "second")))
    assert index.headers(str(tmp_path / "k.cpp")) == (str(tmp_path / "first/x.h"),)
    write(tmp_path, {"x.h": ""})
    index = HeaderIndex((str(tmp_path / "first"),))
    assert index.headers(str(tmp_path / "k.cpp")) == (str(tmp_path / "x.h"),)


def test_extra_directories_come_last(tmp_path: Path) -> None:
    write(tmp_path, {"k.cpp": "#include <x.h>\n#include <y.h>\n", "inc/x.h": "", "extra/x.h": "", "extra/y.h": ""})
    index = HeaderIndex((str(tmp_path / "inc"),))
    found = index.headers(str(tmp_path / "k.cpp"), [str(tmp_path / "extra")])
    assert found == (str(tmp_path / "extra/y.h"), str(tmp_path / "inc/x.h"))


def test_key_follows_content(tmp_path: Path) -> None:
    write(tmp_path, {"k.cpp": '#include "x.h"\n', "x.h": "1"})
    source = str(tmp_path / "k.cpp")
    before = HeaderIndex(()).key(source)
    assert HeaderIndex(()).key(source) == before
    write(tmp_path, {"x.h": "2"})
    assert HeaderIndex(()).key(source) != before
    write(tmp_path, {"x.h": "1"})
    assert HeaderIndex(()).key(source) == before


def test_finds_what_the_compiler_reads(tmp_path: Path) -> None:
    source = tmp_path / "k.cpp"
    source.write_text('#include <cstdint>\n#include <pto/pto-inst.hpp>\n#include "tensor.h"\n', encoding="utf-8")
    flags = ["-std=c++17", "-D__CPU_SIM", "-D__DAV_VEC__", "-DPYPTO_ARCH=2", f"-I{INCLUDE_DIR}"]
    run = subprocess.run(["g++", *flags, "-MM", str(source)], capture_output=True, text=True, check=True)
    read = {word for word in run.stdout.replace("\\\n", " ").split() if word.startswith(str(INCLUDE_DIR))}
    found = set(HeaderIndex((str(INCLUDE_DIR),)).headers(str(source)))
    assert {str(Path(name).resolve()) for name in read} <= found
