"""``SCENE=``: cases of scene tests, each an artifact with data, for the targets that an artifact has.

The declarations of a file are read from its syntax tree if they are literal. Otherwise a process of its own executes
the file, once for each content. Such processes make data and goldens too, which are results like all others. This
process executes nothing of a test's file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
from SCons.Script import GetOption

from pypto_build import terminal
from pypto_build.artifact import MANIFEST_NAME, Artifact, ArtifactError, load_artifact
from pypto_build.artifact.distributed import Distributed, load_distributed, read_devices
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.layout import CHILDREN_DIR
from pypto_build.artifact.manifest_writer import render_manifest
from pypto_build.artifact.outputs import mark_output
from pypto_build.artifact.scene_reader import NotLiteral, read_literal, scene_files
from pypto_build.artifact.scenes import (
    ARGUMENTS_NAME,
    CASES_DIR,
    DESCRIPTIONS_VARIABLE,
    NODE_LEVEL,
    PROGRAMS_DIR,
    FileDescription,
    Scene,
    SceneCase,
    Scenes,
    file_name,
    matches,
    read_arguments,
    read_scenes,
    ring_limits,
    scene_artifact,
)
from pypto_build.facts.platforms import Platform
from pypto_build.proof import Outcome, OutputDir
from pypto_build.proof.witness import VARIABLE
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.artifact import units_of
from pypto_build.rules.machinery.background import BackgroundJobs
from pypto_build.rules.machinery.locks import lock_output
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.workspace import Workspace, as_it_is
from pypto_build.rules.scene_outcomes import CaseRefusal
from pypto_build.rules.subject import Subject
from pypto_build.rules.units import ensure
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.forked import ForkedTools

# Cases of scene tests for several chips: distributed artifacts whose chip programs a class has in common.

#: Chip programs by their directories, in the workspace's extras: what their manifests say in this run.
_WRITTEN = "chip programs of scene tests"


def open_node(workspace: Workspace, root: Path, of_class: Path) -> Distributed:
    """Return the artifact that a separate process has written to ``root``, with its chip programs.

    The chip programs lie in ``of_class``, so that cases share their builds. A chip program whose tensors have other
    directions than in another case lies in ``root``. Raises a usage error for unreadable files.
    """
    written: dict[Path, bytes] = workspace.extras.setdefault(_WRITTEN, {})
    links = root / CHILDREN_DIR
    programs = {file.stem: file.read_bytes() for file in sorted((root / PROGRAMS_DIR).glob("*.py"))}
    for stale in [path for path in links.glob("*") if path.name not in programs]:
        _remove(stale)
    links.mkdir(parents=True, exist_ok=True)
    for name, manifest in programs.items():
        shared = of_class / CHILDREN_DIR / name
        if written.setdefault(shared, manifest) == manifest:
            _write(shared / MANIFEST_NAME, manifest)
            _link(links / name, Path(os.path.relpath(shared, links)))
        else:
            if (links / name).is_symlink():
                _remove(links / name)
            _write(links / name / MANIFEST_NAME, manifest)
    return load_distributed(root)


def check_ranks(workspace: Workspace, subjects: Iterable[Subject]) -> None:
    """Raise a usage error if WORLD= or DEVICES= does not match the recorded number of chips of a case."""
    devices = read_devices(workspace.options["DEVICES"], workspace.options["WORLD"])
    ranks = len(devices) or workspace.options["WORLD"]
    for subject in subjects:
        if ranks and subject.distributed is not None and subject.distributed.ranks != ranks:
            option = f"DEVICES={workspace.options['DEVICES']}" if devices else f"WORLD={ranks}"
            case, count = subject.origin.partition("::")[2], subject.distributed.ranks
            raise ArtifactError(option, f"{case} is for {count} chips", "the number is device_count in its config")


def _write(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        write_bytes(path, content)


def _link(path: Path, target: Path) -> None:
    with suppress(OSError):
        if path.readlink() == target:
            return
    _remove(path)
    path.symlink_to(target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


#: Below BUILD_DIR: what is read and made of scene tests, a directory for each file.
SCENES_DIR = "scenes"
_DESCRIPTION = "scenes.json"
_DESCRIBE, _DATA = "pypto_build.interop.scene.describe", "pypto_build.interop.scene.data"
_NODE_DATA = "pypto_build.interop.scene.node_data"
_TOOLS = _DESCRIBE, _DATA, _NODE_DATA, "pypto_build.interop.scene.judge"
#: Threads that wait do so without a processor: a golden of many small operations wakes them for each.
_WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}
#: Modules that run for each of many cases, and need no PyTorch.
_REPLAYS = "pypto_build.replay", "pypto_build.replay.chips", "pypto_build.interop.scene.run"
_FOR_MANY = "pypto_build.artifact.sign", *_REPLAYS
_SKIPPED = 5  # exit status of a process that makes data, for a case that cannot run here
_SHOWN = 8
#: Factor of the time limit for a manual case, which its author has set aside because it is long.
_OF_MANUAL = 10


@dataclass(frozen=True)
class _File:
    """A file of scene tests, its output directory, and the selected classes and cases (CLASS[::CASE], "" for all)."""

    path: Path
    output_dir: OutputDir
    selectors: tuple[str, ...]


@dataclass(frozen=True)
class _Chosen:
    """One case of one class; ``named``: the user named this case."""

    file: _File
    scene: Scene
    case: SceneCase
    named: bool

    @property
    def origin(self) -> str:
        return f"{self.file.path}::{self.scene.name}::{self.case.name}"


def open_scenes(
    workspace: Workspace, selector: str, platform: Platform, cases: Sequence[str] = (), builds: bool = False
) -> tuple[list[Subject], list[CaseRefusal]]:
    """Return the cases that ``selector`` chooses: those that run here, and those that do not.

    The selector is FILE[::CLASS[::CASE]] or a directory of scene tests, or several of these with commas between. If
    there are ``cases``, only the cases that match one of them are chosen: NAME, CLASS::NAME, CLASS:: or ::NAME. With
    ``builds``, for the usual binaries, units are compiled while data is made.

    Raises a usage error for a file that is no scene test, and for a class or case that it does not have. If there are
    several files, a fault in one of them is a refusal.
    """
    files = _files(workspace, selector)
    tools = ForkedTools(_TOOLS, VARIABLE, _WAITING)
    with ExitStack() as ending:
        ending.callback(tools.close)
        background = BackgroundJobs(GetOption("num_jobs") - 1)
        ending.callback(background.end)
        pool = ending.enter_context(ThreadPoolExecutor(GetOption("num_jobs")))
        opening = _Opening(workspace, platform, tools, pool, background)
        opening.describe(files, selector, cases, builds)
        subjects = opening.subjects()
        if workspace.confine is as_it_is and len(subjects) > 1:
            workspace.forks = ForkedTools(_FOR_MANY, VARIABLE)
            workspace.at_end.append(workspace.forks.close)
        if workspace.confine is as_it_is and any(subject.judged for subject in subjects):
            subjects = [replace(subject, judges=tools) if subject.judged else subject for subject in subjects]
            workspace.at_end.append(ending.pop_all().close)
    return subjects, opening.refused


class _Opening:
    """Opens the chosen cases, from the declarations of files to the subjects that run.

    Files are executed by ``tools``, in threads of ``pool``; ``background`` runs other work in parallel.
    """

    def __init__(
        self,
        workspace: Workspace,
        platform: Platform,
        tools: ForkedTools,
        pool: ThreadPoolExecutor,
        background: BackgroundJobs,
    ) -> None:
        self._workspace, self._platform = workspace, platform
        self._tools, self._pool, self._background = tools, pool, background
        self._running: list[_Chosen] = []
        self.refused: list[CaseRefusal] = []

    def describe(self, files: Sequence[_File], selector: str, cases: Sequence[str], builds: bool) -> None:
        """Find the cases that ``selector`` means; with ``builds``, their units are built from then on."""
        begin = self._background.begin
        declared = [self._pool.submit(_declared, self._workspace, self._tools, file, begin) for file in files]
        descriptions: dict[str, FileDescription] = {}
        chosen: list[_Chosen] = []
        for file, answer in zip(files, declared, strict=True):
            try:
                scenes = answer.result()
                cases_of_scene = [] if scenes.reason else _chosen(scenes, file, cases)
            except ArtifactError as error:
                if len(files) == 1:
                    raise
                self.refused.append(CaseRefusal(str(file.path), str(error), error.exit_status))
                descriptions[str(file.path)] = FileDescription(error=str(error))
                continue
            descriptions[str(file.path)] = FileDescription(scenes)
            chosen += cases_of_scene
            self.refused += [CaseRefusal(str(file.path), scenes.reason)] if scenes.reason else []
            self._workspace.data_dirs.add(file.path.parent)
            self._choose(cases_of_scene, builds)
        if cases and not (chosen or self.refused):
            option = f"CASE={','.join(cases)}"
            raise ArtifactError(
                option, f"no such case in {selector}", "select with NAME, CLASS::NAME, CLASS:: or ::NAME"
            )
        if target := os.environ.get(DESCRIPTIONS_VARIABLE):
            write_bytes(Path(target), msgspec.json.encode(descriptions))

    def _choose(self, chosen: Sequence[_Chosen], builds: bool) -> None:
        """Select the cases that run here."""
        for one in chosen:
            if why := _why_not(self._workspace, one, self._platform):
                self.refused.append(CaseRefusal(one.origin, why))
                continue
            self._running.append(one)
            if builds:
                _build_in_background(self._workspace, one, self._platform, self._background)

    def subjects(self) -> list[Subject]:
        """Compute the data of the cases that run; return the cases with data."""
        subjects: list[Subject] = []
        make = partial(_make_data, self._workspace, self._tools, start_others=self._background.begin)
        outcomes = list(self._pool.map(make, self._running))
        self._background.end()
        for one, outcome in zip(self._running, outcomes, strict=True):
            if outcome.status:
                self.refused.append(_refused(one, outcome))
                continue
            try:
                subjects.append(_subject(self._workspace, one, self._platform))
            except ArtifactError as error:
                self.refused.append(CaseRefusal(one.origin, str(error), error.exit_status))
        return subjects


def _files(workspace: Workspace, selector: str) -> list[_File]:
    """Return the files that ``selector`` names, each once."""
    selectors_of: dict[Path, list[str]] = {}
    for name, _, rest in (text.partition("::") for text in selector.split(",") if text):
        path = Path(os.path.abspath(workspace.top / name))
        if not path.exists():
            raise ArtifactError(f"SCENE={name}", "no such file", "name the file of a scene test: FILE[::CLASS[::CASE]]")
        files = scene_files(path)
        if not files:
            what = "contains no scene test" if path.is_dir() else "declares no @scene_test class"
            raise ArtifactError(f"SCENE={name}", what, "name the file of a scene test")
        for file in files:
            selectors_of.setdefault(file, []).append(rest)
    return [_File(path, _output_dir(workspace, path), tuple(selectors)) for path, selectors in selectors_of.items()]


def _output_dir(workspace: Workspace, file: Path) -> OutputDir:
    """Return the directory of a file's scenes: opened, locked and marked."""
    relative = os.path.relpath(file.parent, workspace.top)
    suffix = "" if relative == "." else f"-{hashlib.sha256(os.fsencode(relative)).hexdigest()[:6]}"
    directory = workspace.build_dir / SCENES_DIR / file_name(file.stem + suffix)
    lock_output(directory)
    mark_output(directory)
    output_dir = workspace.output_dir(directory)
    output_dir.tidy()
    return output_dir


