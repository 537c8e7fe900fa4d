// The barrier, and the moment when all are found to wait for each other.
#include "execution/group_set.h"

#include "base/json_writer.h"
#include "execution/group.h"

namespace pypto::runtime {

GroupSet::~GroupSet() = default;

Group *GroupSet::add_group(const std::string members[]) {
    for (int i = 0; i < kMembers; ++i)
        active_[i == 0] += !members[i].empty();
    groups_.push_back(std::make_unique<Group>(*this, members));
    return groups_.back().get();
}

// Somebody is at the barrier, and a member that should come has returned already.
bool GroupSet::missed() const {
    for (int cores = 0; cores < 3; ++cores)
        if (meetings_[cores].arrived > 0 && (cores == 2 ? left_[0] + left_[1] : left_[cores]) > 0)
            return true;
    return false;
}

bool GroupSet::deadlocked() const {
    bool anyone = false;
    for (const std::unique_ptr<Group> &group : groups_)
        for (int i = 0; i < kMembers; ++i) {
            if (!group->active_[i])
                continue;
            if (!group->blocked(i))
                return false;
            anyone = true;
        }
    return anyone;
}

GroupSet::Result GroupSet::meet(Group &group, int member, Cores cores, FlightWait &told) {
    std::unique_lock<std::mutex> lock(mutex_);
    const int kind = static_cast<int>(cores);
    Meeting &meeting = meetings_[kind];
    const uint64_t number = meeting.number;
    ++meeting.arrived;
    if (meeting.arrived < expected(kind))
        told.begins();
    if (!aborted_ && missed())
        return Result::Deadlock;
    if (meeting.arrived >= expected(kind)) {
        meeting.arrived = 0;
        ++meeting.number;
        for (const std::unique_ptr<Group> &each : groups_)
            for (int &place : each->meeting_)
                place = place == kind ? Group::kNowhere : place;
        changed_.notify_all();
        return Result::Ok;
    }
    group.meeting_[member] = kind;
    if (!aborted_ && deadlocked())
        return Result::Deadlock;
    changed_.wait(lock, [&] { return aborted_ || meeting.number != number; });
    if (meeting.number == number)
        return Result::Aborted;
    told.ends();
    return Result::Ok;
}

bool GroupSet::leave(Group &group, int member) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int kind = member == 0;
    group.active_[member] = false;
    --active_[kind];
    ++left_[kind];
    return !aborted_ && (missed() || deadlocked());
}

void GroupSet::abort() {
    const std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
}

Fault GroupSet::deadlock(Group &group) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (missed())
        return Fault(FaultKind::BarrierMissed);
    int meeting = 0;
    for (const Meeting &each : meetings_)
        meeting += each.arrived;
    JsonWriter json;
    json.open('{').key("meeting").number(meeting);
    group.describe(json);
    Fault fault(FaultKind::GroupDeadlock);
    fault.details = ",\"group\":" + json.close('}').str();
    return fault;
}

} // namespace pypto::runtime
