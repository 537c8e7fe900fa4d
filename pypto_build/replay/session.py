"""One replay from beginning to end: read, bind, run, check, record. The public entry is `replay()`."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pypto_build import terminal
from pypto_build.artifact.below import directory_below
from pypto_build.artifact.errors import ArtifactError, require_torch
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.interface import Interface, read_interface
from pypto_build.artifact.pt import write_pt
from pypto_build.artifact.snapshot import Snapshot, is_reference, snapshot
from pypto_build.facts.broken_rules import counted
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import ALL_OUTPUTS, EMBEDDED, FAST, RULES_ERROR, RULES_OFF, TORCH
from pypto_build.replay.arena import Arena, Overrun
from pypto_build.replay.binding import Binding, bind, lent, with_goldens
from pypto_build.replay.child import Reply, tensor_buffers
from pypto_build.replay.embedded import job_of, open_embedded, require_files
from pypto_build.replay.faults import RunFault
from pypto_build.replay.loading import load_embedded
from pypto_build.replay.quick import judged_outputs, quick_check
from pypto_build.replay.report import Log, last_line, mismatch_block, output_hints, output_line, rounds_line
from pypto_build.replay.request import Request, Rounds
from pypto_build.replay.results import hide
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.tolerances import compared_outputs, tolerances
from pypto_build.replay.verdict import ErrorInfo, Verdict, rule_lines, write_verdict
from pypto_build.replay.worker import Worker, bounds_of
from pypto_build.trace import span

if TYPE_CHECKING:
    from pypto_build.device.run import RunRules
    from pypto_build.replay.comparators import Comparator
    from pypto_build.replay.prestart import PrestartedChild
    from pypto_build.replay.timing import Timelines

import re

from pypto_build.artifact.files import read_record, read_text
from pypto_build.artifact.interface import OrchestrationInterface
from pypto_build.facts.broken_rules import FILE_NAME, OPEN_NAME, BrokenRule
from pypto_build.facts.faults import FaultKind

# Locates faults of the orchestration's own arguments: finds the wrong line in its text where possible.


def at_entry(error: ErrorInfo, artifact: Path, orchestration: OrchestrationInterface) -> str:
    """Return the message of a run's fault, prefixed with place and function if it is about the entry's arguments."""
    message, fault = error.message, error.fault
    if fault is None or error.line:
        return message
    if fault.kind == FaultKind.ENTRY_ARGUMENT:
        access = rf"\.{re.escape(str(fault.fields.get('name')))}\(\s*{fault.fields.get('index')}\s*\)"
        pattern, function = access, orchestration.function_name
    elif fault.kind == FaultKind.EXPECTED_ARGUMENTS:
        pattern = rf"expected_arg_count\s*=\s*{fault.fields.get('expected')}\b"
        function = orchestration.config_name
    else:
        return message
    try:
        text = read_text(artifact / orchestration.source, errors="replace")
    except OSError:
        text = ""
    match = re.search(pattern, text)
    line = f":{text.count(chr(10), 0, match.start()) + 1}" if match else ""
    return f"{orchestration.source}{line}: {function}: {message}"


# Reads the device rules that an artifact's kernels break, as the build recorded them in OUT.


def read_broken_rules(build_dir: Path) -> list[BrokenRule]:
    """Return the recorded rules; none if the build does not check kernels. Raises a usage error for an invalid file."""
    path = build_dir / FILE_NAME
    if not path.exists():
        return []
    return read_record(path, list[BrokenRule], "are not broken rules", "remove it, and replay again")


def _open_kernels(build_dir: Path, interface: Interface) -> dict[int, str]:
    """Return the sources of kernels with rules that only a run decides, by `func_id`; all if no build noted them."""
    path = build_dir / OPEN_NAME
    names = (
        read_record(path, list[str], "is no list of kernels", "remove it, and replay again") if path.exists() else None
    )
    return {
        one.func_id: one.source for one in interface.kernels if names is None or os.path.normpath(one.source) in names
    }


def _remove_record(path: Path) -> None:
    """Remove a record, and its directory unless it has other files."""
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        path.parent.rmdir()


# The runtimes of this module: the compiled kernels, or PyTorch made from their .pto modules.
_RUNTIMES = (EMBEDDED, TORCH)
_SILENT = 60
#: Errors of a file system that is read-only or full.
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR)


def _print(line: str) -> None:
    """Print with a flush, so that lines of kernels appear at the right position."""
    try:
        terminal.say(line)
    except BrokenPipeError:  # the reader has closed its end; the verdict is still written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def replay(
    request: Request, write: Callable[[str], None] | None = _print, prestarted: PrestartedChild | None = None
) -> Verdict:
    """Run an artifact in its own process, compare its outputs with the golden, and write verdict.json.

    Every fault of the input, the data or the kernels is reported in the verdict; none raises an exception. `write`
    receives the log, line by line; None runs silently. A `prestarted` child, started for this run, is used.
    """
    log = Log(write or (lambda _: None), request.verbose)
    verdict = Verdict("runtime_error", request.artifact_dir.name, request.platform, request.runtime)
    verdict.requested = request.requested or request.platform
    verdict.unproven = request.unproven
    try:
        request.verdict_path.unlink(missing_ok=True)
        _Session(request, verdict, log, prestarted).run()
    except ArtifactError as error:
        prefix = f"{error.path}: " if error.path else ""
        verdict.status = error.kind
        verdict.error = ErrorInfo(error.kind, f"{prefix}{error.message}", hint=error.hint)
    except RunFault as fault:
        verdict.status, verdict.error = fault.status, fault.error
    except OSError as error:
        _note_failure(verdict, error)
    _judge_rules(verdict, request)
    try:
        if request.verdict_path.is_dir() and not request.verdict_path.is_symlink():  # a kernel put it there
            shutil.rmtree(request.verdict_path)
        write_verdict(verdict, request.verdict_path)
    except OSError as error:
        if verdict.exit_status == 0 or verdict.error is None:
            _note_failure(verdict, error)
    log.line(last_line(verdict, log.elapsed_s))
    if verdict.error is not None:
        log.text_lines(*(f"    {line}" for line in (*verdict.error.detail, *verdict.error.events)))
    log.text_lines(*rule_lines(verdict))
    return verdict


def _judge_rules(verdict: Verdict, request: Request) -> None:
    """Add the device rules that the kernels' text breaks; broken rules fail the run if the request says so."""
    if request.rules == RULES_OFF:
        return
    verdict.rules = [*read_broken_rules(request.build_dir), *verdict.rules]
    if verdict.rules and request.rules == RULES_ERROR and verdict.status in ("pass", "unchecked"):
        verdict.status = "rule_broken"
        verdict.error = ErrorInfo("rule_broken", counted(verdict.rules), hint="RULES=show lets it be")


