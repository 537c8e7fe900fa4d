"""Explains a hang or a crash. `scons hang JIT=x` shows the last events of the last failed run here.

`LOG=dir` reads the logs of a run on simpler and names the tasks, kernels and faults in them.

    python -m pypto_build.diagnose.hang ARTIFACT_DIR --build-dir OUT
    python -m pypto_build.diagnose.hang [ARTIFACT_DIR] --log DIR [--build-dir OUT]

The first form reads the flight recorder, the second form reads logs. The artifact gives names to func_ids. A deps.json
gives numbers, kernels, source lines and predecessors to task ids. It is in the logs' directory, or comes from a replay
with DEP_GEN=1, which has the same ids.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pypto_build.artifact import ArtifactError, is_distributed, load_artifact
from pypto_build.artifact.files import open_file
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.console import add_options_of, command, tool_parser
from pypto_build.diagnose.findings import Finding, Related, deliver
from pypto_build.diagnose.hazards.faults import fault_finding
from pypto_build.diagnose.lint.subject import read_wrapper
from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.diagnose.recorded.graph import find_graph, id_text
from pypto_build.diagnose.recorded.names import submissions
from pypto_build.replay.flight import FLIGHT, Flight, read_kept
from pypto_build.replay.report import last_line
from pypto_build.replay.simpler_codes import CANN_CODES, RUNTIME_CODES, TIMEOUT_CLASSES, Code
from pypto_build.replay.verdict import read_verdict

# Reader of simpler's logs of host and device: error codes, the scheduler's report of a stall, faults of cores.
# Lines of several threads and files come in any order, and each line is complete. The scheduler reports a stall in
# rounds, and the last round counts.

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
        facts = (self.code, self.exception, self.cann, self.timeout, self.idle_at)
        return all(fact is None for fact in facts) and not self.rounds and not self.fault


def log_files(directory: Path) -> list[Path]:
    """Return the logs at or below `directory`. Raises a usage error if there are none."""
    if directory.is_file():
        return [directory]
    if not directory.is_dir():
        raise ArtifactError(f"LOG={directory}", "no such file or directory", "name a directory with logs")
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.suffix in _SUFFIXES]
    if not files:
        raise ArtifactError(
            f"LOG={directory}", "contains no log", "name the directory with the logs of host and device"
        )
    return files


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
    phases = {"RUNNING": "S1", "READY": "S3", "WAIT": "S4"}
    name = next((phases[state] for state in phases if counts[state]), "unknown")
    done, total = facts.progress or (0, 0)
    return Timeout(name, done, total, counts["RUNNING"], counts["READY"], counts["WAIT"], None, None, None)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a file. Only the beginning of a huge file is read, which has the first error."""
    with open_file(path) as file:
        text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), 1):
        yield number, line[:_MAX_CHARACTERS]


