"""Checks kernels against the rules of the device, before a replay; only kernels whose text changed are checked.

OUT/device_rules.json has the findings, and is an input of the replay. A text that breaks another rule than before, or
none any more, is thus another input, though its object may be the same. OUT/open_rules.json has the kernels with rules
that only a run decides. OUT/.device_rules.json remembers the content of each kernel that was checked.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from pypto_build.artifact.files import read_bytes, write_bytes
from pypto_build.facts.broken_rules import FILE_NAME, OPEN_NAME, BrokenRule
from pypto_build.rules.artifact import ArtifactTargets
from pypto_build.trace import span

_RECORD = f".{FILE_NAME}"
_TICK_NS = 2_000_000_000  # a file that is younger than this when it is looked at may change with the same times
_PACKAGE = Path(__file__).resolve().parents[1]


class _Looked(msgspec.Struct):
    """The last check of a kernel's text: its stamp, its digest, and the broken rules."""

    stamp: tuple[int, ...]
    digest: str
    broken: list[BrokenRule]
    is_open: bool = False


class _Record(msgspec.Struct):
    """All kernels of one OUT; `version` is that of the rules, `seal` the digest of the rest."""

    version: str = ""
    kernels: dict[str, _Looked] = {}
    seal: str = ""

    def sealed(self) -> str:
        return hashlib.sha256(msgspec.json.encode((self.version, self.kernels))).hexdigest()


def note_broken_rules(targets: ArtifactTargets) -> None:
    """Check the kernels whose text changed, and write the findings for the replay."""
    with span("check the device's rules"):
        before = _read(targets.output / _RECORD)
        arch = targets.platform.name.removesuffix("sim")
        record = _Record(_version())
        for name, path in _kernels(targets):
            previous = before.kernels.get(f"{arch} {name}") if before.version == record.version else None
            if looked := _checked(name, path, arch, previous):
                record.kernels[f"{arch} {name}"] = looked
        record.seal = record.sealed()
        if record.seal != before.seal:
            write_bytes(targets.output / _RECORD, msgspec.json.encode(record))
        broken = [rule for looked in record.kernels.values() for rule in looked.broken]
        _leave(targets.output / FILE_NAME, broken)
        open_ = [name.partition(" ")[2] for name, looked in record.kernels.items() if looked.is_open]
        _leave(targets.output / OPEN_NAME, open_)


def _kernels(targets: ArtifactTargets) -> Iterator[tuple[str, Path]]:
    """Yield the compiled kernels by their paths in the artifact, including those of chip programs."""
    for part in (targets, *targets.parts):
        inside = os.path.relpath(part.artifact.root, targets.artifact.root)
        for plan in part.plans:
            if plan.name.startswith("kernels"):
                yield os.path.normpath(os.path.join(inside, _shown(plan.source, part.artifact.root))), plan.compiled


def _shown(source: Path, root: Path) -> str:
    path = os.path.relpath(source, root)
    return str(source) if path.startswith("..") else path


def _checked(name: str, path: Path, arch: str, previous: _Looked | None) -> _Looked | None:
    """Return the result for one kernel, from the record if its text is unchanged; None if its file is missing."""
    with suppress(OSError):
        now = os.stat(path)
        stamp = (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
        if previous is not None and previous.stamp == stamp:
            return previous
        text = read_bytes(path)
        is_settled = time.time_ns() - max(now.st_mtime_ns, now.st_ctime_ns) > _TICK_NS
        digest = hashlib.sha256(text).hexdigest()
        kept = stamp if is_settled else ()
        if previous is not None and previous.digest == digest:
            return _Looked(kept, digest, previous.broken, previous.is_open)
        from pypto_build.device.kernel import check_kernel  # reads the tables of all operations

        broken, calls = check_kernel(text, name, arch)
        return _Looked(kept, digest, broken, bool(calls))
    return None


def _leave(path: Path, broken: list[BrokenRule] | list[str]) -> None:
    """Write the findings or names, unless the file already has them."""
    data = msgspec.json.format(msgspec.json.encode(broken), indent=1) + b"\n"
    with suppress(OSError):
        if read_bytes(path) == data:
            return
    write_bytes(path, data)


def _read(path: Path) -> _Record:
    """Return the recorded kernels; none if the file is damaged."""
    with suppress(OSError, msgspec.MsgspecError):
        record = msgspec.json.decode(read_bytes(path), type=_Record)
        if record.seal == record.sealed():
            return record
    return _Record()


@cache
def _version() -> str:
    """Return a digest of the sources that define and check the rules."""
    sources = [*sorted((_PACKAGE / "device").glob("*.py")), *sorted((_PACKAGE / "pto" / "ops").glob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
