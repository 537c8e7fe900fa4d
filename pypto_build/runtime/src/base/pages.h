// Memory pages of this machine.
#pragma once

#include <cstdint>

namespace pypto::runtime {

inline constexpr uint64_t kPage = 4096;

/// `bytes`, rounded up to whole pages.
inline uint64_t pages(uint64_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

} // namespace pypto::runtime
