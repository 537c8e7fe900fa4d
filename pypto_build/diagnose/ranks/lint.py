"""`scons lint` on a distributed artifact: chip programs, and the host driver against programs, metadata, domains.

python -m pypto_build.diagnose.ranks.lint ARTIFACT_DIR [--platform P] [--json FILE] [--sarif FILE]
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from pypto_build.artifact.derive import Derived, derive
from pypto_build.artifact.distributed import Distributed, load_distributed
from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.layout import DRIVER, load_artifact
from pypto_build.artifact.records import ArgDirection
from pypto_build.diagnose.console import command
from pypto_build.diagnose.findings import Edit, Finding, Level, deliver
from pypto_build.diagnose.lint.__main__ import lint
from pypto_build.diagnose.lint.__main__ import parser as parser_of_one
from pypto_build.diagnose.ranks.driver_text import DriverCall, DriverTensor, DriverText, read_driver

#: A chip program takes contexts of domains besides the parameters in its metadata; its driver says how many.
_OF_ENTRIES = ("lint/expected-arg-count", "lint/entry-arguments")
#: Tags by which a dispatch is known as one that writes, and as one that reads.
_WRITING = ("OUTPUT", "INOUT", "OUTPUT_EXISTING")
_READING = ("INPUT", "INOUT")


def lint_ranks(root: Path, platform: str) -> list[Finding]:
    """All findings on a distributed artifact. Raises `ArtifactError` for one that cannot be read at all."""
    artifact = load_distributed(root)
    found = [
        below(finding, name)
        for name, chip in artifact.chips.items()
        for finding in lint(chip, platform)
        if finding.rule not in _OF_ENTRIES
    ]
    return [*found, *lint_driver(artifact)]


def below(finding: Finding, program: str) -> Finding:
    """A finding on a chip program as one on the whole: paths are those of the distributed artifact."""
    base = f"next_levels/{program}/"

    def moved(path: str) -> str:
        return base + path if path and not Path(path).is_absolute() else path

    return msgspec.structs.replace(
        finding,
        path=moved(finding.path),
        related=tuple(msgspec.structs.replace(one, path=moved(one.path)) for one in finding.related),
        edits=tuple(msgspec.structs.replace(one, path=moved(one.path)) for one in finding.edits),
    )


def lint_driver(artifact: Distributed) -> list[Finding]:
    """Report contradictions between the driver's text and the artifact, and faults in the text."""
    try:
        text = read_driver(artifact.driver)
    except SyntaxError as error:
        return [_found("driver", f"not Python: {error.msg}", error.lineno or 0, "correct it, or compile again")]
    except (ValueError, RecursionError, MemoryError) as error:
        return [_found("driver", f"cannot be read as Python: {error}", 0, "correct it, or compile again")]
    return [*_names(artifact, text), *_arguments(artifact, text), *_tokens(text)]


def _found(
    rule: str, message: str, line: int, hint: str, level: Level = "error", edits: tuple[Edit, ...] = ()
) -> Finding:
    return Finding(f"lint/{rule}", message, DRIVER, line, hint, level, edits=edits)


def _names(artifact: Distributed, text: DriverText) -> Iterator[Finding]:
    """Programs, host callables, tensors and buffers that there are not."""
    callables = {*artifact.sub_workers, *artifact.required}
    for call in text.calls:
        known = callables if call.is_host else artifact.chips
        where = "sub_workers/" if call.is_host else "next_levels/"
        if call.program not in known:
            message = f"dispatches '{call.program}', which is not under {where}"
            yield _found("driver-program", message, call.line, _nearest(call.program, known))
    if text.computes_names:
        return
    params = {param.name for param in artifact.params}
    for name, line in text.read.items():
        if name not in params and name not in text.made:
            message = f"tensors['{name}'] is no parameter in distributed_meta.json, and the driver does not make it"
            yield _found("driver-tensor", message, line, _nearest(name, params | text.made))
    for name, line in text.buffers.items():
        if name not in text.declared:
            message = f"buffers['{name}'] is in no domain"
            yield _found("driver-buffer", message, line, _nearest(name, text.declared))


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean '{near[0]}'?" if near else f"known are: {', '.join(sorted(known)) or 'none'}"


