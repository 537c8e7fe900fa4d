# ruff: noqa: E501  (C++ in a table)
"""One artifact with hostile kernels; a scalar selects the kernel. Each run ends in time, with the right verdict, and
leaves no processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from ctypes import sizeof
from dataclasses import dataclass
from pathlib import Path

from pypto_build.facts.faults import FaultKind
from pypto_build.facts.layouts import FLIGHT_BYTES, REPORT_BYTES, CrashRecord, Report, ReportFrame
from pypto_build.replay.verdict import Verdict, read_verdict
from tests.replay.builder import PLATFORM, build_artifact, embedded_module
from tests.replay.tiny import CALL, Tiny

#: The environment variable by which processes of a run are recognized.
TAG = "PTO2_HOSTILE_TAG"

_HEAD = """#include <algorithm>
#include <atomic>
#include <cctype>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <exception>
#include <fcntl.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tensor.h"

static const char *tag() { return getenv("PTO2_HOSTILE_TAG"); }
static float *data_of(int64_t slot) {
    ChipTensor *tensor = reinterpret_cast<ChipTensor *>(slot);
    return reinterpret_cast<float *>(tensor->buffer.addr) + tensor->start_offset;
}
static void fill(const float *x, float *y) { for (int i = 0; i < 32; ++i) y[i] = x[i] + 1; }
static void spin() { for (volatile int i = 0;; i = i + 1) {} }
// What follows would hit whatever this user runs, were this process not alone in its namespace.
static void only_if_alone() { if (getppid() != 0) _exit(99); }
static void say(int file, const std::string &text) { if (write(file, text.data(), text.size()) < 0) {} }
static void say_all(const std::string &text) { for (int file = 3; file < 64; ++file) say(file, text); }
static void ignore_all() { for (int number = 1; number < 65; ++number) signal(number, SIG_IGN); }
// A process that has nothing to do with this one any more, and does not end by itself.
static void daemon_of(bool deaf) {
    if (fork() != 0)
        return;
    setsid();
    if (fork() != 0)
        _exit(0);
    if (deaf)
        ignore_all();
    for (int file = 0; file < 64; ++file)
        close(file);
    for (;;)
        pause();
}
static std::vector<std::pair<char *, size_t>> shared_mappings() {
    std::vector<std::pair<char *, size_t>> found;
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    while (file && fgets(line, sizeof(line), file)) {
        unsigned long start, stop;
        char access[8];
        if (sscanf(line, "%lx-%lx %7s", &start, &stop, access) == 3 && !strcmp(access, "rw-s"))
            found.push_back({reinterpret_cast<char *>(start), stop - start});
    }
    if (file)
        fclose(file);
    return found;
}
static char *report() {
    for (auto &[start, size] : shared_mappings())
        if (size == kReport)
            return start;
    abort();
}
static char *flight() {
    for (auto &[start, size] : shared_mappings())
        if (size == kFlight)
            return start;
    abort();
}
static std::string out() {
    Dl_info info{};
    dladdr(reinterpret_cast<void *>(&out), &info);
    const std::string path = info.dli_fname;
    return path.substr(0, path.size() - strlen("/kernels/aiv/step.so"));
}
static void put(const std::string &path, const std::string &text) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    say(file, text);
    close(file);
}
static void forge_verdict() {
    put(out() + "/verdict.json", "{\\"schema\\": 1, \\"status\\": \\"pass\\", \\"artifact\\": \\"x\\", \\"platform\\": \\"a2a3sim\\", \\"runtime\\": \\"embedded\\"}");
}
// Processes of this run that are not in this namespace, by the numbers they have outside.
static std::vector<int> outside() {
    std::vector<int> found;
    DIR *list = opendir("/proc");
    while (const dirent *entry = list ? readdir(list) : nullptr) {
        if (!isdigit(entry->d_name[0])) // self, and thread-self, which is whoever asks
            continue;
        FILE *file = fopen((std::string("/proc/") + entry->d_name + "/stat").c_str(), "r");
        int pid = 0;
        if (file && fscanf(file, "%d", &pid) == 1 && pid != getpid())
            found.push_back(pid);
        if (file)
            fclose(file);
    }
    return found;
}
// Whether the memory of one of them can be opened for writing.
static bool memory_opens() {
    char self[64] = {};
    if (readlink("/proc/self", self, 63) < 0)
        abort();
    for (const int pid : outside()) {
        const std::string place = "/proc/" + std::to_string(pid);
        FILE *words = fopen((place + "/cmdline").c_str(), "r");
        const bool runs_code = words && fgetc(words) != EOF; // no thread of the kernel's
        if (words)
            fclose(words);
        if (runs_code && pid != atoi(self) && open((place + "/mem").c_str(), O_RDWR) >= 0)
            return true;
    }
    return false;
}
[[maybe_unused]] static int deep(volatile int *x) {
    volatile int local[4096];
    local[0] = *x;
    return deep(local) + local[0];
}
""".replace("kReport", str(REPORT_BYTES)).replace("kFlight", str(-(-FLIGHT_BYTES // 4096) * 4096))


@dataclass(frozen=True)
class Case:
    """One kernel: its code, the verdict's status, a part of the message."""

    name: str
    code: str
    status: str
    message: str = ""
    timeout: str = "1"