def _build_in_background(workspace: Workspace, one: _Chosen, platform: Platform, background: BackgroundJobs) -> None:
    """Build the units of a case's class in the background; errors are reported later."""
    if one.scene.level == NODE_LEVEL:
        return
    artifact = scene_artifact(one.scene, one.file.path, _root(one.file.output_dir, one.scene))
    if artifact.root in workspace.outputs.values():
        return
    with suppress(ArtifactError, ToolchainError, OSError):
        for steps in units_of(workspace, artifact, platform):
            background.add(partial(ensure, workspace, steps, speculative=True))


def _declared(workspace: Workspace, tools: ForkedTools, file: _File, begin: Callable[[], None]) -> Scenes:
    """Return the declarations of a file; ``begin`` is called if the file has to be executed for that."""
    try:
        return read_literal(file.path)
    except NotLiteral:
        pass
    output_dir = file.output_dir
    action = python_tool(
        workspace,
        _DESCRIBE,
        [str(file.path), "--output", f"{output_dir.path(_DESCRIPTION)}.tmp"],
        name=_DESCRIPTION,
        inputs=(file.path,),
        outputs=(_DESCRIPTION,),
        shared=False,
        runs_programs=True,
    )

    outcome = output_dir.perform(action, tools.run, begin, forks=tools)
    if outcome.status:
        raise ArtifactError("", _last_error(outcome).removeprefix("error: "), "")
    return read_scenes(output_dir.path(_DESCRIPTION))


