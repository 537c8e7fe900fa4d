"""Damages files and has them read: `python -m tests.readers.fuzz --reader NAME|all --count 100000 --seed N`.

Batches run in child processes with a limit of memory, watched by the clock, so that an input that crashes, hangs or
fills the memory is known. Every fault leaves its input below --save, and a line of what happened.
"""

from __future__ import annotations

import argparse
import math
import mmap
import os
import random
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.readers.mutate import damage_bytes
from tests.readers.table import READERS, Reader, check_error, silence

TIME_LIMIT_S = 5.0
MEMORY_LIMIT = 2 << 30
#: Faults of one kind after which a reader is given up.
MOST_FAULTS = 40

#: What a child tells: the input it is at, when it began with it, own errors, accepted, the slowest and which it was,
#: whether it is reading, and the time of the processor when it began.
_STATE = struct.Struct("<qdqqdqqd")
_FAULT_BYTES = 1 << 20


@dataclass
class Outcome:
    """Result of a reader's inputs. `faults` are (input, kind, text)."""

    reader: str
    inputs: int = 0
    own: int = 0
    accepted: int = 0
    slowest: float = 0.0
    slowest_input: int = -1
    faults: list[tuple[int, str, str]] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    @property
    def line(self) -> str:
        """One row of the report."""
        kinds = {
            kind: sum(other == kind for _, other, _ in self.faults) for kind in ("traceback", "form", "time", "died")
        }
        counts = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
        return (
            f"{self.reader:16} inputs {self.inputs:7} own errors {self.own:7} accepted {self.accepted:7} {counts} "
            f"slowest {self.slowest * 1000:.0f} ms (#{self.slowest_input})"
        )


def damaged(row: Reader, seeds: Sequence[bytes], seed: int, number: int) -> bytes:
    """Input `number` of a run with `seed`; the first ones are the seeds themselves."""
    if number < len(seeds):
        return seeds[number]
    rng = random.Random(f"{row.name} {seed} {number}")
    data = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2))):
        data = _damaged_once(row, rng, data, seeds)
    return data


