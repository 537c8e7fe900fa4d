"""Scene tests as programs: the declarations of a file, and the artifact of each of its classes.

A scene test (simpler's ``@scene_test`` class) names kernels and an orchestration, and gives data and golden for each of
its cases. As a program, the class is an artifact whose sources lie where the class names them. A case is a directory of
data beside the artifact's manifest. This module reads plain values; other modules get them from the syntax tree or from
a process that executed the file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.facts.run_options import is_tolerance

from .errors import ArtifactError
from .files import Document, read_record
from .records import DEFAULT_CONFIG, DEFAULT_ENTRY, ArgDirection, Artifact, CoreType, Kernel, Orchestration

#: Levels of a scene test that run on one chip.
CHIP_LEVEL = 2
#: Levels that run on several chips of one machine.
NODE_LEVEL = 3
#: Directory in an artifact with its class's cases, a directory each.
CASES_DIR = "data"
#: Directory with the manifests of a case's chip programs, ``NAME.py`` each.
PROGRAMS_DIR = "programs"
#: File of a case's data with the scalars that a class judges by.
SCALARS_DIR = "scalars"
#: File that describes a case's directory.
ARGUMENTS_NAME = "arguments.json"

#: The variable with the file in which a build tells what became of the cases.
OUTCOMES_VARIABLE = "PYPTO_BUILD_SCENES_FILE"
#: The variable with the file in which a build tells what files declare: a `FileDescription` by the path of each.
DESCRIPTIONS_VARIABLE = "PYPTO_BUILD_SCENES_DESCRIBED"

_RUNTIME_ENV = ("ring_task_window", "ring_heap", "ring_dep_pool")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.+-]")


class SceneCase(msgspec.Struct, frozen=True):
    """One case; on the ``manual`` platforms it runs only if it is selected."""

    name: str
    platforms: tuple[str, ...] = ()
    manual: tuple[str, ...] = ()
    skip_golden: bool | None = None
    config: dict[str, Any] = {}


class SceneKernel(msgspec.Struct, frozen=True):
    """An entry of ``CALLABLE["incores"]`` with directions by their names."""

    func_id: int
    source: str
    core_type: CoreType
    name: str = ""
    signature: tuple[str, ...] | None = None
    extra_include_dirs: tuple[str, ...] = ()


class SceneEntry(msgspec.Struct, frozen=True):
    """``CALLABLE["orchestration"]`` with directions by their names."""

    source: str
    function_name: str = DEFAULT_ENTRY
    config_name: str = ""
    signature: tuple[str, ...] = ()
    name: str = ""


def scene_tolerance(position: str | Path, name: str, value: object) -> float:
    """Return the tolerance ``name`` of a class. Raises a usage error at ``position`` for an invalid value."""
    if not is_tolerance(value):
        raise ArtifactError(position, f"{name} = {value!r} is not a tolerance", "write a finite number of 0 or more")
    return float(value)  # type: ignore[arg-type]


class Scene(msgspec.Struct, frozen=True):
    """One ``@scene_test`` class.

    ``judged``: the class compares outputs itself, or inspects the files of a run. ``reason`` says why none of its cases
    runs here; ``others`` are test methods that do not run its cases. ``environment`` is set while it runs.
    """

    name: str
    line: int
    level: int
    runtime: str
    orchestration: SceneEntry | None = None
    kernels: tuple[SceneKernel, ...] = ()
    cases: tuple[SceneCase, ...] = ()
    rtol: float = 1e-5
    atol: float = 1e-5
    skip_golden: bool = False
    judged: bool = False
    reason: str = ""
    others: tuple[str, ...] = ()
    environment: dict[str, str] = {}

    def why_not(self, case: SceneCase, platform: str) -> str:
        """Return why a case does not run on a simulated platform here; empty if it does."""
        if self.reason:
            return self.reason
        if platform in case.platforms:
            return ""
        return f"its platforms are {', '.join(case.platforms)}" if case.platforms else "it names no platform"

    def compares(self, case: SceneCase) -> bool:
        """Return whether a case has a golden."""
        return not (self.skip_golden if case.skip_golden is None else case.skip_golden)


class Scenes(msgspec.Struct, frozen=True):
    """The declarations of a file; ``reason`` says why it cannot be executed here."""

    classes: tuple[Scene, ...] = ()
    reason: str = ""


class FileDescription(msgspec.Struct, frozen=True):
    """The declarations of a file, or the ``error`` in it."""

    scenes: Scenes = Scenes()
    error: str = ""


class Arguments(msgspec.Struct, frozen=True):
    """Arguments by a case's data: names of tensors and scalars in their order."""

    tensors: tuple[str, ...]
    scalars: tuple[str, ...] = ()


class CaseOutcome(msgspec.Struct, frozen=True):
    """Outcome of one case in a build; ``origin`` is FILE::CLASS::CASE, or a file for all of its cases.

    If the case ``ran``, ``verdict`` is from this run; without a verdict, its data could not be computed for the
    ``reason``. If the case did not run, a ``verdict`` means that the build failed; without one it was skipped for the
    ``reason``. ``output`` is the output of the run.
    """

    origin: str
    ran: bool
    verdict: str = ""
    reason: str = ""
    output: str = ""


