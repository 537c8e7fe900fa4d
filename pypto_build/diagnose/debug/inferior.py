"""The program under the debugger: `python -m pypto_build.diagnose.debug.inferior ARTIFACT_DIR … --task 3`.

Earlier tasks run the usual kernels. The debugged task runs kernels compiled for a debugger, so its breakpoints stop in
that task only. Without a task number, all tasks are debugged. The task's arguments are written to a file for the
debugger's printers.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.records import kernel_binary
from pypto_build.diagnose.console import add_beside, add_run_options, command, tool_parser
from pypto_build.diagnose.recorded.names import Names, artifact_names
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.replay.reference.launch import Launch, open_launch

# Arguments of a task, written to a file that the debugger's printers read.

#: The name of that file in the session's directory.
TASK_FILE = "task.json"


class DebuggedArgument(msgspec.Struct, frozen=True):
    """An argument: a tensor (address of its first element, shape, strides in elements) or a scalar (``text``)."""

    name: str
    direction: str = ""
    dtype: str = ""
    address: int = 0
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    text: str = ""


class DebuggedTask(msgspec.Struct, frozen=True):
    """A task with its kernels and arguments. ``block`` is None if all its blocks run together."""

    task: int
    block: int | None
    blocks: int
    kernels: list[str]
    arguments: list[DebuggedArgument]


def describe(call: Any, names: Names) -> DebuggedTask:
    """Return the description of a task from the call that the runtime passes to its callback."""
    func_ids = [func_id for _, func_id, _ in call.kernels]
    arguments = []
    for index, slot in enumerate(call.slots()):
        name = names.argument(func_ids, index) or f"args[{index}]"
        if isinstance(slot, tuple):
            buffer, _, offset, dtype, shape, strides = slot
            address = buffer + offset * ITEMSIZE[dtype]
            direction = getattr(call.args[index], "direction", "")
            arguments.append(DebuggedArgument(name, direction, dtype, address, shape, strides))
        else:
            typed = names.scalar(func_ids, index, slot)
            text = f"{typed[1]} ({typed[0]})" if typed else f"0x{slot & (1 << 64) - 1:x}"
            arguments.append(DebuggedArgument(name, text=text))
    kernels = list(dict.fromkeys(name for _, _, name in call.kernels))
    return DebuggedTask(call.number, call.block, call.block_num, kernels, arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("debug.inferior", __doc__)
    add = options.add_argument
    add_run_options(options)
    add("--data", type=Path, metavar="DIR", help="another directory with in/ and out/ than the artifact's data/")
    add_beside(options)
    add("--seed", type=int, default=0, metavar="N", help="seed of inputs made up without data/in (0)")
    add("--task", type=int, default=-1, metavar="N", help="the task; -1 for all of them")
    add("--block", type=int, default=0, metavar="N", help="its block (0)")
    return options


class Over(Exception):
    """Ends the run when the debugged task has ended."""


class _Debugged:
    """The callback of the run, which replaces the kernels of the debugged task."""

    def __init__(self, launch: Launch, binaries: Path, task: int, block: int, work: Path) -> None:
        self.launch, self.task, self.block, self.work = launch, task, block, work
        self.names = artifact_names(launch.artifact)
        kernels = launch.interface.kernels
        paths = {kernel.func_id: launch.library(kernel.core_type, kernel.name) for kernel in kernels}
        self.usual = {func_id: path for func_id, path in paths.items() if path.is_file()}
        self.debugged = {
            kernel.func_id: binaries / f"{kernel_binary(kernel.core_type, kernel.name)}.so" for kernel in kernels
        }
        self.seen = False

    def __call__(self, call: Any) -> None:
        if self.task >= 0 and call.number > self.task:
            raise Over
        chosen = self.task < 0 or (call.number == self.task and call.block in (None, self.block))
        if not chosen:
            call.run()
            return
        self.seen = True
        task = describe(call, self.names)
        write_bytes(self.work / TASK_FILE, msgspec.json.encode(task))
        if self.task >= 0:
            print(f"[debug] {_title(task)}", flush=True)
        for func_id in {func_id for _, func_id, _ in call.kernels} & set(self.debugged):
            self.launch.replace(func_id, self.debugged[func_id])
        call.run()
        for func_id in {func_id for _, func_id, _ in call.kernels} & set(self.usual):
            self.launch.replace(func_id, self.usual[func_id])


def _title(task: DebuggedTask) -> str:
    block = f", block {task.block}" if task.blocks > 1 and task.block is not None else ""
    return f"task {task.task} {'+'.join(task.kernels)}{block}"


@command("debug", parser)
def main(options: argparse.Namespace) -> int:
    """Run the artifact and return the exit status."""
    built = (options.artifact, options.build_dir, options.embedded, options.platform)
    launch = open_launch(*built, options.data, options.seed, options.usual)
    work = options.binaries / "session"
    work.mkdir(parents=True, exist_ok=True)
    callback = _Debugged(launch, options.binaries, options.task, options.block, work)
    try:
        with suppress(Over):
            launch.run(callback)
    except RuntimeError as fault:  # a RuntimeFault, whose module is not imported here
        print(f"[debug] the run ended: {fault}", file=sys.stderr)
        return 5
    if not callback.seen:
        block = f" with block {options.block}" if options.block else ""
        raise ArtifactError("", f"the run submits no TASK={options.task}{block}", "'scons deps' lists the tasks")
    if options.task >= 0:
        print(f"[debug] task {options.task} has ended", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
