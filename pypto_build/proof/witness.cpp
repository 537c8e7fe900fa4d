// Preloaded into a tool and all that it starts: tells which files they read, looked for in vain, and loaded.
//
// Each event is a line in the file that PYPTO_WITNESS names: a letter, a tab, a path; for what was opened, the identity
// of the file before the path. A line is one write in append mode, so processes do not mix theirs. Nothing is kept
// open and nothing is allocated: the tool may close all descriptors, or be between vfork and exec.
//
//   X executable of a process          E program that a process is about to execute
//   L shared object that is loaded     R file opened for reading
//   W file opened for writing          D directory opened
//   A path that is not there            M file or directory made, renamed or removed

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr size_t kPathBytes = 4096;
constexpr size_t kLineBytes = 2 * kPathBytes + 128;

char log_path[kPathBytes];

/// A line of text of bounded length.
class Line {
public:
    explicit Line(char kind) { put(kind), put('\t'); }

    void put(char c) {
        if (size_ < sizeof(text_))
            text_[size_++] = c;
    }
    void put(const char *text) {
        while (*text)
            put(*text++);
    }
    void put(unsigned long long value) {
        char digits[24];
        size_t count = 0;
        do
            digits[count++] = static_cast<char>('0' + value % 10);
        while (value /= 10);
        while (count)
            put(digits[--count]);
        put('\t');
    }
    /// A path; a relative one behind the directory that it is relative to.
    void put_path(int directory, const char *path) {
        if (*path != '/') {
            char here[kPathBytes];
            if (directory == AT_FDCWD) {
                if (syscall(SYS_getcwd, here, sizeof(here)) > 0)
                    put(here), put('/');
            } else {
                char link[64];
                snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
                const long size = syscall(SYS_readlinkat, AT_FDCWD, link, here, sizeof(here) - 1);
                if (size > 0)
                    here[size] = 0, put(here), put('/');
            }
        }
        for (; *path; ++path)
            put(*path == '\n' ? '\0' : *path);
    }
    void write() {
        put('\n');
        const long file = syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
        if (file < 0)
            return;
        syscall(SYS_write, file, text_, size_);
        syscall(SYS_close, file);
    }

private:
    char text_[kLineBytes];
    size_t size_ = 0;
};

/// Leaves errno as it was.
struct KeepErrno {
    const int saved = errno;
    ~KeepErrno() { errno = saved; }
};

bool is_absent(int error) {
    return error == ENOENT || error == ENOTDIR;
}

void tell(char kind, const char *path, int directory = AT_FDCWD) {
    const KeepErrno keep;
    if (!log_path[0] || !path || !*path)
        return;
    Line line(kind);
    line.put_path(directory, path);
    line.write();
}

/// What became of an attempt to open `path`.
void tell_open(int directory, const char *path, int flags, int file) {
    if (!log_path[0] || !path)
        return;
    const KeepErrno keep;
    const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
    if (file < 0) {
        if (is_absent(keep.saved) && !writes)
            tell('A', path, directory);
        return;
    }
    struct stat status;
    if (syscall(SYS_fstat, file, &status) != 0)
        return;
    if (S_ISDIR(status.st_mode))
        return tell('D', path, directory);
    if (!S_ISREG(status.st_mode))
        return;
    Line line(writes ? 'W' : 'R');
    line.put(static_cast<unsigned long long>(status.st_ino));
    line.put(static_cast<unsigned long long>(status.st_size));
    line.put(static_cast<unsigned long long>(status.st_mtim.tv_sec) * 1000000000ull + status.st_mtim.tv_nsec);
    line.put(static_cast<unsigned long long>(status.st_ctim.tv_sec) * 1000000000ull + status.st_ctim.tv_nsec);
    line.put_path(directory, path);
    line.write();
}

void tell_probe(int directory, const char *path, int result) {
    if (result != 0 && is_absent(errno))
        tell('A', path, directory);
}

