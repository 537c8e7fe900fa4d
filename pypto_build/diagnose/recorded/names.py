"""Names for numbers: kernels by func_id, and the arguments of a kernel by the names its wrapper unpacks them under."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.artifact.interface import read_interface
from pypto_build.diagnose.recorded.graph import Task, TaskGraph, text_or_nothing

# Submissions in an orchestration: source lines, argument variables, and names of tensors from them.
# The source is read as text, because it only provides names. Ambiguous tasks and tensors stay without a name.

_KINDS = {
    "input": ("INPUT",),
    "output": ("OUTPUT", "OUTPUT_EXISTING"),
    "inout": ("INOUT",),
    "no_dep": ("UNKNOWN", "NO_DEP"),
}
_TOKEN = re.compile(
    r"\b(?:CoreTaskArgs\w*|L0TaskArgs\w*|ArgWithDeps|Arg)(?:<\d+>)?\s+(?P<declared>\w+)\s*;"
    r"|\b(?P<variable>\w+)\s*\.\s*add_(?P<method>input|output|inout|no_dep)\s*\((?P<values>[^;]{0,4000})\)\s*;"
    r"|\bMixedKernels\s+(?P<mixed>\w+)\s*=\s*\{(?P<lanes>[^}]{0,999})\}"
    r"|\b(?:pto2_)?rt_submit_(?:aic_|aiv_)?task\s*\(\s*(?P<kernel>\w+)\s*,\s*(?P<args>\w+)\s*\)"
)
_ALIAS = re.compile(
    r"\b(?:ChipTensor|Tensor|auto)(?:\s+|\s*&\s*)(\w+)\s*=\s*(\w+)\s*(?:;|\.\s*(?:view|slice|reshape|transpose|permute)\s*\()"
)
_ASSIGNED = re.compile(r"^[ \t]*(\w+)\s*=(?!=)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


@dataclass(frozen=True)
class SiteArg:
    """One tensor argument: the method it is added with, the variable, and the line."""

    method: str
    variable: str
    line: int


@dataclass(frozen=True)
class SubmitSite:
    """One submit call."""

    line: int
    func_ids: tuple[int, ...]
    args: tuple[SiteArg, ...]

    def fits(self, task: Task) -> bool:
        """Return whether `task` may have been submitted here, by its kernels and the kinds of its arguments."""
        kinds = [arg.kind for arg in task.args]
        return set(self.func_ids) == set(task.func_ids) and (
            not kinds
            or (
                len(kinds) == len(self.args)
                and all(kind in _KINDS[arg.method] for kind, arg in zip(kinds, self.args, strict=True))
            )
        )


def read_sites(source: Path) -> list[SubmitSite]:
    """The submit calls of an orchestration, in the order of the text; empty if the file cannot be read."""
    text = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text_or_nothing(source))
    collected: dict[str, list[SiteArg]] = {}
    mixed: dict[str, tuple[int, ...]] = {}
    sites = []
    starts = [0] + [newline.end() for newline in re.finditer("\n", text)]
    for match in _TOKEN.finditer(text):
        line = bisect_right(starts, match.start())
        if match["declared"]:
            collected[match["declared"]] = []
        elif match["method"]:
            names = [part.strip() for part in match["values"].split(",")]
            collected.setdefault(match["variable"], []).extend(SiteArg(match["method"], name, line) for name in names)
        elif match["mixed"]:
            mixed[match["mixed"]] = _numbers(match["lanes"].split(","))
        else:
            func_ids = mixed.get(match["kernel"]) or _numbers([match["kernel"]])
            sites.append(SubmitSite(line, func_ids, tuple(collected.get(match["args"], ()))))
    return sites


def _numbers(words: Sequence[str]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(word) for word in map(str.strip, words) if word.isdecimal() and len(word) < 10))


def aliases(source: Path) -> dict[str, str]:
    """Variables that are views or other names of another variable."""
    text = _COMMENT.sub(" ", text_or_nothing(source))
    varying = set(_ASSIGNED.findall(text))
    return {match[1]: match[2] for match in _ALIAS.finditer(text) if match[1] not in varying}


def match_tasks(graph: TaskGraph, sites: Sequence[SubmitSite]) -> dict[int, SubmitSite]:
    """The site of each task where it is certain: only one fits, or as many tasks as sites fit, in order."""
    fitting: dict[tuple[SubmitSite, ...], list[int]] = {}
    for task in graph.tasks:
        candidates = tuple(site for site in sites if site.func_ids and site.fits(task))
        fitting.setdefault(candidates, []).append(task.id)
    matched: dict[int, SubmitSite] = {}
    for candidates, tasks in fitting.items():
        if len(candidates) == 1:
            matched.update(dict.fromkeys(tasks, candidates[0]))
        elif len(candidates) == len(tasks):
            matched.update(zip(tasks, candidates, strict=True))
    return matched


def tensor_names(graph: TaskGraph, matched: Mapping[int, SubmitSite], renamed: Mapping[str, str]) -> dict[int, str]:
    """Names of buffers by tensor id: the variable that most tasks hand them over under, views by what they are of."""
    votes: dict[int, Counter[str]] = {}
    for task in graph.tasks:
        site = matched.get(task.id)
        for arg, argument in zip(task.args, site.args if site else (), strict=False):
            if arg.tensor is not None and argument.variable.isidentifier():
                votes.setdefault(arg.tensor, Counter())[_base(argument.variable, renamed)] += 1
    return {tensor: counted.most_common(1)[0][0].removeprefix("ext_") for tensor, counted in votes.items()}


def _base(name: str, renamed: Mapping[str, str]) -> str:
    seen = set()
    while name in renamed and name not in seen:
        seen.add(name)
        name = renamed[name]
    return name


#: `x_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[0])`, `alpha_conv.u64 = args[3]`, and how the examples cast.
# What a wrapper makes of a scalar's 64 bits.
_FORMATS = {
    "float": "<f", "double": "<d", "bool": "<?", "int8_t": "<b", "uint8_t": "<B", "int16_t": "<h", "uint16_t": "<H",
    "int32_t": "<i", "uint32_t": "<I", "int": "<i", "int64_t": "<q",
}  # fmt: skip
_UNPACK = re.compile(
    r"\b(\w+?)(?:_tensor|_conv\s*\.\s*u64|_conv)?\s*=(?:[^;=]{0,999}?[(,\s])?args\s*\[\s*(\d{1,9})\s*\]"
)


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
        """The names of a task's kernels, the lanes of one that runs on both vector cores once."""
        return "+".join(dict.fromkeys(self.kernel(func_id) for func_id in func_ids if func_id >= 0)) or "(no kernel)"

    def core_type(self, func_id: int) -> str:
        """`aic`, `aiv`, or nothing where it is not known."""
        kernel = self.kernels.get(func_id)
        return kernel.core_type if kernel else ""

    def scalar(self, func_ids: Iterable[int], index: int, bits: int) -> tuple[str, float | int | bool] | None:
        """The C++ type of scalar `index`, and the value that its 64 `bits` are; None where no wrapper tells."""
        for source in self._sources(func_ids):
            name = scalar_type(source, index)
            if name in _FORMATS:
                (value,) = struct.unpack_from(_FORMATS[name], struct.pack("<Q", bits & (1 << 64) - 1))
                return name, value
        return None

    def argument(self, func_ids: Iterable[int], index: int) -> str:
        """The name of argument `index`, or nothing where the wrapper does not tell."""
        names = (argument_names(source).get(index) for source in self._sources(func_ids))
        return next(filter(None, names), "")

    def _sources(self, func_ids: Iterable[int]) -> Iterator[Path]:
        kernels = (self.kernels.get(func_id) for func_id in func_ids)
        return (kernel.source for kernel in kernels if kernel and kernel.source)


# `float alpha = alpha_conv.val;` in a wrapper, after `alpha_conv.u64 = args[2];`
_TYPED = re.compile(r"\b(\w+)\s+(\w+)\s*=\s*(\w+)_conv\s*\.\s*(?!u64)\w+\s*;")


def scalar_type(source: Path, index: int) -> str:
    """The C++ type that a kernel's wrapper takes scalar `args[index]` for; empty where it does not tell."""
    name = argument_names(source).get(index)
    matches = _TYPED.finditer(text_or_nothing(source)) if name else ()
    return next((match[1] for match in matches if match[3] == name), "")


@cache
def argument_names(source: Path) -> dict[int, str]:
    """The names under which a kernel's wrapper unpacks `args[i]`, by i; empty if it cannot be read."""
    text = text_or_nothing(source)
    names: dict[int, str] = {}
    for match in _UNPACK.finditer(text, max(text.find("kernel_entry"), 0)):
        names.setdefault(int(match[2]), match[1])
    return names


def artifact_names(artifact_dir: Path) -> Names:
    """Names from an artifact's manifest. Raises a usage error if it has none that can be read."""
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
