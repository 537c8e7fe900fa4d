"""Executes the rounds of a replay on simpler: a process in simpler's own Python, with the tensors in shared files.

Compiled code runs in that process. If it crashes, hangs or fills memory, this process is not affected.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.interface import Interface
from pypto_build.facts.dtypes import SIMPLER_CARRIERS
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import OF_ITS_RECORDS, RUN_OPTIONS, SETTINGS, SIMPLER
from pypto_build.interop.binaries import Binaries, binaries_of
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding
from pypto_build.replay.child import Reply
from pypto_build.replay.faults import Death, RunFault, describe_death
from pypto_build.replay.listener import Listener, no_reply
from pypto_build.replay.request import Request
from pypto_build.replay.simpler_codes import RUNTIME_CODES
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.toolchain.elf import extract_text, read_elf
from pypto_build.toolchain.simpler_home import SimplerHome

# Translates simpler's failures and error codes to errors of a verdict, with a hint for the fix.

# Codes of a run that does not end. The last one also means that a kernel took longer than simpler waits.
_TIMEOUT = 100
_HANGS = (1, 2, 3, 8, _TIMEOUT)
_BY_TASK = "replay with RUNTIME=embedded, which names the task"
_SLOW = "; a kernel that is merely slow has more time with SIMPLER_SCHEDULER_TIMEOUT_MS=60000"
_CODE = re.compile(r"failed with code (-?\d+)")


def run_fault(kind: str, message: str, platform: str, device: int) -> RunFault:
    """Return the fault for a message of simpler's process; ``kind`` is the step in which the message came."""
    match kind:
        case "usage_error":
            return RunFault("usage_error", ErrorInfo(kind, message, hint="name another one with SIMPLER="))
        case "device":
            missing = re.search(r"\S+ (?:not found|does not exist)|No such file[^;]*", message)
            hint = (
                "build simpler's runtime for this platform"
                if missing
                else ("check that the device exists and is free; choose another with -d N")
            )
            target = f"device {device} of {platform}" if not PLATFORMS[platform].simulated else platform
            message = f"{target} cannot be used: {message.rstrip('.')}"
            return RunFault("runtime_error", ErrorInfo("device", message, hint=hint))
    match = _CODE.search(message)
    number = abs(int(match.group(1))) if match else 0  # simpler reports codes negated
    code = RUNTIME_CODES.get(number)
    if code is None:
        return RunFault("runtime_error", ErrorInfo("runtime_error", f"simpler: {message}"))
    text = f"simpler: {code.name} (code {number}): {code.message}"
    if number not in _HANGS:
        return RunFault(
            "runtime_error", ErrorInfo("runtime_error", text, hint=code.hint, detail=[message], code=number)
        )
    hint = _BY_TASK if code.about == "kernel" else code.hint
    hint += _SLOW if number == _TIMEOUT else ""
    return RunFault("hang", ErrorInfo("hang", text, hint=hint, detail=[message], code=number))


_REST_S, _POLL_S = 0.5, 0.05  # limit for reading the rest of its output
_CHILD = Path(__file__).with_name("simpler_child.py")
# The records that simpler's runtime can write, with the names of their configuration fields.
_RECORDS = {row.setting.name: row.fields for row in OF_ITS_RECORDS.values() if row.setting and row.fields}


@dataclass(frozen=True)
class SimplerEngine:
    """Executes rounds with the simpler in ``home``, on ``device`` of a hardware platform.

    With ``skip_compile`` the binaries beside the artifact's sources are used; they are never written.
    """

    home: SimplerHome
    device: int = 0
    skip_compile: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def open(self, request: Request, interface: Interface, binding: Binding, arena: Arena) -> SimplerRounds:
        """Start the process. Raises `ArtifactError` for binaries that are missing or do not fit."""
        refuse_ours(request)
        directory = request.binaries or request.build_dir
        binaries = binaries_of(interface, request.artifact_dir, directory, request.platform, self.skip_compile)

        def job(scratch: Path) -> dict[str, Any]:
            return {"device": self.device, **program_job(interface, binaries, scratch)}

        return SimplerRounds(self.home, self.environment, self.device, request, interface, binding, arena, _CHILD, job)


