"""Finds the artifact that ``JIT=`` means: a directory name, a path, a glob or ``latest``."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from .errors import ArtifactError
from .layout import artifact_root, is_artifact
from .manifest import MANIFEST_NAME

_TIMESTAMP = re.compile(r"(?P<name>.+)_(?P<stamp>\d{8}_\d{6})(?P<suffix>_.*)?\Z")
_SHOWN = 10
_ALIKE = 0.8


def find_artifacts(build_output: str | Path | None, *examples: str | Path | None) -> tuple[Path, ...]:
    """Return every artifact directly below the directories, sorted by name; artifacts of ``build_output`` come
    first.
    """
    return tuple(path for directory in _places(build_output, *examples) for path in _artifacts_in(directory))


def resolve_jit(jit: str, build_output: str | Path | None, *examples: str | Path | None, option: str = "JIT") -> Path:
    """Return the absolute directory that ``jit`` means.

    ``latest`` is the newest artifact of ``build_output`` (else of ``examples``). A glob means the directory of exactly
    that name, else its match. A bare name is searched in ``build_output``, then in ``examples``: the name itself, else
    its newest ``<name>_<YYYYmmdd_HHMMSS>[_suffix]``. Anything else is a path, from here or below a directory. Raises a
    usage error of ``option`` that lists the artifacts, the closest names first.
    """
    places = _places(build_output, *examples)
    if not jit.strip():
        raise ArtifactError(option, "names no artifact", _existing(jit, places))
    if jit == "latest":
        path = next((newest for directory in places if (newest := _newest(_artifacts_in(directory)))), None)
    elif _is_path(jit):
        path = _by_path(jit, places, option)
    elif any(sign in jit for sign in "*?["):
        path = named_exactly(jit, *places) or _by_glob(jit, places, option)
    else:
        path = next((match for directory in places if (match := _by_name(jit, directory))), None)
        path = path or _by_path(jit, (), option)
    if path is None:
        raise ArtifactError(f"{option}={jit}", f"no such artifact in {_shown_places(places)}", _existing(jit, places))
    return artifact_root(path)


def named_exactly(name: str, *places: Path) -> Path | None:
    """Return the directory of exactly this name in the first of ``places`` that has one, else relative to the
    working directory.
    """
    path = Path(name).expanduser()
    return next((directory / path for directory in (*places, Path.cwd()) if name and (directory / path).is_dir()), None)


def _places(*candidates: str | Path | None) -> list[Path]:
    return [Path(os.path.abspath(directory)) for directory in candidates if directory is not None and str(directory)]


def _artifacts_in(directory: Path) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    except OSError:
        return []
    return [directory / name for name in names if is_artifact(directory / name)]


def _is_path(jit: str) -> bool:
    return os.sep in jit or jit in (".", "..") or jit.startswith("~")


def _by_path(jit: str, places: Sequence[Path], option: str) -> Path | None:
    path = Path(jit).expanduser()
    for base in (Path.cwd(), *places):
        candidate = base / path
        if candidate.is_dir() or (candidate.name == MANIFEST_NAME and candidate.is_file()):
            return candidate
    if any(sign in jit for sign in "*?["):
        import glob

        return _only(
            f"{option}={jit}", sorted(Path(match) for match in glob.glob(str(path)) if is_artifact(Path(match)))
        )
    return None


def _by_glob(jit: str, places: Iterable[Path], option: str) -> Path | None:
    import fnmatch

    for directory in places:
        matches = [path for path in _artifacts_in(directory) if fnmatch.fnmatchcase(path.name, jit)]
        if matches:
            return _only(f"{option}={jit}", matches)
    return None


def _only(request: str, matches: Sequence[Path]) -> Path | None:
    if len(matches) > 1:
        raise ArtifactError(request, f"matches {len(matches)} artifacts", f"name one of {_listed(matches)}")
    return matches[0] if matches else None


def _by_name(jit: str, directory: Path) -> Path | None:
    if (directory / jit).is_dir():
        return directory / jit
    stamped = [
        path for path in _artifacts_in(directory) if (match := _TIMESTAMP.match(path.name)) and match["name"] == jit
    ]
    return _newest(stamped)


def _newest(paths: Sequence[Path]) -> Path | None:
    return max(paths, key=_age_key, default=None)


def _age_key(path: Path) -> tuple[str, float, str]:
    """Return the sort key of an artifact: time of compilation, then name. The time is the stamp in the name, else
    the manifest's time.
    """
    try:
        written = (path / MANIFEST_NAME).stat().st_mtime
    except OSError:
        written = path.stat().st_mtime
    match = _TIMESTAMP.match(path.name)
    stamp = match["stamp"] if match else time.strftime("%Y%m%d_%H%M%S", time.localtime(written))
    return stamp, written, path.name


def _existing(jit: str, places: Sequence[Path]) -> str:
    names = [path.name for directory in places for path in _artifacts_in(directory)]
    if not names:
        return "there are none yet; `scons compile PROGRAM=...` makes one"
    import difflib

    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(None, jit.lower(), name.lower()).ratio()

    names = sorted(sorted(dict.fromkeys(names)), key=likeness, reverse=True)
    meant = f"did you mean {names[0]}? " if likeness(names[0]) >= _ALIKE else ""
    return f"{meant}there are: {_listed([Path(name) for name in names])}"


def _listed(paths: Sequence[Path]) -> str:
    same_place = len({path.parent for path in paths}) == 1
    shown = ", ".join(path.name if same_place else str(path) for path in paths[:_SHOWN])
    return shown + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")


def _shown_places(places: Sequence[Path]) -> str:
    here = Path.cwd()
    shown = [
        str(directory.relative_to(here)) if directory.is_relative_to(here) else str(directory) for directory in places
    ]
    return " or ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]])) or "any place"
