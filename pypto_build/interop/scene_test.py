"""Writes the scene test of an artifact beside its signed manifest, for simpler's own test machinery to run.

python -m pypto_build.interop.scene_test ARTIFACT_DIR --build-dir OUT [--platform P] [--data DIR] [--force]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact, snapshot
from pypto_build.artifact.files import from_here, write_bytes
from pypto_build.artifact.interface import read_interface
from pypto_build.artifact.scene_test import SCENE_TEST_NAME, SceneTest, is_edited, render_scene_test
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import NOT_NEGATIVE
from pypto_build.replay.run_options import number
from pypto_build.replay.tolerances import tolerances


def write_scene_test(
    artifact_dir: Path,
    build_dir: Path,
    platform: str = "a2a3sim",
    *,
    data: Path | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    force: bool = False,
) -> Path:
    """Write ``build_dir/kernel_config_scene_test.py`` and return its path.

    ``build_dir`` holds the signed manifest and ``interface.json``. Raises a usage error if they are missing, and for a
    scene test that was edited, unless ``force``.
    """
    artifact = load_artifact(artifact_dir)
    interface = read_interface(build_dir / "interface.json")
    path = build_dir / SCENE_TEST_NAME
    golden = artifact.root / "golden.py"
    rtol, atol = tolerances(artifact.root, rtol, atol)
    test = SceneTest(
        artifact=artifact,
        interface=interface,
        data=snapshot(artifact, data),
        platforms=_of_one_generation(platform),
        rtol=rtol,
        atol=atol,
        golden=golden if golden.is_file() else None,
    )
    text = render_scene_test(test, build_dir)
    if path.exists() and not force:
        present = path.read_text(encoding="utf-8", errors="replace")
        if present == text:
            return path
        if is_edited(present):
            raise ArtifactError(
                path, "was edited after 'scons scene_test' wrote it", "overwrite it with FORCE=1 (--force)"
            )
    write_bytes(path, text.encode())
    return path


def _of_one_generation(name: str) -> tuple[str, ...]:
    """Return the platforms of the same chip generation as ``name``, as generated code is specific to a generation."""
    return tuple(platform.name for platform in PLATFORMS.values() if platform.arch == PLATFORMS[name].arch)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    options = _parser().parse_args(argv)
    try:
        path = write_scene_test(
            options.artifact,
            options.build_dir,
            options.platform,
            data=options.data,
            rtol=options.rtol,
            atol=options.atol,
            force=options.force,
        )
    except ArtifactError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except OSError as error:
        print(f"{error.filename}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 3
    print(f"[scene_test] wrote {from_here(path)}")
    todos = [line for line in path.read_text(encoding="utf-8").splitlines() if "# TODO" in line]
    for line in todos:
        print(f"[scene_test] fill in: {line.partition('# TODO: ')[2]}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.interop.scene_test", description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    add = parser.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR", help="the artifact's directory")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="where its signed manifest is")
    add("--platform", default="a2a3sim", choices=tuple(PLATFORMS), help="what it was built for")
    add("--data", type=Path, metavar="DIR", help="another directory with in/ and out/ than the artifact's data/")
    add("--rtol", type=number(NOT_NEGATIVE), metavar="R", help="relative tolerance (golden.py's RTOL, else 1e-5)")
    add("--atol", type=number(NOT_NEGATIVE), metavar="A", help="absolute tolerance (golden.py's ATOL, else 1e-5)")
    add("--force", action="store_true", help="overwrite a scene test that was edited")
    return parser


if __name__ == "__main__":
    sys.exit(main())
