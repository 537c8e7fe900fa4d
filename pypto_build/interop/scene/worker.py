"""A stand-in for simpler's worker of one chip: replays the programs that a test compiles and runs itself.

Compiling only records the sources; the rules compile them once, when the program runs. A run that ends in a fault
raises simpler's exception, with upstream's code, and prints upstream's lines about it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact import ArgDirection, Artifact, ArtifactError, Kernel, Orchestration
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.manifest_writer import render_manifest
from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.artifact.records import CoreType
from pypto_build.artifact.scenes import CHIP_LEVEL, file_name
from pypto_build.facts.faults import CODES
from pypto_build.facts.run_options import EMBEDDED, OF_ITS_RECORDS
from pypto_build.interop.scene.arguments import Buffer, Tensor, bytes_of, tensor_of
from pypto_build.interop.scene.faults import NeedsSimpler
from pypto_build.interop.scene.recorder import TaskArgs
from pypto_build.replay.chips.driver import CallConfig
from pypto_build.replay.verdict import Verdict, read_verdict
from pypto_build.terminal import MARK
from pypto_build.toolchain.python import end_session, own_environment, own_tool, start_kept

_RINGS = ("ring_task_window", "ring_heap", "ring_dep_pool")
#: The directory of artifacts and their builds, as for the rules.
BUILD_DIR = Path("build")


class Source(bytes):
    """A stand-in for a binary: the source that it is compiled from."""

    path: Path
    core_type: str = ""
    include_dirs: tuple[Path, ...] = ()
    runtime: str = ""


class KernelCompiler:
    """Records what to compile."""

    def __init__(self, platform: str, **_: Any) -> None:
        self.platform = platform
        self.project_root = Path(os.environ.get("PYPTO_SCENE_CHECKOUT", os.curdir)).parent

    def get_orchestration_include_dirs(self, runtime_name: str, **_: Any) -> list[str]:
        """Return no directories: the rules add them."""
        return []

    def compile_incore(
        self, source_path: str | Path, core_type: str = "aiv", extra_include_dirs: Sequence[str | Path] = (), **_: Any
    ) -> Source:
        """Record a kernel."""
        return _source(source_path, core_type, extra_include_dirs)

    def compile_orchestration(
        self, runtime_name: str, source_path: str | Path, extra_include_dirs: Sequence[str | Path] = (), **_: Any
    ) -> Source:
        """Record an orchestration."""
        source = _source(source_path, "", extra_include_dirs)
        source.runtime = runtime_name
        return source


def _source(path: str | Path, core_type: str, include_dirs: Sequence[str | Path] | None) -> Source:
    file = Path(os.path.abspath(path))
    if not os.access(file, os.R_OK):  # asks for no size, after which an edit of the source would make the data again
        raise FileNotFoundError(str(file))
    source = Source(str(file).encode())
    source.path, source.core_type = file, core_type
    source.include_dirs = tuple(Path(directory) for directory in include_dirs or () if Path(directory).is_dir())
    return source


@dataclass(frozen=True)
class CoreCallable:
    """A kernel with the directions of its tensors."""

    signature: tuple[Any, ...]
    binary: Source

    @classmethod
    def build(cls, signature: Sequence[Any], binary: Source) -> CoreCallable:
        """Make a kernel from its parts."""
        return cls(tuple(signature), _ours(binary))

    @property
    def binary_size(self) -> int:
        """Return the size of the binary's stand-in."""
        return len(self.binary)


@dataclass(frozen=True)
class ChipCallable:
    """A program: its orchestration, and the kernels by func_id."""

    signature: tuple[Any, ...]
    func_name: str
    binary: Source
    children: tuple[tuple[int, CoreCallable], ...]
    config_name: str = ""

    @classmethod
    def build(
        cls,
        signature: Sequence[Any],
        func_name: str,
        binary: Source,
        children: Sequence[tuple[int, CoreCallable]],
        config_name: str = "",
    ) -> ChipCallable:
        """Make a program from its parts."""
        return cls(tuple(signature), func_name, _ours(binary), tuple(children), config_name)

    @property
    def binary_size(self) -> int:
        """Return the size of the binary's stand-in."""
        return len(self.binary)


