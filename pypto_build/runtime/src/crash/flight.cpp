// Shared memory for the events of each thread, and the names that they refer to.
#include "crash/flight.h"

#include <algorithm>
#include <cstring>

namespace pypto::runtime {

FlightRecorder::FlightRecorder(void *memory, uint64_t bytes, const KernelLibrary &kernels) {
    if (memory == nullptr || bytes < sizeof(FlightHead) + sizeof(FlightTrack))
        return;
    head_ = static_cast<FlightHead *>(memory);
    first_ = reinterpret_cast<FlightTrack *>(head_ + 1);
    tracks_ = static_cast<uint32_t>(std::min<uint64_t>((bytes - sizeof(FlightHead)) / sizeof(FlightTrack), 1024));
    head_->version = kFlightVersion;
    head_->tracks = tracks_;
    head_->magic = kFlightMagic;
    for (int32_t func_id = 0; func_id < kernels.end(); ++func_id) {
        const Kernel *kernel = kernels.find(func_id);
        names_.push_back(kernel ? intern(kernel->name) : 0);
    }
}

// Programs of several chips share the memory one after the other, and each may have the names of the others.
uint16_t FlightRecorder::intern(const std::string &name) {
    char text[sizeof(head_->names[0])] = {};
    name.copy(text, sizeof(text) - 1);
    const size_t start = std::hash<std::string>()(text);
    for (size_t probe = 0; probe < kFlightNames; ++probe) {
        const size_t place = (start + probe) % kFlightNames;
        char (&known)[sizeof(text)] = head_->names[place];
        if (known[0] == 0)
            std::memcpy(known, text, sizeof(text));
        if (std::memcmp(known, text, sizeof(text)) == 0)
            return static_cast<uint16_t>(place + 1);
    }
    return 0;
}

} // namespace pypto::runtime
