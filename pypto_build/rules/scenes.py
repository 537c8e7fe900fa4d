"""``SCENE=``: cases of scene tests, each an artifact with data, for the targets that an artifact has.

What a file declares is read from its syntax tree where that is literal; else a process of its own executes the file,
once for each content. Data and goldens are made by such processes too, and are results like all others. Nothing of a
test's file is executed in this process.
"""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pypto_build import terminal
from pypto_build.artifact import Artifact, ArtifactError, load_artifact
from pypto_build.artifact.atomic import write_bytes
from pypto_build.artifact.manifest_writer import render_manifest
from pypto_build.artifact.scene_reader import NotLiteral, is_scene_test, read_literal
from pypto_build.artifact.scenes import (
    ARGUMENTS_NAME,
    CASES_DIR,
    OUTCOMES_VARIABLE,
    CaseOutcome,
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
from pypto_build.proof import Outcome, Place
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.machinery.locks import lock_output
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment
from pypto_build.rules.machinery.workspace import Workspace, mark_output
from pypto_build.rules.replay import Replays
from pypto_build.rules.subject import Subject
from pypto_build.toolchain.python import run_tool

#: Below BUILD_DIR: what is read and made of scene tests, a directory for each file.
SCENES_DIR = "scenes"
_DESCRIPTION = "scenes.json"
_SKIPPED = 5  # exit status of a process that makes data, for a case that cannot run here
_SHOWN = 8


@dataclass(frozen=True)
class CaseRefusal:
    """A case that does not run: ``status`` is 0 for one that is skipped."""

    label: str
    reason: str
    status: int = 0


@dataclass(frozen=True)
class _Chosen:
    """One case of one class."""

    scene: Scene
    case: SceneCase

    @property
    def label(self) -> str:
        return f"{self.scene.name}::{self.case.name}"


def open_scenes(
    workspace: Workspace, selector: str, platform: Platform, cases: Sequence[str] = ()
) -> tuple[list[Subject], list[CaseRefusal]]:
    """The cases that ``selector`` (FILE[::CLASS[::CASE]]) chooses: those that run here, and those that do not.

    Of these only ``cases``, if there are any: NAME, CLASS::NAME, CLASS:: or ::NAME.
    Raises a usage error for a file that is no scene test, and for a class or case that it does not have.
    """
    name, _, rest = selector.partition("::")
    file = Path(os.path.abspath(workspace.top / name))
    if not file.is_file():
        raise ArtifactError(f"SCENE={name}", "no such file", "name the file of a scene test: FILE[::CLASS[::CASE]]")
    if not is_scene_test(file):
        raise ArtifactError(f"SCENE={name}", "declares no @scene_test class", "name the file of a scene test")
    place = _place(workspace, file)
    scenes = _described(workspace, place, file)
    if scenes.reason:
        return [], [CaseRefusal(file.name, scenes.reason)]
    chosen, named = _chosen(scenes, file, rest, cases), bool(cases) or "::" in rest
    refused = [CaseRefusal(one.label, why) for one in chosen if (why := _why_not(workspace, one, platform, named))]
    running = [one for one in chosen if not _why_not(workspace, one, platform, named)]
    workspace.data_dirs.add(file.parent)
    subjects: list[Subject] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(lambda one: _make_data(workspace, place, file, one), running))
    for one, outcome in zip(running, outcomes, strict=True):
        if outcome.status:
            refused.append(_refused(one, outcome))
            continue
        try:
            subjects.append(_subject(workspace, place, file, one))
        except ArtifactError as error:
            refused.append(CaseRefusal(one.label, str(error), error.exit_status))
    return subjects, refused


def tell_outcomes(env: Environment, refused: Sequence[CaseRefusal]) -> None:
    """When this process ends, write what became of the cases for whoever started it, if somebody wants to know."""
    file = os.environ.get(OUTCOMES_VARIABLE)
    if file is None:
        return

    def write() -> None:
        replays: Replays = env["PYPTO_REPLAYS"]
        ended = {replay.label: replay for replay in replays.by_results.values() if replay.label}
        found = [
            CaseOutcome(label, replay.reached, str(replay.results / "verdict.json")) for label, replay in ended.items()
        ]
        found += [CaseOutcome(one.label, bool(one.status), reason=one.reason) for one in refused]
        write_bytes(Path(file), msgspec.json.encode(found))

    atexit.register(write)


def say_refused(refused: Sequence[CaseRefusal]) -> int:
    """Say which cases do not run, and why; the status of the first that should have."""
    for one in refused:
        if one.status:
            terminal.complain(f"[scene] FAIL {one.label}: {one.reason}")
        else:
            terminal.say(f"[scene] SKIP {one.label}: {one.reason}")
    return next((one.status for one in refused if one.status), 0)


def _place(workspace: Workspace, file: Path) -> Place:
    """The directory of a file's scenes: opened, locked and marked."""
    relative = os.path.relpath(file.parent, workspace.top)
    suffix = "" if relative == "." else f"-{hashlib.sha256(os.fsencode(relative)).hexdigest()[:6]}"
    directory = workspace.build_dir / SCENES_DIR / file_name(file.stem + suffix)
    mark_output(directory)
    lock_output(directory)
    place = workspace.place(directory)
    place.tidy()
    return place


