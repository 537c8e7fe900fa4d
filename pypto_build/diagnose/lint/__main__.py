"""`scons lint`: manifest, wrappers, orchestration and modules against each other, without a run.

python -m pypto_build.diagnose.lint ARTIFACT_DIR [--platform P] [--json FILE] [--sarif FILE]
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from pypto_build.artifact import (
    ArgDirection,
    ArtifactError,
    Kernel,
    detect_vintage,
    find_children,
    is_distributed,
    lacks_kernels,
    load_artifacts,
)
from pypto_build.artifact.cpp.orchestration import Scope, Submit
from pypto_build.artifact.cpp.wrapper import CppFunction
from pypto_build.artifact.derive import derive
from pypto_build.artifact.distributed import load_distributed
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.console import add_options_of, command, progress, tool_parser
from pypto_build.diagnose.findings import Finding, Level, below, deliver
from pypto_build.diagnose.lint import arguments, spliced
from pypto_build.diagnose.lint.subject import Subject, Wrapper
from pypto_build.facts.dtypes import ITEMSIZE

# Rules on single submissions: order of arguments, limits of the vintage and of the platform, launch settings.

#: From which vintage on a task may have how many tensors and scalars (simpler, arg_direction.h).
_LIMITS = (("2026-08", 32, 16), ("2026-06", 32, 16), ("2026-05", 16, 32), ("2026-04", 16, 32))
_MAX_FUNC_ID = 1023
_HEAP_BYTES = 256 << 20
#: Clusters (one cube core, two vector cores) of the chips; simpler's simulator has fewer of either.
_CLUSTERS = {"a2a3": 24, "a5": 36}
_SIMULATED_CLUSTERS = 8


def check_submits(subject: Subject) -> Iterator[Finding]:
    """Report submissions that the runtime would refuse."""
    for submit in subject.orchestration.submits:
        yield from _order(subject, submit)
        yield from _counts(subject, submit)
        yield from _launch(subject, submit)
        yield from _lanes(subject, submit)


def _order(subject: Subject, submit: Submit) -> Iterator[Finding]:
    for added in submit.late:
        yield subject.in_orchestration(
            added.line,
            "tensor-after-scalar",
            f"{added.method}({added.expression}) after a scalar: the submission fails with INVALID_ARGS (5)",
            "add all tensors before the first scalar",
        )
    for line in submit.dependency_lines[1:]:
        yield subject.in_orchestration(
            line,
            "dependencies-twice",
            "set_dependencies is called twice for one task: the submission fails with INVALID_ARGS (5)",
            "collect the task ids in one array",
        )


def _counts(subject: Subject, submit: Submit) -> Iterator[Finding]:
    limits = next(((t, s) for name, t, s in _LIMITS if subject.vintage.name >= name), None)
    if limits is None:
        return
    for count, limit, what in (
        (len(submit.tensors), limits[0], "tensors"),
        (len(submit.scalars), limits[1], "scalars"),
    ):
        if count > limit:
            yield subject.in_orchestration(
                submit.line,
                "argument-limit",
                f"a task with {count} {what}; a task of vintage {subject.vintage.name} has at most {limit}",
                "split the kernel, or pass views of one buffer" if what == "tensors" else "pack scalars into a tensor",
            )


def _launch(subject: Subject, submit: Submit) -> Iterator[Finding]:
    if submit.block_num is not None and submit.block_num < 1:
        yield subject.in_orchestration(
            submit.block_line, "block-number", f"a task of {submit.block_num} blocks", "launch at least one block"
        )
    chip = subject.platform.removesuffix("sim")
    if not submit.sync_line or submit.block_num is None or chip not in _CLUSTERS:
        return
    kernels = [subject.kernels[i] for i in submit.func_ids if i in subject.kernels]
    each = 2 if kernels and all(kernel.core_type == "aiv" for kernel in kernels) else 1
    places: tuple[tuple[str, int, Level], ...] = (
        (chip, each * _CLUSTERS[chip], "error"),
        ("simpler's simulator", each * _SIMULATED_CLUSTERS, "note"),
    )
    for name, cores, level in places:
        if submit.block_num > cores:
            yield subject.in_orchestration(
                submit.sync_line,
                "sync-start-limit",
                f"{submit.block_num} blocks must start together, but {name} has only {cores} such cores",
                f"use at most {cores} blocks, or remove require_sync_start (REQUIRE_SYNC_START_INVALID, 7)",
                level,
            )
            return


def _lanes(subject: Subject, submit: Submit) -> Iterator[Finding]:
    for func_id in submit.func_ids:
        kernel = subject.kernels.get(func_id)
        if kernel is not None and submit.core and submit.core != kernel.core_type:
            yield subject.in_orchestration(
                submit.line,
                "core-type",
                (
                    f"kernel '{kernel.name}' is submitted to the core {submit.core}, but its core_type "
                    f"is {kernel.core_type}"
                ),
                f"submit it with rt_submit_{kernel.core_type}_task, or correct core_type in the manifest",
            )


def check_func_ids(subject: Subject) -> Iterator[Finding]:
    """The runtime's table of kernels has an end."""
    for kernel in subject.artifact.kernels:
        if kernel.func_id > _MAX_FUNC_ID:
            yield subject.in_manifest(
                f'"func_id": {kernel.func_id}',
                "func-id-limit",
                (
                    f"kernel '{kernel.name}' has func_id {kernel.func_id}, but the device runtime "
                    f"accepts only 0 to {_MAX_FUNC_ID}"
                ),
                "number the kernels from 0",
            )


