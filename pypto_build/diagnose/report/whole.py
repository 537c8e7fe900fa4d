"""Parts of the page besides the tasks: verdict with error maps, findings, sources, environment and commands."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from pypto_build.artifact import Artifact, ArtifactError, is_distributed, load_artifact, snapshot
from pypto_build.artifact.distributed import load_distributed
from pypto_build.artifact.files import read_source
from pypto_build.artifact.interface import relative_source
from pypto_build.artifact.pt import read_pt
from pypto_build.artifact.snapshot import REFERENCE, is_reference
from pypto_build.diagnose.findings import Finding, Report, in_order, kept_reports, position_text, state_of
from pypto_build.diagnose.lint.__main__ import lint
from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.diagnose.recorded.ranks import RanksRun
from pypto_build.diagnose.repeat import Repeat
from pypto_build.diagnose.report.collect import graph_data, timeline_data
from pypto_build.diagnose.report.predicted import predicted_data
from pypto_build.diagnose.report.ranks import ranks_data, ranks_facts
from pypto_build.diagnose.report.surroundings import environment
from pypto_build.diagnose.why.kept import lines_of, read_kept
from pypto_build.replay.values import Array, decode, is_float, storage
from pypto_build.replay.verdict import OutputResult, Verdict

# Error map of a tensor: a small picture with one byte a cell, for the worst element of the cell.
# A tensor is shown as a matrix: the last dimension across, all others down (one dimension is wrapped into rows).
# Cells hold equally many elements. The byte is 0 if all elements are equal, and up to 63 within the tolerance. It is
# 64 to 254 outside, on a logarithmic scale up to a million times the tolerance. It is 255 if one side is not a
# finite number.

_MAX_ROWS, _MAX_COLUMNS = 192, 256
_WITHIN, _OUTSIDE, _NOT_FINITE = 63, 64, 255
_DECADES = 6.0
_CHUNK = 1 << 22
#: Elements of a tensor whose values are told cell by cell.
_MOST_VALUES = 1 << 14


@dataclass(frozen=True)
class ErrorMap:
    """One byte a cell; a cell covers `row_step` x `column_step` elements of a matrix `height` x `width`."""

    height: int
    width: int
    row_step: int
    column_step: int
    levels: npt.NDArray[np.uint8]
    values: tuple[bytes, bytes] | None = None  # of small tensors: actual and expected as float32

    def as_data(self) -> dict[str, Any]:
        """For the page's script."""
        rows, columns = self.levels.shape
        return {
            "height": self.height,
            "width": self.width,
            "rowStep": self.row_step,
            "columnStep": self.column_step,
            "rows": rows,
            "columns": columns,
            "levels": base64.b64encode(self.levels.tobytes()).decode(),
            "values": [base64.b64encode(side).decode() for side in self.values or ()],
        }


