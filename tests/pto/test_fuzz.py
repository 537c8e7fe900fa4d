"""No text makes the parser crash: it is read, or a PtoError of one line is raised, and what was read prints again."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_build.pto import PtoError, parse, print_module
from pypto_build.pto.assemble import assemble
from pypto_build.pto.checks import check_module
from pypto_build.pto.diff import diff_modules
from pypto_build.pto.model import tokenize
from tests.pto.test_round_trip import PYPTO

KERNELS = (Path(__file__).parent / "modules" / "kernels.pto").read_text()
SEEDS = [tokenize(text)[:-1] for text in (PYPTO, *("func.func" + part for part in KERNELS.split("func.func")[2:]))]
SEEDS = [[*tokens[: tokens.index("}", -3) if "}" in tokens[-3:] else None], "}"] for tokens in SEEDS]
WORDS = sorted({token for seed in SEEDS for token in seed})
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(
        ["<", ">", '"', "%", "@", "#", "!", "->", "0x", "1e999", "^b", "loc(", "array<i32:", "<" * 99, "9" * 99]
    ),
    st.text(max_size=8),
)
EDIT = st.tuples(st.sampled_from(["insert", "delete", "replace", "cut"]), st.integers(0, 10**6), PIECES)


def survives(text: str) -> None:
    """Read, print, check, compare and assemble; only PtoErrors with a place may come out."""
    try:
        module = parse(text, "f.pto")
        assert parse(print_module(module)) == module
        assert diff_modules(module, module) == []
        if not check_module(module):
            assemble(module, "a2a3sim")
    except PtoError as error:
        assert str(error).startswith("f.pto:")
        assert "\n" not in str(error)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    survives(text)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(PIECES, max_size=60))
def test_any_words(pieces: list[str]) -> None:
    survives("func.func @f(%a: index) { " + " ".join(pieces))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(SEEDS), st.lists(EDIT, min_size=1, max_size=4))
def test_edited_modules(seed: list[str], edits: list[tuple[str, int, str]]) -> None:
    tokens = list(seed)
    for kind, position, piece in edits:
        at = position % (len(tokens) + 1)
        if kind == "insert":
            tokens.insert(at, piece)
        elif kind == "cut":
            del tokens[at:]
        else:
            tokens[at : at + 1] = [piece] if kind == "replace" else []
    survives(" ".join(tokens))
