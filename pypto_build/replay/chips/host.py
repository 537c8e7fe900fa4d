"""Runs in a replay's child process for many chips: executes the driver, starts the ranks, and sends out dispatches."""

from __future__ import annotations

import math
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact.errors import ArtifactError
from pypto_build.facts.comparisons import COMPARISONS
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.facts.faults import FaultKind
from pypto_build.facts.layouts import FLIGHT_BYTES, REPORT_BYTES
from pypto_build.replay.child import RUN, Origin, Reply, TensorBuffer
from pypto_build.replay.chips.board import Board, Notes, Wait
from pypto_build.replay.chips.dispatches import Dispatch, Plan, Queue
from pypto_build.replay.chips.driver import Orchestrator, execute_driver
from pypto_build.replay.chips.memory import NO_REGIONS, HostRegions, HostTensor, Storage, Windows, address_of
from pypto_build.replay.chips.rank import RankProcess, RankReply, call_host, execute_dispatch, write_program
from pypto_build.replay.chips.records import Times, write_ranks
from pypto_build.replay.faults import UNHEARD
from pypto_build.replay.loading import LoadingNote
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.scalars import Scalar
from pypto_build.runtime.faults import RuntimeFault, python_fault
from pypto_build.runtime.waits import ago

# Detects deadlocks between ranks, and reports which signals they wait for and which ranks notified those.

_SHOWN = 4
_TOKEN_HINT = "order the dispatches of a rank by a token: an INOUT tensor that all of them share"
_HINT = "look at the peer that each notifies, at offset and value of the signal, and at who skips its notify"


class Watch:
    """Checks the board from time to time. Two checks without any progress in between make a deadlock. Kernels that wait
    for members of their group are woken without a note on the board; with such waits, more checks are needed."""

    _LOOKS, _LOOKS_WITH_GROUPS = 2, 12

    def __init__(self, board: Board) -> None:
        self._board = board
        self._before: object = None
        self._still = 0

    def stuck(self, running: Mapping[int, Dispatch]) -> list[Wait]:
        """Return the waits of `running` ranks if none of them can go on; else none."""
        board = self._board
        epoch = board.epoch
        waits = {rank: board.waits(rank) for rank in running}
        if not all(waits.values()) or any(board.busy(rank) > 0 for rank in running):
            self._before = None
            return []
        blocked = [wait for rank in waits.values() for wait in rank]
        now = (epoch, tuple((wait.rank, wait.task, wait.address) for wait in blocked), tuple(running))
        self._still = self._still + 1 if now == self._before else 1
        self._before = now
        grouped = any(board.other_waits(rank) for rank in running)
        needed = self._LOOKS_WITH_GROUPS if grouped else self._LOOKS
        if self._still < needed or board.epoch != epoch or any(wait.is_over for wait in blocked):
            return []
        return blocked


def explain(
    board: Board, waits: Sequence[Wait], running: Mapping[int, Dispatch], queue: Queue, domains: Sequence[Windows]
) -> tuple[str, str]:
    """Return the message of a deadlock, in one line, and the hint."""
    texts = [_wait(board, wait, running[wait.rank], domains) for wait in waits]
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    behind = [(item.rank, item, producers) for item, producers in queue.waiting() if item.rank is not None]
    blocked = [
        f"{item} was submitted before {running[rank]} and has not begun: nothing orders them, "
        "and a rank runs one dispatch at a time"
        for rank, item, producers in behind
        if rank in running and not producers and item.number < running[rank].number
    ]
    later = [f"{item} comes after {running[rank]} on its rank" for rank, item, _ in behind if rank in running]
    because = f"; {blocked[0]}" if blocked else f"; {later[0]}" if later else ""
    members = {rank for windows in domains for rank in windows.ranks}
    over = sorted(members - running.keys() - {rank for rank, *_ in behind})
    ranks, have = ("ranks", "have") if len(over) > 1 else ("rank", "has")
    ended = f"; {ranks} {', '.join(map(str, over))} {have} nothing left to run" if over else ""
    hint = _TOKEN_HINT if blocked else _HINT
    return f"the ranks wait for each other: {'; '.join(texts[:_SHOWN])}{more}{because}{ended}", hint


