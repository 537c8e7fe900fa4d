"""Cross-core pipes: every member of a group on a thread of its own, with rings that block, against the slots' layout."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import (
    PIPE_ADDRESS,
    PIPE_OPEN,
    PIPE_STEP,
    Array,
    Cases,
    Core,
    PipeSpec,
    Tile,
    declare,
)

ACC = Tile("f32", 32, 64, "NZ", "Acc", 1024)
MAT = Tile("f32", 32, 64, "NZ", "Mat")
HALVES = {"NO_SPLIT": (32, 64), "UP_DOWN": (16, 64), "LEFT_RIGHT": (32, 32)}
ODD = {"UP_DOWN_ODD": (16, 64), "LEFT_RIGHT_ODD": (32, 32)}
SLOTS = 2
ROUNDS = 7  # more than twice round the ring


class Rings:
    """The rings of one pipe, as the runtime keeps them: lanes count on their own, a slot turns over when all are done."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.spec = PipeSpec()
        self.memory: dict[int, Array] = {}
        self.changed = threading.Condition()
        self.counts: dict[tuple[str, int, int], int] = {}
        self.most_full = 0

    def _count(self, what: str, to_vector: int, lanes: int) -> int:
        return min(self.counts.get((what, to_vector, lane), 0) for lane in range(lanes))

    def attach(self, core: Core) -> None:
        lane = core.context.sub_block if core.context.is_vector else 0

        def open_pipe(_: int, spec: ctypes._Pointer[PipeSpec]) -> int:  # type: ignore[type-arg]
            with self.changed:
                self.spec = PipeSpec.from_buffer_copy(spec.contents)
                for to_vector in (0, 1):
                    self.memory.setdefault(to_vector, np.zeros(self.spec.slot_bytes * self.spec.slot_count, np.uint8))
            return 1

        def wait(what: str, to_vector: int) -> int:
            producers, consumers = (1, self.lanes) if to_vector else (self.lanes, 1)
            with self.changed:
                mine = self.counts.get((what, to_vector, lane), 0)

                def ready() -> bool:
                    if what == "acquired":
                        return mine < self._count("released", to_vector, consumers) + self.spec.slot_count
                    return mine < self._count("committed", to_vector, producers)

                assert self.changed.wait_for(ready, timeout=30), f"{what} never became possible"
                self.counts[what, to_vector, lane] = mine + 1
                return int(self.memory[to_vector].ctypes.data + mine % self.spec.slot_count * self.spec.slot_bytes)

        def step(what: str, to_vector: int) -> None:
            with self.changed:
                self.counts[what, to_vector, lane] = self.counts.get((what, to_vector, lane), 0) + 1
                self.most_full = max(
                    self.most_full, self.counts[what, to_vector, lane] - self._count("released", to_vector, 1)
                )
                self.changed.notify_all()

        core.context.pipe_open = PIPE_OPEN(open_pipe)
        core.context.pipe_acquire = PIPE_ADDRESS(lambda _c, _p, to_vector: wait("acquired", to_vector))
        core.context.pipe_commit = PIPE_STEP(lambda _c, _p, to_vector: step("committed", to_vector))
        core.context.pipe_front = PIPE_ADDRESS(lambda _c, _p, to_vector: wait("fronted", to_vector))
        core.context.pipe_release = PIPE_STEP(lambda _c, _p, to_vector: step("released", to_vector))


def _vector_tile(split: str) -> Tile:
    return Tile("f32", *(HALVES | ODD)[split])


