"""``scons gc``: disk use by artifact, and what goes."""

from __future__ import annotations

import os
import re
import shutil
import time

import pytest

from tests.rules.many.conftest import Add, add  # noqa: F401
from tests.rules.project import Project

_DAY_S = 24 * 3600


@pytest.fixture
def project(stocked: Project) -> Project:
    """Return a project whose binaries are built; the tests here concern later steps."""
    return stocked


@pytest.fixture
def built(project: Project, add: Add) -> Project:  # noqa: F811
    """A workspace with two artifacts that were replayed, and a cache of its own that nobody else looks at."""
    add("_jit_other")
    assert project.quiet("replay", "JIT=_jit_*").status == 0
    return project


def _gc(project: Project, *words: str) -> list[str]:
    """Return the printed lines about builds, without sizes."""
    run = project.quiet("gc", *words, env={"PYPTO_BUILD_CACHE": f"{project.root}.cache"})
    assert run.status == 0, run.output
    lines = [line for line in run.output.splitlines() if not line.startswith("[store]")]
    return [re.sub(" +", " ", re.sub(r"\d+\.\d", "N", line)).strip() for line in lines]


def test_use_by_artifact(built: Project) -> None:
    (built.out / "_jit_chain.tar.zst").write_bytes(b"x" * 3_000_000)
    assert _gc(built) == [
        "[build] build: N MB of 2 artifacts",
        "_jit_chain N MB (runs N, packs N) a2a3sim, used 0 days ago",
        "_jit_other N MB (runs N) a2a3sim, used 0 days ago",
        "[build] build: N MB in 2 unpacked packs and logs",
        "[build] nothing has to go",
    ]


def test_builds_whose_artifact_is_gone(built: Project) -> None:
    root, out = built.root / "build_output/_jit_other", built.out.parent / "_jit_other"
    shutil.rmtree(root)
    assert _gc(built)[-2:] == [
        f"[build] build/a2a3sim/_jit_other: N MB, its artifact is gone: {root}",
        "[build] N MB would be removed; WRITE=1 removes it",
    ]
    assert out.is_dir()
    assert _gc(built, "WRITE=1")[-1] == "[build] removed N MB"
    assert not out.exists()
    assert (built.out / "kernels/aiv/twice.so").is_file()
    assert _gc(built)[-1] == "[build] nothing has to go"


_ADDRESSES = {
    "redis://me:secret@host/0": (
        "redis://…@host/0: gc cleans only stores that are directories; set the size limit of a server in the server"
    ),
    "http://me:secret@[::1/x": "http://…@[::1/x: is no address; write it as http://HOST[:PORT]/PATH",
    "http:/me:secret@host": "http:/…@host: names no host; write it as http://HOST[:PORT]/PATH",
}


@pytest.mark.parametrize("address", _ADDRESSES)
def test_a_store_that_is_no_directory_is_one_line_without_its_password(project: Project, address: str) -> None:
    run = project.quiet("gc", f"STORE_REMOTE={address}")
    error = f"scons: *** STORE_REMOTE={_ADDRESSES[address]}\n"
    assert (run.status, run.output.replace("scons: *** [gc] Error 2\n", "")) == (2, error)


def test_what_was_not_used_for_days(built: Project) -> None:
    pack = built.root / "build/packs/0123/file"
    pack.parent.mkdir(parents=True)
    pack.write_bytes(b"x")
    old = time.time() - 9 * _DAY_S
    for path in (built.out / ".lock", built.out / "replays", built.out, pack.parent):
        os.utime(path, (old, old))
    assert _gc(built, "DAYS=10")[-1] == "[build] nothing has to go"
    assert _gc(built, "DAYS=8")[-3:] == [
        "[build] build/a2a3sim/_jit_chain: N MB, not used for 9 days",
        "[build] build/packs/0123: N MB, not used for 9 days",
        "[build] N MB would be removed; WRITE=1 removes it",
    ]
    _gc(built, "DAYS=8", "WRITE=1")
    assert not built.out.exists()
    assert not pack.parent.exists()
    assert (built.out.parent / "_jit_other").is_dir()
    assert built.quiet("replay", "JIT=_jit_*").status == 0  # from the store


def test_looking_counts_as_use(built: Project) -> None:
    old = time.time() - 9 * _DAY_S
    for path in (built.out / ".lock", built.out / "replays", built.out):
        os.utime(path, (old, old))
    assert "2 passed (2 cached)" in built.quiet("build", "JIT=_jit_*").output
    assert _gc(built, "DAYS=8")[-1] == "[build] nothing has to go"


def test_what_is_in_use_or_of_others_stays(built: Project) -> None:
    import fcntl

    shutil.rmtree(built.root / "build_output/_jit_other")
    out = built.out.parent / "_jit_other"
    with (out / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert _gc(built, "WRITE=1")[-1] == "[build] build/a2a3sim/_jit_other: in use, or holds files of others; kept"
    assert (out / "kernels/aiv/twice.so").is_file()
    (out / "mine.txt").write_text("mine", encoding="utf-8")
    assert _gc(built, "WRITE=1")[-1] == "[build] build/a2a3sim/_jit_other: in use, or holds files of others; kept"
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_versions_in_the_cache(built: Project) -> None:
    version = built.root.with_name(f"{built.root.name}.cache") / "headers" / "0123"
    version.mkdir(parents=True)
    (version / "x.gch").write_bytes(b"x" * 2_000_000)
    old = time.time() - 30 * _DAY_S
    os.utime(version / "x.gch", (old, old))
    assert _gc(built, "DAYS=40", "WRITE=1")[-1] == "[build] nothing has to go"
    assert _gc(built, "DAYS=20", "WRITE=1")[-1] == "[build] removed N MB"
    assert not version.exists()


def test_clean_takes_the_logs_and_leaves_the_history(built: Project) -> None:
    assert built.quiet("-c").status == 0
    assert [path.name for path in (built.root / "build").iterdir()] == ["history.sqlite"]
