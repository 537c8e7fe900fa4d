"""A farm whose jobs or workers mean no good: it is not waited for, and only the job's files are read."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.facts.jobs import FarmJob, FarmResult, Order
from pypto_build.farm import worker

pytest.importorskip("distributed")
from pypto_build.farm import client as farm

_JOB = FarmJob("label", "/x/_jit_x", module="m", returns=("answer", "secret"))


@pytest.mark.parametrize("kind", ["a pipe", "a link out", "a device", "a terabyte", "a directory"])
def test_what_a_job_leaves_is_read_as_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("token")

    def plant(path: Path) -> None:
        path.unlink(missing_ok=True)
        match kind:
            case "a pipe":
                os.mkfifo(path)
            case "a link out":
                path.symlink_to(secret)
            case "a device":
                path.symlink_to("/dev/zero")
            case "a terabyte":
                path.touch()
                os.truncate(path, 1 << 40)
            case _:
                path.mkdir()

    def do(_job: FarmJob, _root: Path, attempt: Any, _processors: int) -> tuple[int, int]:
        os.write(attempt.log, b"printed\n")
        out = attempt.directory / "build" / "p" / "a"
        out.mkdir(parents=True)
        for path in (attempt.directory / "log", out / "verdict.json", attempt.directory / "secret"):
            plant(path)
        (attempt.directory / "answer").write_text("yes")
        return 0, 0

    monkeypatch.setattr(worker, "_do", do)
    result = worker.run_job(_JOB, "batch", 0, {}, {})
    assert (result.log, result.verdict, result.files) == ("printed\n", b"", {"answer": b"yes"})


class _Future:
    status = "finished"

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def result(self) -> object:
        return self._answer


@pytest.mark.parametrize("answer", [None, 5, {"label": 1}, FarmResult("x", status="0"), object()])  # type: ignore[arg-type]
def test_an_answer_that_is_no_result_is_a_job_that_was_lost(answer: object) -> None:
    result = farm._result(_Future(answer), _JOB)
    assert (result.label, result.lost) == ("label", "a worker answered with something else than a result")


def test_an_answer_is_of_the_job_that_was_given() -> None:
    assert farm._result(_Future(FarmResult("other", status=1)), _JOB) == FarmResult("label", status=1)


def test_workers_that_do_not_answer_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farm, "_ANSWER_S", 0.1)
    never = threading.Event()

    class Client:
        def run(self, *_: object, **__: object) -> None:
            never.wait()

    with pytest.raises(ArtifactError, match=r"not all of its workers answer: no answer within 0\.1 s"):
        farm._usable(Client(), print)
    never.set()


_REPLIES = {
    "nothing": (b"", "no answer within 3 s"),
    "garbage": (b"HTTP/1.1 200 OK\r\n\r\n\x1b[2J" * 9, "[!-~ ]+"),
}


@pytest.mark.parametrize(("reply", "reason"), _REPLIES.values(), ids=_REPLIES)
def test_a_server_that_is_no_scheduler_is_an_error(monkeypatch: pytest.MonkeyPatch, reply: bytes, reason: str) -> None:
    """Dask alone waits for a silent one without end, and of some replies it takes memory that no machine has."""
    monkeypatch.setattr(farm, "_CONNECT_S", 1.5)
    server, connections = socket.create_server(("127.0.0.1", 0)), []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connections.append(server.accept()[0])
                connections[-1].sendall(reply)

    threading.Thread(target=serve, daemon=True).start()
    address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    lines = farm.run(Order(address, 1, []), "batch", print)
    try:
        with pytest.raises(
            ArtifactError,
            match=(
                rf"SCHEDULER={address}: no Dask cluster answers: {reason}; start a cluster, or "
                rf"correct the address\Z"
            ),
        ):
            next(lines)
    finally:
        for each in (server, *connections):
            each.close()


def test_what_a_worker_says_of_itself_is_shown_escaped() -> None:
    message = farm._difference({"Python": "3"}, {"Python": "\x1b[2J[RUN] PASS\r4"})
    assert message == "Python ?[2J[RUN] PASS?4, here 3"
    assert farm._difference({}, ValueError("\x1b]0;x\x07")) == "?]0;x?"
