"""Observes the files that a tool reads: a small library is preloaded into the tool and writes them to a log.

So no knowledge is needed of a compiler's rules for finding headers, or of the programs that it starts. A statically
linked program cannot be observed. The account then names the program as ``unseen``, and the result is not recorded.
"""

from __future__ import annotations

import errno
import hashlib
import marshal
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

from pypto_build.artifact.files import read_bytes, write_bytes

from .digests import LISTING, TICK_S, Mounts
from .looking import NOTHING, Identity, as_int64
from .questions import ATTRIBUTES, LINK, NO_SIZE, REAL, STATUS, access, failure, status, subject, without_size

SOURCE = Path(__file__).resolve().with_name("witness.cpp")
#: The variable with the file that the library writes.
VARIABLE = "PYPTO_WITNESS"
#: The same for a test: the library passes it on to all that is started, and it has a name that no command is given.
TEST_VARIABLE = "_PYPTO_WITNESS"

_FLAGS = (
    "-std=c++17", "-O2", "-shared", "-fPIC",
    "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-nodefaultlibs",
)  # fmt: skip
_PACKAGE = str(SOURCE.parent.parent) + os.sep
# The directory in which our modules are looked for; its names are no inputs.
_BESIDE_US = str(SOURCE.parents[2]).rstrip(os.sep) + LISTING
# The directory that setuptools leaves there for an editable installation.
_OUR_INFO = f"{_BESIDE_US}{SOURCE.parents[1].name}.egg-info/"
_SLASHES = re.compile("/+")
_SCRIPT = b"#!"
_INFO = ".dist-info"
# The beginning of what an editable installation puts on Python's path, which is no file.
_EDITABLE = "__editable__."
# The same of this package: a file with its path, or modules that look for it.
_OUR_PLACE = re.compile(r"__editable__[._]+pypto[-_]build")
_VENV = "pyvenv.cfg"
_COMPILED = "__pycache__"
# A replay looks here for files that others have left: names are no input of our tools, contents are.
_SHARED = "/dev/shm/"
# A static program that is started as a matter of course, and what it reads: `ctypes.util.find_library` asks it for its
# table of libraries, also when a PyTorch with CUDA is imported.
_LDCONFIG = frozenset(f"{directory}/ldconfig{kind}" for directory in ("/sbin", "/usr/sbin") for kind in ("", ".real"))
_LIBRARIES = "/etc/ld.so.cache"


@dataclass
class Account:
    """Observations of a command: files read, each with its identity; missing files; listed directories; other queries,
    each with its answer (empty if it is looked up afterwards).

    ``earlier`` are files read by the fork server before the command. ``changed`` are files that the command read and
    then wrote. ``programs`` are those that ran, ``executed`` those that the command tried to run.
    """

    read: dict[str, Identity] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    answers: dict[str, str] = field(default_factory=dict)
    earlier: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    rewritten: set[str] = field(default_factory=set)  # of these, what it read
    appended: set[str] = field(default_factory=set)
    unsteady: set[str] = field(default_factory=set)  # of which was told one thing, and then another
    programs: set[str] = field(default_factory=set)
    executed: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)  # of those, by the C library and by us
    executions: dict[str, list[str]] = field(default_factory=dict)  # by process, the programs that it was to execute
    ran: Counter[str] = field(default_factory=Counter)  # by process, how many of these did run
    spawned: dict[str, str] = field(default_factory=dict)  # by process, the program that another one started it with
    processes: set[str] = field(default_factory=set)  # that said that they run
    mounts: set[str] = field(default_factory=set)  # the namespaces of mounts that programs ran in
    unseen: str = ""  # a program that was started and could not be watched

    @property
    def files(self) -> set[str]:
        """Return all existing paths that count: files by content, directories (with a slash at the end) by their
        names.
        """
        return self.read.keys() | self.loaded | self.listed

    @property
    def has_own_mounts(self) -> bool:
        """Return True if a program ran in a mount namespace other than that of this process."""
        try:
            return not self.mounts <= {os.readlink("/proc/self/ns/mnt")}
        except OSError:
            return bool(self.mounts)

    def leave_out(self, paths: Iterable[str]) -> None:
        """Remove these files from the account."""
        self.loaded.difference_update(paths)
        for path in self.read.keys() & set(paths):
            del self.read[path]


