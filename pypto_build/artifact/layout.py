"""Reads an artifact directory: what kind of build it is, its manifest, its metadata, its sub-builds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from pypto_build.facts.dtypes import torch_name

from .errors import ArtifactError
from .files import decode_json, read_bytes
from .manifest import MANIFEST_NAME, Evaluated, named_kernels, read_manifest
from .records import ArgDirection, Artifact, CompiledMeta, MetaParam
from .shapes import Extent, fits_memory

# Reads ``compiled_meta.json`` (schema 1): the program's parameters as the compiler declared them.

META_NAME = "compiled_meta.json"
_SCHEMA = 1
_WAY_OUT = "compile again, or remove the file to do without it"


class ParamDocument(msgspec.Struct):
    """A parameter as the compiler writes it."""

    name: str
    direction: str
    shape: list[Extent] | None
    dtype: str
    kind: Literal["", "tensor", "scalar"] = ""


class MetaDocument(msgspec.Struct):
    """The description of a program, for one chip or for several."""

    schema: int
    params: list[ParamDocument]
    platform: str | None = None
    backend_type: str | None = None


def read_meta(path: Path) -> CompiledMeta | None:
    """Return the metadata at ``path``; ``None`` without the file. Raises a usage error if it is not schema 1."""
    try:
        document = decode_json(read_bytes(path), MetaDocument)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", _WAY_OUT) from None
    except msgspec.MsgspecError as error:
        raise ArtifactError(path, f"is not a valid compiled_meta.json: {error}", _WAY_OUT) from None
    if document.schema != _SCHEMA:
        raise ArtifactError(path, f"schema: version {document.schema} is not supported, only {_SCHEMA}", _WAY_OUT)
    return CompiledMeta(read_params(path, document.params), document.platform, document.backend_type)


def read_params(path: Path, documents: Sequence[ParamDocument]) -> tuple[MetaParam, ...]:
    """Return the parameters in the metadata at ``path``. Raises a usage error naming the first invalid parameter."""
    params: list[MetaParam] = []
    for position, param in enumerate(documents):
        if not param.name.isidentifier():  # names become file names
            raise ArtifactError(
                path, f"params[{position}].name: {param.name!r} is not a valid parameter name", _WAY_OUT
            )
        try:
            direction = ArgDirection[param.direction.upper()]
        except KeyError:
            raise ArtifactError(
                path,
                f"params[{position}].direction: {param.direction!r} is not a direction",
                "use one of In, Out, InOut",
            ) from None
        if param.shape is not None and not fits_memory(param.shape):
            raise ArtifactError(path, f"params[{position}].shape: {param.shape} does not fit into memory", _WAY_OUT)
        shape = None if param.shape is None else tuple(param.shape)
        params.append(MetaParam(param.name, direction, shape, torch_name(param.dtype), param.kind))
    return tuple(params)


CHILDREN_DIR = "next_levels"
#: The host driver of a distributed artifact.
DRIVER = "orchestration/host_orch.py"
#: The directory of its host callables.
SUB_WORKERS = "sub_workers"
#: The compiler's list of functions that it could not generate code for.
CODEGEN_ERRORS = "report/codegen_errors.txt"


def load_artifact(path: str | Path, evaluated: Evaluated | None = None) -> Artifact:
    """Return the artifact at directory ``path``, or with the manifest ``path``.

    Raises a usage error, one line naming file and field, for any other directory. Examples are a distributed build, one
    compiled without ptoas, several orchestrations (each is an artifact), or a faulty manifest.
    """
    root = artifact_root(path)
    manifest_path = root / MANIFEST_NAME
    if not manifest_path.is_file():
        raise _not_loadable(root)
    try:
        manifest = read_manifest(manifest_path, root, evaluated)
    except ArtifactError as error:
        if not refused_kernels(root):
            raise
        hint = (
            f"the reason is in {CODEGEN_ERRORS}; if ptoas/ has the kernel's .pto module, replay "
            "assembles the kernel from it"
        )
        raise ArtifactError(error.path, error.message, hint) from None
    return Artifact(
        root=root,
        name=artifact_name(root),
        kernels=manifest.kernels,
        orchestration=manifest.orchestration,
        runtime_config=manifest.runtime_config,
        meta=read_meta(root / META_NAME),
        children=find_children(root),
    )


def load_artifacts(path: str | Path, evaluated: Evaluated | None = None) -> tuple[Artifact, ...]:
    """Return the artifact at ``path``; for a multi-orchestration build, return all its sub-builds."""
    root = artifact_root(path)
    if not (root / MANIFEST_NAME).is_file() and not is_distributed(root):
        children = find_children(root)
        if children:
            return tuple(load_artifact(child, evaluated) for child in children)
    return (load_artifact(root, evaluated),)


def artifact_root(path: str | Path) -> Path:
    """Return the artifact's directory as an absolute path; links are kept, so that names stay as the user wrote
    them.
    """
    root = Path(os.path.abspath(path))
    return root.parent if root.name == MANIFEST_NAME else root


def artifact_name(root: Path) -> str:
    """Return the directory's name; for a sub-build, ``parent.child``."""
    if root.parent.name == CHILDREN_DIR:
        return f"{root.parent.parent.name}.{root.name}"
    return root.name