def check_never_submitted(subject: Subject) -> Iterator[Finding]:
    """A kernel that no task runs."""
    submitted = {func_id for submit in subject.orchestration.submits for func_id in submit.func_ids}
    for kernel in subject.artifact.kernels:
        if kernel.func_id not in submitted and kernel.func_id not in subject.derived.signatures:
            yield subject.in_manifest(
                f'"func_id": {kernel.func_id}',
                "never-submitted",
                f"no submitted task runs kernel {kernel.func_id} '{kernel.name}'",
                "submit the kernel, or remove it from the manifest",
            )


def check_heap(subject: Subject) -> Iterator[Finding]:
    """One tensor that is larger than the ring's whole heap can never be allocated."""
    for name, created in subject.orchestration.created.items():
        size = math.prod(created.shape) * ITEMSIZE.get(created.dtype or "float32", 4)
        if created.shape and -1 not in created.shape and size > _HEAP_BYTES:
            yield subject.in_orchestration(
                created.line,
                "heap-limit",
                f"'{name}' needs {size >> 20} MiB, but the heap of a ring has only {_HEAP_BYTES >> 20} MiB",
                f"raise PTO2_RING_HEAP to {1 << (size - 1).bit_length()}, or split the tensor (HEAP_RING_DEADLOCK, 2)",
            )


# Rules on what a kernel does: its output drained, its flags paired, its intrinsics those that a task may use.

_STORE = re.compile(r"\b(?:TSTORE\w*|MSCATTER|TSCATTER_GM)\s*(?:<[^;]{0,400}?>)?\s*\(")
_DRAIN = re.compile(
    r"\bpipe_barrier\s*\(\s*PIPE_ALL\s*\)|\bpipe_sync\s*\(|\bdcci\s*\(|"
    r"\bwait_flag\s*\(\s*PIPE_(?:MTE3|FIX)\s*,\s*PIPE_S\s*,"
)
_SYNCHRONIZED = re.compile(r"\b(?:set_flag|wait_flag|pipe_barrier|pipe_sync|ptoas_auto_sync_tail)\b")
_FLAG = re.compile(r"\b(set|wait)_flag\s*\(\s*(PIPE_\w+)\s*,\s*(PIPE_\w+)\s*,\s*(EVENT_ID\d)\s*\)")
_NO_ARGUMENT = re.compile(r"\b(get_block_idx|get_block_num|get_subblockid|get_sub_block_id)\s*\(\s*\)")
_SECTION = re.compile(r"#\s*if(?:def\s+|\s+defined\s*\(?\s*)(__DAV_(?:VEC|CUBE)__)")
_CORE_MACRO = {"aiv": "__DAV_VEC__", "aic": "__DAV_CUBE__"}


