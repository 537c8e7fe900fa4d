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

/// In a function that stands in for one of the C library: that one, as `real`.
#define STAND_IN(type, name, parameters)                                                                               \
    using Function = type(*) parameters;                                                                               \
    static const Function real = next<Function>(#name)

/// A function that opens `path`, relative to `directory`.
#define OPENS(name, parameters, arguments, directory, flags)                                                           \
    extern "C" int name parameters {                                                                                   \
        STAND_IN(int, name, parameters);                                                                               \
        const int file = real arguments;                                                                               \
        tell_open(directory, path, flags, file);                                                                       \
        return file;                                                                                                   \
    }

/// The same with a mode behind the flags, if a file may be made.
#define OPENS_WITH_MODE(name, parameters, arguments, directory)                                                        \
    extern "C" int name parameters {                                                                                   \
        STAND_IN(int, name, parameters);                                                                               \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;                                \
        va_end(list);                                                                                                  \
        const int file = real arguments;                                                                               \
        tell_open(directory, path, flags, file);                                                                       \
        return file;                                                                                                   \
    }

/// A function that opens a stream.
#define OPENS_STREAM(name, parameters, arguments)                                                                      \
    extern "C" FILE *name parameters {                                                                                 \
        STAND_IN(FILE *, name, parameters);                                                                            \
        FILE *file = real arguments;                                                                                   \
        tell_open(AT_FDCWD, path, flags_of(mode), file ? fileno(file) : -1);                                           \
        return file;                                                                                                   \
    }

/// A function that looks whether there is anything at `path`.
#define PROBES(name, parameters, arguments, directory)                                                                 \
    extern "C" int name parameters noexcept {                                                                          \
        STAND_IN(int, name, parameters);                                                                               \
        const int result = real arguments;                                                                             \
        tell_probe(directory, path, result);                                                                           \
        return result;                                                                                                 \
    }

/// A function of which is told before it is done: nobody comes back from one that executes a program.
#define TOLD_BEFORE(type, name, parameters, arguments, ...)                                                            \
    extern "C" type name parameters {                                                                                  \
        STAND_IN(type, name, parameters);                                                                              \
        __VA_ARGS__;                                                                                                   \
        return real arguments;                                                                                         \
    }

OPENS_WITH_MODE(open, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPENS_WITH_MODE(open64, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPENS_WITH_MODE(openat, (int directory, const char *path, int flags, ...), (directory, path, flags, mode), directory)
OPENS_WITH_MODE(openat64, (int directory, const char *path, int flags, ...), (directory, path, flags, mode), directory)
OPENS(__open_2, (const char *path, int flags), (path, flags), AT_FDCWD, flags)
OPENS(__open64_2, (const char *path, int flags), (path, flags), AT_FDCWD, flags)
OPENS_STREAM(fopen, (const char *path, const char *mode), (path, mode))
OPENS_STREAM(fopen64, (const char *path, const char *mode), (path, mode))
OPENS_STREAM(freopen, (const char *path, const char *mode, FILE *stream), (path, mode, stream))
OPENS_STREAM(freopen64, (const char *path, const char *mode, FILE *stream), (path, mode, stream))

// Files that are made, which the C library opens by calls of its own. A pattern is the file's path by then.
OPENS(creat, (const char *path, mode_t mode), (path, mode), AT_FDCWD, O_CREAT)
OPENS(creat64, (const char *path, mode_t mode), (path, mode), AT_FDCWD, O_CREAT)
OPENS(mkstemp, (char *path), (path), AT_FDCWD, O_CREAT)
OPENS(mkstemp64, (char *path), (path), AT_FDCWD, O_CREAT)
OPENS(mkostemp, (char *path, int flags), (path, flags), AT_FDCWD, O_CREAT)
OPENS(mkostemp64, (char *path, int flags), (path, flags), AT_FDCWD, O_CREAT)
OPENS(mkstemps, (char *path, int suffix), (path, suffix), AT_FDCWD, O_CREAT)
OPENS(mkstemps64, (char *path, int suffix), (path, suffix), AT_FDCWD, O_CREAT)
OPENS(mkostemps, (char *path, int suffix, int flags), (path, suffix, flags), AT_FDCWD, O_CREAT)
OPENS(mkostemps64, (char *path, int suffix, int flags), (path, suffix, flags), AT_FDCWD, O_CREAT)

PROBES(stat, (const char *path, struct stat *status), (path, status), AT_FDCWD)
PROBES(stat64, (const char *path, struct stat64 *status), (path, status), AT_FDCWD)
PROBES(lstat, (const char *path, struct stat *status), (path, status), AT_FDCWD)
PROBES(lstat64, (const char *path, struct stat64 *status), (path, status), AT_FDCWD)
PROBES(fstatat, (int directory, const char *path, struct stat *status, int flags), (directory, path, status, flags),
       directory)
PROBES(fstatat64, (int directory, const char *path, struct stat64 *status, int flags), (directory, path, status, flags),
       directory)
PROBES(__xstat, (int version, const char *path, struct stat *status), (version, path, status), AT_FDCWD)
PROBES(__xstat64, (int version, const char *path, struct stat64 *status), (version, path, status), AT_FDCWD)
PROBES(__lxstat, (int version, const char *path, struct stat *status), (version, path, status), AT_FDCWD)
PROBES(__lxstat64, (int version, const char *path, struct stat64 *status), (version, path, status), AT_FDCWD)
PROBES(access, (const char *path, int mode), (path, mode), AT_FDCWD)
PROBES(euidaccess, (const char *path, int mode), (path, mode), AT_FDCWD)
PROBES(eaccess, (const char *path, int mode), (path, mode), AT_FDCWD)
PROBES(faccessat, (int directory, const char *path, int mode, int flags), (directory, path, mode, flags), directory)
PROBES(statx, (int directory, const char *path, int flags, unsigned mask, struct statx *status),
       (directory, path, flags, mask, status), directory)

TOLD_BEFORE(int, rename, (const char *from, const char *to), (from, to), tell('M', from), tell('M', to))
TOLD_BEFORE(int, renameat, (int from_directory, const char *from, int to_directory, const char *to),
            (from_directory, from, to_directory, to), tell('M', from, from_directory), tell('M', to, to_directory))
TOLD_BEFORE(int, renameat2, (int from_directory, const char *from, int to_directory, const char *to, unsigned flags),
            (from_directory, from, to_directory, to, flags), tell('M', from, from_directory),
            tell('M', to, to_directory))
TOLD_BEFORE(int, mkdir, (const char *path, mode_t mode), (path, mode), tell('M', path))
TOLD_BEFORE(int, mkdirat, (int directory, const char *path, mode_t mode), (directory, path, mode),
            tell('M', path, directory))
TOLD_BEFORE(int, symlink, (const char *to, const char *path), (to, path), tell('M', path))
TOLD_BEFORE(int, symlinkat, (const char *to, int directory, const char *path), (to, directory, path),
            tell('M', path, directory))
TOLD_BEFORE(int, link, (const char *from, const char *path), (from, path), tell('M', path))
TOLD_BEFORE(int, unlink, (const char *path), (path), tell('M', path))
TOLD_BEFORE(int, unlinkat, (int directory, const char *path, int flags), (directory, path, flags),
            tell('M', path, directory))
TOLD_BEFORE(int, rmdir, (const char *path), (path), tell('M', path))
TOLD_BEFORE(int, remove, (const char *path), (path), tell('M', path))
TOLD_BEFORE(int, execve, (const char *path, char *const *argv, char *const *environment), (path, argv, environment),
            tell('E', path))
TOLD_BEFORE(int, execv, (const char *path, char *const *argv), (path, argv), tell('E', path))
TOLD_BEFORE(int, execvp, (const char *path, char *const *argv), (path, argv), tell_search(path))
TOLD_BEFORE(int, execvpe, (const char *path, char *const *argv, char *const *environment), (path, argv, environment),
            tell_search(path))
TOLD_BEFORE(int, posix_spawnp,
            (pid_t * pid, const char *name, const posix_spawn_file_actions_t *actions,
             const posix_spawnattr_t *attributes, char *const *argv, char *const *environment),
            (pid, name, actions, attributes, argv, environment), tell_search(name))
TOLD_BEFORE(int, posix_spawn,
            (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
             const posix_spawnattr_t *attributes, char *const *argv, char *const *environment),
            (pid, path, actions, attributes, argv, environment), tell('E', path))

extern "C" char *mkdtemp(char *pattern) noexcept {
    STAND_IN(char *, mkdtemp, (char *));
    char *path = real(pattern);
    tell('M', path);
    return path;
}

extern "C" DIR *opendir(const char *path) {
    STAND_IN(DIR *, opendir, (const char *));
    DIR *directory = real(path);
    if (directory)
        tell('D', path);
    else
        tell_probe(AT_FDCWD, path, -1);
    return directory;
}

extern "C" void *dlopen(const char *path, int mode) noexcept {
    STAND_IN(void *, dlopen, (const char *, int));
    void *library = real(path, mode);
    if (library && log_path[0]) {
        const KeepErrno keep;
        tell_new_objects();
    }
    return library;
}
