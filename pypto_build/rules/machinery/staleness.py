"""Finds kernel bodies that no longer match their ``.pto`` module, by content.

``OUT/.units.json`` remembers, for each unit, the digest of the module and those of the bodies built from it. Only the
first look, when nothing is remembered, goes by time as PyPTO does: a module newer than ``ptoas/<unit>.cpp`` has been
edited since. The times of files that were unpacked or checked out together differ by less than ``SAME_TIME_S``, in any
order. For these the operations are counted, and their constants are looked for.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_build.artifact import Artifact, ArtifactError, Kernel
from pypto_build.artifact.files import decode_json, read_bytes, read_source, read_text, write_bytes
from pypto_build.artifact.modules import RECORD, assembled_from, function_names, module_digest

SAME_TIME_S = 2.0

_ASSEMBLED_FUNCTION = r"(?m)^[^\n;{}]{0,999}\bvoid\s+(\w+)\("
_BEGIN = "// --- ptoas-generated code ---"
_END = r"// --- [\w-]{1,40} entry point ---"


@dataclass(frozen=True)
class PtoUnit:
    """One module and the kernels built from it; ``digest`` is of the module, ``bodies`` by kernel name."""

    name: str
    path: Path
    text: str
    kernels: tuple[Kernel, ...]

    @property
    def digest(self) -> str:
        """Return the digest of the module, without the positions that refer to its program."""
        return module_digest(self.text)

    @property
    def assembled(self) -> str:
        """Return the digest of ``ptoas/<unit>.cpp``, the assembler's output that the compiler keeps; empty if it is
        missing.
        """
        try:
            return hashlib.sha256(read_bytes(self.path.with_suffix(".cpp"))).hexdigest()
        except OSError:
            return ""

    def bodies(self) -> dict[str, str]:
        """Return the digest of each kernel's body, by the kernel's name."""
        return {kernel.name: _body_digest(kernel.source) for kernel in self.kernels}


def find_units(artifact: Artifact) -> list[PtoUnit]:
    """Return the modules of an artifact from which a kernel of its manifest was built, by name."""
    modules = sorted((artifact.root / "ptoas").glob("*.pto"))
    if not modules:
        return []
    kernels = {kernel.source.stem: kernel for kernel in artifact.kernels if not kernel.external}
    units = []
    for path in modules:
        text = read_source(path)
        mine = tuple(kernels[name] for name in function_names(text) if name in kernels)
        if mine:
            units.append(PtoUnit(path.stem, path, text, mine))
    return units


@dataclass(frozen=True)
class Stale:
    """The result of comparing modules and bodies."""

    units: tuple[PtoUnit, ...] = ()  # whose kernels need a new body
    without_body: tuple[PtoUnit, ...] = ()  # those of them whose bodies were edited too, and do not count
    left: tuple[PtoUnit, ...] = ()  # whose edit does not count, as their bodies were edited too


def find_stale(
    artifact: Artifact, output: Path, units: Iterable[PtoUnit], prefer: str, assembled: Set[str] = frozenset()
) -> Stale:
    """Compare modules and bodies; record units that are new, and those ``assembled`` just now.

    ``prefer`` ('pto' or 'cpp') chooses the one that counts if a module and a body built from it were both edited. The
    choice is remembered until the other one is edited once more.

    Raises:
        ArtifactError: both were edited, and the user did not choose; or a module lacks a kernel's function.
    """
    units = list(units)
    recorded = _load(output / RECORD)
    _check_defined(artifact, units, recorded)
    # A module may be gone for a moment while an editor saves it. What is remembered of it stays valid.
    record = recorded | {
        unit.name: _entry(unit, None if unit.name in assembled else recorded.get(unit.name)) for unit in units
    }
    edited = [unit for unit in units if unit.digest != record[unit.name]["module"]]
    counts = {unit.name: _what_counts(unit, record[unit.name], prefer) for unit in edited}
    record |= {name: record[name] | {"chosen": chosen} for name, chosen in counts.items() if chosen}
    if record != recorded:
        _write(output / RECORD, record)
    words = {name: chosen["prefer"] if chosen else "" for name, chosen in counts.items()}
    return Stale(
        tuple(unit for unit in edited if words[unit.name] != "cpp"),
        tuple(unit for unit in edited if words[unit.name] == "pto"),
        tuple(unit for unit in edited if words[unit.name] == "cpp"),
    )


def _check_defined(artifact: Artifact, units: Iterable[PtoUnit], recorded: Mapping[str, Any]) -> None:
    """Raise ArtifactError if an edited module no longer defines the function that a kernel was built from."""
    built = {name: entry["bodies"].keys() for name, entry in recorded.items()}
    modules = (artifact.root / "ptoas").glob("*.pto")
    built |= {path.stem: _assembled_functions(path) for path in modules if path.stem not in recorded}
    if not built:
        return
    defined = {kernel.name for unit in units for kernel in unit.kernels}
    sources = {kernel.source.stem: kernel.source for kernel in artifact.kernels if not kernel.external}
    for name, functions in sorted(built.items()):
        module = artifact.root / "ptoas" / f"{name}.pto"
        for lost in sorted(functions & sources.keys() - defined):
            if module.is_file():
                _refuse_another_name(artifact, lost, sources[lost], module)
                raise ArtifactError(
                    module,
                    f"no longer defines function '{lost}', from which {sources[lost]} is made",
                    "restore the function's name, or compile the program again",
                )


def _refuse_another_name(artifact: Artifact, function: str, source: Path, module: Path) -> None:
    """Raise ArtifactError if the manifest gives a kernel the source of another function."""
    kernel = next((one for one in artifact.kernels if one.source == source and one.name != function), None)
    if kernel is None:
        return
    lines = read_source(artifact.manifest_path).splitlines()
    line = next((n for n, text in enumerate(lines, 1) if re.search(rf"""["']{re.escape(kernel.name)}["']""", text)), 0)
    raise ArtifactError(
        f"{artifact.manifest_path}:{line}",
        (
            f"kernel '{kernel.name}' has the source {source.name}, but that file is made from function "
            f"'{function}' of {module.name}"
        ),
        "set the kernel's source to the file made from its own function",
    )


def _assembled_functions(module: Path) -> Set[str]:
    """Return the functions that a module had when ``ptoas/<unit>.cpp`` was assembled from it."""
    try:
        text = read_text(module.with_suffix(".cpp"), errors="replace")
    except OSError:
        return frozenset()
    return frozenset(re.findall(_ASSEMBLED_FUNCTION, text))


def remember(output: Path, units: Iterable[PtoUnit]) -> None:
    """Record that the current bodies of ``units`` match their modules."""
    record = _load(output / RECORD) | {unit.name: _current(unit) for unit in units}
    _write(output / RECORD, record)


def _what_counts(unit: PtoUnit, entry: Mapping[str, Any], prefer: str) -> dict[str, Any]:
    """Return the choice for a module and bodies that were both edited, and the ignored edits; empty if not both were
    edited.
    """
    bodies = unit.bodies()
    edited = [kernel for kernel in unit.kernels if bodies[kernel.name] != entry["bodies"].get(kernel.name)]
    if not edited:
        return {}
    choices: list[dict[str, Any]] = [
        {"prefer": "pto", "without": bodies},
        {"prefer": "cpp", "without": unit.digest},
    ]
    for chosen in choices:
        if prefer == chosen["prefer"] or (not prefer and entry.get("chosen") == chosen):
            return chosen
    both = f"this module and the body of {', '.join(str(kernel.source) for kernel in edited)} were both edited"
    raise ArtifactError(unit.path, both, "choose which edit counts with PREFER=pto or PREFER=cpp")


def _entry(unit: PtoUnit, recorded: dict[str, Any] | None) -> dict[str, Any]:
    """Return the recorded entry of a unit; a new one if the unit was compiled anew and all its files changed."""
    if recorded is None or (recorded["assembled"] != unit.assembled and recorded["module"] != unit.digest):
        return _first_check(unit)
    return recorded


def _first_check(unit: PtoUnit) -> dict[str, Any]:
    assembled = unit.path.with_suffix(".cpp")
    edited_since = (
        not assembled.exists()
        or unit.path.stat().st_mtime > assembled.stat().st_mtime + SAME_TIME_S
        or not assembled_from(unit.text, read_text(assembled, errors="replace"))
    )
    return _current(unit) | ({"module": ""} if edited_since else {})


def _current(unit: PtoUnit) -> dict[str, Any]:
    return {"module": unit.digest, "assembled": unit.assembled, "bodies": unit.bodies()}


def _body_digest(source: Path) -> str:
    _, begin, text = read_source(source).partition(_BEGIN)
    end = re.search(_END, text) if begin else None
    return hashlib.sha256(text[: end.start()].strip().encode()).hexdigest() if end else ""


def _load(path: Path) -> dict[str, Any]:
    try:
        entries = decode_json(read_bytes(path), dict[str, Any])
    except (OSError, ValueError):
        return {}
    return {name: entry for name, entry in entries.items() if _is_entry(entry)}


def _is_entry(entry: Any) -> bool:
    """Return True for an entry as this module writes it; others are ignored."""
    if not isinstance(entry, dict) or not isinstance(entry.get("bodies"), dict):
        return False
    words = [entry.get("module"), entry.get("assembled"), *entry["bodies"].values()]
    chosen = entry.get("chosen", {"prefer": ""})
    return all(isinstance(word, str) for word in words) and isinstance(chosen, dict) and "prefer" in chosen


def _write(path: Path, value: dict[str, Any]) -> None:
    write_bytes(path, json.dumps(value, indent=1, sort_keys=True).encode() + b"\n")
