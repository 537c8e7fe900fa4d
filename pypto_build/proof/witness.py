"""What a tool was seen to read: a small library is preloaded into it, which writes down every file.

So nothing has to be known of a compiler's rules for finding headers, or of the programs that it starts. A program that
is linked statically cannot be watched; the account then names it as ``unseen``, and what was built is not recorded.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pypto_build.artifact.atomic import write_bytes
from pypto_build.artifact.files import read_bytes

from .digests import LISTING, TICK_S
from .looking import Identity

SOURCE = Path(__file__).resolve().with_name("witness.cpp")
#: The variable with the file that the library writes.
VARIABLE = "PYPTO_WITNESS"

_FLAGS = (
    "-std=c++17", "-O2", "-shared", "-fPIC",
    "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-nodefaultlibs",
)  # fmt: skip
_PACKAGE = str(SOURCE.parent.parent) + os.sep
# Where our modules are looked for, which says nothing of what they are.
_BESIDE_US = str(SOURCE.parents[2]).rstrip(os.sep) + LISTING
# What setuptools leaves there of an editable installation.
_OUR_INFO = f"{_BESIDE_US}{SOURCE.parents[1].name}.egg-info/"
_SYSTEM = ("/proc/", "/sys/", "/dev/")
_SCRIPT = b"#!"
# A package, or a module, in a directory of installed packages: the directory and the name.
_INSTALLED = re.compile(r"(.*/(?:site|dist)-packages/)([^/]*)")
_STANDARD = re.compile(r"/lib(?:64)?/python3\.?\d+(?:/|\.zip)")
_INFO = ".dist-info"
# The beginning of what an editable installation puts on Python's path, which is no file.
_EDITABLE = "__editable__."
# What git looks at for what its user has set, which changes nothing of what it is asked here: a revision.
_OF_GIT = re.compile(r"/(?:\.gitconfig|\.config/git(?:/.*)?|etc/gitconfig)\Z")
# The same of this package: a file with its path, or modules that look for it.
_OUR_PLACE = re.compile(r"__editable__[._]+pypto[-_]build")
_VENV = "pyvenv.cfg"
# A static program that is started as a matter of course, and what it reads: `ctypes.util.find_library` asks it for its
# table of libraries, also when a PyTorch with CUDA is imported.
_LDCONFIG = frozenset(f"{directory}/ldconfig{kind}" for directory in ("/sbin", "/usr/sbin") for kind in ("", ".real"))
_LIBRARIES = "/etc/ld.so.cache"


@dataclass
class Account:
    """What was seen: files read, each with what the system said of it; files not found; directories listed.

    What a process had read that was forked for the command is ``earlier``.
    """

    read: dict[str, Identity] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    earlier: set[str] = field(default_factory=set)
    unseen: str = ""  # a program that was started and could not be watched

    @property
    def files(self) -> set[str]:
        """All that was there and counts by content; directories with a slash at the end count by their names."""
        return self.read.keys() | self.loaded | self.listed

    def leave_out(self, paths: Iterable[str]) -> None:
        """Say nothing of these files."""
        self.loaded.difference_update(paths)
        for path in self.read.keys() & set(paths):
            del self.read[path]


def library(compiler: str, directory: Path, environment: Mapping[str, str], source: Path = SOURCE) -> Path | None:
    """The library to preload, or another one of ours, built with ``compiler`` on first use; None where it cannot be
    built."""
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
    """Return the program that `watcher` does not see when `compiler` runs; empty where it sees all."""
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
    """Return in one line why tools cannot be watched here and what to do, where `library` builds nothing."""
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
            error = next((line for line in lines if "error" in line), lines[0] if lines else "it says nothing")
            return f"{compiler} does not compile the library that watches: {error.strip()}"
        if program := _unwatched(compiler, watcher, environment):
            return f"{program} loads no library before it starts, as programs that are linked statically"
    return f"the library that watches cannot be kept in {os.environ.get('PYPTO_BUILD_CACHE') or '~/.cache/pypto-build'}"


def read_account(log: Path, argv: Sequence[str], private: Iterable[str]) -> Account:
    """What the log says of the command ``argv``, without ``private`` files, those below such directories, and those it
    wrote."""
    account, written, started, running = Account(), set[str](), {argv[0]}, set[str]()
    for line in _lines(log):
        kind, _, rest = line.partition("\t")
        match kind:
            case "R" | "W":
                *numbers, path = rest.split("\t", 4)
                if kind == "W":
                    written.add(path)
                elif len(numbers) == 4 and path not in account.read and not path.startswith(_SYSTEM):
                    account.read[path] = (int(numbers[0]), int(numbers[1]), int(numbers[2]), int(numbers[3]))
            case "M":
                written |= {rest, rest + LISTING}
            case "A":
                account.absent.add(rest)
            case "D":
                account.listed.add(rest.rstrip("/") + LISTING)
            case "L":
                account.loaded.add(rest)
            case "X":
                running.add(rest)
                account.loaded.add(rest)
            case "E":
                started.add(rest)
            case "Z":
                account.earlier = account.files
    for program in started & _LDCONFIG:
        running.add(os.path.realpath(program))
        account.loaded.add(program)
        (account.loaded if os.path.isfile(_LIBRARIES) else account.absent).add(_LIBRARIES)
    account.unseen = _untold(started, running)
    own = {str(place).rstrip("/") for place in private}
    _leave_out(account, written | own, tuple(f"{place}/" for place in own))
    return account


def _lines(log: Path) -> list[str]:
    try:
        return log.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return []


def _untold(started: Iterable[str], running: set[str]) -> str:
    """A program that was to be executed and is not among those ``running``."""
    for path in started:
        program = _interpreter(path)
        if program and os.path.realpath(program) not in running:
            return path
    return ""


def _interpreter(path: str) -> str:
    """The executable that runs ``path``: itself, or that of a script; empty where there is none."""
    try:
        with open(path, "rb") as file:
            begin = file.read(256)
    except OSError:
        return ""
    words = begin.partition(b"\n")[0][2:].split() if begin.startswith(_SCRIPT) else [os.fsencode(path)]
    return os.fsdecode(words[0]) if words else ""


def _leave_out(account: Account, written: set[str], private: tuple[str, ...]) -> None:
    def counts(path: str) -> bool:
        return path not in written and not path.startswith(private)

    account.read = {path: seen for path, seen in account.read.items() if counts(path)}
    account.absent = {path for path in account.absent if counts(path) and not path.startswith(_SYSTEM)}
    account.listed = {path for path in account.listed if counts(path) and not path.startswith(_SYSTEM)}
    account.loaded = {path for path in account.loaded if counts(path)}


def of_python(account: Account) -> Account:
    """The account of one of our own tools, with modules by their sources and packages by what installed them.

    The standard library is that of the interpreter, which counts as a program; our own modules count by content, those
    of other distributions by the list of files and versions that came with them. What only says where interpreter,
    packages and our modules are found, with the paths of this machine, does not count: what is found does.
    """
    mine = Account(unseen=account.unseen)
    for path in account.files:
        source, told = _source(path), set[str]()
        if os.path.basename(source) == _VENV or _OF_GIT.search(source):
            continue
        if package := None if source.startswith(_PACKAGE) else _INSTALLED.match(source):
            found = package[2] and not _OUR_PLACE.match(package[2])
            told.update(_records(package[1], package[2]) if found else ())
            mine.loaded |= told
        elif not (source.endswith(LISTING) if source.startswith(_PACKAGE) else _is_of_path(source)):
            told.add(source)
            mine.read[source] = account.read.get(source, (0, 0, 0, 0))
        if path in account.earlier:
            mine.earlier |= told
    mine.absent = {path for path in account.absent if not (_is_of_python(path) or _OF_GIT.search(path))}
    return mine


def _is_of_path(source: str) -> bool:
    """Whether a file or directory says where modules are found, and nothing of what they are."""
    return source == _BESIDE_US or source.startswith(_OUR_INFO) or bool(_STANDARD.search(source))


def _is_of_python(path: str) -> bool:
    """Whether a file that is not there would be a module, looked for beside those of Python, its packages and ours."""
    beside = path.startswith(_PACKAGE) or _INSTALLED.match(path) or _STANDARD.search(path)
    return bool(beside) or os.path.basename(path).startswith(_EDITABLE)


@cache
def _source(path: str) -> str:
    """The source of a compiled module; any other path as it is."""
    directory, name = os.path.split(path)
    if not name.endswith(".pyc") or os.path.basename(directory) != "__pycache__":
        return path
    return os.path.join(os.path.dirname(directory), name.partition(".")[0] + ".py")


@cache
def _records(directory: str, name: str) -> tuple[str, ...]:
    """The files that tell one installation of a package from another; its own first file where nothing does."""
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
    """The `.dist-info` directories by the packages that they installed."""
    found: dict[str, str] = {}
    for name in sorted(os.listdir(directory)):
        if not name.endswith(_INFO):
            continue
        found.setdefault(_normal(name.partition("-")[0]), name)
        with suppress(OSError):
            text = Path(directory, name, "top_level.txt").read_text(encoding="utf-8", errors="replace")
            for package in text.split():
                found.setdefault(_normal(package), name)
    return found
