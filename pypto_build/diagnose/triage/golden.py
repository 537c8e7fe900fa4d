"""Checks that data/out follows from data/in and the reference, by the digests in data/golden.json."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact import Artifact
from pypto_build.artifact.compiled_files import digest_of, read_computed_data
from pypto_build.artifact.files import from_here
from pypto_build.artifact.pt import read_pt
from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.triage.scratch import copy_artifact, make_golden, passes


def golden_findings(artifact: Artifact, build_dir: Path, words: Sequence[str]) -> tuple[list[Finding], str]:
    """Return what was changed since the golden was made; else what it follows from, empty if nothing tells.

    ``words`` are those of a replay.
    """
    root, reference = artifact.root, artifact.root / "golden.py"
    stamp = read_computed_data(root)
    changed = [path for path, digest in sorted(stamp.files.items()) if _digest(root / path) not in ("", digest)]
    changed += ["golden.py"] if stamp.files and _digest(reference) not in ("", stamp.golden) else []
    if not changed and reference.is_file():
        return _run_reference(artifact, build_dir / "triage" / "golden", words)
    if not changed:
        return [], "the golden (it follows from a reference and the inputs)" if stamp.files else ""
    anew = reference.is_file() and _passes_anew(artifact, build_dir / "triage" / "golden", words)
    outputs = [path for path in changed if path.startswith("data/out/")]
    sources = [path for path in changed if path not in outputs]
    says = f"data/out was made from another {' and '.join(sources)}: the golden is stale" if sources else (
        f"{outputs[0]} is not what the reference made"
    )  # fmt: skip
    hint = _make_anew(root) if reference.is_file() else "compile the program again, which makes it anew"
    proved = "; made anew, it passes" if anew else ""
    level: Level = "error" if anew or not reference.is_file() else "warning"
    return [Finding("triage/stale-golden", f"{says}{proved}", changed[0], 0, hint, level)], ""


def _make_anew(root: Path) -> str:
    return f"make it anew: {shlex.join(['python', '-m', 'pypto_build.compiler.golden', from_here(root)])}"


def _passes_anew(artifact: Artifact, scratch: Path, words: Sequence[str]) -> bool:
    place = copy_artifact(artifact, scratch)
    return make_golden(place) and passes(place, scratch, words)


def _run_reference(artifact: Artifact, scratch: Path, words: Sequence[str]) -> tuple[list[Finding], str]:
    """Run golden.py on the inputs in a copy, and compare what it makes with the golden."""
    place = copy_artifact(artifact, scratch)
    if not make_golden(place):
        return [
            Finding("triage/golden", "golden.py fails on data/in", "golden.py", 0, _make_anew(artifact.root), "warning")
        ], ""
    for path in sorted((place / "data" / "out").glob("*.pt")):
        name = f"data/out/{path.name}"
        differs = _difference(artifact.root / name, path)
        if differs:
            right = passes(place, scratch, words)
            says = f"golden.py makes another {name} of data/in: {differs}{'; with that one it passes' if right else ''}"
            level: Level = "error" if right else "warning"
            return [Finding("triage/stale-golden", says, name, 0, _make_anew(artifact.root), level)], ""
    return [], "the golden (it follows from golden.py and the inputs: that was run)"


def _difference(path: Path, made: Path) -> str:
    """Return how many elements of two files differ by more than rounding; empty if none do."""
    if _digest(path) == _digest(made):
        return ""
    from pypto_build.diagnose.diverge.lockstep import Limits, compare_bytes

    one, other = read_pt(path), read_pt(made)
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{other.dtype} {list(other.shape)}, there is {one.dtype} {list(one.shape)}"
    found = compare_bytes(one.data, other.data, one.dtype, Limits(1e-3, 1e-3))
    return f"{found.count} of {found.numel} elements differ" if found else ""


def _digest(path: Path) -> str:
    """The digest of a file; empty if there is none."""
    try:
        return digest_of(path)
    except OSError:
        return ""
