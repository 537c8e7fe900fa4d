"""SANDBOX=1: what an artifact's code can write and reach; archives get it unasked where there is one."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import textwrap
from pathlib import Path

import pytest

from pypto_build import cli
from pypto_build.rules.machinery import confinement
from pypto_build.toolchain import ToolchainError, sandbox
from pypto_build.toolchain.sandbox import find_sandbox
from tests.rules.project import Project

ROOT = Path(__file__).resolve().parents[2]


def _works() -> bool:
    try:
        find_sandbox()
    except ToolchainError:
        return False
    return True


works = pytest.mark.skipif(not _works(), reason="there is no bubblewrap that works here")

_INCLUDES = (
    "#include <arpa/inet.h>\n#include <cstdio>\n#include <fcntl.h>\n#include <sys/socket.h>\n#include <unistd.h>\n"
)

_ALL = {"wrote results", "wrote artifact", "wrote workspace", "connected"}


def _write_probe(project: Project, port: int) -> None:
    """A kernel that tries to write in several places and to connect, and prints what it could do."""
    results = project.out / "replays" / "default"
    places = {"results": results, "OUT": project.out, "kernels": project.out / "kernels"}
    places |= {"artifact": project.artifact, "workspace": project.root}
    tries = "".join(
        f'(close(open("{path}/probe", O_CREAT | O_WRONLY, 0600)) == 0 ? puts("wrote {name}") : 0), '
        for name, path in places.items()
    )
    project.write_kernel(
        "plus_one",
        f"([] {{ {tries}0; sockaddr_in to{{AF_INET, htons({port}), {{htonl(INADDR_LOOPBACK)}}, {{}}}}; "
        "if (connect(socket(AF_INET, SOCK_STREAM, 0), reinterpret_cast<sockaddr *>(&to), sizeof(to)) == 0) "
        'puts("connected"); return 1.0f; }(), in[i] + 1.0f)',
    )
    source = project.artifact / "kernels" / "aiv" / "plus_one.cpp"
    source.write_text(_INCLUDES + source.read_text())


def _told(output: str) -> set[str]:
    printed = {line.removeprefix("| ") for line in output.splitlines() if line.startswith("| ")}
    return {line for line in printed if line.startswith(("wrote ", "connected"))}


@works
def test_only_its_results_are_writable_and_nothing_is_reachable(tmp_path: Path) -> None:
    project = Project(tmp_path / "here")
    with socket.create_server(("127.0.0.1", 0)) as server:
        _write_probe(project, server.getsockname()[1])
        run = project.scons("replay", "JIT=_jit_chain", "SANDBOX=1")
        assert (run.status, _told(run.output)) == (0, {"wrote results"}), run.output
        run = project.scons("replay", "JIT=_jit_chain", "FORCE=1")
    assert _told(run.output) == _ALL


@works
def test_a_pass_in_one_is_kept(tmp_path: Path) -> None:
    """The system as bubblewrap shows it differs from what is there; that is not an input."""
    project = Project(tmp_path)
    runs = [project.scons("replay", "JIT=_jit_chain", "SANDBOX=1") for _ in range(2)]
    assert [run.status for run in runs] == [0, 0], runs
    assert "run _jit_chain SANDBOX=1" in runs[0].actions or "run _jit_chain" in runs[0].actions, runs[0].output
    assert (runs[1].actions, project.verdict()["cached"]) == ([], True), runs[1].output
    assert "made anew" not in runs[0].output
    shutil.rmtree(project.root / "build")
    repeated = project.scons("replay", "JIT=_jit_chain", "SANDBOX=1")
    assert (repeated.status, [action for action in repeated.actions if not action.startswith("restored")]) == (0, [])
    project.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", "3.0f * in[i]")
    assert project.scons("replay", "JIT=_jit_chain", "SANDBOX=1").status == 2


_REACHES = """
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
static void tell(bool reached, const char *what) { if (reached) printf("reaches %s\\n", what); }
static bool connects(const char *path) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    strncpy(to.sun_path, path, sizeof(to.sun_path) - 1);
    return connect(socket(AF_UNIX, SOCK_STREAM, 0), reinterpret_cast<sockaddr *>(&to), sizeof(to)) == 0;
}
static bool opens_memory() {
    DIR *list = opendir("/proc");
    while (const dirent *entry = readdir(list)) {
        const int process = atoi(entry->d_name);
        const std::string memory = "/proc/" + std::to_string(process) + "/mem";
        if (process > 0 && process != getpid() && open(memory.c_str(), O_RDWR) >= 0)
            return true;
    }
    return false;
}
static float reach() {
    int pair[2];
    char parameters[256]{};
    tell(connects("SOCKET"), "a service");
    tell(mkdir("RUNTIME/token", 0700) != 0 && errno == EEXIST, "runtime files");
    tell(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0, "services by a pair");
    for (int family = 0; family < 46; ++family)
        if (family != AF_INET && family != AF_INET6)
            tell(socket(family, SOCK_DGRAM, 0) >= 0 || socket(family, SOCK_RAW, 0) >= 0, "another family");
    tell(syscall(425, 1, parameters) >= 0, "io_uring");
    tell(syscall(SYS_keyctl, 0, -5, 1) >= 0, "keys");
    tell(opens_memory(), "another process");
    tell(rename("OUT/kernels", "OUT/moved") == 0 && symlink("/tmp", "OUT/kernels") == 0, "built files");
    tell(unlink("OUT/.results") == 0, "records");
    tell(open("/proc/sys/kernel/core_pattern", O_WRONLY) >= 0, "settings of the system");
    tell(open("/proc/sysrq-trigger", O_WRONLY) >= 0, "keys of the system");
    tell(symlink("ELSEWHERE", "OUT/replays/default/actual") != 0, "no results of its own");
    tell(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "a pair");
    return 1.0f;
}
"""


@works
@pytest.mark.parametrize("words, more", [((), {"reaches runtime files"}), (("SANDBOX=1",), set())])
def test_local_services_are_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], more: set[str]
) -> None:
    """Only pairs of its own connected sockets are left to a kernel, and without a sandbox the user's files."""
    project = Project(tmp_path / "here")
    runtime = project.root / "runtime"
    runtime.mkdir(mode=0o700)
    (runtime / "token").write_text("secret")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("PYPTO_BUILD_SERVER", "0")
    project.write_kernel("plus_one", "([] { static float once = reach(); return once; }(), in[i] + 1.0f)")
    source = project.artifact / "kernels" / "aiv" / "plus_one.cpp"
    places = {"SOCKET": project.root / "s", "RUNTIME": runtime, "OUT": project.out, "ELSEWHERE": elsewhere}
    probe = _REACHES
    for name, path in places.items():
        probe = probe.replace(name, str(path))
    source.write_text(_INCLUDES + probe + source.read_text())
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(project.root / "s"))
        server.listen()
        run = project.scons("replay", "JIT=_jit_chain", *words)
    reached = {line.removeprefix("| ") for line in run.output.splitlines() if line.startswith("| reaches ")}
    assert (run.status, reached) == (0, {"reaches a pair", *more}), run.output
    assert list(elsewhere.iterdir()) == [] and (project.out / "actual" / "y.pt").is_file()


