"""A store that comes with an installation: what every first replay needs, used only where it is what would be built."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.trust.commands import run
from tests.trust.sharing import installed
from tests.trust.space import Space, write_chain
from tests.trust.tested import Tested


def _cache(tested: Tested, directory: Path) -> Path:
    """A cache without a runtime and without a store."""
    directory.mkdir(parents=True)
    shutil.copytree(tested.witness, directory / "witness")
    return directory


def _space(tested: Tested, root: Path) -> Space:
    return write_chain(Space(root / "w", tested, _cache(tested, root / "cache")))


def test_what_came_with_an_installation_is_used_if_it_is_what_would_be_built(tested: Tested, tmp_path: Path) -> None:
    one, other = (installed(tested, tmp_path / name, "") for name in ("one", "other"))
    shipped = [tmp_path / name / "src" / "pypto_build" / "shipped" for name in ("one", "other")]
    command = [str(one.python), "-m", "pypto_build.rules.ship", str(shipped[0])]
    done = run(command, tmp_path, one.environment(_cache(tested, tmp_path / "shipping")))
    assert done.status == 0, done
    assert {path.name for path in shipped[0].iterdir()} == {"actions", "content"}
    shutil.rmtree(shipped[1], ignore_errors=True)
    shutil.copytree(shipped[0], shipped[1])

    space = _space(other, tmp_path / "first")
    replayed = space.replay()
    assert replayed.outcome.status == "pass" and replayed.actions("[runtime]") == [], replayed.done

    header = tmp_path / "other" / "src" / "pypto_build" / "runtime" / "src" / "base" / "settings.h"
    header.write_text(f"{header.read_text()}#error edited\n")
    replayed = _space(other, tmp_path / "second").replay()
    assert replayed.outcome.status == "build_error" and len(replayed.actions("[runtime]")) == 1, replayed.done
    assert "#error edited" in replayed.done.output
