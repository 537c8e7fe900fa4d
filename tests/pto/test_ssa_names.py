"""Names of values: what is written is read back, whatever the program calls its variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto_build.pto.ssa_names import SsaName, read_ssa_name, source_variable, spelled

WORDS = ("ssa", "idx", "iter", "rv", "phi", "tmp")
_parts = st.sampled_from(["a", "tmp0", "_", "__", "x1", "__ssa_v0", "__iter_v12", "_v3", "ssa"])
variables = st.lists(_parts, min_size=1, max_size=4).map("".join).filter(str.isidentifier)


@given(
    variables, st.sampled_from(WORDS), st.integers(0, 999_999_999), st.sampled_from(["", "_pview", "__Vec", "_view_1"])
)
def test_what_is_written_is_read(variable: str, word: str, version: int, rest: str) -> None:
    name = spelled(variable, word, version)
    assert read_ssa_name(f"%{name}{rest}") == SsaName(variable, word, version, rest)
    assert source_variable(name + rest) == variable


@pytest.mark.parametrize(
    "name", ["x", "%arg0", "M", "__pypto_spmd_block_idx", "x__ssa_v", "__ssa_v0", "x__ssa_v" + "1" * 5000]
)
def test_other_names_are_their_own(name: str) -> None:
    assert read_ssa_name(name) is None
    assert source_variable(name) == name