@works
def test_compilers_write_nowhere_else(tmp_path: Path) -> None:
    project = Project(tmp_path / "here")
    leak = project.root / "leak"
    run = project.scons("build", "JIT=_jit_chain", "SANDBOX=1", f"KERNEL_FLAGS=-MD -MF {leak}")
    assert run.status != 0 and not leak.exists(), run.output
    assert project.verdict()["status"] == "build_error"
    assert project.scons("build", "JIT=_jit_chain", "SANDBOX=1").status == 0


@works
@pytest.mark.parametrize(
    "words, message",
    [
        (
            ("LAUNCHER=ccache",),
            (
                "LAUNCHER=ccache: cannot be used with SANDBOX=1, which lets a compiler launcher write "
                "nowhere; leave out one of the two"
            ),
        ),
        (
            ("PLATFORM=a2a3", "HARDWARE=1"),
            (
                "PLATFORM=a2a3: cannot be used with SANDBOX=1, which allows no access to a device; "
                "leave out one of the two"
            ),
        ),
    ],
)
def test_options_that_exclude_it(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    run = Project(tmp_path).scons("replay", "JIT=_jit_chain", "SANDBOX=1", *words)
    assert (run.status, run.output) == (2, f"scons: *** {message}\n")


@works
def test_an_archive_is_replayed_in_one(tmp_path: Path) -> None:
    project = Project(tmp_path / "here")
    with socket.create_server(("127.0.0.1", 0)) as server:
        _write_probe(project, server.getsockname()[1])
        run = project.scons("pack", "JIT=_jit_chain", "SANDBOX=1")
        archive = project.out / "_jit_chain.tar.zst"
        assert run.status == 0, run.output
        there = Project(tmp_path / "there")
        run = there.cli("replay", str(archive))
        assert (run.status, _told(run.output)) == (0, set()), run.output
        run = there.cli("replay", str(archive), "SANDBOX=0", "FORCE=1")
        # The outputs of the other workspace are none of this run's.
        assert (run.status, _told(run.output)) == (0, {*_ALL, "wrote OUT", "wrote kernels"})


_TRIED = """
    try:
        open({!r}, "w").close()
        print("wrote workspace")
    except OSError as error:
        print("kept from it:", error.strerror)
"""


@works
def test_programs_for_several_chips_run_in_one(tmp_path: Path) -> None:
    project = Project(tmp_path / "here")
    root = project.root / "build_output" / "_jit_dist_allreduce"
    shutil.copytree(ROOT / "examples" / "distributed" / "_jit_dist_allreduce", root)
    driver, probe = root / "orchestration" / "host_orch.py", project.root / "probe"
    text = driver.read_text()
    assert text.count('    scale = tensors["scale"]\n') == 1
    driver.write_text(
        text.replace('    scale = tensors["scale"]\n', _TRIED.format(str(probe)) + '    scale = tensors["scale"]\n')
    )
    assert project.scons("replay", "JIT=_jit_dist_allreduce", "SANDBOX=1").status == 0 and not probe.exists()
    assert project.scons("hazards", "JIT=_jit_dist_allreduce", "SANDBOX=1").status == 0 and not probe.exists()
    assert project.scons("replay", "JIT=_jit_dist_allreduce", "FORCE=1").status == 0 and probe.exists()


@works
def test_classes_that_judge_themselves_run_in_one(tmp_path: Path) -> None:
    project = Project(tmp_path / "here")
    shutil.copytree(ROOT / "tests" / "interop" / "scenes", project.root / "scenes")
    file, probe = project.root / "scenes" / "scene_chain.py", project.root / "probe"
    judge = "    def compare_outputs(self, test_args, golden_args, output_names, params):\n"
    text = file.read_text()
    assert text.count(judge) == 1
    tried = textwrap.indent(_TRIED.format(str(probe)), "    ")
    file.write_text(text.replace(judge, judge + tried))
    run = project.scons("replay", "SCENE=scenes/scene_chain.py::TestJudged", "SANDBOX=1")
    assert run.status == 0 and "kept from it: Read-only file system" in run.output, run.output
    assert not probe.exists()
    assert project.scons("replay", "SCENE=scenes/scene_chain.py::TestJudged", "FORCE=1").status == 0 and probe.exists()


def test_tools_that_run_outside_exist() -> None:
    """A name that is none would be of one that runs in a sandbox, unnoticed."""
    assert all(importlib.util.find_spec(name) for name in confinement._FREE)


def test_one_line_says_what_an_archive_is_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "_PROGRAM", "no-such-program")
    options = cli.parse(["replay", "x.tar.zst"])
    cli._choose_sandbox(options)
    assert not options.SANDBOX
    assert capsys.readouterr().out == (
        "[pack] bubblewrap is not installed: what is in the archive runs with your rights\n"
    )
    cli._choose_sandbox(cli.parse(["replay", "x.tar.zst", "SANDBOX=0"]))
    cli._choose_sandbox(cli.parse(["lint", "x.tar.zst"]))
    assert capsys.readouterr().out == ""


def test_one_that_does_not_work_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sandbox, "_PROGRAM", str(program))
    with pytest.raises(
        ToolchainError, match=r"bwrap does not work here \(bwrap: No permissions to create new namespace\)"
    ):
        find_sandbox()