def error_map(actual: Array, expected: Array, dtype: str, rtol: float, atol: float) -> ErrorMap | None:
    """Return the picture for decoded values of equal shape, or None for a tensor without elements."""
    if actual.size == 0:
        return None
    height, width = matrix_shape(actual.shape)
    row_step, column_step = -(-height // _MAX_ROWS), -(-width // _MAX_COLUMNS)
    rows, columns = -(-height // row_step), -(-width // column_step)
    levels = np.zeros((rows, columns), dtype=np.uint8)
    flat_a, flat_e = actual.reshape(-1), expected.reshape(-1)
    at_once = max(1, _CHUNK // (row_step * width))
    for first in range(0, rows, at_once):
        last = min(first + at_once, rows)
        part = slice(first * row_step * width, min(last * row_step * width, flat_a.size))
        levels_of_part = _levels(flat_a[part], flat_e[part], dtype, rtol, atol)
        padded = np.zeros((last - first) * row_step * width, dtype=np.uint8)
        padded[: levels_of_part.size] = levels_of_part
        wide = np.zeros((last - first, row_step, columns * column_step), dtype=np.uint8)
        wide[:, :, :width] = padded.reshape(last - first, row_step, width)
        levels[first:last] = wide.reshape(last - first, row_step, columns, column_step).max(axis=(1, 3))
    values = None
    if row_step == column_step == 1 and actual.size <= _MOST_VALUES:
        values = flat_a.astype("<f4").tobytes(), flat_e.astype("<f4").tobytes()
    return ErrorMap(height, width, row_step, column_step, levels, values)


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns under which a tensor of any rank is shown."""
    numel = math.prod(shape)
    width = shape[-1] if len(shape) > 1 else min(numel, max(1, math.isqrt(numel - 1) + 1))
    return -(-numel // width), width


@np.errstate(all="ignore")
def _levels(actual: Array, expected: Array, dtype: str, rtol: float, atol: float) -> npt.NDArray[np.uint8]:
    if not is_float(dtype):
        return np.asarray((actual != expected) * (_NOT_FINITE - 1), dtype=np.uint8)
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    delta, bound = np.abs(a - e), atol + rtol * np.abs(e)
    same = a == e
    ratio = np.where(same, 0.0, delta / np.where(bound > 0, bound, 1e-300))
    within = 1 + np.floor(ratio * (_WITHIN - 1))
    span = _NOT_FINITE - 1 - _OUTSIDE
    outside = _OUTSIDE + np.clip(np.floor(np.log10(np.maximum(ratio, 1.0)) / _DECADES * span), 0, span)
    levels = np.where(same, 0.0, np.where(ratio <= 1, within, outside))
    levels = np.where(np.isfinite(delta) | same, levels, float(_NOT_FINITE))
    return np.asarray(levels, dtype=np.uint8)


#: Lines of source before and after the one of the cause.
_AROUND = 2
#: `(kernels/aiv/x.cpp:12)` in a stack frame of a crash.
_FRAME_PLACE = re.compile(r"#\d+ (?P<symbol>.*?) \((?P<path>[^()]+):(?P<line>\d+)\)")


def report_data(
    evidence: Evidence, data_dir: Path | None, repeat: Repeat, embedded: str, chips: Sequence[str] = ()
) -> dict[str, Any]:
    """All that the page shows. `chips` are the flags of a distributed artifact's programs."""
    verdict = evidence.verdict
    assert verdict is not None and evidence.build_dir is not None
    reports, outdated = current_reports(evidence)
    findings = in_order(
        [*(one for report in reports for one in report.findings), *lint(evidence.root, evidence.platform)]
    )
    run = RanksRun(evidence.root, evidence.build_dir, evidence.platform) if is_distributed(evidence.root) else None
    sources = source_data(evidence.root, listed(evidence), findings, verdict)
    graph = graph_data(evidence, findings)
    return {
        "artifact": verdict.artifact,
        "facts": [*(ranks_facts(run) if run else []), *facts(verdict)],
        "verdict": verdict_data(evidence, verdict, data_dir),
        "cause": cause_data(evidence.root, reports, findings, sources),
        "findings": [finding_data(finding, sources) for finding in findings],
        "findingsNote": looked(reports, outdated, bool(findings)),
        "ranks": ranks_data(run) if run and run.recorded else None,
        "graph": graph,
        "timeline": timeline_data(evidence),
        "predicted": predicted_data(evidence.build_dir, state_of(evidence.root), graph),
        "sources": sources,
        "environment": environment(evidence, data_dir),
        "why": "" if run else repeat.scons("why", evidence.root.resolve(), evidence.platform),
        "commands": commands(evidence, verdict, repeat, embedded, chips),
    }


def current_reports(evidence: Evidence) -> tuple[list[Report], list[str]]:
    """Return the reports on the artifact as it is now, and the names of tools that ran before its last edit."""
    assert evidence.build_dir is not None
    state = state_of(evidence.root)
    reports = kept_reports(evidence.build_dir)
    current = [report for report in reports if report.state in ("", state)]
    outdated = [report.tool for report in reports if report.state not in ("", state)]
    return current, outdated


def cause_data(
    root: Path, reports: Sequence[Report], findings: Sequence[Finding], sources: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return the first answer of triage, else the worst finding, with the source around it; None without an error."""
    of_triage = next((report.findings for report in reports if report.tool == "triage" and report.findings), ())
    first = next((finding for finding in [*of_triage, *findings] if finding.level == "error"), None)
    if first is None:
        return None
    shown = finding_data(first, sources)
    path = root / first.path
    lines = read_source(path).splitlines() if first.line and path.is_file() else []
    begin = max(first.line - 1 - _AROUND, 0)
    excerpt = dedent("\n".join(lines[begin : first.line + _AROUND])).split("\n")  # narrow screens show the code
    shown["excerpt"] = list(enumerate(excerpt, begin + 1))
    shown["triaged"] = bool(of_triage)
    return shown


def looked(reports: Sequence[Report], outdated: Sequence[str], has_findings: bool) -> str:
    """Return a text with the tools that ran on the artifact, those to run again, and those not run."""
    tools = {"lint", *(report.tool for report in reports)}
    sentences = [f"Looked at by {', '.join(sorted(tools))}" + ("." if has_findings else ", without a finding.")]
    sentences += [f"{', '.join(outdated)} looked before the last edit: run again."] if outdated else []
    more = [tool for tool in ("hazards", "flaky") if tool not in tools and tool not in outdated]
    sentences += [f"Not run: {', '.join(f'scons {tool}' for tool in more)}."] if more else []
    return " ".join(sentences)


def facts(verdict: Verdict) -> list[list[str]]:
    """Return the names and values that are shown under the heading."""
    rows = [["platform", verdict.platform], ["runtime", verdict.runtime], ["tasks", str(verdict.tasks)]]
    rows += [["run", f"{verdict.run_s * 1e3:.2f} ms"]] if verdict.run_s else []
    rows += [["rounds", str(verdict.rounds)]] if verdict.rounds > 1 else []
    rows += [["tolerance", f"rtol {verdict.rtol:g}, atol {verdict.atol:g}"]]
    rows += [["seed", str(verdict.seed)]] if verdict.seed is not None else []
    return rows


def verdict_data(evidence: Evidence, verdict: Verdict, data_dir: Path | None) -> dict[str, Any]:
    """Status, error, and each output with its map."""
    return {
        "status": verdict.status,
        "error": None if verdict.error is None else msgspec.to_builtins(verdict.error),
        "outputs": [_output(evidence, output, verdict, data_dir) for output in verdict.outputs],
    }


def maxima(output: OutputResult) -> str:
    """Return the largest errors; empty if no element that differs is finite on both sides."""
    return f" · max abs {output.max_abs:.4g} · max rel {output.max_rel:.4g}" if output.max_abs else ""


def _output(evidence: Evidence, output: OutputResult, verdict: Verdict, data_dir: Path | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": output.name,
        "status": output.status,
        "shape": output.shape,
        "dtype": output.dtype,
        "numel": f"{output.numel:,}",
        "mismatched": f"{output.mismatched:,}",
        "maxima": maxima(output),
        "hints": [*([output.detail] if output.detail else []), *output.hints],
        "first": [msgspec.to_builtins(one) for one in output.first],
        "exact": not is_float(output.dtype),
        "map": None,
        "chains": _chains(evidence, output.name),
    }
    sides = _sides(evidence, output, data_dir)
    if sides is not None:
        errors = error_map(*sides, output.dtype, verdict.rtol, verdict.atol)
        shown["map"] = errors.as_data() if errors else None
    return shown


def _chains(evidence: Evidence, name: str) -> list[dict[str, Any]]:
    """Return the chains that `why` kept for elements of an output: the index, and the chain as lines."""
    if evidence.build_dir is None:
        return []
    try:
        kept = read_kept(evidence.build_dir, evidence.root)
    except ArtifactError:  # the report is of the run, and says what else there is
        return []
    return [{"index": one.index, "lines": list(lines_of(one.link))} for one in kept if one.output == name]


def _sides(evidence: Evidence, output: OutputResult, data_dir: Path | None) -> tuple[Array, Array] | None:
    """Return the computed and the expected output, decoded; None if either is missing or of another type."""
    if evidence.build_dir is None or output.status == "unchecked":
        return None
    try:
        golden_dir = evidence.build_dir / REFERENCE if is_reference(data_dir) else data_dir
        golden = snapshot(evidence.root, golden_dir).outputs.get(output.name)
        paths = [evidence.build_dir / "actual" / f"{output.name}.pt", golden]
        tensors = [read_pt(path) for path in paths if path is not None and path.is_file()]
    except ArtifactError:
        return None
    if len(tensors) != 2 or any(tensor.dtype != output.dtype for tensor in tensors):
        return None
    shape = tuple(output.shape)
    actual, expected = (decode(storage(t.contiguous(), t.dtype, shape), t.dtype) for t in tensors)
    return actual, expected


# -- sources -------------------------------------------------------------------------------------------------------


def source_data(
    root: Path, listed: Mapping[Path, str], findings: Sequence[Finding], verdict: Verdict
) -> list[dict[str, Any]]:
    """Return the `listed` sources of the artifact in `root`, and further sources that findings point at. Sources with
    marks come first.
    """
    marks = _marks(root, findings, verdict)
    listed = {**listed, **{path: "" for path in marks if path not in listed}}
    sources = [
        {
            "path": relative_source(path, root),
            "about": about,
            "text": path.read_text(encoding="utf-8", errors="replace"),
            "marks": [{"line": line, "text": text} for line, text in marks.get(path, ())],
        }
        for path, about in listed.items()
        if path.is_file()
    ]
    return sorted(sources, key=lambda source: not source["marks"])


def listed(evidence: Evidence) -> dict[Path, str]:
    """Return the sources of an artifact, each with its kind, or an empty list if the artifact cannot be read."""
    if not is_distributed(evidence.root):
        return _of_one_chip(evidence.artifact) if evidence.artifact else {}
    whole = load_distributed(evidence.root)
    titles = {whole.driver: "host driver", **dict.fromkeys(whole.sub_workers.values(), "host callable")}
    for name, chip in whole.chips.items():
        with suppress(ArtifactError):  # lint says what is wrong with it
            titles |= {path: f"{name}: {about}" for path, about in _of_one_chip(load_artifact(chip)).items()}
    return titles


def _of_one_chip(artifact: Artifact) -> dict[Path, str]:
    kernels = {kernel.source: f"kernel {kernel.func_id}, {kernel.core_type}" for kernel in artifact.kernels}
    return {artifact.orchestration.source: "orchestration", **kernels, artifact.manifest_path: "manifest"}


def _marks(root: Path, findings: Sequence[Finding], verdict: Verdict) -> dict[Path, list[tuple[int, str]]]:
    marks: dict[Path, list[tuple[int, str]]] = {}
    for finding in findings:
        if finding.path and finding.line:
            marks.setdefault(root / finding.path, []).append((finding.line, finding.message))
    for text in verdict.error.detail if verdict.error else ():
        frame = _FRAME_PLACE.match(text)
        path = Path(frame["path"]) if frame else None
        if frame and path and path.is_file() and (path.is_relative_to(root) or "runtime" not in path.parts):
            marks.setdefault(path, []).append((int(frame["line"]), f"{frame['symbol']}: {verdict.error.kind}"))  # type: ignore[union-attr]
    return marks


def finding_data(finding: Finding, sources: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One finding, with the place of its file in `sources`."""
    paths = [source["path"] for source in sources]
    return {
        "level": finding.level,
        "rule": finding.rule,
        "message": finding.message,
        "place": finding.position,
        "source": paths.index(finding.path) if finding.path in paths else -1,
        "line": finding.line,
        "hint": finding.hint,
        "detail": [*finding.detail, *(f"{position_text(o.path, o.line)}: {o.message}" for o in finding.related)],
        "edits": [{"place": position_text(e.path, e.line), "old": e.old, "new": e.new} for e in finding.edits],
    }


# -- commands ------------------------------------------------------------------------------------------------------


def commands(
    evidence: Evidence, verdict: Verdict, repeat: Repeat, embedded: str, chips: Sequence[str] = ()
) -> list[list[str]]:
    """Return titled commands that repeat the run or examine it; `chips` as `Repeat.direct` takes them."""
    assert evidence.build_dir is not None
    root, platform, out = evidence.root.resolve(), evidence.platform, evidence.build_dir.resolve()
    rows = [
        ["The same replay", repeat.scons("replay", root, platform)],
        ["The run alone, on what is built", repeat.direct(root, platform, out, embedded, chips)],
    ]
    if verdict.status == "mismatch":
        rows.append(["Why: the instruments in turn, one answer", repeat.scons("triage", root, platform)])
        rows.append(["Unordered or misdeclared accesses", repeat.scons("hazards", root, platform)])
        rows.append(["The first task that leaves the reference", repeat.scons("diverge", root, platform)])
        rows.append(["What every task read and wrote", repeat.scons("dump", root, platform)])
    rows.append(["All of it in one archive, to replay elsewhere", repeat.scons("pack", root, platform)])
    return rows