def library(compiler: str, directory: Path, environment: Mapping[str, str], source: Path = SOURCE) -> Path | None:
    """Return the library to preload, or another library of this package, built with ``compiler`` on first use; None
    if it cannot be built.
    """
    key = hashlib.sha256(source.read_bytes() + f"{compiler} {_FLAGS}".encode()).hexdigest()[:32]
    watcher, note = directory / f"{key}.so", directory / f"{key}.sha256"
    with suppress(OSError):
        if hashlib.sha256(read_bytes(watcher)).hexdigest().encode() == read_bytes(note):
            return watcher
    unfinished = directory / f".{key}.{os.getpid()}.tmp"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        command = [compiler, *_FLAGS, str(source), "-o", str(unfinished), "-lc", "-ldl"]
        run = subprocess.run(command, capture_output=True, env=dict(environment), check=False)
        if run.returncode or (source is SOURCE and _unwatched(compiler, unfinished, environment)):
            return None
        for path in filter(Path.is_dir, (watcher, note)):  # nothing of ours
            path.rename(f"{path}.{os.getpid()}.aside")
        write_bytes(note, hashlib.sha256(unfinished.read_bytes()).hexdigest().encode())
        unfinished.replace(watcher)
        if source is SOURCE:
            time.sleep(2 * TICK_S)  # else it would look as if it changed during the first commands that load it
    except OSError:
        return None
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return watcher


def _unwatched(compiler: str, watcher: Path, environment: Mapping[str, str]) -> str:
    """Return a program that `watcher` does not observe when `compiler` runs; empty if all are observed."""
    with tempfile.TemporaryDirectory(prefix="pypto-witness-") as name:
        source, log = Path(name, "empty.cpp"), Path(name, "log")
        source.touch()
        log.touch()  # else nothing is written
        command = [compiler, "-fsyntax-only", str(source)]
        preloaded = {**environment, "LD_PRELOAD": str(watcher), VARIABLE: str(log)}
        subprocess.run(command, capture_output=True, env=preloaded, check=False)
        account = read_account(log, command, ())
    return account.unseen or ("" if str(source) in account.files else compiler)


def obstacle(compiler: str, environment: Mapping[str, str]) -> str:
    """If `library` builds nothing, return why this compiler's tools cannot be observed; empty if they can be."""
    with tempfile.TemporaryDirectory(prefix="pypto-witness-") as name:
        watcher = Path(name, "watcher.so")
        command = [compiler, *_FLAGS, str(SOURCE), "-o", str(watcher), "-lc", "-ldl"]
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, errors="replace", env=dict(environment), check=False
            )
        except OSError as error:
            return f"{compiler} cannot be run ({error.strerror})"
        if run.returncode:
            lines = run.stderr.splitlines()
            complaint = next((line for line in lines if "error" in line), lines[0] if lines else "it says nothing")
            return f"{compiler} does not compile the library that watches: {complaint.strip()}"
        if program := _unwatched(compiler, watcher, environment):
            return f"{program} loads no library before it starts, as programs that are linked statically"
    return ""


def read_account(log: Path, argv: Sequence[str], private: Iterable[str]) -> Account:
    """Read the log of the command ``argv``.

    Files that it wrote do not count, nor do ``private`` files and directories.
    """
    account, written = Account(started={argv[0]}), set[str]()
    own = {str(directory).rstrip("/") for directory in private}
    counts = _Counts(own)
    for event in _events(log):
        kind, *numbers, path = event
        if kind == "Z":
            account.earlier = account.files
        elif kind in "WBM":
            if counts(path):
                _note_write(account, kind, numbers, path, written)
        elif kind == "R" and path in account.appended:
            account.rewritten.add(path)
        elif kind in _NOTES and path not in written and (kind in "XEFLUV" or counts(path)):
            _NOTES[kind](account, path, numbers)
    for program in account.executed & _LDCONFIG:
        account.programs.add(os.path.realpath(program))
        account.loaded.add(program)
        (account.loaded if os.path.isfile(_LIBRARIES) else account.absent).add(_LIBRARIES)
    account.loaded.update(path for path in account.executed if path not in written and os.path.isfile(path))
    account.unseen = account.unseen or _untold(account)
    account.changed |= account.rewritten
    gone = {path for path in account.changed if _is_temporary(account, path)}
    account.changed -= gone
    _leave_out(account, written - gone, counts)
    return account