def _wait(board: Board, wait: Wait, dispatch: Dispatch, domains: Sequence[Windows]) -> str:
    """Return a description of one wait, and of the notifications of its signal."""
    signal, members = f"the signal at 0x{wait.address:x}", list[int]()
    for windows in domains:
        if position := windows.place(wait.address):
            owner, offset = position
            signal, members = windows.label(offset) + ("" if owner == wait.rank else f" of rank {owner}"), windows.ranks
    notes = sorted(board.notes(wait.address), key=lambda note: note.rank)
    latest = max((note.last_ns for note in notes), default=0)
    parts = [_note(note, note.last_ns == latest) for note in notes]
    never = [str(rank) for rank in members if rank not in {note.rank for note in notes}]
    parts += [f"never by rank {', '.join(never)}"] if never and notes else []
    history = f"notified {'; '.join(parts)}" if notes else "no rank has notified it"
    return (
        f"{dispatch} kernel '{wait.kernel}' (task {wait.task}) waits for {signal} {COMPARISONS[wait.comparison]} "
        f"{wait.expected}, it is {wait.value} ({history})"
    )


def _note(note: Notes, is_latest: bool) -> str:
    times = f"{note.count} times" if note.count > 1 else "once"
    set_to = f", set to {note.last}" if note.sets else ""
    when = f", {ago(time.monotonic_ns() - note.last_ns)}" if is_latest else ""
    return f"{times} by rank {note.rank} '{note.kernel}'{set_to}{when}"


_LOOK_S = 0.02  # interval of the check for deadlocks


@dataclass(frozen=True)
class ChipProgram:
    """A built chip program: `kernels` as (func_id, name, core type, path, signature)."""

    name: str
    kernels: tuple[tuple[int, str, str, Path, tuple[str, ...] | None], ...]
    orchestration: Path
    function_name: str
    config_name: str
    parameter_order: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """Return all files of the program that are loaded."""
        return (self.orchestration, *(kernel[3] for kernel in self.kernels))


#: The function that the runtime calls for every task of a dispatch.
OnTask = Callable[[Any], None]
#: Takes a rank, its dispatch, all windows and the usual task function (None: kernels); returns the one to call instead.
Watcher = Callable[[int, Dispatch, Sequence[Windows], OnTask | None], OnTask | None]


@dataclass(frozen=True)
class ChipsJob:
    """The settings and files of the child, besides the tensors. `threads` is for each rank; 0 divides this machine's
    number."""

    embedded: Path
    platform: str
    world: int
    driver: Path
    programs: Mapping[str, ChipProgram]
    scalars: Mapping[str, Scalar]
    sub_workers: Mapping[str, Path]
    threads: int = 0
    options: Mapping[str, SettingValue] = field(default_factory=dict)
    reference: Mapping[str, Path] | None = None  # the programs whose .pto modules PyTorch executes, by name
    by_modules: bool = False  # with `reference`: execute collectives by their modules too
    watch: Watcher | None = None
    devices: tuple[int, ...] = ()  # of each rank: used only as a name here
    regions: HostRegions = NO_REGIONS  # memory that a program outside shares with chips

    @property
    def binaries(self) -> tuple[Path, ...]:
        """Return all files that the child loads."""
        return (self.embedded, *(path for program in self.programs.values() for path in program.files))

    @property
    def place(self) -> Path:
        """Return a directory on the file system that runs write to."""
        return self.driver.parent


