// The on-chip memories of one core thread: flat bytes per memory space, with an inaccessible page behind each.
#pragma once

#include "base/settings.h"
#include "pypto/core_context.h"

#include <cstdint>

namespace pypto::runtime {

class CoreMemory {
public:
    /// Reserves address space only; pages appear when a kernel touches them.
    explicit CoreMemory(const Platform &platform);
    ~CoreMemory();
    CoreMemory(const CoreMemory &) = delete;
    CoreMemory &operator=(const CoreMemory &) = delete;

    /// Lets all pages appear now, so that no kernel is slowed by them.
    void touch();

    const PyptoMemory &space(int index) const { return spaces_[index]; }

private:
    uint8_t *region_ = nullptr;
    uint64_t bytes_ = 0;
    PyptoMemory spaces_[PYPTO_SPACE_COUNT];
};

} // namespace pypto::runtime
