// The clock of everything a run records.
#pragma once

#include <cstdint>
#include <ctime>

namespace pypto::runtime {

inline int64_t monotonic_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

} // namespace pypto::runtime
