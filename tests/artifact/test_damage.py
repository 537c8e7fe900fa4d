"""Whatever an editor leaves behind, the answer is a result or one line: never a traceback."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.interface import sign

from .artifacts import MANIFEST, VINTAGE_NAMES, generated, make_artifact

SIGNED = (
    "from simpler.task_interface import ArgDirection as _D\n"
    + MANIFEST.replace('"aiv"}', '"aiv", "signature": [_D.IN, _D.OUT]}')
    + 'RUNTIME_CONFIG = {"runtime": f"{_ROOT_DIR}", "block_dim": 24}\n'
)
PIECES = st.sampled_from(
    [*"()[]{}<>,;:.=*&#\"'/\\ \n0a", "..", "**", "None", "_ROOT_DIR", "KERNELS", "template", "\0", "é"]
)
EDITS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 12), PIECES), min_size=1, max_size=4)
CHECKS = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    for position, length, piece in edits:
        start = position % len(text)
        text = text[:start] + piece + text[start + length :]
    return text


def check(root: Path) -> None:
    try:
        sign(load_artifact(root))
    except ArtifactError as error:
        assert "\n" not in str(error)
        assert str(error).startswith(str(root))


@CHECKS
@given(edits=EDITS)
def test_damaged_manifest(tmp_path: Path, edits: list[tuple[int, int, str]]) -> None:
    check(make_artifact(tmp_path, edited(SIGNED, edits)))


@CHECKS
@given(vintage=st.sampled_from(VINTAGE_NAMES), edits=EDITS)
def test_damaged_orchestration(tmp_path: Path, vintage: str, edits: list[tuple[int, int, str]]) -> None:
    check(make_artifact(tmp_path, orchestration=edited(generated(vintage), edits)))