class SimplerRounds:
    """The process that executes rounds; a context manager, which kills the process on exit."""

    def __init__(
        self,
        home: SimplerHome,
        environment: Mapping[str, str],
        device: int,
        request: Request,
        interface: Interface,
        binding: Binding,
        arena: Arena,
        child: Path,
        job_of: Callable[[Path], dict[str, Any]],
    ) -> None:
        """Start `child` as a process. `job_of` returns the program that it loads, and may write files into the given
        scratch directory."""
        self._device, self._request, self._arena, self._binding = device, request, arena, binding
        self.round_s = 0.0
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._scratch = Path(tempfile.mkdtemp(prefix="pypto-simpler-", dir=shared))
        self._files = [self._scratch / f"{index}.tensor" for index in range(len(binding.tensors))]
        output = request.results_dir / "dfx_outputs"
        if any(request.options.get(name) for name in _RECORDS):
            output.mkdir(parents=True, exist_ok=True)
        job = self._scratch / "job.json"
        job.write_text(json.dumps({**self._job(interface, output), **job_of(self._scratch)}), encoding="utf-8")
        for file, tensor in zip(self._files, binding.tensors, strict=True):
            file.write_bytes(bytes(tensor.nbytes))
        command_read, self._commands = os.pipe()
        self._results, result_write = os.pipe()
        sys.stdout.flush()
        self._process = subprocess.Popen(
            [home.python, str(child), str(job), str(command_read), str(result_write)],
            env=home.variables(environment),
            pass_fds=(command_read, result_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        os.close(command_read)
        os.close(result_write)
        assert self._process.stdout is not None and self._process.stderr is not None
        self._said = Listener(self._results, self._process.stderr.fileno(), self._process.stdout.fileno())

    def __enter__(self) -> SimplerRounds:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        assert self._process.stdout is not None and self._process.stderr is not None
        self._process.stdout.close()
        self._process.stderr.close()
        for descriptor in (self._commands, self._results):
            os.close(descriptor)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def start_round(self) -> None:
        """Write the tensors and tell the process to run."""
        for index, file in enumerate(self._files):
            with file.open("r+b") as target:
                target.write(self._arena.tensor(index))
        self._deadline = time.monotonic() + self._request.timeout_s
        with suppress(BrokenPipeError):  # the process has ended, which finish_round() reports
            os.write(self._commands, b"R")

    def finish_round(self) -> Reply:
        """Return the reply of the round, after reading the tensors back. Raises `RunFault`."""
        while not self._said.has_reply:
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise self._hang()
            if not self._said.collect(remaining) and not self._said.has_reply:
                raise self._death()
        self.round_s = time.monotonic() - self._deadline + self._request.timeout_s
        self._said.collect(0)  # output from before
        try:
            reply: dict[str, Any] = json.loads(self._said.reply())
            fault, run_s = reply.get("fault"), float(reply.get("run_s", 0))
        except (ValueError, AttributeError, TypeError, RecursionError):
            raise no_reply() from None
        if fault is not None:
            raise run_fault(str(reply.get("kind")), str(fault), self._request.platform, self._device)
        for index, file in enumerate(self._files):
            self._arena.tensor(index)[:] = file.read_bytes()
        return Reply(tasks=_count_tasks(self._request.results_dir / "dfx_outputs"), run_s=run_s)

    def _job(self, interface: Interface, output: Path) -> dict[str, Any]:
        """Return the part of the process's job that is the same for every kind of program."""
        options = dict(self._request.options)
        config: list[tuple[tuple[str, ...], Any]] = [
            (fields, options[name]) for name, fields in _RECORDS.items() if options.get(name)
        ]
        records = bool(config)
        for name, value in (("aicpu_thread_num", interface.aicpu_thread_num), ("block_dim", interface.block_dim)):
            config += [((name,), value)] if value else []
        return {
            "platform": self._request.platform,
            "runtime": interface.runtime,
            "log_level": options.get("log_level", SETTINGS["log_level"].default),
            "config": config,
            "output_prefix": str(output) if records else "",
            "tensors": [
                {
                    "name": tensor.name,
                    "file": str(file),
                    "dtype": SIMPLER_CARRIERS.get(tensor.dtype, tensor.dtype),
                    "shape": tensor.shape,
                    "nbytes": tensor.nbytes,
                    "direction": tensor.direction,
                }
                for file, tensor in zip(self._files, self._binding.tensors, strict=True)
            ],
            "scalars": [scalar.bits for scalar in self._binding.scalars],
        }

    def _death(self) -> RunFault:
        self._process.wait()
        status = self._process.returncode
        waited = -status if status < 0 else status << 8
        if status > 0:
            last = self._said.tail.decode(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
            message = f"simpler's process ended with exit status {status}: {last[0]}"
            return RunFault("runtime_error", ErrorInfo("exit", message))
        error = describe_death(Death(waited, 0, 1 << 62, self._said.tail), None)
        error.hint += "; replay with RUNTIME=embedded, which names the task"
        return RunFault("runtime_error", error)

    def _hang(self) -> RunFault:
        self._kill()
        message = f"the run had not finished at the time limit of {self._request.timeout_s:g} s"
        hint = "replay with RUNTIME=embedded, which names the task, or raise the limit with TIMEOUT="
        return RunFault("hang", ErrorInfo("hang", message, hint=hint))

    def _kill(self) -> None:
        """End the process and everything it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        give_up = time.monotonic() + _REST_S  # something may hold the pipes open
        while time.monotonic() < give_up and self._said.collect(_POLL_S):
            pass


def refuse_ours(request: Request) -> None:
    """Raise `ArtifactError` for options that only the embedded runtime has."""
    for option in RUN_OPTIONS.values():
        if option.setting and option.setting.name in request.options and SIMPLER not in option.runtimes:
            way_out = "leave it out, or replay with RUNTIME=embedded"
            raise ArtifactError(option.flag, "is for the embedded runtime", way_out)


def program_job(interface: Interface, binaries: Binaries, scratch: Path) -> dict[str, Any]:
    """Return the job entry of one chip program; extracted machine code is written to `scratch`."""
    entry = interface.orchestration
    return {
        "orchestration": {
            "file": str(binaries.orchestration),
            "function_name": entry.function_name,
            "config_name": entry.config_name,
        },
        "kernels": [
            {
                "func_id": kernel.func_id,
                "file": _code(binaries.kernels[kernel.func_id], scratch),
                "signature": kernel.signature,
            }
            for kernel in interface.kernels
        ],
    }


def _code(path: Path, scratch: Path) -> str:
    """Return the file that a core loads: the library itself, or machine code that is extracted from an object file."""
    if path.suffix != ".o":
        return str(path)
    code = scratch / f"{hashlib.sha256(str(path).encode()).hexdigest()[:16]}.bin"
    code.write_bytes(extract_text(read_elf(path)))
    return str(code)


def _count_tasks(output: Path) -> int:
    """Return the number of tasks in the graph that the run wrote; 0 if it wrote none."""
    try:
        return len(json.loads((output / "deps.json").read_bytes())["tasks"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