def _take(facts: LogFacts, line: str, at: Where) -> None:
    if "error_code=" in line and (match := _LATCHED.search(line)) and facts.code is None:
        code = int(match["orch"]) or int(match["sched"])
        facts.code, facts.code_at = (code, at) if code else (None, None)
    if "failed with rc=" in line and (match := _RETURNED.search(line)) and facts.code is None:
        facts.code, facts.code_at = int(match["code"]), at
    if (
        "sub_class=" in line
        and (match := _TIMEOUT.search(line))
        and (facts.timeout is None or facts.timeout.task is None)
    ):
        facts.timeout, facts.timeout_at = _timeout(match), at
    if "[STALL" in line and (match := _STALL.search(line)):
        task = _stalled(match)
        facts.rounds.setdefault(int(match["round"]), {})[task.id] = task
    facts.of_the_runtime = facts.of_the_runtime or bool(_OF_THE_RUNTIME.search(line))
    if "idle iterations" in line and (match := _IDLE.search(line)) and facts.idle_at is None:
        facts.idle_at = at
    if "idle iterations" in line and (match := _PROGRESS.search(line)):
        facts.progress = int(match["done"]), int(match["total"])
    if "STUCK-" in line and (match := _STUCK.search(line)):
        task = _stuck(match, int(match["ring"] or 0) << 32 | (int(match["task"]) & 0xFFFFFFFF))
        facts.rounds.setdefault(0, {})[task.id] = task
    if " cond=" in line and (match := _BUSY.search(line)):
        raw, core = int(match["task"]), f"core={match['core']}"
        facts.rounds.setdefault(0, {})[raw] = StalledTask(raw, "RUNNING", 0, 0, (int(match["kernel"]),), core)
    if (match := _EXCEPTION.search(line)) and facts.exception is None:
        facts.exception = int(match["code"])
    if (match := _CANN.search(line)) and facts.cann is None:
        facts.cann, facts.cann_at = int(match["code"]), at
    if "instruction error" in line and (match := _FAULT.search(line)) and not facts.fault:
        facts.fault, facts.fault_at = f"{match['unit']} instruction error: {match['what'].strip()}", at
    elif facts.fault and "errcode" not in facts.fault and (match := _FAULT_CORE.search(line)):
        block = f", block {match['block']}" if match["block"] else ""
        facts.fault += f" (core {match['core']}{block}" + (f", errcode {match['code']})" if match["code"] else ")")


def _stuck(match: re.Match[str], raw: int) -> StalledTask:
    kernels = (int(match["kernel"]),) if int(match["kernel"]) >= 0 else ()
    return StalledTask(raw, match["state"], int(match["met"]), int(match["fanin"]), kernels)


def _timeout(match: re.Match[str]) -> Timeout:
    def number(name: str) -> int | None:
        return int(match[name]) if match[name] is not None and int(match[name]) >= 0 else None

    done, total, running, ready, waiting = (int(match[i]) for i in ("done", "total", "running", "ready", "waiting"))
    ended = match["orch_done"] != "0"
    return Timeout(match["name"], done, total, running, ready, waiting, ended, number("task"), number("core"))


def _stalled(match: re.Match[str]) -> StalledTask:
    raw = int(match["task"])
    lanes = tuple(dict.fromkeys(int(match[lane]) for lane in ("aic", "aiv0", "aiv1") if int(match[lane]) >= 0))
    return StalledTask(
        raw if raw >> 32 else int(match["ring"]) << 32 | raw,
        match["state"],
        int(match["met"]),
        int(match["fanin"]),
        lanes,
        (match["cores"] or "").strip(),
    )


# Reader of the flight recorder of the last run here that hung or crashed.

_SHOWN = 32
_VERDICT = "verdict.json"


class LastRun:
    """The verdict of the last replay in `out`, and the events before its end if it failed."""

    def __init__(self, root: Path, out: Path) -> None:
        if not (out / _VERDICT).is_file():
            raise ArtifactError(
                out / _VERDICT,
                "is missing, because no run was recorded here",
                "replay first, or name the logs of another run with LOG=",
            )
        self.root, self.verdict = root, read_verdict(out / _VERDICT)
        path = out / "dfx_outputs" / FLIGHT
        self.flight: Flight | None = read_kept(path) if self.failed and path.is_file() else None
        if self.flight and self.verdict.error:
            self.verdict.error.fault, self.verdict.error.line = self.flight.fault, self.flight.line

    @property
    def failed(self) -> bool:
        """True if the run hung or ended by a fault."""
        return self.verdict.status in ("hang", "runtime_error")

    def lines(self) -> list[str]:
        """Return lines on the end of the run, the last event of every core, and the last events of all."""
        verdict = self.verdict
        if not self.failed or verdict.error is None:
            return [f"[hang] {verdict.artifact}: the last replay here neither hung nor crashed: {verdict.status}"]
        lines = [f"[hang] {verdict.artifact}: {last_line(verdict, verdict.run_s).partition(': ')[2]}"]
        if self.flight is None or not self.flight.events:
            return [*lines, "    nothing was recorded before it"]
        of_each = [number for _, number in sorted(self.flight.last_of_each().items())]
        lines += ["the last of each core:", *(f"    {line}" for line in self.flight.shown(of_each))]
        shown = self.flight.lines(_SHOWN)
        lines += [f"the last {len(shown)} of {len(self.flight.events)} events (dfx_outputs/{FLIGHT}):"]
        return [*lines, *(f"    {line}" for line in shown)]

    def findings(self) -> list[Finding]:
        """Return the finding on the cause of the end, or nothing if the run did not fail."""
        finding = None if is_distributed(self.root) else fault_finding(load_artifact(self.root), self.verdict, "hang")
        if finding is None and self.failed and (error := self.verdict.error):
            finding = Finding(f"hang/{error.kind}", error.message, hint=error.hint, detail=tuple(error.detail))
        return [finding] if finding else []


