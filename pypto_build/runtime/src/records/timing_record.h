// Durations of a run and its parts, as log lines that simpler's strace_timing reads: the whole, orchestrating,
// scheduling, and the tasks that the orchestration gave a timing slot.
#pragma once

#include "base/log.h"
#include "records/observers.h"

namespace pypto::runtime {

struct RunTimes {
    int64_t start_ns;
    int64_t orchestrated_ns; // the orchestration has returned
    int64_t end_ns;
};

class TimingRecord : public TaskObserver {
public:
    void served(const Service &service) override;
    /// A line for each part; a slot lasts from the first of its tasks taken to the last one over.
    void write(const RunTimes &times, const Log &log) const;

private:
    struct Slot {
        int64_t first_ns = 0;
        int64_t last_ns = 0;
    };
    Slot slots_[16];
    int64_t first_task_ns_ = 0;
};

} // namespace pypto::runtime
