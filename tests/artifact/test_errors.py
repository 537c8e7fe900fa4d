"""ArtifactError prints as one line and knows its exit status."""

from __future__ import annotations

import pytest

from pypto_build.artifact import ArtifactError, ErrorKind


@pytest.mark.parametrize(
    ("path", "message", "hint", "line"),
    [
        ("a.py", "is bad", "mend it", "a.py: is bad; mend it"),
        ("a.py", "is bad", "", "a.py: is bad"),
        ("", "is bad", "", "is bad"),
        ("a.py", "is\n  bad", "mend\nit", "a.py: is bad; mend it"),
    ],
)
def test_is_one_line(path: str, message: str, hint: str, line: str) -> None:
    assert str(ArtifactError(path, message, hint)) == line


@pytest.mark.parametrize(("kind", "status"), [("usage_error", 2), ("build_error", 3), ("golden_error", 4)])
def test_exit_status(kind: ErrorKind, status: int) -> None:
    assert ArtifactError("a", "b", kind=kind).exit_status == status
