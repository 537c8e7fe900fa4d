"""``WATCH=1``: runs the targets again whenever a file that they depend on is saved, until Ctrl-C.

SCons and the rules are loaded once. Every round is a fork of that process and goes on at the call of the tool in the
SConstruct. At its end it tells the files that it depended on. After a change of the SConstruct all starts anew.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import msgspec
from SCons.Script import COMMAND_LINE_TARGETS, GetOption

from pypto_build import terminal
from pypto_build.rules.machinery import prefork
from pypto_build.rules.machinery.inputs import made_by_users, made_directories, sources_of_all
from pypto_build.rules.machinery.termination import end_on_signals
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.options import OptionError
from pypto_build.toolchain.cache import cache_dir

# Notices of saved files from the system (inotify), so that not all files have to be looked at again and again.
# The system gives no notice of changes that another machine makes, or that come through a memory mapping, and the
# number of watches of a user is limited. So users of this module also look at the files from time to time.

_EVENT = struct.Struct("iIII")
_BYTES = 1 << 16
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED, _IS_DIRECTORY = 0x2000, 0x4000, 0x8000, 0x40000000
_WANTED = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
# After these events the saved file is complete.
_DONE = _CLOSE_WRITE | _MOVED_TO | _MOVED_FROM | _DELETE
# After these it takes a look to know what is there.
_UNCLEAR = _UNMOUNT | _OVERFLOW | _IGNORED | _IS_DIRECTORY | _DELETE_SELF | _MOVE_SELF
# File systems whose files others change, of whom this system knows nothing.
_OF_OTHERS = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "fuse",
    "virtiofs",
    "vboxsf",
    "afs",
    "ceph",
    "lustre",
    "gluster",
    "gfs",
    "ocfs",
)


class Notices:
    """Notices about directories and files, from the time they were added."""

    def __init__(self) -> None:
        """Open the system's interface. Raises `OSError` where it has none."""
        self._descriptor = _init()
        self._paths: dict[int, tuple[str, bool]] = {}  # by the number of the watch; whether it is of a directory

    def add(self, path: str, is_directory: bool) -> None:
        """Request notices about a file, or about all files in a directory. Raises `OSError` if the system cannot."""
        if _is_of_others(path):
            raise OSError(f"{path}: the system does not report all changes of this file")
        number = _add(self._descriptor, path)  # the same for another name of the same file
        self._paths[number] = "" if number in self._paths else path, is_directory

    def close(self) -> None:
        """Stop the notices."""
        os.close(self._descriptor)

    def wait(self, seconds: float) -> News:
        """Return the next notices; none after so many seconds."""
        news = News()
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        data = os.read(self._descriptor, _BYTES) if ready else b""
        while data:
            number, mask, _, size = _EVENT.unpack_from(data)
            name, data = data[_EVENT.size : _EVENT.size + size].rstrip(b"\0"), data[_EVENT.size + size :]
            path, of_directory = self._paths.get(number, ("", False))
            if mask & _UNCLEAR or not path or (of_directory and not name):
                news.unclear = True
            news.paths[os.path.join(path, os.fsdecode(name)) if name else path] = bool(mask & _DONE)
        return news


class News:
    """Paths of files that may have changed, each with True if no process is still writing it; ``unclear`` is True if
    some paths are unknown.
    """

    def __init__(self) -> None:
        self.paths: dict[str, bool] = {}
        self.unclear = False

    def __bool__(self) -> bool:
        return self.unclear or bool(self.paths)

    @property
    def done(self) -> bool:
        """Return True if all changed files are completely written."""
        return not self.unclear and all(self.paths.values())


def _is_of_others(path: str) -> bool:
    """Return True for a file system that other machines may write to."""
    return _file_systems().get(os.stat(path).st_dev, "").startswith(_OF_OTHERS)


@cache
def _file_systems() -> dict[int, str]:
    """Return the kinds of the file systems that are mounted, by the numbers of their devices."""
    kinds = {}
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
            mount, _, source = line.partition(" - ")
            major, minor = mount.split()[2].split(":")
            kinds[os.makedev(int(major), int(minor))] = source.split()[0]
    return kinds


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _init() -> int:
    if not hasattr(_library(), "inotify_init1"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return _checked("inotify", _library().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))


def _add(descriptor: int, path: str) -> int:
    return _checked(path, _library().inotify_add_watch(descriptor, os.fsencode(path), _WANTED))


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


# A look costs some microseconds a file: it is frequent enough not to be waited for, and a tenth of the time at most.
_LOOK_EVERY_S, _SHARE = 0.03, 10
# With notices from the system, files are looked at so often for changes without notice.
_LOOK_ANYWAY_S = 5.0
# After so much time without a save there is time to look at what the next round will need.
_RESTS_S = 0.2
# A file that stays as it is for so long is saved; and so many files at once, if none of them is open any more.
_QUIET_S, _CLOSED_S = 0.01, 0.002
# Ends of names of files that editors and Python leave beside those that they save.
_BESIDE = ("~", ".swp", ".swx", ".swo", ".pyc", ".bak", ".tmp")