def _chosen(scenes: Scenes, file: _File, selectors: Sequence[str]) -> list[_Chosen]:
    """Return the cases of a file that are meant; with ``selectors``, those that one of them means too."""
    by_case: dict[tuple[str, str], _Chosen] = {}
    for rest in file.selectors:
        for scene, case in _matching(scenes, file.path, rest):
            if not selectors or any(matches(selector, scene.name, case.name) for selector in selectors):
                one = _Chosen(file, scene, case, bool(selectors) or "::" in rest)
                by_case[scene.name, case.name] = one
    return list(by_case.values())


def _matching(scenes: Scenes, file: Path, rest: str) -> list[tuple[Scene, SceneCase]]:
    """Return the cases of CLASS[::CASE], either of which may be empty."""
    class_name, _, case_name = rest.partition("::")
    classes = [scene for scene in scenes.classes if class_name in ("", scene.name)]
    if not classes:
        there_are = ", ".join(scene.name for scene in scenes.classes) or "none"
        raise ArtifactError(f"SCENE={file}::{class_name}", "no such class", f"its classes are {there_are}")
    cases = [(scene, case) for scene in classes for case in scene.cases if case_name in ("", case.name)]
    if rest and not cases:
        names = [case.name for scene in classes for case in scene.cases]
        there_are = ", ".join(names[:_SHOWN]) or "none"
        raise ArtifactError(f"SCENE={file}::{rest}", "no such case", f"its cases are {there_are}")
    return cases


