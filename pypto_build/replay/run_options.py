"""What a run can be asked for besides its result: order of tasks, strictness, and what it leaves for instruments.

The values go to the embedded runtime as they are; its names are the keys here. Log levels and dump levels are those of
simpler, old names and new.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

RunOption = bool | int | str | list[str] | list[int] | Callable[[Any], object]

#: Numbers of simpler's log levels: those since August 2026, and v0 to v9 from before.
LOG_LEVELS: dict[str, int] = {
    "debug": 10,
    "info": 20,
    "timing": 25,
    "warn": 30,
    "error": 40,
    "null": 60,
    **{f"v{number}": 15 + number for number in range(10)},
}

_SWITCHES = {
    "--strict": ("strict", "also order readers before writers and overlapping outputs"),
    "--shuffle": ("shuffle", "run ready tasks one by one in a random legal order, seeded by --seed"),
    "--serial": ("serial", "run tasks one by one in submission order"),
    "--zero-fill": ("zero_fill", "outputs start as zeros, not as NaN or a pattern that shows what nobody wrote"),
    "--dep-gen": ("dep_gen", "write dfx_outputs/deps.json"),
    "--scope-stats": ("scope_stats", "write dfx_outputs/scope_stats/scope_stats.jsonl"),
}


def _level(highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not 0 <= value <= highest:
            raise ValueError
        return value

    parse.__name__ = f"level (0 to {highest})"
    return parse


def _log_level(text: str) -> int:
    try:
        return LOG_LEVELS[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(LOG_LEVELS)}") from None


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    for flag, (name, doc) in _SWITCHES.items():
        parser.add_argument(flag, dest=f"run_{name}", action="store_true", help=doc)
    add = parser.add_argument
    add("--dump-args", dest="run_dump_args", type=_level(3), default=0, metavar="N", help=DUMP_DOC)
    add("--dump-select", dest="run_dump_select", action="append", metavar="KERNEL[:INDEX]", help=SELECT_DOC)
    add("--dump-tasks", dest="run_dump_tasks", action="append", metavar="TASK", help=TASKS_DOC)
    add("--dump-format", dest="run_dump_format", choices=("args", "tensor"), help=FORMAT_DOC)
    add("--swimlane", dest="run_swimlane", type=_level(4), default=0, metavar="N", help="timeline level 0 to 4")
    add(
        "--log-level", dest="run_log_level", type=_log_level, metavar="L", help="debug, info, timing, warn, error, null"
    )


DUMP_DOC = "dump arguments: 0 off, 1 those marked in the code, 2 all, 3 all without their content"
SELECT_DOC = (
    "dump only this kernel's arguments, or one of them; * and ? match; several with commas; level 2 if none is given"
)
FORMAT_DOC = "names of the dump: args_dump/args_dump.json, or tensor_dump/tensor_dump.json as before 2026-06-18"
TASKS_DOC = "dump only these tasks: N, N-M or 0xID; several with commas; level 2 if none is given"


def run_options(given: argparse.Namespace) -> dict[str, RunOption]:
    """The options asked for, by the runtime's names; those left at their defaults are left out."""
    values = {name[4:]: value for name, value in vars(given).items() if name.startswith("run_")}
    asked = {name: value for name, value in values.items() if value not in (None, False, 0)}
    for name in ("dump_select", "dump_tasks"):
        if name in asked:
            asked[name] = [item for text in asked[name] for item in text.split(",") if item]
            asked.setdefault("dump_args", 2)
    return asked | ({"poison": False} if asked.pop("zero_fill", False) else {})
