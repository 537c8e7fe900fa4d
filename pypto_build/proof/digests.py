"""Digests of files, cached by the system's metadata of a file: never by its time alone.

A digest is cached with device, inode, mode, size, time of change and time of status change. On most file systems no
program can set the last of these. So a file with unchanged values has the same content, with one exception: it was
written again within the clock's tick of its last change. A file that was changed so recently is read every time, as git
does for its index. So is a file on any other file system.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from .calls import calls_of
from .looking import NOTHING, Identity, Looker, Paths, identity, unpack
from .questions import CALLS, OWNERS, STATUS, answer, is_question, status

# Mounted file systems: which keep the times that digests are remembered by, and which hold the system's tables.

_TABLE = "/proc/self/mountinfo"
#: File systems whose time of status change no program sets, and of which the system holds nothing that is out of date.
_KEEPS_TIMES = re.compile(
    "bcachefs|btrfs|cramfs|erofs|ext2|ext3|ext4|f2fs|iso9660|jfs|nilfs2|overlay|reiserfs|squashfs|udf|xfs|zfs"
)
#: File systems of the system's own tables.
_TABLES = re.compile(
    "binfmt_misc|bpf|cgroup|cgroup2|configfs|debugfs|devpts|efivarfs|hugetlbfs|mqueue|nsfs|proc|"
    "pstore|securityfs|selinuxfs|sysfs|tracefs"
)
_GLANCE_S = 0.3
_ESCAPED = re.compile(rb"\\(\d{3})")


class Mounts:
    """The mounts of this process at the time of construction."""

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
        """Return the current mounts, which are queried once for each check of files."""
        moment, mounts = cls._latest or (0.0, None)
        if mounts is None or time.monotonic() - moment > _GLANCE_S:
            cls._latest = time.monotonic(), (mounts := cls())
        return mounts

    def _add(self, line: bytes) -> None:
        fields, _, rest = line.partition(b" - ")
        number, _, device, _, mount_point, *_ = fields.split(b" ")
        major, _, minor = device.partition(b":")
        kind = rest.split(b" ")[0].decode(errors="replace")
        path = os.fsdecode(_ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), mount_point))
        self._places.insert(0, (os.path.join(path, ""), kind))
        self._devices[os.makedev(int(major), int(minor))] = kind, number.decode()

    def tables(self) -> tuple[str, ...]:
        """Return the directories, with a slash at the end, of virtual file systems (such as /proc), which have no
        files.
        """
        return tuple(path for path, kind in self._places if _TABLES.fullmatch(kind))

    def epoch(self, device: int, path: str = "") -> str:
        """Return a text that stays the same as long as a device has the same file system.

        ``path`` is a file on it. The text is empty if the file system does not keep times; its files must be read each
        time.
        """
        epoch = self._epochs.get(device)
        if epoch is None:
            epoch = self._epoch(device, path)
            if path:
                self._epochs[device] = epoch
        return epoch

    def _epoch(self, device: int, path: str) -> str:
        kind, number = self._devices.get(device, ("", ""))
        if not kind:  # a part of a file system that has devices of its own, as of btrfs
            kind = self._kind_at(os.path.realpath(path)) if path else ""
            return "part" if not path or not self._places or _KEEPS_TIMES.fullmatch(kind) else ""
        return f"{kind} {_sequence(device) or number}" if _KEEPS_TIMES.fullmatch(kind) else ""

    def _kind_at(self, path: str) -> str:
        inside = ((len(mount_point), kind) for mount_point, kind in self._places if path.startswith(mount_point))
        return max(inside, default=(0, ""), key=lambda length_and_kind: length_and_kind[0])[1]


def _sequence(device: int) -> str:
    """Return a block device's sequence number, which changes with its medium; "0" for a virtual device, empty if
    unknown.
    """
    major, minor = os.major(device), os.minor(device)
    if major == 0:
        return "0"
    for name in ("diskseq", "../diskseq"):  # of the disk, where this is a part of one
        with suppress(OSError, ValueError):
            return Path(f"/sys/dev/block/{major}:{minor}/{name}").read_text(encoding="ascii").strip()
    return ""


#: Stands for the content of a file that does not exist, or is not a regular file.
ABSENT = ""
#: The suffix by which an input is the list of names in a directory.
LISTING = "/"

_TICK_NS = 50_000_000
TICK_S = _TICK_NS / 1e9
#: The tick of a file system that keeps times in seconds.
_COARSE_TICK_NS = 2_100_000_000
_PIECE = 1 << 20
# Permissions of the owner of a file that is no program.
_USUAL = 0o600
# Names of files that only installers, editors and Python leave in a directory; listings of our tools omit them.
_BESIDE = ("~", ".swp", ".swx", ".swo", ".pyc", ".bak", ".tmp", "__pycache__")

# The list of files that an installer writes, and the lines in it that differ between installations.
_RECORD = ".dist-info/RECORD"
_OF_A_PLACE = re.compile(rb"^__editable__|\.pyc,|\.dist-info/(?:INSTALLER|REQUESTED|direct_url\.json|RECORD),")

Remembered = Mapping[str, tuple[Identity, str]]


def changed_since(file: Identity, moment_ns: int) -> bool:
    """Return True if, by its times, a file may have been changed at ``moment_ns`` or later."""
    return max(file[4], file[5]) + _tick(file) >= moment_ns


def written_since(identity: Identity, moment_ns: int) -> bool:
    """Return True if, by its time of change alone, a file may have been written at ``moment_ns`` or later."""
    return identity[4] + _tick(identity) >= moment_ns


def _tick(file: Identity) -> int:
    in_seconds = file[4] % 1_000_000_000 == 0 and file[5] % 1_000_000_000 == 0
    return _COARSE_TICK_NS if in_seconds else _TICK_NS


class Digests:
    """The digests of files, each read once until it changes.

    Links are followed. ``remembered`` digests of files on ``devices`` count while these devices have the same file
    systems. A path may be a question (`questions`); its answer calls directories by ``name``.
    """

    # Digests that any object of this class has read in this process: places share packages and headers.
    _read_here: ClassVar[dict[str, tuple[Identity, str]]] = {}
    _devices_here: ClassVar[dict[int, str]] = {}

    def __init__(
        self,
        remembered: Remembered | None = None,
        looker: Looker | None = None,
        devices: Mapping[int, str] | None = None,
        name: Callable[[str], str] = str,
    ) -> None:
        self._looker, self._name = looker or Looker(), name
        self._cached: dict[str, tuple[Identity, str]] = {}
        self.used: dict[str, tuple[Identity, str]] = {}  # what may be remembered for the next run
        self.devices: dict[int, str] = {}  # what was on the devices of files that are remembered
        self.learn(remembered or {}, devices or {})

    def learn(self, entries: Remembered, devices: Mapping[int, str]) -> None:
        """Take over digests read by other processes, for devices that still have the same file systems."""
        _forget(self._devices_here, self._read_here)
        now = Mounts.now()
        same = {device: epoch for device, epoch in devices.items() if epoch == now.epoch(device)}
        self.devices.update(same)
        if len(same) == len(devices):
            self._cached.update(entries)
        else:
            self._cached.update((path, seen) for path, seen in entries.items() if seen[0][0] in same)

    def forget_unmounted(self) -> bool:
        """Forget files of devices that now have another file system; return True if there are any."""
        _forget(self._devices_here, self._read_here)
        return _forget(self.devices, self._cached, self.used)

    def of(self, path: str) -> str:
        """Return the digest of an input.

        For a file it is the SHA-256 of its content; ``ABSENT`` if it is missing or not a regular file. For a path that
        ends with a slash, it is that of the names in the directory. For an installed package's list of files, lines
        that differ between installations are left out. For a question, the answer is returned.
        """
        if is_question(path):
            return self._programs(path) if path.endswith(CALLS) else answer(path, self._name)
        if path.endswith(LISTING):
            return _listing(path)
        try:
            return self.of_status(path, os.stat(path))
        except (OSError, ValueError):
            return ABSENT

    def of_status(self, path: str, now: os.stat_result) -> str:
        """Return the digest of a file whose status is ``now``, as `of` does."""
        digest = self._remembered(path, identity(now))
        if digest is not None:
            return digest
        return self._read(path) if stat.S_ISREG(now.st_mode) else ABSENT

    def _remembered(self, path: str, now: Identity) -> str | None:
        for remembered in (self._cached, self._read_here):
            entry = remembered.get(path)
            if entry is not None and entry[0] == now:
                self._cached[path] = self.used[path] = entry
                return entry[1]
        return None

    def _programs(self, path: str) -> str:
        """Return whether a program makes system calls of its own; the answer is cached like a digest."""
        program = path.removesuffix(CALLS)
        now = self.identity_of(program)
        calls = self._remembered(path, now) if now else None
        if calls is None:
            calls = calls_of(program)
            if now and now == self.identity_of(program):
                self._remember(path, program, now, calls, time.time_ns())
        return calls

    def identities_and_digests(self, paths: Sequence[str]) -> list[tuple[Identity | None, str]]:
        """Return the identity and the digest of each file, in the order of ``paths``; for a question, None and its
        answer.

        The system is asked for all identities in one call, before the contents are read. A change in between shows in
        the next look.
        """
        looks: list[tuple[Identity | None, str]] = []
        real: dict[str, str] = {}
        files = [path.removesuffix(STATUS) for path in paths]
        for path, now in zip(paths, unpack(self._looker.look(Paths(files))), strict=True):
            entry = self._cached.get(path)
            if path.endswith(STATUS) and now != NOTHING:
                looks.append((now, status(now[2], now[3])))
            elif is_question(path):
                looks.append((None, answer(path, self._name, real)))
            elif entry is not None and entry[0] == now:
                self.used[path] = entry
                looks.append(entry)
            else:
                looks.append((None if now == NOTHING else now, self.of(path)))
        return looks

    def inputs(self, paths: Sequence[str]) -> list[str]:
        """Return what a tool learns from each path that it opens.

        For a file it is the content, with the owner's permissions if these are unusual. For other paths it is the list
        of names or the answer.
        """
        return [
            digest if now is None or not digest or path.endswith(LISTING) or is_question(path) else marked(digest, now)
            for path, (now, digest) in zip(paths, self.identities_and_digests(paths), strict=True)
        ]

    def identity_of(self, path: str) -> Identity | None:
        """Return the identity of a file; None if the file does not exist."""
        try:
            return identity(os.stat(path))
        except (OSError, ValueError):
            return None

    def seen(self, path: str) -> Identity | None:
        """Return the identity for which a file's digest is cached; None if none is."""
        entry = self._cached.get(path)
        return entry[0] if entry is not None else None

    def seen_with(self, path: str, digest: str) -> Identity | None:
        """Return the identity for which ``digest`` is cached as the file's digest; None if it is not cached."""
        entry = self._cached.get(path)
        if path.endswith(STATUS):
            now = self.identity_of(path.removesuffix(STATUS))
            return now if now and status(now[2], now[3]) == digest and now[0] in self.devices else None
        return entry[0] if entry is not None and digest in (entry[1], marked(entry[1], entry[0])) else None

    def knows(self, path: str, seen: Identity) -> bool:
        """Return True if a digest is cached for the file with the identity ``seen``."""
        entry = self._cached.get(path)
        return entry is not None and entry[0] == seen

    def _read(self, path: str) -> str:
        digest = _RecordDigest() if path.endswith(_RECORD) else hashlib.sha256()
        started = time.time_ns()
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
                before = identity(os.fstat(file.fileno()))
                while piece := file.read(_PIECE):
                    digest.update(piece)
                after = identity(os.fstat(file.fileno()))
        except OSError:
            return ABSENT
        hexdigest = digest.hexdigest()
        if before == after:
            self._remember(path, path, after, hexdigest, started)
        return hexdigest

    def _remember(self, path: str, file: str, now: Identity, digest: str, started: int) -> None:
        epoch = Mounts.now().epoch(now[0], file)
        if epoch != self.devices.get(now[0], epoch) or epoch != self._devices_here.get(now[0], epoch):
            self.forget_unmounted()
        if epoch and not changed_since(now, started):
            self.devices[now[0]] = self._devices_here[now[0]] = epoch
            self._cached[path] = self.used[path] = self._read_here[path] = (now, digest)


