"""Reader of simpler's logs of host and device: error codes, the scheduler's report of a stall, faults of cores.

Lines of several threads and files come in any order, and each line is complete. The scheduler reports a stall in
rounds, and the last round counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import open_file

_MAX_BYTES = 64 << 20
#: The part of a line that is read. The facts are at its beginning, behind a time and a source position.
_MAX_CHARACTERS = 4000
_SUFFIXES = ("", ".log", ".txt", ".out", ".err")

_LATCHED = re.compile(r"orch_error_code=(?P<orch>-?\d{1,20})\s+sched_error_code=(?P<sched>-?\d{1,20})")
_RETURNED = re.compile(r"runtime failed with rc=-(?P<code>\d{1,20})")
_TIMEOUT = re.compile(
    r"sub_class=(?P<name>S\d|unknown).*?completed=(?P<done>\d{1,20})/(?P<total>\d{1,20})\s+"
    r"running=(?P<running>\d{1,20})\s+"
    r"ready=(?P<ready>\d{1,20})\s+waiting=(?P<waiting>\d{1,20})\s+orch_done=(?P<orch_done>\d{1,20})"
    r"(?:\s+stuck_task_id=(?P<task>-?\d{1,20}))?(?:\s+stuck_core=(?P<core>-?\d{1,20}))?"
)
_STALL = re.compile(
    r"\[STALL thread=\d+ idle_iterations=(?P<round>\d{1,20})\] "
    r"TASK ring=(?P<ring>\d{1,20}) task_id=(?P<task>\d{1,20})\s+"
    r"state=(?P<state>RUNNING|READY|WAIT)\s+fanin_refcount=(?P<met>\d{1,20})/(?P<fanin>\d{1,20})\s+"
    r"kernels=\[aic:(?P<aic>-?\d{1,20}) aiv0:(?P<aiv0>-?\d{1,20}) aiv1:(?P<aiv1>-?\d{1,20})\]"
    r"(?:\s+running_on=\[owner_thread=\d+ cores=\[(?P<cores>[^\]]*)\]\])?"
)
# Until May 2026 the scheduler counted its idle turns, and reported a stall in these lines.
_IDLE = re.compile(r"PTO2 timeout after (?P<turns>\d{1,20}) idle iterations")
_PROGRESS = re.compile(r"PTO2 \d{1,20} idle iterations, (?P<done>\d{1,20})/(?P<total>\d{1,20}) completed")
_STUCK = re.compile(
    r"STUCK-(?P<state>READY|WAIT)\s+(?:ring=(?P<ring>\d{1,20}) )?task_id=(?P<task>\d{1,20}) "
    r"kernel_id=(?P<kernel>-?\d{1,20}) refcount=(?P<met>\d{1,20}) fanin=(?P<fanin>\d{1,20})"
)
_BUSY = re.compile(
    r"core=(?P<core>\d{1,20}) cond=\S+ exec_id=(?P<task>\d{1,20})(?: payload_task=-?\d{1,20})? "
    r"kernel=(?P<kernel>\d{1,20})"
)
_OF_THE_RUNTIME = re.compile(r"PTO2|\[STALL|AICPU|aicpu|runtime_maker|device_runner|[Tt]hread \d+: ")
_EXCEPTION = re.compile(r"(?:run|simpler_run|run_prepared) failed with code (?P<code>-?\d{1,20})")
_CANN = re.compile(r"\b(?P<code>107022|207001|5070\d\d|507899)\b")
_FAULT = re.compile(r"(?P<unit>VEC|CUBE|MTE|CCU|FIXP|SU) instruction error:?\s*(?P<what>[^\n]*)")
_FAULT_CORE = re.compile(
    r"core id (?P<core>\d{1,20})(?:,\s*blk:\s*(?P<block>\d{1,20}))?(?:.*?errcode\s+(?P<code>0x[0-9a-fA-F]+))?"
)


@dataclass(frozen=True)
class StalledTask:
    """A task that had not ended when the scheduler reported a stall. The upper half of `id` is the ring."""

    id: int
    state: str
    met: int
    fanin: int
    func_ids: tuple[int, ...]
    cores: str = ""


@dataclass(frozen=True)
class Timeout:
    """The scheduler's verdict on a stall."""

    name: str
    done: int
    total: int
    running: int
    ready: int
    waiting: int
    orchestration_done: bool | None  # None if the log does not say
    task: int | None
    core: int | None


@dataclass(frozen=True)
class Where:
    """A line of a log."""

    path: Path
    line: int


@dataclass
class LogFacts:
    """The facts of the logs, with their positions."""

    code: int | None = None
    code_at: Where | None = None
    exception: int | None = None
    cann: int | None = None
    cann_at: Where | None = None
    timeout: Timeout | None = None
    timeout_at: Where | None = None
    fault: str = ""
    fault_at: Where | None = None
    rounds: dict[int, dict[int, StalledTask]] = field(default_factory=dict)
    idle_at: Where | None = None
    progress: tuple[int, int] | None = None  # tasks that had ended, and all
    of_the_runtime: bool = False  # True if a line comes from the runtime

    @property
    def stalled(self) -> list[StalledTask]:
        """The tasks of the last round of a stall's report."""
        return list(self.rounds[max(self.rounds)].values()) if self.rounds else []

    @property
    def empty(self) -> bool:
        """True if no fact was recognised."""
        known = (self.code, self.exception, self.cann, self.timeout, self.idle_at)
        return all(fact is None for fact in known) and not self.rounds and not self.fault


