// Kernels that run at the same time: the members of one block, or of all blocks of a task that start together.
//
// One lock guards their pipes and the barrier over all of them (SYNCALL), so that waiting in a circle over both is seen
// at once.
#pragma once

#include "base/fault.h"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace pypto::runtime {

class FlightWait;
class Group;
class JsonWriter;

class GroupSet {
public:
    enum class Cores : uint32_t { Vector = 0, Cube = 1, Both = 2 };
    enum class Result { Ok, Aborted, Deadlock };

    /// `meets`: all blocks of the task are in it, so that they can wait for each other.
    explicit GroupSet(bool meets) : meets_(meets) {}
    ~GroupSet();

    /// The members of one more block: kernel names by member, empty if there is none. Before anything runs.
    Group *add_group(const std::string members[], int32_t block);
    bool meets() const { return meets_; }

    /// Returns when every member of these kinds has called. On Deadlock the caller reports; everybody else gets
    /// Aborted.
    Result meet(Group &group, int member, Cores cores, FlightWait &told);
    /// A member has returned. True if others now wait for it in vain; the caller reports.
    bool leave(Group &group, int member);
    void abort();
    /// Returns whether every member that has not returned waits for others, or is in `elsewhere`, which waits, too.
    bool all_wait(const std::vector<std::pair<const Group *, int>> &elsewhere);
    /// The fault of a group that found a deadlock: what keeps its members, and the likely cause.
    Fault deadlock(Group &group);

private:
    friend class Group; // its pipes stand under the same lock

    struct Meeting {
        int arrived = 0;
        uint64_t number = 0;
    };
    int expected(int cores) const { return cores == 2 ? active_[0] + active_[1] : active_[cores]; }
    bool missed() const;
    /// Adds who waits at a barrier, and who has returned. Under the lock.
    void describe_barrier(JsonWriter &json) const;
    bool deadlocked() const;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<Group>> groups_;
    const bool meets_;
    int active_[2] = {}; // vector and cube members that have not returned
    int left_[2] = {};
    Meeting meetings_[3];
    bool aborted_ = false;
};

} // namespace pypto::runtime
