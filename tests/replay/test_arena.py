"""The tensors' memory: alignment, zeros, and writes that miss."""

from __future__ import annotations

import pytest

from pypto_build.replay.arena import ALIGNMENT, Arena, Overrun


def test_tensors_are_zero_and_take_data() -> None:
    arena = Arena([5, 0, 300])
    assert [bytes(arena.tensor(i)) for i in range(3)] == [bytes(5), b"", bytes(300)]
    arena.fill(0, b"hello")
    arena.fill(2, None)
    assert bytes(arena.tensor(0)) == b"hello"
    assert arena.overrun() is None


@pytest.mark.parametrize(
    ("index", "offset", "found"),
    [
        (0, 5, Overrun(0, 0)),
        (0, 100, Overrun(0, 95)),
        (0, -8, Overrun(0, -8)),
        (1, 256, Overrun(1, 0)),
        (1, 300, Overrun(1, 44)),
    ],
)
def test_a_write_beside_a_tensor_is_found(index: int, offset: int, found: Overrun) -> None:
    arena = Arena([5, 256])
    start = arena._offsets[index]
    arena._view[start + offset] = 0
    assert arena.overrun() == found


def test_alignment() -> None:
    assert all(offset % ALIGNMENT == 0 for offset in Arena([1, 3, 1000])._offsets)