_DONE = "fill(x, y);"
_EXITED = "ended the process with exit status"
_LATE = "had not finished at the time limit of"
_NO_REPLY = "the run left no result: something else was written where it comes through"
_CRASH = Report.crash.offset
_FRAME = _CRASH + CrashRecord.frames.offset
_TOLD = f'{{"kind":{FaultKind.KERNEL_REPORTED:d},"fields":{{"text":"{{x}}"}}}}'


def _hang(name: str, code: str) -> Case:
    return Case(name, f"{code} spin();", "hang", f"{_LATE} 0.5 s", timeout="0.5")


def _passes(name: str, code: str, **more: str) -> Case:
    return Case(name, f"{code} {_DONE}", "pass", **more)


def _fails(name: str, code: str, message: str, **more: str) -> Case:
    return Case(name, code, "runtime_error", message, **more)


def _forges(name: str, text: str) -> Case:
    return _fails(name, f"say_all({text}); spin();", _NO_REPLY)


CASES: tuple[Case, ...] = (
    # Ends of the process
    _fails("exit", "exit(0);", f"{_EXITED} 0"),
    _fails("_exit after printing PASS", 'puts("[RUN] PASS (0.00s)"); fflush(stdout); _exit(0);', f"{_EXITED} 0"),
    _fails("_exit with the right result", f"{_DONE} _exit(0);", f"{_EXITED} 0"),
    _fails("quick_exit", "quick_exit(3);", f"{_EXITED} 3"),
    _fails("exit of another thread", "std::thread([] { _exit(0); }).join(); spin();", f"{_EXITED} 0"),
    _fails("the status that says nothing was heard", "_exit(71);", "left no result"),
    _fails("terminate", "std::terminate();", "SIGABRT"),
    _fails("abort after printing PASS", 'puts("[RUN] PASS"); abort();', "SIGABRT"),
    _fails("another program", 'execl("/bin/true", "true", nullptr);', f"{_EXITED} 0"),
    Case("another program that stays", 'execl("/bin/sleep", "sleep", "100", nullptr);', "hang", f"{_LATE} 1 s"),
    # Signals
    _fails("SIGKILL", "raise(SIGKILL);", "SIGKILL"),
    _fails("SIGALRM", "raise(SIGALRM);", "SIGALRM"),
    _fails("signal to its parent", "only_if_alone(); kill(getppid(), SIGKILL); spin();", "SIGKILL"),
    _passes("signal to everybody", "only_if_alone(); kill(-1, SIGKILL);"),
    _passes("signal to the first process", "only_if_alone(); kill(1, SIGKILL); kill(1, SIGSTOP);"),
    _passes("signals to all processes outside", "only_if_alone(); for (int pid : outside()) if (pid > 100) kill(pid, SIGKILL);"),
    _hang("stopped", "raise(SIGSTOP);"),
    _hang("SIGTERM ignored", "signal(SIGTERM, SIG_IGN);"),
    _hang("all signals ignored", "ignore_all();"),
    _hang("all signals blocked", "sigset_t all; sigfillset(&all); pthread_sigmask(SIG_SETMASK, &all, nullptr);"),
    _hang("handler that does not return", "signal(SIGSEGV, [](int) { spin(); }); *reinterpret_cast<volatile int *>(16) = 0;"),
    _fails("fault that is ignored", "signal(SIGSEGV, SIG_IGN); *reinterpret_cast<volatile int *>(16) = 0;", "SIGSEGV"),
    _hang("timers without end", "signal(SIGALRM, [](int) {}); itimerval often{{0, 100}, {0, 100}}; setitimer(ITIMER_REAL, &often, nullptr);"),
    # Processes
    _passes("fork that stays", "if (fork() == 0) spin();"),
    _passes("double fork", "daemon_of(false);"),
    _passes("double fork, deaf", "daemon_of(true);"),
    _hang("double fork, deaf, and late", "daemon_of(true); ignore_all();"),
    _passes("copy that comes back too", "fork();"),
    _fails("copy that goes on alone", "if (fork() != 0) _exit(0);", f"{_EXITED} 0"),
    _passes("a hundred forks", "for (int i = 0; i < 100; ++i) if (fork() == 0) for (;;) pause();"),
    _hang("a tree of forks", "for (int i = 0; i < 7; ++i) fork(); ignore_all();"),
    _passes("process that changes its number", "if (fork() == 0) for (;;) { usleep(100); if (fork() != 0) _exit(0); setsid(); }"),
    _passes("namespaces of its own", "if (fork() == 0) { unshare(CLONE_NEWUSER | CLONE_NEWPID); fork(); daemon_of(true); _exit(0); }"),
    _hang("its own process group", "setpgid(0, 0); setsid(); ignore_all();"),
    _hang("no death with its parent", "prctl(PR_SET_PDEATHSIG, 0); prctl(PR_SET_CHILD_SUBREAPER, 1); daemon_of(true); ignore_all();"),
    _passes("shell in the background", 'if (system("trap \'\' TERM HUP; setsid sleep 1000 >/dev/null 2>&1 &") != 0) abort();'),
    _passes("cleared environment", 'if (fork() == 0) { execle("/bin/sleep", "sleep", tag(), "1000", nullptr, static_cast<char **>(nullptr)); _exit(1); }'),
    _passes("memory of processes outside", "only_if_alone(); if (memory_opens()) _exit(9);"),
    _passes("memory of processes outside, by a thread", "only_if_alone(); std::thread([] { if (memory_opens()) _exit(9); }).join();"),
    _passes("tracing processes outside", "only_if_alone(); for (int pid : outside()) if (pid > 100 && ptrace(PTRACE_ATTACH, pid, 0, 0) == 0) _exit(9);"),
    # Descriptors
    _fails("all closed", f"{_DONE} for (int file = 0; file < 1024; ++file) close(file);", "what it comes through is closed"),
    _hang("all closed, and late", "for (int file = 0; file < 1024; ++file) close(file);"),
    _fails("all replaced", f'{_DONE} const int none = open("/dev/null", O_RDWR); for (int file = 0; file < 64; ++file) dup2(none, file);', f"{_EXITED} 0"),
    _passes("all without blocking", "for (int file = 0; file < 64; ++file) fcntl(file, F_SETFL, O_NONBLOCK);"),
    _fails("lines of garbage", f'{_DONE} say_all("garbage\\n");', _NO_REPLY),
    _fails("garbage before the reply", f'{_DONE} say_all("garbage");', _NO_REPLY),
    _fails("a line without end", "const std::string much(1 << 20, 'x'); for (int i = 0; i < 40; ++i) say(4, much); spin();", _NO_REPLY, timeout="20"),
    _hang("half a reply", 'say_all("{\\"tasks\\": 1");'),
    _forges("bytes that are no text", r'std::string("{\"fault\": \"\xff\xfe\"}\n")'),
    _forges("brackets without end", "std::string(100000, '[') + \"\\n\""),
    _forges("fewer tasks than none", r'"{\"tasks\": -1}\n"'),
    _forges("time without end", r'"{\"tasks\": 1, \"run_s\": 1e999}\n"'),
    _forges("tensor that is not there", r'"{\"tasks\": 1, \"run_s\": 0.1, \"unwritten\": [{\"tensor\": 99, \"count\": 1, \"first\": [0]}]}\n"'),
    _forges("element that is not there", r'"{\"tasks\": 1, \"run_s\": 0.1, \"unwritten\": [{\"tensor\": 1, \"count\": 1, \"first\": [-5]}]}\n"'),
    _forges("loaded without a fault", r'"{\"loaded\": true}\n"'),
    _forges("fault of a kind that is none", r'"{\"fault\": {\"kind\": 999}}\n"'),
    _forges("fault with a number that is none", r'"{\"fault\": {\"kind\": 1, \"fields\": {\"name\": " + std::string(6000, 57) + "}}}\n"'),
    _fails("fault without its fields", r'say_all("{\"fault\": {\"kind\": ' f"{FaultKind.HEAP_FULL:d}" r'}}\n"); spin();', "the heap of ring ? is full: ? bytes are asked for"),
    _fails("fault with a text of its own", r'say_all("{\"fault\": {\"kind\": ' f"{FaultKind.KERNEL_REPORTED:d}" r', \"fields\": {\"text\": \"{0} \\u001b[31m %s\"}}}\n"); spin();', "{0}"),
    _fails("the status that says a fault was told", "_exit(72);", f"{_EXITED} 72"),
    Case("reply of its own, wrong result", r'say_all("{\"tasks\": 1, \"run_s\": 0.1}\n"); spin();', "mismatch"),
    # What parent and child share
    _fails("shared memory unmapped", "for (auto &[start, size] : shared_mappings()) munmap(start, size); *y = 1;", ""),
    _hang("report full of ones", f"memset(report(), 255, {REPORT_BYTES});"),
    _hang("report of zeros", f"memset(report(), 0, {REPORT_BYTES});"),
    _fails("report of chance, and a crash", f"srand(1); char *at = report(); for (int i = 0; i < {REPORT_BYTES}; ++i) at[i] = static_cast<char>(rand()); raise(SIGKILL);", "SIGKILL"),
    _hang("recorder full of ones", f"memset(flight(), 255, {FLIGHT_BYTES});"),
    _fails("recorder of chance, and a crash", f"srand(1); char *at = flight(); for (int i = 12; i < {FLIGHT_BYTES}; ++i) at[i] = static_cast<char>(rand()); raise(SIGKILL);", "SIGKILL"),
    _hang("more time for PyTorch", f'strcpy(report() + {REPORT_BYTES} - 512, "PyTorch");'),
    _fails("fault that nobody found", f'char *at = report() + {Report.fault.offset}; strcpy(at + 8, R"({_TOLD})"); *at = 2; at[4] = {len(_TOLD)}; spin();', "{x}"),
    _fails("stack in a file of its own", f"""char *at = report() + {_CRASH};
        const std::string place = out() + "/planted";
        mkdir(place.c_str(), 0777);
        put(place + "/x.o", ""); put(place + "/x.so", "");
        put(place + "/compile_commands.json", "[{{\\"directory\\": \\"" + place + "\\", \\"output\\": \\"x.o\\", \\"arguments\\": [\\"sh\\", \\"-c\\", \\"touch executed\\", \\"-o\\", \\"x\\"]}}]");
        const uint32_t crashed[] = {{2, SIGSEGV}}; memcpy(at, crashed, sizeof(crashed));
        const uint32_t count = 3; memcpy(at + {CrashRecord.frame_count.offset}, &count, 4);
        for (int i = 0; i < 3; ++i) strcpy(report() + {_FRAME} + i * {sizeof(ReportFrame)} + 16, (i ? place + "/x.so" : place + "/y.so").c_str());
        raise(SIGKILL);""", "SIGKILL"),
    _fails("an input changed", f"x[3] = 7; {_DONE}", "input 'x' was changed"),
    _fails("outside of a tensor", f"{_DONE} y[33] = 1;", "kernel 'step' wrote outside tensor 'y'"),
    _fails("pages given back", f"{_DONE} madvise(y, 4096, MADV_REMOVE);", "kernel 'step' wrote outside tensor 'y'"),
    Case("thread that goes on writing", f"{_DONE} std::thread([y] {{ for (;;) *static_cast<volatile float *>(y) = -1; }}).detach(); while (*static_cast<volatile float *>(y) != -1) {{}}", "mismatch"),
    # Threads, memory, output
    _passes("thread that goes on printing", 'std::thread([] { for (;;) { puts("still here"); usleep(1000); } }).detach();'),
    _passes("thread that holds what is printed", 'std::thread([] { flockfile(stdout); for (;;) pause(); }).detach(); usleep(10000);'),
    _passes("many threads", "for (int i = 0; i < 20; ++i) std::thread([] { for (;;) pause(); }).detach();"),
    _passes("shared memory left", 'close(shm_open((std::string("/hostile-") + tag()).c_str(), O_CREAT | O_RDWR, 0600));'),
    _passes("segment left", "shmget(IPC_PRIVATE, 123457, IPC_CREAT | 0600);"),
    _passes("segment of another process left", "if (fork() == 0) { shmget(IPC_PRIVATE, 123457, IPC_CREAT | 0600); _exit(0); } wait(nullptr);"),
    _fails("memory without end", "for (;;) memset(malloc(1 << 20), 1, 1 << 20);", "reached the memory limit", timeout="20"),
    _fails("recursion without end", "volatile int zero = 0; deep(&zero);", "the stack is used up"),
    _passes("a gigabyte of output", "const std::string much(1 << 20, 'x'); for (int i = 0; i < 1024; ++i) fwrite(much.data(), 1, much.size(), stdout);", timeout="30"),
    Case("output without end", "const std::string much(1 << 20, 'x'); for (;;) say(1, much);", "hang", f"{_LATE} 1 s"),
    Case("errors without end", "const std::string much(1 << 20, 'x'); for (;;) say(2, much);", "hang", f"{_LATE} 1 s"),
    Case("prints PASS, and is wrong", r'puts("[RUN] PASS (0.02s)\033[2K"); fflush(stdout);', "mismatch"),
    _passes("prints what is no text", r'puts("\xff\xfe\x80"); fflush(stdout);'),
    _hang("limits raised", "rlimit none{RLIM_INFINITY, RLIM_INFINITY}; setrlimit(RLIMIT_CPU, &none); setrlimit(RLIMIT_DATA, &none);"),
    # Files
    Case("verdict.json forged, and wrong", "forge_verdict();", "mismatch"),
    _fails("verdict.json forged, and gone", "forge_verdict(); raise(SIGKILL);", "SIGKILL"),
    _hang("verdict.json forged, and late", "forge_verdict(); ignore_all();"),
    Case("verdict.json a directory", 'mkdir((out() + "/verdict.json").c_str(), 0777); put(out() + "/verdict.json/x", "");', "mismatch"),
    Case("verdict.json a link", 'symlink((out() + "/interface.json").c_str(), (out() + "/verdict.json").c_str());', "mismatch"),
)  # fmt: skip

