"""A full disk: errors in one line, nothing half-written is believed, and the run after it is right."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.trust.commands import run
from tests.trust.space import BUILD, PASS, USAGE, Space

#: The sizes of a disk for one artifact's outputs: no room for anything, for an object, for most of it.
_SIZES = {"16k": USAGE, "64k": BUILD, "100k": BUILD}
_BUILT = 16 << 20


def _mounts(command: str) -> list[str]:
    """A command line that runs shell commands in mounts of their own."""
    return ["unshare", "--mount", "sh", "-c", command]


def _can_mount(directory: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    command = _mounts(f"mount -t tmpfs -o size=64k tmpfs {shlex.quote(str(directory))}")
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("size", _SIZES)
def test_outputs_where_there_is_no_room(chain: Space, tmp_path: Path, size: str) -> None:
    """The same disk grows between the first run and the second; the kernel is wrong in the third."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not _can_mount(disk):
        pytest.skip("unshare or mount does not work here")
    replay = shlex.join([*chain.words("replay"), f"BUILD_DIR={disk}/b", "STORE_SIZE=0"])
    kernel = chain.artifact / "kernels/aiv/twice.cpp"
    steps = [
        f"mount -t tmpfs -o size={size} tmpfs {disk}",
        f"{replay}; echo @1 $?",
        f"find {disk} -name '*.tmp' -o -name '.work.*'",
        f"mount -o remount,size={_BUILT} {disk}",
        f"{replay}; echo @2 $?",
        f"sed -i 's/2.0f/3.0f/' {kernel}",
        f"dd if=/dev/zero of={disk}/filler bs=4k 2>/dev/null",
        f"{replay}; echo @3 $?",
        f"rm {disk}/filler",
        f"{replay}; echo @4 $?",
    ]
    done = run(_mounts("\n".join(steps)), chain.root, chain.environment())
    first, rest = done.output.split("@1 ")
    second, rest = rest.split("@2 ")
    third, rest = rest.split("@3 ")
    fourth, status = rest.split("@4 ")
    assert "Traceback" not in done.output
    assert "No space left on device" in first and "PASS" not in first, first
    assert second.splitlines()[0] == str(_SIZES[size]), done
    assert not [line for line in second.splitlines() if line.startswith(str(disk))], done
    assert "[RUN] PASS" in second and third.splitlines()[0] == str(PASS), done
    assert "PASS" not in third, done
    assert "'y' FAIL" in fourth and status.strip() == "1", done
