"""Files of OUT that are put back by hand or damaged (5): no wrong kernel passes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.trust.judged import clear_line, fails, passes
from tests.trust.space import PASS, Space


class Kept:
    """Files of OUT as they were at one time."""

    def __init__(self, space: Space, copy: Path) -> None:
        self.space, self.copy = space, copy
        shutil.copytree(space.out, copy, symlinks=True)

    def put_back(self, *patterns: str) -> list[str]:
        """Put back those whose names match; which they were."""
        done = []
        for pattern in patterns:
            for file in sorted(self.copy.rglob(pattern)):
                name = file.relative_to(self.copy)
                target = self.space.out / name
                if file.is_file() and not file.is_symlink():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.unlink(missing_ok=True)
                    shutil.copy2(file, target)
                    done.append(str(name))
        return done


@pytest.fixture
def kept(chain: Space, tmp_path: Path) -> Kept:
    """OUT after a pass, in a workspace whose kernel is wrong now, and known to be."""
    passes(chain)
    kept = Kept(chain, tmp_path / "kept")
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    return kept


def test_5_old_object_and_no_library(kept: Kept) -> None:
    kept.put_back("*.o")
    for library in kept.space.out.rglob("*.so"):
        library.unlink()
    fails(kept.space)
    fails(kept.space)


def test_5_old_library(kept: Kept) -> None:
    kept.put_back("*.so")
    fails(kept.space)
    fails(kept.space)


def test_5_old_object_and_library(kept: Kept) -> None:
    kept.put_back("*.o", "*.so")
    fails(kept.space)
    fails(kept.space)


def test_5_old_verdict(kept: Kept) -> None:
    kept.put_back("verdict.json")
    fails(kept.space)


def test_5_old_object_library_and_verdict(kept: Kept) -> None:
    kept.put_back("*.o", "*.so", "verdict.json")
    fails(kept.space)
    fails(kept.space)


def test_5_all_but_the_records(kept: Kept) -> None:
    kept.put_back("[!.]*")
    fails(kept.space)
    fails(kept.space)


def test_5_only_the_records(kept: Kept) -> None:
    kept.put_back(".[!.]*")
    fails(kept.space)
    fails(kept.space)


def test_5_everything(kept: Kept) -> None:
    shutil.rmtree(kept.space.out)
    shutil.copytree(kept.copy, kept.space.out, symlinks=True)
    fails(kept.space)
    fails(kept.space)


def test_5_records_and_verdict_deleted_libraries_old(kept: Kept) -> None:
    shutil.rmtree(kept.space.out)
    kept.put_back("*.o", "*.so")
    fails(kept.space)


@pytest.mark.parametrize(
    ("verb", "options"),
    [(("report",), ("DEP_GEN=1", "SWIMLANE=4")), (("dump", "TASK=0"), ("DUMP=2",))],
    ids=["report", "dump"],
)
def test_5_old_verdict_after_a_run_that_counts_as_made(
    chain: Space, tmp_path: Path, verb: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """A tool gets the run it looks at even if that failed; a replay with the same records is the same run."""
    passes(chain, *options)
    kept = Kept(chain, tmp_path / "kept")
    chain.kernel("twice", "3.0f * in[i]")
    chain.run(*verb)
    kept.put_back("verdict.json")
    chain.run(*verb)
    fails(chain, *options)


def test_5_damaged_interface(chain: Space) -> None:
    passes(chain)
    for content in ("", "{", "{}", "[]", "null", '{"kernels": []}', "\0" * 100):
        files = [path for path in chain.out.rglob("interface.json") if path.is_file()]
        assert files
        for file in files:
            file.write_text(content)
        done = chain.run("replay")
        assert done.status == PASS or clear_line(done.output), done
        passes(chain)
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