_OF_THE_SYSTEM = ("/usr/", "/lib", "/bin/", "/etc/", "/opt/", f"{sys.base_prefix}/", f"{cache_dir()}/")

#: (time of status change, time of the last change, size, inode) of a file; the second can be set back
Stamp = tuple[int, int, int, int]
Stamps = dict[str, Stamp]


class Watched(msgspec.Struct):
    """Dependencies of a round: files, and directories with all entries except those in `without`."""

    sources: list[str] = []  # artifacts, programs, data
    headers: list[str] = []
    scripts: list[str] = []  # the SConstruct
    without: list[str] = []
    made: list[str] = []  # files that the round itself makes: they count only once they are edited afterwards
    replay: prefork.Kept = prefork.Kept()  # what the next round most likely runs

    def look(self, notices: Notices | None = None) -> Stamps:
        """Return the current stamps of the files; ``notices`` reports later changes. Raises `OSError` if that is
        impossible.
        """
        places = (*self.sources, *self.headers, *self.scripts)
        return {path: stamp for directory in places for path, stamp in self._below(directory, notices)}

    def _below(self, path: str, notices: Notices | None) -> Iterator[tuple[str, Stamp]]:
        is_directory, entries = os.path.isdir(path), list[os.DirEntry[str]]()
        if notices:  # an error for a missing path: there would be no notice when it appears
            notices.add(path, is_directory)
        with suppress(OSError):  # it was removed while we look; the others still count
            if is_directory:
                entries += os.scandir(path)
            else:
                yield path, _stamp(os.stat(path))
        for entry in entries:
            if not self.counts(entry.path):
                continue
            if not entry.is_dir():
                if notices and entry.is_symlink():
                    notices.add(entry.path, False)
                with suppress(OSError):
                    yield entry.path, _stamp(entry.stat())
            elif not entry.name.startswith(".") and not entry.is_symlink():
                yield from self._below(entry.path, notices)

    def counts(self, path: str) -> bool:
        """Return True if a change of this file or directory starts a round."""
        return not path.endswith(_BESIDE) and path not in self.without


class Waiting:
    """Waits for changes of the ``watched`` files. ``now`` has the last seen stamps."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._notices: Notices | None = None
        self._check_files()

    def _check_files(self) -> None:
        """Check all files, and request notices of later changes if the system supports them."""
        self.close()
        try:
            self._notices = Notices()
            self.now = self._watched.look(self._notices)
        except OSError:  # no more watches for this user, nothing there, or the system is not told of what happens there
            self.close()
            self.now = self._watched.look()

    def close(self) -> None:
        """Stop the notices."""
        if self._notices:
            self._notices.close()
        self._notices = None

    def wait(self, seen: Stamps, meanwhile: Callable[[], None] = lambda: None) -> list[str]:
        """Return the files that differ from ``seen``, at least one, once they stay unchanged for a moment.

        If nothing changes for a moment, ``meanwhile`` is called.
        """
        meanwhile, quiet = _once(meanwhile), _QUIET_S
        while self._notices:
            news = self._notices.wait(_RESTS_S if self.now == seen else quiet)
            if not news and self.now != seen:
                break
            if not news:
                meanwhile()
                news = self._notices.wait(_LOOK_ANYWAY_S)
            if news.unclear or not news:
                self._check_files()
            else:
                self._take(news)
            quiet = _CLOSED_S if news.done else _QUIET_S
        else:  # there are no notices
            self._wait_looking(seen, meanwhile)
        return sorted(path for path in {*self.now, *seen} if self.now.get(path) != seen.get(path))

    def _wait_looking(self, seen: Stamps, meanwhile: Callable[[], None]) -> None:
        last, rests = seen, time.monotonic() + _RESTS_S
        while self.now == seen or self.now != last:  # a file that came and went is no change
            if self.now == seen and time.monotonic() > rests:
                meanwhile()
            started = time.monotonic()
            last, self.now = self.now, self._watched.look()
            unchanged = max(_LOOK_EVERY_S, _SHARE * (time.monotonic() - started))
            time.sleep(unchanged if self.now == seen else _QUIET_S)

    def _take(self, news: News) -> None:
        """Look at the files of a notice."""
        for path in news.paths:
            self.now.pop(path, None)
            with suppress(OSError):
                status = os.stat(path)
                if self._watched.counts(path) and not stat.S_ISDIR(status.st_mode):
                    self.now[path] = _stamp(status)


def _once(action: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls ``action`` the first time only."""
    left = [action]
    return lambda: left.pop()() if left else None


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino


def each_round(precheck: Callable[[], None]) -> Callable[[Sequence[Workspace]], None]:
    """Return in a new process for every round; the process that called it never goes on, but may `precheck`.

    The result is a function to call at the round's end, with the workspaces. The calling process ends at Ctrl-C, with
    the status of the last round. It ends at once if the first round depends on nothing.

    Raises:
        OptionError: no target is asked for that could be done again.
    """
    if GetOption("clean") or GetOption("help") or not COMMAND_LINE_TARGETS:
        raise OptionError("WATCH=1: needs a verb to run again; name one, such as replay")
    watched, status = Watched(), 0
    seen = Stamps()
    end_on_signals(silently=True)
    try:
        while True:
            begun = time.time_ns()
            reader, writer = os.pipe()
            sys.stdout.flush()
            child = os.fork()
            if not child:
                os.close(reader)
                return partial(_report, writer)
            os.close(writer)
            report, status = _end_of(child, reader)
            watched = report if report.sources else watched
            if not watched.sources:
                break
            _keep(report.replay, precheck)
            spent = (time.time_ns() - begun) / 1e9
            # A file that no round depended on before counts as changed if it was saved since this one began.
            waiting = Waiting(watched)
            made = tuple(watched.made)
            seen = {
                path: now if path.startswith(made) else seen.get(path, now)
                for path, now in waiting.now.items()
                if path in seen or max(now[:2]) < begun or path.startswith(made)
            }
            _say(f"{spent:.2f} s; waiting for a change in {_shown(watched.sources)} (Ctrl-C ends)")
            changed = waiting.wait(seen, partial(prefork.run_precheck, precheck))
            waiting.close()
            seen = waiting.now
            _say(f"{_shown(changed)} changed")
            _say(f"{'-' * 20} {time.strftime('%H:%M:%S')} {'-' * 20}")
            if not set(changed).isdisjoint(watched.scripts):
                os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    except KeyboardInterrupt:
        print(flush=True)
    os._exit(status)


def _keep(kept: prefork.Kept, precheck: Callable[[], None]) -> None:
    """Keep a preloaded process for the most likely command of the next round."""
    prefork.NEXT.upcoming = kept
    prefork.keep(kept)
    if prefork.NEXT.workspace is None:
        prefork.run_precheck(precheck)


def _end_of(child: int, reader: int) -> tuple[Watched, int]:
    """Return the dependencies that a round reported (empty if it ended early), and its exit status.

    Ctrl-C, which the round gets too, ends it.
    """
    with open(reader, "rb") as stream:
        try:
            report = stream.read()
        except KeyboardInterrupt:
            os.waitpid(child, 0)
            raise
    _, status = os.waitpid(child, 0)
    return msgspec.json.decode(report or b"{}", type=Watched), os.waitstatus_to_exitcode(status)


def _report(writer: int, workspaces: Sequence[Workspace]) -> None:
    """Report the dependencies of ``workspaces`` to the waiting process at the end of a round."""
    watched = Watched(
        sources=sorted({str(path) for workspace in workspaces for path in _sources(workspace)}),
        headers=sorted({path for workspace in workspaces for path in _headers(workspace)}),
        scripts=[str(path) for path in _scripts(workspaces) if path.is_file()],
        without=sorted({str(workspace.build_dir) for workspace in workspaces}),
        made=sorted(
            [
                *(node.get_abspath() for node in made_by_users()),
                *(f"{node.get_abspath()}/" for node in made_directories()),
            ]
        ),
        replay=prefork.NEXT.upcoming,
    )
    with suppress(BrokenPipeError), open(writer, "wb") as stream:
        stream.write(msgspec.json.encode(watched))


def _sources(workspace: Workspace) -> Iterator[Path]:
    """Yield the files to watch: artifacts, directories where a newer one may appear, and data. For scene tests,
    yield their sources, not generated files.
    """
    roots, jit = {*workspace.outputs.values(), *filter(None, [workspace.selected])}, workspace.options["JIT"]
    roots = {root for root in roots if jit or not root.is_relative_to(workspace.build_dir)}
    yield from roots
    yield from (root.parent for root in roots if jit and root.name != Path(jit).name)
    yield from filter(Path.is_dir, workspace.data_dirs)
    own = (workspace.build_dir, cache_dir())
    yield from (path for path in sources_of_all() if not any(map(path.is_relative_to, own)))


def _headers(workspace: Workspace) -> Iterator[str]:
    """Yield directories of headers, and files that tools read, without the system's files and our outputs."""
    yield from map(str, workspace.include_dirs)
    others = (*_OF_THE_SYSTEM, f"{workspace.build_dir}/")
    for output_dir in workspace.output_dirs.values():
        yield from (path for path in output_dir.read_files() if not path.startswith(others))


def _scripts(workspaces: Sequence[Workspace]) -> Iterator[Path]:
    for workspace in workspaces[:1]:
        yield from (workspace.top / name for name in GetOption("file") or ("SConstruct",))
        yield from workspace.scripts


def _say(line: str) -> None:
    terminal.say(f"[watch] {line}")


def _shown(paths: list[str]) -> str:
    here = os.getcwd() + os.sep
    names = [path.removeprefix(here) for path in paths]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
