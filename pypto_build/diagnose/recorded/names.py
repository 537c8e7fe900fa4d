"""Names for numbers: kernels by func_id, and the arguments of a kernel by the names its wrapper unpacks them under."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.cpp.orchestration import OrchestrationFile, Submit
from pypto_build.artifact.cpp.wrapper import KernelFile
from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.artifact.interface import read_interface
from pypto_build.diagnose.recorded.graph import Task, TaskGraph, text_or_nothing

# The submission of each task, and names of tensors from it. Ambiguous tasks and tensors stay without a name.

_KINDS = {
    "add_input": ("INPUT",),
    "add_output": ("OUTPUT", "OUTPUT_EXISTING"),
    "add_inout": ("INOUT",),
    "add_no_dep": ("UNKNOWN", "NO_DEP"),
}


def submissions(source: Path) -> OrchestrationFile:
    """Return the submissions of an orchestration, and its variables; none if the file cannot be read."""
    return OrchestrationFile(text_or_nothing(source))


def _fits(submit: Submit, task: Task) -> bool:
    """Return whether `task` may have been submitted here, by its kernels and the kinds of its arguments."""
    if not submit.func_ids or set(submit.func_ids) != set(task.func_ids):
        return False
    pairs = zip(task.args, submit.tensors, strict=False)
    alike = len(task.args) == len(submit.tensors) and all(arg.kind in _KINDS[added.method] for arg, added in pairs)
    return alike or not task.args


def match_tasks(graph: TaskGraph, sites: Sequence[Submit]) -> dict[int, Submit]:
    """The site of each task where it is certain: only one fits, or as many tasks as sites fit, in order."""
    fitting: dict[tuple[Submit, ...], list[int]] = {}
    for task in graph.tasks:
        candidates = tuple(site for site in sites if _fits(site, task))
        fitting.setdefault(candidates, []).append(task.id)
    matched: dict[int, Submit] = {}
    for candidates, tasks in fitting.items():
        if len(candidates) == 1:
            matched.update(dict.fromkeys(tasks, candidates[0]))
        elif len(candidates) == len(tasks):
            matched.update(zip(tasks, candidates, strict=True))
    return matched


def tensor_names(graph: TaskGraph, matched: Mapping[int, Submit], source: OrchestrationFile) -> dict[int, str]:
    """Return the names of buffers by tensor id: the variable by which most tasks receive the buffer. A view counts for
    the tensor that it is a view of.
    """
    votes: dict[int, Counter[str]] = {}
    for task in graph.tasks:
        site = matched.get(task.id)
        for arg, added in zip(task.args, site.tensors if site else (), strict=False):
            if arg.tensor is not None and added.expression.isidentifier():
                votes.setdefault(arg.tensor, Counter())[source.base(added.expression)] += 1
    return {tensor: counted.most_common(1)[0][0].removeprefix("ext_") for tensor, counted in votes.items()}


# What a wrapper makes of a scalar's 64 bits.
_FORMATS = {
    "float": "<f", "double": "<d", "bool": "<?", "int8_t": "<b", "uint8_t": "<B", "int16_t": "<h", "uint16_t": "<H",
    "int32_t": "<i", "uint32_t": "<I", "int": "<i", "int64_t": "<q",
}  # fmt: skip
_ID = re.compile(r"[0-9]{1,9}\Z")


class _NameMap(msgspec.Struct):
    callable_id_to_name: dict[str, str] = {}


@dataclass(frozen=True)
class KernelName:
    """Name, core type and source of one kernel; `source` is None if only the name is known."""

    name: str
    core_type: str = ""
    source: Path | None = None


@dataclass(frozen=True)
class Names:
    """Kernels by func_id. An empty one names kernels by their numbers."""

    kernels: Mapping[int, KernelName] = field(default_factory=dict)

    def kernel(self, func_id: int) -> str:
        """The kernel's name, or `func 3`."""
        kernel = self.kernels.get(func_id)
        return kernel.name if kernel else f"func {func_id}"

    def joined(self, func_ids: Iterable[int]) -> str:
        """Return the names of a task's kernels. A kernel that runs on both vector cores is named once."""
        return "+".join(dict.fromkeys(self.kernel(func_id) for func_id in func_ids if func_id >= 0)) or "(no kernel)"

    def core_type(self, func_id: int) -> str:
        """Return `aic` or `aiv`, or an empty text for an unknown kernel."""
        kernel = self.kernels.get(func_id)
        return kernel.core_type if kernel else ""

    def scalar(self, func_ids: Iterable[int], index: int, bits: int) -> tuple[str, float | int | bool] | None:
        """Return the C++ type of scalar `index`, and its value from the 64 `bits`. Returns None if no wrapper has the
        scalar.
        """
        for source in self._sources(func_ids):
            name = unpacked(source)[1].get(index, "")
            if name in _FORMATS:
                (value,) = struct.unpack_from(_FORMATS[name], struct.pack("<Q", bits & (1 << 64) - 1))
                return name, value
        return None

    def argument(self, func_ids: Iterable[int], index: int) -> str:
        """Return the name of argument `index`, or an empty text if no wrapper has it."""
        names = (unpacked(source)[0].get(index) for source in self._sources(func_ids))
        return next(filter(None, names), "")

    def _sources(self, func_ids: Iterable[int]) -> Iterator[Path]:
        kernels = (self.kernels.get(func_id) for func_id in func_ids)
        return (kernel.source for kernel in kernels if kernel and kernel.source)


@cache
def unpacked(source: Path) -> tuple[dict[int, str], dict[int, str]]:
    """Return the names under which a kernel's wrapper unpacks `args[i]`, and the C++ types of scalars, both by i.

    Both are empty if it cannot be read.
    """
    file = KernelFile(text_or_nothing(source), only_entry=True)
    return file.slots(), {item.slot: item.ctype for item in file.unpacked() if item.kind == "scalar"}


def artifact_names(artifact_dir: Path) -> Names:
    """Return the names in an artifact's manifest. Raises a usage error if the manifest cannot be read."""
    artifact = load_artifact(artifact_dir)
    return Names({k.func_id: KernelName(k.name, k.core_type, k.source) for k in artifact.kernels})


def find_names(*directories: Path) -> Names:
    """Names from the first that has some: a build directory, an artifact, one with simpler's name map."""
    for directory in directories:
        for reader in (_from_interface, artifact_names, _from_name_map):
            try:
                names = reader(directory)
            except (ArtifactError, OSError, ValueError):
                continue
            if names.kernels:
                return names
    return Names()


def _from_interface(directory: Path) -> Names:
    interface = read_interface(directory / "interface.json")
    return Names({k.func_id: KernelName(k.name, k.core_type) for k in interface.kernels})


def _from_name_map(directory: Path) -> Names:
    """simpler's `name_map_<case>.json`: names by func_id."""
    for path in sorted(directory.glob("name_map_*.json")):
        try:
            listed = decode_json(read_bytes(path), _NameMap).callable_id_to_name
        except (OSError, msgspec.MsgspecError):
            continue
        return Names({int(func_id): KernelName(name) for func_id, name in listed.items() if _ID.match(func_id)})
    return Names()