def _cases(arch: int) -> Cases:
    """Arguments: valid extents of the cube's and of the vector core's tile, then addresses of one matrix a round."""
    cases = Cases(arch=arch)
    for split in HALVES | ODD:
        for no_split in ("true", "false") if split == "NO_SPLIT" else ("false",):
            axis = f"TileSplitAxis::TILE_{split}"
            name = f"{split}_{no_split}"
            vector = _vector_tile(split)
            pipe = f"TPipe<3, Direction::DIR_BOTH, {32 * 64 * 4}, {SLOTS}, {SLOTS}, {no_split}>"
            head = f"auto p = {pipe}(nullptr, 4096, 8192); using pipe_t = {pipe};\n"
            cube = declare(("a", ACC, 0, 0), ("m", MAT, 0, 0))
            part = declare(("t", vector, 0, 2), ("q", vector, 65536, 2))
            out = "shape_t(v[{0}], v[{1}]), stride_t(64)"
            view = "using shape_t = Shape<1, 1, 1, -1, -1>; using stride_t = Stride<0, 0, 0, -1, 1>;\n"
            load = "using G = GlobalTensor<float, shape_t, stride_t>;\n"
            cube_view, part_view = out.format(0, 1), out.format(2, 3)
            loop = f"for (int i = 0; i < {ROUNDS}; ++i) {{ G g((float *)v[4] + i * 2048, %s); %s }}"
            free = f"TFREE<pipe_t, {axis}>(p);"
            cases.add(
                f"cube_push_{name}",
                head
                + cube
                + view
                + load
                + loop
                % (
                    cube_view,
                    f"for (int k = 0; k < 2048; ++k) a.data()[k] = ((float *)v[5])[i * 2048 + k]; TPUSH<pipe_t, a_t, {axis}>(p, a);",
                ),
            )
            cases.add(
                f"vector_pop_{name}",
                head
                + part
                + view
                + load
                + loop % (part_view, f"TPOP<pipe_t, t_t, {axis}>(p, t); TSTORE(g, t); {free}"),
            )
            cases.add(
                f"vector_push_{name}",
                head + part + view + load + loop % (part_view, f"TLOAD(t, g); TPUSH<pipe_t, t_t, {axis}>(p, t);"),
            )
            cases.add(
                f"cube_pop_{name}",
                head
                + cube
                + view
                + load
                + loop % (cube_view, f"TPOP<pipe_t, m_t, {axis}>(p, m); TSTORE(g, m); {free}"),
            )
            # Two pops, then two frees: the ring gives out more than one slot at a time.
            pair = (
                f"if (i + 1 < {ROUNDS}) {{ G h((float *)v[4] + (i + 1) * 2048, {part_view}); TPOP<pipe_t, t_t, {axis}>(p, t); TPOP<pipe_t, q_t, {axis}>(p, q); "
                f"TSTORE(g, t); TSTORE(h, q); {free} {free} ++i; }} else {{ TPOP<pipe_t, t_t, {axis}>(p, t); TSTORE(g, t); {free} }}"
            )
            cases.add(f"vector_pop_pairs_{name}", head + part + view + load + loop % (part_view, pair))
            # Views of slots instead of tiles.
            slot_cols = 64 if split != "LEFT_RIGHT" else 32
            slot = f"using S = GlobalTensor<float, Shape<1, 1, 1, {vector.rows}, {slot_cols}>, Stride<2048, 2048, 2048, 64, 1>>; S s;\n"
            whole = "using S = GlobalTensor<float, Shape<1, 1, 1, 32, 64>, Stride<2048, 2048, 2048, 64, 1>>; S s;\n"
            if split in HALVES:
                cases.add(
                    f"cube_view_push_{name}",
                    head
                    + cube
                    + view
                    + load
                    + whole
                    + loop
                    % (
                        cube_view,
                        f"TALLOC<pipe_t, S, {axis}>(p, s); TLOAD(m, g); TSTORE(s, m); TPUSH<pipe_t, S, {axis}>(p, s);",
                    ),
                )
                cases.add(
                    f"vector_view_pop_{name}",
                    head
                    + part
                    + view
                    + load
                    + slot
                    + loop
                    % (
                        part_view,
                        f"TPOP<pipe_t, S, {axis}>(p, s); TLOAD(t, s); TSTORE(g, t); TFREE<pipe_t, S, {axis}>(p, s);",
                    ),
                )
                cases.add(
                    f"vector_view_push_{name}",
                    head
                    + part
                    + view
                    + load
                    + slot
                    + loop
                    % (
                        part_view,
                        f"TALLOC<pipe_t, S, {axis}>(p, s); TLOAD(t, g); TSTORE(s, t); TPUSH<pipe_t, S, {axis}>(p, s);",
                    ),
                )
                cases.add(
                    f"cube_view_pop_{name}",
                    head
                    + cube
                    + view
                    + load
                    + whole
                    + loop
                    % (
                        cube_view,
                        f"TPOP<pipe_t, S, {axis}>(p, s); TLOAD(m, s); TSTORE(g, m); TFREE<pipe_t, S, {axis}>(p, s);",
                    ),
                )
    return cases


