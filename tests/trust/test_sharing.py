"""Two installations in different places, of different users: they have in common the store behind that of each."""

from __future__ import annotations

from pathlib import Path

from tests.trust.compilers import write_script
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
    script = write_script(tested, tmp_path / "my-g++", 'exec g++ "$@"')
    compiler = f"CXX={script}"  # of which there is no runtime yet
    replayed = one.replay("STORE_UPLOAD=wait", compiler)
    assert len(replayed.work) == 5 and len(replayed.actions("[runtime]")) == 1, replayed.done
    places[0].rename(tmp_path / "gone")  # as on another machine, where nothing of it is
    replayed = other.replay(compiler)
    (tmp_path / "gone").rename(places[0])
    assert replayed.cached and replayed.work == [], replayed.done
    assert replayed.actions("[runtime]", "[manifest]", "[headers]") == []
    assert replayed.actions("[store]") == [f"[store] {tmp_path / 'remote'} had 7 of 7 results that are not here"]

    other.edit("kernels/aiv/add.cpp", "TADD(", "TSUB(")
    assert other.replay("STORE_UPLOAD=wait", compiler).outcome.status == "mismatch"
    one.edit("kernels/aiv/add.cpp", "TADD(", "TSUB(")
    replayed = one.replay(compiler)
    assert replayed.outcome.status == "mismatch" and not replayed.actions("[cpp->.so] compile")


def test_edits_by_turns_are_as_without_a_store(tested: Tested, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    compiler = write_script(tested, tmp_path / "my-g++", 'exec g++ "$@"')
    sharing = Sharing(tested, tmp_path / "work", str(tmp_path / "remote"), 3, f"CXX={compiler}")
    for _ in range(12):
        sharing.step()
    assert sharing.tally.faults == []
    assert sharing.tally.shared["hits"] > 0
