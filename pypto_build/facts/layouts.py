"""Layouts of memory and files that the runtime writes and Python reads. C++ gets them as `layouts.h`, which
`runtime/layouts.py` writes; Python reads and writes the classes as they are, numpy takes one as a dtype.

A field has the type of ctypes on both sides, unless `CPP` of its class names another of that size for C++.
"""

from __future__ import annotations

from ctypes import Structure, c_char, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, sizeof
from enum import IntEnum
from typing import ClassVar

REPORT_MAGIC = 0x54524F5045525050  # "PPREPORT"
REPORT_VERSION = 5
REPORT_THREADS = 256
REPORT_FRAMES = 48
REPORT_SAMPLES = 16
SAMPLE_FRAMES = 8

FLIGHT_MAGIC = 0x544847494C465050  # "PPFLIGHT"
FLIGHT_VERSION = 1
FLIGHT_RECORDS = 1024  # of a track
FLIGHT_NAMES = 512  # kernels of all runs
FLIGHT_CORES = 128  # more threads than these run, but are not recorded

BOARD_MAGIC = 0x4452414F42505050  # "PPPBOARD"
BOARD_RANKS = 66  # 64, and host callables after the last
BOARD_WAITS = 128  # kernels of a rank that wait at the same time
BOARD_HISTORY = 16  # notifications of a signal whose clocks are remembered
BOARD_CLOCKS = 2048  # signals that have clocks
BOARD_NOTES = 16384  # pairs of signal and notifying rank that are remembered

#: Exit status of a process whose fault stands in the report: code that lets no exception pass kept it from ending.
FAULT_TOLD = 72
#: The state of a record that is written; before it is 0, then 1.
COMPLETE = 2
NO_TASK = (1 << 64) - 1

_STATE = "std::atomic<uint32_t>"


class StopCommand(IntEnum):
    """The parent's commands to a run that is stopped at the time limit."""

    NONE = 0
    ASK = 1  # where every thread is
    CLOSE = 2  # the memory of tensors: who touches it notes that, and waits
    OPEN = 3  # the same again
    END = 4


class FlightEvent(IntEnum):
    """Kinds of records of the flight recorder, with the meaning of `object`, `value` and `detail`."""

    NONE = 0
    RUN_BEGINS = 1  # value: the rank
    RUN_ENDS = 2
    SUBMITS = 3  # a task; value: producers that it has to wait for
    KERNEL_BEGINS = 4  # value: its func_id
    KERNEL_RETURNS = 5  # of the task and member before
    WAITS_FOR_SLOT = 6  # object: the pipe; value: the slot; detail: FlightWay
    PASSES_SLOT = 7  # a slot is filled or freed; the same
    WAITS_AT_BARRIER = 8  # detail: GroupSet::Cores
    WAITS_FOR_VALUE = 9  # object: the address; value: what is expected; detail: WaitCmp
    SETS_VALUE = 10  # object: the address; value: what it is set to
    ADDS_VALUE = 11  # object: the address; value: what is added
    WAITS_FOR_COUNTER = 12  # of an asynchronous completion; object: the address; value: what it has to reach
    WAITS_FOR_ROOM = 13  # object: bytes asked for; value: the ring; detail: Shortage
    WAITS_FOR_TASKS = 14  # that write, or use, a tensor; value: how many; detail: 1 with those that use it
    WAITS_FOR_END = 15  # of all tasks
    GOES_ON = 16  # after a wait
    FAULT = 17  # value: FaultKind


class Layout(Structure):
    """Fields at the offsets that a C++ compiler gives them."""

    CPP: ClassVar[dict[str, str]] = {}


class RunningSlot(Layout):
    """A thread's running kernel. `task` is written last and cleared first."""

    _fields_ = [
        ("task", c_uint64),  # number of the task, NO_TASK when idle
        ("func_id", c_int32),
        ("block", c_int32),
        ("start_ns", c_int64),  # CLOCK_MONOTONIC
        ("member", c_int32),  # AIC, AIV0, AIV1
        ("waits", c_uint32),  # for another member of its group, or at a barrier
        ("kernel", c_char * 64),
    ]
    CPP = {"task": "std::atomic<uint64_t>", "waits": _STATE}