template <typename F> F next(const char *name) {
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

/// How many objects had been loaded when they were last told of, those that were unloaded since too.
unsigned long long told = 0;

struct Listing {
    size_t objects = 0; // that there are
    unsigned long long loaded = 0;
    size_t position = 0, first = 0; // in the second pass, and where those begin that may be new
};

int count_loaded(dl_phdr_info *info, size_t, void *data) {
    Listing &listing = *static_cast<Listing *>(data);
    ++listing.objects;
    listing.loaded = info->dlpi_adds;
    return 0;
}

int tell_loaded(dl_phdr_info *info, size_t, void *data) {
    Listing &listing = *static_cast<Listing *>(data);
    if (listing.position++ >= listing.first && info->dlpi_name && info->dlpi_name[0] == '/')
        tell('L', info->dlpi_name);
    return 0;
}

/// Tells of the objects that were loaded since the last time. The loader lists them in their order, so they are the
/// last ones, of which some may be gone. Two threads at once tell of some twice.
void tell_new_objects() {
    Listing listing;
    dl_iterate_phdr(count_loaded, &listing);
    const unsigned long long fresh = listing.loaded > told ? listing.loaded - told : 0;
    if (fresh == 0)
        return;
    listing.first = told > 0 && listing.objects > fresh ? listing.objects - static_cast<size_t>(fresh) : 0;
    told = listing.loaded;
    dl_iterate_phdr(tell_loaded, &listing);
}

__attribute__((constructor)) void begin() {
    const char *path = getenv("PYPTO_WITNESS");
    if (!path || strlen(path) >= sizeof(log_path))
        return;
    strcpy(log_path, path);
    char executable[kPathBytes];
    const long size = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", executable, sizeof(executable) - 1);
    if (size > 0)
        executable[size] = 0, tell('X', executable);
    tell_new_objects();
}

/// A program that is looked for in PATH, as execvp does.
void tell_search(const char *name) {
    const char *places = strchr(name, '/') ? nullptr : getenv("PATH");
    if (!places)
        return tell('E', name);
    char candidate[2 * kPathBytes];
    while (*places) {
        size_t size = strcspn(places, ":");
        const int used =
            snprintf(candidate, sizeof(candidate), "%.*s%s%s", static_cast<int>(size), places, size ? "/" : "", name);
        places += size + (places[size] == ':');
        if (used >= static_cast<int>(sizeof(candidate)))
            continue;
        if (syscall(SYS_faccessat, AT_FDCWD, candidate, X_OK) == 0)
            return tell('E', candidate);
        tell('A', candidate);
    }
}

int flags_of(const char *mode) {
    return mode && mode[0] == 'r' && !strchr(mode, '+') ? O_RDONLY : O_WRONLY | O_CREAT;
}

} // namespace

/// For a process that is forked for one command: what it reads from now on is told in another file.
extern "C" void pypto_witness_redirect(const char *path) {
    if (log_path[0] && strlen(path) < sizeof(log_path))
        strcpy(log_path, path);
}

#define NEXT(type, name, ...)                                                                                          \
    using Function = type (*)(__VA_ARGS__);                                                                            \
    static const Function real = next<Function>(name)

