// The flight recorder: shared memory in which the orchestration and every core keep the last events of their own. It is
// always on. The parent of the process that runs kernels owns the memory, so it survives any end of the run.
//
// pypto_build/runtime/flight.py reads the same layout; all fields are little-endian and at fixed offsets.
#pragma once

#include "base/clock.h"
#include "execution/kernel_library.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace pypto::runtime {

inline constexpr uint64_t kFlightMagic = 0x544847494c465050ull; // "PPFLIGHT"
inline constexpr uint32_t kFlightVersion = 1;
inline constexpr uint32_t kFlightRecords = 1024; // of a track
inline constexpr uint32_t kFlightNames = 512;    // kernels of all runs

/// Kinds of records, with the meaning of `object` and `value`.
enum class FlightEvent : uint16_t {
    None,
    RunBegins, // value: the rank
    RunEnds,
    Submits,         // a task; value: producers that it has to wait for
    KernelBegins,    // value: its func_id
    KernelReturns,   // of the task and member before
    WaitsForSlot,    // object: the pipe; value: the slot; detail: FlightWay
    PassesSlot,      // a slot is filled or freed; the same
    WaitsAtBarrier,  // detail: GroupSet::Cores
    WaitsForValue,   // object: the address; value: what is expected; detail: WaitCmp
    SetsValue,       // object: the address; value: what it is set to
    AddsValue,       // object: the address; value: what is added
    WaitsForCounter, // of an asynchronous completion; object: the address; value: what it has to reach
    WaitsForRoom,    // object: bytes asked for; value: the ring; detail: Shortage
    WaitsForTasks,   // that write, or use, a tensor; value: how many; detail: 1 with those that use it
    WaitsForEnd,     // of all tasks
    GoesOn,          // after a wait
    Fault,           // value: FaultKind
};

/// A slot of a pipe: which way it travels, and which end of the pipe touches it.
enum FlightWay : uint8_t { kToVector = 1, kProducing = 2 };

struct FlightRecord {
    int64_t ns; // CLOCK_MONOTONIC
    FlightEvent event;
    uint16_t name; // of the kernel, plus one; 0: none
    uint8_t member;
    uint8_t detail;
    uint16_t block;
    uint32_t task; // its number; ~0: none
    int32_t value;
    uint64_t object;
};

/// Written by one thread. The latest record is the `count`-th.
struct FlightTrack {
    std::atomic<uint64_t> count;
    uint64_t reserved[7];
    FlightRecord records[kFlightRecords];
};

struct FlightHead {
    uint64_t magic;
    uint32_t version;
    uint32_t tracks; // that there is room for
    uint64_t reserved[6];
    char names[kFlightNames][64];
};

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
