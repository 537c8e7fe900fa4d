// Writes the lines.
#include "base/log.h"

#include "base/clock.h"
#include "base/fault.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pypto::runtime {

namespace {

// Names since 2026-08, and those of the finer levels before.
std::string name_of(LogLevel level) {
    if (level >= LogLevel::V0 && level <= LogLevel::V9 && level != LogLevel::Info)
        return "INFO_V" + std::to_string(static_cast<int>(level) - static_cast<int>(LogLevel::V0));
    return level >= LogLevel::Error    ? "ERROR"
           : level >= LogLevel::Warn   ? "WARN"
           : level >= LogLevel::Timing ? "TIMING"
           : level >= LogLevel::Info   ? "INFO"
                                       : "DEBUG";
}

int open_file() {
    const char *directory = std::getenv("ASCEND_PROCESS_LOG_PATH");
    if (directory == nullptr || *directory == '\0')
        return -1;
    const std::string device = std::string(directory) + "/device-0";
    mkdir(device.c_str(), 0777); // it may be there
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const std::string path = device + format("/device-%d_%lld%03ld.log", static_cast<int>(getpid()),
                                             static_cast<long long>(now.tv_sec), now.tv_nsec / 1'000'000);
    const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        std::fprintf(stderr, "[WARN] ASCEND_PROCESS_LOG_PATH: %s cannot be written; give a directory that exists\n",
                     path.c_str());
    return file;
}

} // namespace

Log::Log(int level) : level_(level) {
    if (wants(LogLevel::Timing)) // at the default nothing is made of a run that has nothing to say
        file_ = open_file();
}

Log::~Log() {
    if (file_ >= 0)
        close(file_);
}

void Log::line(LogLevel level, const std::string &text) const {
    if (wants(level))
        put("[" + name_of(level) + "] " + text + "\n");
}

void Log::timed_line(LogLevel level, const std::string &text) const {
    if (wants(level))
        put("[mono_ns=" + std::to_string(monotonic_ns()) + "][T0x0][" + name_of(level) + "] " + text + "\n");
}

void Log::put(const std::string &line) const {
    std::fwrite(line.data(), 1, line.size(), stderr);
    if (file_ >= 0) [[maybe_unused]]
        const ssize_t written = write(file_, line.data(), line.size()); // a full disk ends no run
}

} // namespace pypto::runtime
