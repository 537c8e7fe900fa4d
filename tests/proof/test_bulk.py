"""Results that are looked at together: each change is seen that a look at each one sees."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pypto_build.proof import Action, OutputDir, Store
from pypto_build.proof.digests import TICK_S
from pypto_build.proof.known import RecordedResults
from tests.proof.test_output_dir import Rig

_COUNT = 7  # more than so few results that a set of theirs is not looked at for all


class Many(Rig):
    """A workspace with a source each for many actions, a header that all read, and a file each that none has found."""

    def __init__(self, root: Path, watcher: Path | None, store: Store) -> None:
        super().__init__(root, watcher, store)
        for number in range(_COUNT):
            self.write(f"source{number}", f"{number} ")
        self.actions = [self._action(number) for number in range(_COUNT)]

    def _action(self, number: int) -> Action:
        source = str(self.root / f"source{number}")
        script = f"cat {source} header; if test -e {source}.extra; then cat {source}.extra; fi"
        command = f"cd {self.root}; ({script}) > {self.out}/built{number}.tmp"
        environment = {"PATH": os.environ["PATH"]}
        name = f"built{number}"
        return Action(name, ("/bin/sh", "-c", command), (source,), (name,), environment=environment, main=source)

    def build(self) -> OutputDir:
        """All results, looked at together in a place that stays."""
        time.sleep(2 * TICK_S)
        output_dir = self.output_dir()
        for action in self.actions:
            output_dir.perform(action, self.spawn, tuple)
        output_dir.save()
        time.sleep(2 * TICK_S)  # what is younger is read each time
        output_dir = self.output_dir()
        assert all(output_dir.all_proven(self.actions, repeated=True))
        return output_dir


@pytest.fixture
def many(tmp_path: Path, watcher: Path) -> Many:
    return Many(tmp_path / "workspace", watcher, Store(tmp_path / "store"))


def _link(path: Path) -> None:
    shutil.copy2(path, f"{path}.copy")
    path.unlink()
    path.symlink_to(f"{path}.copy")


def _other_record(many: Many) -> None:
    """Another process builds what was edited, and so the record and the output are others."""
    many.write("source2", "other ")
    time.sleep(2 * TICK_S)
    output_dir = many.output_dir()
    assert output_dir.perform(many.actions[2], many.spawn, tuple).how == "built"
    output_dir.save()


_CHANGES: dict[str, tuple[Callable[[Many], object], list[int]]] = {
    "nothing": (lambda many: None, []),
    "a source": (lambda many: many.write("source3", "new "), [3]),
    "two sources": (lambda many: [many.write(f"source{number}", "new ") for number in (1, 4)], [1, 4]),
    "a source that is gone": (lambda many: (many.root / "source0").unlink(), [0]),
    "a source that becomes a link": (lambda many: _link(many.root / "source5"), []),
    "a source that is saved as it was": (lambda many: many.write("source5", "5 "), []),
    "the header": (lambda many: many.write("header", "h2 "), list(range(_COUNT))),
    "a file that was looked for": (lambda many: many.write("source6.extra", "more "), [6]),
    "an output": (lambda many: (many.out / "built4").write_text("damaged"), [4]),
    "an output that is gone": (lambda many: (many.out / "built4").unlink(), [4]),
    "an output that becomes a link": (lambda many: _link(many.out / "built4"), [4]),
    "a result of another process": (_other_record, []),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_what_changed_is_not_proven(many: Many, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output_dir = many.build()
    act, stale = _CHANGES[change]
    act(many)
    time.sleep(0.4)  # a set that was looked at just before is not looked at again
    looked, proven = [], RecordedResults.proven

    def counted(records: RecordedResults, action: Action) -> object:
        looked.append(action.name)
        return proven(records, action)

    output_dir.renew(many.store)
    monkeypatch.setattr(RecordedResults, "proven", counted)
    proofs = output_dir.all_proven(many.actions)
    monkeypatch.undo()
    assert [number for number, one in enumerate(proofs) if not one] == stale
    assert proofs == [many.output_dir().proven(action) is not None for action in many.actions]
    assert change != "nothing" or looked == []
    assert len(looked) < _COUNT or change == "the header"


def test_what_was_built_since_is_looked_at_together_too(many: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    output_dir = many.build()
    many.write("header", "h2 ")
    many.build()  # in another process
    time.sleep(2 * TICK_S)
    output_dir.renew(many.store)
    assert output_dir.all_proven(many.actions, repeated=True) == [True] * _COUNT
    output_dir.rest()
    monkeypatch.setattr(RecordedResults, "proven", None)
    assert output_dir.all_proven(many.actions) == [True] * _COUNT


def test_other_actions_are_looked_at_one_by_one(many: Many) -> None:
    output_dir = many.build()
    assert output_dir.all_proven(many.actions[:3]) == [True] * 3
    repeated = [many._action(number) for number in range(_COUNT)]
    assert output_dir.all_proven(repeated) == [True] * _COUNT
    many.write("source1", "new ")
    assert output_dir.all_proven(repeated) == [number != 1 for number in range(_COUNT)]  # the second time: together
    assert output_dir.all_proven(many.actions) == [number != 1 for number in range(_COUNT)]


def test_what_was_never_built_is_not_proven(many: Many) -> None:
    output_dir = many.output_dir()
    assert output_dir.all_proven(many.actions, repeated=True) == [False] * _COUNT
    assert output_dir.all_proven(many.actions) == [False] * _COUNT
    assert output_dir.all_proven([]) == []