def _described(workspace: Workspace, place: Place, file: Path) -> Scenes:
    """What the file declares."""
    try:
        return read_literal(file)
    except NotLiteral:
        pass
    action = python_tool(
        workspace,
        "pypto_build.interop.scene.describe",
        [str(file), "--output", f"{place.path(_DESCRIPTION)}.tmp"],
        name=_DESCRIPTION,
        inputs=(file,),
        outputs=(_DESCRIPTION,),
        shared=False,
    )
    outcome = place.perform(action, run_tool, tuple)
    if outcome.status:
        raise ArtifactError("", _last_error(outcome).removeprefix("error: "), "")
    return read_scenes(place.path(_DESCRIPTION))


def _chosen(scenes: Scenes, file: Path, rest: str, selectors: Sequence[str]) -> list[_Chosen]:
    """The cases of CLASS[::CASE], either of which may be empty, that some of ``selectors`` mean."""
    class_name, _, case_name = rest.partition("::")
    classes = [scene for scene in scenes.classes if class_name in ("", scene.name)]
    if not classes:
        there_are = ", ".join(scene.name for scene in scenes.classes) or "none"
        raise ArtifactError(f"SCENE={file}::{class_name}", "no such class", f"it has {there_are}")
    found = [
        _Chosen(scene, case)
        for scene in classes
        for case in scene.cases
        if case_name in ("", case.name)
        and (not selectors or any(matches(selector, scene.name, case.name) for selector in selectors))
    ]
    if not found and selectors and not rest:
        asked = f"CASE={','.join(selectors)}"
        raise ArtifactError(asked, f"no such case in {file}", "write NAME, CLASS::NAME, CLASS:: or ::NAME")
    if not found:
        names = [case.name for scene in classes for case in scene.cases]
        there_are = ", ".join(names[:_SHOWN]) or "none"
        raise ArtifactError(f"SCENE={file}::{rest}", "no such case", f"it has {there_are}")
    return found


def _why_not(workspace: Workspace, one: _Chosen, platform: Platform, named: bool) -> str:
    """Why a case does not run; empty if it does. One that is ``named`` runs, manual or not."""
    if platform.simulated and (reason := one.scene.why_not(one.case, platform.name)):
        return reason
    mode = workspace.options["MANUAL"]
    manual = platform.name in one.case.manual
    if manual and mode == "exclude" and not named:
        return f"manual on {platform.name}; MANUAL=include runs it"
    return "not manual" if mode == "only" and not manual else ""


def _root(place: Place, scene: Scene) -> Path:
    return place.directory / f"{place.directory.name}.{scene.name}"


def _compares(workspace: Workspace, one: _Chosen) -> bool:
    return one.scene.compares(one.case) and not workspace.options["SKIP_GOLDEN"]


def _data_dir(workspace: Workspace, one: _Chosen) -> str:
    """Where the data of a case lies in its artifact."""
    seed = workspace.options["SEED"]
    kind = "" if _compares(workspace, one) else ".unchecked"
    return f"{CASES_DIR}/{file_name(one.case.name)}{kind}{f'.seed{seed}' if seed else ''}"


def _make_data(workspace: Workspace, place: Place, file: Path, one: _Chosen) -> Outcome:
    """Make the data of a case, unless it is there."""
    scene = one.scene
    tree = f"{_root(place, scene).name}/{_data_dir(workspace, one)}"
    signature = scene.orchestration.signature if scene.orchestration else ()
    tensors = [word for word in signature if word != "SCALAR"]
    outputs = ",".join(str(index) for index, word in enumerate(tensors) if word in ("OUT", "INOUT"))
    argv = [f"{file}::{scene.name}::{one.case.name}", "--output", str(place.path(tree)), "--outputs", outputs]
    argv += [] if _compares(workspace, one) else ["--skip-golden"]
    argv += ["--judged"] if scene.judged else []
    argv += ["--seed", str(workspace.options["SEED"])]
    action = python_tool(
        workspace,
        "pypto_build.interop.scene.data",
        argv,
        name=tree,
        inputs=(file,),
        tree=tree,
        shared=False,
    )

    def begin() -> tuple[()]:
        terminal.say(f"[scene] data {one.label}  ({place.reason(action)})")
        return ()

    return place.perform(action, run_tool, begin)


def _refused(one: _Chosen, outcome: Outcome) -> CaseRefusal:
    reason = _last_error(outcome).removeprefix("error: ")
    return CaseRefusal(one.label, reason, 0 if outcome.status == _SKIPPED else EXIT_STATUS["golden_error"])


def _subject(workspace: Workspace, place: Place, file: Path, one: _Chosen) -> Subject:
    """The artifact of a case's class, with the case's data."""
    root = _root(place, one.scene)
    data = root / _data_dir(workspace, one)
    artifact = scene_artifact(one.scene, file, root)
    _write_artifact(artifact, one.scene, data)
    return Subject(
        artifact=load_artifact(root),
        data=data,
        judge=f"{file}::{one.scene.name}::{one.case.name}" if one.scene.judged else "",
        limits=ring_limits(one.scene, one.case),
        unchecked=not _compares(workspace, one),
        label=one.label,
    )


def _write_artifact(artifact: Artifact, scene: Scene, data: Path) -> None:
    """The files that make an artifact of a class."""
    signature = artifact.orchestration.signature or ()
    arguments = read_arguments(data / ARGUMENTS_NAME)
    if len(signature) < len(arguments.tensors):
        name = arguments.tensors[len(signature)]
        message = f"{scene.name}: the orchestration's signature has no entry for tensor '{name}'"
        raise ArtifactError(artifact.orchestration.source, message, "declare IN, OUT or INOUT for every tensor")
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
    said = outcome.note or outcome.said
    lines = [line for line in said.splitlines() if line.strip()] or ["no reason given"]
    return next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1])
