// Spans of the tasks that an orchestration gave a timing slot, as log lines that simpler's strace_timing reads.
#pragma once

#include "observers.h"

namespace pypto::runtime {

class TimingRecord : public TaskObserver {
public:
    explicit TimingRecord(int64_t origin_ns) : origin_ns_(origin_ns) {}

    void served(const Service &service) override;
    /// One line on stderr for each slot in use: from the first of its tasks taken to the last one over.
    void write() const;

private:
    struct Slot {
        int64_t first_ns = 0;
        int64_t last_ns = 0;
    };
    int64_t origin_ns_;
    Slot slots_[16];
};

} // namespace pypto::runtime