class RankFault(Exception):
    """A rank's fault that ended a round: `reply` names the rank and the fault."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply


def serve_chips(
    module: Any, job: ChipsJob, tensors: list[TensorBuffer], report: memoryview, flight: memoryview
) -> None:
    """Run one round for every `RUN` byte that is read, until end of file. The first fault ends the service."""
    process = os.getpid()

    def reply(message: Reply) -> None:
        if os.getpid() != process:
            os._exit(0)
        try:
            os.write(module.RESULTS, msgspec.json.encode(message) + b"\n")
        except OSError:
            os._exit(UNHEARD)

    reference = None
    if job.reference is not None:
        from pypto_build.replay.chips.reference import RanksReference

        try:
            reference = RanksReference(job.reference, job.by_modules)
        except ArtifactError as error:
            reply(
                Reply(fault=python_fault(FaultKind.UNUSABLE_INPUT, f"{error.path}: {error.message}", hint=error.hint))
            )
            return
        reply(Reply(loaded=True))
    host = _Host(module, job, tensors, report, flight)
    host.reference = reference
    signal.signal(signal.SIGTERM, lambda *_: host.pass_on(process))
    try:
        while os.read(module.COMMANDS, 1) == RUN:
            reply(host.run())
    except RankFault as ended:
        reply(ended.reply)
    except RuntimeFault as fault:
        reply(Reply(fault=fault.record))
    except Exception as error:
        kind = FaultKind.OUT_OF_MEMORY if isinstance(error, MemoryError) else FaultKind.ESCAPED_EXCEPTION
        reply(Reply(fault=python_fault(kind, str(error) or type(error).__name__)))


class _Host:
    """The service of one child: programs are loaded once, ranks are started anew for every round."""

    def __init__(
        self, module: Any, job: ChipsJob, tensors: list[TensorBuffer], report: memoryview, flight: memoryview
    ) -> None:
        self._module, self._job, self._report, self._flight = module, job, report, flight
        self._note = LoadingNote(report[:REPORT_BYTES])
        self._runtimes: dict[str, Any] = {}
        self.reference: Any = None  # a RanksReference, with RUNTIME=torch
        self._ranks: list[RankProcess] = []
        self._tensors = {
            name: HostTensor(
                Storage(name, address_of(memory), math.prod(shape) * ITEMSIZE[dtype], memory), dtype, shape
            )
            for memory, shape, dtype, _, name in tensors
        }

    def pass_on(self, process: int) -> None:
        """Forward the stop signal of this `process` to the ranks, which report their positions or end."""
        if os.getpid() != process or not self._ranks:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        for rank in self._ranks:
            if rank.pid:
                with suppress(ProcessLookupError):
                    os.kill(rank.pid, signal.SIGTERM)

    def run(self) -> Reply:
        """Run one round. Raises `RankFault`, and `RuntimeFault` for faults before any rank runs."""
        job = self._job
        orchestrator = Orchestrator(job.world, job.driver, frozenset(job.programs), job.regions)
        plan = execute_driver(orchestrator, {**self._tensors, **job.scalars}, job.sub_workers)
        for program in dict.fromkeys(item.program for item in plan.dispatches if item.rank is not None):
            self._load(program)
        self._board = Board()
        self._domains = plan.domains
        self._windows = [each for item in plan.domains for address in item.addresses for each in (address, item.size)]
        self._ranks = ranks = [RankProcess(rank, partial(self._execute, plan, rank)) for rank in range(job.world)]
        if any(item.rank is None for item in plan.dispatches):
            ranks.append(RankProcess(job.world, partial(self._call_host, plan)))
        job.regions.tell_begun()
        try:
            reply = self._dispatch(plan, ranks)
        finally:
            for process in ranks:
                process.end()
        self._check_windows(plan)
        return reply

    def _load(self, name: str) -> None:
        """Load a program in this process; ranks are forks of it, with static variables of their own."""
        if name in self._runtimes:
            return
        program, job = self._job.programs[name], self._job
        threads = job.threads or max(1, (os.cpu_count() or 1) // job.world)
        runtime = self._module.Runtime(platform=job.platform, threads=threads)
        for func_id, kernel, core_type, path, signature in program.kernels:
            self._note.set(path)
            text = "" if job.reference is not None and not path.is_file() else str(path)
            runtime.load_kernel(func_id, kernel, core_type, text, None if signature is None else list(signature))
        self._note.set(program.orchestration)
        runtime.load_orchestration(str(program.orchestration), program.function_name, program.config_name)
        self._note.set(None)
        self._runtimes[name] = runtime

    def _execute(self, plan: Plan, rank: int, number: int) -> RankReply:
        return execute_dispatch(self._module, self._runtimes, plan.dispatches, partial(self._options, rank), number)

    def _call_host(self, plan: Plan, number: int) -> RankReply:
        return call_host(self._job.sub_workers, plan.dispatches[number])

    def _options(self, rank: int, dispatch: Dispatch) -> dict[str, Any]:
        """Return the runtime's options. Other ranks write to windows too, so memory is not poisoned and inputs are not
        copied."""
        start = (rank + 1) * REPORT_BYTES  # the host has the first
        directory = Path(str(self._job.options["output_dir"])) / f"rank{rank}" / f"d{dispatch.index}"
        options = dict(self._job.options)
        if _leaves_records(options):
            write_program(directory, dispatch.program)
        on_task = None if self.reference is None else self.reference.hook(dispatch.program, self._domains)
        if self._job.watch is not None:
            on_task = self._job.watch(rank, dispatch, self._domains, on_task)
        if on_task is not None:
            options["on_task"] = on_task
        return {
            **options,
            "seed": int(str(options.get("seed", 0))) + rank,
            "poison": False,
            "protect_inputs": False,
            "parameter_order": self._job.programs[dispatch.program].parameter_order,
            "output_dir": str(directory),
            "report": self._report[start : start + REPORT_BYTES],
            "flight": self._flight[rank * FLIGHT_BYTES : (rank + 1) * FLIGHT_BYTES],
            "board": self._board.memory,
            "rank": rank,
            "windows": self._windows,
        }

    def _dispatch(self, plan: Plan, ranks: list[RankProcess]) -> Reply:
        """Run all dispatches, and record their times and records. Raises `RankFault` for the first that fails."""
        times = Times()
        try:
            tasks = self._hand_out(plan, ranks, times)
            return Reply(tasks=tasks, run_s=times.now)
        finally:
            if _leaves_records(self._job.options):
                directory = Path(str(self._job.options["output_dir"]))
                write_ranks(directory, self._job.devices, plan, self._board, times)

    def _hand_out(self, plan: Plan, ranks: list[RankProcess], times: Times) -> int:
        """Let ranks begin dispatches until all are finished; return the number of tasks."""
        queue = Queue(plan.dispatches, self._job.world, 1)
        watch = Watch(self._board)
        self._ended = dict[int, tuple[int, ...]]()
        tasks = 0
        while queue.left:
            while (item := queue.take()) is not None:
                times.begun[item.number] = times.now
                self._start(ranks, item)
            answered = _answered(ranks)
            for process in answered:
                done = process.current
                tasks += self._finish(process, queue)
                assert done is not None
                times.ended[done.number] = times.now
            running = {process.rank: item for process in ranks if (item := process.current)}
            if not answered and (waits := watch.stuck(running)):
                text, hint = explain(self._board, waits, running, queue, plan.domains)
                fault = python_fault(FaultKind.RANKS_DEADLOCK, text, hint=hint)
                first = min(waits, key=lambda wait: wait.rank)
                fault.fields["program"] = running[first.rank].program
                fault.fields["kernel"], fault.fields["expected"] = first.kernel, first.expected
                raise RuntimeFault(fault)
        return tasks

    def _start(self, ranks: list[RankProcess], item: Dispatch) -> None:
        """Let a rank begin a dispatch, with the clocks of the dispatches that it waited for."""
        slot = self._job.world if item.rank is None else item.rank
        for producer in item.producers:
            self._board.acquire(slot, self._ended[producer])
        ranks[slot].start(item)

    def _finish(self, process: RankProcess, queue: Queue) -> int:
        """Read a rank's reply; return the number of its tasks."""
        answer, dispatch = process.reply(), process.current
        origin = Origin(process.rank, dispatch.index if dispatch else 0, dispatch.program if dispatch else "")
        if answer is None:
            origin.status = process.status
            raise RankFault(Reply(origin=origin))
        if answer.fault is not None:
            raise RankFault(Reply(fault=answer.fault, origin=origin))
        assert dispatch is not None
        process.current = None
        self._ended[dispatch.number] = self._board.release(process.rank)
        queue.finish(dispatch)
        return answer.tasks

    def _check_windows(self, plan: Plan) -> None:
        """Raise for bytes beyond a window that a kernel wrote."""
        for windows in plan.domains:
            if (overrun := windows.overrun()) is not None:
                rank, offset = overrun
                text = f"domain '{windows.name}': byte {offset} of rank {rank}'s window of {windows.size} was written"
                hint = "check the offsets of the kernels that write to this window by put, remote store or notify"
                raise RuntimeFault(python_fault(FaultKind.WINDOW_OVERRUN, text, hint=hint))


def _answered(ranks: list[RankProcess]) -> list[RankProcess]:
    """Return the ranks that have answered, or have ended; none if nothing came for a while."""
    with suppress(InterruptedError):
        return list(select.select(ranks, [], [], _LOOK_S)[0])
    return []


def _leaves_records(options: Mapping[str, object]) -> bool:
    return any(
        options.get(name) for name in ("dump_args", "dep_gen", "swimlane", "scope_stats", "accesses", "instructions")
    )
