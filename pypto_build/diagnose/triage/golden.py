"""Checks that data/out follows from data/in and the reference, by the digests in data/golden.json."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact import Artifact
from pypto_build.artifact.compiled_files import digest_of, read_computed_data
from pypto_build.artifact.files import from_here
from pypto_build.artifact.pt import read_pt
from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.triage.scratch import compile_program, copy_artifact, make_golden, passes


@dataclass(frozen=True)
class Reference:
    """The script that computes a golden: the artifact's golden.py, or one that the compiler makes from the program."""

    path: Path
    name: str = "golden.py"
    source: str = "golden.py"

    @property
    def is_recorded(self) -> bool:
        """Return whether there is one."""
        return self.path.is_file()


def reference_of(artifact: Artifact, program: Path | None, scratch: Path, flags: Sequence[str]) -> Reference:
    """Return the reference of an artifact. ``flags`` are those to compile the program with."""
    own = Reference(artifact.root / "golden.py")
    if own.is_recorded or program is None or not compile_program(program, scratch, flags):
        return own
    return Reference(scratch / "golden.py", f"the reference of {program.name}", str(program))


def golden_findings(
    artifact: Artifact, build_dir: Path, words: Sequence[str], program: Path | None = None, flags: Sequence[str] = ()
) -> tuple[list[Finding], str]:
    """Return the inputs that changed since the golden was computed, or a sentence that says what the golden follows
    from.

    ``words`` are the options of a replay. ``flags`` are those to compile ``program`` with if there is no golden.py.
    """
    root, scratch = artifact.root, build_dir / "triage" / "golden"
    reference = reference_of(artifact, program, build_dir / "triage" / "reference", flags)
    stamp = read_computed_data(root)
    changed = [path for path, digest in sorted(stamp.files.items()) if _digest(root / path) not in ("", digest)]
    changed += [reference.source] if stamp.files and _digest(reference.path) not in ("", stamp.golden) else []
    if not changed and reference.is_recorded:
        return _run_reference(artifact, reference, scratch, words)
    if not changed:
        return [], "the golden (it follows from a reference and the inputs)" if stamp.files else ""
    anew = reference.is_recorded and _passes_anew(artifact, reference, scratch, words)
    outputs = [path for path in changed if path.startswith("data/out/")]
    sources = [path for path in changed if path not in outputs]
    says = (
        f"data/out was computed from other contents of {' and '.join(sources)}: "
        f"the golden is stale"
    ) if sources else (
        f"{outputs[0]} is not what the reference computed"
    )  # fmt: skip
    proved = "; made anew, it passes" if anew else ""
    level: Level = "error" if anew or not reference.is_recorded else "warning"
    return [Finding("triage/stale-golden", f"{says}{proved}", changed[0], 0, _make_anew(root), level)], ""


def _make_anew(root: Path) -> str:
    if not (root / "golden.py").is_file():
        return "compile the program again, which makes it anew"
    return f"make it anew: {shlex.join(['python', '-m', 'pypto_build.compiler.golden', from_here(root)])}"


def _computed(artifact: Artifact, reference: Reference, scratch: Path) -> Path | None:
    """Return a copy of the artifact with the golden that the reference makes; None if it fails."""
    copy = copy_artifact(artifact, scratch)
    if reference.path.parent != artifact.root:
        shutil.copyfile(reference.path, copy / "golden.py")
    return copy if make_golden(copy) else None


def _passes_anew(artifact: Artifact, reference: Reference, scratch: Path, words: Sequence[str]) -> bool:
    copy = _computed(artifact, reference, scratch)
    return copy is not None and passes(copy, scratch, words)


def _run_reference(
    artifact: Artifact, reference: Reference, scratch: Path, words: Sequence[str]
) -> tuple[list[Finding], str]:
    """Run the reference on the inputs in a copy, and compare its outputs with the golden."""
    copy, hint = _computed(artifact, reference, scratch), _make_anew(artifact.root)
    if copy is None:
        says = f"{reference.name} fails on data/in"
        return [Finding("triage/golden", says, reference.source, 0, hint, "warning")], ""
    for path in sorted((copy / "data" / "out").glob("*.pt")):
        name = f"data/out/{path.name}"
        differs = _difference(artifact.root / name, path)
        if differs:
            right = passes(copy, scratch, words)
            says = f"{reference.name} computes another {name} from data/in: {differs}"
            says += "; with that one it passes" if right else ""
            level: Level = "error" if right else "warning"
            return [Finding("triage/stale-golden", says, name, 0, hint, level)], ""
    return [], f"the golden (it follows from {reference.name} and the inputs: that was run)"


def _difference(path: Path, made: Path) -> str:
    """Return how many elements of two files differ by more than rounding; empty if none do."""
    if _digest(path) == _digest(made):
        return ""
    from pypto_build.diagnose.diverge.lockstep import Limits, compare_bytes

    one, other = read_pt(path), read_pt(made)
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{other.dtype} {list(other.shape)}, there is {one.dtype} {list(one.shape)}"
    difference = compare_bytes(one.data, other.data, one.dtype, Limits(1e-3, 1e-3))
    return f"{difference.count} of {difference.numel} elements differ" if difference else ""


def _digest(path: Path) -> str:
    """Return the digest of a file, or an empty text if there is no file."""
    try:
        return digest_of(path)
    except OSError:
        return ""
