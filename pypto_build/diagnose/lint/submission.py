"""Rules on single submissions: order of arguments, limits of the vintage and of the platform, launch settings."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.lint.orchestration import Submit
from pypto_build.diagnose.lint.subject import Subject
from pypto_build.facts.dtypes import ITEMSIZE

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
                f"{submit.block_num} blocks have to start together; {name} has {cores} such cores",
                f"use at most {cores} blocks, or leave require_sync_start out (REQUIRE_SYNC_START_INVALID, 7)",
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
                f"kernel '{kernel.name}' is submitted to {submit.core}, its core_type is {kernel.core_type}",
                f"submit it with rt_submit_{kernel.core_type}_task, or correct core_type in the manifest",
            )


def check_func_ids(subject: Subject) -> Iterator[Finding]:
    """The runtime's table of kernels has an end."""
    for kernel in subject.artifact.kernels:
        if kernel.func_id > _MAX_FUNC_ID:
            yield subject.in_manifest(
                f'"func_id": {kernel.func_id}',
                "func-id-limit",
                f"kernel '{kernel.name}' has func_id {kernel.func_id}; the device's runtime takes 0 to {_MAX_FUNC_ID}",
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
                f"no task runs kernel {kernel.func_id} '{kernel.name}'",
                "submit it, or take it out of the manifest",
            )


def check_heap(subject: Subject) -> Iterator[Finding]:
    """One tensor that is larger than the ring's whole heap can never be allocated."""
    for name, created in subject.orchestration.created.items():
        size = math.prod(created.shape) * ITEMSIZE.get(created.dtype or "float32", 4)
        if created.shape and -1 not in created.shape and size > _HEAP_BYTES:
            yield subject.in_orchestration(
                created.line,
                "heap-limit",
                f"'{name}' needs {size >> 20} MiB; a ring's heap has {_HEAP_BYTES >> 20} MiB",
                f"raise PTO2_RING_HEAP to {1 << (size - 1).bit_length()}, or split the tensor (HEAP_RING_DEADLOCK, 2)",
            )
