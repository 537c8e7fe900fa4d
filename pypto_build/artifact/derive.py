"""Derives kernel signatures, and the uses of the entry's arguments, from an orchestration's C++.

The function is walked as text, once per statement; loops twice, so that the start sees aliases made at the end. Values
are sets of possibilities, helper functions and lambdas are followed, nothing is executed. The first submission of a
kernel gives its signature, as in PyPTO's own manifests.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from .cpp.findings import MOST_SLOTS, Findings, Submission
from .cpp.syntax import NestedTooDeeply, Unparseable, parse
from .cpp.walk import Walker
from .errors import ArtifactError
from .files import read_bytes
from .records import DEFAULT_ENTRY, ArgDirection, Artifact, Signature


class Argument(msgspec.Struct, frozen=True):
    """One argument of the entry as the code uses it; ``name`` is empty and ``dtype`` is None if the code does not
    tell.
    """

    index: int
    name: str
    direction: ArgDirection
    dtype: str | None = None


class Derived(msgspec.Struct, frozen=True):
    """Facts from an orchestration's code: kernel signatures by func_id, entry arguments, and notes for users.

    ``order`` has the kinds of an argument array that holds both: ``t`` and ``s``, ``-`` for an unread slot.
    ``untracked`` has, by func_id, the positions in a kernel's signature of tensors without a direction.
    """

    signatures: dict[int, Signature]
    tensors: tuple[Argument, ...]
    scalars: tuple[Argument, ...]
    notes: tuple[str, ...]
    order: str = ""
    untracked: dict[int, frozenset[int]] = {}


class TensorUse(msgspec.Struct, frozen=True):
    """Tensor number ``index`` of the entry is tensor number ``position`` of a task of kernel ``func_id``."""

    index: int
    func_id: int
    position: int


def derive(artifact: Artifact) -> Derived:
    """Return the facts from the orchestration's code.

    Raises a usage error naming file and line if the entry is missing or a kernel is submitted that the manifest lacks.
    """
    findings = _walk(artifact.orchestration.source, artifact.orchestration.function_name)
    signatures = _signatures(artifact, findings)
    notes = _notes(artifact, findings, signatures)
    untracked: dict[int, frozenset[int]] = {}
    for submission in findings.submissions:
        for func_id in submission.func_ids:
            untracked[func_id] = untracked.get(func_id, frozenset()) | submission.untracked
    return Derived(signatures, _tensors(findings), _scalars(findings), notes, _order(findings), untracked)


def submissions(source: Path, function_name: str = DEFAULT_ENTRY) -> tuple[Submission, ...]:
    """Return the submit calls of an orchestration in the order of its text; no manifest is needed.

    Raises a usage error naming the file if the entry is missing.
    """
    return tuple(_walk(source, function_name).submissions)


def tensor_uses(source: Path, function_name: str = DEFAULT_ENTRY) -> tuple[TensorUse, ...]:
    """Return the whole tensors that an orchestration passes to kernels, in the order of its text.

    Raises a usage error naming the file if the entry is missing.
    """
    findings = _walk(source, function_name)
    numbers = {slot: index for index, slot in enumerate(_slots(findings, findings.tensor_slots))}
    return tuple(
        TensorUse(numbers[slot], func_id, position)
        for submission in findings.submissions
        for func_id in sorted(submission.func_ids)
        for position, slot in enumerate(submission.tensors)
        if slot in numbers
    )


def _walk(source: Path, function_name: str) -> Findings:
    try:
        walker = Walker(parse(read_bytes(source)))
        is_defined = walker.run(function_name)
    except OSError as error:
        raise ArtifactError(source, f"cannot be read: {error.strerror}", "restore it or compile again") from None
    except Unparseable:
        raise ArtifactError(
            source,
            "cannot be parsed within the time limit",
            "if the file is not an orchestration, correct the manifest; else compile again",
        ) from None
    except (NestedTooDeeply, RecursionError) as error:
        position = f"{source}:{error.line}" if isinstance(error, NestedTooDeeply) else source
        raise ArtifactError(
            position, "is nested too deeply to be parsed", "compile again, or split the nested code"
        ) from None
    if not is_defined:
        hint = "correct ORCHESTRATION.function_name or ORCHESTRATION.source in the manifest"
        raise ArtifactError(source, f"does not define the function '{function_name}'", hint)
    if walker.findings.fault:
        line, message = walker.findings.fault
        raise ArtifactError(
            f"{source}:{line}",
            message,
            f"use an index below {MOST_SLOTS}: an orchestration takes at most that many arguments",
        )
    return walker.findings


def _signatures(artifact: Artifact, findings: Findings) -> dict[int, Signature]:
    kernels = {kernel.func_id for kernel in artifact.kernels}
    for submission in findings.submissions:
        wrong = sorted(submission.func_ids - kernels)
        if wrong and (submission.exact or not submission.func_ids & kernels):
            func_ids = ", ".join(map(str, sorted(kernels))) or "none"
            raise ArtifactError(
                f"{artifact.orchestration.source}:{submission.line}",
                f"submits func_id {wrong[0]}, but no kernel in the manifest has this func_id",
                f"use one of the manifest's func_ids: {func_ids}",
            )
    signatures: dict[int, Signature] = {}
    for submission in sorted(findings.submissions, key=lambda s: not s.exact):  # certain ones first
        for func_id in submission.func_ids & kernels:
            signatures.setdefault(func_id, submission.signature)
    for submission in findings.submissions:
        for kernel in artifact.kernels:
            if submission.open and submission.core_type in (None, kernel.core_type):
                signatures.setdefault(kernel.func_id, submission.signature)
    return signatures


def _notes(artifact: Artifact, findings: Findings, signatures: dict[int, Signature]) -> tuple[str, ...]:
    """Return notes on suspicious code that is not an error, one line each."""
    source = artifact.orchestration.source
    notes: list[str] = []
    for kernel in artifact.kernels:
        title = f"kernel {kernel.func_id} {kernel.name!r}"
        derived = signatures.get(kernel.func_id)
        certain = next((s for s in findings.submissions if kernel.func_id in s.func_ids), None)
        if kernel.func_id in findings.listed:
            continue
        if derived is None:
            notes.append(f"{source}: {title} is never submitted")
        elif certain is None:
            notes.append(f"{source}: {title} is assumed to be submitted where the func_id is computed")
        elif certain.core_type not in (None, kernel.core_type):
            notes.append(
                f"{source}:{certain.line}: {title} is submitted to {certain.core_type}, not to its {kernel.core_type}"
            )
        if derived is not None and kernel.signature is not None and len(kernel.signature) != len(derived):
            notes.append(
                f"{source}: {title} is submitted with {len(derived)} tensors, its signature has {len(kernel.signature)}"
            )
    return tuple(notes)


def _tensors(findings: Findings) -> tuple[Argument, ...]:
    names = {**findings.scalar_names, **findings.tensor_names} if findings.shares_slots else findings.tensor_names
    return tuple(
        Argument(index, names.get(slot, ""), findings.direction(slot), findings.tensor_dtypes.get(slot))
        for index, slot in enumerate(_slots(findings, findings.tensor_slots))
    )


def _scalars(findings: Findings) -> tuple[Argument, ...]:
    slots = findings.scalar_slots - findings.tensor_slots if findings.shares_slots else findings.scalar_slots
    return tuple(
        Argument(index, findings.scalar_names.get(slot, ""), ArgDirection.SCALAR, findings.scalar_dtypes.get(slot))
        for index, slot in enumerate(_slots(findings, slots))
    )


def _order(findings: Findings) -> str:
    used = findings.tensor_slots | findings.scalar_slots if findings.shares_slots else set()
    kinds = (
        "t" if slot in findings.tensor_slots else "s" if slot in used else "-"
        for slot in range(max(used, default=-1) + 1)
    )
    return "".join(kinds)


def _slots(findings: Findings, used: set[int]) -> Sequence[int]:
    """Return the slots in order: the used ones of a shared argument array, else all up to the last used one."""
    return sorted(used) if findings.shares_slots else range(max(used, default=-1) + 1)