def special_file(environment: Mapping[str, str]) -> str:
    """Return the last device or pipe that a command opened in this environment; empty if it was none or not watched."""
    paths = [event[-1] for event in _events(Path(environment.get(VARIABLE, ""))) if event[0] == _SPECIAL]
    return paths[-1] if paths else ""


def _is_temporary(account: Account, path: str) -> bool:
    """Return whether the command created a missing file or directory and removed it again: its absence stays an
    input.
    """
    missing = account.answers.get(path + LINK) == failure(errno.ENOENT) or path in account.absent
    return missing and path not in account.rewritten and not os.path.lexists(path)


# Names of the descriptors of namespaces, pipes and sockets: `ipc:[4026531839]`.
_NAMELESS = re.compile(r"[a-z_]+:\[")


class _Counts:
    """Decides which paths count. Paths of the command itself, system tables and unresolvable paths do not."""

    def __init__(self, own: set[str]) -> None:
        self._own, self._below = own, (*(f"{path}/" for path in own), *Mounts.now().tables())

    def __call__(self, path: str) -> bool:
        return path not in self._own and not path.startswith(self._below) and not _NAMELESS.match(path)


def _events(log: Path) -> Iterator[list[str]]:
    """Yield the events of a log, as kind, numbers and path; repeated events only if they matter."""
    try:
        data = log.read_bytes()
    except OSError:
        return
    before = set[str]()
    for event in data.decode(errors="surrogateescape").split("\0"):
        if event in before:
            continue
        kind, _, rest = event.partition("\t")
        if kind not in _COUNTED:
            before.add(event)
        fields = rest.split("\t", _NUMBERS.get(kind, 0))
        if len(fields) == _NUMBERS.get(kind, 0) + 1:
            fields[-1] = _SLASHES.sub("/", fields[-1])
            yield [kind, *fields]


def _note_write(account: Account, kind: str, numbers: list[str], path: str, written: set[str]) -> None:
    """Record a file that the command writes; its earlier content is not an input."""
    if path in written:
        return
    is_answered = any(path + question in account.answers for question in _ABOUT_IT)
    if path in account.read or path in account.loaded or numbers == ["1"]:
        account.rewritten.add(path)
    if kind == "B":
        account.appended.add(path)
    if kind == "B" or is_answered or path in account.absent:
        account.changed.add(path)
    if f"{os.path.dirname(path)}{LISTING}" in account.listed:
        account.changed.add(os.path.dirname(path))
    written |= {path, path + LISTING}


# Questions that may have been asked of a file before it is written.
_ABOUT_IT = (STATUS, LINK, REAL, ATTRIBUTES, *(f"{STATUS}{mode}" for mode in range(8)))


def _note_read(account: Account, path: str, numbers: list[str]) -> None:
    device, inode, mode, size, changed, status_changed = map(int, numbers)
    account.read.setdefault(path, (device, inode, mode, size, as_int64(changed), as_int64(status_changed)))


def _note_answer(account: Account, question: str, answer: str) -> None:
    before = account.answers.get(question)
    account.answers[question] = answer or before or ""
    if before and answer and before != answer:
        account.unsteady.add(subject(question))


def _note_link(account: Account, path: str, numbers: list[str]) -> None:
    mode, size = map(int, numbers)
    _note_answer(account, path + LINK, "" if stat.S_ISLNK(mode) else status(mode, size))


