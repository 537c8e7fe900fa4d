"""Executes a scene test's file and writes its declarations.

python -m pypto_build.interop.scene.describe FILE --output scenes.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.scene_reader import (
    CASE_FIELDS,
    JUDGING,
    callable_fields,
    case_of,
    fixture_reason,
    level_reason,
    mark_reason,
    method_reason,
    other_tests,
)
from pypto_build.artifact.scenes import CHIP_LEVEL, Scene, Scenes, encode_scenes, scene_tolerance
from pypto_build.interop.scene.faults import is_skip, why
from pypto_build.interop.scene.loading import load_file, scene_classes


def describe(path: Path) -> Scenes:
    """Return the declarations of ``path``; for a file that skips itself or needs simpler, none and the reason.

    Raises ArtifactError for a file that cannot be imported or executed.
    """
    try:
        return Scenes(tuple(map(_scene, scene_classes(load_file(path)))))
    except (ArtifactError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if is_skip(error):
            return Scenes(reason=why(error))
        raise ArtifactError(path, why(error), "correct it, or keep it beside the files that it reads") from None


def _scene(scene: type[Any]) -> Scene:
    import inspect

    level = int(scene._st_level)
    base = next(base for base in scene.__mro__ if base.__name__ == "SceneTestCase")
    own = [name for name in dir(scene) if getattr(scene, name, None) is not getattr(base, name, None)]
    fields: dict[str, Any] = callable_fields(scene.CALLABLE) if level == CHIP_LEVEL else {}
    for kernel in [*fields.get("kernels", ()), *filter(None, [fields.get("orchestration")])]:
        msgspec.structs.force_setattr(kernel, "source", str(Path(inspect.getfile(scene)).parent / kernel.source))
    marks = getattr(scene, "pytestmark", [])
    reasons = [mark_reason(mark.name, list(mark.args)) for mark in (marks if isinstance(marks, list) else [marks])]
    parameters = list(inspect.signature(scene.test_run).parameters)
    return Scene(
        name=scene.__name__,
        line=inspect.getsourcelines(scene)[1],
        level=level,
        runtime=scene._st_runtime,
        cases=tuple(case_of({key: case[key] for key in CASE_FIELDS if key in case}) for case in scene.CASES),
        rtol=scene_tolerance(inspect.getfile(scene), "RTOL", scene.RTOL),
        atol=scene_tolerance(inspect.getfile(scene), "ATOL", scene.ATOL),
        skip_golden=bool(scene.SKIP_GOLDEN),
        judged=any(name in JUDGING for name in own),
        reason=method_reason(own)
        or fixture_reason(parameters)
        or next(filter(None, reasons), "")
        or level_reason(level, own),
        others=tuple(other_tests(own)),
        environment={str(key): str(value) for key, value in dict(scene.RUNTIME_ENV).items()},
        **fields,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m pypto_build.interop.scene.describe", allow_abbrev=False)
    parser.add_argument("file", type=Path, metavar="FILE", help="the scene test")
    parser.add_argument("--output", type=Path, required=True, metavar="JSON", help="where what it declares is written")
    options = parser.parse_args(argv)
    try:
        write_bytes(options.output, encode_scenes(describe(options.file)))
    except ArtifactError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