#define OPEN(name)                                                                                                     \
    extern "C" int name(const char *path, int flags, ...) {                                                            \
        NEXT(int, #name, const char *, int, ...);                                                                      \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;                                \
        va_end(list);                                                                                                  \
        const int file = real(path, flags, mode);                                                                      \
        tell_open(AT_FDCWD, path, flags, file);                                                                        \
        return file;                                                                                                   \
    }

#define OPENAT(name)                                                                                                   \
    extern "C" int name(int directory, const char *path, int flags, ...) {                                             \
        NEXT(int, #name, int, const char *, int, ...);                                                                 \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;                                \
        va_end(list);                                                                                                  \
        const int file = real(directory, path, flags, mode);                                                           \
        tell_open(directory, path, flags, file);                                                                       \
        return file;                                                                                                   \
    }

#define OPEN_2(name)                                                                                                   \
    extern "C" int name(const char *path, int flags) {                                                                 \
        NEXT(int, #name, const char *, int);                                                                           \
        const int file = real(path, flags);                                                                            \
        tell_open(AT_FDCWD, path, flags, file);                                                                        \
        return file;                                                                                                   \
    }

#define FOPEN(name)                                                                                                    \
    extern "C" FILE *name(const char *path, const char *mode) {                                                        \
        NEXT(FILE *, #name, const char *, const char *);                                                               \
        FILE *file = real(path, mode);                                                                                 \
        tell_open(AT_FDCWD, path, flags_of(mode), file ? fileno(file) : -1);                                           \
        return file;                                                                                                   \
    }

#define FREOPEN(name)                                                                                                  \
    extern "C" FILE *name(const char *path, const char *mode, FILE *stream) {                                          \
        NEXT(FILE *, #name, const char *, const char *, FILE *);                                                       \
        FILE *file = real(path, mode, stream);                                                                         \
        if (path)                                                                                                      \
            tell_open(AT_FDCWD, path, flags_of(mode), file ? fileno(file) : -1);                                       \
        return file;                                                                                                   \
    }

#define STAT(name, type)                                                                                               \
    extern "C" int name(const char *path, struct type *status) noexcept {                                              \
        NEXT(int, #name, const char *, struct type *);                                                                 \
        const int result = real(path, status);                                                                         \
        tell_probe(AT_FDCWD, path, result);                                                                            \
        return result;                                                                                                 \
    }

#define FSTATAT(name, type)                                                                                            \
    extern "C" int name(int directory, const char *path, struct type *status, int flags) noexcept {                    \
        NEXT(int, #name, int, const char *, struct type *, int);                                                       \
        const int result = real(directory, path, status, flags);                                                       \
        tell_probe(directory, path, result);                                                                           \
        return result;                                                                                                 \
    }

#define XSTAT(name, type)                                                                                              \
    extern "C" int name(int version, const char *path, struct type *status) noexcept {                                 \
        NEXT(int, #name, int, const char *, struct type *);                                                            \
        const int result = real(version, path, status);                                                                \
        tell_probe(AT_FDCWD, path, result);                                                                            \
        return result;                                                                                                 \
    }

#define ACCESS(name)                                                                                                   \
    extern "C" int name(const char *path, int mode) noexcept {                                                         \
        NEXT(int, #name, const char *, int);                                                                           \
        const int result = real(path, mode);                                                                           \
        tell_probe(AT_FDCWD, path, result);                                                                            \
        return result;                                                                                                 \
    }

/// A file that is made: the C library opens it by a call of its own. A `pattern` is the file's path by then.
#define MAKE_FILE(name, parameters, arguments)                                                                         \
    extern "C" int name parameters {                                                                                   \
        using Function = int(*) parameters;                                                                            \
        static const Function real = next<Function>(#name);                                                            \
        const int file = real arguments;                                                                               \
        tell_open(AT_FDCWD, pattern, O_RDWR | O_CREAT, file);                                                          \
        return file;                                                                                                   \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
OPEN_2(__open_2)
OPEN_2(__open64_2)
FOPEN(fopen)
FOPEN(fopen64)
MAKE_FILE(creat, (const char *pattern, mode_t mode), (pattern, mode))
MAKE_FILE(creat64, (const char *pattern, mode_t mode), (pattern, mode))
MAKE_FILE(mkstemp, (char *pattern), (pattern))
MAKE_FILE(mkstemp64, (char *pattern), (pattern))
MAKE_FILE(mkostemp, (char *pattern, int flags), (pattern, flags))
MAKE_FILE(mkostemp64, (char *pattern, int flags), (pattern, flags))
MAKE_FILE(mkstemps, (char *pattern, int suffix), (pattern, suffix))
MAKE_FILE(mkstemps64, (char *pattern, int suffix), (pattern, suffix))
MAKE_FILE(mkostemps, (char *pattern, int suffix, int flags), (pattern, suffix, flags))
MAKE_FILE(mkostemps64, (char *pattern, int suffix, int flags), (pattern, suffix, flags))
FREOPEN(freopen)
FREOPEN(freopen64)
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)
XSTAT(__xstat, stat)
XSTAT(__xstat64, stat64)
XSTAT(__lxstat, stat)
XSTAT(__lxstat64, stat64)
ACCESS(access)
ACCESS(euidaccess)
ACCESS(eaccess)

extern "C" int faccessat(int directory, const char *path, int mode, int flags) noexcept {
    NEXT(int, "faccessat", int, const char *, int, int);
    const int result = real(directory, path, mode, flags);
    tell_probe(directory, path, result);
    return result;
}

extern "C" int statx(int directory, const char *path, int flags, unsigned mask, struct statx *status) noexcept {
    NEXT(int, "statx", int, const char *, int, unsigned, struct statx *);
    const int result = real(directory, path, flags, mask, status);
    tell_probe(directory, path, result);
    return result;
}

extern "C" DIR *opendir(const char *path) {
    NEXT(DIR *, "opendir", const char *);
    DIR *directory = real(path);
    if (directory)
        tell('D', path);
    else
        tell_probe(AT_FDCWD, path, -1);
    return directory;
}

extern "C" void *dlopen(const char *path, int mode) noexcept {
    NEXT(void *, "dlopen", const char *, int);
    void *library = real(path, mode);
    if (library && log_path[0]) {
        const KeepErrno keep;
        tell_new_objects();
    }
    return library;
}

extern "C" int rename(const char *from, const char *to) noexcept {
    NEXT(int, "rename", const char *, const char *);
    tell('M', from), tell('M', to);
    return real(from, to);
}

extern "C" int renameat(int from_directory, const char *from, int to_directory, const char *to) noexcept {
    NEXT(int, "renameat", int, const char *, int, const char *);
    tell('M', from, from_directory), tell('M', to, to_directory);
    return real(from_directory, from, to_directory, to);
}

extern "C" int renameat2(int from_directory, const char *from, int to_directory, const char *to,
                         unsigned flags) noexcept {
    NEXT(int, "renameat2", int, const char *, int, const char *, unsigned);
    tell('M', from, from_directory), tell('M', to, to_directory);
    return real(from_directory, from, to_directory, to, flags);
}

extern "C" int mkdir(const char *path, mode_t mode) noexcept {
    NEXT(int, "mkdir", const char *, mode_t);
    tell('M', path);
    return real(path, mode);
}

extern "C" int mkdirat(int directory, const char *path, mode_t mode) noexcept {
    NEXT(int, "mkdirat", int, const char *, mode_t);
    tell('M', path, directory);
    return real(directory, path, mode);
}

extern "C" char *mkdtemp(char *pattern) noexcept {
    NEXT(char *, "mkdtemp", char *);
    char *path = real(pattern);
    tell('M', path);
    return path;
}

extern "C" int symlink(const char *to, const char *path) noexcept {
    NEXT(int, "symlink", const char *, const char *);
    tell('M', path);
    return real(to, path);
}

extern "C" int symlinkat(const char *to, int directory, const char *path) noexcept {
    NEXT(int, "symlinkat", const char *, int, const char *);
    tell('M', path, directory);
    return real(to, directory, path);
}

extern "C" int link(const char *from, const char *path) noexcept {
    NEXT(int, "link", const char *, const char *);
    tell('M', path);
    return real(from, path);
}

extern "C" int unlink(const char *path) noexcept {
    NEXT(int, "unlink", const char *);
    tell('M', path);
    return real(path);
}

extern "C" int unlinkat(int directory, const char *path, int flags) noexcept {
    NEXT(int, "unlinkat", int, const char *, int);
    tell('M', path, directory);
    return real(directory, path, flags);
}

extern "C" int rmdir(const char *path) noexcept {
    NEXT(int, "rmdir", const char *);
    tell('M', path);
    return real(path);
}

extern "C" int remove(const char *path) noexcept {
    NEXT(int, "remove", const char *);
    tell('M', path);
    return real(path);
}

extern "C" int execve(const char *path, char *const *argv, char *const *environment) noexcept {
    NEXT(int, "execve", const char *, char *const *, char *const *);
    tell('E', path);
    return real(path, argv, environment);
}

extern "C" int execv(const char *path, char *const *argv) noexcept {
    NEXT(int, "execv", const char *, char *const *);
    tell('E', path);
    return real(path, argv);
}

extern "C" int execvp(const char *path, char *const *argv) noexcept {
    NEXT(int, "execvp", const char *, char *const *);
    tell_search(path);
    return real(path, argv);
}

extern "C" int execvpe(const char *path, char *const *argv, char *const *environment) noexcept {
    NEXT(int, "execvpe", const char *, char *const *, char *const *);
    tell_search(path);
    return real(path, argv, environment);
}

extern "C" int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attributes, char *const *argv, char *const *environment) noexcept {
    NEXT(int, "posix_spawnp", pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
         char *const *, char *const *);
    tell_search(name);
    return real(pid, name, actions, attributes, argv, environment);
}

extern "C" int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const *argv, char *const *environment) noexcept {
    NEXT(int, "posix_spawn", pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
         char *const *, char *const *);
    tell('E', path);
    return real(pid, path, actions, attributes, argv, environment);
}
