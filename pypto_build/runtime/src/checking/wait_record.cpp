// Finds the producers that a task has to name.
#include "checking/wait_record.h"

#include <algorithm>
#include <functional>

namespace pypto::runtime {

namespace {

/// Steps back that are worth it for each producer, and for a task. A producer that is not met until then stays.
constexpr size_t kStepsAProducer = 8, kSteps = 64;
constexpr uint32_t kNone = ~0u;

} // namespace

void WaitRecord::edge(uint64_t producer) {
    const size_t ring = producer >> 32, local = producer & 0xffffffffu;
    const uint32_t number = ring < numbers_.size() && local < numbers_[ring].size() ? numbers_[ring][local] : kNone;
    if (number != kNone && (pending_.empty() || pending_.back() != number)) // kNone: an allocation
        pending_.push_back(number);
}

void WaitRecord::submitted(const Task &task) {
    if (task.number == kNoNumber)
        return pending_.clear();
    const uint32_t mark = static_cast<uint32_t>(rows_.size()) + 1;
    size_t steps = kSteps + kStepsAProducer * pending_.size();
    std::vector<uint32_t> kept, open;
    if (std::is_sorted(pending_.begin(), pending_.end())) // as a rule
        std::reverse(pending_.begin(), pending_.end());
    else
        std::sort(pending_.begin(), pending_.end(), std::greater<>());
    for (const uint32_t producer : pending_) {
        if (reached_[producer] == mark)
            continue;
        reached_[producer] = mark;
        kept.push_back(producer);
        for (open.push_back(producer); !open.empty() && steps > 0;) {
            const uint32_t number = open.back();
            open.pop_back();
            for (const uint32_t before : rows_[number].producers)
                if (before >= pending_.back() && reached_[before] != mark) {
                    reached_[before] = mark;
                    open.push_back(before);
                    --steps;
                }
        }
        open.clear();
    }
    const size_t ring = task.id >> 32, local = task.id & 0xffffffffu;
    numbers_.resize(std::max(numbers_.size(), ring + 1));
    numbers_[ring].resize(std::max(numbers_[ring].size(), local + 1), kNone);
    numbers_[ring][local] = static_cast<uint32_t>(rows_.size());
    rows_.push_back({task.id, std::move(kept)});
    reached_.push_back(0);
    pending_.clear();
}

} // namespace pypto::runtime