def check_drain(subject: Subject) -> Iterator[Finding]:
    """After the last store to global memory a kernel waits for its output pipe; else a consumer may read old bytes."""
    for kernel, wrapper in _kernels(subject):
        for function in _reached(wrapper):
            if not _SYNCHRONIZED.search(wrapper.code.code, function.start, function.end):
                yield from _unsynchronized(subject, kernel, wrapper, function)
                continue
            last = max(
                (m.start() for m in _STORE.finditer(wrapper.code.code, function.start, function.end)), default=-1
            )
            if last < 0 or _drained(wrapper, function, last):
                continue
            line = wrapper.code.line(last)
            yield subject.in_kernel(
                kernel,
                line,
                "no-drain",
                f"kernel '{kernel.name}' ends without waiting for this store, so the next task may read old bytes",
                f"end '{function.name}' with pipe_barrier(PIPE_ALL), or pipe_sync() of pipe_sync.h",
            )


def _unsynchronized(subject: Subject, kernel: Kernel, wrapper: Wrapper, function: CppFunction) -> Iterator[Finding]:
    """A body without a single flag or barrier is made for simulated platforms, where instructions run in order."""
    store = _STORE.search(wrapper.code.code, function.start, function.end)
    if store is not None and not subject.platform.endswith("sim"):
        yield subject.in_kernel(
            kernel,
            wrapper.code.line(store.start()),
            "no-synchronization",
            f"'{function.name}' has neither a flag nor a barrier: on {subject.platform} its pipes run unordered",
            "assemble the kernel's module with ptoas, which inserts flags",
        )


def _drained(wrapper: Wrapper, function: CppFunction, last: int) -> bool:
    """Return whether a drain follows the store.

    It may be in the same function, in a helper called there, or in the entry after the call.
    """
    code = wrapper.code.code
    tail = code[last : function.end]
    if wrapper.entry is not None and wrapper.called is not None:
        called = code.find(wrapper.called.name, wrapper.entry[0])
        tail += code[called : wrapper.entry[1]] if called >= 0 else ""
    if _DRAIN.search(tail):
        return True
    helpers = [f for f in wrapper.functions if f is not function and re.search(rf"\b{f.name}\s*\(", tail)]
    return any(_DRAIN.search(code, helper.start, helper.end) for helper in helpers)


def check_flags(subject: Subject) -> Iterator[Finding]:
    """Report a `set_flag` without a `wait_flag` and the reverse: a wait without its set blocks the pipe for ever."""
    for kernel, wrapper in _kernels(subject):
        for function in _reached(wrapper):
            counts: dict[tuple[str, str, str], Counter[str]] = {}
            lines: dict[tuple[str, str, str], int] = {}
            for match in _FLAG.finditer(wrapper.code.code, function.start, function.end):
                key = (match[2], match[3], match[4])
                counts.setdefault(key, Counter())[match[1]] += 1
                lines[key] = wrapper.code.line(match.start())
            for key, count in counts.items():
                if not count["set"] or not count["wait"]:
                    present, missing = ("set", "wait") if count["set"] else ("wait", "set")
                    effect = "nothing waits for it" if missing == "wait" else "the pipe waits for ever"
                    yield subject.in_kernel(
                        kernel,
                        lines[key],
                        "unpaired-flag",
                        f"{present}_flag({', '.join(key)}) has no matching {missing}_flag: {effect}",
                        f"add {missing}_flag({', '.join(key)}), or remove this call",
                    )


