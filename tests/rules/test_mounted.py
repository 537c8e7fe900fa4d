"""Kernels on file systems where another file has the status of the one that was compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.rules.project import Project

_COMMON = """
set -e
kernels=build_output/_jit_chain/kernels
replay() {
    if "$PYTHON" -m SCons -Q replay JIT=_jit_chain > log 2>&1
    then if grep -q '(cached)' log; then echo cached; else echo pass; fi
    else echo fail
    fi
}
wrong() { "$PYTHON" -c "$EDIT" "$1" "$2"; }
"""
_EDIT = """
import os, sys
before, after = sys.argv[1:]
data, status = open(before, "rb").read(), os.stat(before)
assert b"2.0f * in" in data
open(after, "wb").write(data.replace(b"2.0f * in", b"3.0f * in"))
os.utime(after, ns=(status.st_atime_ns, status.st_mtime_ns))
"""
_SCRIPTS = {
    # Two images that agree in inodes, sizes and times, at one place in turn.
    "an image in place of another": """
truncate -s 4M one
mkfs.ext4 -q -F one
mkdir place
mount -o loop one place
cp -a $kernels/. place
umount place
wrong one two
mount -o loop one $kernels; replay; replay; umount $kernels
mount -o loop two $kernels; replay; replay; umount $kernels
""",
    # A file system that tells the time of the last edit, which programs set, as that of the change of status.
    "times of status that can be set": """
mkdir under
cp -a $kernels/. under
bindfs -o nonempty --ctime-from-mtime under $kernels
replay; replay
wrong under/aiv/twice.cpp under/aiv/twice.cpp
replay; replay
umount $kernels
""",
}


@pytest.mark.parametrize("script", _SCRIPTS.values(), ids=_SCRIPTS)
def test_another_file_of_the_same_status_is_compiled(project: Project, script: str) -> None:
    missing = [name for name in ("unshare", "mount", "mkfs.ext4", "bindfs") if not shutil.which(name)]
    if missing or os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip(f"mounting needs root, and {' '.join(missing) or 'namespaces'}")
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", _COMMON + script],
        cwd=project.root,
        env={**project.environment(), "PYTHON": sys.executable, "EDIT": _EDIT},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode and ("mount: " in run.stderr or "/dev/fuse" in run.stderr):
        pytest.skip(f"this machine mounts nothing: {run.stderr}")
    assert run.stdout.split() == ["pass", "cached", "fail", "fail"], run.stderr + run.stdout
