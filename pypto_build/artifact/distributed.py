"""Distributed artifacts: a host driver, the programs that it dispatches to chips, and the driver's parameters.

``python -m pypto_build.artifact.distributed DIR --interface OUT`` writes the interface a replay binds host tensors by.
The driver is untrusted Python: it is never executed here.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from .errors import ArtifactError
from .files import decode_json, read_bytes, read_source, write_bytes
from .interface import INTERFACE_SCHEMA, Interface, OrchestrationInterface, Param, encode_interface
from .layout import (
    DRIVER,
    SUB_WORKERS,
    MetaDocument,
    artifact_name,
    artifact_root,
    find_children,
    is_distributed,
    read_params,
)
from .records import FILE_NAME, Artifact, MetaParam, Orchestration

META_NAME = "distributed_meta.json"
#: A domain has this many members at most, since its context has a slot for each.
MOST_RANKS = 64
_SCHEMAS = (1, 2)
_WAY_OUT = "compile again"
#: Line in a file of ``sub_workers/`` with the path of its scene test, relative to that file.
TEST_LINE = "_TEST = {!r}"
_TEST = re.compile(r"""(?m)^_TEST = ('[^'\n]*'|"[^"\n]*")$""")
_DEVICES = re.compile(r"\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*\Z")


class DistributedConfig(msgspec.Struct, frozen=True):
    """The chips that the program was compiled for, and how many processes execute host callables."""

    device_ids: tuple[int, ...] = ()
    num_sub_workers: int = 0
    runtime: str = "tensormap_and_ringbuffer"
    aicpu_thread_num: int = 0


class _Document(MetaDocument):
    num_return_types: int = 0
    distributed_config: DistributedConfig = DistributedConfig()


class Distributed(msgspec.Struct, frozen=True):
    """A distributed artifact. ``chips`` are its chip programs by name, ``sub_workers`` its host callables."""

    root: Path
    name: str
    schema: int
    params: tuple[MetaParam, ...]
    config: DistributedConfig
    chips: dict[str, Path]
    sub_workers: dict[str, Path]
    required: tuple[str, ...] = ()  # host callables that the caller has to supply

    @property
    def driver(self) -> Path:
        """The Python file that dispatches the programs."""
        return self.root / DRIVER

    @property
    def files(self) -> tuple[Path, ...]:
        """Return all files that decide how the program behaves, without those of its chip programs."""
        return (self.driver, self.root / META_NAME, *self.sub_workers.values())

    def as_artifact(self) -> Artifact:
        """Return the program as an artifact with directory and name, without kernels."""
        return Artifact(self.root, self.name, (), Orchestration(self.driver, "host_orch", "host_orch"), {})

    @property
    def ranks(self) -> int:
        """Return the number of chips that the program was compiled for."""
        return len(self.config.device_ids) or 1


def load_distributed(path: str | Path) -> Distributed:
    """Return the distributed artifact at directory ``path``. Raises a usage error, one line naming file and field."""
    root = artifact_root(path)
    if not is_distributed(root):
        raise ArtifactError(
            root, f"is not a distributed artifact: it has no {DRIVER}", "name a directory with this file"
        )
    document = _document(root / META_NAME)
    chips = {child.name: _chip_directory(child) for child in find_children(root)}
    workers = {file.stem: file for file in sorted((root / SUB_WORKERS).glob("*.py"))}
    wrong = next((name for name in (*chips, *workers) if not FILE_NAME.match(name)), None)
    if wrong is not None:
        raise ArtifactError(root, f"{wrong!r} cannot be the name of a chip program or host callable", _WAY_OUT)
    return Distributed(
        root,
        artifact_name(root),
        document.schema,
        read_params(root / META_NAME, document.params),
        document.distributed_config,
        chips,
        workers,
        _required(root / SUB_WORKERS / "__required__.json"),
    )


def _chip_directory(chip: Path) -> Path:
    """Return the directory of a chip program; several artifacts may link to one."""
    return Path(os.path.normpath(chip.parent / os.readlink(chip))) if chip.is_symlink() else chip