def _arguments(artifact: Distributed, text: DriverText) -> Iterator[Finding]:
    """As many arguments as a program takes, under tags that say what it does with them."""
    programs: dict[str, Derived | None] = {}
    for call in text.calls:
        if call.is_host or not call.known or call.program not in artifact.chips:
            continue
        if call.program not in programs:
            programs[call.program] = _derived(artifact.chips[call.program])
        derived = programs[call.program]
        if derived is None or derived.order:
            continue
        for kind, used, given in (
            ("tensor", len(derived.tensors), len(call.tensors)),
            ("scalar", len(derived.scalars), len(call.scalars)),
        ):
            if used > given:
                message = f"'{call.program}' is given {_count(given, kind)} and takes {used}"
                yield _found("driver-arguments", message, call.line, f"add the {kind}s that its orchestration reads")
        for argument, one in zip(derived.tensors, call.tensors, strict=False):
            yield from _tag(call, argument.name, argument.direction, one)


def _tag(call: DriverCall, name: str, direction: ArgDirection, given: DriverTensor) -> Iterator[Finding]:
    """A host tensor's tag decides which dispatches wait for each other; windows are not ordered by it."""
    if not given.tensor or not given.tag or given.tag == "NO_DEP":
        return
    what = f"tensors['{given.tensor}'] is {given.tag}, and '{call.program}' %s it as '{name}'"
    if direction in (ArgDirection.OUT, ArgDirection.INOUT) and given.tag not in _WRITING:
        wanted = "INOUT" if direction is ArgDirection.INOUT else "OUTPUT_EXISTING"
        hint = f"make it TensorArgType.{wanted}: no dispatch that reads it waits for this one"
        yield _found("driver-tag", what % "writes", given.line, hint, edits=_retag(given, wanted))
    elif direction is ArgDirection.IN and given.tag not in _READING:
        hint = "make it TensorArgType.INPUT: this dispatch does not wait for the one that wrote it"
        yield _found("driver-tag", what % "reads", given.line, hint, edits=_retag(given, "INPUT"))


def _retag(given: DriverTensor, wanted: str) -> tuple[Edit, ...]:
    return (Edit(DRIVER, given.line, f"TensorArgType.{given.tag}", f"TensorArgType.{wanted}"),)


def _derived(chip: Path) -> Derived | None:
    """Derive how a program's orchestration uses its arguments; None if it cannot be read."""
    try:
        artifact = load_artifact(chip)
        derived = derive(artifact)
    except ArtifactError:
        return None
    declared = artifact.orchestration.signature if artifact.orchestration else None
    if not declared or len(declared) != len(derived.tensors):
        return derived
    # A tensor that is written part by part counts as read where nothing says that it is an output.
    tensors = tuple(
        msgspec.structs.replace(one, direction=said)
        if said is ArgDirection.OUT and one.direction is ArgDirection.INOUT
        else one
        for one, said in zip(derived.tensors, declared, strict=True)
    )
    return msgspec.structs.replace(derived, tensors=tensors)


def _tokens(text: DriverText) -> Iterator[Finding]:
    """Several programs that use one buffer of a window, and no host tensor that orders them."""
    using: dict[str, list[DriverCall]] = {}
    for call in text.calls:
        for buffer in dict.fromkeys(one.buffer for one in call.tensors if one.buffer):
            using.setdefault(buffer, []).append(call)
    told: set[tuple[int, int]] = set()
    for buffer, calls in using.items():
        for first, second in pairwise(calls):
            known = first.known and second.known
            if (first.line, second.line) in told or not known or _ordered(first, second, text.calls):
                continue
            told.add((first.line, second.line))
            message = (
                f"'{first.program}' and '{second.program}' use window buffer '{buffer}', and no host tensor orders "
                "their dispatches on a rank"
            )
            hint = "give both an ordering token: one INOUT host tensor a rank, as the compiler does (__comm_d<n>_ord)"
            yield Finding("lint/driver-token", message, DRIVER, second.line, hint, "warning")


def _ordered(first: DriverCall, second: DriverCall, calls: Sequence[DriverCall]) -> bool:
    """Return whether the second dispatch waits for the first, directly or through others."""
    after = [first]
    for call in calls[calls.index(first) + 1 :]:
        if any(_waits_for(call, one) for one in after):
            if call is second:
                return True
            after.append(call)
    return False


def _waits_for(second: DriverCall, first: DriverCall) -> bool:
    """Return whether one dispatch may wait for another through a shared tensor; unknown directions count as a wait."""
    tags: Mapping[str, str] = {one.tensor: one.tag for one in first.tensors if one.tensor}
    return any(
        tags.get(one.tensor, "NO_DEP") in (*_WRITING, "") and one.tag in (*_READING, "")
        for one in second.tensors
        if one.tensor
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


@command("lint", parser_of_one)
def main(given: argparse.Namespace) -> int:
    """Print what is wrong; 0 if nothing is, 1 if something is, 2 if there is no distributed artifact."""
    findings = lint_ranks(given.artifact, given.platform)
    return deliver("lint", given.artifact, findings, given, given.build_dir)


if __name__ == "__main__":
    sys.exit(main())
