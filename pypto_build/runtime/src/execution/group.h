// The members of one block of a task and the pipes between them.
//
// A pipe is a pair of rings, cube to vector and vector to cube. Members block on their set's condition variable; when
// every member that is left waits for another, the set is deadlocked and says so at once.
#pragma once

#include "crash/flight.h"
#include "execution/group_set.h"
#include "pypto/core_context.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct PyptoPipe;

namespace pypto::runtime {

inline constexpr int kMembers = 3;
inline constexpr const char *kMemberNames[kMembers] = {"AIC", "AIV0", "AIV1"};
inline constexpr int kLanes = 2;

/// Slots travelling one way. Counters only grow; a lane is a member of one side.
struct PipeRing {
    std::unique_ptr<uint8_t[]> storage;
    uint8_t *slots = nullptr;
    int producers = 0; // lanes on each side
    int consumers = 0;
    uint64_t acquired[kLanes] = {};
    uint64_t committed[kLanes] = {};
    uint64_t fronted[kLanes] = {};
    uint64_t released[kLanes] = {};
    // The member that did it last and when (CLOCK_MONOTONIC); -1: none yet.
    int pushed_by = -1, freed_by = -1;
    int64_t pushed_ns = 0, freed_ns = 0;
    // Clocks of the members when a slot became full or free; kept by the checked build.
    std::vector<std::array<uint32_t, kMembers>> full_clocks, freed_clocks;

    uint64_t full() const { return of_all(committed, producers); } // slots every producer has committed
    uint64_t popped() const { return of_all(fronted, consumers); } // slots every consumer has read or reads
    uint64_t freed() const { return of_all(released, consumers); } // slots every consumer has released

private:
    static uint64_t of_all(const uint64_t (&counts)[kLanes], int lanes) {
        return lanes == 2 ? std::min(counts[0], counts[1]) : counts[0];
    }
};

} // namespace pypto::runtime

struct PyptoPipe {
    PyptoPipeSpec spec;
    pypto::runtime::PipeRing rings[2]; // [0] vector to cube, [1] cube to vector
};

namespace pypto::runtime {

class JsonWriter;

class Group {
public:
    /// The wait of one member.
    struct Wait {
        PyptoPipe *pipe = nullptr;
        int to_vector = 0;
        bool producing = false;
        uint64_t slot = 0;
    };
    using Result = GroupSet::Result;

    /// `members[i]`: kernel name of member i of the block, empty if there is none.
    Group(GroupSet &set, const std::string members[], int32_t block);

    PyptoPipe *open(const PyptoPipeSpec &spec);
    /// Slot to fill (producing) or to read; blocks. On Deadlock the caller reports, everybody else gets Aborted.
    Result acquire(int member, PyptoPipe *pipe, int to_vector, bool producing, uint8_t **slot, FlightWait &told);
    /// Publishes the oldest acquired slot, or frees the oldest one read, at time `now`. False: none is outstanding.
    bool advance(int member, PyptoPipe *pipe, int to_vector, bool producing, int64_t now);
    /// Index of a member's counters: a ring for one vector core has one lane.
    static int lane_of(const PipeRing &ring, int member) {
        return member == 2 && std::max(ring.producers, ring.consumers) == 2;
    }

private:
    friend class GroupSet;
    static constexpr int kNowhere = -1;

    bool satisfied(const Wait &wait) const;
    bool blocked(int member) const {
        return meeting_[member] != kNowhere || (waits_[member].pipe && !satisfied(waits_[member]));
    }
    /// Adds what is in each pipe, what each member waits for, and the likely cause. Under the set's lock.
    void describe(JsonWriter &json) const;
    const char *likely_cause() const;

    GroupSet &set_;
    const int32_t block_;
    std::vector<std::unique_ptr<PyptoPipe>> pipes_;
    std::string names_[kMembers];
    bool present_[kMembers] = {};
    bool active_[kMembers] = {};
    Wait waits_[kMembers];
    int64_t returned_ns_[kMembers] = {};
    int32_t met_[kMembers] = {};                             // barriers that each has passed
    int meeting_[kMembers] = {kNowhere, kNowhere, kNowhere}; // GroupSet::Cores each waits for at the barrier
    int lanes_ = 0;
};

} // namespace pypto::runtime