class ReportFrame(Layout):
    """A stack frame; `offset` is the offset in its module."""

    _fields_ = [("address", c_uint64), ("offset", c_uint64), ("module", c_char * 176), ("symbol", c_char * 64)]


class CrashRecord(Layout):
    """The signal that ended the run."""

    _fields_ = [
        ("state", c_uint32),
        ("signal", c_int32),
        ("code", c_int32),  # si_code
        ("func_id", c_int32),
        ("address", c_uint64),
        ("task", c_uint64),
        ("block", c_int32),
        ("frame_count", c_uint32),
        ("kernel", c_char * 64),  # or "orchestration"; empty for a thread that is neither's
        ("nearness", c_uint32),
        ("escaped", c_uint32),
        ("distance", c_uint64),
        ("bytes", c_uint64),
        ("nearest", c_char * 96),  # tensor or memory the address belongs to or is nearest to
        ("arguments", c_char * 2048),  # one line an argument
        ("exception", c_char * 256),  # what escaped
        ("data_bytes", c_uint64),  # of the process, which the memory limit counts
        ("frames", ReportFrame * REPORT_FRAMES),
    ]
    CPP = {"state": _STATE, "nearness": "Nearness", "escaped": "Escaped"}


class FaultRecord(Layout):
    """The fault that ended the run, kept here because code that never returns may prevent its return."""

    _fields_ = [("state", c_uint32), ("bytes", c_uint32), ("json", c_char * 16384)]  # Fault::json(), whole if it fits
    CPP = {"state": _STATE}


class HangSample(Layout):
    """Position of a thread at the moment when a run hung or was stopped."""

    _fields_ = [
        ("state", c_uint32),
        ("core", c_int32),  # number of its slot
        ("running", RunningSlot),  # what was in that
        ("frame_count", c_uint32),
        ("closing", c_uint32),  # of the tensors' memory, that it was last seen in
        ("looks", c_uint32),  # how often it was seen to touch memory of tensors
        ("polls", c_uint32),  # how often in a row, at last, at `address`
        ("address", c_uint64),
        ("at", c_uint64),  # the instruction
        ("value", c_int32),  # of the four bytes at `address`
        ("nearness", c_uint32),
        ("distance", c_uint64),  # as in CrashRecord
        ("bytes", c_uint64),
        ("nearest", c_char * 96),
        ("frames", ReportFrame * SAMPLE_FRAMES),
    ]
    CPP = {"state": _STATE, "nearness": "Nearness"}


class Report(Layout):
    """A run's report to its parent process, readable even if the run's process does not return."""

    _fields_ = [
        ("magic", c_uint64),
        ("version", c_uint32),
        ("thread_count", c_uint32),  # slots in use
        ("orchestrating", c_uint32),  # 1 while the orchestration's function runs
        ("reserved", c_uint32),
        ("created", c_uint64),  # tasks
        ("completed", c_uint64),  # tasks
        ("open", c_uint64),  # tasks that are ready or running
        ("command", c_uint32),  # of the parent, for the next SIGTERM: a number << 8 | StopCommand
        ("answered", c_uint32),  # the last that was carried out
        ("threads", RunningSlot * REPORT_THREADS),
        ("crash", CrashRecord),
        ("fault", FaultRecord),
        ("samples", HangSample * REPORT_SAMPLES),
    ]
    CPP = {
        **dict.fromkeys(("thread_count", "orchestrating", "command", "answered"), _STATE),
        **dict.fromkeys(("created", "completed", "open"), "std::atomic<uint64_t>"),
    }


class FlightRecord(Layout):
    """One event of the flight recorder."""

    _fields_ = [
        ("ns", c_int64),  # CLOCK_MONOTONIC
        ("event", c_uint16),
        ("name", c_uint16),  # of the kernel, plus one; 0: none
        ("member", c_uint8),
        ("detail", c_uint8),
        ("block", c_uint16),
        ("task", c_uint32),  # its number; ~0: none
        ("value", c_int32),
        ("object", c_uint64),
    ]
    CPP = {"event": "FlightEvent"}


class FlightTrack(Layout):
    """Records of one thread; `count` is the number of records written so far."""

    _fields_ = [("count", c_uint64), ("reserved", c_uint64 * 7), ("records", FlightRecord * FLIGHT_RECORDS)]
    CPP = {"count": "std::atomic<uint64_t>"}


