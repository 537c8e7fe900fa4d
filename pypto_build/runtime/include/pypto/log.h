// Log lines of an orchestration, with the names of every generation. They go to the runtime's log at its level.
#ifndef PYPTO_LOG_H
#define PYPTO_LOG_H

#include "pypto/orchestration_abi.h"

namespace pypto {

struct LogSite {
    LogLevel level;
    const char *file;
    int line;
};

__attribute__((format(printf, 2, 3))) inline void log(LogSite site, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    binding.ops->log(binding.runtime, site.level, site.file, site.line, format, arguments);
    va_end(arguments);
}

// Before 2026-04 the runtime came first.
__attribute__((format(printf, 3, 4))) inline void log(LogSite site, PTO2Runtime *, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    binding.ops->log(binding.runtime, site.level, site.file, site.line, format, arguments);
    va_end(arguments);
}

} // namespace pypto

#define PYPTO_LOG(level, ...) ::pypto::log({::pypto::LogLevel::level, __FILE__, __LINE__}, __VA_ARGS__)
#define LOG_DEBUG(...) PYPTO_LOG(Debug, __VA_ARGS__)
#define LOG_INFO(...) PYPTO_LOG(Info, __VA_ARGS__)
#define LOG_TIMING(...) PYPTO_LOG(Timing, __VA_ARGS__)
#define LOG_WARN(...) PYPTO_LOG(Warn, __VA_ARGS__)
#define LOG_ERROR(...) PYPTO_LOG(Error, __VA_ARGS__)
#define LOG_ALWAYS(...) PYPTO_LOG(Timing, __VA_ARGS__)
#define LOG_INFO_V0(...) PYPTO_LOG(V0, __VA_ARGS__)
#define LOG_INFO_V1(...) PYPTO_LOG(V1, __VA_ARGS__)
#define LOG_INFO_V2(...) PYPTO_LOG(V2, __VA_ARGS__)
#define LOG_INFO_V3(...) PYPTO_LOG(V3, __VA_ARGS__)
#define LOG_INFO_V4(...) PYPTO_LOG(V4, __VA_ARGS__)
#define LOG_INFO_V5(...) PYPTO_LOG(V5, __VA_ARGS__)
#define LOG_INFO_V6(...) PYPTO_LOG(V6, __VA_ARGS__)
#define LOG_INFO_V7(...) PYPTO_LOG(V7, __VA_ARGS__)
#define LOG_INFO_V8(...) PYPTO_LOG(V8, __VA_ARGS__)
#define LOG_INFO_V9(...) PYPTO_LOG(V9, __VA_ARGS__)

#endif
