// The flight recorder: shared memory in which the orchestration and every core keep the last events of their own. It is
// always on. The parent of the process that runs kernels owns the memory, so it survives any end of the run.
//
// pypto_build/replay/flight.py reads it.
#pragma once

#include "base/clock.h"
#include "execution/kernel_library.h"
#include "layouts.h"

#include <vector>

namespace pypto::runtime {

/// A slot of a pipe: which way it travels, and which end of the pipe touches it.
enum FlightWay : uint8_t { kToVector = 1, kProducing = 2 };

/// Adds a record to a track; nothing without one.
inline void note(FlightTrack *track, const FlightRecord &record) {
    if (track == nullptr)
        return;
    const uint64_t count = track->count.load(std::memory_order_relaxed);
    track->records[count % kFlightRecords] = record;
    track->count.store(count + 1, std::memory_order_release);
}

/// Something that a thread may have to wait for: recorded once it does, and when it goes on.
class FlightWait {
public:
    FlightWait(FlightTrack *track, const FlightRecord &record) : track_(track), record_(record) {}

    void begins() {
        if (!begun_)
            tell(record_.event);
        begun_ = true;
    }
    /// Records the end of a wait.
    void ends() {
        if (begun_)
            tell(FlightEvent::GoesOn);
    }

private:
    void tell(FlightEvent event) {
        record_.event = event;
        record_.ns = monotonic_ns();
        note(track_, record_);
    }
    FlightTrack *track_;
    FlightRecord record_;
    bool begun_ = false;
};

/// The recorder of one run. Earlier runs in the same memory stay recorded.
class FlightRecorder {
public:
    /// Without memory it records nothing.
    FlightRecorder(void *memory, uint64_t bytes, const KernelLibrary &kernels);

    /// Returns the track of the orchestration's thread.
    FlightTrack *orchestration() const { return track(0); }
    /// Returns the track of a core; null where there is no room for it.
    FlightTrack *core(int index) const { return track(static_cast<uint32_t>(index) + 1); }
    /// Returns the number of a kernel's name in records.
    uint16_t name(int32_t func_id) const {
        return static_cast<size_t>(func_id) < names_.size() ? names_[static_cast<size_t>(func_id)] : 0;
    }

private:
    FlightTrack *track(uint32_t index) const { return index < tracks_ ? first_ + index : nullptr; }
    uint16_t intern(const std::string &name);

    FlightHead *head_ = nullptr;
    FlightTrack *first_ = nullptr;
    uint32_t tracks_ = 0;
    std::vector<uint16_t> names_; // by func_id
};

} // namespace pypto::runtime
