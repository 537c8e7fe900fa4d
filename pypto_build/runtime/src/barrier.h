// The barrier of all blocks of a task (SYNCALL). Only blocks that run at the same time can wait for each other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

namespace pypto::runtime {

class Barrier {
public:
    enum class Cores : uint32_t { Vector = 0, Cube = 1, Both = 2 };
    enum class Result { Ok, Aborted, Deadlock };

    /// Members of all blocks that run together, by the kind of their core.
    Barrier(int cubes, int vectors) : active_{vectors, cubes} {}

    /// Returns when every member of these kinds has called. On Deadlock the caller reports; everybody else gets
    /// Aborted.
    Result wait(Cores cores);
    /// A member has returned. True if others now wait for it in vain; the caller reports.
    bool leave(bool is_vector);
    void abort();

private:
    struct Meeting {
        int arrived = 0;
        uint64_t number = 0;
    };
    int expected(int cores) const { return cores == 2 ? active_[0] + active_[1] : active_[cores]; }
    bool stuck() const;

    std::mutex mutex_;
    std::condition_variable changed_;
    int active_[2]; // vector and cube members that have not returned
    int left_[2] = {};
    Meeting meetings_[3];
    bool aborted_ = false;
};

} // namespace pypto::runtime
