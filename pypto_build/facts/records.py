"""Records of a run in `OUT/dfx_outputs/`: files by option, and fields of the files that only this package writes.
docs/lookup/records.md is written from these rows.
"""

from __future__ import annotations

from typing import NamedTuple


class RecordFile(NamedTuple):
    """A record: the option that requests it, its files, and the tool of simpler that reads them."""

    option: str
    files: str
    reader: str = ""


FILES = (
    RecordFile(
        "`DUMP=1`, `2`, `3`", "`args_dump/args_dump.json`, `args.bin`", "`dump_viewer args_dump [-s after] [-e]`"
    ),
    RecordFile(
        "`DUMP=2 DUMP_FORMAT=tensor`",
        "`tensor_dump/tensor_dump.json`, `.bin`",
        "`dump_viewer` of April to June 2026",
    ),
    RecordFile("`DEP_GEN=1`", "`deps.json`", "`deps_viewer deps.json [--format html --show-tensor-info]`"),
    RecordFile(
        "`SWIMLANE=1` to `4`",
        "`chip_swimlane_records.json`, `timing.json`",
        "`swimlane_converter chip_swimlane_records.json [--overhead]`, then Perfetto",
    ),
    RecordFile("`SWIMLANE=3 DEP_GEN=1`", "both", "`sched_overhead_analysis`, `critical_path .`"),
    RecordFile(
        "`SCOPE_STATS=1`", "`scope_stats/scope_stats.jsonl`", "`scope_stats_plot scope_stats/scope_stats.jsonl`"
    ),
    RecordFile("`LOG_LEVEL=timing`", "lines on stderr", "`strace_timing LOG [--tree] [--rounds-table]`"),
    RecordFile(
        "`LOG_LEVEL=v0`",
        "a line for each task submitted, kernel begun and task over",
        "with `ASCEND_PROCESS_LOG_PATH=dir` also in `dir/device-0/`",
    ),
    RecordFile("`scons speed`", "`../check/dfx_outputs/instructions.json`, `.bin`"),
    RecordFile("several chips", "`ranks.json`; `rank0/d1/` has the files above for one dispatch"),
    RecordFile("a hang or a crash", "`flight.json`"),
    RecordFile("always", "`name_map.json`: the names of kernels"),
)

NOTES = (
    "Dump level 1 holds what the orchestration marked with `dump(...)`. Level 2 holds everything. Level 3"
    " holds everything without content.",
    "A run that dumps runs its tasks one by one, so its timeline is no measurement.",
    "A timeline is taken after a warm-up round. `ROUNDS=n` measures n rounds. A timeline without a warm-up is marked"
    " as cold.",
    "A kernel without a signature is dumped by what the task declares, and a warning names it.",
    "An explicit dependency that only waits (`add_dep_wait`) says so in `deps.json`. simpler's file calls all explicit"
    " ones `wait` and `retain`. `STRICT=1` adds edges of source `strict`.",
    "In the timeline a thread stands for a cluster of one AIC and two AIV cores. Tasks without a kernel are"
    " `dummy_task` phases. Tasks whose condition did not hold are `predicated_skip` phases.",
    "`instructions.json` has the distinct instructions, and which of them each call executes.",
)

#: Fields of records by type, with the title of their table. A test compares them with the types.
FIELDS: dict[str, tuple[str, dict[str, str]]] = {
    "Timing": (
        "`timing.json`",
        {
            "warm": "true if another round ran before",
            "rounds": "how many rounds count",
            "shown": "the round that the timeline shows, from 1",
            "makespan": "the time from the first start to the last end",
            "tasks": "the time of each task",
            "schema": "the version of this record",
        },
    ),
    "Spread": (
        "A time in `timing.json`, in microseconds",
        {
            "median": "the median of the rounds",
            "least": "the shortest round",
            "most": "the longest round",
            "task": "the task's id; 0 for the whole run",
        },
    ),
    "Flight": (
        "`flight.json`",
        {
            "schema": "the version of this record",
            "ranks": "how many ranks ran",
            "events": "the last 1,000 events of the orchestration and of every core, the earliest first",
            "fault": "the fault that ended the run, or null",
            "line": "the source line that crashed or hung",
        },
    ),
    "RanksRecord": (
        "`ranks.json`",
        {
            "world": "how many ranks ran",
            "dispatches": "a record for each dispatch",
            "domains": "the domains of communication, with their windows",
            "signals": "the signals in the windows",
            "origin_ns": "the start of the run on the machine's monotonic clock",
            "waiting": "the waits that had not ended",
            "pending": "the dispatches that were submitted and never began",
            "devices": "the devices of the ranks",
            "schema": "the version of this record",
        },
    ),
    "DispatchRow": (
        "A record of `dispatches`",
        {
            "number": "the number of the dispatch in the run",
            "program": "the chip program",
            "rank": "the rank; -1 for a host callable",
            "index": "the number of the dispatch on its rank",
            "line": "the line of the driver that submits it",
            "producers": "the dispatches that it waited for",
            "begun_s": "its begin, in seconds from the start of the run",
            "ended_s": "its end, or null",
            "domains": "the domains that it uses",
            "shapes": "its tensors, such as `float32[1, 256]`",
        },
    ),
}
