"""Chains that `why` has found, kept for the report: OUT/why/chains.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import decode_json, read_bytes, write_bytes
from pypto_build.diagnose.findings import state_of
from pypto_build.diagnose.why.links import Link

_LARGEST, _MOST = 64 << 20, 200


class KeptChain(msgspec.Struct):
    """The chain of one element of an output."""

    output: str
    index: list[Annotated[int, msgspec.Meta(ge=0)]]
    link: Link


class _Document(msgspec.Struct):
    state: str
    chains: list[KeptChain]


def keep(build_dir: Path, root: Path, chains: Sequence[KeptChain]) -> None:
    """Add chains to those that hold for the artifact as it is now; the latest of an element counts."""
    state = state_of(root)
    try:
        known = read_kept(build_dir, root)
    except ArtifactError:
        known = []
    by_element = {(one.output, tuple(one.index)): one for one in (*known, *chains)}
    document = _Document(state, list(by_element.values())[-_MOST:])
    write_bytes(_path(build_dir), msgspec.json.encode(document))


def read_kept(build_dir: Path, root: Path) -> list[KeptChain]:
    """The chains that hold for the artifact as it is now. Raises ArtifactError for a file that `why` has not left."""
    path = _path(build_dir)
    if not path.exists():
        return []
    try:
        document = decode_json(read_bytes(path, _LARGEST), _Document)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "remove it") from None
    except msgspec.MsgspecError as error:
        raise ArtifactError(path, f"holds no chains: {error}", "remove it") from None
    return document.chains if document.state == state_of(root) else []


def _path(build_dir: Path) -> Path:
    return build_dir / "why" / "chains.json"
