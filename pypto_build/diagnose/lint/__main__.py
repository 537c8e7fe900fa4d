"""`scons lint`: manifest, wrappers, orchestration and modules against each other, without a run.

python -m pypto_build.diagnose.lint ARTIFACT_DIR [--platform P] [--json FILE] [--sarif FILE]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pypto_build.artifact import ArtifactError, detect_vintage, find_children, lacks_kernels, load_artifacts
from pypto_build.artifact.derive import derive
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.console import command, progress, tool_parser
from pypto_build.diagnose.findings import Finding, add_output_options, deliver
from pypto_build.diagnose.lint import arguments, body, entry, modules, scopes, spliced, submission
from pypto_build.diagnose.lint.subject import Subject

RULES: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    *arguments.ALWAYS,
    arguments.check_start_offset,
    entry.check_entry_arguments,
    entry.check_entry_directions,
    entry.check_meta,
    submission.check_submits,
    submission.check_func_ids,
    submission.check_never_submitted,
    submission.check_heap,
    scopes.check_scopes,
    body.check_drain,
    body.check_flags,
    body.check_intrinsics,
    body.check_core_section,
    body.check_entry,
    modules.check_modules,
)

_PLACE = re.compile(r"(?P<path>.*?)(?::(?P<line>\d{1,9}))?\Z")


def lint(artifact_dir: Path, platform: str, build_dir: Path | None = None) -> list[Finding]:
    """All findings on an artifact and its sub-builds. An artifact that cannot be read is one finding. Of kernels that
    were spliced in ``build_dir``, other bodies run than the artifact's."""
    if uncompiled := [part for part in (artifact_dir, *find_children(artifact_dir)) if lacks_kernels(part)]:
        return [found for part in uncompiled for found in modules.check_uncompiled(part, artifact_dir, platform)]
    try:
        subjects = [
            Subject(
                artifact,
                detect_vintage(read_source(artifact.orchestration.source), artifact.orchestration.source),
                derive(artifact),
                platform,
            )
            for artifact in load_artifacts(artifact_dir)
        ]
    except ArtifactError as error:
        return [_unreadable(error, artifact_dir)]
    work = [(subject, rule) for subject in subjects for rule in RULES]
    found = []
    for subject, rule in progress(work, "lint", len(work)):
        found += list(rule(subject))
    named = {finding.path for finding in found}
    for subject in subjects:  # what is wrong by itself says more than that it was edited
        found += [finding for finding in spliced.check_bodies(subject, build_dir) if finding.path not in named]
    return found


def _unreadable(error: ArtifactError, root: Path) -> Finding:
    """Turn the error of an unreadable artifact into a finding at the position that the error names."""
    match = _PLACE.match(error.path)
    path = Path(match["path"]) if match else Path(error.path)
    base = root.resolve()
    name = path.resolve().relative_to(base).as_posix() if path.resolve().is_relative_to(base) else str(path)
    line = int(match["line"]) if match and match["line"] else 0
    return Finding("lint/artifact", error.message.replace(f"{base}/", ""), name, line, error.hint)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("lint", __doc__)
    options.add_argument("artifact", type=Path, metavar="ARTIFACT_DIR")
    options.add_argument("--build-dir", type=Path, metavar="OUT", help="also leave the findings there, for the report")
    options.add_argument("--platform", default="a2a3sim", help="whose limits count")
    add_output_options(options)
    return options


@command("lint", parser)
def main(given: argparse.Namespace) -> int:
    """Print what is wrong; 0 if nothing is, 1 if something is, 2 if there is no artifact."""
    if not given.artifact.is_dir():
        raise ArtifactError(given.artifact, "no such directory", "name an artifact's directory")
    return deliver(
        "lint", given.artifact, lint(given.artifact, given.platform, given.build_dir), given, given.build_dir
    )


if __name__ == "__main__":
    sys.exit(main())
