"""A whole sweep: cases, results, the smallest case that fails, and a summary of the errors."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError, artifact_name
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.pt import write_pt
from pypto_build.artifact.snapshot import is_reference
from pypto_build.diagnose.console import counted, progress, table
from pypto_build.diagnose.extract.write import replacing, require_own
from pypto_build.diagnose.sweep.run import (
    GOLDEN,
    MODULES,
    Distribution,
    Document,
    Result,
    Sweep,
    SweepCase,
    cases,
    chosen_of,
    distribution,
    kinds_of,
    plainness,
    run_all,
    seeds_of,
    sizes_of,
    symbols,
)
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.facts.jobs import FarmJob, FarmResult
from pypto_build.farm.session import job_options, refuse_here, session_of
from pypto_build.replay.reference.launch import open_launch
from pypto_build.replay.tolerances import tolerances

# A sweep on a farm: each job is `pypto-build sweep` of a share of the cases, whose results come back as a file.

_BACK = "share.msgpack"
#: Cases that are not worth a job of their own: building and loading PyTorch take as long.
_FEWEST = 10
#: Shares for each worker, so that the last to end is not long behind the others.
_EACH = 3
_ENDED = (0, 1)  # all pass, some fail


def run_on_farm(
    options: argparse.Namespace, every: Sequence[SweepCase], chosen: Sequence[SweepCase]
) -> Iterator[Result]:
    """The results of the chosen cases of all, as shares of them end. Raises ArtifactError."""
    session = session_of(options)
    assert session is not None
    with session:
        first = every.index(chosen[0])
        bounds = share_bounds(len(chosen), session.workers)
        jobs = [_job(options, f"{first + start + 1}-{first + stop}") for start, stop in pairwise(bounds)]
        for result in session.results(jobs):
            yield from _results(result)


def share_bounds(cases: int, workers: int) -> list[int]:
    """Return the first case of every share, and the end of the last share."""
    count = max(1, min(_EACH * workers, cases // _FEWEST))
    return [cases * number // count for number in range(count + 1)]


def _job(options: argparse.Namespace, cases: str) -> FarmJob:
    assignments = {**job_options(options), "PLATFORM": options.platform, "CASES": cases, "JSON": _BACK}
    assignments |= {"DATA": "reference"} if is_reference(options.data) else {}
    root = os.path.abspath(options.artifact)
    return FarmJob(f"cases {cases}", root, "sweep", assignments, returns=(_BACK,))


def _results(share: FarmResult) -> list[Result]:
    if share.status in _ENDED and _BACK in share.files:
        return msgspec.msgpack.decode(share.files[_BACK], type=Document).cases
    lines = [line for line in share.log.splitlines() if line.strip()]
    error = next((line.removeprefix("sweep: ") for line in lines if line.startswith("sweep: ")), "")
    raise ArtifactError(share.label, error or (lines[-1] if lines else f"ended with status {share.status}"))


_TOLD = 5
_INTERRUPTED = 130  # the exit status, as a shell has it


def sweep(options: argparse.Namespace) -> int:
    """Run the sweep that the options ask for and return the exit status. Raises ArtifactError."""
    by_modules = is_reference(options.data) or not (options.artifact / GOLDEN).is_file()
    data = None if is_reference(options.data) else options.data
    built = options.artifact, options.build_dir, options.embedded, options.platform
    launch = open_launch(*built, data, 0, options.binaries, options.numerics)
    sizes = symbols(launch.interface, launch.binding)
    every = list(cases(seeds_of(options.seeds), kinds_of(options.values), sizes_of(options.shapes, sizes)))
    chosen = chosen_of(options.cases, every)
    root = _scratch_root(options)
    if by_modules and not any(options.artifact.glob("ptoas/**/*.pto")):
        raise ArtifactError(
            options.artifact / "ptoas",
            "contains no .pto modules",
            "add a golden.py, which sweep can use in place of the modules",
        )
    rtol, atol = tolerances(options.artifact, options.rtol, options.atol)
    whole = Sweep(launch, sizes, MODULES if by_modules else GOLDEN, rtol, atol, options.timeout)
    refuse_here(options, DATA=data)
    jobs = options.jobs or os.cpu_count() or 1
    running = run_on_farm(options, every, chosen) if options.scheduler else run_all(whole, chosen, jobs)
    collected, interrupted = _collected(progress(running, "sweeping", len(chosen)))
    results = sorted(collected, key=lambda one: (one.seed, one.sizes))
    failing = [one for one in results if one.failed]
    smallest = min(failing, key=lambda one: plainness(one.case, one.elements), default=None)
    errors = _distributions(results)
    if interrupted:
        print(f"[sweep] interrupted after {len(results)} of {len(chosen)} cases")
    print("\n".join(_lines(whole, results, errors)))
    if options.json:
        names = [symbol.name for symbol in sizes]
        document = Document(options.artifact.name, whole.oracle, rtol, atol, names, errors, smallest, results)
        write_bytes(options.json, _encoded(document, options.json))
    if smallest is not None:
        _keep(whole, smallest.case, root)
        short = shlex.quote(os.path.relpath(root))
        print(f"[sweep] the smallest case that fails, {smallest.case.title}: scons replay JIT={short}")
    return _INTERRUPTED if interrupted else 1 if failing else 0


def _collected(running: Iterator[Result]) -> tuple[list[Result], bool]:
    """Return the results, and whether Ctrl-C ended the cases before the last one."""
    results: list[Result] = []
    try:
        for result in running:
            results.append(result)  # noqa: PERF402 - Ctrl-C keeps those before
    except KeyboardInterrupt:
        return results, True
    return results, False


def _encoded(document: Document, path: Path) -> bytes:
    """JSON has no infinities, MessagePack has."""
    if path.suffix == ".msgpack":
        return msgspec.msgpack.encode(document)
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _scratch_root(options: argparse.Namespace) -> Path:
    where = options.output or Path(os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output")
    root = Path(os.path.abspath(where)) / f"{artifact_name(options.artifact).replace('.', '_')}_sweep"
    require_own(root)
    return root


def _distributions(results: Sequence[Result]) -> list[Distribution]:
    names = dict.fromkeys(output.name for one in results for output in one.outputs)
    distributions = []
    for name in names:
        errors = [output for one in results for output in one.outputs if output.name == name]
        distributions.append(distribution(errors, sum(error.mismatched > 0 for error in errors)))
    return distributions


def _lines(whole: Sweep, results: Sequence[Result], distributions: Sequence[Distribution]) -> Iterator[str]:
    failing = [one for one in results if one.failed]
    unknown = [one for one in results if one.status == "unknown"]
    counts = f"{counted(len(results), 'case')} against {whole.oracle}, {len(failing)} fail"
    yield f"[sweep] {counts}" + (f", {len(unknown)} of which the reference says nothing" if unknown else "")
    for one in failing[:_TOLD]:
        yield f"    {one.case.title}: {_ended(one)}"
    if len(failing) > _TOLD:
        yield f"    {len(failing) - _TOLD} more"
    for one in unknown[:1]:
        yield f"    {one.case.title}: {one.message}"
    rows = [[one.name, *(f"{value:.2g}" for value in (*one.max_abs, *one.max_rel))] for one in distributions]
    if rows:
        yield from table(rows, ["largest error", "50%", "90%", "99%", "max", "relative 50%", "90%", "99%", "max"])
    for output in distributions:
        proposed = "no tolerance" if output.rtol is None else f"RTOL={output.rtol:g} ATOL={output.atol:g}"
        yield f"    {output.name}: {proposed}: {output.reason}"


def _ended(one: Result) -> str:
    wrong = [output for output in one.outputs if output.mismatched]
    parts = [
        f"'{output.name}' differs in {output.mismatched} of {output.numel}, at most by {output.max_abs:.3g}"
        for output in wrong
    ]
    return "; ".join(parts) or one.message


def _keep(whole: Sweep, case: SweepCase, root: Path) -> None:
    """Write the artifact once more, with the data of a case."""
    source = whole.launch.artifact
    binding, expected = whole.data(case)
    origin = {"artifact": str(source), "seed": case.seed, "values": case.kind, "sizes": case.sizes}
    with replacing(root, origin) as written:
        shutil.copytree(source, written, ignore=shutil.ignore_patterns("data", "build", "__pycache__", ".*"))
        for tensor in binding.tensors:
            if tensor.initial is not None and tensor.direction != "OUT":
                write_pt(written / "data/in" / f"{tensor.name}.pt", tensor.dtype, tensor.shape, tensor.initial)
            if tensor.name in expected:
                write_pt(written / "data/out" / f"{tensor.name}.pt", tensor.dtype, tensor.shape, expected[tensor.name])
        for scalar in binding.scalars:
            raw = scalar.bits.to_bytes(8, "little")[: ITEMSIZE[scalar.dtype]]
            write_pt(written / "data/in" / f"{scalar.name}.pt", scalar.dtype, (), raw)
