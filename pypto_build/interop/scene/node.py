"""A stand-in for simpler's worker of several chips: replays the submissions of an orchestration as a distributed
artifact.

Host callables that only read are called here after the chips have finished, in the order of submission.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact import Artifact
from pypto_build.artifact.distributed import META_NAME
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.layout import CHILDREN_DIR, DRIVER
from pypto_build.artifact.manifest_writer import render_manifest
from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.artifact.scenes import NODE_LEVEL, file_name
from pypto_build.interop.scene.faults import NeedsSimpler
from pypto_build.interop.scene.recorder import Recorder, mapped
from pypto_build.interop.scene.regions import Exchange
from pypto_build.interop.scene.worker import (
    BUILD_DIR,
    Buffers,
    ChipCallable,
    Handle,
    StartedReplay,
    artifact_of,
    content_of,
)
from pypto_build.replay.chips.driver import CallConfig

_TALK_S = 3600  # limit for an orchestration's communication with its chips; each wait has its own limit

Orchestration = Callable[[Any, Any, Any], Any]


class NodeWorker(Buffers):
    """Runs orchestrations on several simulated chips."""

    def __init__(
        self,
        level: int = NODE_LEVEL,
        platform: str = "a2a3sim",
        runtime: str = "",
        device_ids: Sequence[int] = (),
        **_: Any,
    ) -> None:
        if level != NODE_LEVEL:
            raise NeedsSimpler(f"simpler.worker.Worker of level {level}")
        if not platform.endswith("sim"):
            raise NeedsSimpler(f"simpler.worker.Worker on {platform}")
        self.platform, self.runtime, self.world = platform, runtime, max(1, len(device_ids))
        self._programs: dict[int, ChipCallable] = {}
        self._named: dict[int, str] = {}
        self._functions: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsSimpler(f"simpler.worker.Worker.{name}")

    def register(self, program: Any, name: str = "") -> Handle:
        """Return a handle of a host callable, or of a chip program with an optional ``name``."""
        handle = len(self._programs) + len(self._functions)
        if isinstance(program, ChipCallable):
            self._programs[handle] = program
            self._named[handle] = file_name(name or program.binary.path.stem)
        elif callable(program):
            self._functions[handle] = program
        else:
            raise NeedsSimpler("a program that is not a ChipCallable")
        return Handle(handle, content_of(program) if isinstance(program, ChipCallable) else repr(program))

    def run(self, orchestration: Orchestration, args: Any = None, config: CallConfig | None = None) -> None:
        """Run the submissions of an orchestration. Raises RuntimeError, with upstream's error code if there is one."""
        config = config or CallConfig()
        recorder = Recorder(self.world, self._names(), self._functions)
        exchange = recorder.exchange = Exchange(_Submissions(self, recorder, config))
        try:
            orchestration(recorder, args, config)
            exchange.finish()
        finally:
            exchange.close()
        for call in recorder.calls:
            call.function(mapped(call.args))

    def _names(self) -> dict[int, str]:
        """Return the names of the chip programs; a repeated name gets its handle as a suffix."""
        names: dict[int, str] = {}
        for handle, name in self._named.items():
            names[handle] = f"{name}_{handle}" if name in names.values() else name
        return names

    def write(self, recorder: Recorder) -> Path:
        """Write the program as a distributed artifact; equal programs share a directory."""
        scenes = BUILD_DIR.absolute() / "scenes"
        directory = scenes / "node" / CHILDREN_DIR / "program"
        programs = {
            name: artifact_of(program, recorder.first[name], self.runtime or program.binary.runtime, directory)
            for (handle, name), program in zip(self._names().items(), self._programs.values(), strict=True)
            if name in recorder.first
        }
        driver, meta = recorder.driver().encode(), self._meta(recorder)
        texts = [driver, meta, *(render_manifest(one, one.root).encode() for one in programs.values())]
        digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]
        root = scenes / f"node.{next(iter(programs))}-{digest}"
        for name, artifact in programs.items():
            _write_program(artifact, root / CHILDREN_DIR / name)
        write_bytes(root / DRIVER, driver)
        write_bytes(root / META_NAME, meta)
        return root

    def _meta(self, recorder: Recorder) -> bytes:
        params = [
            {
                "name": recorder.name_of(address),
                "direction": "InOut" if address in recorder.written else "In",
                "shape": list(tensor.shape),
                "dtype": "",
            }
            for address, tensor in recorder.tensors.items()
        ]
        return meta_of(params, self.world)


class _Submissions:
    """The submissions of a worker's orchestration."""

    def __init__(self, worker: NodeWorker, recorder: Recorder, config: CallConfig) -> None:
        self._worker, self._recorder, self._config = worker, recorder, config

    @property
    def is_empty(self) -> bool:
        """Return whether there are no submissions since the last start."""
        return not self._recorder.first

    def start(self, variables: Mapping[str, str]) -> _Run:
        """Start all submissions."""
        run = _Run(self._worker, self._recorder, self._config, variables)
        self._recorder.start_program()
        return run


class _Run:
    """A replay of an orchestration's submissions, on the memory that they use."""

    def __init__(
        self, worker: NodeWorker, recorder: Recorder, config: CallConfig, variables: Mapping[str, str]
    ) -> None:
        root = worker.write(recorder)
        names = {address: recorder.name_of(address) for address in recorder.tensors}
        self._data = tempfile.TemporaryDirectory()
        data = Path(self._data.name)
        (data / "in").mkdir()
        for address, tensor in recorder.tensors.items():
            write_pt(data / "in" / f"{names[address]}.pt", tensor.dtype, tensor.shape, tensor.memory)
        self._written = {names[address]: recorder.tensors[address] for address in recorder.written}
        limit = [f"TIMEOUT={_TALK_S}"] if variables else []
        self._replay = StartedReplay(root, worker.platform, data, config, variables, limit)

    @property
    def is_over(self) -> bool:
        """Return whether all chips have ended."""
        return self._replay.is_over

    def finish(self, limit_s: float | None = None) -> None:
        """Wait for the chips to end, and copy the written data back. Raises as `StartedReplay.finish`."""
        with self._data:
            actual = self._replay.finish(limit_s)
        for name, tensor in self._written.items():
            tensor.memory[:] = bytes(read_pt(actual / f"{name}.pt").contiguous())

    def end(self) -> None:
        """End the replay at any point."""
        with self._data:
            self._replay.end()


def meta_of(params: Sequence[Mapping[str, Any]], ranks: int, sub_workers: int = 0) -> bytes:
    """Return the metadata of a distributed artifact."""
    chips = {"device_ids": list(range(ranks)), "num_sub_workers": sub_workers}
    return msgspec.json.encode({"schema": 2, "params": params, "distributed_config": chips}) + b"\n"


def _write_program(artifact: Artifact, directory: Path) -> None:
    artifact = msgspec.structs.replace(artifact, root=directory)
    write_bytes(directory / "kernel_config.py", render_manifest(artifact, directory).encode())
