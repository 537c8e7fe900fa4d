// Waits for values: waiters, last writers, and whether a kernel is left that could change the value.
#include "execution/value_waits.h"

#include "base/clock.h"
#include "base/json_writer.h"
#include "crash/crash.h"
#include "execution/core.h"
#include "execution/kernel_library.h"
#include "pypto/comparison.h"

#include <algorithm>

namespace pypto::runtime {

namespace {

constexpr size_t kShownWaits = 8;

/// Blocks of a task that run at the same time wait for each other by their set; a lone kernel is a unit of its own.
const void *unit_of(const ValueWait &wait) {
    const Activation &activation = *wait.activation;
    return activation.groups ? static_cast<const void *>(activation.groups) : static_cast<const void *>(&activation);
}

} // namespace

bool ValueWait::holds() const {
    const int32_t value = __atomic_load_n(address, __ATOMIC_SEQ_CST);
    return counter ? static_cast<uint32_t>(value) >= static_cast<uint32_t>(expected)
                   : compares(value, expected, comparison);
}

void ValueWaits::add(const ValueWait &wait) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waits_.push_back(&wait);
}

void ValueWaits::remove(const ValueWait &wait) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waits_.erase(std::find(waits_.begin(), waits_.end(), &wait));
}

void ValueWaits::notify(const Activation &activation, int32_t *signal, int32_t value, bool set, int64_t now) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Change &change = changes_[reinterpret_cast<uint64_t>(signal)];
    ++change.count;
    change.ns = now;
    change.value = value;
    change.set = set;
    change.task = activation.task->number;
    change.kernel = activation.kernel->name;
    if (set)
        __atomic_store_n(signal, value, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_add(signal, value, __ATOMIC_SEQ_CST);
}

bool ValueWaits::all_wait(uint32_t running) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<const void *> units;
    for (const ValueWait *wait : waits_) {
        if (wait->holds())
            return false;
        if (std::find(units.begin(), units.end(), unit_of(*wait)) == units.end())
            units.push_back(unit_of(*wait));
    }
    if (units.size() != running)
        return false;
    for (const ValueWait *wait : waits_)
        if (GroupSet *groups = wait->activation->groups) {
            std::vector<std::pair<const Group *, int>> members;
            for (const ValueWait *other : waits_)
                if (other->activation->groups == groups)
                    members.emplace_back(other->activation->group, other->activation->member);
            if (!groups->all_wait(members))
                return false;
        }
    return true;
}

Fault ValueWaits::fault() {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t now = monotonic_ns();
    JsonWriter json;
    json.open('[');
    for (size_t i = 0; i < waits_.size() && i < kShownWaits; ++i) {
        const ValueWait &wait = *waits_[i];
        const Activation &activation = *wait.activation;
        const uint64_t address = reinterpret_cast<uint64_t>(wait.address);
        const AddressPlace place = place_of(address, &activation);
        json.open('{').key("task").number(activation.task->number).key("kernel").text(activation.kernel->name);
        json.key("block").number(activation.context.block_idx).key("member").number(activation.member);
        json.key("counter").boolean(wait.counter).key("address").number(address);
        json.key("expected").number(wait.expected).key("comparison").number(wait.comparison);
        json.key("value").number(*wait.address);
        json.key("near").number(static_cast<int64_t>(place.nearness)).key("name").text(place.name);
        json.key("distance").number(place.distance).key("size").number(place.bytes);
        if (const auto found = changes_.find(address); found != changes_.end()) {
            const Change &change = found->second;
            json.key("changes").number(change.count).key("changed_ago_ns").number(now - change.ns);
            json.key("changed_to").number(change.value).key("changed_set").boolean(change.set);
            json.key("changed_by").text(change.kernel).key("changed_task").number(change.task);
        }
        json.close('}');
    }
    Fault fault(FaultKind::ValueWait, {{"count", waits_.size()}});
    fault.details = ",\"values\":" + json.close(']').str();
    return fault;
}

} // namespace pypto::runtime
