// The guard and what the child is deprived of.
#include "crash/containment.h"

#include "execution/shared_object.h"

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#ifndef SYS_close_range // glibc 2.31 knows no name for it; the number is that of every processor
#define SYS_close_range 436
#endif

namespace pypto::runtime {

namespace {

constexpr int kNamespaces = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNS;
constexpr const char *kSharedMemory = "/dev/shm";
constexpr int kControl = 3, kNews = 4; // the guard's, once it has closed the rest
constexpr int kPatienceMs = 3000;      // for ending what escaped

// Files stay as accessible as they are to root outside: a workspace may be another user's.
constexpr uint32_t kKeptCapabilities = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER;

bool write_text(const char *path, const std::string &text) {
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool done = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(file);
    return done;
}

// Root has no need of a user namespace, in which it could not use the files of others.
bool enter_namespaces() {
    if (unshare(kNamespaces) == 0)
        return true;
    const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
    if (unshare(kNamespaces | CLONE_NEWUSER) != 0)
        return false;
    // Without these, the user has no name inside; that is no reason to run less contained.
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", user + " " + user + " 1");
    write_text("/proc/self/gid_map", group + " " + group + " 1");
    return true;
}

bool hide_shared_memory() {
    return mount("tmpfs", kSharedMemory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0;
}

// The flags of the mount that a file lies in, which a user namespace may not take away.
unsigned long mount_flags(const std::string &path) {
    constexpr std::pair<unsigned long, unsigned long> kFlags[] = {
        {ST_NOSUID, MS_NOSUID},   {ST_NODEV, MS_NODEV},           {ST_NOEXEC, MS_NOEXEC},
        {ST_NOATIME, MS_NOATIME}, {ST_NODIRATIME, MS_NODIRATIME}, {ST_RELATIME, MS_RELATIME},
    };
    struct statvfs status{};
    if (statvfs(path.c_str(), &status) != 0)
        return 0;
    unsigned long flags = 0;
    for (const auto &[told, flag] : kFlags)
        flags |= (status.f_flag & told) != 0 ? flag : 0;
    return flags;
}

bool bind_to_itself(const std::string &path) {
    return mount(path.c_str(), path.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

// Lets a directory of outputs be read only, but for some in it: later runs believe what lies there.
void protect(const std::string &output, const std::vector<std::string> &writable) {
    if (!bind_to_itself(output))
        return;
    for (const std::string &path : writable)
        bind_to_itself(path);
    mount(nullptr, output.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | mount_flags(output), nullptr);
    char *const directory = getcwd(nullptr, 0);
    if (directory != nullptr && chdir(directory) != 0) // it may be in there, where nothing is mounted yet
        _exit(71);
    std::free(directory);
}

// Numbers in the name of a directory's entries.
std::vector<int> numbers_in(const std::string &directory) {
    std::vector<int> found;
    DIR *list = opendir(directory.c_str());
    if (list == nullptr)
        return found;
    while (const dirent *entry = readdir(list))
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && std::atoi(entry->d_name) != dirfd(list))
            found.push_back(std::atoi(entry->d_name));
    closedir(list);
    return found;
}

// Closes all descriptors from `first` on.
void close_from(int first) {
    if (syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0)
        return;
    for (const int file : numbers_in("/proc/self/fd"))
        if (file >= first)
            close(file);
}

// Lets `one` and `other` be descriptors 3 and 4, and closes all others but the three standard ones.
void keep_two(int one, int other) {
    const int first = fcntl(one, F_DUPFD, 5), second = fcntl(other, F_DUPFD, 5);
    dup2(first, 3);
    dup2(second, 4);
    close_from(5);
}

// Settings of the whole system are root's to write by their file modes alone, whatever capabilities are left.
void mount_processes() {
    constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (mount("proc", "/proc", "proc", kFlags, nullptr) != 0)
        return;
    for (const char *place : {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi"})
        if (bind_to_itself(place))
            mount(nullptr, place, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kFlags, nullptr);
}

void stand_in(int descriptor, int flags) {
    const int file = open("/dev/null", flags);
    dup2(file, descriptor);
    if (file != descriptor)
        close(file);
}

// The first process of the namespace: it inherits what the others leave, and its end is theirs. It uses the memory of
// the guard, which saves a copy, so it does nothing but system calls.
int be_init(void *) {
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    syscall(SYS_close_range, 0U, ~0U, 0U);
    for (;;)
        syscall(SYS_ppoll, nullptr, 0, nullptr, nullptr, 0);
}

int32_t start_init() {
    alignas(16) static char stack[16384];
    std::signal(SIGCHLD, SIG_IGN); // its children need not be waited for
    const int32_t pid = clone(be_init, stack + sizeof(stack), CLONE_VM | SIGCHLD, nullptr);
    std::signal(SIGCHLD, SIG_DFL);
    return pid > 0 ? pid : 0;
}

void drop_capabilities() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
    if (syscall(SYS_capget, &header, data) != 0)
        return;
    const uint32_t kept = data[0].effective & kKeptCapabilities;
    data[0] = {kept, kept, 0};
    data[1] = {0, 0, 0};
    syscall(SYS_capset, &header, data);
}

// Without SPEC_ALLOW, old kernels slow down all that runs under a filter.
void refuse_calls(const std::string &filter) {
    const auto count = static_cast<unsigned short>(filter.size() / sizeof(sock_filter));
    std::vector<sock_filter> instructions(count);
    std::memcpy(instructions.data(), filter.data(), count * sizeof(sock_filter));
    const sock_fprog program{count, instructions.data()};
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
}

// Takes from the child what running kernels does not need: descriptors, the terminal, privileges and their way back,
// and the system calls that `filter` refuses.
void confine(const PipeEnds &ends, bool terminal, const std::string &filter) {
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() ==
        0) // in a namespace of its own; else /proc names all processes, and the memory of some can be opened
        mount_processes();
    stand_in(0, O_RDONLY);
    dup2(ends.output, 1);
    dup2(ends.errors, 2);
    keep_two(ends.commands, ends.results);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    drop_capabilities();
    if (!filter.empty())
        refuse_calls(filter);
    if (terminal)
        setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
}

// The parent of a process; 0 if there is none.
int parent_of(int process) {
    FILE *file = fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "re");
    if (file == nullptr)
        return 0;
    char text[512];
    const size_t size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *name_end = strrchr(text, ')'); // the name may hold anything
    int parent = 0;
    if (name_end != nullptr)
        std::sscanf(name_end + 1, " %*c %d", &parent);
    return parent;
}

// All processes that descend from this one.
std::vector<int> descendants() {
    std::map<int, int> parents;
    for (const int process : numbers_in("/proc"))
        parents[process] = parent_of(process);
    std::vector<int> found;
    for (const auto &entry : parents)
        for (int process = entry.second; process > 1; process = parents[process])
            if (process == getpid()) {
                found.push_back(entry.first);
                break;
            }
    return found;
}

class Guard {
public:
    explicit Guard(const Limits &limits) {
        if (enter_namespaces()) {
            if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) ==
                0) { // else everybody would see what follows
                hidden_ = limits.hide_memory && hide_shared_memory();
                if (!limits.output.empty())
                    protect(limits.output, limits.writable);
            }
            init_ = start_init();
        }
        if (init_ == 0)
            prctl(PR_SET_CHILD_SUBREAPER, 1);
    }

