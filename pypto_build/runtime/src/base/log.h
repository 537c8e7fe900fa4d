// The log of a run: lines go to stderr, and to the directory that ASCEND_PROCESS_LOG_PATH names, as a device's do.
#pragma once

#include "pypto/orchestration_abi.h"

#include <string>

namespace pypto::runtime {

/// Lines of a level and above. From any thread; a line is written in one piece.
class Log {
public:
    /// A file device-0/device-PID_TIME.log is made below the directory, which has to exist.
    explicit Log(int level);
    ~Log();
    Log(const Log &) = delete;
    Log &operator=(const Log &) = delete;

    bool wants(LogLevel level) const { return static_cast<int>(level) >= level_; }
    /// `[LEVEL] text` if the level is wanted.
    void line(LogLevel level, const std::string &text) const;
    /// `[mono_ns=N][T0x0][LEVEL] text`, which upstream's tools read.
    void timed_line(LogLevel level, const std::string &text) const;

private:
    void put(const std::string &line) const;

    int level_;
    int file_ = -1;
};

} // namespace pypto::runtime
