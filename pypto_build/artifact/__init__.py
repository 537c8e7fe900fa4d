"""Artifacts: layout, manifest, signatures, vintages, snapshot.

Importing this package is cheap. The C++ reader (``derive``), the ``.pt`` reader (``pt``) and the signer (``sign``) are
modules of their own, imported where they are used.
"""

from __future__ import annotations

from .errors import ArtifactError, ErrorKind
from .jit import find_artifacts, named_exactly, resolve_jit
from .layout import (
    META_NAME,
    artifact_name,
    find_children,
    is_artifact,
    is_distributed,
    lacks_kernels,
    load_artifact,
    load_artifacts,
    read_meta,
)
from .manifest import MANIFEST_NAME, described_root, read_manifest
from .records import (
    CORE_TYPES,
    ArgDirection,
    Artifact,
    CoreType,
    Kernel,
    Manifest,
    MetaParam,
    Orchestration,
)
from .snapshot import Snapshot, missing_goldens, require_goldens, snapshot
from .vintage import VINTAGES, Vintage, detect_vintage

__all__ = [
    "CORE_TYPES",
    "MANIFEST_NAME",
    "META_NAME",
    "VINTAGES",
    "ArgDirection",
    "Artifact",
    "ArtifactError",
    "CoreType",
    "ErrorKind",
    "Kernel",
    "Manifest",
    "MetaParam",
    "Orchestration",
    "Snapshot",
    "Vintage",
    "artifact_name",
    "described_root",
    "detect_vintage",
    "find_artifacts",
    "find_children",
    "is_artifact",
    "is_distributed",
    "lacks_kernels",
    "load_artifact",
    "load_artifacts",
    "missing_goldens",
    "named_exactly",
    "read_manifest",
    "read_meta",
    "require_goldens",
    "resolve_jit",
    "snapshot",
]
