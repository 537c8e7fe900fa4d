"""The instruction tests' library is compiled again when a header changes, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import kept
from tests.runtime.instructions import tile_harness


def test_a_library_is_compiled_again_when_a_header_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = tmp_path / "include" / "detail" / "some.hpp"
    header.parent.mkdir(parents=True)
    header.write_text("// one\n", encoding="utf-8")
    monkeypatch.setattr(tile_harness, "INCLUDE", tmp_path / "include")
    monkeypatch.setenv(kept.VARIABLE, str(tmp_path / "kept"))
    first = tile_harness.compile_library("int number;\n")
    assert tile_harness.compile_library("int number;\n") == first
    header.write_text("// two\n", encoding="utf-8")
    second = tile_harness.compile_library("int number;\n")
    assert first.exists() and second.exists() and second != first
