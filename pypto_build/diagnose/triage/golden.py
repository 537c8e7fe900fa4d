"""Checks that data/out follows from data/in and the reference, by the digests in data/golden.json."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pypto_build.artifact import Artifact
from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.triage.scratch import copy_artifact, passes
from pypto_build.toolchain.python import own_tool

_STAMP = "data/golden.json"
_LARGEST = 1 << 34


class _Stamp(msgspec.Struct):
    """Digests of golden.py and of the files of data that the goldens were made from."""

    golden: str
    files: dict[str, str]


def golden_findings(artifact: Artifact, build_dir: Path, words: Sequence[str]) -> tuple[list[Finding], str]:
    """Return what was changed since the golden was made; else what it follows from, empty if nothing tells.

    ``words`` are those of a replay.
    """
    root = artifact.root
    try:
        stamp = decode_json(read_bytes(root / _STAMP), _Stamp)
    except (OSError, msgspec.MsgspecError):
        return [], ""
    reference = root / "golden.py"
    changed = [path for path, digest in sorted(stamp.files.items()) if _digest(root / path) not in ("", digest)]
    changed += ["golden.py"] if _digest(reference) not in ("", stamp.golden) else []
    if not changed:
        return (
            [],
            f"the golden (it follows from {'golden.py' if reference.is_file() else 'a reference'} and the inputs)",
        )
    anew = reference.is_file() and _passes_anew(artifact, build_dir / "triage" / "golden", words)
    outputs = [path for path in changed if path.startswith("data/out/")]
    sources = [path for path in changed if path not in outputs]
    says = f"data/out was made from another {' and '.join(sources)}: the golden is stale" if sources else (
        f"{outputs[0]} is not what the reference made"
    )  # fmt: skip
    command = shlex.join(["python", "-m", "pypto_build.compiler.golden", str(root)])
    hint = f"make it anew: {command}" if reference.is_file() else "compile the program again, which makes it anew"
    proved = "; made anew, it passes" if anew else ""
    level: Level = "error" if anew or not reference.is_file() else "warning"
    return [Finding("triage/stale-golden", f"{says}{proved}", changed[0], 0, hint, level)], ""


def _passes_anew(artifact: Artifact, scratch: Path, words: Sequence[str]) -> bool:
    place = copy_artifact(artifact, scratch)
    made = subprocess.run([*own_tool("pypto_build.compiler.golden"), str(place)], capture_output=True, check=False)
    return made.returncode == 0 and passes(place, scratch, words)


def _digest(path: Path) -> str:
    """The digest of a file; empty if there is none."""
    try:
        return hashlib.sha256(read_bytes(path, _LARGEST)).hexdigest()
    except OSError:
        return ""