#: Words in front of a replay that take from it what namespaces need: as root, the right to make them without a user
#: namespace; and namespaces of processes altogether.
WITHOUT = {
    "privileges": ("setpriv", "--bounding-set", "-all", "--inh-caps=-all", "--"),
    "namespaces": ("unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_pid_namespaces; exec "$@"', "sh"),
}
#: Cases that are also run with these restrictions.
TELLING = (
    "signal to everybody", "all signals ignored", "double fork, deaf", "double fork, deaf, and late", "a tree of forks",
    "copy that goes on alone", "cleared environment", "memory of processes outside", "all closed, and late",
    "shared memory left", "segment left", "segment of another process left",
)  # fmt: skip


def write_artifact(root: Path) -> Tiny:
    """Build the artifact; `mode` n+1 is case n."""
    tiny = Tiny(root, "", CALL.replace("rt_submit", "params_t0.add_scalar(mode);\n        rt_submit"))
    functions = "".join(
        f"static void case_{n}([[maybe_unused]] float *x, [[maybe_unused]] float *y) {{\n    {case.code}\n}}\n"
        for n, case in enumerate(CASES, 1)
    )
    rows = "".join(f"    case {n}:\n        return case_{n}(x, y);\n" for n in range(1, len(CASES) + 1))
    entry = 'extern "C" __attribute__((visibility("default"))) void kernel_entry(int64_t *args) {\n'
    entry += "    float *x = data_of(args[0]), *y = data_of(args[1]);\n"
    kernel = tiny.artifact / "kernels" / "aiv" / "step.cpp"
    kernel.write_text(f"{_HEAD}\n{functions}\n{entry}    switch (args[2]) {{\n{rows}    }}\n}}\n")
    orchestration = tiny.artifact / "orchestration" / "tiny.cpp"
    text = orchestration.read_text().replace(".expected_arg_count = 2", ".expected_arg_count = 3")
    mode = "    int64_t mode = from_u64<int64_t>(orch_args.scalar(0));\n    (void)ext_x;\n"
    orchestration.write_text(text.replace("    (void)ext_x;\n", mode))
    (tiny.artifact / "compiled_meta.json").unlink()
    build_artifact(tiny.artifact, tiny.out)
    return tiny


@dataclass(frozen=True)
class Outcome:
    """The result of a run: exit status, seconds, the end of its output, the verdict, and processes that still run."""

    status: int
    seconds: float
    printed: str
    verdict: Verdict
    survivors: list[str]


def provoke(tiny: Tiny, number: int, prefix: tuple[str, ...] = ()) -> tuple[Outcome, str]:
    """Replay a case; return the outcome, and the tag of its processes. `prefix` are words before the command."""
    case, tag = CASES[number], uuid.uuid4().hex
    words = [*prefix, sys.executable, "-m", "pypto_build.replay", str(tiny.artifact), "--platform", PLATFORM.name]
    words += ["--build-dir", str(tiny.out), "--embedded", str(embedded_module()), "--timeout", case.timeout]
    words += ["--memory", "400", "--scalar", f"mode={number + 1}"]
    printed = tiny.out.parent / "printed"
    start = time.monotonic()
    with printed.open("wb") as file:
        run = subprocess.run(words, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, TAG: tag}, check=False)
    seconds = time.monotonic() - start
    with printed.open("rb") as file:
        file.seek(max(printed.stat().st_size - 10000, 0))
        text = file.read().decode(errors="replace")
    return Outcome(run.returncode, seconds, text, read_verdict(tiny.out / "verdict.json"), survivors(tag)), tag


def survivors(tag: str) -> list[str]:
    """Return the processes that have a tag in their environment or on their command line."""
    alive = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("environ", "cmdline"):
            try:
                if tag.encode() in (process / name).read_bytes() and int(process.name) != os.getpid():
                    alive.append(f"{process.name} {(process / 'comm').read_text().strip()}")
            except OSError:  # noqa: PERF203  (gone)
                continue
    return alive