class FlightHead(Layout):
    """Header of the flight recorder's memory; the tracks follow, the orchestration's first."""

    _fields_ = [
        ("magic", c_uint64),
        ("version", c_uint32),
        ("tracks", c_uint32),  # that there is room for
        ("reserved", c_uint64 * 6),
        ("names", c_char * 64 * FLIGHT_NAMES),
    ]


class SignalWait(Layout):
    """A kernel that waits for a signal."""

    _fields_ = [
        ("state", c_uint32),  # 0: free
        ("expected", c_int32),
        ("comparison", c_uint32),  # WaitCmp: EQ, NE, GT, GE, LT, LE
        ("block", c_int32),
        ("address", c_uint64),
        ("task", c_uint64),
        ("kernel", c_char * 64),
    ]
    CPP = {"state": _STATE}


class RankBoard(Layout):
    """One rank's messages to the others."""

    _fields_ = [
        ("busy", c_int32),  # what can go on by itself: the orchestration, kernels, ready tasks
        ("other_waits", c_uint32),  # kernels that wait for members of their group
        ("clock", c_uint32 * BOARD_RANKS),  # how much of each rank's work comes before what this one does next
        ("waits", SignalWait * BOARD_WAITS),
    ]
    CPP = {"busy": "std::atomic<int32_t>", "other_waits": _STATE}


class SignalNote(Layout):
    """Changes of one signal by one rank."""

    _fields_ = [
        ("address", c_uint64),  # 0: free
        ("rank", c_uint32),  # plus one; 0 until it is written
        ("count", c_uint32),
        ("sum", c_int64),  # of what was added
        ("sets", c_uint32),
        ("last", c_int32),  # what it was set to, or what was added
        ("last_ns", c_int64),  # CLOCK_MONOTONIC
        ("task", c_uint64),  # of the last
        ("kernel", c_char * 64),
    ]
    CPP = {
        "address": "std::atomic<uint64_t>",
        "sum": "std::atomic<int64_t>",
        **dict.fromkeys(("rank", "count", "sets"), _STATE),
    }


class SignalClock(Layout):
    """The vector clock before the notifications of one signal; kept when accesses are recorded."""

    _fields_ = [
        ("address", c_uint64),  # 0: free
        ("locked", c_uint32),
        ("sets", c_uint32),  # any: sums say nothing
        ("added", c_int64),  # by positive additions
        ("taken", c_int64),  # by negative ones
        ("count", c_uint64),  # of positive additions and sets
        ("reached", c_int64 * BOARD_HISTORY),  # `added` after the last of them, the count-th at count - 1
        ("clock", c_uint32 * BOARD_RANKS * BOARD_HISTORY),  # what came before it and those before it
    ]
    CPP = {"address": "std::atomic<uint64_t>", "locked": _STATE}


class Board(Layout):
    """Memory shared by the processes of all ranks."""

    _fields_ = [
        ("magic", c_uint64),
        ("epoch", c_uint32),  # counts notifications; what waiters sleep on
        ("waiters", c_uint32),  # threads that sleep
        ("ranks", RankBoard * BOARD_RANKS),
        ("notes", SignalNote * BOARD_NOTES),
        ("clocks", SignalClock * BOARD_CLOCKS),
    ]
    CPP = {"epoch": _STATE, "waiters": _STATE}


class AccessRecord(Layout):
    """Regions of global memory that one instruction of a kernel touched during one call: `rows` pieces of `length`
    bytes.
    """

    _fields_ = [
        ("base", c_uint64),
        ("stride", c_uint64),
        ("length", c_uint64),
        ("rows", c_uint32),
        ("task", c_uint32),  # number
        ("site", c_uint32),
        ("block", c_int32),
        ("epoch", c_uint32),  # counts what the member handed over before, from 1
        ("known", c_uint32 * 3),  # epochs of the members it had seen the end of
        ("phase", c_uint16),  # barriers of the whole task passed
        ("member", c_uint8),
        ("kind", c_uint8),  # PyptoAccessKind
        ("count", c_uint32),  # instructions
    ]
    CPP = {"known": "std::array<uint32_t, 3>"}


REPORT_BYTES = 1 << 17  # of a report's memory, whole pages
FLIGHT_BYTES = sizeof(FlightHead) + (FLIGHT_CORES + 1) * sizeof(FlightTrack)
BOARD_BYTES = sizeof(Board)
