"""Rules on the orchestration's own arguments: manifest, compiled_meta.json and code have to agree."""

from __future__ import annotations

from collections.abc import Iterator

from pypto_build.artifact import ArgDirection
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.lint.subject import Subject


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
                        f"orch_args.{kind}({index}): compiled_meta.json has {limits[kind]} {kind} parameters",
                        "correct the index",
                    )
        if orchestration.expected and orchestration.expected[0] != len(meta.params):
            count, line = orchestration.expected
            yield subject.in_orchestration(
                line,
                "expected-arg-count",
                f"expected_arg_count is {count}, the program has {len(meta.params)} parameters",
                f"make it {len(meta.params)}: a run with fewer arguments is refused",
            )
        if signature is not None and len(signature) != len(meta.tensors):
            yield subject.in_manifest(
                "ORCHESTRATION",
                "entry-signature",
                f"ORCHESTRATION.signature has {len(signature)} entries, the program {len(meta.tensors)} tensors",
                "one entry a tensor parameter, in order",
            )


def check_entry_directions(subject: Subject) -> Iterator[Finding]:
    """A tensor that tasks write is no IN: what they write would never come back."""
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
        where = f"{added[0]} at {subject.orchestration.code.name}:{added[1]}"
        yield subject.in_manifest(
            '"signature"',
            "written-input",
            f"argument {argument.index} '{argument.name}' of the orchestration is IN, but written by {where}",
            "declare the parameter Out or InOut in the program: what is written never comes back",
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
                f"parameter '{parameter.name}' is {parameter.direction.name} in compiled_meta.json, "
                f"entry {index} of ORCHESTRATION.signature is {declared.name}",
                "make both what the program declares",
            )