def _damaged_once(row: Reader, rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    try:
        return row.damage(rng, data, seeds)
    except Exception:  # what is damaged already is no archive or document any more
        return damage_bytes(rng, data, seeds)


class _Child:
    """Work of a child process: reads inputs `first` to `last` one after the other."""

    def __init__(self, row: Reader, seeds: Sequence[bytes], seed: int, state: mmap.mmap, directory: Path) -> None:
        self.row, self.seeds, self.seed, self.state = row, seeds, seed, state
        self.path = row.place(directory)
        self.faults: list[tuple[int, str, str]] = []

    def run(self, first: int, last: int) -> None:
        own = accepted = 0
        slowest, slowest_input = 0.0, -1
        _limit_memory()
        for number in range(first, last):
            data = damaged(self.row, self.seeds, self.seed, number)
            self.path.write_bytes(data)
            began = time.monotonic()
            used = time.process_time()
            _put(self.state, number, began, own, accepted, slowest, slowest_input, 1, used)
            fault = self._read(number)
            took = time.process_time() - used
            own, accepted = own + (fault == "own"), accepted + (fault == "")
            if took > slowest:
                slowest, slowest_input = took, number
            _put(self.state, number + 1, began, own, accepted, slowest, slowest_input, 0, used)

    def _read(self, number: int) -> str:
        """Nothing, `own` for one of the reader's errors, or what is wrong, which is told as well."""
        try:
            self.row.read(self.path)
        except self.row.errors as error:
            wrong = check_error(self.row, error, self.path)
            if wrong:
                return self._tell(number, "form", f"{wrong}: {type(error).__name__}: {str(error)[:300]!r}")
            return "own"
        except BaseException as error:
            lines = traceback.format_exception(error, limit=-12)
            return self._tell(number, "traceback", "".join(lines)[-4000:])
        return ""

    def _tell(self, number: int, kind: str, text: str) -> str:
        position = struct.unpack_from("<q", self.state, _STATE.size)[0] or _STATE.size + 8
        entry = text.encode("utf-8", "backslashreplace")
        head = struct.pack("<qqq", number, {"form": 0, "traceback": 1}[kind], len(entry))
        if position + len(head) + len(entry) < _FAULT_BYTES:
            self.state[position : position + len(head) + len(entry)] = head + entry
            struct.pack_into("<q", self.state, _STATE.size, position + len(head) + len(entry))
        return kind


def _put(state: mmap.mmap, *fields: float) -> None:
    """Store the state in one copy: `pack_into` zeroes its buffer first, and the parent reads at any time."""
    state[: _STATE.size] = _STATE.pack(*fields)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * mmap.PAGESIZE + MEMORY_LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def fuzz(
    row: Reader, count: int, seed: int, save: Path | None = None, *, first: int = 0, seconds: float = math.inf
) -> Outcome:
    """Read `count` damaged files, or as many as some seconds suffice for."""
    row.load()
    outcome = Outcome(row.name)
    seeds = row.seeds()
    at, last = first, first + count
    end = time.monotonic() + seconds
    while at < last and len(outcome.faults) < MOST_FAULTS and time.monotonic() < end:
        at = _batch(row, seeds, seed, at, min(last, at + 2000), outcome)
    outcome.inputs = at - first
    if save is not None:
        for number, kind, text in outcome.faults:
            save.mkdir(parents=True, exist_ok=True)
            path = save / f"{row.name}-{seed}-{number}"
            path.write_bytes(damaged(row, seeds, seed, number))
            path.with_name(f"{path.name}.{kind}").write_bytes(text.encode("utf-8", "backslashreplace"))
            outcome.files.append(path)
    return outcome


def _batch(row: Reader, seeds: Sequence[bytes], seed: int, first: int, last: int, outcome: Outcome) -> int:
    """Read inputs in one child process; returns the first that was not read."""
    state = mmap.mmap(-1, _FAULT_BYTES)
    directory = Path(tempfile.mkdtemp(prefix="readers-"))
    _put(state, first, time.monotonic(), 0, 0, 0.0, -1, 0, 0.0)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            silence()
            _Child(row, seeds, seed, state, directory).run(first, last)
            status = 0
        finally:
            os._exit(status)
    try:
        kind = _wait(child, state)
        number, began, own, accepted, slowest, slowest_input, _, _ = _STATE.unpack_from(state, 0)
        outcome.own, outcome.accepted = outcome.own + own, outcome.accepted + accepted
        if kind:
            outcome.faults.append((number, kind.split(":")[0], kind))
            slowest, slowest_input = max((slowest, slowest_input), (time.monotonic() - began, number))
            number += 1
        if slowest > outcome.slowest:
            outcome.slowest, outcome.slowest_input = slowest, slowest_input
        outcome.faults += _told(state)
        return int(number)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        state.close()


def _wait(child: int, state: mmap.mmap) -> str:
    """Until the child ended; how, if not well."""
    while True:
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            code = os.waitstatus_to_exitcode(status)
            return f"died: exit status {code}" if code else ""
        _, began, *_, reading, used = seen = _STATE.unpack_from(state, 0)
        if reading and _took_too_long(child, began, used) and _stands(state, seen):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"time: more than {TIME_LIMIT_S:g} s"
        time.sleep(0.005)


def _stands(state: mmap.mmap, seen: tuple[float, ...]) -> bool:
    """Return whether the child has stayed at the same input for a moment, so that its state was read whole."""
    time.sleep(0.05)
    return seen == _STATE.unpack_from(state, 0)


def _took_too_long(child: int, began: float, used: float) -> bool:
    """Return whether an input takes more than the limit of processor time, or much more by the clock."""
    waited = time.monotonic() - began
    if waited < TIME_LIMIT_S:
        return False
    fields = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    processor = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") - used
    return fields[0] == "S" or processor > TIME_LIMIT_S or waited > 5 * TIME_LIMIT_S


def _told(state: mmap.mmap) -> list[tuple[int, str, str]]:
    end = struct.unpack_from("<q", state, _STATE.size)[0]
    position, faults = _STATE.size + 8, []
    while position < end:
        number, kind, length = struct.unpack_from("<qqq", state, position)
        text = bytes(state[position + 24 : position + 24 + length]).decode()
        faults.append((number, ("form", "traceback")[kind], text))
        position += 24 + length
    return faults


def read_once(row: Reader, data: bytes | None) -> tuple[str, str]:
    """Read one file in a child process: `own` with the message, `accepted`, or what went wrong. None is a pipe."""
    row.load()
    directory = Path(tempfile.mkdtemp(prefix="readers-"))
    here, there = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            os.close(here)
            kind, text = _read_alone(row, data, directory)
            os.write(
                there, f"{kind} {text.replace(str(directory), 'DIR')}".encode("utf-8", "backslashreplace")[:60_000]
            )
        finally:
            os._exit(0)
    os.close(there)
    try:
        return _answer(child, here)
    finally:
        os.close(here)
        shutil.rmtree(directory, ignore_errors=True)


def _read_alone(row: Reader, data: bytes | None, directory: Path) -> tuple[str, str]:
    silence()
    path = row.place(directory)
    path.unlink(missing_ok=True)
    if data is None:
        os.mkfifo(path)
    else:
        path.write_bytes(data)
    _limit_memory()
    resource.setrlimit(resource.RLIMIT_CPU, (int(TIME_LIMIT_S), int(TIME_LIMIT_S)))
    try:
        row.read(path)
    except row.errors as error:
        return "own", str(error)
    except BaseException as error:  # whatever it is, it should not be
        return "traceback", "".join(traceback.format_exception(error))
    return "accepted", ""


def _answer(child: int, here: int) -> tuple[str, str]:
    ready, _, _ = select.select([here], [], [], 6 * TIME_LIMIT_S)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    kind, _, text = os.read(here, 1 << 16).decode().partition(" ") if ready else ("time", "", "")
    return kind or "died", text


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzz; 0 if nothing was found."""
    made = argparse.ArgumentParser(prog="tests.readers.fuzz", description=(__doc__ or "").split("\n\n")[0])
    made.add_argument("--reader", default="all", help="a name, several with commas, or all")
    made.add_argument("--count", type=int, default=1000)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--seconds", type=float, default=math.inf, help="for each reader")
    made.add_argument("--first", type=int, default=0, help="number of the first input")
    made.add_argument("--save", type=Path, default=Path(tempfile.gettempdir()) / "readers-found")
    made.add_argument("--show", type=int, default=3, help="faults shown of each reader")
    options = made.parse_args(argv)
    names = [row.name for row in READERS] if options.reader == "all" else options.reader.split(",")
    faults = 0
    for row in READERS:
        if row.name in names:
            began = time.monotonic()
            outcome = fuzz(row, options.count, options.seed, options.save, first=options.first, seconds=options.seconds)
            faults += len(outcome.faults)
            print(f"{outcome.line} in {time.monotonic() - began:.0f} s", flush=True)
            shown: set[str] = set()
            for (number, kind, text), path in zip(outcome.faults, outcome.files, strict=True):
                last = text.strip().splitlines()[-1][:200] if kind == "traceback" else text[:300]
                if last not in shown and len(shown) < options.show:
                    shown.add(last)
                    print(f"  #{number} {kind} {path}\n    " + text.strip()[-1500:].replace("\n", "\n    "))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
