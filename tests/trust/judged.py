"""Replays of a workspace of which is known what they have to say, and what several classes of faults change."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.trust.oracle import Oracle
from tests.trust.space import KERNELS, MISMATCH, PASS, Replayed, Space

SCALED = "SCALE * in[i]"
RIGHT, WRONG = "#define SCALE 2.0f\n", "#define SCALE 3.0f\n"
HEADER = f"{KERNELS}/scale.h"


def passes(space: Space, *options: str) -> Replayed:
    """Replay what is right."""
    replayed = space.replay(*options)
    assert replayed.outcome.exit == PASS, replayed.done
    return replayed


def fails(space: Space, *options: str) -> Replayed:
    """Replay what is wrong."""
    replayed = space.replay(*options)
    assert (replayed.outcome.exit, replayed.outcome.status) == (MISMATCH, "mismatch"), (
        f"the kernel is wrong, and this is what is said of it:\n{replayed.done}"
    )
    return replayed


def agrees(space: Space, *options: str) -> Replayed:
    """Replay what a fresh build has to judge, or has judged: of sources only the content may count here."""
    replayed = space.replay(*options)
    answer = Oracle(space.tested).ask(space, "", options)
    assert replayed.outcome == answer.outcome, (
        f"{replayed.outcome}\nbut a fresh build says\n{answer.outcome}\n\n{replayed.done}\n\nfresh:\n{answer.log}"
    )
    return replayed


def header_decides(space: Space, path: str, *options: str, wrong: str = WRONG, right: str = RIGHT) -> None:
    """Right, wrong and right again, by the content of one file."""
    space.write(path, right)
    passes(space, *options)
    space.write(path, wrong)
    fails(space, *options)
    space.write(path, right)
    passes(space, *options)


def wrong_outputs(replayed: Replayed) -> set[str]:
    """The names of the outputs that were found to be wrong."""
    return {name for name, status, _, _ in replayed.outcome.outputs if status == "mismatch"}


def inside(space: Space, path: str) -> str:
    """The path of a file of the artifact, from the workspace."""
    return str((space.artifact / path).relative_to(space.root))


def write_compiler_proper(path: Path, flags: str) -> Path:
    """A script in place of g++'s cc1plus."""
    real = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True).stdout
    prefix = f"{Path(real.strip()).parent}/"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\nunset GCC_EXEC_PREFIX\nexec {real.strip()} "$@" -iprefix {prefix} {flags}\n', encoding="utf-8"
    )
    path.chmod(0o755)
    return path


def with_own_package(space: Space, directory: Path) -> Space:
    """The workspace, tested with a copy of the package that can be edited."""
    return Space(space.root, space.tested.with_own_package(directory), space.cache, space.variables, space.name)


def copy_of_links(package: Path, copy: Path) -> None:
    """A package directory whose entries are links to those of another."""
    copy.mkdir(parents=True)
    for entry in package.iterdir():
        if entry.name != "__pycache__":
            (copy / entry.name).symlink_to(entry)


def clear_line(output: str) -> bool:
    """Return whether an error is told in words."""
    return "Traceback" not in output and bool(re.search(r"^(scons: \*\*\* |pypto-build: |error: )\S", output, re.M))