class Handle(int):
    """A worker's handle of a program or a function. ``hashid`` is the same for programs with the same content."""

    hashid: str

    def __new__(cls, number: int, content: object) -> Handle:
        """Return the handle with this number; ``hashid`` is computed from ``content``."""
        handle = super().__new__(cls, number)
        handle.hashid = f"sha256:{hashlib.sha256(repr(content).encode(errors='surrogateescape')).hexdigest()}"
        return handle


def content_of(program: ChipCallable) -> object:
    """Return the values that identify a program: the contents of its sources, and its declarations."""
    kernels = [(number, _content(core.binary), core.signature) for number, core in program.children]
    return _content(program.binary), program.func_name, program.config_name, program.signature, kernels


def _content(source: Source) -> object:
    return source.path.read_bytes(), source.core_type, source.include_dirs, source.runtime


def _ours(binary: bytes) -> Source:
    if not isinstance(binary, Source):
        raise NeedsSimpler("a binary that the test compiles itself")
    return binary


#: The run options, by the names of their configuration fields.
_RECORDS = {
    field.name: option.name
    for option in OF_ITS_RECORDS.values()
    for field in fields(CallConfig)
    if field.name in option.fields and EMBEDDED in option.runtimes
}


def make_tensor_arg(worker: Any, tensor: Any, **how: Any) -> Tensor:
    """Return a torch tensor as an argument."""
    return tensor_of(tensor, **how)


class Buffers:
    """The memory methods of workers of every level. They need no start and no end, and handles stay valid."""

    def init(self, **_: Any) -> None:
        """Do nothing: there is nothing to start."""

    def close(self) -> None:
        """Do nothing: there is nothing to end."""

    def unregister(self, handle: int) -> None:
        """Do nothing: a handle stays valid."""

    def create_buffer(self, nbytes: int) -> Buffer:
        """Return memory that chips can access."""
        return Buffer(nbytes)

    def make_tensor_arg(self, tensor: Any, **how: Any) -> Tensor:
        """Return a torch tensor as an argument."""
        return tensor_of(tensor, **how)

    def copy_to(self, buffer: Buffer, value: Any) -> None:
        """Copy from the host to memory that chips can access."""
        data = bytes_of(value)
        buffer.memory[: data.nbytes] = data

    def copy_from(self, value: Any, buffer: Buffer) -> None:
        """Copy from memory that chips can access to the host."""
        data = bytes_of(value)
        data[:] = buffer.memory[: data.nbytes]


