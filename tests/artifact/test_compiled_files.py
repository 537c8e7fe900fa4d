"""The list of generated files: names that lead out of the artifact do not count, what cannot be read says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.artifact.compiled_files import CompiledFiles, encode_compiled_files, read_compiled_files

DOCUMENT = CompiledFiles(1, "p.py", ("p.py",), ("kernels/aiv/k.cpp", "golden.py"), {"golden.py": "ab"})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "compiled_files.json"
    path.write_bytes(encode_compiled_files(DOCUMENT))
    assert read_compiled_files(path) == DOCUMENT


def test_names_that_lead_out_of_the_artifact(tmp_path: Path) -> None:
    path = tmp_path / "compiled_files.json"
    wrong = ("/etc/passwd", "../x", "a/../../x")
    files = (*DOCUMENT.files, *wrong)
    document = CompiledFiles(1, "p.py", ("p.py",), files, {**DOCUMENT.digests, **dict.fromkeys(wrong, "")})
    path.write_bytes(encode_compiled_files(document))
    assert read_compiled_files(path) == DOCUMENT


@pytest.mark.parametrize("data", [None, b"", b"[]", b'{"schema": 1}', b"\xff"])
def test_what_cannot_be_read(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "compiled_files.json"
    if data is not None:
        path.write_bytes(data)
    assert read_compiled_files(path) is None
