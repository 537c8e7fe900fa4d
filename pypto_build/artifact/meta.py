"""Reads ``compiled_meta.json`` (schema 1): the program's parameters as the compiler declared them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from pypto_build.facts.dtypes import torch_name

from .errors import ArtifactError
from .files import decode_json, read_bytes
from .records import ArgDirection, CompiledMeta, MetaParam
from .shapes import Extent, fits_memory

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
    """The description of a program, of one chip or of several."""

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
        raise ArtifactError(path, f"not a compiled_meta.json: {error}", _WAY_OUT) from None
    if document.schema != _SCHEMA:
        raise ArtifactError(path, f"schema: {document.schema} is not read, only {_SCHEMA}", _WAY_OUT)
    return CompiledMeta(read_params(path, document.params), document.platform, document.backend_type)


def read_params(path: Path, documents: Sequence[ParamDocument]) -> tuple[MetaParam, ...]:
    """The parameters in the metadata at ``path``. Raises a usage error naming the first that can be none."""
    params: list[MetaParam] = []
    for position, param in enumerate(documents):
        if not param.name.isidentifier():  # names become file names
            raise ArtifactError(path, f"params[{position}].name: {param.name!r} is not a parameter name", _WAY_OUT)
        try:
            direction = ArgDirection[param.direction.upper()]
        except KeyError:
            raise ArtifactError(
                path, f"params[{position}].direction: unknown {param.direction!r}", "one of In, Out, InOut"
            ) from None
        if param.shape is not None and not fits_memory(param.shape):
            raise ArtifactError(path, f"params[{position}].shape: {param.shape} fits no memory", _WAY_OUT)
        shape = None if param.shape is None else tuple(param.shape)
        params.append(MetaParam(param.name, direction, shape, torch_name(param.dtype), param.kind))
    return tuple(params)
