#include "execution/group.h"

#include "base/fault.h"

#include <algorithm>
#include <cstring>

namespace pypto::runtime {

namespace {

constexpr uint64_t kSlotAlignment = 128;

uint64_t least(const uint64_t counts[], int lanes) {
    return lanes == 2 ? std::min(counts[0], counts[1]) : counts[0];
}

const char *direction_name(int to_vector) {
    return to_vector ? "cube to vector" : "vector to cube";
}

} // namespace

uint64_t PipeRing::full() const {
    return least(committed, producers);
}
uint64_t PipeRing::freed() const {
    return least(released, consumers);
}

Group::Group(Gang &gang, const std::string members[]) : gang_(gang) {
    for (int i = 0; i < kMembers; ++i) {
        names_[i] = members[i];
        present_[i] = active_[i] = !members[i].empty();
        lanes_ += i > 0 && present_[i];
    }
}

PyptoPipe *Group::open(const PyptoPipeSpec &spec) {
    const std::lock_guard<std::mutex> lock(gang_.mutex_);
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

Group::Result Group::acquire(int member, PyptoPipe *pipe, int to_vector, bool producing, uint8_t **slot) {
    std::unique_lock<std::mutex> lock(gang_.mutex_);
    PipeRing &ring = pipe->rings[to_vector];
    const int lane = lane_of(member);
    uint64_t &counter = producing ? ring.acquired[lane] : ring.fronted[lane];
    Wait &wait = waits_[member];
    wait = {pipe, to_vector, producing, counter};
    while (!gang_.aborted_ && !satisfied(wait)) {
        if (gang_.deadlocked())
            return Result::Deadlock;
        gang_.changed_.wait(lock);
    }
    if (gang_.aborted_)
        return Result::Aborted;
    wait.pipe = nullptr;
    *slot = ring.slots + counter % std::max(pipe->spec.slot_count, 1u) * pipe->spec.slot_bytes;
    ++counter;
    return Result::Ok;
}

bool Group::advance(int member, PyptoPipe *pipe, int to_vector, bool producing) {
    const std::lock_guard<std::mutex> lock(gang_.mutex_);
    PipeRing &ring = pipe->rings[to_vector];
    const int lane = lane_of(member);
    uint64_t &done = producing ? ring.committed[lane] : ring.released[lane];
    if (done >= (producing ? ring.acquired[lane] : ring.fronted[lane]))
        return false;
    ++done;
    gang_.changed_.notify_all();
    return true;
}

std::string Group::likely_cause() const {
    for (int i = 0; i < kMembers; ++i) {
        const Wait &wait = waits_[i];
        if (!active_[i] || wait.pipe == nullptr)
            continue;
        const PipeRing &ring = wait.pipe->rings[wait.to_vector];
        if (pipes_.size() > 1)
            for (const std::unique_ptr<PyptoPipe> &other : pipes_)
                if (other.get() != wait.pipe && other->spec.flag_id == wait.pipe->spec.flag_id)
                    return "the members describe the pipe differently (slot size, slot count or direction): make the "
                           "TPipe "
                           "arguments equal";
        if (!wait.producing && ring.full() == 0)
            return "pop without push: the other side never filled a slot in this direction";
        if (wait.producing && ring.freed() == 0 && least(ring.fronted, ring.consumers) > 0)
            return "missing free: slots are popped and never freed (TFREE)";
        if (wait.producing && least(ring.fronted, ring.consumers) == 0)
            return "push without pop, or the ring has fewer slots than the pipeline is deep: raise the slot number";
    }
    return "the number of pushes, pops and frees differs between the members";
}

std::string Group::describe() const {
    std::string text;
    for (const std::unique_ptr<PyptoPipe> &pipe : pipes_) {
        for (int to_vector = 1; to_vector >= 0; --to_vector) {
            const PipeRing &ring = pipe->rings[to_vector];
            if (ring.slots == nullptr)
                continue;
            text += format("pipe %u %s: %u slots of %u bytes, %llu pushed, %llu popped, %llu freed; ",
                           pipe->spec.flag_id, direction_name(to_vector), pipe->spec.slot_count, pipe->spec.slot_bytes,
                           static_cast<unsigned long long>(ring.full()),
                           static_cast<unsigned long long>(least(ring.fronted, ring.consumers)),
                           static_cast<unsigned long long>(ring.freed()));
        }
    }
    static const char *const kRoles[kMembers] = {"AIC", "AIV0", "AIV1"};
    for (int i = 0; i < kMembers; ++i) {
        if (!present_[i])
            continue;
        const Wait &wait = waits_[i];
        if (!active_[i])
            text += format("%s %s has returned; ", kRoles[i], names_[i].c_str());
        else if (meeting_[i] != kNowhere)
            text += format("%s %s waits at SYNCALL; ", kRoles[i], names_[i].c_str());
        else if (wait.pipe)
            text += format("%s %s waits to %s slot %llu of pipe %u (%s); ", kRoles[i], names_[i].c_str(),
                           wait.producing ? "push" : "pop", static_cast<unsigned long long>(wait.slot),
                           wait.pipe->spec.flag_id, direction_name(wait.to_vector));
    }
    return text + "likely cause: " + likely_cause();
}

} // namespace pypto::runtime
