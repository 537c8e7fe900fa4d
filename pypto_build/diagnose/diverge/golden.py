"""Comparison of a plain run's outputs with the golden.

The golden only shows that something is wrong. This module finds the wrong elements, the tasks that wrote them, and an
edit that makes them right.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build.artifact import load_artifact
from pypto_build.artifact.cpp.orchestration import Submit
from pypto_build.artifact.files import from_here, read_source
from pypto_build.artifact.first_sight import Change, changes, first_text
from pypto_build.artifact.snapshot import is_reference, snapshot
from pypto_build.diagnose.diverge.findings import ORCHESTRATION, TRIAL, relative
from pypto_build.diagnose.diverge.lockstep import Difference, Limits, compare_bytes, mask_of
from pypto_build.diagnose.diverge.variants import CHOICE, Trial, edits_of, line_of, trials, with_choice
from pypto_build.diagnose.diverge.varied import Hit, Tried, vary_modules, vary_program, vary_reference
from pypto_build.diagnose.findings import Edit, Finding, Related
from pypto_build.diagnose.recorded.names import submissions
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.replay.binding import Binding, TensorArg, with_goldens
from pypto_build.replay.faults import RunFault
from pypto_build.replay.loading import load_embedded
from pypto_build.replay.reference.launch import Launch, Progress, in_child
from pypto_build.replay.tolerances import tolerances
from pypto_build.replay.values import decode, storage
from pypto_build.toolchain.host import INCLUDE_DIR, find_compiler, orchestration_flags

_SHOWN_TASKS = 4
_SHOWN_FILES = 16
_SHOWN_CHANGES = 6
_COMPILE_S = 120
#: Number of trials that may end the process before no more are made.
_DEATHS = 8
#: Marks of differences by rounding: the least share of elements that differ, and the largest ratio of the mean
#: difference to the mean absolute difference. _ROUNDINGS has the root mean square of the differences, relative to that
#: of the values.
_SPREAD, _BIAS = 0.25, 0.25
_ROUNDINGS = {"bfloat16": (2.0**-11.5, 2.0**-6.5), "float16": (2.0**-15, 2.0**-11.5)}


@dataclass(frozen=True)
class _Wrong:
    """Elements of an output that differ from the golden, and the tasks (with kernels) that wrote the first of them."""

    name: str
    difference: Difference
    region: str
    writers: tuple[tuple[int, str], ...]
    rounding: str = ""  # the element type whose rounding explains the differences


def golden_findings(
    launch: Launch, data: Path | None, limits: Limits, timeout_s: float, program: Path | None = None
) -> list[Finding]:
    """Compare the outputs of a plain run with the golden.

    Returns a finding for each output that differs, or one finding with the edit that makes all of them right. The edit
    is of the ``program``, which the artifact agrees with. Without a program, it is of the orchestration or a module.
    With DATA=reference, the lockstep run has already compared with the golden.
    """
    if is_reference(data):
        return []
    binding = (
        with_goldens(launch.binding, snapshot(launch.artifact, data)) if launch.binding.seed is None else launch.binding
    )
    rtol, atol = tolerances(launch.artifact, limits.rtol, limits.atol)
    within = Limits(max(rtol, 1e-3), max(atol, 1e-3))
    wrong = in_child(lambda: _wrong_outputs(launch, binding, within), Progress(), timeout_s)
    if not wrong:
        return []
    artifact = load_artifact(launch.artifact)
    source = artifact.orchestration.source
    text = read_source(source)
    edited = changes(launch.build_dir, artifact)
    if (before := _as_before(launch, binding, within, source, edited, timeout_s)) is not None:
        return [_reverted(wrong, before)]
    tried, right = ([], []) if program else _try(launch, binding, within, text, timeout_s)
    if right:
        path = relative(launch.artifact, source)
        hits = tuple(Hit(path, line_of(one, text), one.what, edits_of(one, text, path)) for one in right)
        return [_edit_finding(wrong, Tried(len(tried), hits), Tried(), "the orchestration", edited)]
    rounding = next((one.rounding for one in wrong if one.rounding), "")
    edits, of_reference = in_child(
        lambda: _vary(launch, binding, within, program, data, rounding), Progress(), max(timeout_s, 60.0)
    )
    if edits.hits or of_reference.hits:
        return [_edit_finding(wrong, edits, of_reference, "the program" if program else "the modules", edited)]
    count = len(tried) + edits.count + of_reference.count
    hint = (
        f"check {from_here(program)}: the program or its reference is wrong" if program
        else "if you have the program, name it with PROGRAM= for a closer answer"
    )  # fmt: skip
    what = "the program and its reference" if program else "the orchestration and the modules"
    more = f"; {count} edits of {what} were tried, and none gives the golden" if count else ""
    sites = submissions(source).submits
    lines = {func: site.line for site in sites for func in site.func_ids if _is_alone(func, sites)}
    return [_finding(launch, one, f"{hint}{more}", source, lines, edited) for one in wrong]


def _is_alone(func_id: int, sites: Sequence[Submit]) -> bool:
    return sum(func_id in site.func_ids for site in sites) == 1


def _finding(
    launch: Launch, wrong: _Wrong, hint: str, source: Path, lines: Mapping[int, int], edited: Sequence[Change]
) -> Finding:
    numbers = {kernel.name: kernel.func_id for kernel in launch.interface.kernels}
    shown: dict[str, list[int]] = {}
    for number, kernel in wrong.writers[-_SHOWN_TASKS:]:
        shown.setdefault(kernel, []).append(number)
    # A task declares whole tensors: of several, only one may have written the element.
    verb = "is written by" if len(wrong.writers) == 1 else "is in an output of"
    writers = [
        f"the first of them {verb} task{'s' * (len(tasks) > 1)} {', '.join(map(str, tasks))} {kernel}"
        + (f" ({relative(launch.artifact, source)}:{lines[numbers[kernel]]})" if numbers.get(kernel) in lines else "")
        for kernel, tasks in shown.items()
    ]
    text = (
        f"every kernel agrees with its module, yet {wrong.difference.count} of {wrong.difference.numel} elements "
        f"of output '{wrong.name}' differ from the golden, within {wrong.region}"
    )
    who = f"the modules, the orchestration, the inputs or the golden are wrong; {hint}"
    return Finding(
        "diverge/golden",
        text,
        edited[0].path if edited else "",
        edited[0].line if edited else 0,
        hint=f"check the edited lines first; if they are right, {who}" if edited else who,
        detail=(*_rounding_lines([wrong]), *writers, *_since(edited), *_changed(launch.artifact)),
    )


def _since(edited: Sequence[Change]) -> list[str]:
    return [f"edited since it was first built here: {change.words}" for change in edited[:_SHOWN_CHANGES]]


def _as_before(
    launch: Launch, binding: Binding, within: Limits, source: Path, edited: Sequence[Change], timeout_s: float
) -> list[Change] | None:
    """Return the edits of the orchestration since it was first built here, if undoing them gives the golden."""
    path = relative(launch.artifact, source)
    mine = [change for change in edited if change.path == path]
    text = first_text(launch.build_dir, path) if mine else None
    if text is None:
        return None
    return mine if _right(launch, binding, within, with_choice(text, []), 1, timeout_s) else None


def _reverted(wrong: Sequence[_Wrong], edited: Sequence[Change]) -> Finding:
    return Finding(
        ORCHESTRATION,
        _makes_right(wrong, "the orchestration as it was first built here"),
        edited[0].path,
        edited[0].line,
        "undo the edit, or correct it",
        detail=tuple(f"edited since: {change.words}" for change in edited[:_SHOWN_CHANGES]),
        edits=tuple(Edit(one.path, one.line, one.new, one.old) for one in edited if one.new and one.old),
    )


def _makes_right(wrong: Sequence[_Wrong], what: str) -> str:
    count, names = sum(one.difference.count for one in wrong), ", ".join(f"'{one.name}'" for one in wrong)
    return (
        f"every kernel agrees with its module, yet {count} elements of {names} differ from the golden; with {what} "
        "every output matches it"
    )


def _changed(artifact: Path) -> list[str]:
    """Return a line for each file that was edited since its `.bak` copy, which splicing leaves beside it.

    The line shows the first difference.
    """
    edited = []
    for kept in sorted(artifact.glob("**/*.bak*"))[:_SHOWN_FILES]:
        now = kept.with_name(kept.name.partition(".bak")[0])
        if not now.is_file():
            continue
        before, after = read_source(kept).splitlines(), read_source(now).splitlines()
        differs = [number for number, pair in enumerate(zip(before, after, strict=False), 1) if pair[0] != pair[1]]
        if differs:
            position = f"{relative(artifact, now)}:{differs[0]}"
            old, new = before[differs[0] - 1].strip(), after[differs[0] - 1].strip()
            edited.append(f"edited since {kept.name} was kept: {position}: {old}  ->  {new}")
    return edited


def _vary(
    launch: Launch, binding: Binding, within: Limits, program: Path | None, data: Path | None, rounding: str
) -> tuple[Tried, Tried]:
    """Try edits of the program (or of the modules, if there is no program) and of the reference."""
    gc.freeze()  # what is here stays, and hundreds of edits make many objects
    gc.set_threshold(100_000, 50, 50)
    of_reference = vary_reference(launch, within, rounding) if data is None else Tried()
    if program is not None:
        return vary_program(launch, binding, within, program, rounding), of_reference
    return vary_modules(launch, binding, within), of_reference


def _edit_finding(
    wrong: Sequence[_Wrong], edits: Tried, of_reference: Tried, whose: str, edited: Sequence[Change]
) -> Finding:
    """Return the finding with the first edit that makes all outputs right.

    A run cannot tell which of the two sides is wrong, so the finding also names an edit of the other side.
    """
    first = (edits.hits or of_reference.hits)[0]
    others = [hit for hit in (edits.hits or of_reference.hits)[1:4] if hit.what != first.what]
    either = of_reference.hits[0] if edits.hits and of_reference.hits else None
    related = (Related(either.path, either.line, f"or change the reference: {either.what}"),) if either else ()
    sides = f"{whose} or the reference" if of_reference.count else f"{whose}, the inputs or the golden"
    tried, agree = edits.count + of_reference.count, len(edits.hits) + len(of_reference.hits)
    side = "" if edits.hits else "the reference with "
    return Finding(
        TRIAL,
        _makes_right(wrong, f"{side}{first.what}"),
        first.path,
        first.line,
        f"{sides} is wrong: of {tried} trial edits, {agree} make the outputs agree with the golden",
        detail=(
            *_rounding_lines(wrong),
            *_since(edited),
            *(f"so does {hit.what}: {from_here(hit.path)}:{hit.line}" for hit in others),
        ),
        edits=first.edits,
        related=related,
    )


def _outputs(launch: Launch, binding: Binding, within: Limits) -> list[tuple[int, TensorArg, Difference]]:
    """Return the outputs of the last run that differ from the golden."""
    outputs = []
    for index, tensor in enumerate(binding.tensors):
        if tensor.golden is None or not tensor.is_output:
            continue
        differs = compare_bytes(bytes(launch.arena.tensor(index)), bytes(tensor.golden), tensor.dtype, within)
        if differs is not None:
            outputs.append((index, tensor, differs))
    return outputs


def _wrong_outputs(launch: Launch, binding: Binding, within: Limits) -> list[_Wrong]:
    written: list[tuple[int, str, int, int]] = []  # task, kernel, first byte, bytes

    def note(call: Any) -> None:
        for argument in call.args:
            if getattr(argument, "direction", "IN") in ("OUT", "INOUT"):
                size = 1 + sum((n - 1) * s for n, s in zip(argument.shape, argument.strides, strict=True))
                written.append((call.number, call.kernels[0][2], argument.address, size))
        call.run()

    launch.run(note)
    wrong = []
    for index, tensor, differs in _outputs(launch, binding, within):
        memory = launch.arena.tensor(index)
        width = len(memory) // max(differs.numel, 1)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + differs.first * width
        writers = tuple(
            dict.fromkeys(
                (number, kernel)
                for number, kernel, start, elements in written
                if start <= address < start + elements * width
            )
        )
        rounding = rounding_of(memory, tensor)
        wrong.append(_Wrong(tensor.name, differs, _region(memory, tensor, within), writers, rounding))
    return wrong


@np.errstate(all="ignore")
def rounding_of(memory: memoryview, tensor: TensorArg) -> str:
    """Return the 16-bit type whose rounding explains the differences, or an empty text.

    Differences by rounding are small, almost everywhere, and of either sign.
    """
    assert tensor.golden is not None
    if "float" not in tensor.dtype:
        return ""
    actual, expected = (
        decode(storage(bytes(data), tensor.dtype, (-1,)), tensor.dtype).astype(np.float64)
        for data in (memory, tensor.golden)
    )
    gaps = actual - expected
    share, scale = np.count_nonzero(gaps) / max(gaps.size, 1), np.sqrt(np.mean(expected**2))
    size = np.sqrt(np.mean(gaps**2)) / scale if scale else np.nan
    if not np.isfinite(size) or share < _SPREAD or abs(gaps.mean()) > _BIAS * np.abs(gaps).mean():
        return ""
    return next((dtype for dtype, (least, most) in _ROUNDINGS.items() if least <= size <= most), "")


def _rounding_lines(wrong: Sequence[_Wrong]) -> list[str]:
    return [
        f"the differences of '{one.name}' have the size of rounding to {one.rounding}: look for a cast that one side "
        "lacks"
        for one in wrong
        if one.rounding
    ]


def _region(memory: memoryview, tensor: TensorArg, within: Limits) -> str:
    """Return the smallest block that contains all elements that differ."""
    assert tensor.golden is not None
    actual, expected = (storage(bytes(data), tensor.dtype, tensor.shape) for data in (memory, tensor.golden))
    places = np.argwhere(mask_of(actual, expected, tensor.dtype, within).reshape(tensor.shape))
    spans = [
        f"{low}:{high + 1}" for low, high in zip(places.min(axis=0).tolist(), places.max(axis=0).tolist(), strict=True)
    ]
    return f"[{', '.join(spans)}]"


def _try(
    launch: Launch, binding: Binding, within: Limits, text: str, timeout_s: float
) -> tuple[list[Trial], list[Trial]]:
    """Return the trials that were made, and the trials that give the golden."""
    tried = trials(text, launch.interface.kernels)
    right = _right(launch, binding, within, with_choice(text, tried), len(tried), timeout_s) if tried else None
    if right is None:
        return [], []
    return tried, [trial for number, trial in enumerate(tried, 1) if number in right]


def _right(
    launch: Launch, binding: Binding, within: Limits, text: str, count: int, timeout_s: float
) -> set[int] | None:
    """Return the numbers of the trials that give the golden, from 1 to `count`.

    `text` is the orchestration with the trials in it. Returns None if it does not compile.
    """
    with tempfile.TemporaryDirectory(prefix="pypto-trials-") as name:
        directory = Path(name)
        library = _compile(launch, text, directory)
        if library is None:
            return None
        other = _with_orchestration(launch, library, directory)
        right = mmap.mmap(-1, count + 1)  # shared memory keeps the results of a child that dies
        progress = Progress()

        def work() -> None:
            faults = load_embedded(launch.embedded).RuntimeFault
            choice = ctypes.c_int.in_dll(ctypes.CDLL(str(library)), CHOICE)
            for number in range(start, count + 1):
                progress.set(number)
                choice.value = number
                try:
                    other.run(lambda call: call.run())
                except faults:
                    continue
                right[number] = not _outputs(other, binding, within)

        start, deaths = 1, 0
        while start <= count and deaths < _DEATHS:
            progress.set(-1)
            try:
                in_child(work, progress, timeout_s)
                break
            except RunFault:
                start, deaths = max(progress.task, start) + 1, deaths + 1
        return {number for number in range(1, count + 1) if right[number]}


def _compile(launch: Launch, text: str, directory: Path) -> Path | None:
    """Compile the text with the trials. Returns the library, or None if it does not compile."""
    compiler = find_compiler()
    source, library = directory / "trials.cpp", directory / "trials.so"
    source.write_text(text, encoding="utf-8")
    flags = orchestration_flags(compiler, PLATFORMS[launch.platform])
    words = [compiler.path, *flags, "-O0", "-shared", "-I", str(INCLUDE_DIR), str(source), "-o", str(library)]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_COMPILE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return library if done.returncode == 0 else None


def _with_orchestration(launch: Launch, library: Path, directory: Path) -> Launch:
    """Return the same launch with another orchestration. The kernels stay the same."""
    (directory / "kernels").symlink_to((launch.build_dir / "kernels").resolve())
    target = directory / f"{launch.interface.orchestration.binary}.so"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(library)
    return replace(launch, build_dir=directory)