def log_files(directory: Path) -> list[Path]:
    """Return the logs at or below `directory`. Raises a usage error if there are none."""
    if directory.is_file():
        return [directory]
    if not directory.is_dir():
        raise ArtifactError(f"LOG={directory}", "no such file or directory", "name the directory of the logs")
    found = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.suffix in _SUFFIXES]
    if not found:
        raise ArtifactError(
            f"LOG={directory}", "holds no log", "name the directory with the host's and the device's logs"
        )
    return found


def read_logs(paths: Iterable[Path]) -> LogFacts:
    """Return the facts of all files."""
    facts = LogFacts()
    for path in paths:
        for number, line in _lines(path):
            _take(facts, line, Where(path, number))
    if facts.timeout is None and facts.idle_at is not None:
        facts.timeout, facts.timeout_at = _idle(facts), facts.idle_at
    return facts


def _idle(facts: LogFacts) -> Timeout:
    """Return the verdict on a stall that a scheduler from before June 2026 reported without one."""
    counts = Counter(task.state for task in facts.stalled)
    known = {"RUNNING": "S1", "READY": "S3", "WAIT": "S4"}
    name = next((known[state] for state in known if counts[state]), "unknown")
    done, total = facts.progress or (0, 0)
    return Timeout(name, done, total, counts["RUNNING"], counts["READY"], counts["WAIT"], None, None, None)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a file. Only the beginning of a huge file is read, which has the first error."""
    with open_file(path) as file:
        text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), 1):
        yield number, line[:_MAX_CHARACTERS]


def _take(facts: LogFacts, line: str, at: Where) -> None:
    if "error_code=" in line and (found := _LATCHED.search(line)) and facts.code is None:
        code = int(found["orch"]) or int(found["sched"])
        facts.code, facts.code_at = (code, at) if code else (None, None)
    if "failed with rc=" in line and (found := _RETURNED.search(line)) and facts.code is None:
        facts.code, facts.code_at = int(found["code"]), at
    if (
        "sub_class=" in line
        and (found := _TIMEOUT.search(line))
        and (facts.timeout is None or facts.timeout.task is None)
    ):
        facts.timeout, facts.timeout_at = _timeout(found), at
    if "[STALL" in line and (found := _STALL.search(line)):
        task = _stalled(found)
        facts.rounds.setdefault(int(found["round"]), {})[task.id] = task
    facts.of_the_runtime = facts.of_the_runtime or bool(_OF_THE_RUNTIME.search(line))
    if "idle iterations" in line and (found := _IDLE.search(line)) and facts.idle_at is None:
        facts.idle_at = at
    if "idle iterations" in line and (found := _PROGRESS.search(line)):
        facts.progress = int(found["done"]), int(found["total"])
    if "STUCK-" in line and (found := _STUCK.search(line)):
        task = _stuck(found, int(found["ring"] or 0) << 32 | (int(found["task"]) & 0xFFFFFFFF))
        facts.rounds.setdefault(0, {})[task.id] = task
    if " cond=" in line and (found := _BUSY.search(line)):
        raw, core = int(found["task"]), f"core={found['core']}"
        facts.rounds.setdefault(0, {})[raw] = StalledTask(raw, "RUNNING", 0, 0, (int(found["kernel"]),), core)
    if (found := _EXCEPTION.search(line)) and facts.exception is None:
        facts.exception = int(found["code"])
    if (found := _CANN.search(line)) and facts.cann is None:
        facts.cann, facts.cann_at = int(found["code"]), at
    if "instruction error" in line and (found := _FAULT.search(line)) and not facts.fault:
        facts.fault, facts.fault_at = f"{found['unit']} instruction error: {found['what'].strip()}", at
    elif facts.fault and "errcode" not in facts.fault and (found := _FAULT_CORE.search(line)):
        block = f", block {found['block']}" if found["block"] else ""
        facts.fault += f" (core {found['core']}{block}" + (f", errcode {found['code']})" if found["code"] else ")")


def _stuck(found: re.Match[str], raw: int) -> StalledTask:
    kernels = (int(found["kernel"]),) if int(found["kernel"]) >= 0 else ()
    return StalledTask(raw, found["state"], int(found["met"]), int(found["fanin"]), kernels)


def _timeout(found: re.Match[str]) -> Timeout:
    def known(name: str) -> int | None:
        return int(found[name]) if found[name] is not None and int(found[name]) >= 0 else None

    done, total, running, ready, waiting = (int(found[i]) for i in ("done", "total", "running", "ready", "waiting"))
    ended = found["orch_done"] != "0"
    return Timeout(found["name"], done, total, running, ready, waiting, ended, known("task"), known("core"))


def _stalled(found: re.Match[str]) -> StalledTask:
    raw = int(found["task"])
    lanes = tuple(dict.fromkeys(int(found[lane]) for lane in ("aic", "aiv0", "aiv1") if int(found[lane]) >= 0))
    return StalledTask(
        raw if raw >> 32 else int(found["ring"]) << 32 | raw,
        found["state"],
        int(found["met"]),
        int(found["fanin"]),
        lanes,
        (found["cores"] or "").strip(),
    )
