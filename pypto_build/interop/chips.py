"""Replays a distributed artifact on simpler: its Worker of level 3 runs the chip programs that the rules built."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.distributed import Distributed, devices_of, load_distributed, require_callables
from pypto_build.artifact.interface import Interface, read_interface
from pypto_build.interop.binaries import Binaries, binaries_of
from pypto_build.interop.engine import SimplerRounds, program_job, refuse_ours
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding, ScalarArg
from pypto_build.replay.request import Request
from pypto_build.toolchain.simpler_home import SimplerHome

_CHILD = Path(__file__).with_name("simpler_chips_child.py")


@dataclass(frozen=True)
class SimplerChipsEngine:
    """Executes rounds with the simpler in ``home``, in one process for each chip.

    ``chips`` are the build directories of the chip programs; see `devices_of` for ``devices`` and ``world``. With
    ``skip_compile`` the binaries beside the sources are used.
    """

    home: SimplerHome
    chips: Mapping[str, Path]
    variant: str = ""
    world: int = 0
    devices: tuple[int, ...] = ()
    skip_compile: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def open(self, request: Request, interface: Interface, binding: Binding, arena: Arena) -> SimplerRounds:
        """Start the process. Raises `ArtifactError` for a request that simpler cannot execute."""
        refuse_ours(request)
        artifact = load_distributed(request.artifact_dir)
        devices = devices_of(artifact, self.devices, self.world)
        require_callables(artifact)
        programs = {name: self._program(request, artifact.chips[name], place) for name, place in self.chips.items()}

        def job(scratch: Path) -> dict[str, Any]:
            return {
                "devices": devices,
                "driver": str(artifact.driver),
                "sub_workers": {name: str(path) for name, path in artifact.sub_workers.items()},
                "num_sub_workers": artifact.config.num_sub_workers,
                "named_scalars": {scalar.name: _as_passed(scalar) for scalar in binding.scalars},
                "runtime": _runtime(artifact, programs),
                "chips": {
                    name: {"signature": _signature(of_it), **program_job(of_it, binaries, scratch)}
                    for name, (of_it, binaries) in programs.items()
                },
            }

        args = request, interface, binding, arena, _CHILD, job
        return SimplerRounds(self.home, self.environment, devices[0], *args)

    def _program(self, request: Request, root: Path, directory: Path) -> tuple[Interface, Binaries]:
        interface = read_interface(directory / "interface.json")
        place = directory / self.variant
        return interface, binaries_of(interface, root, place, request.platform, self.skip_compile)


def _as_passed(scalar: ScalarArg) -> int:
    """Return a number for simpler's arguments, which have no floats: a float is passed as its bits."""
    return scalar.bits if isinstance(scalar.value, float) else int(scalar.value)


def _signature(interface: Interface) -> list[str]:
    return [param.direction or "INOUT" for param in interface.params if param.kind == "tensor"]


def _runtime(artifact: Distributed, programs: Mapping[str, tuple[Interface, Binaries]]) -> str:
    """Return the runtime of all chip programs. Raises `ArtifactError` if they differ."""
    found = {interface.runtime for interface, _ in programs.values()}
    if len(found) > 1:
        both = " and ".join(sorted(found))
        raise ArtifactError(artifact.root, f"its chip programs are for {both}", "simpler runs one of them at a time")
    return found.pop() if found else artifact.config.runtime