class OneChipWorker(Buffers):
    """Runs programs on one simulated chip."""

    def __init__(
        self, level: int = CHIP_LEVEL, platform: str = "a2a3sim", runtime: str = "", device_id: int = 0, **_: Any
    ) -> None:
        if level != CHIP_LEVEL:
            raise NeedsSimpler(f"simpler.worker.Worker of level {level}")
        if not platform.endswith("sim"):
            raise NeedsSimpler(f"simpler.worker.Worker on {platform}")
        self.platform, self.runtime = platform, runtime
        self._programs: list[ChipCallable] = []
        self._slots = Slots(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsSimpler(f"simpler.worker.Worker.{name}")

    @property
    def _chip_worker(self) -> Slots:
        """Return its chip, with the numbered slots that some tests fill themselves."""
        return self._slots

    def register(self, program: ChipCallable) -> Handle:
        """Return a handle of a program."""
        if not isinstance(program, ChipCallable):
            raise NeedsSimpler("a program that is not a ChipCallable")
        self._programs.append(program)
        return Handle(len(self._programs) - 1, content_of(program))

    def malloc(self, nbytes: int) -> Buffer:
        """Return memory of the device."""
        return self.create_buffer(nbytes)

    def free(self, buffer: Buffer) -> None:
        """Do nothing: the memory is freed with its last reference."""

    def run(self, handle: int, args: TaskArgs | None = None, config: CallConfig | None = None) -> None:
        """Run a program. Raises RuntimeError, with upstream's code if there is one."""
        args, config = args or TaskArgs(), config or CallConfig()
        root = self._artifact(self._programs[handle], args)
        with tempfile.TemporaryDirectory() as directory:
            data = Path(directory)
            for index, tensor in enumerate(args.tensors):
                write_pt(data / "in" / f"t{index}.pt", tensor.dtype, tensor.shape, tensor.memory)
            for index, bits in enumerate(args.scalars):
                write_pt(data / "in" / f"s{index}.pt", "uint64", (), bits.to_bytes(8, "little"))
            (data / "in").mkdir(exist_ok=True)
            actual = StartedReplay(root, self.platform, data, config).finish()
        for index, tensor in enumerate(args.tensors):
            if (file := actual / f"t{index}.pt").is_file():
                tensor.memory[:] = bytes(read_pt(file).contiguous())

    def _artifact(self, program: ChipCallable, args: TaskArgs) -> Path:
        """Return the program as an artifact; equal programs share a directory."""
        runtime = self.runtime or program.binary.runtime
        scenes = BUILD_DIR.absolute() / "scenes"
        artifact = artifact_of(program, args, runtime, scenes / "worker")
        text = render_manifest(artifact, artifact.root)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        root = scenes / f"worker.{file_name(program.binary.path.stem)}-{digest}"
        artifact = msgspec.structs.replace(artifact, root=root)
        params = [_param(f"t{index}", "tensor") for index in range(len(args.tensors))]
        params += [_param(f"s{index}", "scalar") for index in range(len(args.scalars))]
        write_bytes(root / "kernel_config.py", render_manifest(artifact, root).encode())
        write_bytes(root / "compiled_meta.json", msgspec.json.encode({"schema": 1, "params": params}) + b"\n")
        return root


class Slots:
    """Numbered slots, a program each. Raises RuntimeError for one that is taken, and for the run of an empty one."""

    def __init__(self, worker: OneChipWorker) -> None:
        self._worker = worker
        self._handles: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsSimpler(f"simpler's chip worker's {name}")

    def _register_callable_at_slot(self, slot: int, program: ChipCallable) -> None:
        if slot in self._handles:
            raise RuntimeError(f"slot {slot} is already in use")
        self._handles[slot] = self._worker.register(program)

    def _run_slot(self, slot: int, args: TaskArgs, config: CallConfig | None = None) -> None:
        if slot not in self._handles:
            raise RuntimeError(f"slot {slot} is empty")
        self._worker.run(self._handles[slot], args, config)

    def _unregister_slot(self, slot: int) -> None:
        self._handles.pop(slot, None)


class StartedReplay:
    """A replay of an artifact, in processes that end with this one; it runs while its caller goes on.

    `variables` are added to its environment, and `more` are additional words of its command line.
    """

    def __init__(
        self,
        root: Path,
        platform: str,
        data: Path,
        config: CallConfig,
        variables: Mapping[str, str] | None = None,
        more: Sequence[str] = (),
    ) -> None:
        self._out = BUILD_DIR / platform / root.name
        (self._out / "verdict.json").unlink(missing_ok=True)
        words = [str(root), "-p", platform, f"DATA={data}", "ALLOW_UNCHECKED=1", "LOG_LEVEL=timing", "--force", *more]
        words += [f"{name}={int(getattr(config, key))}" for key, name in _RECORDS.items() if getattr(config, key)]
        limits = {f"PTO2_{name.upper()}": _ring(getattr(config.runtime_env, name)) for name in _RINGS}
        environment = {**os.environ, **{name: value for name, value in limits.items() if value}, **(variables or {})}
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `end`
        command = [*own_tool("pypto_build.cli"), "replay", *words]
        self._process = start_kept(command, own_environment(environment), self._output)

    @property
    def is_over(self) -> bool:
        """Return whether it has ended, with any status."""
        return self._process.poll() is not None

    def finish(self, limit_s: float | None = None) -> Path:
        """Wait for its end, at most `limit_s`; return the directory of its outputs. Raises RuntimeError, with
        upstream's code for a fault, and TimeoutError."""
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the chips did not finish within {limit_s:g} s") from None
        finally:
            printed = self.end()
        verdict = None
        with suppress(ArtifactError):
            verdict = read_verdict(self._out / "verdict.json")
        if verdict is None or verdict.status not in ("pass", "unchecked"):
            raise RuntimeError(_failure(verdict, printed))
        return self._out / "actual"

    def end(self) -> str:
        """End it at any point; print and return its output."""
        if self._output.closed:
            return ""
        if self._process.poll() is None:
            end_session(self._process)
        with self._output, self._process:
            self._output.seek(0)
            printed = self._output.read().decode(errors="replace")
        _show(printed)
        return printed


def artifact_of(program: ChipCallable, args: TaskArgs, runtime: str, root: Path) -> Artifact:
    """Write a program as an artifact in ``root``; ``args`` determine the directions of its tensors."""
    directions = [ArgDirection(word) for word in program.signature if ArgDirection(word) is not ArgDirection.SCALAR]
    directions += [ArgDirection.INOUT] * (len(args.tensors) - len(directions))
    signature = tuple(
        ArgDirection.INOUT if getattr(tensor, "own", True) else direction
        for tensor, direction in zip(args.tensors, directions, strict=False)
    )
    kernels = []
    for func_id, core in program.children:
        core_type: CoreType = "aic" if core.binary.core_type == "aic" else "aiv"
        words = tuple(ArgDirection(word) for word in core.signature if ArgDirection(word) is not ArgDirection.SCALAR)
        name = f"{file_name(core.binary.path.stem)}_{func_id}"
        dirs = core.binary.include_dirs
        kernels.append(Kernel(func_id, name, core.binary.path, core_type, words or None, True, dirs))
    entry = Orchestration(program.binary.path, program.func_name, signature=signature, external=True)
    if program.config_name:
        entry = msgspec.structs.replace(entry, config_name=program.config_name)
    return Artifact(root, "worker", tuple(kernels), entry, {"runtime": runtime} if runtime else {})


def _param(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "direction": "InOut", "shape": None, "dtype": "", "kind": kind}


def _ring(value: Any) -> str:
    """Return a ring size as the variable's text; empty for the default."""
    numbers = list(value) if isinstance(value, (list, tuple)) else [value]
    return ",".join(map(str, numbers)) if any(numbers) else ""


def _show(printed: str) -> None:
    """Print the output of a replay. Log lines, such as time spans, go to standard error, as simpler's log does."""
    for line in printed.splitlines(keepends=True):
        text = line.removeprefix(MARK)
        if text.startswith("[mono_ns="):
            sys.stderr.write(text)
        else:
            sys.stdout.write(line)
    sys.stdout.flush()
    sys.stderr.flush()


def _failure(verdict: Verdict | None, printed: str) -> str:
    """Return simpler's message for a failed run, and print its lines about the error code."""
    error = verdict.error if verdict else None
    if error is None:
        last = [line for line in printed.splitlines() if line.strip()][-1:] or ["it said nothing"]
        return f"the program was not run: {last[0]}"
    if error.code is None:
        return f"run failed: {error}"
    code = CODES[error.code]
    side = "sched" if error.code >= 100 else "orch"
    sys.stderr.write(f"PTO2 runtime failed: {side}_error_code={error.code}\n")
    sys.stderr.write(f"error detail: {code.name}: {error.message}\nerror hint: {error.hint or code.hint}\n")
    sys.stderr.flush()
    return f"run failed with code -{error.code}: {error.message}"
