"""The request of a replay, and the interface of engines that execute it in place of the embedded runtime."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pypto_build.artifact.interface import Interface
from pypto_build.facts.run_options import FAST, RULES_OFF
from pypto_build.replay.arena import Arena
from pypto_build.replay.binding import Binding
from pypto_build.replay.child import Reply
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.scalars import Scalar

if TYPE_CHECKING:
    from pypto_build.replay.comparators import Comparator


class Rounds(Protocol):
    """Executes rounds. A round starts with the initial tensors, and finishes with the computed ones.

    ``round_s`` is the duration of the last round, as its time limit counts it.
    """

    round_s: float

    def start_round(self) -> None: ...

    def finish_round(self) -> Reply:
        """Return the reply of the round. Raises `RunFault`."""
        ...


class Engine(Protocol):
    """An engine that replaces the embedded runtime."""

    def open(
        self, request: Request, interface: Interface, binding: Binding, arena: Arena
    ) -> contextlib.AbstractContextManager[Rounds]:
        """Return the object that executes the rounds of a request. Raises `ArtifactError` for an unsupported
        request."""
        ...


@dataclass(frozen=True)
class Request:
    """The artifact to replay and all settings. None means "as the artifact says"; `threads` 0 means this machine's
    number.

    `build_dir` holds the build (`interface.json`, `kernels/`, `orchestration/`). `binaries` is the directory of
    `kernels/` and `orchestration/` if they are elsewhere. `results` is the directory for verdict.json, `actual/` and
    dumps if it is not `build_dir`. `embedded` is the runtime's extension module. `data` is a directory with `in/` and
    `out/`. `options` are those of the runtime (`pypto_build.runtime`); a callable among them is called in the child
    process. `engine` executes the rounds in place of the embedded runtime. With `all_goldens`, an output without golden
    is an error if others have one. Without `verbose`, only outputs and the final status are printed. `meanwhile` is
    called in this process while the first round runs, to prepare other work. `judge` decides in place of the goldens.
    It is called when the outputs of a round are in `actual/`, and returns what is wrong with them; empty for a pass.
    """

    artifact_dir: Path
    build_dir: Path
    embedded: Path
    platform: str = "a2a3sim"
    requested: str = ""  # the platform that the user asked for, if another one
    unproven: str = ""  # why a pass holds for this run alone
    runtime: str = "embedded"
    rules: str = RULES_OFF  # device rules: kernels that break them are ignored, shown, or fail the run
    numerics: str = FAST  # whose results kernels, or the reference, give
    binaries: Path | None = None
    results: Path | None = None
    data: Path | None = None
    golden: Path | None = None  # goldens from there, not from the data's out/
    rtol: float | None = None
    atol: float | None = None
    seed: int = 0
    timeout_s: float = 60.0
    rounds: int = 1
    threads: int = 0
    world: int = 0  # ranks of a distributed artifact; 0: as many as it was compiled for
    devices: str = ""  # devices of its ranks, in the form of `read_devices`
    memory_mb: int | None = None
    comparators: Mapping[str, str | Comparator] = field(default_factory=dict)
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    options: Mapping[str, SettingValue] = field(default_factory=dict)
    engine: Engine | None = None
    all_goldens: bool = True
    meanwhile: Callable[[], object] | None = None
    verbose: bool = True
    judge: Callable[[], str] | None = None

    @property
    def verdict_path(self) -> Path:
        """Return the path of verdict.json."""
        return self.results_dir / "verdict.json"

    @property
    def warms_up(self) -> bool:
        """Return whether an uncounted round goes first. The first round loads code and touches memory, so its timeline
        is not representative. A run that dumps tasks runs them one by one, and is no measurement anyway."""
        return self.engine is None and bool(self.options.get("swimlane")) and not self.options.get("dump_args")

    @property
    def results_dir(self) -> Path:
        """Return the directory of all results of the run."""
        return self.results or self.build_dir
