// The system's facts about a file, which identify it without reading.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>
#include <sys/stat.h>

namespace pypto::runtime {

/// Facts that change whenever a file is written, replaced or renamed; without a regular file the size is -1.
struct FileIdentity {
    uint64_t device = 0, inode = 0;
    int64_t size = -1, changed_ns = 0, status_changed_ns = 0;

    static FileIdentity of(const std::string &path) {
        struct stat status{};
        if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
            return {};
        return {status.st_dev, status.st_ino, status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
    }

    bool operator==(const FileIdentity &other) const {
        return device == other.device && inode == other.inode && size == other.size && changed_ns == other.changed_ns &&
               status_changed_ns == other.status_changed_ns;
    }
    bool is_same_file(const FileIdentity &other) const { return device == other.device && inode == other.inode; }

    /// Returns whether it is older than the clock's tick: a younger file may be changed once more within it.
    bool is_settled() const {
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        const bool in_seconds = changed_ns % kSecondNs == 0 && status_changed_ns % kSecondNs == 0;
        return std::max(changed_ns, status_changed_ns) + (in_seconds ? kCoarseTickNs : kTickNs) < nanoseconds(now);
    }

private:
    static constexpr int64_t kTickNs = 50'000'000, kCoarseTickNs = 2'100'000'000, kSecondNs = 1'000'000'000;

    static int64_t nanoseconds(const timespec &time) { return time.tv_sec * kSecondNs + time.tv_nsec; }
};

} // namespace pypto::runtime
