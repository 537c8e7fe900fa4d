"""The loads and stores of calls tell which calls have a part in an element; only those are run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto_build.diagnose.diverge import probe
from pypto_build.diagnose.why import runs
from pypto_build.diagnose.why.runs import Call, Runs, may_be_plain
from pypto_build.diagnose.why.trace import Intervals
from tests.diagnose.checked import copy_example
from tests.diagnose.test_why import links, why

#: The last task adds an element of c, which it does not load, to the product of a and b.
_BY_POINTER = [
    ("kernels/aiv/kernel_add.cpp", "TADD(v17, v7, v13);", "TADDS(v17, v7, v2[0]);"),
    ("kernels/aiv/kernel_add.cpp", "TLOAD(v13, v16);", ""),
    ("orchestration/vector_dag.cpp", "params_t3.add_input(d);", "params_t3.add_input(ext_a);"),
    ("orchestration/vector_dag.cpp", "params_t3.add_input(e);", "params_t3.add_input(ext_b);"),
]
_SETS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=8)


def intervals(pairs: list[tuple[int, int]]) -> tuple[Intervals, set[int]]:
    """Return intervals of first bytes and lengths, and the same bytes as a set."""
    low = np.array([first for first, _ in pairs], np.int64)
    high = np.array([first + length for first, length in pairs], np.int64)
    return Intervals.of(low, high), {byte for first, length in pairs for byte in range(first, first + length)}


def members(some: Intervals) -> set[int]:
    """All bytes of a set of them, which has to be in order and disjoint."""
    assert (some.low < some.high).all() and (some.high[:-1] < some.low[1:]).all()
    return {byte for low, high in zip(some.low, some.high, strict=True) for byte in range(low, high)}


@given(_SETS, _SETS)
def test_intervals_are_sets_of_bytes(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    (a, in_a), (b, in_b) = intervals(one), intervals(two)
    assert members(a) == in_a and a.bytes == len(in_a)
    assert members(a.with_(b)) == in_a | in_b
    assert members(a.without(b)) == in_a - in_b
    assert members(a.within(10, 30)) == in_a & set(range(10, 30))
    assert a.holds(np.arange(80)).tolist() == [byte in in_a for byte in range(80)]
    touched = [bool(in_a & set(range(low, high))) for low, high in zip(b.low, b.high, strict=True)]
    assert a.touched(b.low, b.high).tolist() == touched


@pytest.fixture
def needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[list[list[int]] | None]]:
    """Gives the calls that every second run made; None where it made all. The runs have a process of their own."""
    path = tmp_path / "needed"
    look = Runs._search

    def noting(self: Runs, calls: list[Call], only: list[Call] | None, runs: Any) -> None:
        with path.open("a", encoding="ascii") as file:
            file.write(json.dumps(only) + "\n")
        look(self, calls, only, runs)

    monkeypatch.setattr(Runs, "_search", noting)
    return lambda: [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_only_what_has_a_part_is_made_again(tmp_path: Path, needed: Callable[[], object]) -> None:
    """The last task of vector_dag takes c twice here, so the second, third and fourth task have no part."""
    edits = [("orchestration/vector_dag.cpp", "params_t4.add_input(g);", "params_t4.add_input(c);")]
    status, top = why(copy_example("_jit_vector_dag", tmp_path, edits), tmp_path / "out", "--at", "127,0")
    assert status == 0 and top is not None
    assert needed() == [[[4, 0], [0, 0]]]
    assert {one.task for one in links(top) if one.instruction} == {0, 4}


def test_one_block_of_each_task(tmp_path: Path, needed: Callable[[], object]) -> None:
    status, _ = why(copy_example("_jit_spmd_scale", tmp_path), tmp_path / "out", "--at", "100,63")
    assert status == 0 and needed() == [[[0, 3]]]


def test_conditions_make_all_run_again(tmp_path: Path, needed: Callable[[], object]) -> None:
    """An orchestration that may look at values: what is left out might have changed them."""
    edits = [("orchestration/vector_dag.cpp", "// Task 4: kernel_add", "/* set_predicate */")]
    status, top = why(copy_example("_jit_vector_dag", tmp_path, edits), tmp_path / "out", "--at", "127,0")
    assert status == 0 and top is not None and needed() == [None]


def test_a_kernel_that_uses_pointers(tmp_path: Path, needed: Callable[[], object]) -> None:
    """It looks at an element of its second input by a pointer, and loads none of it: who writes that has a part."""
    artifact = copy_example("_jit_vector_dag", tmp_path, _BY_POINTER)
    assert may_be_plain(artifact / "kernels/aiv/kernel_add.cpp")
    assert not may_be_plain(artifact / "kernels/aiv/kernel_mul.cpp")
    status, top = why(artifact, tmp_path / "out", "--at", "127,0")
    assert status == 0 and top is not None
    assert needed() == [[[4, 0], [3, 0], [0, 0]]]


def test_what_comes_out_otherwise_is_run_whole(
    tmp_path: Path, needed: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call may depend on more than its loads; then the other value shows it."""
    monkeypatch.setattr(runs, "may_be_plain", lambda _: False)
    status, top = why(copy_example("_jit_vector_dag", tmp_path, _BY_POINTER), tmp_path / "out", "--at", "127,0")
    assert status == 0 and top is not None and not top.note
    assert needed() == [[[4, 0], [3, 0]], None]


def test_a_value_that_varies_is_said_to(tmp_path: Path) -> None:
    edits = [
        ("kernels/aiv/kernel_mul.cpp", "static __aicore__ void kernel_mul", "static int n;\nstatic void kernel_mul"),
        ("kernels/aiv/kernel_mul.cpp", "TMUL(v17, v7, v13);", "TMUL(v17, v7, v13); TADDS(v17, v17, float(++n));"),
    ]
    status, top = why(copy_example("_jit_vector_dag", tmp_path, edits), tmp_path / "out", "--at", "127,0")
    assert status == 0 and top is not None
    assert top.note.startswith("it varies: the first run left ")


def test_a_trace_that_the_disk_has_no_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kernel_add loads two tiles of 64 KB and stores one; the reference is kept beside the trace."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=3 << 20))
    artifact, out = copy_example("_jit_vector_dag", tmp_path), tmp_path / "out"
    status, top = why(artifact, out, "--at", "127,0")
    assert status == 0 and top is not None
    note = f"task 4 loads and stores 0 MB, whose trace needs 3 MB: {out} has 3"
    assert (top.note, top.cut, top.of) == (note, True, [])


def test_a_trace_that_is_written_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile of 64 KB is loaded a hundred times, of which the last counts; and each event of the reference is in a
    piece of its own. Nothing stays on the disk."""
    monkeypatch.setattr(probe._Kept, "_PIECE", 64 << 10)
    again = "for (int i = 0; i < 99; ++i) { TLOAD(v13, v16); }\n  TLOAD(v13, v16);"
    edits = [("kernels/aiv/kernel_add.cpp", "TLOAD(v13, v16);", again)]
    status, top = why(copy_example("_jit_vector_dag", tmp_path, edits), tmp_path / "out", "--at", "127,0")
    assert status == 0 and top is not None
    add = next(one for one in links(top) if one.instruction == "TADD" and one.task == 4)
    one, other = add.of
    assert add.value is not None and one.value is not None and other.value is not None
    assert add.value == pytest.approx(one.value + other.value, rel=1e-6)
    assert {one.where for one in links(top) if one.note == "input of the program"} == {"'a' [127, 0]", "'b' [127, 0]"}
    assert list((tmp_path / "out" / "why" / "traced").iterdir()) == []
