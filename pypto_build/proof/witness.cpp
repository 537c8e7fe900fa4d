// Preloaded into a tool and all that it starts: logs what they learn of the file system.
//
// PYPTO_WITNESS names the log. An event is a letter, numbers and a path, with tabs between them and a zero byte at the
// end. An event is one write in append mode, so processes do not mix theirs. Nothing is kept open and nothing is
// allocated: the tool may close all descriptors, or be between vfork and exec. A process writes equal events once.
//
// _PYPTO_WITNESS names the log of a test, of which all programs are watched. The events are the same. This variable and
// this library are added to the environment of each program that is executed, whatever environment the test gives it.
//
//   X process  executable              E process  program that it is about to execute; 0: the C library is
//   F process  that was refused        P process  program that it was started with by another one
//   L shared object that is loaded
//   R identity  file opened to read    W file made, or emptied
//   B reads  file opened to change         M file or directory made, renamed, removed or changed
//   D directory listed                 A path that is not there
//   S mode size  what stat told        T mode size  the same of the path itself, links not followed
//   N error  why stat told nothing     O error  the same of the path itself
//   Q mode error  what access told     K link that was read
//   G path that was resolved           U program, and why it cannot be watched
//   Y path whose extended attributes were asked for
//   C device or pipe that it is about to open: it may wait there, or read without end

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <initializer_list>
#include <link.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// glibc 2.31 has no names for these; the numbers are those of every processor.
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

