"""What to replay and how, and what may execute it in place of the embedded runtime."""

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
    """Executes rounds: started with the tensors as they should be, finished with the tensors as they became.

    ``round_s`` is what the last round took, as its time limit counts.
    """

    round_s: float

    def start_round(self) -> None: ...

    def finish_round(self) -> Reply:
        """The numbers of the round. Raises `RunFault`."""
        ...


class Engine(Protocol):
    """Another runtime than the embedded one."""

    def open(
        self, request: Request, interface: Interface, binding: Binding, arena: Arena
    ) -> contextlib.AbstractContextManager[Rounds]:
        """What executes the rounds of a request. Raises `ArtifactError` for a request it cannot execute."""
        ...


@dataclass(frozen=True)
class Request:
    """What to replay and how. None stands for "as the artifact says"; `threads` 0 is this machine's number.

    `build_dir` holds what was built (`interface.json`, `kernels/`, `orchestration/`); `binaries` is where `kernels/`
    and `orchestration/` are when they are elsewhere; `results` is where verdict.json, `actual/` and dumps go when that
    is not `build_dir`; `embedded` is the runtime's extension module. `data` is a directory with `in/` and `out/`.
    `options` are those of the runtime (`pypto_build.runtime`); a callable among them is called in the child process.
    `engine` executes the rounds in place of the embedded runtime. `all_goldens`: outputs without a golden, where others
    have one, are an error. A run that is not `verbose` prints its outputs and its end
    alone. `meanwhile` is called in this process while the first round runs, for what its caller has to
    get ready. `judge` decides in place of the goldens: it is called when the outputs of a round lie in `actual/`, and
    says what is wrong with them, nothing if they are good.
    """

    artifact_dir: Path
    build_dir: Path
    embedded: Path
    platform: str = "a2a3sim"
    requested: str = ""  # the platform that the user asked for, if another one
    unproven: str = ""  # why a pass holds for this run alone
    runtime: str = "embedded"
    rules: str = RULES_OFF  # of the device: whether kernels that break them are shown, or fail the run
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
    devices: str = ""  # those of its ranks, as `read_devices` takes them
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
        """Where the verdict goes."""
        return self.results_dir / "verdict.json"

    @property
    def warms_up(self) -> bool:
        """Whether a round that counts for nothing goes before the others: the first one touches and loads everything,
        and a timeline of it says little. A run that dumps is no measurement, as its tasks run one by one."""
        return self.engine is None and bool(self.options.get("swimlane")) and not self.options.get("dump_args")

    @property
    def results_dir(self) -> Path:
        """Where all that the run leaves goes."""
        return self.results or self.build_dir
