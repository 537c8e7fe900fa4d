// Kernels of one chip that wait for a value in memory: a signal (TWAIT), or the counter of an asynchronous completion.
// It remembers the last writer of a signal, and notices when no possible writer is left. Ranks of several chips wait by
// the board instead (chips/board.h).
#pragma once

#include "base/fault.h"

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace pypto::runtime {

struct Activation;

struct ValueWait {
    const Activation *activation;
    const int32_t *address;
    int32_t expected;
    uint32_t comparison; // WaitCmp; of a counter GE
    bool counter;        // of an asynchronous completion: unsigned

    bool holds() const;
};

class ValueWaits {
public:
    void add(const ValueWait &wait);
    void remove(const ValueWait &wait);
    /// A kernel adds to a signal, or sets it.
    void notify(const Activation &activation, int32_t *signal, int32_t value, bool set, int64_t now);

    /// Returns whether `running` units run, and all of their kernels wait in vain: for a value, or for each other.
    bool all_wait(uint32_t running);
    /// Returns the fault with their waits.
    Fault fault();

private:
    struct Change {
        uint64_t count = 0;
        int64_t ns = 0;
        int32_t value = 0;
        bool set = false;
        uint64_t task = 0;
        std::string kernel;
    };

    std::mutex mutex_;
    std::vector<const ValueWait *> waits_;
    std::unordered_map<uint64_t, Change> changes_;
};

} // namespace pypto::runtime
