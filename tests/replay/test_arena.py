"""The tensors' memory: alignment, zeros, and writes that miss."""

from __future__ import annotations

import mmap

import pytest

from pypto_build.replay.arena import Arena, Overrun


def test_tensors_are_zero_and_take_data() -> None:
    arena = Arena([5, 0, 300])
    assert [bytes(arena.tensor(i)) for i in range(3)] == [bytes(5), b"", bytes(300)]
    arena.fill(0, b"hello")
    arena.fill(2, None)
    assert bytes(arena.tensor(0)) == b"hello"
    assert arena.overrun() is None


@pytest.mark.parametrize(
    ("index", "offset", "overrun"),
    [
        (0, 5, Overrun(0, 5)),
        (0, 100, Overrun(0, 100)),
        (0, -8, Overrun(0, -8)),
        (1, -4, Overrun(1, -4)),
        (1, 256, Overrun(1, 256)),
        (1, 300, Overrun(1, 300)),
    ],
)
def test_a_write_beside_a_tensor_is_found(index: int, offset: int, overrun: Overrun) -> None:
    arena = Arena([5, 256])
    start, _ = arena.layout[index]
    arena.memory[start + offset] = 0
    assert arena.overrun() == overrun


def test_every_tensor_owns_its_pages() -> None:
    arena = Arena([1, 4096, 5000, 3])
    pages = [{(offset + byte) // mmap.PAGESIZE for byte in (0, size - 1)} for offset, size in arena.layout]
    assert all(offset % mmap.PAGESIZE == 0 for offset, _ in arena.layout)
    assert not any(a & b for i, a in enumerate(pages) for b in pages[i + 1 :])