    [[noreturn]] void watch(int32_t child) {
        child_ = child;
        tell("child %d %d\n", child_, hidden_ ? 1 : 0);
        const int ending = static_cast<int>(syscall(SYS_pidfd_open, child_, 0));
        while (wait_for_word(ending))
            if (!ended_)
                kill(child_, SIGTERM);
        end();
        tell("over\n");
        _exit(0);
    }

private:
    __attribute__((format(printf, 1, 2))) static void tell(const char *pattern, ...) {
        char line[64];
        va_list values;
        va_start(values, pattern);
        const int size = std::vsnprintf(line, sizeof(line), pattern, values);
        va_end(values);
        [[maybe_unused]] const ssize_t told = write(kNews, line, static_cast<size_t>(size)); // or the parent is gone
    }

    // Returns whether the child is to have its last words; false: everything is to end.
    bool wait_for_word(int ending) {
        for (;;) {
            pollfd events[] = {{kControl, POLLIN, 0}, {ended_ ? -1 : ending, POLLIN, 0}};
            if (poll(events, 2, ending >= 0 || ended_ ? -1 : 20) < 0 && errno != EINTR)
                return false;
            reap(WNOHANG);
            if (events[0].revents != 0) {
                char word = 0;
                return read(kControl, &word, 1) == 1 && word == 'T';
            }
        }
    }

