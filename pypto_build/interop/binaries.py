"""The binaries of a replay on simpler: finds them, and checks that simpler can load them.

A binary that was built against other headers, for another machine, or not at all would otherwise fail inside a run, or
give wrong numbers.
"""

from __future__ import annotations

import platform as machine
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.interface import Interface
from pypto_build.facts.platforms import HOST_GRAPH, PLATFORMS
from pypto_build.toolchain.elf import AARCH64, MACHINES, X86_64, Elf, ElfError, extract_text, read_elf

_Problems = Callable[[Elf, str, bool], Iterator[str]]
#: Symbols that exist only in binaries for the embedded runtime.
_EMBEDDED = ("pypto_bind_core", "pypto_bind_orchestration")
#: The function in simpler's own part of an orchestration that receives the runtime.
_BOUND = "framework_bind_runtime"


@dataclass(frozen=True)
class Binaries:
    """The binary files: kernels by ``func_id``, and the orchestration."""

    kernels: dict[int, Path]
    orchestration: Path


def built(interface: Interface, directory: Path, platform: str) -> Binaries:
    """Return the binaries that the rules put below ``directory``."""
    suffix = ".so" if PLATFORMS[platform].simulated else ".bin"
    kernels = {kernel.func_id: directory / f"{kernel.binary}{suffix}" for kernel in interface.kernels}
    return Binaries(kernels, directory / f"{interface.orchestration.binary}.so")


def beside_sources(artifact_dir: Path, platform: str) -> Binaries:
    """Return the binaries beside the artifact's own sources, where PyPTO puts them."""
    artifact = load_artifact(artifact_dir)
    suffix = ".so" if PLATFORMS[platform].simulated else ".o"
    kernels = {kernel.func_id: kernel.source.with_suffix(suffix) for kernel in artifact.kernels}
    return Binaries(kernels, artifact.orchestration.source.with_suffix(".so"))


def binaries_of(interface: Interface, root: Path, directory: Path, platform: str, skip_compile: bool) -> Binaries:
    """Return the checked binaries below ``directory``, or with ``skip_compile`` those beside the sources in
    ``root``."""
    binaries = beside_sources(root, platform) if skip_compile else built(interface, directory, platform)
    check_binaries(binaries, interface, platform)
    return binaries


def check_binaries(binaries: Binaries, interface: Interface, platform: str) -> None:
    """Raise a build error that names the first file which is missing, or which this platform cannot load."""
    simulated = PLATFORMS[platform].simulated
    for path in binaries.kernels.values():
        if path.suffix != ".bin":
            _check(path, _kernel_problem, platform, simulated)
        elif not path.is_file():
            raise _error(path, "is missing")
    on_host = simulated or interface.runtime == HOST_GRAPH
    _check(binaries.orchestration, _orchestration_problem, platform, on_host)


def _check(path: Path, problem_of: _Problems, platform: str, on_host: bool) -> None:
    try:
        elf = read_elf(path)
    except FileNotFoundError:
        raise _error(path, "is missing") from None
    except (ElfError, OSError) as error:
        raise _error(path, str(error) if isinstance(error, ElfError) else f"cannot be read: {error.strerror}") from None
    for problem in problem_of(elf, platform, on_host):
        raise _error(path, problem)


def _error(path: Path, problem: str) -> ArtifactError:
    way_out = "build the artifact again, without SKIP_COMPILE=1" if problem == "is missing" else "build it again"
    return ArtifactError(path, problem, way_out, kind="build_error")


def _kernel_problem(elf: Elf, platform: str, on_host: bool) -> Iterator[str]:
    if on_host:
        yield from _machine_problem(elf, X86_64 if _is_x86() else AARCH64, platform)
    elif elf.machine in MACHINES:
        yield f"was built for {MACHINES[elf.machine]}, not for the cores of {platform}"
    if "kernel_entry" not in elf.defined:
        yield "does not define kernel_entry"
    yield from _abi_problem(elf)
    if not on_host:
        try:
            extract_text(elf)
        except ElfError as error:
            yield str(error)


def _orchestration_problem(elf: Elf, platform: str, on_host: bool) -> Iterator[str]:
    yield from _machine_problem(elf, AARCH64 if not on_host or not _is_x86() else X86_64, platform)
    yield from _abi_problem(elf)
    if _BOUND not in elf.defined:
        yield f"does not define {_BOUND}, so it was not built with simpler's sources"


def _machine_problem(elf: Elf, machine: int, platform: str) -> Iterator[str]:
    if elf.machine != machine:
        name = MACHINES.get(elf.machine, f"machine {elf.machine}")
        yield f"was built for {name}, but {platform} runs it on {MACHINES[machine]}"


def _abi_problem(elf: Elf) -> Iterator[str]:
    if elf.defined.intersection(_EMBEDDED):
        yield "was built for the embedded runtime, whose interface is not simpler's"


def _is_x86() -> bool:
    return machine.machine() in ("x86_64", "AMD64")