def _forget(devices: dict[int, str], *remembered: dict[str, tuple[Identity, str]]) -> bool:
    """Forget files of devices that now have another file system; return True if there are any."""
    now = Mounts.now()
    gone = {device for device, epoch in devices.items() if epoch != now.epoch(device)}
    for entries in remembered if gone else ():
        for path in [path for path, seen in entries.items() if seen[0][0] in gone]:
            del entries[path]
    for device in gone:
        del devices[device]
    return bool(gone)


def marked(digest: str, now: Identity) -> str:
    """Return a digest with the owner's permissions of the file added, unless they are read and write."""
    mode = now[2] & OWNERS
    return digest if mode == _USUAL else f"{digest}+{mode:o}"


class _RecordDigest:
    """Digest of a package's list of files, without lines that differ between installations of the same package.

    Such lines are those of scripts, of compiled modules and of the paths to an editable installation's sources.
    """

    def __init__(self) -> None:
        self._text = b""

    def update(self, piece: bytes) -> None:
        self._text += piece

    def hexdigest(self) -> str:
        lines = (
            line for line in self._text.splitlines() if not line.startswith(b"..") and not _OF_A_PLACE.search(line)
        )
        return hashlib.sha256(b"\n".join(lines)).hexdigest()


def _listing(path: str) -> str:
    try:
        names = sorted(name for name in os.listdir(path) if not name.endswith(_BESIDE) and not name.startswith("."))
    except OSError:
        return ABSENT
    return hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()


def bytes_digest(data: bytes) -> str:
    """Return the SHA-256 of ``data``."""
    return hashlib.sha256(data).hexdigest()
