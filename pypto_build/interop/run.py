"""A replay on simpler's runtime: `python -m pypto_build.replay`'s options, and those that say which simpler.

python -m pypto_build.interop.run ARTIFACT_DIR --platform P --build-dir OUT [--simpler S] [--isa I] [--device N] ...

Exit status: 0 pass, 1 mismatch, 2 usage, 3 build, 4 golden, 5 runtime fault, 6 hang, 7 unchecked.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.distributed import (
    Distributed,
    devices_of,
    load_distributed,
    read_chips,
    read_devices,
    require_callables,
)
from pypto_build.artifact.interface import Interface, read_interface
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import SIMPLER
from pypto_build.interop.binaries import Binaries, binaries_of
from pypto_build.interop.engine import SimplerEngine, SimplerRounds, program_job, refuse_ours
from pypto_build.replay import cli
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding, ScalarArg
from pypto_build.replay.request import Engine, Request
from pypto_build.replay.run_options import add_run_options, settings_of
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.git import changed_files
from pypto_build.toolchain.simpler_home import SimplerHome, find_home

# Replays a distributed artifact on simpler: its Worker of level 3 runs the chip programs that the rules built.

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
        programs = {
            name: self._program(request, artifact.chips[name], directory) for name, directory in self.chips.items()
        }

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
        binaries_dir = directory / self.variant
        return interface, binaries_of(interface, root, binaries_dir, request.platform, self.skip_compile)


def _as_passed(scalar: ScalarArg) -> int:
    """Return a number for simpler's arguments, which have no floats: a float is passed as its bits."""
    return scalar.bits if isinstance(scalar.value, float) else int(scalar.value)


def _signature(interface: Interface) -> list[str]:
    return [param.direction or "INOUT" for param in interface.params if param.kind == "tensor"]


def _runtime(artifact: Distributed, programs: Mapping[str, tuple[Interface, Binaries]]) -> str:
    """Return the runtime of all chip programs. Raises `ArtifactError` if they differ."""
    runtimes = {interface.runtime for interface, _ in programs.values()}
    if len(runtimes) > 1:
        both = " and ".join(sorted(runtimes))
        raise ArtifactError(
            artifact.root,
            f"its chip programs use both runtimes: {both}",
            "simpler can run only one of them at a time",
        )
    return runtimes.pop() if runtimes else artifact.config.runtime


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, cli.terminate)
    if {"-h", "--help"} & set(words):
        _parser().print_help()
        print("\nand the options of a replay:\n")
        cli.parser().print_help()
        return 0
    try:
        return cli.run(request_from(words))
    except ArtifactError as error:
        return cli.usage_error(words, error, SIMPLER)


def request_from(words: Sequence[str]) -> Request:
    """Return the request of a command line for simpler. Raises `ArtifactError` for an invalid one."""
    own, others = _parser().parse_known_args(words)
    request = cli.request_from([*others, "--embedded", "", "--runtime", SIMPLER])
    if request.platform not in PLATFORMS:
        raise ArtifactError(f"--platform {request.platform}", "unknown platform", f"one of {', '.join(PLATFORMS)}")
    try:
        home = find_home(own.simpler or "", own.isa or "")
    except ToolchainError as error:
        message, _, hint = str(error).partition("; ")
        raise ArtifactError("", message, hint) from None
    for note in _notes(home):
        print(f"[RUN]   note: {note}")
    options = {**request.options, **settings_of(own)}
    engine: Engine = SimplerEngine(home, own.device, own.skip_compile)
    if own.chip:
        chips = read_chips(own.chip)
        variant = request.binaries.name if request.binaries else ""
        devices = read_devices(request.devices, request.world)
        engine = SimplerChipsEngine(home, chips, variant, request.world, devices, own.skip_compile)
    return dataclasses.replace(request, options=options, engine=engine)


def _notes(home: SimplerHome) -> Iterator[str]:
    """Yield notes on checkouts that are not at a known revision; they are used unchanged."""
    for checkout in (home.tree.root, home.tree.isa):
        if changed := changed_files(checkout):
            changes = "1 uncommitted change" if len(changed) == 1 else f"{len(changed)} uncommitted changes"
            yield f"{checkout} has {changes}, such as {changed[0]}: it is used as it is"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.interop.run",
        description=(__doc__ or "").splitlines()[0],
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this and the options of a replay")
    parser.add_argument("--chip", action="append", default=[], metavar="NAME=DIR", help="where a program was built")
    add_run_options(parser, lambda option: option.runtimes == (SIMPLER,))
    return parser


if __name__ == "__main__":
    sys.exit(main())