def check_intrinsics(subject: Subject) -> Iterator[Finding]:
    """Block numbers come from `args`; the intrinsics without arguments read registers that the scheduler never set."""
    for kernel, wrapper in _kernels(subject):
        if re.search(r"#\s*define\s+(get_\w+|PYPTO_FIXED_SUBBLOCK_ID)", wrapper.code.code):
            continue
        for match in _NO_ARGUMENT.finditer(wrapper.code.code):
            yield subject.in_kernel(
                kernel,
                wrapper.code.line(match.start()),
                "intrinsic-without-args",
                f"{match[1]}() reads a register that is not set when tasks run",
                f"call {match[1]}(args) of intrinsic.h in kernel_entry and pass the value on",
            )


def check_core_section(subject: Subject) -> Iterator[Finding]:
    """Code for one kind of core, compiled for the other, is compiled away."""
    for kernel, wrapper in _kernels(subject):
        if wrapper.called is None:
            continue
        code, function = wrapper.code.code, wrapper.called
        sections = [(m[1], m.start()) for m in _SECTION.finditer(code, function.start, function.end)]
        if sections and all(macro != _CORE_MACRO[kernel.core_type] for macro, _ in sections):
            macro, at = sections[0]
            yield subject.in_kernel(
                kernel,
                wrapper.code.line(at),
                "core-section",
                (
                    f"'{function.name}' is written for {macro}, but kernel '{kernel.name}' is compiled "
                    f"for {kernel.core_type}, where the function does nothing"
                ),
                "correct core_type in the manifest and the directory, or compile again",
            )


def check_entry(subject: Subject) -> Iterator[Finding]:
    """A kernel's library is entered at `kernel_entry`, which calls the function with all it takes."""
    for kernel, wrapper in _kernels(subject):
        if wrapper.entry is None:
            yield subject.in_kernel(
                kernel, 0, "no-entry", f"kernel '{kernel.name}' defines no kernel_entry", "compile the kernel again"
            )
        elif wrapper.called and len(wrapper.called.parameters) != len(wrapper.call_arguments):
            yield subject.in_kernel(
                kernel,
                wrapper.call_line,
                "call-count",
                (
                    f"'{wrapper.called.name}' takes {len(wrapper.called.parameters)} arguments, but "
                    f"{len(wrapper.call_arguments)} "
                    "are passed"
                ),
                "pass the arguments that the function takes, in its order",
            )


def _kernels(subject: Subject) -> Iterator[tuple[Kernel, Wrapper]]:
    for kernel in subject.artifact.kernels:
        if not kernel.external:
            yield kernel, subject.wrappers[kernel.func_id]


def _reached(wrapper: Wrapper) -> list[CppFunction]:
    """The functions that do this kernel's work; the others of its group lie in the same file and are not called."""
    return [wrapper.called] if wrapper.called is not None else []


_MAX_DEPTH = 64


def check_scopes(subject: Subject) -> Iterator[Finding]:
    """An automatic scope inside a manual one is refused."""
    opened: list[Scope] = []
    for scope in subject.orchestration.scopes:
        opened = [outer for outer in opened if outer.end > scope.start]
        outer = next((outer for outer in opened if outer.manual), None)
        if outer and not scope.manual:
            yield subject.in_orchestration(
                scope.line,
                "scope-nesting",
                (
                    f"this automatic scope is inside the manual scope of line {outer.line}: the run "
                    "fails with INVALID_ARGS (5)"
                ),
                "write PTO2_SCOPE(PTO2ScopeMode::MANUAL) here too, or remove the inner scope",
            )
        opened.append(scope)
        if len(opened) == _MAX_DEPTH + 1:
            yield subject.in_orchestration(
                scope.line,
                "scope-depth",
                f"scopes are nested deeper than {_MAX_DEPTH} levels",
                "close outer scopes earlier",
            )