def _note_start(account: Account, path: str, numbers: list[str]) -> None:
    account.executed.add(path)
    if numbers == ["0"]:
        account.started.add(path)
    elif path not in _LDCONFIG:
        account.executions.setdefault(numbers[0], []).append(path)


def _note_spawn(account: Account, path: str, numbers: list[str]) -> None:
    account.executed.add(path)
    if path not in _LDCONFIG:
        account.spawned[numbers[0]] = path


def _note_program(account: Account, path: str, numbers: list[str]) -> None:
    account.programs.add(path)
    account.processes.add(numbers[0])
    account.loaded.add(path)
    if numbers[0] in account.executions:  # else it is what the process began with
        account.ran[numbers[0]] += 1


def _note_refusal(account: Account, _: str, numbers: list[str]) -> None:
    if account.executions.get(numbers[0]):
        account.executions[numbers[0]].pop()


def _note_failure(account: Account, question: str, number: int) -> None:
    """Record why a file could not be opened. The query cannot be repeated later in a sandbox, which refuses all
    writes.
    """
    if number != errno.EROFS:
        _note_answer(account, question, failure(number))


def _note_unwatched(account: Account, path: str, _: list[str]) -> None:
    account.unseen = account.unseen or path


#: Events each of which counts: the start, the refusal and the life of programs, and the line between two commands.
_COUNTED = "XEPFZ"
_SPECIAL = "C"
#: Count of numbers in front of an event's path.
_NUMBERS = {"R": 6, "B": 1, "X": 1, "E": 1, "P": 1, "F": 1, "S": 2, "T": 2, "N": 1, "O": 1, "Q": 2}
_NOTES: dict[str, Callable[[Account, str, list[str]], None]] = {
    "R": _note_read,
    "A": lambda account, path, _: account.absent.add(path),
    "D": lambda account, path, _: account.listed.add(path.rstrip("/") + LISTING),
    "L": lambda account, path, _: account.loaded.add(path),
    "X": _note_program,
    "E": _note_start,
    "P": _note_spawn,
    "F": _note_refusal,
    "U": _note_unwatched,
    "V": lambda account, path, _: account.mounts.add(path),
    "S": lambda account, path, numbers: _note_answer(account, path + STATUS, status(*map(int, numbers))),
    "T": _note_link,
    "N": lambda account, path, numbers: _note_failure(account, path + STATUS, int(numbers[0])),
    "O": lambda account, path, numbers: _note_failure(account, path + LINK, int(numbers[0])),
    "Q": lambda account, path, numbers: _note_answer(account, f"{path}{STATUS}{numbers[0]}", access(int(numbers[1]))),
    "K": lambda account, path, _: _note_answer(account, path + LINK, ""),
    "G": lambda account, path, _: _note_answer(account, path + REAL, ""),
    "Y": lambda account, path, _: _note_answer(account, path + ATTRIBUTES, ""),
}


def _untold(account: Account) -> str:
    """Return a program that the command tried to run and that did not report its start."""
    for process, paths in account.executions.items():
        if len(paths) > account.ran[process]:
            return paths[-1]
    for process, path in account.spawned.items():
        if process not in account.processes:
            return path
    for path in account.started:
        program = _interpreter(path)
        if program and os.path.realpath(program) not in account.programs:
            return path
    return ""


def _interpreter(path: str) -> str:
    """Return the executable that runs ``path``: itself, or the interpreter of a script; empty if there is none."""
    try:
        with open(path, "rb") as file:
            begin = file.read(256)
    except OSError:
        return ""
    words = begin.partition(b"\n")[0][2:].split() if begin.startswith(_SCRIPT) else [os.fsencode(path)]
    return os.fsdecode(words[0]) if words else ""


def _leave_out(account: Account, written: set[str], counts: _Counts) -> None:
    """Remove from the account the command's own files, and the files that it wrote."""

    def stays(path: str) -> bool:
        return path not in written and counts(path)

    account.read = {path: seen for path, seen in account.read.items() if stays(path)}
    account.absent = set(filter(stays, account.absent))
    account.listed = set(filter(stays, account.listed))
    account.loaded = set(filter(stays, account.loaded))
    account.unsteady = set(filter(stays, account.unsteady))
    account.answers = {question: answer for question, answer in account.answers.items() if stays(subject(question))}


