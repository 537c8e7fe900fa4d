"""``interface.json`` (schema 1): all that a replay has to know about an artifact, without reading any C++."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .errors import ArtifactError
from .params import Param, orchestration_signature, parameters
from .records import Artifact, Kernel, Orchestration, Signature, kernel_binary, orchestration_binary
from .vintage import detect_vintage

if TYPE_CHECKING:
    from .derive import Derived

INTERFACE_SCHEMA = 1


class OrchestrationInterface(msgspec.Struct, frozen=True):
    """The orchestration; ``source`` is relative to the artifact."""

    function_name: str
    config_name: str
    source: str

    @property
    def binary(self) -> str:
        """Where it is built below OUT, without a suffix."""
        return orchestration_binary(self.source)


class KernelInterface(msgspec.Struct, frozen=True):
    """One kernel; ``source`` is relative to the artifact unless external, ``signature`` null if never submitted."""

    func_id: int
    name: str
    core_type: str
    source: str
    signature: tuple[str, ...] | None

    @property
    def binary(self) -> str:
        """Where it is built below OUT, without a suffix."""
        return kernel_binary(self.core_type, self.name)


class Interface(msgspec.Struct, frozen=True):
    """The document; field order is the order in the file.

    ``parameter_order`` tells how one array holds all parameters (until 2026-03-28): ``t`` for each tensor, ``s`` for
    each scalar, ``-`` for one that nothing reads; empty where tensors and scalars are apart.
    """

    schema: int
    artifact: str
    vintage: str
    orchestration: OrchestrationInterface
    params: tuple[Param, ...]
    kernels: tuple[KernelInterface, ...]
    block_dim: int | None
    aicpu_thread_num: int | None
    runtime: str
    notes: tuple[str, ...] = ()
    parameter_order: str = ""


class Signed(msgspec.Struct, frozen=True):
    """An artifact whose signatures are all known, as far as the code tells, and its interface."""

    artifact: Artifact
    interface: Interface


def sign(artifact: Artifact) -> Signed:
    """Completes the signatures of ``artifact`` from its orchestration; what the manifest declares stays.

    Raises a usage error for an unknown vintage or an orchestration that does not fit the manifest.
    """
    from .derive import derive  # loads tree-sitter, which a replay that only reads the document does without

    source = artifact.orchestration.source
    vintage = detect_vintage(source.read_text(encoding="utf-8", errors="replace"), source)
    derived = derive(artifact)
    params = parameters(artifact, derived)
    kernels = tuple(_with_signature(kernel, derived) for kernel in artifact.kernels)
    orchestration = msgspec.structs.replace(artifact.orchestration, signature=orchestration_signature(params))
    signed = msgspec.structs.replace(artifact, kernels=kernels, orchestration=orchestration)
    config = artifact.runtime_config
    interface = Interface(
        schema=INTERFACE_SCHEMA,
        artifact=artifact.name,
        vintage=vintage.name,
        orchestration=_orchestration(orchestration, artifact.root),
        params=params,
        kernels=tuple(_kernel(kernel, artifact.root) for kernel in kernels),
        block_dim=config.get("block_dim"),
        aicpu_thread_num=config.get("aicpu_thread_num"),
        runtime=artifact.runtime,
        notes=tuple(note.replace(f"{artifact.root}/", "") for note in derived.notes),
        parameter_order=derived.order,
    )
    return Signed(signed, interface)


def encode_interface(interface: Interface) -> bytes:
    """The bytes of ``interface.json``: indented, one trailing newline, the same for the same interface."""
    return msgspec.json.format(msgspec.json.encode(interface), indent=1) + b"\n"


def read_interface(path: Path) -> Interface:
    """Reads ``interface.json``; a usage error if it is missing or of another schema."""
    try:
        interface = msgspec.json.decode(path.read_bytes(), type=Interface)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "build the artifact first") from None
    except msgspec.MsgspecError as error:
        raise ArtifactError(path, f"not an interface.json: {error}", "build the artifact again") from None
    if interface.schema != INTERFACE_SCHEMA:
        raise ArtifactError(path, f"schema: {interface.schema} is not read, only {INTERFACE_SCHEMA}", "build again")
    return interface


def relative_source(source: Path, root: Path) -> str:
    """``source`` relative to the artifact, or absolute if it lies elsewhere."""
    return source.relative_to(root).as_posix() if source.is_relative_to(root) else str(source)


def _with_signature(kernel: Kernel, derived: Derived) -> Kernel:
    """What the manifest declares, unless the orchestration passes another number of tensors: its code is what runs."""
    submitted = derived.signatures.get(kernel.func_id)
    if kernel.signature is not None and (submitted is None or len(submitted) == len(kernel.signature)):
        return kernel
    return msgspec.structs.replace(kernel, signature=submitted)


def _orchestration(orchestration: Orchestration, root: Path) -> OrchestrationInterface:
    return OrchestrationInterface(
        orchestration.function_name, orchestration.config_name, relative_source(orchestration.source, root)
    )


def _kernel(kernel: Kernel, root: Path) -> KernelInterface:
    return KernelInterface(
        func_id=kernel.func_id,
        name=kernel.name,
        core_type=kernel.core_type,
        source=relative_source(kernel.source, root),
        signature=_names(kernel.signature),
    )


def _names(signature: Signature | None) -> tuple[str, ...] | None:
    return None if signature is None else tuple(direction.name for direction in signature)
