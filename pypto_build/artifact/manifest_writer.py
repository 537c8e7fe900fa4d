"""Prints a signed manifest: ``kernel_config.py`` with all signatures, and ``CALLABLE`` for simpler's scene tests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .manifest import SIGNED, SIGNED_ROOT, portable_path
from .records import Artifact, Kernel, Orchestration, Signature


class _Code(str):
    """Text that is printed verbatim, not quoted."""


def render_manifest(artifact: Artifact, directory: Path) -> str:
    """Return the text of a manifest for ``artifact``, with source paths relative to ``directory``, where it will lie.

    The text depends only on the artifact and the relative paths (`ways`). Importing it needs simpler, for
    ``ArgDirection``.
    """
    orchestration = _orchestration(artifact.orchestration, artifact.root)
    kernels = [_kernel(kernel, artifact.root) for kernel in artifact.kernels]
    lines = [
        f"{SIGNED}{quoted(artifact.name)[1:-1]}; written by pypto-build, edits are lost.",
        "from pathlib import Path",
        "",
        "from simpler.task_interface import ArgDirection as _D",
        "",
        f"{SIGNED_ROOT} = {_root_expression(artifact.root, directory)}",
        "",
        f"RUNTIME_CONFIG = {_dict(artifact.runtime_config)}",
        "",
        f"ORCHESTRATION = {_dict(orchestration)}",
        "",
        *_list("KERNELS = [", kernels, "]"),
        "",
        "CALLABLE = {",
        f'    "orchestration": {_dict(_incore(orchestration))},',
        *_list('    "incores": [', [_incore(kernel) for kernel in kernels], "    ],", indent="        "),
        "}",
    ]
    return "\n".join(lines) + "\n"


def ways(artifact: Artifact, directory: Path) -> list[str]:
    """Return the paths that such a manifest contains: to the artifact and to its external files."""
    files = [artifact.orchestration.source] if artifact.orchestration.external else []
    for kernel in artifact.kernels:
        files += [kernel.source] if kernel.external else []
        files += kernel.extra_include_dirs
    outside = [portable_path(file, artifact.root) for file in files]
    return [_path_to_root(artifact.root, directory), *dict.fromkeys(outside)]


def _path_to_root(root: Path, directory: Path) -> str:
    return os.path.relpath(os.path.realpath(root), os.path.realpath(directory))


def _root_expression(root: Path, directory: Path) -> str:
    relative = _path_to_root(root, directory)
    here = "Path(__file__).resolve().parent"
    return here if relative == "." else f"({here} / {quoted(Path(relative).as_posix())}).resolve()"


def _orchestration(orchestration: Orchestration, root: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "source": _source(orchestration.source, root),
        "function_name": orchestration.function_name,
        "config_name": orchestration.config_name,
    }
    if orchestration.signature is not None:
        entry["signature"] = _signature(orchestration.signature)
    if orchestration.external:
        entry["external"] = True
    return entry


def _kernel(kernel: Kernel, root: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "func_id": kernel.func_id,
        "name": kernel.name,
        "source": _source(kernel.source, root),
        "core_type": kernel.core_type,
    }
    if kernel.signature is not None:
        entry["signature"] = _signature(kernel.signature)
    if kernel.external:
        entry["external"] = True
    if kernel.extra_include_dirs:
        entry["extra_include_dirs"] = [_source(path, root) for path in kernel.extra_include_dirs]
    return entry


def _incore(kernel: dict[str, Any]) -> dict[str, Any]:
    """Return the kernel's entry for simpler, which has no ``external``."""
    return {key: value for key, value in kernel.items() if key != "external"}


def _source(path: Path, root: Path) -> _Code | str:
    if not path.is_relative_to(root):
        path_text = portable_path(path, root)
        return path_text if os.path.isabs(path_text) else _Code(f"str(({SIGNED_ROOT} / {quoted(path_text)}).resolve())")
    parts = "".join(f" / {quoted(part)}" for part in path.relative_to(root).parts)
    return _Code(f"str({SIGNED_ROOT}{parts})")


def _signature(signature: Signature) -> _Code:
    return _Code(f"[{', '.join(f'_D.{direction.name}' for direction in signature)}]")


def _list(opening: str, entries: list[dict[str, Any]], closing: str, indent: str = "    ") -> list[str]:
    return [opening, *(f"{indent}{_dict(entry)}," for entry in entries), closing]


def _dict(values: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{quoted(key)}: {_literal(value)}" for key, value in values.items()) + "}"


def _literal(value: object) -> str:
    if isinstance(value, _Code):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return _dict(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    return repr(value)


def quoted(text: str) -> str:
    """Return a Python string literal in double quotes, written with JSON's escapes."""
    return json.dumps(text, ensure_ascii=False)