def _why_not(workspace: Workspace, one: _Chosen, platform: Platform) -> str:
    """Return why a case does not run; empty if it does. A named case runs even if it is manual."""
    if platform.simulated and (reason := one.scene.why_not(one.case, platform.name)):
        return reason
    mode = workspace.options["MANUAL"]
    manual = platform.name in one.case.manual
    if manual and mode == "exclude" and not one.named:
        return f"manual on {platform.name}; MANUAL=include runs it"
    return "not manual" if mode == "only" and not manual else ""


def _root(output_dir: OutputDir, scene: Scene) -> Path:
    return output_dir.directory / f"{output_dir.directory.name}.{scene.name}"


def _compares(workspace: Workspace, one: _Chosen) -> bool:
    return one.scene.compares(one.case) and not workspace.options["SKIP_GOLDEN"]


def _data_kind(workspace: Workspace, one: _Chosen) -> str:
    """Return how a case's data differs from its usual data, as the end of a name."""
    seed = workspace.options["SEED"]
    return ("" if _compares(workspace, one) else ".unchecked") + (f".seed{seed}" if seed else "")


def _data_dir(workspace: Workspace, one: _Chosen) -> str:
    """Return the directory of a case's data in its artifact."""
    return f"{CASES_DIR}/{file_name(one.case.name)}{_data_kind(workspace, one)}"


def _tree(workspace: Workspace, one: _Chosen) -> str:
    """Return the directory, below the output directory of its file, that a process writes for a case.

    It holds the data, and for several chips the artifact too.
    """
    root = _root(one.file.output_dir, one.scene).name
    if one.scene.level == NODE_LEVEL:
        return f"{root}.{file_name(one.case.name)}{_data_kind(workspace, one)}"
    return f"{root}/{_data_dir(workspace, one)}"


def _outputs(scene: Scene) -> list[str]:
    """Return the flags that name the tensors of one chip with goldens: those that the signature declares as written."""
    if scene.level == NODE_LEVEL:
        return []
    signature = scene.orchestration.signature if scene.orchestration else ()
    tensors = [word for word in signature if word != "SCALAR"]
    outputs = [str(index) for index, word in enumerate(tensors) if word in ("OUT", "INOUT")]
    return ["--outputs", ",".join(outputs)]


