"""Whatever a tool asks of the file system is an input; where that cannot be seen, nothing is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pypto_build.proof import Action, OutputDir, Store
from pypto_build.toolchain.host import find_compiler
from tests.proof.test_output_dir import Rig

_TOOL = r"""
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <semaphore.h>
#include <spawn.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
extern char **environ;

static int show(long file) {
    char bytes[4096];
    const long size = file < 0 ? -1 : read((int)file, bytes, sizeof(bytes));
    return size < 0 ? puts("none") : (int)fwrite(bytes, 1, (size_t)size, stdout);
}
static int visit(const char *path, const struct stat *, int, struct FTW *) { return puts(path) < 0; }
int main(int, char **words) {
    const std::string way = words[1];
    const char *path = words[2], *program = words[2];
    char *list[] = {words[2], words[3], nullptr};
    if (way == "syscall openat") return show(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY)), 0;
    if (way == "syscall openat2") {
        open_how how{};
        return show(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how))), 0;
    }
    if (way == "syscall stat") {
        struct stat status;
        return printf("%ld\n", syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0)), 0;
    }
    if (way == "below") return show(openat(open(path, O_RDONLY | O_DIRECTORY), words[3], O_RDONLY)), 0;
    if (way == "nftw") return nftw(path, visit, 8, 0);
    if (way == "glob") {
        glob_t found;
        return printf("%d\n", glob(path, 0, nullptr, &found)), 0;
    }
    if (way == "scandir") {
        dirent **names;
        return printf("%d\n", scandir(path, &names, nullptr, nullptr)), 0;
    }
    if (way == "attribute" || way == "attribute by number") {
        char value[64];
        const char *name = "user.probe";
        const long size = way == "attribute" ? getxattr(path, name, value, sizeof(value))
                                             : syscall(SYS_getxattr, path, name, value, sizeof(value));
        return printf("%.*s\n", (int)(size < 0 ? 0 : size), value), 0;
    }
    if (way == "set attribute") return setxattr(path, "user.probe", "x", 1, 0);
    if (way == "unlink") return unlink(path) < 0;
    if (way == "attributes") return printf("%ld\n", (long)listxattr(path, nullptr, 0)), 0;
    if (way == "attributes, opened") return printf("%ld\n", (long)flistxattr(open(path, O_RDONLY), nullptr, 0)), 0;
    if (way == "flags" || way == "flags by number") {
        int flags = 0;
        const int file = open(path, O_RDONLY);
        way == "flags" ? (long)ioctl(file, FS_IOC_GETFLAGS, &flags) : syscall(SYS_ioctl, file, FS_IOC_GETFLAGS, &flags);
        return printf("%x\n", flags), 0;
    }
    if (way == "semaphore") return printf("%d\n", sem_open(path, 0) == SEM_FAILED), 0;
    if (way == "exclusive") return printf("%d\n", open(path, O_CREAT | O_EXCL | O_WRONLY, 0600) < 0), unlink(path), 0;
    if (way == "exclusive, kept") return printf("%d\n", open(path, O_CREAT | O_EXCL | O_WRONLY, 0600) < 0), 0;
    if (way == "addopen") {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, words[3], O_RDONLY, 0);
        char *alone[] = {words[2], nullptr};
        pid_t process;
        posix_spawn(&process, program, &actions, nullptr, alone, environ);
        return waitpid(process, nullptr, 0) < 0;
    }
    if (way == "execl") return execl(program, program, words[3], (char *)nullptr);
    if (way == "execlp") return execlp(program, program, words[3], (char *)nullptr);
    if (way == "execle") return execle(program, program, words[3], (char *)nullptr, environ);
    if (way == "execv") return execv(program, list);
    if (way == "execvp") return execvp(program, list);
    if (way == "fexecve") return fexecve(open(program, O_RDONLY), list, environ);
    if (way == "syscall execve") return (int)syscall(SYS_execve, program, list, environ);
    if (way == "system") return system((std::string(program) + " " + words[3]).c_str());
    if (way == "popen") return pclose(popen((std::string(program) + " " + words[3]).c_str(), "w"));
    if (way == "system without") return unsetenv("LD_PRELOAD"), system((std::string("cat ") + path).c_str());
    if (way == "posix_spawn" || way == "posix_spawnp") {
        pid_t process;
        (way == "posix_spawn" ? posix_spawn : posix_spawnp)(&process, program, nullptr, nullptr, list, environ);
        return waitpid(process, nullptr, 0) < 0;
    }
    if (way == "vfork") {
        if (vfork() == 0) execv(program, list), _exit(1);
        return wait(nullptr) < 0;
    }
    return 9;
}
"""
_RAW = r"""
#include <unistd.h>
static long call(long number, long a, long b, long c) {
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
int main(int, char **words) {
    char bytes[64];
    const long size = read((int)call(2, (long)words[1], 0, 0), bytes, sizeof(bytes));
    return write(1, bytes, (unsigned long)size) != size;
}
"""
_STILL = """
#include <fcntl.h>
#include <unistd.h>
int main(int, char **words) {
    char bytes[64];
    const long size = read(open(words[1], O_RDONLY), bytes, sizeof(bytes));
    return write(1, bytes, (unsigned long)size) != size;
}
"""


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a program that asks in many ways, and one that nobody can watch."""
    directory = tmp_path_factory.mktemp("tools")
    programs = (("tool", _TOOL, ""), ("still", _STILL, "-static"), ("raw", _RAW, "-O0"), ("optimized", _RAW, "-O2"))
    for name, text, flag in programs:
        (directory / f"{name}.cpp").write_text(text)
        command = [find_compiler().path, *filter(None, [flag]), f"{name}.cpp", "-o", name]
        subprocess.run(command, cwd=directory, check=name == "tool", capture_output=True)
    (directory / "go").write_bytes((directory / "tool").read_bytes() + b"\xff Go buildinf:")
    (directory / "go").chmod(0o755)
    return directory


@pytest.fixture
def rig(tmp_path: Path, watcher: Path) -> Rig:
    return Rig(tmp_path / "workspace", watcher, Store(tmp_path / "store"))


def _file(text: str = "x", mode: int = 0o644) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1, 1))
        path.chmod(mode)

    return make


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _directory(*names: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.mkdir()
        for name in names:
            (path / name).touch()

    return make


def _closed(path: Path) -> None:
    path.mkdir()
    path.chmod(0o500)


def _attribute(value: str, name: str = "user.probe") -> Callable[[Path], None]:
    def make(path: Path) -> None:
        _file()(path)
        os.setxattr(path, name, value.encode())

    return make


def _nothing(_: Path) -> None:
    pass


@dataclass(frozen=True)
class Way:
    """A tool's answer about ``probe``, and two things that this may be: each makes it say something else."""

    script: str
    before: Callable[[Path], None]
    after: Callable[[Path], None]
    probe: str = "probe"


_SHM = f"/dev/shm/pypto-probe-{os.getpid()}"
_WAYS = {
    "a file, a directory": Way("test -d probe && echo yes || echo no", _file(), _directory()),
    "a file, a directory by stat": Way("stat -c %F probe", _file(), _directory()),
    "a directory, a link to one": Way("test -L probe && echo yes || echo no", _directory(), _link(".")),
    "nothing, a link to nothing": Way("test -L probe && echo yes || echo no", _nothing, _link("none")),
    "nothing, a file": Way("test -e probe && echo yes || echo no", _nothing, _file()),
    "a file, nothing": Way("test -e probe && echo yes || echo no", _file(), _nothing),
    "no directory, an empty one": Way("cat probe/x 2>&1 || true", _file(), _directory()),
    "nothing, a circle of links": Way("cat probe 2>&1 || true", _nothing, _link("probe")),
    "where a link leads": Way("readlink probe", _link("source"), _link("header")),
    "where a path leads": Way("realpath probe", _link("source"), _link("header")),
    "the size": Way("stat -c %s probe", _file("one"), _file("three")),
    "the permissions": Way("stat -c %a probe", _file(mode=0o644), _file(mode=0o755)),
    "the permissions of a directory": Way("stat -c %a probe", _directory(), _closed),
    "what may be executed": Way("test -x probe && echo yes || echo no", _file(mode=0o644), _file(mode=0o755)),
    "permissions of a file that is read": Way(
        "python3 -S -c 'import os; f = open(\"probe\"); f.read(); print(os.fstat(f.fileno()).st_mode)'",
        _file(mode=0o644),
        _file(mode=0o755),
    ),
    "names": Way("ls probe", _directory("a"), _directory("a", "b")),
    "names, scanned": Way("{tool} scandir probe", _directory("a"), _directory("a", "b")),
    "names where a link leads": Way("ls probe", _link("one"), _link("two")),
    "a file from where a link leads": Way("cd probe; cat file", _link("one"), _link("two")),
    "a file relative to a directory": Way("{tool} below probe file", _link("one"), _link("two")),
    "a program where a link leads": Way("$PWD/probe", _link("one/program"), _link("two/program")),
    "names with a dot": Way("ls -a probe", _directory("a"), _directory("a", ".b")),
    "names of editors' files": Way("ls -a probe", _directory("a"), _directory("a", "a~", "b.swp", "c.pyc")),
    "names by a pattern": Way("echo probe/.b* probe/*~", _directory(), _directory(".b", "a~")),
    "below /dev/shm": Way(f"cat {_SHM}", _file("one"), _file("two"), _SHM),
    "through the root of a process": Way("cat /proc/self/root$PWD/probe", _file("one"), _file("two")),
    "through the directory of a process": Way("cat /proc/self/cwd/probe", _file("one"), _file("two")),
    "by a descriptor": Way("exec 7<probe; cat /dev/fd/7", _file("one"), _file("two")),
    "missed through the root of a process": Way(
        "test -e /proc/self/root$PWD/probe && echo yes || echo no", _nothing, _file()
    ),
    "below a directory of Python's name": Way(
        "cat lib/python3.11/probe", _file("one"), _file("two"), "lib/python3.11/probe"
    ),
    "below a directory of packages": Way("cat site-packages/a/b", _file("one"), _file("two"), "site-packages/a/b"),
    "a name with two lines": Way("cat 'a\nb'", _file("one"), _file("two"), "a\nb"),
    "a name with a separator": Way("cat a\u2028b", _file("one"), _file("two"), "a\u2028b"),
    "by number, opened": Way("{tool} 'syscall openat' probe", _file("one"), _file("two")),
    "by number, opened anew": Way("{tool} 'syscall openat2' probe", _file("one"), _file("two")),
    "an attribute": Way("{tool} attribute probe", _attribute("one"), _attribute("two")),
    "an attribute by number": Way("{tool} 'attribute by number' probe", _attribute("one"), _attribute("two")),
    "an attribute that is missing": Way("{tool} attribute probe", _file(), _attribute("one")),
    "names of attributes": Way("{tool} attributes probe", _file(), _attribute("one")),
    "names of attributes of an open file": Way("{tool} 'attributes, opened' probe", _file(), _attribute("one")),
    "through a link that it makes": Way("ln -s $PWD/probe $TMPDIR/own; cat $TMPDIR/own", _file("one"), _file("two")),
    "a lock that it makes and removes": Way("{tool} exclusive probe", _nothing, _file()),
    "a lock that is a directory": Way("mkdir probe 2>&1 && echo free; rmdir probe", _nothing, _directory()),
    "a lock that it removes": Way("{tool} unlink probe && echo held || echo free", _nothing, _file()),
    "by number, asked": Way("{tool} 'syscall stat' probe", _nothing, _file()),
}


def _action(rig: Rig, script: str) -> Action:
    """An action that is the same in every workspace: its words name files, and a script there says what it does."""
    for name in ("one", "two"):
        _file(name)(rig.root / name / "file")
        _file()(rig.root / name / name)
        _file(f"#!/bin/sh\necho {name}\n", mode=0o755)(rig.root / name / "program")
    program = rig.root / "run"
    program.write_text(f'cd "${{0%/*}}"\n({script}) > "$1"\n')
    os.utime(program, (1, 1))
    return replace(rig.action(), argv=("/bin/sh", str(program), str(rig.out / "built.tmp")), main="")


def _put(rig: Rig, question: Way, state: Callable[[Path], None]) -> None:
    path = Path(os.path.join(rig.root, question.probe))
    if path.is_dir() and not path.is_symlink():
        subprocess.run(["rm", "-r", str(path)], check=True)
    path.unlink(missing_ok=True)
    state(path)


@pytest.mark.parametrize("name", _WAYS)
def test_what_a_tool_learns_is_an_input(rig: Rig, tools: Path, tmp_path: Path, name: str) -> None:
    """Here, and in a second workspace with the same store."""
    question = _WAYS[name]
    action = _action(rig, question.script.replace("{tool}", str(tools / "tool")))
    try:
        _put(rig, question, question.before)
        assert [rig.run(action), rig.run(action)] == ["built", "kept"]
        before = rig.built
        other = Rig(tmp_path / "other" / "workspace", rig.watcher, rig.store)
        _put(other, question, question.after)
        assert other.run(_action(other, question.script.replace("{tool}", str(tools / "tool")))) == "built"
        assert other.built != before
        _put(rig, question, question.after)
        assert rig.run(action) in ("built", "restored")
        assert rig.built == other.built.replace(str(other.root), str(rig.root)) != before
        _put(rig, question, question.before)
        assert rig.run(action) in ("built", "restored") and rig.built == before
    finally:
        Path(_SHM).unlink(missing_ok=True)


_STARTS = ("execl", "execlp", "execle", "execv", "execvp", "fexecve", "syscall execve", "system", "popen")
_UNWATCHED = {
    "appends and reads": "echo x >> log; cat log",
    "a file that is opened to be changed": "exec 9<>header; cat header",
    "reads and replaces": "cat header; echo h2 > new; mv new header",
    "makes what it misses": "test -e stamp && echo old || echo new; echo x > stamp",
    "lists where it makes a file": "ls -a sub; echo x > sub/$(ls -a sub | wc -l)",
    "an empty environment": "env -i cat header",
    "an empty environment in its own place": "cat source; exec env -i cat header",
    "without the library in its own place": "unset LD_PRELOAD; exec cat header",
    "without the library": "env -u LD_PRELOAD cat header",
    "with another library": "LD_PRELOAD= cat header",
    "without a log": "env -u PYPTO_WITNESS cat header",
    "by instructions of its own": "{tools}/raw header",
    "by instructions of its own, optimized": "{tools}/optimized header",
    "by instructions of a program that it makes": "cp {tools}/raw sub/own; sub/own header",
    "goes through directories": "{tool} nftw sub",
    "by a pattern": "{tool} glob sub/*",
    "a shell without the library": "{tool} 'system without' header",
    "the flags of chattr": "{tool} flags header",
    "the flags of chattr by number": "{tool} 'flags by number' header",
    "a file that is opened for another program": "{tool} addopen /bin/cat header",
    "a named semaphore": "{tool} semaphore /pypto-probe",
    "a link to a file of the user's": "ln header own; cat own; rm own",
    "a link to it among temporary files": "ln header $TMPDIR/own; cat $TMPDIR/own",
    "another name of a file of the user's": "mv header own; cat own; mv own header",
    "other permissions": "chmod 600 header; cat header",
    "an attribute that it changes": "{tool} 'set attribute' header; cat header",
    "a lock that stays": "{tool} 'exclusive, kept' sub/lock$$",
    "a named pipe": "cat pipe & echo x > pipe; wait",
    **{
        f"a static program by {start}": f"{{tool}} '{start}' {{still}} header"
        for start in (*_STARTS, "posix_spawn", "posix_spawnp", "vfork")
    },
    "a program of Go": "{tools}/go 'syscall openat' header",
}


@pytest.mark.parametrize("name", _UNWATCHED)
def test_what_cannot_be_seen_is_not_kept(rig: Rig, tools: Path, name: str) -> None:
    if "static" in name and not (tools / "still").exists():
        pytest.skip("no static C library")
    if "instructions" in name and os.uname().machine != "x86_64":
        pytest.skip("instructions are known for x86-64 alone")
    rig.write("sub/a", "")
    os.mkfifo(rig.root / "pipe")
    script = _UNWATCHED[name].replace("{tools}", str(tools)).replace("{tool}", str(tools / "tool"))
    script = script.replace("{still}", str(tools / "still"))
    action = _action(rig, script)
    output_dir = rig.output_dir()
    outcomes = [output_dir.perform(action, rig.spawn, tuple) for _ in range(2)]
    assert [outcome.how for outcome in outcomes] == ["built", "built"]
    assert all(outcome.note.endswith("so it is made again every time") for outcome in outcomes), outcomes
    other = Rig(rig.root.with_name("other"), rig.watcher, rig.store)
    other.write("sub/a", "")
    os.mkfifo(other.root / "pipe")
    assert other.run(_action(other, script)) == "built"


def test_a_program_that_is_watched_by_any_start(rig: Rig, tools: Path) -> None:
    """A program that is started in any way is kept, where it can be watched."""
    starts = (*_STARTS, "posix_spawn", "posix_spawnp", "vfork")
    script = "; ".join(f"{tools}/tool '{start}' /bin/cat header" for start in starts)
    action = _action(rig, script)
    assert [rig.run(action), rig.run(action)] == ["built", "kept"]
    rig.write("header", "h2 ")
    assert rig.run(action) == "built" and "h2" in rig.built


def test_a_device_that_is_refused_changes_nothing(rig: Rig) -> None:
    """As /dev/tty is for a shell without a terminal, and a pipe without a reader."""
    os.mkfifo(rig.root / "pipe")
    opens = "import os\ntry: os.open('pipe', os.O_WRONLY | os.O_NONBLOCK)\nexcept OSError as error: print(error.errno)"
    (rig.root / "open.py").write_text(opens)
    action = _action(rig, f"{sys.executable} -E -S open.py; cat header")
    assert [rig.run(action), rig.run(action)] == ["built", "kept"]


@pytest.mark.parametrize("named", ["t.h", "program"])
def test_a_name_is_no_search(rig: Rig, tmp_path: Path, named: str) -> None:
    """A file that is read by its path from a directory on PATH is that file, whatever other places have on theirs."""
    first, second = tmp_path / "first", tmp_path / "second"
    _file("2")(first / named)
    _file("3", mode=0o755)(second / named)

    def run(searched: str) -> str:
        output_dir = OutputDir(rig.out, rig.store, {"root": rig.root}, rig.watcher, searched)
        outcome = output_dir.perform(action, rig.spawn, tuple)
        output_dir.save()
        return outcome.how

    action = _action(rig, f"test -e {first / named} && cat {first / named} || echo none")
    assert [run(f"{first}:{second}"), run(f"{first}:{second}")] == ["built", "kept"]
    assert rig.built == "2"
    _file("4")(first / named)
    assert run(f"{second}:{first}") == "built" and rig.built == "4"
    (first / named).unlink()
    assert run(f"{first}:{second}") == "built" and rig.built == "none\n"


def test_a_program_that_is_searched_for_is_told_by_the_search(rig: Rig, tmp_path: Path) -> None:
    """Another place has it elsewhere on its PATH, and takes the result; a new one in front of it is another program."""
    outcomes = {}
    for name in ("one", "two"):
        _file("#!/bin/sh\necho said\n", mode=0o755)(tmp_path / name / "program")
        other = Rig(tmp_path / f"workspace-{name}", rig.watcher, rig.store)
        searched = f"{tmp_path}/empty-{name}:{tmp_path / name}:{os.environ['PATH']}"
        action = _action(other, "program")
        action = replace(action, environment={"PATH": searched})
        output_dir = OutputDir(other.out, other.store, {"root": other.root}, other.watcher, searched)
        outcomes[name] = output_dir.perform(action, other.spawn, tuple).how
        output_dir.save()
    assert outcomes == {"one": "built", "two": "restored"}
    _file("#!/bin/sh\necho more\n", mode=0o755)(tmp_path / "empty-two" / "program")
    output_dir = OutputDir(other.out, other.store, {"root": other.root}, other.watcher, searched)
    assert output_dir.perform(action, other.spawn, tuple).how == "built" and other.built == "more\n"