def _note_failure(verdict: Verdict, error: OSError) -> None:
    """Record a failed system call. If the file system is read-only or full, the run is not to blame."""
    prefix = f"{error.filename}: " if error.filename else ""
    verdict.status = "usage_error" if error.errno in _NOT_WRITABLE else "runtime_error"
    verdict.error = ErrorInfo(verdict.status, f"{prefix}{error.strerror or error}")


class _Session:
    """The stages of a replay, filling in the verdict as they go."""

    def __init__(self, request: Request, verdict: Verdict, log: Log, prestarted: PrestartedChild | None) -> None:
        self._request = request
        self._prestarted = prestarted
        self._verdict = verdict
        self._log = log
        self._overrun: Overrun | None = None
        self._rules: RunRules | None = None

    def run(self) -> None:
        request, verdict = self._request, self._verdict
        _remove_results(request.results_dir)
        if request.engine is None:
            require_platform(request)
        with span("read the interface"):
            interface = read_interface(request.build_dir / "interface.json")
        verdict.artifact, verdict.vintage = interface.artifact, interface.vintage
        verdict.rtol, verdict.atol = tolerances(request.artifact_dir, request.rtol, request.atol)
        self._log.detail(f"runtime_only: skipping compile, using {request.artifact_dir}")
        binding = self._bind(interface, snapshot(request.artifact_dir, self._data(), request.golden))
        verdict.seed = binding.seed
        comparators = _comparators(request.comparators, binding)
        if request.options.get("operands") and (kernels := _open_kernels(request.build_dir, interface)):
            from pypto_build.replay.run_rules import rules_of_run

            self._rules = rules_of_run(request, kernels)
        try:
            with span("open the run"):
                opened, arena = self._open(interface, binding)
            left = self._execute(opened, binding, arena, comparators)
        except RunFault as fault:
            fault.error.message = at_entry(fault.error, request.artifact_dir, interface.orchestration)
            if request.engine is None:
                self._advise(fault.error, interface, binding)
            raise
        finally:
            if self._rules is not None:
                from pypto_build.replay.run_rules import broken_in_run

                with span("check the device's rules on the run"):
                    verdict.rules = list(broken_in_run(request, self._rules))
            elif request.options.get("operands"):  # no kernel has rules that only a run decides
                _remove_record(request.results_dir / "dfx_outputs" / "executed.json")
            _name_kernels(interface, request.results_dir / "dfx_outputs")
        if verdict.error is not None and self._overrun is not None and request.engine is None:
            self._name_writer(verdict.error, self._overrun, interface, binding)
        self._finish(binding, left)

    def _open(self, interface: Interface, binding: Binding) -> tuple[contextlib.AbstractContextManager[Rounds], Arena]:
        """Return the object that executes the rounds, and the memory of the tensors."""
        request = self._request
        taken = self._prestarted.take(request, interface, binding) if self._prestarted else None
        if taken:
            return taken
        sizes = [tensor.nbytes for tensor in binding.tensors]
        if request.engine is not None:
            arena = Arena(sizes)
            return request.engine.open(request, interface, binding, arena), arena
        arena = Arena(sizes, lent=lent(binding))
        return open_embedded(request, interface, binding, arena), arena

    def _data(self) -> Path | None:
        """Return the snapshot's directory; None for that of the artifact. DATA=reference computes a snapshot first."""
        request = self._request
        if not is_reference(request.data):
            return request.data
        require_torch("DATA=reference")
        from pypto_build.replay.reference.launch import make_goldens

        with self._log.stage("compute golden"):
            require_files([request.embedded])
            return make_goldens(request)

    def _bind(self, interface: Interface, data: Snapshot) -> Binding:
        """Read inputs, then goldens; a fault of either is found before anything runs."""
        with self._log.stage("generate inputs"):
            request = self._request
            binding = bind(interface, data, request.artifact_dir, seed=request.seed, scalars=request.scalars)
            hit = binding.seed is None
            if hit:
                self._log.detail(f"  cache hit: {data.root / 'in'}")
            else:
                self._log.line(f"  no data/in: made up from seed {binding.seed}")
            for name in binding.unknown:
                self._log.line(f"  note: the snapshot's '{name}' is not a parameter of the artifact")
        if hit and data.outputs:
            with self._log.stage("compute golden"):
                compared = compared_outputs(self._request.artifact_dir)
                binding = with_goldens(binding, data, all_of_them=self._request.all_goldens, compared=compared)
                self._log.detail(f"  cache hit: {data.root / 'out'}")
                for tensor in binding.tensors:
                    if compared and tensor.is_output and tensor.golden is None:
                        self._log.line(
                            f"  note: '{tensor.name}' is not compared: golden.py's __outputs__ is without it"
                        )
        return binding

    def _execute(
        self,
        opened: contextlib.AbstractContextManager[Rounds],
        binding: Binding,
        arena: Arena,
        comparators: Mapping[str, Comparator],
    ) -> Arena:
        """Run all rounds until one fails, and return the tensors of the last one. A warm-up round is not counted.

        After the last round, no other process has access to the arena. Earlier rounds are checked on a copy of it.
        """
        request, verdict, left = self._request, self._verdict, arena
        if request.runtime == TORCH and request.numerics != FAST:
            from pypto_build.pto.torch.followed import line_on

            if line := line_on(request.numerics, request.artifact_dir):
                self._log.line(f"  note: {line}")
        times: list[float] = []
        warm_up = int(request.warms_up)
        timelines = _timelines(request)
        with opened as worker, self._log.stage("runtime"):
            for number in range(warm_up + request.rounds):
                for index, tensor in enumerate(binding.tensors):
                    arena.fill(index, tensor.initial)
                worker.start_round()
                if self._rules is not None and number == 0:
                    self._rules.prepare()
                if request.meanwhile and number == 0:
                    request.meanwhile()
                reply = worker.finish_round()
                verdict.longest_s = max(verdict.longest_s, worker.round_s)
                left = arena if number == warm_up + request.rounds - 1 else arena.copy()
                with span("compare"):
                    self._check(binding, left, comparators, reply)
                failed = verdict.error or any(output.status == "mismatch" for output in verdict.outputs)
                if number < warm_up and not failed:
                    continue
                times.append(reply.run_s)
                verdict.tasks, verdict.rounds = reply.tasks, len(times)
                verdict.run_s = sorted(times)[len(times) // 2]
                if timelines:
                    timelines.collect(number)
                if failed:
                    break
        if timelines:
            timelines.write()
        if len(times) > 1:
            self._log.line(rounds_line(times))
        return left

    def _check(self, binding: Binding, arena: Arena, comparators: Mapping[str, Comparator], reply: Reply) -> None:
        """Fill in the results of the round's outputs."""
        request, verdict = self._request, self._verdict
        if request.judge is not None:
            self._keep(binding, arena)
            verdict.outputs = judged_outputs(binding, request.judge())
            return
        if request.embedded.name and not (comparators or reply.input_writes or reply.unwritten):
            quick = quick_check(load_embedded(request.embedded), binding, arena, verdict.rtol, verdict.atol)
            if quick is not None:
                verdict.outputs = quick
                return
        from pypto_build.replay.check import Rules, check_memory, check_outputs, find_overrun

        self._overrun = find_overrun(binding, arena, reply.input_writes)
        verdict.error = check_memory(binding, arena, reply.input_writes)
        rules = Rules(verdict.rtol, verdict.atol, comparators)
        verdict.outputs = check_outputs(binding, arena, rules, reply.unwritten)

    def _name_writer(self, error: ErrorInfo, overrun: Overrun, interface: Interface, binding: Binding) -> None:
        """Run again to find the task and line that wrote next to a tensor, and add them to the error."""
        from pypto_build.replay.overruns import name_writer

        def run(arena: Arena, options: Mapping[str, SettingValue]) -> None:
            self._rerun(options, interface, binding, arena)

        name_writer(error, overrun, binding.tensors, run)

    def _advise(self, error: ErrorInfo, interface: Interface, binding: Binding) -> None:
        """For a ring that was too small, run again to find a sufficient size, and add it to the hint."""
        from pypto_build.replay.sizes import advise, is_about_a_size

        if not is_about_a_size(error.fault):
            return

        def run(options: Mapping[str, SettingValue]) -> None:
            arena = Arena([tensor.nbytes for tensor in binding.tensors])
            self._rerun({**options, "log_level": _SILENT}, interface, binding, arena)

        advise(error, run)

    def _rerun(self, options: Mapping[str, SettingValue], interface: Interface, binding: Binding, arena: Arena) -> None:
        """Run once more without leaving records. Raises `RunFault`."""
        again = replace(self._request, options=options, rounds=1)
        job, bounds = job_of(again, interface, binding), replace(bounds_of(again), keeps=False)
        with Worker(job, tensor_buffers(binding, arena), bounds) as worker:
            for index, tensor in enumerate(binding.tensors):
                arena.fill(index, tensor.initial)
            worker.start_round()
            worker.finish_round()

    def _finish(self, binding: Binding, arena: Arena) -> None:
        """Store the outputs, report them, and set the final status."""
        verdict, log = self._verdict, self._log
        with span("keep the outputs"):
            self._keep(binding, arena)
        checked = binding.checked or self._request.judge is not None
        with log.stage("validate") if checked else contextlib.nullcontext():
            for output in verdict.outputs:
                log.line(output_line(output))
                if output.status == "mismatch":
                    log.text_lines(*mismatch_block(output, verdict.rtol, verdict.atol))
                else:
                    log.text_lines(f"    {output.detail}" if output.detail else "", *output_hints(output))
        failed = [output for output in verdict.outputs if output.status == "mismatch"]
        if verdict.error is not None:
            verdict.status = "runtime_error"
        else:
            verdict.status = "mismatch" if failed else "pass" if checked else "unchecked"

    def _keep(self, binding: Binding, arena: Arena) -> None:
        """Write the outputs to `actual/`."""
        with directory_below(self._request.results_dir, "actual"):  # a kernel may have put a link there
            pass
        for index, tensor in enumerate(binding.tensors):
            if tensor.is_output:
                write_pt(
                    self._request.results_dir / "actual" / f"{tensor.name}.pt",
                    tensor.dtype,
                    tensor.shape,
                    arena.tensor(index),
                )


def _timelines(request: Request) -> Timelines | None:
    """Return the collector of the rounds' timelines; None if the run records none."""
    if not request.options.get("swimlane"):
        return None
    from pypto_build.replay.timing import Timelines

    return Timelines(request.results_dir / "dfx_outputs")


def _name_kernels(interface: Interface, records: Path) -> None:
    """Write name_map*.json beside the task graph and the timeline, where simpler's viewers look for kernel names."""
    _drop_link(records)
    if not any((records / name).exists() for name in ("deps.json", "chip_swimlane_records.json")):
        return
    names = {str(kernel.func_id): kernel.name for kernel in interface.kernels}
    entry = {"level": 2, "orchestrator_name": interface.artifact, "callable_id_to_name": names}
    write_bytes(records / "name_map.json", msgspec.json.encode(entry) + b"\n")


def require_platform(request: Request) -> None:
    """Raise a usage error for a platform that the embedded runtime does not support."""
    if request.runtime not in _RUNTIMES:
        raise ArtifactError(f"--runtime {request.runtime}", "unknown runtime", f"use one of {', '.join(_RUNTIMES)}")
    if request.platform not in PLATFORMS:
        raise ArtifactError(f"--platform {request.platform}", "unknown platform", f"use one of {', '.join(PLATFORMS)}")
    if not PLATFORMS[request.platform].simulated:
        raise ArtifactError(
            f"--platform {request.platform}",
            "is a device, but the embedded runtime only simulates",
            f"replay with {request.platform}sim",
        )


def _comparators(specs: Mapping[str, str | Comparator], binding: Binding) -> dict[str, Comparator]:
    """Return the comparators by output name; their module is only imported if there are any."""
    if not specs:
        return {}
    from pypto_build.replay.comparators import comparator_of

    outputs = [tensor.name for tensor in binding.tensors if tensor.is_output]
    for name, spec in specs.items():
        if name not in (*outputs, ALL_OUTPUTS):
            raise ArtifactError(
                f"--comparator {name}={spec}",
                f"'{name}' is not an output of the program",
                f"the outputs are {', '.join(outputs)}",
            )
    rules = dict.fromkeys(outputs, specs[ALL_OUTPUTS]) if ALL_OUTPUTS in specs else {}
    rules |= {name: spec for name, spec in specs.items() if name != ALL_OUTPUTS}
    return {name: comparator_of(spec, name) if isinstance(spec, str) else spec for name, spec in rules.items()}


def _remove_results(directory: Path) -> None:
    """Remove the results of an earlier run, which could be mistaken for this run's."""
    hide(directory)
    for name in ("actual", "dfx_outputs"):
        _drop_link(directory / name)
    for stale in (directory / "actual").glob("*.pt"):
        stale.unlink()
    if (directory / "dfx_outputs").exists():
        shutil.rmtree(directory / "dfx_outputs")


def _drop_link(path: Path) -> None:
    """Remove a link that a kernel put in place of a results directory."""
    if path.is_symlink():
        path.unlink()
