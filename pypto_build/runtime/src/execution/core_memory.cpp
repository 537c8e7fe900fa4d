// The on-chip memories of one core, with unmapped pages around each.
#include "execution/core_memory.h"

#include "base/fault.h"
#include "base/pages.h"

#include <sys/mman.h>

namespace pypto::runtime {

CoreMemory::CoreMemory(const Platform &platform) {
    bytes_ = kPage;
    for (const uint32_t bytes : platform.memory_bytes)
        bytes_ += pages(bytes) + kPage;
    void *region = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED)
        throw_fault(FaultKind::NoMemoryForCore);
    region_ = static_cast<uint8_t *>(region);
    uint8_t *next = region_ + kPage;
    for (int i = 0; i < PYPTO_SPACE_COUNT; ++i) {
        const uint64_t size = platform.memory_bytes[i];
        const uint64_t span = pages(size);
        mprotect(next, span, PROT_READ | PROT_WRITE);
        spaces_[i] = {next + (span - size), size}; // ends where the inaccessible page begins
        next += span + kPage;
    }
}

CoreMemory::~CoreMemory() {
    munmap(region_, bytes_);
}

void CoreMemory::touch() {
    for (const PyptoMemory &space : spaces_)
        for (uint64_t offset = 0; offset < space.size; offset += kPage)
            static_cast<volatile uint8_t *>(space.base)[offset] = 0; // as it is: nothing has been written yet
}

} // namespace pypto::runtime
