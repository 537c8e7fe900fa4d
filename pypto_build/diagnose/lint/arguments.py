"""Rules on arguments: manifest, orchestration and wrapper have to agree on their number, kind, direction and type."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pypto_build.artifact import ArgDirection, Kernel
from pypto_build.artifact.cpp.calls import DIRECTIONS
from pypto_build.artifact.cpp.orchestration import Submit
from pypto_build.artifact.cpp.wrapper import Unpacked
from pypto_build.diagnose.findings import Edit, Finding
from pypto_build.diagnose.lint.subject import Subject
from pypto_build.facts.dtypes import ITEMSIZE, torch_name


def check_signatures(subject: Subject) -> Iterator[Finding]:
    """The manifest's signature of a kernel is what its first submission hands over."""
    exchanged = _exchanged(subject)
    if exchanged:
        yield _exchange(subject, *exchanged)
    for kernel in subject.artifact.kernels:
        if kernel in exchanged:
            continue
        submits = subject.submits(kernel.func_id)
        if kernel.signature is None or not submits or not submits[0].tensors:
            continue
        first = submits[0]
        submitted = tuple(DIRECTIONS[added.method] for added in first.tensors)
        if submitted == kernel.signature:
            continue
        needle = f'"name": "{kernel.name}"'
        if len(submitted) != len(kernel.signature):
            yield subject.in_manifest(
                needle,
                "signature-count",
                (
                    f"kernel '{kernel.name}': the signature has {_tensors(len(kernel.signature))}, but "
                    f"the submission at {subject.orchestration_path}:{first.line} passes {len(submitted)}"
                ),
                f"change the signature to [{', '.join(f'_D.{direction.name}' for direction in submitted)}]",
            )
            continue
        for index, (declared, direction) in enumerate(zip(kernel.signature, submitted, strict=True)):
            if declared is not direction:
                added = first.tensors[index]
                yield subject.in_manifest(
                    needle,
                    "signature-direction",
                    (
                        f"kernel '{kernel.name}': argument {index} is {declared.name} in the signature, "
                        f"but {added.method}({added.expression}) at {subject.orchestration_path}:{added.line}"
                    ),
                    f"write _D.{direction.name} in the signature, or add_{_METHOD[declared]} in the orchestration",
                )


def _exchanged(subject: Subject) -> tuple[Kernel, ...]:
    """Return two kernels whose signatures fit the submissions of each other, but not their own; else nothing."""
    handed = {}
    for kernel in subject.artifact.kernels:
        submits = subject.submits(kernel.func_id)
        if kernel.signature and submits and submits[0].tensors:
            handed[kernel.func_id] = tuple(DIRECTIONS[added.method] for added in submits[0].tensors)
    unlike = [k for k in subject.artifact.kernels if k.func_id in handed and handed[k.func_id] != k.signature]
    if len(unlike) != 2 or unlike[0].core_type != unlike[1].core_type:
        return ()
    one, other = unlike
    fits = handed[one.func_id] == other.signature and handed[other.func_id] == one.signature
    return (one, other) if fits else ()


def _exchange(subject: Subject, one: Kernel, other: Kernel) -> Finding:
    """Return the finding at the line of the kernel that comes first in the manifest."""
    rows = [
        subject.in_manifest(
            f'"name": "{kernel.name}"',
            "exchanged-numbers",
            (
                f"kernels '{one.name}' and '{other.name}' have swapped func_ids: the orchestration "
                "submits to each the arguments in the signature of the other"
            ),
            f"give '{one.name}' the func_id {other.func_id}, and give '{other.name}' the func_id {one.func_id}",
        )
        for kernel in (one, other)
    ]
    ids = (one.func_id, other.func_id), (other.func_id, one.func_id)
    edits = tuple(
        Edit(row.path, row.line, f'"func_id": {before}', f'"func_id": {after}')
        for row, (before, after) in zip(rows, ids, strict=True)
    )
    return msgspec.structs.replace(min(rows, key=lambda row: row.line), edits=edits)


_METHOD = {ArgDirection.IN: "input", ArgDirection.OUT: "output", ArgDirection.INOUT: "inout"}


def check_unpacking(subject: Subject) -> Iterator[Finding]:
    """Every wrapper unpacks what every submission hands over: tensors first, then scalars."""
    for kernel in subject.artifact.kernels:
        wrapper = subject.wrappers[kernel.func_id]
        for submit in subject.submits(kernel.func_id):
            if not submit.tensors:
                continue
            wrong = [finding for item in wrapper.unpacked for finding in _slot(subject, kernel, submit, item)]
            yield from wrong
            if wrong:
                break
            used = {item.slot for item in wrapper.unpacked}
            unused = [i for i in range(len(submit.tensors) + len(submit.scalars)) if i not in used]
            if used and unused and wrapper.called is not None and len(wrapper.unpacked) == len(wrapper.call_arguments):
                yield subject.in_kernel(
                    kernel,
                    wrapper.call_line,
                    "argument-unused",
                    (
                        f"kernel '{kernel.name}' never unpacks argument {unused[0]}, which "
                        f"{subject.orchestration_path}:{submit.line} "
                        "passes"
                    ),
                    "unpack the argument, or remove it from the submission",
                )
            break  # the submissions among themselves are compared by `check_submissions`