# Rules on the orchestration's own arguments: manifest, compiled_meta.json and code have to agree.
# Rules on scopes: what the runtime accepts inside each other, and what manual scopes leave to the program.


def check_entry_arguments(subject: Subject) -> Iterator[Finding]:
    """As many tensors and scalars as the program has parameters, and as the manifest's signature says."""
    meta, orchestration = subject.artifact.meta, subject.orchestration
    signature = subject.artifact.orchestration.signature
    if meta is not None:
        limits = {"tensor": len(meta.tensors), "scalar": len(meta.scalars)}
        for kind, used in orchestration.entry_args.items():
            for index, line in used.items():
                if index >= limits[kind]:
                    yield subject.in_orchestration(
                        line,
                        "entry-arguments",
                        (
                            f"orch_args.{kind}({index}): the index is too large, because "
                            f"compiled_meta.json has {limits[kind]} {kind} parameters"
                        ),
                        "correct the index",
                    )
        if orchestration.expected and orchestration.expected[0] != len(meta.params):
            count, line = orchestration.expected
            yield subject.in_orchestration(
                line,
                "expected-arg-count",
                f"expected_arg_count is {count}, but the program has {len(meta.params)} parameters",
                f"set it to {len(meta.params)}: a run with fewer arguments is refused",
            )
        if signature is not None and len(signature) != len(meta.tensors):
            yield subject.in_manifest(
                "ORCHESTRATION",
                "entry-signature",
                (
                    f"ORCHESTRATION.signature has {len(signature)} entries, but the program has {len(meta.tensors)} "
                    "tensor parameters"
                ),
                "give one entry for each tensor parameter, in order",
            )


def check_entry_directions(subject: Subject) -> Iterator[Finding]:
    """Report tensors that tasks write but the orchestration declares IN: the written data would not be returned."""
    signature = subject.artifact.orchestration.signature
    if signature is None:
        return
    for argument in subject.derived.tensors:
        if argument.index >= len(signature) or signature[argument.index] is not ArgDirection.IN:
            continue
        if argument.direction is ArgDirection.IN:
            continue
        added = _first_write(subject, argument.index)
        if added is None:  # it may only share a variable with what is written
            continue
        where = f"{added[0]} at {subject.orchestration_path}:{added[1]}"
        yield subject.in_manifest(
            '"signature"',
            "written-input",
            f"argument {argument.index} '{argument.name}' of the orchestration is declared IN, but {where} writes it",
            "declare the parameter Out or InOut in the program; otherwise the written data is not returned",
            "warning",
        )


def _first_write(subject: Subject, index: int) -> tuple[str, int] | None:
    orchestration = subject.orchestration
    for submit in orchestration.submits:
        for added in submit.tensors:
            written = added.method in ("add_output", "add_inout")
            if written and orchestration.externals.get(orchestration.base(added.expression)) == index:
                return f"{added.method}({added.expression})", added.line
    return None


def check_meta(subject: Subject) -> Iterator[Finding]:
    """Report parameters whose direction in the manifest's signature differs from `compiled_meta.json`.

    INOUT in the manifest is accepted for any parameter, because the tasks may also read or write it.
    """
    meta, signature = subject.artifact.meta, subject.artifact.orchestration.signature
    if meta is None or signature is None or len(signature) != len(meta.tensors):
        return
    for index, (declared, parameter) in enumerate(zip(signature, meta.tensors, strict=True)):
        if declared is not parameter.direction and declared is not ArgDirection.INOUT:
            yield subject.in_manifest(
                '"signature"',
                "entry-signature",
                (
                    f"parameter '{parameter.name}' is {parameter.direction.name} in compiled_meta.json, "
                    f"but entry {index} of ORCHESTRATION.signature is {declared.name}"
                ),
                "use the direction that the program declares in both",
            )


