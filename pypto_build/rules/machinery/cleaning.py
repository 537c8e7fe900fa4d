"""``scons -c``: removes all built files, and no others.

SCons would remove only the targets it knows. A run also leaves results, databases and locks, and a removed artifact
still has its output. So this module lists the names that this project writes below an output directory. Files of an
artifact that a program makes are removed if they are unchanged; an edited file belongs to the user.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from SCons.Node.Alias import default_ans
from SCons.Node.FS import get_default_fs
from SCons.Script import COMMAND_LINE_TARGETS, GetOption

from pypto_build import terminal
from pypto_build.artifact.compiled_files import generated_files
from pypto_build.artifact.distributed import META_NAME
from pypto_build.artifact.first_sight import FIRST_SIGHT
from pypto_build.artifact.last_pass import LAST_PASS
from pypto_build.artifact.layout import CHILDREN_DIR
from pypto_build.artifact.outputs import MARKER
from pypto_build.proof.record import MORE, RECORD
from pypto_build.proof.work import WORK
from pypto_build.replay.results import NAMES, REPLAYS
from pypto_build.rules.machinery.database import SIGNATURES
from pypto_build.rules.machinery.inputs import is_reached, kept_by_users
from pypto_build.rules.machinery.locks import LOCK, lock_output
from pypto_build.rules.machinery.workspace import DECLARED_TESTS, FAILED_TESTS, TESTS, Workspace
from pypto_build.rules.targets import TARGETS
from pypto_build.rules.variants import VARIANTS

_TREES = (*filter(None, VARIANTS), "kernels", "orchestration", "ptoas", "spliced", "actual", "dfx_outputs")
# Directories in which tools keep what only they write.
_WORK = (
    REPLAYS,
    "findings",
    "diverge",
    "flaky",
    "triage",
    "why",
    "extract",
    "reduce",
    "step",
    "reference",
    "torch",
    "completed",
    "snapshot",
    "instruments",
    "bisect.mix",
    LAST_PASS,
)
_FILES = (
    "kernel_config.py",
    "interface.json",
    "verdict.json",
    "device_rules.json",
    "open_rules.json",
    ".device_rules.json",
    "scenes.json",
    "report.html",
    "step.html",
    "deps.dot",
    "deps.html",
    "trace.json",
    "bisect.json",
    "bisect.log",
    RECORD,
    MORE,
    ".units.json",
    FIRST_SIGHT,
    MARKER,
)
# Among the workspace's extras: what NoClean() was called on.
_KEPT = "kept by -c"
# Files in BUILD_DIR that belong to all artifacts.
_OF_ALL = (f"{SIGNATURES}.dblite", "compile_commands.json", FAILED_TESTS, DECLARED_TESTS, "gl-code-quality-report.json")
_BUILT_SUFFIXES = (".cpp", ".o", ".so", ".tmp", ".pt", ".json", ".bin", ".jsonl", ".npy", ".txt", ".dot", ".html")


def clean_outputs(workspace: Workspace, platform: str) -> None:
    """Remove the outputs of the artifact of ``JIT=``, of the named targets, or of all artifacts; for all platforms
    unless ``platform`` is given.
    """
    name = Path(workspace.options["JIT"]).name
    is_named = bool(COMMAND_LINE_TARGETS) and TARGETS.keys().isdisjoint(map(str, COMMAND_LINE_TARGETS))
    workspace.extras[_KEPT] = {Path(node.get_abspath()) for node in kept_by_users()}
    outputs = sorted(workspace.build_dir.glob(f"{platform or '*'}/{glob.escape(name) if name else '*'}/{MARKER}"))
    markers = [marker for marker in outputs if not is_named or _is_requested(marker.parent)]
    lists = bool(GetOption("no_exec")) or terminal.shows_details()
    if not name:
        _clean_generated(workspace, platform, lists)
    for output in markers:
        if not GetOption("no_exec"):
            lock_output(output.parent)
        before = _count(output.parent)
        _clean(output.parent, workspace, terminal.say if lists else terminal.detail)
        if not lists:
            _tell(workspace, output.parent, before)
    if name and not markers:
        built = sorted({path.parent.name for path in workspace.build_dir.glob(f"{platform or '*'}/*/{MARKER}")})
        there = f"there are: {', '.join(built)}" if built else "nothing is built"
        terminal.complain(f"scons: JIT={workspace.options['JIT']}: it has no build outputs; {there}")
    is_all = not name and markers == outputs
    for artifact in _artifacts(workspace.build_dir / "scenes", "worker.*", "node.*") if is_all else ():
        _remove(artifact, workspace)  # of tests that drive a worker themselves
    is_all = is_all and not platform
    of_all = (workspace.build_dir / file for file in _OF_ALL) if is_all else ()
    logs = workspace.build_dir.glob("logs/*.log") if is_all else ()
    for path in (*filter(Path.exists, of_all), *logs):
        _remove(path, workspace)
    for directory in (*workspace.build_dir.glob("*"), workspace.build_dir):
        _remove_if_empty(directory)


def _is_requested(output: Path) -> bool:
    """Return True if the named targets need an output, or if nothing is built in it."""
    if output.parent.name == TESTS:  # of files of tests, which have aliases alone
        names = [name for name, alias in default_ans.items() if is_reached(alias)]
        return output.name in names or any((output / f"{name.replace('/', '.')}.xml").exists() for name in names)
    return is_reached(get_default_fs().Dir(str(output))) or {path.name for path in output.iterdir()} <= {LOCK, MARKER}


def _clean_generated(workspace: Workspace, platform: str, lists: bool) -> None:
    """Remove the compiled artifacts of the programs that the targets need; of all programs if no target is named."""
    kept: set[Path] = workspace.extras[_KEPT]
    for output, node in workspace.generated.items():
        artifact = Path(node.get_abspath())
        is_selected = not COMMAND_LINE_TARGETS or is_reached(node)
        if (
            not is_selected
            or platform not in ("", output.parent.name)
            or any(one.is_relative_to(artifact) for one in kept)
        ):
            continue
        if output.is_dir() and not GetOption("no_exec"):
            lock_output(output)
        before, (written, edited) = _count(artifact), generated_files(artifact)
        for path in written:
            _remove(path, workspace, terminal.say if lists else terminal.detail)
        for path in edited:
            terminal.say(f"Kept {os.path.relpath(path, workspace.top)}, which was edited since it was made")
        for directory in sorted((path for path in artifact.rglob("*") if path.is_dir()), reverse=True):
            _remove_if_empty(directory)
        _remove_if_empty(artifact)
        _remove_if_empty(artifact.parent)
        if written and not lists:
            _tell(workspace, artifact, before)


def _tell(workspace: Workspace, directory: Path, before: int) -> None:
    """Print how many of the files in ``before`` are removed."""
    path = os.path.relpath(directory, workspace.top)
    terminal.say(f"Removed {path} ({before - _count(directory)} files; VERBOSE=1 lists them)")


def clean_output(output: Path, workspace: Workspace) -> int:
    """Remove all that was built in ``output``, as `scons -c` does; return how many foreign files are left."""
    _clean(output, workspace, terminal.detail)
    return _count(output)


def _count(directory: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(directory))


def _clean(output: Path, workspace: Workspace, tell: Callable[[str], None]) -> None:
    for link in filter(Path.is_symlink, (output / name for name in NAMES)):
        _remove(link, workspace, tell)
    for tree in _WORK:
        if (output / tree).is_dir():
            _remove(output / tree, workspace, tell)
    for artifact in _artifacts(output, f"{glob.escape(output.name)}.*"):  # of a scene test's classes
        _remove(artifact, workspace, tell)
    for path in _built_files(output):
        _remove(path, workspace, tell)
    for tree in _TREES:
        for directory in sorted((output / tree).rglob("*"), reverse=True):
            _remove_if_empty(directory)
        _remove_if_empty(output / tree)
    if (output / LOCK).exists():  # the last: then others may build there
        _remove(output / LOCK, workspace, tell)
    _remove_if_empty(output)


def _artifacts(directory: Path, *names: str) -> list[Path]:
    """Return the artifacts in a directory that this program wrote, including distributed ones and their chip
    programs.
    """
    marks = ("kernel_config.py", META_NAME, f"{CHILDREN_DIR}/*/kernel_config.py")
    return sorted({path for name in names for path in directory.glob(name) if any(map(any, map(path.glob, marks)))})


def _built_files(output: Path) -> Iterator[Path]:
    for tree in _TREES:
        yield from sorted(path for path in (output / tree).rglob("*") if path.suffix in _BUILT_SUFFIXES)
    yield from sorted(output.glob(f"{WORK}*"))
    yield from sorted(output.glob(".*.tmp"))  # what a killed run was writing
    if output.parent.name == TESTS:
        yield from sorted(output.glob("*.xml"))
    for name in (f"{glob.escape(output.name)}.tar.*", f"{glob.escape(output.name)}.*.tar.*"):  # packs
        yield from sorted(output.glob(name))
    for name in _FILES:
        for path in (output / name, output / f"{name}.tmp"):
            if path.exists():
                yield path


def _remove(path: Path, workspace: Workspace, tell: Callable[[str], None] = terminal.say) -> None:
    kept: set[Path] = workspace.extras.get(_KEPT, set())
    if any(one.is_relative_to(path) for one in kept):
        for entry in sorted(path.iterdir()) if path.is_dir() and path not in kept else ():
            _remove(entry, workspace, tell)
        return
    if not GetOption("no_exec"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    tell(f"Removed {os.path.relpath(path, workspace.top)}")


def _remove_if_empty(directory: Path) -> None:
    if directory.is_dir() and not GetOption("no_exec") and not any(directory.iterdir()):
        directory.rmdir()
