"""Commands as forks of a process that has loaded what they need: what they come to, and that none is left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pypto_build.farm.worker import Forks
from pypto_build.proof.digests import TICK_S
from tests.farm.conftest import at_work, until
from tests.rules.project import Project

_LIMIT = 3 << 30
_LIMITED = f"([] {{ rlimit l; getrlimit(RLIMIT_AS, &l); return l.rlim_cur == {_LIMIT}; }}() ? 2.0f : 0.0f) * in[i]"
_ENDLESS = "([] { for (volatile int i = 0;; ) { i = i; } return 0.0f; }())"

pytestmark = pytest.mark.usefixtures("runtime")


@pytest.fixture
def forks() -> Iterator[Forks]:
    """A process to fork from."""
    server = Forks()
    yield server
    server.close()


class _Job:
    """A command in a directory, done in a thread of its own."""

    def __init__(self, forks: Forks, directory: Path, *words: str, memory: int = 0) -> None:
        self.log = directory / "log"
        self.group = 0
        self.result: tuple[int, int] | None = None
        environment = {**os.environ, "PYPTO_BUILD_SERVER": "0"}

        output = self.log.open("wb")

        def work() -> None:
            with output:
                self.result = forks.run(words, directory, environment, output.fileno(), memory, self._begun)

        self.thread = threading.Thread(target=work)
        self.thread.start()

    def _begun(self, group: int) -> None:
        self.group = group

    def wait(self) -> tuple[int, int] | None:
        """Return the result of the job."""
        self.thread.join(60)
        return self.result


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_command_has_its_directory_output_and_status(forks: Forks, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    jobs = [_Job(forks, tmp_path / name, "replay", f"_jit_{name}") for name in ("a", "b")]
    for job, name in zip(jobs, ("a", "b"), strict=True):
        status, peak = job.wait() or (0, 0)
        assert status == 2 and 1 << 24 < peak < 1 << 30
        assert job.log.read_text().startswith(f"scons: *** JIT=_jit_{name}: ")
        assert not _alive(job.group)


def _endless(forks: Forks, root: Path) -> _Job:
    """A command whose kernel is at work and does not end."""
    project = Project(root)
    project.artifact = project.artifact.rename(project.artifact.with_name("_jit_endless_fork"))
    project.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", _ENDLESS)
    job = _Job(forks, root, "replay", str(project.artifact), "TIMEOUT=100")
    until(lambda: at_work("_jit_endless_fork"))
    time.sleep(1.0)  # a compiler or the kernel is at work by now
    return job


def test_closing_ends_what_runs(tmp_path: Path) -> None:
    forks = Forks()
    job = _endless(forks, tmp_path)
    forks.close()
    status, _ = job.wait() or (0, 0)
    assert status != 0
    until(lambda: not _alive(job.group), 10)  # a process that has ended stays until the system's first one looks
    until(lambda: not at_work("_jit_endless_fork"), 10)


def test_a_killed_process_takes_its_jobs_with_it(forks: Forks, tmp_path: Path) -> None:
    job = _endless(forks, tmp_path)
    assert forks._process is not None
    forks._process.kill()
    assert job.wait() == (-signal.SIGKILL, 0)
    until(lambda: not _alive(job.group) and not at_work("_jit_endless_fork"), 10)


def test_a_file_that_changes_is_not_what_was_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "first").mkdir()
    module = tmp_path / "modules" / "sitecustomize.py"
    module.parent.mkdir()
    module.write_text("")
    time.sleep(2 * TICK_S)
    monkeypatch.setenv("PYTHONPATH", str(module.parent))
    forks = Forks()
    try:
        assert _Job(forks, tmp_path / "first", "replay", "_jit_a").wait()
        os.utime(module)  # no byte is another, which only reading it shows
        assert _Job(forks, tmp_path, "replay", "_jit_a").wait() is None
    finally:
        forks.close()


def test_memory_is_limited(forks: Forks, tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write_kernel("twice", _LIMITED, "#include <sys/resource.h>\n")
    job = _Job(forks, tmp_path, "replay", str(project.artifact), memory=_LIMIT)
    assert (job.wait() or (1, 0))[0] == 0, job.log.read_text()
    job = _Job(forks, tmp_path, "replay", str(project.artifact), "FORCE=1", memory=_LIMIT + 1)
    assert (job.wait() or (0, 0))[0] == 1
