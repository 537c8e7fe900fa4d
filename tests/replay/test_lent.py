"""Large inputs are used directly from their mapped files, without a copy; writes to them are still detected."""

from __future__ import annotations

import array
import json
from pathlib import Path

import pytest

from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.replay import binding, session
from pypto_build.replay.arena import Arena
from pypto_build.replay.request import Request
from pypto_build.replay.verdict import Verdict
from tests.replay.builder import embedded_module
from tests.replay.tiny import Tiny

#: Five megabytes span three of the parts that are copied on a write.
_ROWS, _COLUMNS = 1280, 1024
_COUNT = _ROWS * _COLUMNS
_ADD = f"for (int i = 0; i < {_COUNT}; ++i) y[i] = x[i] + 1;"


def _replay(root: Path, monkeypatch: pytest.MonkeyPatch, body: str, rounds: int = 1) -> tuple[Verdict, list[int]]:
    """Return the verdict of y = x + 1, and the sizes of the replay's own memory blocks."""
    tiny = Tiny(root, body)
    meta = tiny.artifact / "compiled_meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_text())).replace("[4, 8]", f"[{_ROWS}, {_COLUMNS}]"))
    for name, first in (("in/x", 0), ("out/y", 1)):
        data = array.array("f", range(first, first + _COUNT)).tobytes()
        write_pt(tiny.artifact / "data" / f"{name}.pt", "float32", (_ROWS, _COLUMNS), data)
    tiny.build()
    monkeypatch.setattr(binding, "LENT_FROM", 1 << 20)
    arenas: list[Arena] = []

    def noted(sizes: list[int], lent: dict[int, memoryview]) -> Arena:
        arenas.append(Arena(sizes, lent=lent))
        return arenas[-1]

    monkeypatch.setattr(session, "Arena", noted)
    request = Request(tiny.artifact, tiny.out, embedded_module(), rounds=rounds)
    verdict = session.replay(request, None)
    return verdict, [size for _, size in arenas[0].layout]


def test_a_pass_copies_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads write the same bytes again: some kernels do that to order tasks, and it is no change."""
    body = """std::thread all[8]; volatile float *v = x;
    for (int t = 0; t < 8; ++t) all[t] = std::thread([=] { for (int i = t; i < N; i += 1024 + t) v[i] = v[i]; });
    for (std::thread &one : all) one.join();"""
    verdict, own = _replay(tmp_path, monkeypatch, f"{body.replace('N', str(_COUNT))} {_ADD}", rounds=3)
    assert (verdict.status, verdict.rounds, verdict.error) == ("pass", 3, None)
    assert own == [4 * _COUNT]


def test_a_write_is_found_and_stays_out_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"for (int i = 5; i < {_COUNT}; ++i) x[i] += 1; for (int i = 0; i < {_COUNT}; ++i) y[i] = x[i] + (i < 5);"
    verdict, _ = _replay(tmp_path, monkeypatch, body)
    assert verdict.error is not None and verdict.error.kind == "input_changed"
    assert verdict.error.message == "input 'x' was changed by kernel 'step', first at (0, 5)"
    assert [output.status for output in verdict.outputs] == ["pass"]  # what was written is read again
    data = read_pt(tmp_path / "_jit_tiny/data/in/x.pt").contiguous()
    assert data == array.array("f", range(_COUNT)).tobytes()


def test_a_write_past_the_end_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _ = _replay(tmp_path, monkeypatch, f"{_ADD} x[{_COUNT} + 2] = 1;")
    assert verdict.error is not None and verdict.error.kind == "out_of_bounds"
    assert "tensor 'x'" in verdict.error.message


def test_what_may_be_written_is_not_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Tiny(tmp_path, "x[0] = 5; for (int i = 0; i < 32; ++i) y[i] = i + 1;")
    meta = tiny.artifact / "compiled_meta.json"
    meta.write_text(meta.read_text().replace('"In"', '"InOut"'))
    tiny.write_tensor("out/x", [5.0, *map(float, range(1, 32))])
    tiny.build()
    monkeypatch.setattr(binding, "LENT_FROM", 1)
    verdict = session.replay(Request(tiny.artifact, tiny.out, embedded_module()), None)
    assert [(output.name, output.status) for output in verdict.outputs] == [("x", "pass"), ("y", "pass")]


def test_zeros_come_back() -> None:
    arena = Arena([5, 3 * 4096 + 7, 4096], lent={2: memoryview(b"lent")})
    arena.tensor(1)[:] = b"x" * arena.layout[1][1]
    for _ in range(2):
        arena.fill(1, b"y" * arena.layout[1][1])
        arena.fill(1, None)
        arena.fill(2, b"not taken")
        assert not any(arena.tensor(1)) and bytes(arena.tensor(2)) == b"lent" and arena.overrun() is None
