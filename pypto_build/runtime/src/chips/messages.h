// messages.json: when the kernels of a dispatch notified signals and waited for them, in the machine's monotonic clock,
// which all ranks share.
#pragma once

#include "base/json_writer.h"

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace pypto::runtime {

struct Activation;

class Messages {
public:
    /// `after` is the signal's value right after a notification that was begun at `time_ns`.
    void notified(const Activation &activation, const int32_t *signal, int32_t value, bool set, int32_t after,
                  int64_t time_ns);
    /// A wait that ended; `held` says whether the signal became what was expected.
    void waited(const Activation &activation, const int32_t *signal, int32_t expected, uint32_t comparison, bool held,
                int64_t begun_ns, int64_t ended_ns);
    /// `origin_ns` is where the timeline of this dispatch begins. Throws FaultError naming the path.
    void write(const std::string &directory, int64_t origin_ns);

private:
    struct Notification {
        int64_t time_ns;
        uint64_t address;
        int32_t value, after;
        bool set;
        uint64_t task; // its id
        uint32_t kernel;
    };
    struct Wait {
        int64_t begun_ns, ended_ns;
        uint64_t address;
        int32_t expected;
        uint32_t comparison;
        bool held;
        uint64_t task;
        uint32_t kernel;
    };
    uint32_t kernel_of(const Activation &activation);

    std::mutex mutex_;
    std::vector<std::string> kernels_;
    std::vector<Notification> notifications_;
    std::vector<Wait> waits_;
};

} // namespace pypto::runtime