_SHOWN_TASKS = 12


class Hang:
    """The facts of the logs, with the names of tasks and kernels."""

    def __init__(self, facts: LogFacts, evidence: Evidence, root: Path) -> None:
        self.facts, self.evidence, self.root = facts, evidence, root

    def culprit(self) -> StalledTask | None:
        """Return the running task that was submitted last. Without a list of tasks, return the scheduler's task."""
        running = [task for task in self.facts.stalled if task.state == "RUNNING"]
        if running:
            return max(running, key=self._position)
        timeout = self.facts.timeout
        if timeout is None or timeout.task is None:
            return None
        return StalledTask(timeout.task, "RUNNING", 0, 0, self._func_ids(timeout.task))

    def _position(self, task: StalledTask) -> tuple[int, int]:
        return self.evidence.order.numbers.get(task.id, -1), task.id

    def _func_ids(self, raw: int) -> tuple[int, ...]:
        graph = self.evidence.graph
        if graph is not None:
            task = graph.by_id.get(raw)
            return task.func_ids if task else ()
        return self._by_order.get(raw & 0xFFFFFFFF, ((), 0))[0]

    @cached_property
    def _by_order(self) -> dict[int, tuple[tuple[int, ...], int]]:
        """Kernels and lines by task id, for an orchestration without loops, where each line submits one task."""
        artifact, timeout = self.evidence.artifact, self.facts.timeout
        if artifact is None or timeout is None:
            return {}
        read = submissions(artifact.orchestration.source)
        numbered = [(line, ()) for line in read.allocations] + [(s.line, s.func_ids) for s in read.submits]
        if len(numbered) != timeout.total:
            return {}
        return {number: (func_ids, line) for number, (line, func_ids) in enumerate(sorted(numbered))}

    def title(self, task: StalledTask) -> str:
        """Return the title of a task: `task 3 (1:4) kernel_mul on core=8(AIV0)`."""
        names = self.evidence.names
        func_ids = task.func_ids or self._func_ids(task.id)
        words = [f"task {self.evidence.order.label(task.id) if self.evidence.graph else id_text(task.id)}"]
        words += [names.joined(func_ids)] if func_ids else []
        core = self.facts.timeout.core if self.facts.timeout else None
        if task.cores:
            words.append(f"on {task.cores}")
        elif task.state == "RUNNING" and core is not None and self.facts.timeout and task.id == self.facts.timeout.task:
            words.append(f"on core {core}")
        return " ".join(words)

    # -- findings -----------------------------------------------------------------------------------------------

    def findings(self) -> list[Finding]:
        """Return at most one finding: the cause that the logs name, at its source line."""
        facts = self.facts
        if facts.fault:
            path, line = self._kernel_position(self.culprit())
            hint = "check the kernel's TASSIGN addresses and tile sizes: scons pto_check, scons lint"
            return [self._finding("hang/core-fault", facts.fault, hint, path, line, facts.fault_at)]
        if facts.timeout is not None:
            return [self._timeout()]
        number = facts.code or (-facts.exception if facts.exception and -200 < facts.exception < 0 else None)
        if number is not None:
            code = RUNTIME_CODES.get(number, Code(f"code {number}", "a code of a newer runtime", "look it up there"))
            return [self._coded(f"hang/{code.name.lower()}", f"{code.name} ({number}): {code.message}", code)]
        if facts.cann is not None:
            code = CANN_CODES.get(facts.cann, Code("CANN", "an error of CANN", "read the device log", "runtime"))
            message = f"CANN {facts.cann} ({code.name}): {code.message}"
            return [self._finding("hang/cann", message, code.hint, "", 0, facts.cann_at)]
        return []

    def _timeout(self) -> Finding:
        timeout = self.facts.timeout
        assert timeout is not None
        code = TIMEOUT_CLASSES.get(timeout.name, TIMEOUT_CLASSES["unknown"])
        task = self.culprit() if timeout.name == "S1" else self._first("READY" if timeout.name == "S3" else "WAIT")
        message = f"{timeout.name} {code.name}: {code.message}" + (f": {self.title(task)}" if task else "")
        if timeout.name == "S1":
            path, line = self._kernel_position(task)
        else:
            path, line = self._submit_position(task)
        rule = f"hang/{code.name}"
        return self._finding(rule, message, code.hint, path, line, self.facts.timeout_at, task)

    def _first(self, state: str) -> StalledTask | None:
        tasks = [task for task in self.facts.stalled if task.state == state]
        return min(tasks, key=self._position) if tasks else None

    def _coded(self, rule: str, message: str, code: Code) -> Finding:
        path = ""
        if code.about == "orchestration" and self.evidence.artifact:
            path = self._short(self.evidence.artifact.orchestration.source)
        return self._finding(rule, message, code.hint, path, 0, self.facts.code_at)

    def _finding(
        self,
        rule: str,
        message: str,
        hint: str,
        path: str,
        line: int,
        at: Where | None,
        task: StalledTask | None = None,
    ) -> Finding:
        related = (Related(str(at.path), at.line, "the log reports it here"),) if at else ()
        number = self.evidence.order.numbers.get(task.id) if task and self.evidence.graph else None
        return Finding(
            rule,
            message,
            path,
            line,
            hint,
            detail=tuple(self.waits(task)) if task else (),
            tasks=(number,) if number is not None else (),
            kernel=self.evidence.names.joined(task.func_ids or self._func_ids(task.id)) if task else "",
            related=related,
        )

    def _kernel_position(self, task: StalledTask | None) -> tuple[str, int]:
        """Return the position of the function that the kernel's entry calls, else of the entry itself."""
        func_ids = (task.func_ids or self._func_ids(task.id)) if task else ()
        kernel = next((self.evidence.names.kernels[i] for i in func_ids if i in self.evidence.names.kernels), None)
        if kernel is None or kernel.source is None:
            return "", 0
        wrapper = read_wrapper(kernel.source, kernel.name)
        line = wrapper.called.line if wrapper.called else wrapper.code.line(wrapper.entry[0]) if wrapper.entry else 0
        return self._short(kernel.source), line

    def _submit_position(self, task: StalledTask | None) -> tuple[str, int]:
        position = self.evidence.submitted_at(task.id) if task else ""
        if task and not position and self.evidence.artifact:
            line_ = self._by_order.get(task.id & 0xFFFFFFFF, ((), 0))[1]
            return (self._short(self.evidence.artifact.orchestration.source), line_) if line_ else ("", 0)
        path, _, line = position.rpartition(":")
        return (path, int(line)) if path else ("", 0)

    def _short(self, path: Path) -> str:
        return relative_source(path, self.evidence.artifact.root if self.evidence.artifact else self.root)

    # -- text ---------------------------------------------------------------------------------------------------

    def waits(self, task: StalledTask) -> list[str]:
        """Return lines on the predecessors of a stalled task that had not ended."""
        graph = self.evidence.graph
        if graph is None:
            missing = task.fanin - task.met
            return [f"{missing} of its {task.fanin} predecessors had not ended"] if missing > 0 else []
        unfinished = {stalled.id for stalled in self.facts.stalled}
        lines = []
        for pred, edges in graph.preds.get(task.id, {}).items():
            if pred in unfinished or (not unfinished and task.state == "WAIT"):
                lines.append(f"waits for {self.evidence.title(pred)}, {self.evidence.reason(edges[0])}")
        if task.state == "RUNNING":
            after = [self.evidence.title(succ) for succ in graph.succs.get(task.id, {})]
            more = f" and {len(after) - 4} more" if len(after) > 4 else ""
            lines += [f"waited for by {', '.join(after[:4])}{more}"] if after else []
        return lines

    def summary(self) -> list[str]:
        """Return lines on the progress, the error codes, and the tasks that had not ended."""
        facts, lines = self.facts, []
        if facts.timeout:
            timeout = facts.timeout
            ended = [f"{timeout.done} of {timeout.total} tasks had ended"] if timeout.total else []
            counts = f"{timeout.running} running, {timeout.ready} ready, {timeout.waiting} waiting"
            orchestration = {None: [], True: ["orchestration done"], False: ["orchestration not done"]}
            lines.append("; ".join([*ended, counts, *orchestration[timeout.orchestration_done]]))
        if facts.code is not None and facts.code in RUNTIME_CODES:
            lines.append(f"runtime code {facts.code}: {RUNTIME_CODES[facts.code].name}")
        if facts.cann is not None:
            code = CANN_CODES.get(facts.cann)
            lines.append(f"CANN code {facts.cann}" + (f": {code.name}, {code.message}" if code else ""))
        culprit = self.culprit()
        if culprit is not None:
            lines.append(f"last dispatched: {self.title(culprit)}")
        stalled = sorted(facts.stalled, key=self._position)
        for task in stalled[:_SHOWN_TASKS]:
            lines.append(f"  {task.state:8}{self.title(task)}")
            lines += [f"            {line}" for line in self.waits(task)]
        if len(stalled) > _SHOWN_TASKS:
            lines.append(f"  and {len(stalled) - _SHOWN_TASKS} more")
        return lines


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("hang", __doc__)
    add = options.add_argument
    add("artifact", type=Path, nargs="?", metavar="ARTIFACT_DIR", help="the artifact that ran, for names and lines")
    add("--build-dir", type=Path, metavar="OUT", help="where the artifact was replayed here, for its deps.json")
    add("--platform", default="a2a3", help="what it ran on")
    add_options_of(options, "hang")
    return options