def of_python(account: Account, foreign: bool = False) -> Account:
    """Return the account of one of this package's Python tools, with modules by their sources and packages by their
    installations.

    The standard library belongs to the interpreter, which counts as a program. Modules of this package count by
    content. Modules of other packages count by the list of files and versions that was installed with them. Files that
    only give the paths of interpreter, packages and modules do not count; the modules themselves do. A ``foreign``
    account is that of the user's code, which may depend on a file's size, or infer its content from its status, as a
    build does for a result.
    """
    homes = _Homes(account)
    mine = replace(account, read={}, absent=set(), listed=set(), loaded=set(), answers={}, earlier=set())
    for path in account.files | (_looked_at(account) if foreign else set()):
        source, files = _source(path), set[str]()
        if homes.is_of_user(source) or source == _SHARED:
            continue
        if package := None if source.startswith(_PACKAGE) else homes.installed(source):
            is_installed = package[1] and not _OUR_PLACE.match(package[1])
            files.update(_records(*package) if is_installed else ())
            mine.loaded |= files
        elif not (source.endswith(LISTING) if source.startswith(_PACKAGE) else homes.is_of_path(source)):
            files.add(source)
            mine.read[source] = account.read.get(source, NOTHING)
        if path in account.earlier:
            mine.earlier |= files
    mine.absent = {path for path in account.absent if not (homes.is_of_python(path) or homes.is_of_user(path))}
    mine.answers = {
        question + NO_SIZE if question.endswith((STATUS, LINK)) else question: without_size(answer)
        for question, answer in account.answers.items()
        if not (homes.says_where(subject(question)) or subject(question).startswith(_SHARED))
    }
    mine.changed = {path for path in account.rewritten if not _is_compiled(path)}  # they look before they write
    return mine


def remove_stale_bytecode(account: Account) -> str:
    """Remove the user's compiled modules that differ from their sources; return such a source, empty if none.

    Python loads a stale module if its source has the recorded size and time, or if the module says that its source does
    not count. A file that cannot be removed makes the account ``unseen``.
    """
    homes, stale = _Homes(account), ""
    for path in account.files:
        source = _source(path)
        if source == path or source.startswith(_PACKAGE) or homes.installed(source) or homes.is_of_path(source):
            continue
        with suppress(FileNotFoundError):
            if os.stat(source).st_ctime_ns > os.stat(path).st_ctime_ns or not _is_of(source, path):
                try:
                    os.unlink(path)
                    stale = source
                except OSError:
                    account.unseen = account.unseen or path
    return stale


def _is_of(source: str, compiled: str) -> bool:
    """Return False if a module that this Python compiled has other code than its source."""
    data = Path(compiled).read_bytes()
    if data[:4] != MAGIC_NUMBER or compiled != cache_from_source(source, optimization=""):
        return True
    text = Path(source).read_bytes()
    try:
        codes = [compile(text, source, "exec", dont_inherit=True, optimize=0) for _ in range(2)]
        return codes[0] != codes[1] or marshal.loads(data[16:]) == codes[0]  # they differ if a constant is NaN
    except (SyntaxError, ValueError, EOFError, TypeError):
        return False


def _looked_at(account: Account) -> set[str]:
    """Return the regular files whose status a command queried."""
    return {subject(question) for question, answer in account.answers.items() if answer.startswith("file ")}


def _is_compiled(path: str) -> bool:
    return os.path.basename(path) == _COMPILED or os.path.basename(os.path.dirname(path)) == _COMPILED


