"""A digest is remembered as long as a device has the same file system on it, and only where that keeps its times."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pypto_build.proof.digests import TICK_S, Digests, Mounts

_TABLE = """22 27 0:21 / /proc rw,relatime - proc proc rw
24 27 0:6 / /dev rw,relatime shared:1 - devtmpfs devtmpfs rw
27 1 0:100 / / rw,relatime - ext4 /dev/none rw
40 27 0:50 / /home/with\\040space rw - nfs4 server:/home rw
41 27 0:51 / /mnt/bound rw - fuse.bindfs bindfs rw
42 27 0:52 / /mnt/stick rw - vfat /dev/none rw
43 27 0:53 /part /mnt/parts rw - btrfs /dev/none rw
44 41 0:54 / /mnt/bound/inside rw - tmpfs tmpfs rw
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Mounts:
    table = tmp_path / "mountinfo"
    table.write_text(_TABLE)
    return Mounts(str(table))


@pytest.mark.parametrize(
    ("minor", "kept"), [(100, True), (50, False), (51, False), (52, False), (54, False), (21, False)]
)
def test_where_times_are_kept(mounts: Mounts, minor: int, kept: bool) -> None:
    assert bool(mounts.epoch(os.makedev(0, minor))) == kept


@pytest.mark.parametrize(
    ("path", "kept"), [("/mnt/parts/x", True), ("/home/with space/x", False), ("/mnt/bound/x", False), ("/x", True)]
)
def test_parts_with_a_device_of_their_own(mounts: Mounts, path: str, kept: bool) -> None:
    assert bool(mounts.epoch(os.makedev(0, 99), path)) == kept


def test_tables_of_the_system(mounts: Mounts) -> None:
    assert mounts.tables() == ("/proc/",)


def test_without_a_table_files_are_believed(tmp_path: Path) -> None:
    mounts = Mounts(str(tmp_path / "none"))
    assert mounts.epoch(os.makedev(0, 1), "/x") and mounts.tables() == ()


def test_what_is_written_through_a_mapping_on_tmpfs() -> None:
    """The first access reads, so the system does not notice the write after it."""
    try:
        directory = tempfile.TemporaryDirectory(dir="/dev/shm")
    except OSError:
        pytest.skip("this machine has no /dev/shm")
    with directory as name:
        file, digests = Path(name, "file"), Digests()
        file.write_bytes(b"a" * mmap.PAGESIZE)
        time.sleep(3 * TICK_S)
        before = digests.of(str(file))
        with open(file, "r+b") as opened, mmap.mmap(opened.fileno(), 0) as mapping:
            assert mapping[0] == ord("a")
            mapping[0] = ord("b")
        assert digests.of(str(file)) != before


_IN_TURN = r"""
import os, subprocess, sys
from pypto_build.proof.digests import Digests
from pypto_build.proof.digests import Mounts

def run(*command):
    subprocess.run(command, check=True, capture_output=True)

def mounted(image):
    run("mount", "-o", "loop", image, "place")
    Mounts._latest = None
    return os.stat("place/file")

os.chdir(sys.argv[1])
os.mkdir("place")
with open("one", "wb") as file:
    file.truncate(2 << 20)
run("mkfs.ext4", "-q", "-F", "one")
run("mount", "-o", "loop", "one", "place")
with open("place/file", "w") as file:
    file.write("content one")
os.utime("place/file", (1000, 1000))
run("umount", "place")
with open("one", "rb") as one, open("two", "wb") as two:
    two.write(one.read().replace(b"content one", b"content two"))

import time
while time.time() < os.stat("one").st_mtime + 0.2:  # the clock's tick has passed
    pass
first = mounted("one")
stays = Digests()
before = stays.of("place/file")
assert list(stays.used) == ["place/file"], "it is not remembered"
later = Digests(stays.used, devices=stays.devices)
assert later.seen("place/file") is not None
run("umount", "place")
second = mounted("two")
same = [first[number] == second[number] for number in (0, 1, 2, 6)]
print("alike" if all(same) and first.st_ctime_ns == second.st_ctime_ns and first.st_mtime_ns == second.st_mtime_ns
      else "unlike")
assert Digests(later._cached, devices=later.devices).of("place/file") != before
assert stays.forget_unmounted()
assert stays.of("place/file") != before
run("umount", "place")
"""

_BOUND = r"""
import os, subprocess, sys
from pypto_build.proof.digests import Digests

os.chdir(sys.argv[1])
for name in ("under", "place"):
    os.mkdir(name)
with open("under/file", "w") as file:
    file.write("content")
os.utime("under/file", (1000, 1000))
subprocess.run(["bindfs", "under", "place"], check=True)
try:
    seen = Digests()
    assert seen.of("place/file") and seen.used == {}
finally:
    subprocess.run(["umount", "place"], check=True)
print("read")
"""


def _in_a_namespace(code: str, directory: Path, *programs: str) -> str:
    """Return the output of a script that may mount what nobody else sees."""
    missing = [program for program in ("unshare", "mount", *programs) if not shutil.which(program)]
    if missing or os.getuid() != 0:
        pytest.skip(f"mounting needs root, and {' '.join(missing) or 'that alone'}")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine gives no namespace of mounts")
    command = ["unshare", "-m", sys.executable, "-c", code, str(directory)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "CalledProcessError" in run.stderr and ("'mount'" in run.stderr or "'bindfs'" in run.stderr):
        pytest.skip(f"this machine mounts nothing: {run.stderr.splitlines()[-1]}")
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_two_images_in_turn(tmp_path: Path) -> None:
    """They agree in all that `stat` tells, and differ in content."""
    assert _in_a_namespace(_IN_TURN, tmp_path, "mkfs.ext4") == "alike\n"


def test_a_file_system_in_user_space_is_read_each_time(tmp_path: Path) -> None:
    assert _in_a_namespace(_BOUND, tmp_path, "bindfs") == "read\n"
