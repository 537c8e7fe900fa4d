// Loads shared objects; those that were loaded ahead are known by what the system says of their files.
#include "execution/shared_object.h"

#include "base/fault.h"
#include "execution/passive_object.h"

#include <algorithm>
#include <ctime>
#include <dlfcn.h>
#include <set>
#include <sys/stat.h>
#include <unordered_map>

namespace pypto::runtime {

namespace {

// A file that was changed so short a time ago may be changed once more within the same tick of the clock.
constexpr int64_t kTickNs = 50'000'000, kCoarseTickNs = 2'100'000'000;
constexpr int64_t kSecondNs = 1'000'000'000;

/// What changes whenever a file is written, replaced or renamed.
struct FileIdentity {
    uint64_t device = 0, inode = 0;
    int64_t size = -1, changed_ns = 0, status_changed_ns = 0;

    bool operator==(const FileIdentity &other) const {
        return device == other.device && inode == other.inode && size == other.size && changed_ns == other.changed_ns &&
               status_changed_ns == other.status_changed_ns;
    }
    bool is_same_file(const FileIdentity &other) const { return device == other.device && inode == other.inode; }
};

struct LoadedAhead {
    FileIdentity file;
    void *handle;
};

std::unordered_map<std::string, LoadedAhead> loaded_ahead;
std::set<void *> handles_ahead;
bool any_ahead = false; // since the last time that one was needed

int64_t nanoseconds(const timespec &time) {
    return time.tv_sec * kSecondNs + time.tv_nsec;
}

FileIdentity identify(const std::string &path) {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
        return {};
    return {status.st_dev, status.st_ino, status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
}

bool is_settled(const FileIdentity &file) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const bool in_seconds = file.changed_ns % kSecondNs == 0 && file.status_changed_ns % kSecondNs == 0;
    return std::max(file.changed_ns, file.status_changed_ns) + (in_seconds ? kCoarseTickNs : kTickNs) <
           nanoseconds(now);
}

// Libraries of kernels name none that they need: what the compiler's own libraries define is found here.
void share_system_libraries() {
    static const bool shared = [] {
        for (const char *name : {"libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"})
            dlopen(name, RTLD_LAZY | RTLD_GLOBAL);
        return true;
    }();
    (void)shared;
}

void *open_now(const std::string &path) {
    return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Unloads what was loaded ahead and is another file now: before any of them is loaded, since files may have changed
/// places, and to the loader a file is the same under any name. One that was written to while it was loaded stays: its
/// code may be anything.
void forget_changed() {
    for (auto entry = loaded_ahead.begin(); entry != loaded_ahead.end();) {
        const FileIdentity now = identify(entry->first);
        if (now == entry->second.file || now.is_same_file(entry->second.file)) {
            ++entry;
        } else {
            dlclose(entry->second.handle);
            entry = loaded_ahead.erase(entry);
        }
    }
}

} // namespace

void *load_shared_object(const std::string &path) {
    share_system_libraries();
    if (any_ahead) {
        any_ahead = false;
        forget_changed();
    }
    const auto known = loaded_ahead.find(path);
    if (known != loaded_ahead.end()) {
        if (!(known->second.file == identify(path)))
            throw_fault(FaultKind::NotLoadable, {{"path", path}, {"reason", "it was written to while it was loaded"}});
        return known->second.handle;
    }
    void *handle = open_now(path);
    if (handle == nullptr) {
        const char *reason = dlerror();
        throw_fault(FaultKind::NotLoadable, {{"path", path}, {"reason", reason ? reason : "unknown reason"}});
    }
    return handle;
}

bool load_ahead(const std::string &path) {
    const FileIdentity before = identify(path);
    if (before.size < 0 || !is_settled(before) || loaded_ahead.count(path) || !is_passive_object(path))
        return false;
    share_system_libraries();
    void *handle = open_now(path);
    if (handle == nullptr)
        return false;
    // Two names of one file are one object to the loader: none of them could be unloaded alone.
    if (!handles_ahead.insert(handle).second || !(identify(path) == before)) {
        dlclose(handle);
        return false;
    }
    loaded_ahead[path] = {before, handle};
    any_ahead = true;
    return true;
}

} // namespace pypto::runtime