@pytest.fixture(scope="module", params=[2, 5], ids=["a2a3", "a5"])
def library(request: pytest.FixtureRequest) -> Path:
    return _cases(request.param).library()


def _run_group(members: list[Callable[[], None]]) -> None:
    """Runs each member on a thread; the first failure is raised here."""
    failures: list[BaseException] = []

    def guarded(member: Callable[[], None]) -> None:
        try:
            member()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(m,)) for m in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    if failures:
        raise failures[0]


def _member(
    library: Path, rings: Rings, lane: int | None, lanes: int, case: str, arguments: tuple[int, ...]
) -> Callable[[], None]:
    """The cube core (lane None) or a vector core, running one case."""

    def run() -> None:
        core = Core(library, vector=lane is not None, sub_block=lane or 0, sub_block_dim=lanes)
        core.fill("Vec", 0x55)
        rings.attach(core)
        core.call(case, *arguments)

    return run


def _part(split: str, lane: int, rows: int, cols: int) -> tuple[slice, slice]:
    """The part of a rows x cols matrix that a lane has."""
    if split == "NO_SPLIT":
        return slice(0, rows), slice(0, cols)
    upper = (rows + 1) // 2 if split.startswith("UP") else rows
    left = (cols + 1) // 2 if split.startswith("LEFT") else cols
    if split.startswith("UP"):
        return (slice(0, upper) if lane == 0 else slice(upper, rows)), slice(0, cols)
    return slice(0, rows), (slice(0, left) if lane == 0 else slice(left, cols))


FORMS = [
    ("NO_SPLIT", "true"),
    ("NO_SPLIT", "false"),
    ("UP_DOWN", "false"),
    ("LEFT_RIGHT", "false"),
    ("UP_DOWN_ODD", "false"),
    ("LEFT_RIGHT_ODD", "false"),
]


def _transfer(
    library: Path, split: str, no_split: str, push: str, pop: str, to_vector: bool
) -> tuple[Array, list[Array], tuple[int, int]]:
    """Runs producers and consumers; returns the matrices sent, the matrices each consumer got, and their extent."""
    rows, cols = (31 if split == "UP_DOWN_ODD" else 32), (63 if split == "LEFT_RIGHT_ODD" else 64)
    rng = np.random.default_rng(1)
    sent = rng.standard_normal((ROUNDS, 32, 64)).astype(np.float32)
    in_nz = np.zeros((ROUNDS, 2048), np.float32)
    for i in range(ROUNDS):
        in_nz[i][ACC.offsets()] = sent[i]
    rings = Rings(1 if no_split == "true" else 2)
    name = f"{split}_{no_split}"
    cube_out = np.zeros((ROUNDS, 32, 64), np.float32)
    vector_out = [np.zeros((ROUNDS, 32, 64), np.float32) for _ in range(2)]
    members = []
    cube_memory = sent if push == "cube_view_push" else cube_out
    cube_case = f"{push if to_vector else pop}_{name}"
    keep = []
    for lane in range(2):
        r, c = _part(split, lane, rows, cols)
        height, width = r.stop - r.start, c.stop - c.start
        source = np.zeros((ROUNDS, 32, 64), np.float32)
        source[:, :height, :width] = sent[:, r, c]
        keep.append(source)
        memory = vector_out[lane] if to_vector else source
        members.append(
            _member(
                library,
                rings,
                lane,
                2,
                f"{pop if to_vector else push}_{name}",
                (rows, cols, height, width, memory.ctypes.data),
            )
        )
    members.append(
        _member(library, rings, None, 2, cube_case, (rows, cols, 0, 0, cube_memory.ctypes.data, in_nz.ctypes.data))
    )
    _run_group(members)
    assert rings.most_full <= SLOTS
    return sent, (vector_out if to_vector else [cube_out]), (rows, cols)


