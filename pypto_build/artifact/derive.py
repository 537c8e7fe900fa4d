"""Reads from an orchestration's C++ what nobody declared: each kernel's signature, and what the entry does with its arguments.

The function is walked as text, once per statement (loops twice, so that aliases made at a loop's end are seen at its
start): values are sets of possibilities, helper functions and lambdas are followed, nothing is executed. The first
submission of a kernel gives its signature, as in PyPTO's own manifests.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from .cpp import parse
from .cpp_walk import Walker
from .errors import ArtifactError
from .records import ArgDirection, Artifact, Signature


class Argument(msgspec.Struct, frozen=True):
    """One argument of the entry, as its code uses it; ``name`` is empty and ``dtype`` ``None`` where it does not tell."""

    index: int
    name: str
    direction: ArgDirection
    dtype: str | None = None


class Derived(msgspec.Struct, frozen=True):
    """What an orchestration's code says: kernel signatures by func_id, its arguments, and remarks for people."""

    signatures: dict[int, Signature]
    tensors: tuple[Argument, ...]
    scalars: tuple[Argument, ...]
    notes: tuple[str, ...]


def derive(artifact: Artifact) -> Derived:
    """What the orchestration of ``artifact`` says.

    Raises a usage error naming file and line if the entry is missing or a kernel is submitted that the manifest lacks.
    """
    orchestration = artifact.orchestration
    walker = Walker(parse(orchestration.source.read_bytes()))
    if not walker.run(orchestration.function_name):
        raise ArtifactError(
            orchestration.source,
            f"does not define {orchestration.function_name}",
            "correct ORCHESTRATION.function_name or ORCHESTRATION.source",
        )
    signatures, notes = _signatures(artifact, walker, orchestration.source)
    return Derived(signatures, _tensors(walker), _scalars(walker), tuple(notes))


def _signatures(artifact: Artifact, walker: Walker, source: Path) -> tuple[dict[int, Signature], list[str]]:
    kernels = {kernel.func_id: kernel for kernel in artifact.kernels}
    signatures: dict[int, Signature] = {}
    notes: list[str] = []
    for submission in walker.submissions:
        wrong = sorted(submission.func_ids - kernels.keys())
        if wrong and (submission.exact or not submission.func_ids & kernels.keys()):
            known = ", ".join(map(str, sorted(kernels))) or "none"
            raise ArtifactError(
                f"{source}:{submission.line}",
                f"submits func_id {wrong[0]}, which no kernel has",
                f"the manifest's func_ids are {known}",
            )
        for func_id in sorted(submission.func_ids & kernels.keys()):
            signatures.setdefault(func_id, submission.signature)
    for submission in walker.submissions:
        if not submission.open:
            continue
        for kernel in artifact.kernels:
            if kernel.func_id not in signatures and submission.core_type in (None, kernel.core_type):
                signatures[kernel.func_id] = submission.signature
                notes.append(f"{source}:{submission.line}: assumed to submit kernel {kernel.func_id} {kernel.name!r}")
    for kernel in artifact.kernels:
        derived = signatures.get(kernel.func_id)
        if derived is None:
            notes.append(f"{source}: kernel {kernel.func_id} {kernel.name!r} is never submitted")
        elif kernel.signature is not None and len(kernel.signature) != len(derived):
            notes.append(
                f"{source}: kernel {kernel.func_id} {kernel.name!r} is submitted with {len(derived)} tensors, "
                f"its declared signature has {len(kernel.signature)}"
            )
    return signatures, notes


def _tensors(walker: Walker) -> tuple[Argument, ...]:
    slots = sorted(walker.tensor_slots)
    # `tensor(i)` numbers tensors by themselves; in an argument array of the older API, tensors and scalars share slots.
    indices = range(max(slots, default=-1) + 1) if not walker.shares_slots else slots
    return tuple(
        Argument(index, walker.tensor_names.get(slot, ""), walker.direction(slot), walker.tensor_dtypes.get(slot))
        for index, slot in enumerate(indices)
    )


def _scalars(walker: Walker) -> tuple[Argument, ...]:
    slots = sorted(walker.scalar_slots - (walker.tensor_slots if walker.shares_slots else set()))
    indices = range(max(slots, default=-1) + 1) if not walker.shares_slots else slots
    return tuple(
        Argument(index, *_scalar_name(walker, slot), walker.scalar_dtypes.get(slot)) for index, slot in enumerate(indices)
    )


def _scalar_name(walker: Walker, slot: int) -> tuple[str, ArgDirection]:
    return walker.scalar_names.get(slot, ""), ArgDirection.SCALAR