def _make_data(workspace: Workspace, tools: ForkedTools, one: _Chosen, start_others: Callable[[], None]) -> Outcome:
    """Compute the data of a case if it is missing; ``start_others`` is called in that case."""
    scene, output_dir = one.scene, one.file.output_dir
    tree = _tree(workspace, one)
    argv = [one.origin, "--output", str(output_dir.path(tree)), *_outputs(scene)]
    argv += [] if _compares(workspace, one) else ["--skip-golden"]
    argv += ["--judged"] if scene.judged else []
    argv += ["--seed", str(workspace.options["SEED"])]
    action = python_tool(
        workspace,
        _NODE_DATA if scene.level == NODE_LEVEL else _DATA,
        argv,
        name=tree,
        inputs=(one.file.path,),
        tree=tree,
        shared=False,
        runs_programs=True,
    )

    def begin() -> None:
        start_others()
        terminal.say(f"[scene] data {scene.name}::{one.case.name}  ({output_dir.reason(action)})")

    return output_dir.perform(action, tools.run, begin, forks=tools)


def _refused(one: _Chosen, outcome: Outcome) -> CaseRefusal:
    reason = _last_error(outcome).removeprefix("error: ").removeprefix(f"{one.origin}: ")
    return CaseRefusal(one.origin, reason, 0 if outcome.status == _SKIPPED else EXIT_STATUS["golden_error"])


def _subject(workspace: Workspace, one: _Chosen, platform: Platform) -> Subject:
    """Return the artifact of a case's class, with the case's data."""
    root = _root(one.file.output_dir, one.scene)
    subject = _on_chips(workspace, one, root) if one.scene.level == NODE_LEVEL else _on_a_chip(workspace, one, root)
    return replace(
        subject,
        origin=one.origin,
        judged=one.scene.judged,
        limits=ring_limits(one.scene, one.case),
        unchecked=not _compares(workspace, one),
        patience=_OF_MANUAL if platform.name in one.case.manual else 1,
    )


def _on_chips(workspace: Workspace, one: _Chosen, of_class: Path) -> Subject:
    distributed = open_node(workspace, one.file.output_dir.path(_tree(workspace, one)), of_class)
    return Subject(distributed.as_artifact(), distributed=distributed)


def _on_a_chip(workspace: Workspace, one: _Chosen, root: Path) -> Subject:
    data = root / _data_dir(workspace, one)
    _write_artifact(scene_artifact(one.scene, one.file.path, root), one.scene, data)
    return Subject(load_artifact(root), data)


def _write_artifact(artifact: Artifact, scene: Scene, data: Path) -> None:
    """Write the files of a class's artifact."""
    signature = artifact.orchestration.signature or ()
    arguments = read_arguments(data / ARGUMENTS_NAME)
    if len(signature) < len(arguments.tensors):
        name = arguments.tensors[len(signature)]
        message = f"{scene.name}: the signature of the orchestration has no entry for tensor '{name}'"
        raise ArtifactError(artifact.orchestration.source, message, "give IN, OUT or INOUT for every tensor")
    directions = {"IN": "In", "OUT": "Out", "INOUT": "InOut"}
    params = [
        {"name": name, "direction": directions[direction.name], "shape": None, "dtype": "", "kind": "tensor"}
        for name, direction in zip(arguments.tensors, signature, strict=False)
    ]
    params += [
        {"name": name, "direction": "In", "shape": None, "dtype": "", "kind": "scalar"} for name in arguments.scalars
    ]
    meta = msgspec.json.format(msgspec.json.encode({"schema": 1, "params": params}), indent=1) + b"\n"
    short = msgspec.structs.replace(
        artifact, orchestration=msgspec.structs.replace(artifact.orchestration, signature=signature[: len(params)])
    )
    files = {
        "kernel_config.py": render_manifest(short, artifact.root).encode(),
        "compiled_meta.json": meta,
        "golden.py": f"RTOL = {scene.rtol!r}\nATOL = {scene.atol!r}\n".encode(),
    }
    for name, content in files.items():
        path = artifact.root / name
        if not path.is_file() or path.read_bytes() != content:
            write_bytes(path, content)


def _last_error(outcome: Outcome) -> str:
    output = outcome.note or outcome.printed
    lines = [line for line in output.splitlines() if line.strip()] or ["no reason given"]
    return next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1])