@command("hang", parser)
def main(options: argparse.Namespace) -> int:
    """Explain a run or logs. Returns 1 if there is a fault, 0 if there is none, and 2 if there is nothing to read."""
    return _recorded(options) if options.log is None else _logged(options)


def _recorded(options: argparse.Namespace) -> int:
    """Explain the last run here from its flight recorder."""
    if options.artifact is None or options.build_dir is None:
        raise ArtifactError(
            "hang",
            "has no run and no logs to read",
            "name an artifact that ran here with JIT=, or logs of another run with LOG=",
        )
    last = LastRun(options.artifact, options.build_dir)
    for line in last.lines():
        print(line)
    if not last.failed:
        return 0
    return deliver("hang", options.artifact, last.findings(), options)


def _logged(options: argparse.Namespace) -> int:
    facts = read_logs(log_files(options.log))
    beside = options.log if options.log.is_dir() else options.log.parent
    records = beside if find_graph(beside) else options.build_dir
    root = options.artifact or beside
    hang = Hang(facts, Evidence(root, records, options.platform), beside)
    if facts.empty:
        print(f"[hang] {options.log}: these logs report no error, no stall and no fault")
        if not facts.of_the_runtime:
            print("    the logs contain no line of the runtime: run again with ASCEND_PROCESS_LOG_PATH=dir and")
            print("    --log-level info (v0 before August 2026), then use LOG=dir, or the host's output in a file")
        return 0
    for line in hang.summary():
        print(line)
    return deliver("hang", root, hang.findings(), options)


if __name__ == "__main__":
    sys.exit(main())
