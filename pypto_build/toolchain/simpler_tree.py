"""Paths of simpler's sources and headers, and the include directories of kernels and orchestrations.

Sources are in ``src/<arch>/runtime/<runtime>`` since March 2026, and were in ``src/runtime/<runtime>`` before. A
directory that a revision does not have is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pypto_build.facts import places
from pypto_build.facts.platforms import Platform
from pypto_build.toolchain import ToolchainError


@dataclass(frozen=True)
class SimplerTree:
    """A checkout of simpler, or the ``_assets`` of an installed one, and the checkout of pto-isa it goes with."""

    root: Path
    isa: Path

    @property
    def named(self) -> tuple[tuple[Path, str], ...]:
        """Return the two directories with their names in debug information."""
        return (self.root, places.SIMPLER), (self.isa, places.PTO_ISA)

    def runtime_dir(self, platform: Platform, runtime: str) -> Path:
        """Return the sources of one runtime. Raises `ToolchainError` if this revision has none of that name."""
        places = [self.root / "src" / platform.arch / "runtime", self.root / "src" / "runtime"]
        for directory in places:
            if (directory / runtime).is_dir():
                return directory / runtime
        present = sorted(
            {path.name for directory in places if directory.is_dir() for path in directory.iterdir() if path.is_dir()}
        )
        listed = ", ".join(present) or "none"
        raise ToolchainError(f"{places[0] / runtime}: this simpler has no such runtime; it has {listed}")

    def runtime_includes(self, platform: Platform, runtime: str) -> list[Path]:
        """Return the include directories of ``runtime`` itself, which its kernels and orchestrations share."""
        own, src = self.runtime_dir(platform, runtime), self.root / "src"
        return [
            own / "runtime",
            own / "common",
            src / "common" / "task_interface",
            src / "common",
            src / platform.arch / "platform" / "include",
            src / "common" / "platform" / "include",
        ]

    def kernel_includes(self, platform: Platform, runtime: str) -> tuple[Path, ...]:
        """Return the include directories of a kernel, in simpler's order."""
        first = [self.isa / "include", self.isa / "include" / "pto"]
        own = [self.root / "simpler_setup" / "incore", self.root / "src" / "common" / "platform" / "include"]
        return _present([*first, *own, *self.runtime_includes(platform, runtime)])

    def orchestration_includes(self, platform: Platform, runtime: str) -> tuple[Path, ...]:
        """Return the include directories of an orchestration, in simpler's order."""
        own = self.runtime_dir(platform, runtime)
        log = self.root / "src" / "common" / "log" / "include"
        last = [own / "orchestration", own / "common", own.parent]
        return _present([*self.runtime_includes(platform, runtime), log, *last])

    def orchestration_sources(self, platform: Platform, runtime: str, host: bool) -> tuple[Path, ...]:
        """Return the sources that are compiled into every orchestration.

        ``host`` is True for an orchestration that runs on the host, else it runs on the device.
        """
        own, common = self.runtime_dir(platform, runtime), self.root / "src" / "common"
        side = common / "platform" / ("sim" if platform.simulated else "onboard") / "aicpu"
        sources = [
            *sorted((own / "orchestration").glob("*.cpp")),
            *sorted((own / "host_orchestration_support").glob("*.cpp")),
            side / "cache_ops.cpp",
            side / "device_time.cpp",
        ]
        if host:
            sources += [common / "log" / "host_log.cpp", common / "log" / "unified_log_host.cpp"]
        return tuple(path for path in sources if path.is_file())


def open_tree(root: Path, isa: Path | None = None) -> SimplerTree:
    """Return the tree in ``root``; pto-isa is ``isa``, else the checkout that simpler keeps in ``build/pto-isa``.

    Raises:
        ToolchainError: one of the two is not what it should be.
    """
    if not (root / "src" / "common").is_dir() and not (root / "src" / "runtime").is_dir():
        raise ToolchainError(f"{root}: is not a checkout of simpler, because src/common is missing; correct SIMPLER=")
    isa_root = isa or root / "build" / "pto-isa"
    if not (isa_root / "include" / "pto").is_dir():
        if isa is None:
            raise ToolchainError(
                f"{isa_root}: simpler's pto-isa is missing there; name a checkout or a revision with PTO_ISA="
            )
        raise ToolchainError(
            f"{isa_root}: is not a checkout of pto-isa, because include/pto is missing; correct PTO_ISA="
        )
    return SimplerTree(root, isa_root)


def _present(directories: list[Path]) -> tuple[Path, ...]:
    return tuple(path for path in dict.fromkeys(directories) if path.is_dir())
