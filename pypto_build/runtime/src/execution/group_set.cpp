// The barrier, and the moment when all are found to wait for each other.
#include "execution/group_set.h"

#include "base/json_writer.h"
#include "execution/group.h"

#include <algorithm>

namespace pypto::runtime {

GroupSet::~GroupSet() = default;

Group *GroupSet::add_group(const std::string members[], int32_t block) {
    for (int i = 0; i < kMembers; ++i)
        active_[i == 0] += !members[i].empty();
    groups_.push_back(std::make_unique<Group>(*this, members, block));
    return groups_.back().get();
}

// Returns whether a member waits at the barrier while another that should come has returned.
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
    if (aborted_)
        return Result::Aborted;
    const int kind = static_cast<int>(cores);
    Meeting &meeting = meetings_[kind];
    const uint64_t number = meeting.number;
    ++meeting.arrived;
    if (meeting.arrived < expected(kind))
        told.begins();
    if (missed()) {
        group.meeting_[member] = kind;
        return Result::Deadlock;
    }
    if (meeting.arrived >= expected(kind)) {
        meeting.arrived = 0;
        ++meeting.number;
        ++group.met_[member];
        for (const std::unique_ptr<Group> &each : groups_)
            for (int i = 0; i < kMembers; ++i)
                if (each->meeting_[i] == kind) {
                    each->meeting_[i] = Group::kNowhere;
                    ++each->met_[i];
                }
        changed_.notify_all();
        return Result::Ok;
    }
    group.meeting_[member] = kind;
    if (deadlocked())
        return Result::Deadlock;
    changed_.wait(lock, [&] { return aborted_ || meeting.number != number; });
    if (meeting.number == number)
        return Result::Aborted;
    told.ends();
    return Result::Ok;
}

bool GroupSet::all_wait(const std::vector<std::pair<const Group *, int>> &elsewhere) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::unique_ptr<Group> &group : groups_)
        for (int i = 0; i < kMembers; ++i) {
            const std::pair<const Group *, int> member{group.get(), i};
            if (group->active_[i] && !group->blocked(i) &&
                std::find(elsewhere.begin(), elsewhere.end(), member) == elsewhere.end())
                return false;
        }
    return true;
}

bool GroupSet::leave(Group &group, int member) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int kind = member == 0;
    group.active_[member] = false;
    group.returned_ns_[member] = monotonic_ns();
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
    JsonWriter json;
    json.open('{');
    if (missed()) {
        describe_barrier(json);
        Fault fault(FaultKind::BarrierMissed);
        fault.details = ",\"barrier\":" + json.close('}').str();
        return fault;
    }
    int meeting = 0;
    for (const Meeting &each : meetings_)
        meeting += each.arrived;
    json.key("meeting").number(meeting);
    group.describe(json);
    Fault fault(FaultKind::GroupDeadlock);
    fault.details = ",\"group\":" + json.close('}').str();
    if (meeting > 0 && groups_.size() > 1) {
        JsonWriter others;
        others.open('{');
        describe_barrier(others);
        fault.details += ",\"barrier\":" + others.close('}').str();
    }
    return fault;
}

void GroupSet::describe_barrier(JsonWriter &json) const {
    const int64_t now = monotonic_ns();
    json.key("places").open('[');
    for (const std::unique_ptr<Group> &group : groups_)
        for (int i = 0; i < kMembers; ++i) {
            if (!group->present_[i])
                continue;
            json.open('{').key("block").number(group->block_).key("member").number(i);
            json.key("kernel").text(group->names_[i]).key("met").number(group->met_[i]);
            if (group->meeting_[i] != Group::kNowhere)
                json.key("cores").number(group->meeting_[i]);
            if (!group->active_[i])
                json.key("returned_ago_ns").number(now - group->returned_ns_[i]);
            json.close('}');
        }
    json.close(']');
}

} // namespace pypto::runtime