@every("split,no_split", FORMS)
@every("pop", ["vector_pop", "vector_pop_pairs"])
def test_cube_to_vector(library: Path, split: str, no_split: str, pop: str) -> None:
    sent, received, (rows, cols) = _transfer(library, split, no_split, "cube_push", pop, True)
    for lane, got in enumerate(received):
        r, c = _part(split, lane, rows, cols)
        expected = sent[:, r, c]
        if split == "NO_SPLIT" and lane == 1:
            expected = np.zeros_like(expected)
        assert np.array_equal(got[:, : expected.shape[1], : expected.shape[2]], expected)


@every("split,no_split", FORMS)
def test_vector_to_cube(library: Path, split: str, no_split: str) -> None:
    sent, (received,), (rows, cols) = _transfer(library, split, no_split, "vector_push", "cube_pop", False)
    assert np.array_equal(received[:, :rows, :cols], sent[:, :rows, :cols])


@pytest.mark.parametrize("split,no_split", [f for f in FORMS if f[0] in ("UP_DOWN", "LEFT_RIGHT")], ids="-".join)
def test_views_of_slots(library: Path, split: str, no_split: str) -> None:
    sent, received, (rows, cols) = _transfer(library, split, no_split, "cube_view_push", "vector_view_pop", True)
    for lane, got in enumerate(received):
        r, c = _part(split, lane, rows, cols)
        expected = sent[:, r, c]
        assert np.array_equal(got[:, : expected.shape[1], : expected.shape[2]], expected)
    sent, (back,), _ = _transfer(library, split, no_split, "vector_view_push", "cube_view_pop", False)
    assert np.array_equal(back, sent)


def test_popped_tiles_rotate_through_the_consumers_buffer() -> None:
    cases = Cases()
    pipe = "TPipe<0, Direction::DIR_C2V, 4096, 4, 3, true>"
    cases.add("pop", f"using P = {pipe}; P p(nullptr, 1024, 0); Tile<TileType::Vec, float, 16, 64> t;"
              "for (int i = 0; i < 5; ++i) { TPOP<P, decltype(t), TileSplitAxis::TILE_NO_SPLIT>(p, t); ((int64_t *)v[0])[i] = (int64_t)t.data(); }")  # fmt: skip
    cases.add("push", f"using P = {pipe}; P p(nullptr, 0, 0); Tile<TileType::Acc, float, 16, 64, BLayout::ColMajor, 16, 64, SLayout::RowMajor, 1024> t; TASSIGN(t, 0);"
              "for (int i = 0; i < 5; ++i) TPUSH<P, decltype(t), TileSplitAxis::TILE_NO_SPLIT>(p, t);")  # fmt: skip
    library = cases.library()
    addresses = np.zeros(5, np.int64)
    rings = Rings(1)
    base = []

    def pop() -> None:
        core = Core(library)
        base.append(core.spaces["Vec"].ctypes.data)
        rings.attach(core)
        core.call("pop", addresses.ctypes.data)

    _run_group([pop, _member(library, rings, None, 1, "push", ())])
    assert (addresses - base[0]).tolist() == [1024, 5120, 9216, 1024, 5120]
