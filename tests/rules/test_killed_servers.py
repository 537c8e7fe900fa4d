"""Servers that are killed in the middle cost time and nothing else: real ones, where they are installed."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pypto_build.proof import Store
from pypto_build.proof.remote import open_remote
from pypto_build.proof.shared import OUTBOX, SharedStore, Upload, send
from tests.rules.project import Project
from tests.rules.servers import RealServer, distccd, nginx, redis

_SERVERS = {"redis": redis, "nginx": nginx}
_COUNT = 20


@pytest.fixture(params=_SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealServer]:
    directory = tmp_path / "server"
    directory.mkdir()
    started = _SERVERS[request.param](directory)
    yield started
    started.kill()


def _key(number: int) -> str:
    return hashlib.sha256(f"key {number}".encode()).hexdigest()


def _content(number: int) -> bytes:
    return f"content {number} ".encode() * 500


def _shared(directory: Path, url: str) -> SharedStore:
    return SharedStore(directory, 1 << 30, url, Upload.WAIT, lambda: None)


def test_a_store_whose_server_is_killed(server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files read from it are right or missing; results that could not be sent are sent later."""
    kind, sent = type(open_remote(server.url)), list[str]()
    put = kind.put

    def dying(remote: Any, name: str, data: bytes) -> None:
        sent.append(name)
        if len(sent) == _COUNT:  # a result is its content and its entry
            server.kill()
        put(remote, name, data)

    monkeypatch.setattr(kind, "put", dying)
    one = _shared(tmp_path / "one", server.url)
    for number in range(_COUNT):
        one.publish(_key(number), b"result", [_content(number)])
    one.close()
    monkeypatch.undo()
    left = list((tmp_path / "one" / OUTBOX).glob("[!.]*"))
    assert _COUNT // 2 <= len(left) < _COUNT
    assert all(list(one.find(_key(number))) == [b"result"] for number in range(_COUNT))

    server.start()
    for path in (tmp_path / "one").glob(".away.*"):
        os.utime(path, (1, 1))
    assert send(Store(tmp_path / "one"), open_remote(server.url)) == len(left)
    other = _shared(tmp_path / "other", server.url)
    stored = [number for number in range(_COUNT) if list(other.find(_key(number))) == [b"result"]]
    assert len(stored) >= len(left)
    for number in stored:
        assert other.read(hashlib.sha256(_content(number)).hexdigest()) == _content(number)


def test_a_replay_whose_store_is_killed(server: RealServer, project: Project, runtime: Path) -> None:
    """It ends as it would have, by what it takes from there before and without it after."""
    assert project.replay(f"STORE_REMOTE={server.url}", "STORE_UPLOAD=wait").status == 0
    shutil.rmtree(project.out)
    project.edit("kernels/aiv/twice.cpp", "2.0f", "3.0f")
    dying = threading.Timer(0.3, server.kill)
    dying.start()
    words = (f"STORE_REMOTE={server.url}", "STORE_UPLOAD=wait")
    environment = {"PYPTO_BUILD_STORE": str(project.root / "another")}
    run = project.scons("replay", f"JIT={project.artifact.name}", *words, env=environment)
    dying.join()
    assert run.status == 2 and "'y' FAIL" in run.output, run.output
    project.edit("kernels/aiv/twice.cpp", "3.0f", "2.0f")
    assert project.scons("replay", f"JIT={project.artifact.name}", *words, env=environment).status == 0


def test_daemons_of_distcc_that_are_killed(project: Project, tmp_path: Path, runtime: Path) -> None:
    """Units that the daemons do not compile are compiled here."""
    if shutil.which("distcc") is None:
        pytest.skip("distcc is not installed")
    places = [tmp_path / name for name in ("one", "other")]
    for directory in places:
        directory.mkdir()
    daemons = [distccd(directory) for directory in places]
    environment = {"DISTCC_HOSTS": " ".join(daemon.url for daemon in daemons), "DISTCC_DIR": str(tmp_path / "distcc")}
    words = ("replay", f"JIT={project.artifact.name}", "LAUNCHER=distcc", "STORE_SIZE=0")
    (tmp_path / "distcc").mkdir()
    try:
        assert project.scons(*words, env=environment).status == 0
        assert sum((directory / "server.log").read_text().count("COMPILE_OK") for directory in places) == 3
        project.edit("kernels/aiv/twice.cpp", "2.0f", "3.0f")
        project.edit("kernels/aiv/plus_one.cpp", "in[i] + 1.0f", "in[i] + 2.0f")
        daemons[0].kill()
        dying = threading.Timer(0.5, daemons[1].kill)
        dying.start()
        run = project.scons(*words, env=environment)
        dying.join()
        assert run.status == 2 and "'y' FAIL" in run.output, run.output
        assert {"compile kernels/aiv/twice.cpp", "compile kernels/aiv/plus_one.cpp"} <= set(run.actions)
    finally:
        for daemon in daemons:
            daemon.kill()