    // Takes note of the processes that ended; false when there is none left.
    bool reap(int how) {
        for (;;) {
            int status = 0;
            rusage usage{};
            const pid_t pid = wait4(-1, &status, how, &usage);
            if (pid <= 0)
                return pid == 0;
            if (pid != child_)
                continue;
            ended_ = true;
            tell("ended %d %ld\n", status, usage.ru_maxrss);
        }
    }

    void end() {
        if (!ended_)
            kill(child_, SIGKILL);
        if (init_ != 0) {
            kill(init_, SIGKILL);
            reap(0);
            return;
        }
        // All are stopped before the first is killed, so that none starts another meanwhile.
        for (int waited = 0; reap(WNOHANG) && waited < kPatienceMs; ++waited) {
            const std::vector<int> left = descendants();
            for (const int number : {SIGSTOP, SIGKILL})
                for (const int process : left)
                    kill(process, number);
            usleep(1000);
        }
    }

    int32_t init_ = 0, child_ = 0;
    bool hidden_ = false, ended_ = false;
};

} // namespace

int32_t fork_guarded(const PipeEnds &ends, const Limits &limits, bool terminal) {
    const auto libraries = memory_ahead();
    const pid_t guard = fork();
    if (guard != 0)
        return guard;
    setpgid(0, 0);
    for (const int number : {SIGTERM, SIGINT, SIGCHLD})
        std::signal(number, SIG_DFL);
    Guard work(limits);
    const pid_t child = fork();
    if (child == 0) {
        confine(ends, terminal, limits.filter);
        return 0;
    }
    for (const int standard : {0, 1, 2})
        stand_in(standard, O_RDWR);
    keep_two(ends.control, ends.news);
    if (child < 0)
        _exit(71);
    for (const auto &[begin, end] : libraries) // else the end of this process takes as long as the child's
        munmap(reinterpret_cast<void *>(begin), end - begin);
    work.watch(child);
}

void flush_output() {
    if (ftrylockfile(stdout) != 0)
        return;
    fflush_unlocked(stdout);
    funlockfile(stdout);
}

int32_t remove_segments(int32_t creator, int64_t since) {
    shm_info info{};
    const int last = shmctl(0, SHM_INFO, reinterpret_cast<shmid_ds *>(&info));
    int32_t removed = 0;
    for (int index = 0; index <= last; ++index) {
        shmid_ds segment{};
        const int id = shmctl(index, SHM_STAT, &segment);
        if (id < 0 || segment.shm_perm.cuid != geteuid())
            continue;
        const bool left = segment.shm_ctime >= since && segment.shm_nattch == 0 && kill(segment.shm_cpid, 0) != 0;
        if ((left || segment.shm_cpid == creator) && shmctl(id, IPC_RMID, nullptr) == 0)
            ++removed;
    }
    return removed;
}

} // namespace pypto::runtime