def find_children(root: Path) -> tuple[Path, ...]:
    """Return the sub-builds under ``next_levels/``, by name."""
    places = root.glob(f"{CHILDREN_DIR}/*/")
    return tuple(
        sorted(directory for directory in places if (directory / MANIFEST_NAME).is_file() or lacks_kernels(directory))
    )


def is_artifact(path: Path) -> bool:
    """Return whether ``path`` looks like the compiler's output, loadable or not."""
    return (path / MANIFEST_NAME).is_file() or bool(find_children(path)) or is_distributed(path) or lacks_kernels(path)


def is_distributed(root: Path) -> bool:
    """Return whether ``root`` is a distributed (L3) build: a Python host driver without a manifest."""
    return not (root / MANIFEST_NAME).is_file() and (root / DRIVER).is_file()


def lacks_kernels(root: Path) -> bool:
    """Return whether ``root`` lacks C++ kernels.

    Either the compiler ran without ptoas (skip_ptoas) and wrote `.pto` modules alone, or ptoas rejected modules of
    kernels in the manifest.
    """
    kernels = root / "kernels"
    if any(kernels.rglob("*.pto")) and not any(kernels.rglob("*.cpp")):
        return True
    return any((root / "ptoas").glob("*.pto")) and bool(refused_kernels(root))


def refused_kernels(root: Path) -> list[Path]:
    """Return the C++ files that the manifest names and that do not exist because ptoas rejected their modules."""
    manifest = root / MANIFEST_NAME
    if not (root / CODEGEN_ERRORS).is_file() or not manifest.is_file():
        return []
    return [path for path in named_kernels(manifest) if not path.exists()]


def _not_loadable(root: Path) -> ArtifactError:
    if not root.exists():
        return ArtifactError(root, "no such directory", "give the directory the compiler wrote")
    if not root.is_dir():
        return ArtifactError(root, "not a directory", "give the directory the compiler wrote")
    children = ", ".join(f"{CHILDREN_DIR}/{child.name}" for child in find_children(root))
    if is_distributed(root):
        hint = f"name one of the chip programs in it: {children}" if children else ""
        return ArtifactError(
            root, "distributed: several chips, driven by orchestration/host_orch.py, and this looks at one", hint
        )
    if children:
        return ArtifactError(root, "holds several orchestrations and none of its own", f"pick one of {children}")
    if lacks_kernels(root):
        return ArtifactError(
            root,
            f"compiled without ptoas (skip_ptoas): kernels/ holds .pto files and there is no {MANIFEST_NAME}",
            "'scons build' completes it below build/, 'scons splice WRITE=1' in place",
        )
    failures = root / CODEGEN_ERRORS
    if failures.is_file():
        return ArtifactError(root, f"its compilation failed: there is no {MANIFEST_NAME}", f"see {failures}")
    return ArtifactError(root, f"not an artifact: there is no {MANIFEST_NAME}", "give the directory the compiler wrote")