def read_devices(text: str, world: int = 0) -> tuple[int, ...]:
    """Return the devices of `DEVICES=0,2` or `DEVICES=0-3`, one for each rank; empty for an empty text.

    Raises a usage error for a text without devices, a repeated device, or a number of devices other than `world` (0:
    any).
    """
    option = f"DEVICES={text}"
    devices: list[int] = []
    for word in filter(None, text.split(",")) if text else ():
        match = _DEVICES.match(word)
        if match is None:
            raise ArtifactError(
                option, f"{word!r} is not a device number or a range of device numbers", "write 0,1 or 0-3"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= MOST_RANKS:
            raise ArtifactError(option, f"a range has at most {MOST_RANKS} ranks", "name fewer")
        devices += range(first, last + 1)
    if text and not devices:
        raise ArtifactError(option, "names no device", "write 0,1 or 0-3")
    twice = next((device for device in devices if devices.count(device) > 1), None)
    if twice is not None:
        raise ArtifactError(option, f"names device {twice} twice", "give each rank its own device")
    if len(devices) > MOST_RANKS:
        raise ArtifactError(option, f"names too many devices: at most {MOST_RANKS} ranks are supported", "name fewer")
    if devices and world not in (0, len(devices)):
        raise ArtifactError(
            option, f"names {len(devices)} devices, but WORLD= asks for {world} ranks", "leave WORLD= out"
        )
    return tuple(devices)


def devices_of(artifact: Distributed, chosen: Sequence[int], world: int) -> tuple[int, ...]:
    """Return the devices of the ranks.

    They are ``chosen``, else those in the artifact; if their number differs from `world`, they are 0 to `world` - 1. A
    `world` of 0 means the number of chosen devices, else the number that the artifact was compiled for. Raises a usage
    error for more ranks than a domain has room for.
    """
    named = tuple(chosen) or artifact.config.device_ids
    count = world or len(chosen) or artifact.ranks
    if count > MOST_RANKS:
        raise ArtifactError(
            f"WORLD={count}", f"is too large: at most {MOST_RANKS} ranks are supported", "use a smaller number"
        )
    return named if len(named) == count else tuple(range(count))


def scene_test_of(sub_worker: Path) -> Path | None:
    """Return the scene test that a file of ``sub_workers/`` takes its host callable from; None for any other file."""
    match = _TEST.search(read_source(sub_worker))
    return Path(os.path.normpath(sub_worker.parent / ast.literal_eval(match[1]))) if match else None


def require_callables(artifact: Distributed) -> None:
    """Raise a usage error for a host callable that the program expects its caller to provide."""
    missing = [name for name in artifact.required if name not in artifact.sub_workers]
    if missing:
        path = artifact.root / SUB_WORKERS / f"{missing[0]}.py"
        raise ArtifactError(
            path,
            f"is missing: the program expects its caller to define '{missing[0]}'",
            "define the function in this file",
        )


def read_chips(words: Sequence[str]) -> dict[str, Path]:
    """Return the build directories of chip programs by name, from `NAME=DIR`. Raises a usage error for other words."""
    chips = {}
    for word in words:
        name, separator, directory = word.partition("=")
        if not separator:
            raise ArtifactError(
                f"--chip {word}", "is not NAME=DIR", "give a name and the build directory of the chip program"
            )
        chips[name] = Path(directory)
    return chips


def interface_of(artifact: Distributed) -> Interface:
    """Return the interface: the host tensors and scalars of a replay."""
    count = {"tensor": 0, "scalar": 0}
    params = []
    for param in artifact.params:
        kind = "tensor" if param.is_tensor else "scalar"
        direction = param.direction.name if param.is_tensor else None
        params.append(Param(param.name, kind, count[kind], direction, param.dtype, param.shape))
        count[kind] += 1
    return Interface(
        schema=INTERFACE_SCHEMA,
        artifact=artifact.name,
        vintage=f"distributed-{artifact.schema}",
        orchestration=OrchestrationInterface("host_orch", "host_orch", DRIVER),
        params=tuple(params),
        kernels=(),
        block_dim=None,
        aicpu_thread_num=artifact.config.aicpu_thread_num,
        runtime=artifact.config.runtime,
    )


def _document(path: Path) -> _Document:
    try:
        document = decode_json(read_bytes(path), _Document)
    except FileNotFoundError:
        raise ArtifactError(path, "is missing, so the program's parameters are unknown", _WAY_OUT) from None
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", _WAY_OUT) from None
    except msgspec.MsgspecError as error:
        raise ArtifactError(path, f"is not a valid {META_NAME}: {error}", _WAY_OUT) from None
    if document.schema not in _SCHEMAS:
        raise ArtifactError(path, f"schema: version {document.schema} is not supported, only 1 and 2", _WAY_OUT)
    if len(document.distributed_config.device_ids) > MOST_RANKS:
        count = len(document.distributed_config.device_ids)
        raise ArtifactError(path, f"device_ids: names {count} chips, but at most {MOST_RANKS} are supported", _WAY_OUT)
    return document


def _required(path: Path) -> tuple[str, ...]:
    """Return the names in ``__required__.json``; none without the file."""
    try:
        names: Any = decode_json(read_bytes(path), list[str])
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.MsgspecError) as error:
        raise ArtifactError(path, f"is not a list of names: {error}", _WAY_OUT) from None
    return tuple(names)


def check_driver(path: Path) -> None:
    """Raise a usage error for a driver that is not valid Python; the driver is not executed."""
    try:
        compile(read_source(path), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ArtifactError(
            f"{path}{line}", f"is not valid Python: {message}", "correct the file, or compile again"
        ) from None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.artifact.distributed", description="Write the interface of a distributed artifact."
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help=f"the artifact, a directory with {DRIVER}")
    parser.add_argument("--interface", metavar="OUT", type=Path, required=True, help="where to write interface.json")
    arguments = parser.parse_args(argv)
    try:
        artifact = load_distributed(arguments.directory)
        check_driver(artifact.driver)
        write_bytes(arguments.interface, encode_interface(interface_of(artifact)))
    except ArtifactError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except OSError as error:
        print(f"error: {arguments.interface}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
