// Pipes: slots that are acquired, committed, read and freed, and the message of a deadlock.
#include "execution/group.h"

#include "base/json_writer.h"

#include <algorithm>
#include <cstring>

namespace pypto::runtime {

namespace {

constexpr uint64_t kSlotAlignment = 128;

} // namespace

Group::Group(GroupSet &set, const std::string members[], int32_t block) : set_(set), block_(block) {
    for (int i = 0; i < kMembers; ++i) {
        names_[i] = members[i];
        present_[i] = active_[i] = !members[i].empty();
        lanes_ += i > 0 && present_[i];
    }
}

PyptoPipe *Group::open(const PyptoPipeSpec &spec) {
    const std::lock_guard<std::mutex> lock(set_.mutex_);
    for (const std::unique_ptr<PyptoPipe> &pipe : pipes_)
        if (std::memcmp(&pipe->spec, &spec, sizeof(spec)) == 0)
            return pipe.get();
    auto pipe = std::make_unique<PyptoPipe>();
    pipe->spec = spec;
    const int lanes = spec.no_split || lanes_ < 2 ? 1 : 2;
    for (int to_vector = 0; to_vector < 2; ++to_vector) {
        PipeRing &ring = pipe->rings[to_vector];
        ring.producers = to_vector ? 1 : lanes;
        ring.consumers = to_vector ? lanes : 1;
        if ((spec.direction & (to_vector ? 1u : 2u)) == 0)
            continue;
        const uint64_t bytes = static_cast<uint64_t>(spec.slot_bytes) * std::max(spec.slot_count, 1u);
        ring.storage = std::make_unique<uint8_t[]>(bytes + kSlotAlignment);
        const uint64_t start = reinterpret_cast<uint64_t>(ring.storage.get());
        ring.slots = ring.storage.get() + (kSlotAlignment - start % kSlotAlignment) % kSlotAlignment;
    }
    pipes_.push_back(std::move(pipe));
    return pipes_.back().get();
}

bool Group::satisfied(const Wait &wait) const {
    const PipeRing &ring = wait.pipe->rings[wait.to_vector];
    return wait.producing ? wait.slot < ring.freed() + std::max(wait.pipe->spec.slot_count, 1u)
                          : wait.slot < ring.full();
}

Group::Result Group::acquire(int member, PyptoPipe *pipe, int to_vector, bool producing, uint8_t **slot,
                             FlightWait &told) {
    std::unique_lock<std::mutex> lock(set_.mutex_);
    PipeRing &ring = pipe->rings[to_vector];
    const int lane = lane_of(ring, member);
    uint64_t &counter = producing ? ring.acquired[lane] : ring.fronted[lane];
    Wait &wait = waits_[member];
    wait = {pipe, to_vector, producing, counter};
    while (!set_.aborted_ && !satisfied(wait)) {
        told.begins();
        if (set_.deadlocked())
            return Result::Deadlock;
        set_.changed_.wait(lock);
    }
    if (set_.aborted_)
        return Result::Aborted;
    told.ends();
    wait.pipe = nullptr;
    *slot = ring.slots + counter % std::max(pipe->spec.slot_count, 1u) * pipe->spec.slot_bytes;
    ++counter;
    return Result::Ok;
}

bool Group::advance(int member, PyptoPipe *pipe, int to_vector, bool producing, int64_t now) {
    const std::lock_guard<std::mutex> lock(set_.mutex_);
    PipeRing &ring = pipe->rings[to_vector];
    const int lane = lane_of(ring, member);
    uint64_t &done = producing ? ring.committed[lane] : ring.released[lane];
    if (done >= (producing ? ring.acquired[lane] : ring.fronted[lane]))
        return false;
    ++done;
    (producing ? ring.pushed_by : ring.freed_by) = member;
    (producing ? ring.pushed_ns : ring.freed_ns) = now;
    set_.changed_.notify_all();
    return true;
}

const char *Group::likely_cause() const {
    for (int i = 0; i < kMembers; ++i) {
        const Wait &wait = waits_[i];
        if (!active_[i] || wait.pipe == nullptr)
            continue;
        const PipeRing &ring = wait.pipe->rings[wait.to_vector];
        for (const std::unique_ptr<PyptoPipe> &other : pipes_)
            if (other.get() != wait.pipe && other->spec.flag_id == wait.pipe->spec.flag_id)
                return "unlike_pipes";
        if (!wait.producing && ring.full() == 0)
            return "never_pushed";
        if (wait.producing && ring.freed() == 0 && ring.popped() > 0)
            return "never_freed";
        if (wait.producing && ring.popped() == 0)
            return "never_popped";
    }
    return "unlike_numbers";
}

void Group::describe(JsonWriter &json) const {
    const int64_t now = monotonic_ns();
    json.key("rings").open('[');
    for (const std::unique_ptr<PyptoPipe> &pipe : pipes_)
        for (int to_vector = 1; to_vector >= 0; --to_vector) {
            const PipeRing &ring = pipe->rings[to_vector];
            if (ring.slots == nullptr)
                continue;
            json.open('{').key("pipe").number(pipe->spec.flag_id).key("to_vector").number(to_vector);
            json.key("slots").number(pipe->spec.slot_count).key("slot_bytes").number(pipe->spec.slot_bytes);
            json.key("pushed").number(ring.full()).key("popped").number(ring.popped());
            json.key("freed").number(ring.freed());
            if (ring.pushed_by >= 0)
                json.key("pushed_by").number(ring.pushed_by).key("pushed_ago_ns").number(now - ring.pushed_ns);
            if (ring.freed_by >= 0)
                json.key("freed_by").number(ring.freed_by).key("freed_ago_ns").number(now - ring.freed_ns);
            json.close('}');
        }
    json.close(']').key("members").open('[');
    for (int i = 0; i < kMembers; ++i) {
        if (!present_[i])
            continue;
        json.open('{').key("member").number(i).key("kernel").text(names_[i]).key("returned").boolean(!active_[i]);
        if (!active_[i])
            json.key("returned_ago_ns").number(now - returned_ns_[i]);
        json.key("meets").boolean(meeting_[i] != kNowhere);
        if (const Wait &wait = waits_[i]; wait.pipe) {
            json.key("waits").boolean(true).key("pipe").number(wait.pipe->spec.flag_id).key("slot").number(wait.slot);
            json.key("to_vector").number(wait.to_vector).key("producing").boolean(wait.producing);
        }
        json.close('}');
    }
    json.close(']').key("cause").text(likely_cause());
}

} // namespace pypto::runtime