def _slot(subject: Subject, kernel: Kernel, submit: Submit, item: Unpacked) -> Iterator[Finding]:
    tensors, total = len(submit.tensors), len(submit.tensors) + len(submit.scalars)
    at = f"{subject.orchestration_path}:{submit.line}"
    if item.slot >= total:
        yield subject.in_kernel(
            kernel,
            item.line,
            "argument-count",
            (
                f"'{item.name}' is args[{item.slot}], but {at} passes only {_tensors(tensors)} and "
                f"{len(submit.scalars)} "
                "scalars"
            ),
            "correct the number of arguments in the kernel or in the submission",
        )
    elif (item.slot < tensors) != (item.kind == "tensor"):
        handed = "tensor" if item.slot < tensors else "scalar"
        yield subject.in_kernel(
            kernel,
            item.line,
            "argument-kind",
            f"'{item.name}' is unpacked as a {item.kind}, but {at} passes a {handed} as argument {item.slot}",
            f"correct the index: args[] holds {_tensors(tensors)}, then the scalars",
        )


def check_submissions(subject: Subject) -> Iterator[Finding]:
    """All submissions of a kernel hand over as many tensors and scalars as the first."""
    for kernel in subject.artifact.kernels:
        submits = [submit for submit in subject.submits(kernel.func_id) if submit.tensors]
        for submit in submits[1:]:
            counts = (len(submit.tensors), len(submit.scalars))
            first = (len(submits[0].tensors), len(submits[0].scalars))
            if counts != first:
                yield subject.in_orchestration(
                    submit.line,
                    "argument-count",
                    (
                        f"kernel '{kernel.name}' gets {_tensors(counts[0])} and {counts[1]} scalars "
                        f"here, but {_tensors(first[0])} and {first[1]} scalars at line {submits[0].line}"
                    ),
                    "pass the same arguments in every submission",
                )


def check_types(subject: Subject) -> Iterator[Finding]:
    """A tensor's element type, where both sides tell it, is the one its kernel reads it as."""
    for kernel in subject.artifact.kernels:
        for submit in subject.submits(kernel.func_id):
            for item in subject.wrappers[kernel.func_id].unpacked:
                if item.kind != "tensor" or item.slot >= len(submit.tensors):
                    continue
                added = submit.tensors[item.slot]
                handed, read = _dtype(subject, added.expression), torch_name(item.ctype) if item.ctype else None
                if handed and read and not alike(handed, read):
                    yield subject.in_kernel(
                        kernel,
                        item.line,
                        "argument-dtype",
                        (
                            f"'{item.name}' is read as {read}, but '{added.expression}' of "
                            f"{subject.orchestration_path}:{added.line} "
                            f"is {handed}"
                        ),
                        "correct the pointer's type or the tensor's DataType",
                    )


def _dtype(subject: Subject, variable: str) -> str | None:
    orchestration = subject.orchestration
    base = orchestration.base(variable)
    if base in orchestration.created:
        return orchestration.created[base].dtype
    meta = subject.artifact.meta
    index = orchestration.externals.get(base)
    if meta is None or index is None or index >= len(meta.tensors):
        return None
    return meta.tensors[index].dtype


def alike(one: str, other: str) -> bool:
    """The same type, or two of one byte: masks and packed formats travel as bytes."""
    return one == other or ITEMSIZE.get(one) == ITEMSIZE.get(other) == 1


def _tensors(count: int) -> str:
    return f"{count} tensor{'' if count == 1 else 's'}"


def check_start_offset(subject: Subject) -> Iterator[Finding]:
    """A pointer to a tensor's elements starts at its view's first element."""
    for kernel in subject.artifact.kernels:
        for item in subject.wrappers[kernel.func_id].unpacked:
            if item.kind == "tensor" and not item.uses_offset:
                yield subject.in_kernel(
                    kernel,
                    item.line,
                    "start-offset",
                    (
                        f"the pointer to '{item.name}' leaves out start_offset, so a view is read from "
                        "the start of its buffer"
                    ),
                    f"add + {item.name}_tensor->start_offset to the pointer",
                )


#: What is wrong whatever a run shows.
ALWAYS = (check_signatures, check_unpacking, check_submissions, check_types)