class _Homes:
    """The directories of the standard libraries and packages of a command's interpreters.

    They lie below installation prefixes, virtual environments, and the user's own directory.
    """

    def __init__(self, account: Account) -> None:
        prefixes = {sys.prefix, sys.base_prefix, "/usr", "/usr/local", os.path.expanduser("~/.local")}
        for path in account.programs:
            if os.path.basename(path).startswith("python"):
                prefixes.add(os.path.dirname(os.path.dirname(path)))
        for path in account.read:
            directory, name = os.path.split(path)
            if name == _VENV and os.path.isdir(os.path.join(directory, "lib")):
                prefixes.add(directory)
        self._prefixes = prefixes
        homes = "|".join(re.escape(prefix) for prefix in sorted(prefixes))
        standard = rf"(?:{homes})/lib(?:64)?/python3?(?:\.?\d+)?(?:/|\.zip)"
        self._standard = re.compile(rf"{standard}|(?:{homes})/lib(?:64)?/python3?(?:\.?\d+)?\Z")
        self._installed = re.compile(rf"({standard}(?:site|dist)-packages/)([^/]*)")
        home = re.escape(os.path.expanduser("~"))
        self._of_git = re.compile(rf"(?:{home}/\.gitconfig|{home}/\.config/git(?:/.*)?|/etc/gitconfig)\Z")

    def installed(self, path: str) -> tuple[str, str] | None:
        """Return the directory of installed packages that contains a path, and the path's first name below it."""
        match = self._installed.match(path)
        return (match[1], match[2]) if match else None

    def is_of_user(self, path: str) -> bool:
        """Return whether a file belongs to an environment, or to the user's git configuration."""
        directory, name = os.path.split(path)
        return (name == _VENV and directory in self._prefixes) or bool(self._of_git.match(path))

    def is_of_path(self, path: str) -> bool:
        """Return whether a file or directory decides only where modules are found, not their content."""
        return path == _BESIDE_US or path.startswith(_OUR_INFO) or bool(self._standard.match(path))

    def is_of_python(self, path: str) -> bool:
        """Return whether a missing file is one that Python looks for: a module, or a file that marks an environment."""
        name = os.path.basename(path)
        beside = path.startswith(_PACKAGE) or self._standard.match(path) or name == _VENV
        return bool(beside) or name.startswith(_EDITABLE)

    def says_where(self, path: str) -> bool:
        """Return True if a query about a path only serves to find modules or the interpreter."""
        path = path.rstrip("/") or "/"
        directory, name = os.path.split(path)
        ours = path.startswith(_PACKAGE) or path + LISTING in (_PACKAGE, _BESIDE_US)
        in_bin = os.path.basename(directory) == "bin" and os.path.dirname(directory) in self._prefixes
        interpreter = name.startswith("python") and in_bin
        is_home = ours or interpreter or path in self._prefixes or name.startswith(_EDITABLE)
        return is_home or self.is_of_user(path) or self.is_of_path(path)


@cache
def _source(path: str) -> str:
    """Return the source of a compiled module; any other path unchanged."""
    directory, name = os.path.split(path)
    if not name.endswith(".pyc") or os.path.basename(directory) != _COMPILED:
        return path
    return os.path.join(os.path.dirname(directory), name.partition(".")[0] + ".py")


@cache
def _records(directory: str, name: str) -> tuple[str, ...]:
    """Return the files that distinguish one installation of a package from another; its first file if there are
    none.
    """
    package = os.path.join(directory, name)
    distribution = name if name.endswith(_INFO) else _distributions(directory).get(_normal(name.partition(".")[0]))
    if distribution:
        files = [os.path.join(directory, distribution, file) for file in ("METADATA", "RECORD")]
        if present := tuple(filter(os.path.isfile, files)):
            return present
    first = os.path.join(package, "__init__.py")
    return (package if os.path.isfile(package) else first if os.path.isfile(first) else package + LISTING,)


def _normal(name: str) -> str:
    return name.lower().replace("-", "_")


@cache
def _distributions(directory: str) -> dict[str, str]:
    """Return the `.dist-info` directories by the packages that they describe."""
    records: dict[str, str] = {}
    for name in sorted(os.listdir(directory)):
        if not name.endswith(_INFO):
            continue
        records.setdefault(_normal(name.partition("-")[0]), name)
        with suppress(OSError):
            text = Path(directory, name, "top_level.txt").read_text(encoding="utf-8", errors="replace")
            for package in text.split():
                records.setdefault(_normal(package), name)
    return records