namespace {

constexpr size_t kPathBytes = 4096;
constexpr size_t kArguments = 4096;

// The file of a command, and that of a test that started it.
char log_path[kPathBytes];
char test_entry[kPathBytes] = "_PYPTO_WITNESS=";
constexpr size_t kTestName = sizeof("_PYPTO_WITNESS=") - 1;
char *const test_path = test_entry + kTestName;
char own_library[kPathBytes];

bool is_watched() {
    return log_path[0] || test_path[0];
}

template <typename F> F next(const char *name) {
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

/// The C library's, past the function of that name below.
template <typename... Values> long call(long number, Values... values) {
    static const auto real = next<long (*)(long, ...)>("syscall");
    return real(number, values...);
}

/// Leaves errno as it was.
struct KeepErrno {
    const int saved = errno;
    ~KeepErrno() { errno = saved; }
};

/// A path without links that lead to what a process has open, or where it is: other processes go elsewhere by those.
class Path {
public:
    Path(int directory, const char *path) {
        if (*path != '/') {
            if (directory == AT_FDCWD)
                size_ = call(SYS_getcwd, text_, kPathBytes) > 0 ? strlen(text_) : 0;
            else
                take_descriptor(directory);
            if (size_ > 0)
                put("/");
        }
        put(path);
    }

    void take_descriptor(int descriptor) {
        char link[64];
        snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
        const long size = call(SYS_readlinkat, AT_FDCWD, link, text_, kPathBytes - 1);
        size_ = size > 0 ? static_cast<size_t>(size) : 0;
        text_[size_] = 0;
    }

    void resolve(bool follow) {
        if (strncmp(text_, "/proc/", 6) != 0 && strncmp(text_, "/dev/", 5) != 0)
            return;
        if (follow && lead(text_, ""))
            return;
        char last[kPathBytes];
        char *slash = strrchr(text_, '/');
        if (slash == text_ || strlen(slash) >= sizeof(last))
            return;
        strcpy(last, slash);
        *slash = 0;
        if (!lead(text_, last))
            *slash = '/';
    }

    const char *text() const { return text_; }

    /// Returns true if the kernel marks the name: no path leads to the file any more.
    bool is_deleted() const {
        static constexpr char kMark[] = " (deleted)";
        const size_t size = strlen(text_), mark = sizeof(kMark) - 1;
        return size > mark && strcmp(text_ + size - mark, kMark) == 0;
    }

private:
    void put(const char *more) {
        for (; *more && size_ + 1 < sizeof(text_); ++more)
            text_[size_++] = *more;
        text_[size_] = 0;
    }

    bool lead(const char *path, const char *rest) {
        const long file = call(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
        if (file < 0)
            return false;
        take_descriptor(static_cast<int>(file));
        call(SYS_close, file);
        put(rest);
        return true;
    }

    char text_[2 * kPathBytes];
    size_t size_ = 0;
};

/// The events that were written, by their hashes. Once the table is full, events are written more than once.
class Told {
public:
    bool is_new(const char *text, size_t size) {
        uint64_t hash = 14695981039346656037u;
        for (size_t i = 0; i < size; ++i)
            hash = (hash ^ static_cast<unsigned char>(text[i])) * 1099511628211u;
        for (size_t probe = 0; probe < 8; ++probe) {
            uint64_t &slot = slots_[(hash + probe) % kSlots];
            if (slot == hash)
                return false;
            if (slot == 0)
                return slot = hash, true;
        }
        return true;
    }
    void forget() { memset(slots_, 0, sizeof(slots_)); }

private:
    static constexpr size_t kSlots = 1 << 13;
    uint64_t slots_[kSlots];
};

Told told;

void write_event(char kind, std::initializer_list<unsigned long long> numbers, const char *path) {
    char text[2 * kPathBytes + 160];
    size_t size = static_cast<size_t>(snprintf(text, sizeof(text), "%c", kind));
    for (const unsigned long long number : numbers)
        size += static_cast<size_t>(snprintf(text + size, sizeof(text) - size, "\t%llu", number));
    const int rest = snprintf(text + size, sizeof(text) - size, "\t%s", path);
    size = rest < static_cast<int>(sizeof(text) - size) ? size + static_cast<size_t>(rest) + 1 : sizeof(text);
    if (strchr("XEFWBM", kind) == nullptr && !told.is_new(text, size))
        return;
    for (const char *log : {const_cast<const char *>(log_path), const_cast<const char *>(test_path)}) {
        const long file = log[0] ? call(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CLOEXEC, 0) : -1;
        if (file < 0)
            continue;
        call(SYS_write, file, text, size);
        call(SYS_close, file);
    }
}

void tell(char kind, const char *path, int directory = AT_FDCWD, std::initializer_list<unsigned long long> numbers = {},
          bool follow = true) {
    const KeepErrno keep;
    if (!is_watched() || !path || !*path)
        return;
    Path whole(directory, path);
    whole.resolve(follow);
    write_event(kind, numbers, whole.text());
}

/// That this program may see what is not told.
void tell_unwatched(const char *why) {
    const KeepErrno keep;
    if (!is_watched())
        return;
    char text[kPathBytes + 256];
    const long size = call(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", text, kPathBytes);
    const size_t end = size > 0 ? static_cast<size_t>(size) : 0;
    snprintf(text + end, sizeof(text) - end, " (%s)", why);
    write_event('U', {}, text);
}

void tell_failure(int directory, const char *path, bool follow, int error) {
    if (error == EINTR || error == EBADF || error == EFAULT || error == EMFILE || error == ENFILE || error == ENOMEM)
        return;
    if (error == ENOENT && follow)
        tell('A', path, directory);
    else
        tell(follow ? 'N' : 'O', path, directory, {static_cast<unsigned long long>(error)}, follow);
}

void tell_status(int directory, const char *path, bool follow, unsigned mode, unsigned long long size) {
    tell(follow ? 'S' : 'T', path, directory, {mode, size}, follow);
}

/// That there is something at `path`, where a call was refused because of that.
void tell_what_is_there(int directory, const char *path) {
    const KeepErrno keep;
    struct stat status;
    if (call(SYS_newfstatat, directory, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
        tell_status(directory, path, false, status.st_mode, static_cast<unsigned long long>(status.st_size));
}

unsigned long long nanoseconds(const timespec &time) {
    return static_cast<unsigned long long>(time.tv_sec) * 1000000000ull + static_cast<unsigned long long>(time.tv_nsec);
}

/// Why `path` was not opened. What has nothing to do with the way there (a device without a terminal, a read-only file
/// system) is told by what is there: nobody can ask for it later.
void tell_refusal(int directory, const char *path, int flags, int error) {
    if (error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG)
        return tell_failure(directory, path, !(flags & O_NOFOLLOW), error);
    if (error != EACCES && error != EPERM)
        return tell_what_is_there(directory, path);
    const unsigned long long read = (flags & O_ACCMODE) == O_WRONLY ? 0 : R_OK;
    const unsigned long long write = (flags & O_ACCMODE) == O_RDONLY ? 0 : W_OK;
    tell('Q', path, directory, {read | write, static_cast<unsigned long long>(error)});
}

/// Return whether a file is opened only if it was not there.
bool is_exclusive(int flags) {
    return (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
}

/// Tells of a device or pipe before it is opened: opening may already wait.
void tell_special(int directory, const char *path) {
    constexpr dev_t kNull = 0x103;
    const KeepErrno keep;
    struct stat status;
    if (is_watched() && path && call(SYS_newfstatat, directory, path, &status, 0) == 0 &&
        (S_ISFIFO(status.st_mode) || (S_ISCHR(status.st_mode) && status.st_rdev != kNull)))
        tell('C', path, directory);
}

/// Writes the outcome of an attempt to open `path`.
void tell_open(int directory, const char *path, int flags, int file) {
    if (!is_watched() || !path)
        return;
    const KeepErrno keep;
    if (file < 0)
        return tell_refusal(directory, path, flags, keep.saved);
    struct stat status;
    if (call(SYS_fstat, file, &status) != 0 || (flags & __O_TMPFILE) == __O_TMPFILE)
        return;
    const auto size = static_cast<unsigned long long>(status.st_size);
    if (S_ISDIR(status.st_mode)) // paths relative to it are told from where it leads to
        tell('G', path, directory);
    if ((flags & O_PATH) || S_ISDIR(status.st_mode))
        return tell_status(directory, path, !(flags & O_NOFOLLOW), status.st_mode, size);
    Path whole(directory, path);
    whole.resolve(true);
    if (S_ISFIFO(status.st_mode) && whole.text()[0] == '/' && (flags & O_ACCMODE) != O_WRONLY)
        tell_unwatched("reads a named pipe");
    if (!S_ISREG(status.st_mode))
        return;
    if (is_exclusive(flags))
        tell_failure(directory, path, false, ENOENT);
    if (status.st_nlink == 0 && whole.is_deleted()) // memory that processes share by /proc/self/fd
        return;
    if ((flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC)))
        write_event('R',
                    {status.st_dev, status.st_ino, status.st_mode, size, nanoseconds(status.st_mtim),
                     nanoseconds(status.st_ctim)},
                    whole.text());
    else if ((flags & O_TRUNC) || is_exclusive(flags))
        write_event('W', {}, whole.text());
    else
        write_event('B', {(flags & O_ACCMODE) == O_RDWR}, whole.text());
}

void tell_directory(int descriptor) {
    const KeepErrno keep;
    if (!is_watched())
        return;
    Path whole(AT_FDCWD, "/");
    whole.take_descriptor(descriptor);
    write_event('D', {}, whole.text());
}

int told_stat(int directory, const char *path, int flags, const struct stat *status, int result) {
    if (!path || !*path) // of a descriptor
        return result;
    const bool follow = !(flags & AT_SYMLINK_NOFOLLOW);
    if (result == 0)
        tell_status(directory, path, follow, status->st_mode, static_cast<unsigned long long>(status->st_size));
    else
        tell_failure(directory, path, follow, errno);
    return result;
}

int told_access(int directory, const char *path, int mode, int result) {
    if (result != 0 && errno != EACCES && errno != EROFS && errno != ETXTBSY && errno != EPERM)
        tell_failure(directory, path, true, errno);
    else
        tell('Q', path, directory,
             {static_cast<unsigned long long>(mode & 7), static_cast<unsigned long long>(result ? errno : 0)});
    return result;
}

long told_link(int directory, const char *path, long result) {
    if (result >= 0 || errno == EINVAL)
        tell('K', path, directory, {}, false);
    else
        tell_failure(directory, path, false, errno);
    return result;
}

char *told_real_path(const char *path, char *result) {
    if (result)
        tell('G', path);
    else
        tell_failure(AT_FDCWD, path, true, errno);
    return result;
}

/// Tells what is at `path`, links not followed, and returns whether there is something.
bool tell_whether_there(int directory, const char *path) {
    struct stat status;
    const long result = call(SYS_newfstatat, directory, path, &status, AT_SYMLINK_NOFOLLOW);
    return told_stat(directory, path, AT_SYMLINK_NOFOLLOW, &status, static_cast<int>(result)) == 0;
}

/// Tells of a directory, link or pipe that is made: where something is there, the call is refused.
void tell_made(int directory, const char *path) {
    const KeepErrno keep;
    if (!tell_whether_there(directory, path))
        tell('M', path, directory, {}, false);
}

/// Tells of a file or directory that is removed: where nothing is there, the call is refused.
void tell_removed(int directory, const char *path) {
    const KeepErrno keep;
    if (tell_whether_there(directory, path))
        tell('M', path, directory, {}, false);
}

/// Tells of a file that gets another name: under that name its content can be read.
void tell_renamed(int directory, const char *path) {
    const KeepErrno keep;
    if (tell_whether_there(directory, path))
        tell('B', path, directory, {0}, false);
}

/// Tells of a link that is made, and reads of the file that it leads to: under its name that can be read.
void tell_symbolic_link(const char *to, int directory, const char *path) {
    const KeepErrno keep;
    tell_made(directory, path);
    if (!is_watched() || !to || !path)
        return;
    char target[kPathBytes];
    const char *slash = *to == '/' ? nullptr : strrchr(path, '/');
    const int size = slash ? static_cast<int>(slash + 1 - path) : 0;
    if (snprintf(target, sizeof(target), "%.*s%s", size, path, to) >= static_cast<int>(sizeof(target)))
        return tell_unwatched("a link with a long path");
    const int file = static_cast<int>(call(SYS_openat, directory, target, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0));
    if (file < 0)
        return;
    struct stat status;
    if (call(SYS_fstat, file, &status) == 0 && S_ISREG(status.st_mode))
        tell_open(directory, target, O_RDONLY, file);
    call(SYS_close, file);
}

/// Tells that extended attributes of the user's were asked for: one by its `name`, or the names of all.
void tell_attributes(int directory, const char *path, const char *name = nullptr, bool follow = true) {
    if (name && strncmp(name, "user.", 5) != 0)
        return;
    const KeepErrno keep;
    if (!follow && path)
        tell_whether_there(directory, path);
    tell('Y', path, directory);
}

/// The same of an open file.
void tell_attributes_of_open(int descriptor, const char *name = nullptr) {
    Path whole(AT_FDCWD, "/");
    whole.take_descriptor(descriptor);
    tell_attributes(AT_FDCWD, whole.text(), name);
}

/// Return whether a request asks for what only `chattr` and the file system know of a file.
bool asks_flags(unsigned long request) {
    return request == FS_IOC_GETFLAGS || request == FS_IOC32_GETFLAGS || request == FS_IOC_FSGETXATTR;
}

/// The number of objects loaded when they were last written, with those that were unloaded since.
unsigned long long loaded_before = 0;

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

/// The places before the one where an object was found: whatever appears there is loaded instead.
void tell_passed_over(const char *path) {
    const char *places = getenv("LD_LIBRARY_PATH"), *name = strrchr(path, '/');
    while (places && *places) {
        const size_t size = strcspn(places, ":;");
        if (size == static_cast<size_t>(name - path) && memcmp(places, path, size) == 0)
            return;
        char candidate[2 * kPathBytes];
        snprintf(candidate, sizeof(candidate), "%.*s%s", static_cast<int>(size), places, size ? name : name + 1);
        if (call(SYS_faccessat, AT_FDCWD, candidate, F_OK) != 0)
            tell('A', candidate);
        places += size + (places[size] != 0);
    }
}

int tell_loaded(dl_phdr_info *info, size_t, void *data) {
    Listing &listing = *static_cast<Listing *>(data);
    if (listing.position++ >= listing.first && info->dlpi_name && info->dlpi_name[0] == '/') {
        tell_passed_over(info->dlpi_name);
        tell('L', info->dlpi_name);
    }
    return 0;
}

/// Tells of the objects that were loaded since the last time. The loader lists them in their order, so they are the
/// last ones, of which some may be gone. Two threads at once tell of some twice.
void tell_new_objects() {
    Listing listing;
    dl_iterate_phdr(count_loaded, &listing);
    const unsigned long long fresh = listing.loaded > loaded_before ? listing.loaded - loaded_before : 0;
    if (fresh == 0)
        return;
    listing.first = loaded_before > 0 && listing.objects > fresh ? listing.objects - static_cast<size_t>(fresh) : 0;
    loaded_before = listing.loaded;
    dl_iterate_phdr(tell_loaded, &listing);
}

bool take_log(char *log, size_t size, const char *path) {
    return path && strlen(path) < size && strcpy(log, path);
}

bool has_own_library(const char *preload) {
    return preload && own_library[0] && strstr(preload, own_library);
}

/// Returns true if this is the first library of this kind here, which writes all events. A second one, as of a test
/// that watches its own programs, writes nothing: two would write about each other without end.
bool is_first(const Dl_info &own) {
    Dl_info first;
    void *symbol = dlsym(RTLD_DEFAULT, "pypto_witness_redirect");
    return !symbol || !dladdr(symbol, &first) || first.dli_fbase == own.dli_fbase;
}

/// The environment of a program that a test has executed, in which the test's variables are, so that it is watched.
class KeptEnvironment {
public:
    explicit KeptEnvironment(char *const *given) : environment_(given) {
        size_t count = 0;
        const char *preload = nullptr;
        for (; test_path[0] && given && given[count]; ++count) {
            if (count >= kArguments) // the program is told of as one that is not watched
                return;
            entries_[count] = given[count];
            if (strncmp(given[count], "LD_PRELOAD=", 11) == 0)
                preload = given[count] + 11, preload_at_ = count;
            else if (strncmp(given[count], test_entry, kTestName) == 0)
                test_at_ = count;
        }
        if (!test_path[0] || !given)
            return;
        const bool there = test_at_ != kNowhere && strcmp(entries_[test_at_], test_entry) == 0;
        if (there && has_own_library(preload))
            return;
        entries_[test_at_ != kNowhere ? test_at_ : count++] = test_entry;
        if (!has_own_library(preload)) {
            const char *more = preload && *preload ? ":" : "";
            const int used =
                snprintf(preload_, sizeof(preload_), "LD_PRELOAD=%s%s%s", preload ? preload : "", more, own_library);
            if (used >= static_cast<int>(sizeof(preload_)))
                return;
            entries_[preload_at_ != kNowhere ? preload_at_ : count++] = preload_;
        }
        entries_[count] = nullptr;
        environment_ = entries_;
    }
    char *const *get() const { return environment_; }

private:
    static constexpr size_t kNowhere = ~size_t{0};
    char *const *environment_;
    size_t preload_at_ = kNowhere, test_at_ = kNowhere;
    char *entries_[kArguments + 3];
    char preload_[2 * kPathBytes];
};

__attribute__((constructor)) void begin() {
    Dl_info own;
    if (!dladdr(reinterpret_cast<void *>(take_log), &own) || !is_first(own))
        return;
    take_log(own_library, sizeof(own_library), own.dli_fname);
    take_log(log_path, sizeof(log_path), getenv("PYPTO_WITNESS"));
    take_log(test_path, sizeof(test_entry) - kTestName, getenv("_PYPTO_WITNESS"));
    if (!is_watched())
        return;
    char executable[kPathBytes];
    const long size = call(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", executable, sizeof(executable) - 1);
    if (size > 0)
        executable[size] = 0, write_event('X', {static_cast<unsigned long long>(call(SYS_getpid))}, executable);
    const long length = call(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/mnt", executable, sizeof(executable) - 1);
    if (length > 0)
        executable[length] = 0, write_event('V', {}, executable);
    tell_new_objects();
}

long self() {
    return call(SYS_getpid);
}

void tell_execution(long process, const char *program, int directory = AT_FDCWD) {
    tell(process && process != self() ? 'P' : 'E', program, directory, {static_cast<unsigned long long>(process)});
}

/// The program that is executed for `name`, which is looked for in PATH as execvp does.
void tell_search(const char *name, long process) {
    const char *places = strchr(name, '/') ? nullptr : getenv("PATH");
    if (!places)
        return tell_execution(process, name);
    char candidate[2 * kPathBytes];
    while (*places) {
        const size_t size = strcspn(places, ":");
        const int used =
            snprintf(candidate, sizeof(candidate), "%.*s%s%s", static_cast<int>(size), places, size ? "/" : "", name);
        places += size + (places[size] == ':');
        if (used >= static_cast<int>(sizeof(candidate)))
            continue;
        if (told_access(AT_FDCWD, candidate, X_OK, static_cast<int>(call(SYS_faccessat, AT_FDCWD, candidate, X_OK))) ==
            0)
            return tell_execution(process, candidate);
    }
}

/// The status of a call that comes back only if no program was executed.
int refused(int result) {
    tell('F', "/", AT_FDCWD, {static_cast<unsigned long long>(call(SYS_getpid))});
    return result;
}

/// A shell that the C library starts by itself, with the environment as it is.
void tell_shell() {
    const auto names = [](const char *variable, const char *log) {
        const char *value = getenv(variable);
        return !log[0] || (value && strcmp(value, log) == 0);
    };
    if (names("PYPTO_WITNESS", log_path) && names("_PYPTO_WITNESS", test_path) && has_own_library(getenv("LD_PRELOAD")))
        tell_execution(0, "/bin/sh");
    else
        tell_unwatched("its shell has another environment");
}

int flags_of(const char *mode) {
    if (!mode)
        return O_RDONLY;
    const int access = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    const int creates = mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT | O_APPEND : 0;
    return access | creates | (strchr(mode, 'x') ? O_EXCL : 0);
}

} // namespace

/// For a process that is forked for one command: what it reads from now on is told in another file.
extern "C" void pypto_witness_redirect(const char *path) {
    const bool of_test = !log_path[0];
    char *log = of_test ? test_path : log_path;
    if (log[0] && take_log(log, of_test ? sizeof(test_entry) - kTestName : sizeof(log_path), path))
        told.forget();
}

/// A function that stands in for one of the C library, and that one as `real`. It has a name of its own here, since
/// compilers and versions of the library declare those differently.
#define STANDS_IN(type, name, parameters, ...)                                                                         \
    extern "C" type own_##name parameters __asm__(#name);                                                              \
    extern "C" type own_##name parameters {                                                                            \
        using Function = type(*) parameters;                                                                           \
        static const Function real = next<Function>(#name);                                                            \
        __VA_ARGS__                                                                                                    \
    }

/// A function that opens `path`, relative to `directory`.
#define OPENS(name, parameters, arguments, directory, flags)                                                           \
    STANDS_IN(int, name, parameters, tell_special(directory, path); const int file = real arguments;                   \
              tell_open(directory, path, flags, file); return file;)

/// The same with a mode behind the flags, if a file may be made.
#define OPENS_WITH_MODE(name, parameters, arguments, directory)                                                        \
    STANDS_IN(int, name, parameters, va_list list; va_start(list, flags);                                              \
              const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0; va_end(list);            \
              tell_special(directory, path); const int file = real arguments; tell_open(directory, path, flags, file); \
              return file;)

/// A function that opens a stream.
#define OPENS_STREAM(name, parameters, arguments)                                                                      \
    STANDS_IN(FILE *, name, parameters, tell_special(AT_FDCWD, path); FILE *file = real arguments;                     \
              tell_open(AT_FDCWD, path, flags_of(mode), file ? fileno(file) : -1); return file;)

#define STATS(name, parameters, arguments, directory, flags)                                                           \
    STANDS_IN(int, name, parameters, return told_stat(directory, path, flags, status, real arguments);)

#define ACCESSES(name, parameters, arguments, directory)                                                               \
    STANDS_IN(int, name, parameters, return told_access(directory, path, mode, real arguments);)

/// A function of which is told before it is done: another process that sees what became of it tells of that later.
#define TOLD_BEFORE(type, name, parameters, arguments, ...)                                                            \
    STANDS_IN(type, name, parameters, __VA_ARGS__; return real arguments;)

#define EXECUTES(name, parameters, arguments, ...)                                                                     \
    STANDS_IN(int, name, parameters, __VA_ARGS__; const KeptEnvironment kept(environment);                             \
              return refused(real arguments);)

/// A function that goes through directories by itself.
#define IS_UNWATCHED(type, name, parameters, arguments)                                                                \
    STANDS_IN(type, name, parameters, tell_unwatched(#name); return real arguments;)

OPENS_WITH_MODE(open, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPENS_WITH_MODE(open64, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPENS_WITH_MODE(openat, (int directory, const char *path, int flags, ...), (directory, path, flags, mode), directory)
OPENS_WITH_MODE(openat64, (int directory, const char *path, int flags, ...), (directory, path, flags, mode), directory)
OPENS(__open_2, (const char *path, int flags), (path, flags), AT_FDCWD, flags)
OPENS(__open64_2, (const char *path, int flags), (path, flags), AT_FDCWD, flags)
OPENS(__openat_2, (int directory, const char *path, int flags), (directory, path, flags), directory, flags)
OPENS(__openat64_2, (int directory, const char *path, int flags), (directory, path, flags), directory, flags)
OPENS_STREAM(fopen, (const char *path, const char *mode), (path, mode))
OPENS_STREAM(fopen64, (const char *path, const char *mode), (path, mode))
OPENS_STREAM(freopen, (const char *path, const char *mode, FILE *stream), (path, mode, stream))
OPENS_STREAM(freopen64, (const char *path, const char *mode, FILE *stream), (path, mode, stream))

// Files that are made, which the C library opens by calls of its own. A pattern is the file's path by then.
OPENS(creat, (const char *path, mode_t mode), (path, mode), AT_FDCWD, O_WRONLY | O_CREAT | O_TRUNC)
OPENS(creat64, (const char *path, mode_t mode), (path, mode), AT_FDCWD, O_WRONLY | O_CREAT | O_TRUNC)
constexpr int kMade = O_RDWR | O_TRUNC;
OPENS(mkstemp, (char *path), (path), AT_FDCWD, kMade)
OPENS(mkstemp64, (char *path), (path), AT_FDCWD, kMade)
OPENS(mkostemp, (char *path, int flags), (path, flags), AT_FDCWD, flags | kMade)
OPENS(mkostemp64, (char *path, int flags), (path, flags), AT_FDCWD, flags | kMade)
OPENS(mkstemps, (char *path, int suffix), (path, suffix), AT_FDCWD, kMade)
OPENS(mkstemps64, (char *path, int suffix), (path, suffix), AT_FDCWD, kMade)
OPENS(mkostemps, (char *path, int suffix, int flags), (path, suffix, flags), AT_FDCWD, flags | kMade)
OPENS(mkostemps64, (char *path, int suffix, int flags), (path, suffix, flags), AT_FDCWD, flags | kMade)
STANDS_IN(int, shm_open, (const char *name, int flags, mode_t mode), const int file = real(name, flags, mode);
          const KeepErrno keep; char path[kPathBytes];
          snprintf(path, sizeof(path), "/dev/shm%s%s", name[0] == '/' ? "" : "/", name); errno = keep.saved;
          tell_open(AT_FDCWD, path, flags, file); return file;)
STANDS_IN(
    sem_t *, sem_open, (const char *name, int flags, ...), va_list list; va_start(list, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    const unsigned value = flags & O_CREAT ? va_arg(list, unsigned) : 0; va_end(list);
    sem_t *semaphore = real(name, flags, mode, value); const KeepErrno keep;
    if (semaphore == SEM_FAILED || !is_exclusive(flags)) tell_unwatched("sem_open"); else {
        char path[kPathBytes];
        snprintf(path, sizeof(path), "/dev/shm/sem.%s", name + strspn(name, "/"));
        tell_failure(AT_FDCWD, path, false, ENOENT);
        tell('M', path);
    } return semaphore;)

STATS(stat, (const char *path, struct stat *status), (path, status), AT_FDCWD, 0)
STATS(stat64, (const char *path, struct stat *status), (path, status), AT_FDCWD, 0)
STATS(lstat, (const char *path, struct stat *status), (path, status), AT_FDCWD, AT_SYMLINK_NOFOLLOW)
STATS(lstat64, (const char *path, struct stat *status), (path, status), AT_FDCWD, AT_SYMLINK_NOFOLLOW)
STATS(fstatat, (int directory, const char *path, struct stat *status, int flags), (directory, path, status, flags),
      directory, flags)
STATS(fstatat64, (int directory, const char *path, struct stat *status, int flags), (directory, path, status, flags),
      directory, flags)
STATS(__xstat, (int version, const char *path, struct stat *status), (version, path, status), AT_FDCWD, 0)
STATS(__xstat64, (int version, const char *path, struct stat *status), (version, path, status), AT_FDCWD, 0)
STATS(__lxstat, (int version, const char *path, struct stat *status), (version, path, status), AT_FDCWD,
      AT_SYMLINK_NOFOLLOW)
STATS(__lxstat64, (int version, const char *path, struct stat *status), (version, path, status), AT_FDCWD,
      AT_SYMLINK_NOFOLLOW)
STATS(__fxstatat, (int version, int directory, const char *path, struct stat *status, int flags),
      (version, directory, path, status, flags), directory, flags)
STATS(__fxstatat64, (int version, int directory, const char *path, struct stat *status, int flags),
      (version, directory, path, status, flags), directory, flags)
STANDS_IN(int, statx, (int directory, const char *path, int flags, unsigned mask, struct statx *status),
          const int result = real(directory, path, flags, mask | STATX_TYPE | STATX_MODE | STATX_SIZE, status);
          struct stat same;
          if (result == 0) same.st_mode = status->stx_mode, same.st_size = static_cast<off_t>(status->stx_size);
          return told_stat(directory, path, flags, &same, result);)

ACCESSES(access, (const char *path, int mode), (path, mode), AT_FDCWD)
ACCESSES(euidaccess, (const char *path, int mode), (path, mode), AT_FDCWD)
ACCESSES(eaccess, (const char *path, int mode), (path, mode), AT_FDCWD)
ACCESSES(faccessat, (int directory, const char *path, int mode, int flags), (directory, path, mode, flags), directory)

STANDS_IN(ssize_t, readlink, (const char *path, char *buffer, size_t size),
          return told_link(AT_FDCWD, path, real(path, buffer, size));)
STANDS_IN(ssize_t, __readlink_chk, (const char *path, char *buffer, size_t size, size_t most),
          return told_link(AT_FDCWD, path, real(path, buffer, size, most));)
STANDS_IN(ssize_t, readlinkat, (int directory, const char *path, char *buffer, size_t size),
          return told_link(directory, path, real(directory, path, buffer, size));)
STANDS_IN(ssize_t, __readlinkat_chk, (int directory, const char *path, char *buffer, size_t size, size_t most),
          return told_link(directory, path, real(directory, path, buffer, size, most));)
STANDS_IN(char *, realpath, (const char *path, char *buffer), return told_real_path(path, real(path, buffer));)
STANDS_IN(char *, __realpath_chk, (const char *path, char *buffer, size_t most),
          return told_real_path(path, real(path, buffer, most));)
STANDS_IN(char *, canonicalize_file_name, (const char *path), return told_real_path(path, real(path));)

TOLD_BEFORE(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size),
            (path, name, value, size), tell_attributes(AT_FDCWD, path, name))
TOLD_BEFORE(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size),
            (path, name, value, size), tell_attributes(AT_FDCWD, path, name, false))
TOLD_BEFORE(ssize_t, fgetxattr, (int file, const char *name, void *value, size_t size), (file, name, value, size),
            tell_attributes_of_open(file, name))
TOLD_BEFORE(ssize_t, listxattr, (const char *path, char *names, size_t size), (path, names, size),
            tell_attributes(AT_FDCWD, path))
TOLD_BEFORE(ssize_t, llistxattr, (const char *path, char *names, size_t size), (path, names, size),
            tell_attributes(AT_FDCWD, path, nullptr, false))
TOLD_BEFORE(ssize_t, flistxattr, (int file, char *names, size_t size), (file, names, size),
            tell_attributes_of_open(file))
STANDS_IN(int, ioctl, (int file, unsigned long request, ...), va_list list; va_start(list, request);
          void *argument = va_arg(list, void *); va_end(list); if (asks_flags(request)) tell_unwatched("ioctl");
          return real(file, request, argument);)

STANDS_IN(DIR *, opendir, (const char *path), DIR *directory = real(path); if (directory) tell('D', path);
          else tell_failure(AT_FDCWD, path, true, errno); return directory;)
STANDS_IN(DIR *, fdopendir, (int descriptor), DIR *directory = real(descriptor);
          if (directory) tell_directory(descriptor); return directory;)
STANDS_IN(ssize_t, getdents64, (int descriptor, void *buffer, size_t size), tell_directory(descriptor);
          return real(descriptor, buffer, size);)
using Chosen = int (*)(const dirent *);
using Compared = int (*)(const dirent **, const dirent **);
TOLD_BEFORE(int, scandir, (const char *path, dirent ***names, Chosen chosen, Compared compared),
            (path, names, chosen, compared), tell('D', path))
TOLD_BEFORE(int, scandir64, (const char *path, dirent ***names, Chosen chosen, Compared compared),
            (path, names, chosen, compared), tell('D', path))
TOLD_BEFORE(int, scandirat, (int directory, const char *path, dirent ***names, Chosen chosen, Compared compared),
            (directory, path, names, chosen, compared), tell('D', path, directory))
TOLD_BEFORE(int, scandirat64, (int directory, const char *path, dirent ***names, Chosen chosen, Compared compared),
            (directory, path, names, chosen, compared), tell('D', path, directory))
IS_UNWATCHED(int, glob, (const char *pattern, int flags, void *failed, void *found), (pattern, flags, failed, found))
IS_UNWATCHED(int, glob64, (const char *pattern, int flags, void *failed, void *found), (pattern, flags, failed, found))
IS_UNWATCHED(int, wordexp, (const char *words, void *found, int flags), (words, found, flags))
IS_UNWATCHED(int, ftw, (const char *path, void *visit, int most), (path, visit, most))
IS_UNWATCHED(int, ftw64, (const char *path, void *visit, int most), (path, visit, most))
IS_UNWATCHED(int, nftw, (const char *path, void *visit, int most, int flags), (path, visit, most, flags))
IS_UNWATCHED(int, nftw64, (const char *path, void *visit, int most, int flags), (path, visit, most, flags))
IS_UNWATCHED(void *, fts_open, (char *const *paths, int flags, void *compared), (paths, flags, compared))
IS_UNWATCHED(void *, fts64_open, (char *const *paths, int flags, void *compared), (paths, flags, compared))
IS_UNWATCHED(int, chroot, (const char *path), (path))
IS_UNWATCHED(int, open_by_handle_at, (int mount, void *handle, int flags), (mount, handle, flags))

TOLD_BEFORE(int, chdir, (const char *path), (path), tell('G', path))
TOLD_BEFORE(int, rename, (const char *from, const char *to), (from, to), tell_renamed(AT_FDCWD, from);
            tell('M', to, AT_FDCWD, {}, false))
TOLD_BEFORE(int, renameat, (int from_directory, const char *from, int to_directory, const char *to),
            (from_directory, from, to_directory, to), tell_renamed(from_directory, from);
            tell('M', to, to_directory, {}, false))
TOLD_BEFORE(int, renameat2, (int from_directory, const char *from, int to_directory, const char *to, unsigned flags),
            (from_directory, from, to_directory, to, flags), tell_renamed(from_directory, from);
            if (flags) tell_renamed(to_directory, to); else tell('M', to, to_directory, {}, false))
TOLD_BEFORE(int, mkdir, (const char *path, mode_t mode), (path, mode), tell_made(AT_FDCWD, path))
TOLD_BEFORE(int, mkdirat, (int directory, const char *path, mode_t mode), (directory, path, mode),
            tell_made(directory, path))
TOLD_BEFORE(int, symlink, (const char *to, const char *path), (to, path), tell_symbolic_link(to, AT_FDCWD, path))
TOLD_BEFORE(int, symlinkat, (const char *to, int directory, const char *path), (to, directory, path),
            tell_symbolic_link(to, directory, path))
TOLD_BEFORE(int, link, (const char *from, const char *path), (from, path), tell_renamed(AT_FDCWD, from);
            tell_made(AT_FDCWD, path))
TOLD_BEFORE(int, linkat, (int from_directory, const char *from, int directory, const char *path, int flags),
            (from_directory, from, directory, path, flags), tell_renamed(from_directory, from);
            tell_made(directory, path))
TOLD_BEFORE(int, mkfifo, (const char *path, mode_t mode), (path, mode), tell_made(AT_FDCWD, path))
TOLD_BEFORE(int, mknod, (const char *path, mode_t mode, dev_t device), (path, mode, device), tell_made(AT_FDCWD, path))
TOLD_BEFORE(int, unlink, (const char *path), (path), tell_removed(AT_FDCWD, path))
TOLD_BEFORE(int, unlinkat, (int directory, const char *path, int flags), (directory, path, flags),
            tell_removed(directory, path))
TOLD_BEFORE(int, rmdir, (const char *path), (path), tell_removed(AT_FDCWD, path))
TOLD_BEFORE(int, remove, (const char *path), (path), tell_removed(AT_FDCWD, path))
TOLD_BEFORE(int, truncate, (const char *path, off_t size), (path, size), tell('B', path, AT_FDCWD, {0}))
TOLD_BEFORE(int, truncate64, (const char *path, off_t size), (path, size), tell('B', path, AT_FDCWD, {0}))
TOLD_BEFORE(int, chmod, (const char *path, mode_t mode), (path, mode), tell('B', path, AT_FDCWD, {0}))
TOLD_BEFORE(int, fchmodat, (int directory, const char *path, mode_t mode, int flags), (directory, path, mode, flags),
            tell('B', path, directory, {0}))
TOLD_BEFORE(int, setxattr, (const char *path, const char *name, const void *value, size_t size, int flags),
            (path, name, value, size, flags), tell('B', path, AT_FDCWD, {0}))
TOLD_BEFORE(int, lsetxattr, (const char *path, const char *name, const void *value, size_t size, int flags),
            (path, name, value, size, flags), tell('B', path, AT_FDCWD, {0}, false))
TOLD_BEFORE(int, removexattr, (const char *path, const char *name), (path, name), tell('B', path, AT_FDCWD, {0}))
TOLD_BEFORE(int, lremovexattr, (const char *path, const char *name), (path, name),
            tell('B', path, AT_FDCWD, {0}, false))

EXECUTES(execve, (const char *path, char *const *argv, char *const *environment), (path, argv, kept.get()),
         tell_execution(self(), path))
EXECUTES(execvpe, (const char *path, char *const *argv, char *const *environment), (path, argv, kept.get()),
         tell_search(path, self()))
EXECUTES(fexecve, (int file, char *const *argv, char *const *environment), (file, argv, kept.get()),
         Path program(AT_FDCWD, "/");
         program.take_descriptor(file); tell_execution(self(), program.text()))
EXECUTES(execveat, (int directory, const char *path, char *const *argv, char *const *environment, int flags),
         (directory, path, argv, kept.get(), flags), Path program(directory, path);
         if (!*path) program.take_descriptor(directory); tell_execution(self(), program.text()))

extern "C" int own_execv(const char *path, char *const *argv) __asm__("execv");
extern "C" int own_execv(const char *path, char *const *argv) {
    return own_execve(path, argv, environ);
}

extern "C" int own_execvp(const char *path, char *const *argv) __asm__("execvp");
extern "C" int own_execvp(const char *path, char *const *argv) {
    return own_execvpe(path, argv, environ);
}

/// The arguments behind the first one are a list, as that of `execl`; behind it is an environment, if that is asked
/// for.
#define EXECUTES_LIST(name, function, ...)                                                                             \
    extern "C" int own_##name(const char *path, const char *first, ...) __asm__(#name);                                \
    extern "C" int own_##name(const char *path, const char *first, ...) {                                              \
        char *argv[kArguments + 1] = {const_cast<char *>(first)};                                                      \
        va_list list;                                                                                                  \
        va_start(list, first);                                                                                         \
        for (size_t count = 1; argv[count - 1] && count < kArguments; ++count)                                         \
            argv[count] = va_arg(list, char *);                                                                        \
        [[maybe_unused]] char *const *environment = nullptr;                                                           \
        __VA_ARGS__;                                                                                                   \
        va_end(list);                                                                                                  \
        return function;                                                                                               \
    }
EXECUTES_LIST(execl, own_execv(path, argv), )
EXECUTES_LIST(execlp, own_execvp(path, argv), )
EXECUTES_LIST(execle, own_execve(path, argv, environment), environment = va_arg(list, char *const *))

STANDS_IN(int, posix_spawn_file_actions_addopen,
          (posix_spawn_file_actions_t * actions, int file, const char *path, int flags, mode_t mode),
          if (path && strcmp(path, "/dev/null") != 0) tell_unwatched("posix_spawn_file_actions_addopen");
          return real(actions, file, path, flags, mode);)

/// A function that starts a process of its own for a program.
#define SPAWNS(name, tell_it)                                                                                          \
    STANDS_IN(int, name,                                                                                               \
              (pid_t * process, const char *program, const posix_spawn_file_actions_t *actions,                        \
               const posix_spawnattr_t *attributes, char *const *argv, char *const *environment),                      \
              pid_t started = 0;                                                                                       \
              const KeptEnvironment kept(environment);                                                                 \
              const int error = real(&started, program, actions, attributes, argv, kept.get());                        \
              if (process) *process = started; if (error == 0) tell_it; return error;)
SPAWNS(posix_spawnp, tell_search(program, started))
SPAWNS(posix_spawn, tell_execution(started, program))
TOLD_BEFORE(int, system, (const char *command), (command), if (command) tell_shell())
TOLD_BEFORE(FILE *, popen, (const char *command, const char *mode), (command, mode), tell_shell())

extern "C" long own_syscall(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");

/// Forwards a system call by number to the wrapper of the function that makes the same call.
extern "C" long own_syscall(long number, long a, long b, long c, long d, long e, long f) {
    const auto path = [](long value) { return reinterpret_cast<const char *>(value); };
    const auto words = [](long value) { return reinterpret_cast<char *const *>(value); };
    const auto flag = [](long value) { return static_cast<int>(value); };
    if (!is_watched())
        return call(number, a, b, c, d, e, f);
    switch (number) {
#ifdef SYS_open
    case SYS_open:
        return own_open(path(a), flag(b), static_cast<mode_t>(c));
    case SYS_stat:
        return own_stat(path(a), reinterpret_cast<struct stat *>(b));
    case SYS_lstat:
        return own_lstat(path(a), reinterpret_cast<struct stat *>(b));
    case SYS_access:
        return own_access(path(a), flag(b));
    case SYS_readlink:
        return own_readlink(path(a), reinterpret_cast<char *>(b), static_cast<size_t>(c));
    case SYS_creat:
        return own_creat(path(a), static_cast<mode_t>(b));
#endif
    case SYS_openat:
        return own_openat(flag(a), path(b), flag(c), static_cast<mode_t>(d));
    case SYS_openat2: {
        const long file = call(number, a, b, c, d);
        tell_open(flag(a), path(b), flag(static_cast<long>(reinterpret_cast<open_how *>(c)->flags)), flag(file));
        return file;
    }
    case SYS_newfstatat:
        return told_stat(flag(a), path(b), flag(d), reinterpret_cast<struct stat *>(c), flag(call(number, a, b, c, d)));
    case SYS_statx:
        return own_statx(flag(a), path(b), flag(c), static_cast<unsigned>(d), reinterpret_cast<struct statx *>(e));
    case SYS_faccessat:
        return own_faccessat(flag(a), path(b), flag(c), 0);
    case SYS_faccessat2:
        return told_access(flag(a), path(b), flag(c), flag(call(number, a, b, c, d)));
    case SYS_readlinkat:
        return own_readlinkat(flag(a), path(b), reinterpret_cast<char *>(c), static_cast<size_t>(d));
    case SYS_getdents64:
        tell_directory(flag(a));
        break;
    case SYS_getxattr:
        tell_attributes(AT_FDCWD, path(a), path(b));
        break;
    case SYS_lgetxattr:
        tell_attributes(AT_FDCWD, path(a), path(b), false);
        break;
    case SYS_fgetxattr:
        tell_attributes_of_open(flag(a), path(b));
        break;
    case SYS_listxattr:
        tell_attributes(AT_FDCWD, path(a));
        break;
    case SYS_llistxattr:
        tell_attributes(AT_FDCWD, path(a), nullptr, false);
        break;
    case SYS_flistxattr:
        tell_attributes_of_open(flag(a));
        break;
    case SYS_ioctl:
        return own_ioctl(flag(a), static_cast<unsigned long>(b), c);
    case SYS_execve:
        return own_execve(path(a), words(b), words(c));
    case SYS_execveat:
        return own_execveat(flag(a), path(b), words(c), words(d), flag(e));
    case SYS_io_uring_setup:
    case SYS_open_by_handle_at:
    case SYS_chroot:
        tell_unwatched("a system call of its own");
        break;
    default:
        break;
    }
    return call(number, a, b, c, d, e, f);
}

extern "C" char *own_mkdtemp(char *pattern) __asm__("mkdtemp");
extern "C" char *own_mkdtemp(char *pattern) {
    static const auto real = next<char *(*)(char *)>("mkdtemp");
    char *path = real(pattern);
    tell('M', path);
    return path;
}

STANDS_IN(
    void *, dlopen, (const char *path, int mode), void *library = real(path, mode); if (library && is_watched()) {
        const KeepErrno keep;
        tell_new_objects();
    } return library;)
