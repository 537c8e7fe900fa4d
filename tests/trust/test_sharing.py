"""Two installations in different places, of different users: they have in common the store behind that of each."""

from __future__ import annotations

from pathlib import Path

from tests.trust.sharing import Sharing, installed
from tests.trust.space import Space, write_module
from tests.trust.tested import Tested


def _space(tested: Tested, root: Path, remote: Path) -> Space:
    return write_module(Space(root / "w", installed(tested, root, str(remote)), tested.new_cache(root / "cache")))


def test_another_installation_takes_everything_from_the_store(tested: Tested, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    places = (tmp_path / "one", tmp_path / "deeper" / "other")
    one, other = (_space(tested, root, tmp_path / "remote") for root in places)
    assert other.tested.ask("import pypto_build; print(pypto_build.__path__[0])") == str(
        tmp_path / "deeper" / "other" / "src" / "pypto_build"
    )
    assert len(one.replay("STORE_UPLOAD=wait").work) == 5
    replayed = other.replay()
    assert replayed.cached and replayed.work == [], replayed.done
    assert replayed.actions("[runtime]", "[manifest]", "[headers]") == []
    assert replayed.actions("[store]") == [f"[store] {tmp_path / 'remote'} had 7 of 7 results that are not here"]

    other.edit("kernels/aiv/add.cpp", "TADD(", "TSUB(")
    assert other.replay("STORE_UPLOAD=wait").outcome.status == "mismatch"
    one.edit("kernels/aiv/add.cpp", "TADD(", "TSUB(")
    replayed = one.replay()
    assert replayed.outcome.status == "mismatch" and not replayed.actions("[cpp->.so] compile")


def test_edits_by_turns_are_as_without_a_store(tested: Tested, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    sharing = Sharing(tested, tmp_path / "work", str(tmp_path / "remote"), seed=3)
    for _ in range(12):
        sharing.step()
    assert sharing.tally.faults == []
    assert sharing.tally.shared["hits"] > 0