RULES: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    *arguments.ALWAYS,
    arguments.check_start_offset,
    check_entry_arguments,
    check_entry_directions,
    check_meta,
    check_submits,
    check_func_ids,
    check_never_submitted,
    check_heap,
    check_scopes,
    check_drain,
    check_flags,
    check_intrinsics,
    check_core_section,
    check_entry,
    spliced.check_modules,
)

#: A chip program takes contexts of domains besides the parameters in its metadata; its driver says how many.
_OF_ENTRIES = ("lint/expected-arg-count", "lint/entry-arguments")

_PLACE = re.compile(r"(?P<path>.*?)(?::(?P<line>\d{1,9}))?\Z")


def lint(artifact_dir: Path, platform: str, build_dir: Path | None = None) -> list[Finding]:
    """Return all findings on an artifact and its sub-builds. An artifact that cannot be read gives one finding.

    For kernels that were spliced in ``build_dir``, the spliced bodies are checked instead of the artifact's. Raises
    `ArtifactError` for a distributed artifact that cannot be read.
    """
    if is_distributed(artifact_dir):
        return _lint_ranks(artifact_dir, platform)
    if uncompiled := [part for part in (artifact_dir, *find_children(artifact_dir)) if lacks_kernels(part)]:
        return [findings for part in uncompiled for findings in spliced.check_uncompiled(part, artifact_dir, platform)]
    try:
        subjects = [
            Subject(
                artifact,
                detect_vintage(read_source(artifact.orchestration.source), artifact.orchestration.source),
                derive(artifact),
                platform,
            )
            for artifact in load_artifacts(artifact_dir)
        ]
    except ArtifactError as error:
        return [_unreadable(error, artifact_dir)]
    work = [(subject, rule) for subject in subjects for rule in RULES]
    findings = []
    for subject, rule in progress(work, "lint", len(work)):
        findings += list(rule(subject))
    named = {finding.path for finding in findings}
    for subject in subjects:  # what is wrong by itself says more than that it was edited
        findings += [finding for finding in spliced.check_bodies(subject, build_dir) if finding.path not in named]
    return findings


def _lint_ranks(root: Path, platform: str) -> list[Finding]:
    """Return all findings on a distributed artifact. Raises `ArtifactError` if it cannot be read."""
    from pypto_build.diagnose.lint.driver import lint_driver

    artifact = load_distributed(root)
    findings = [
        below(finding, PurePosixPath("next_levels", name))
        for name, chip in artifact.chips.items()
        for finding in lint(chip, platform)
        if finding.rule not in _OF_ENTRIES
    ]
    return [*findings, *lint_driver(artifact)]


def _unreadable(error: ArtifactError, root: Path) -> Finding:
    """Turn the error of an unreadable artifact into a finding at the position that the error names."""
    match = _PLACE.match(error.path)
    path = Path(match["path"]) if match else Path(error.path)
    base = root.resolve()
    name = path.resolve().relative_to(base).as_posix() if path.resolve().is_relative_to(base) else str(path)
    line = int(match["line"]) if match and match["line"] else 0
    return Finding("lint/artifact", error.message.replace(f"{base}/", ""), name, line, error.hint)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("lint", __doc__)
    options.add_argument("artifact", type=Path, metavar="ARTIFACT_DIR")
    options.add_argument("--build-dir", type=Path, metavar="OUT", help="also leave the findings there, for the report")
    options.add_argument("--platform", default="a2a3sim", help="whose limits count")
    add_options_of(options, "lint")
    return options


@command("lint", parser)
def main(options: argparse.Namespace) -> int:
    """Print the findings. Returns 0 for none, 1 for findings, 2 if there is no artifact."""
    if not options.artifact.is_dir():
        raise ArtifactError(options.artifact, "no such directory", "name the directory of an artifact")
    return deliver(
        "lint",
        options.artifact,
        lint(options.artifact, options.platform, options.build_dir),
        options,
        options.build_dir,
    )


if __name__ == "__main__":
    sys.exit(main())