def encode_scenes(scenes: Scenes) -> bytes:
    """Return ``scenes`` as JSON."""
    return msgspec.json.format(msgspec.json.encode(scenes), indent=1) + b"\n"


def read_scenes(path: Path) -> Scenes:
    """Return the document that `encode_scenes` wrote. Raises a usage error for other content."""
    return _read(path, Scenes)


def read_arguments(path: Path) -> Arguments:
    """Read the arguments that a case's data was generated for. Raises a usage error for invalid names."""
    arguments = _read(path, Arguments)
    for name in (*arguments.tensors, *arguments.scalars):
        if not name.isidentifier():
            raise ArtifactError(
                path,
                f"{name!r} is not a valid parameter name",
                "rename the parameter, then generate the data again with FORCE=1",
            )
    return arguments


def _read(path: Path, kind: type[Document]) -> Document:
    return read_record(path, kind, "is damaged", "remove it and run again", unread="run it again")


def scene_artifact(scene: Scene, file: Path, root: Path) -> Artifact:
    """Return the artifact of a scene-test class in ``file``; its directory is ``root``.

    Raises a usage error naming the class and the faulty entry.
    """
    position = f"{file}:{scene.line}"
    if scene.orchestration is None:
        hint = "name the C++ file that submits the tasks"
        raise ArtifactError(position, f"{scene.name}.CALLABLE names no orchestration", hint)
    entry = scene.orchestration
    orchestration = Orchestration(
        source=_source(file, entry.source, position, f'{scene.name}.CALLABLE["orchestration"]'),
        function_name=entry.function_name or DEFAULT_ENTRY,
        config_name=entry.config_name or DEFAULT_CONFIG,
        signature=tuple(ArgDirection[word] for word in entry.signature if word != "SCALAR"),
        external=True,
    )
    kernels, taken = [], set[tuple[str, str]]()
    for kernel in scene.kernels:
        source = _source(file, kernel.source, position, f"{scene.name}.CALLABLE: kernel {kernel.func_id}")
        name = file_name(kernel.name or source.stem)
        if (kernel.core_type, name) in taken:
            name = f"{name}_{kernel.func_id}"
        taken.add((kernel.core_type, name))
        signature = kernel.signature
        kernels.append(
            Kernel(
                func_id=kernel.func_id,
                name=name,
                source=source,
                core_type=kernel.core_type,
                signature=None if signature is None else tuple(ArgDirection[w] for w in signature if w != "SCALAR"),
                external=True,
                extra_include_dirs=_include_dirs(file, kernel, position),
            )
        )
    return Artifact(root, root.name, tuple(kernels), orchestration, {"runtime": scene.runtime})


def matches(selector: str, class_name: str, case_name: str) -> bool:
    """Return whether NAME, CLASS::NAME, CLASS:: or ::NAME selects this case."""
    left, separator, right = selector.rpartition("::")
    if not separator:
        return right == case_name
    return left in ("", class_name) and right in ("", case_name)


def file_name(text: str) -> str:
    """Return ``text`` converted to a valid name of a kernel or file."""
    name = _NOT_A_NAME.sub("_", text)
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"


def ring_limits(scene: Scene, case: SceneCase) -> dict[str, str]:
    """Return the ring sizes that a case requests, as variables of the run."""
    environment = case.config.get("runtime_env", {})
    limits = {}
    for name in _RUNTIME_ENV:
        value = environment.get(name) if isinstance(environment, dict) else None
        numbers = value if isinstance(value, list) else [value] if value else []
        if any(numbers):
            limits[f"PTO2_{name.upper()}"] = ",".join(str(number) for number in numbers)
    return {**{key: value for key, value in scene.environment.items() if key.startswith("PTO2_")}, **limits}


def _source(file: Path, source: str, position: str, field: str) -> Path:
    path = Path(os.path.normpath(file.parent / source))
    if not path.is_file():
        raise ArtifactError(position, f"{field}: there is no file {path}", "correct the path of the source")
    return path


def _include_dirs(file: Path, kernel: SceneKernel, position: str) -> tuple[Path, ...]:
    """Return the kernel's header directories that exist. Raises a usage error if directories are named and none
    exists.
    """
    directories = []
    for text in kernel.extra_include_dirs:
        expanded = os.path.expandvars(text)
        if "$" in expanded:
            raise ArtifactError(
                position,
                f"extra_include_dirs: {text} uses an environment variable that is not set",
                "set the variable",
            )
        directory = Path(os.path.normpath(file.parent / expanded))
        if directory.is_dir():
            directories.append(directory)
    if kernel.extra_include_dirs and not directories:
        raise ArtifactError(position, f"extra_include_dirs: none of {', '.join(kernel.extra_include_dirs)} exists", "")
    return tuple(directories)
