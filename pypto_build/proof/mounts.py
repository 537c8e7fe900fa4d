"""Mounted file systems: which keep the times that digests are remembered by, and which hold the system's tables."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

_TABLE = "/proc/self/mountinfo"
#: File systems whose time of status change no program sets, and of which the system holds nothing that is out of date.
_KEEPS_TIMES = re.compile(
    "bcachefs|btrfs|cramfs|devtmpfs|erofs|ext2|ext3|ext4|f2fs|iso9660|jfs|nilfs2|overlay|ramfs|"
    "reiserfs|rootfs|squashfs|tmpfs|udf|xfs|zfs"
)
#: File systems of the system's own tables.
_TABLES = re.compile(
    "binfmt_misc|bpf|cgroup|cgroup2|configfs|debugfs|devpts|efivarfs|hugetlbfs|mqueue|nsfs|proc|"
    "pstore|securityfs|selinuxfs|sysfs|tracefs"
)
_GLANCE_S = 0.3
_ESCAPED = re.compile(rb"\\(\d{3})")


class Mounts:
    """The mounts of this process, as they are when this is made."""

    _latest: ClassVar[tuple[float, Mounts] | None] = None

    def __init__(self, table: str = _TABLE) -> None:
        self._places: list[tuple[str, str]] = []  # where they are and their types, the last ones first
        self._devices: dict[int, tuple[str, str]] = {}  # types, and numbers of mounts, by device
        self._epochs: dict[int, str] = {}
        with suppress(OSError), open(table, "rb") as file:
            for line in file.read().splitlines():
                self._add(line)

    @classmethod
    def now(cls) -> Mounts:
        """The mounts as they were just now: they are asked for with each look at files."""
        moment, mounts = cls._latest or (0.0, None)
        if mounts is None or time.monotonic() - moment > _GLANCE_S:
            cls._latest = time.monotonic(), (mounts := cls())
        return mounts

    def _add(self, line: bytes) -> None:
        fields, _, rest = line.partition(b" - ")
        number, _, device, _, place, *_ = fields.split(b" ")
        major, _, minor = device.partition(b":")
        kind = rest.split(b" ")[0].decode(errors="replace")
        path = os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), place))
        self._places.insert(0, (os.path.join(path, ""), kind))
        self._devices[os.makedev(int(major), int(minor))] = kind, number.decode()

    def tables(self) -> tuple[str, ...]:
        """The directories, with a slash at the end, in which the system shows its tables and no files."""
        return tuple(path for path, kind in self._places if _TABLES.fullmatch(kind))

    def epoch(self, device: int, path: str = "") -> str:
        """Return a text that stays the same as long as a device has the same file system on it. ``path`` is a file on
        it.

        It is empty if the file system does not keep times; its files have to be read each time.
        """
        known = self._epochs.get(device)
        if known is None:
            known = self._epoch(device, path)
            if path:
                self._epochs[device] = known
        return known

    def _epoch(self, device: int, path: str) -> str:
        kind, number = self._devices.get(device, ("", ""))
        if not kind:  # a part of a file system that has devices of its own, as of btrfs
            kind = self._kind_at(os.path.realpath(path)) if path else ""
            return "part" if not path or not self._places or _KEEPS_TIMES.fullmatch(kind) else ""
        return f"{kind} {_sequence(device) or number}" if _KEEPS_TIMES.fullmatch(kind) else ""

    def _kind_at(self, path: str) -> str:
        inside = ((len(place), kind) for place, kind in self._places if path.startswith(place))
        return max(inside, default=(0, ""), key=lambda found: found[0])[1]


def _sequence(device: int) -> str:
    """The number that a block device got with what is in it; that of no other."""
    major, minor = os.major(device), os.minor(device)
    if major == 0:
        return "0"
    for name in ("diskseq", "../diskseq"):  # of the disk, where this is a part of one
        with suppress(OSError, ValueError):
            return Path(f"/sys/dev/block/{major}:{minor}/{name}").read_text(encoding="ascii").strip()
    return ""
