// A choice of kernel calls: tasks by number, each with blocks of it or all of them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace pypto::runtime {

class CallSet {
public:
    /// `pairs`: task and block, one after the other; block -1 stands for all of the task's.
    explicit CallSet(const std::vector<int64_t> &pairs) {
        for (size_t i = 0; i + 1 < pairs.size(); i += 2)
            blocks_[pairs[i]].insert(pairs[i + 1]);
    }

    bool empty() const { return blocks_.empty(); }
    /// Returns whether the set has a block of a task; for block -1, whether it has any.
    bool contains(uint64_t task, int64_t block) const {
        if (blocks_.empty())
            return false;
        const auto found = blocks_.find(static_cast<int64_t>(task));
        return found != blocks_.end() && (block < 0 || found->second.count(-1) || found->second.count(block));
    }

private:
    std::unordered_map<int64_t, std::unordered_set<int64_t>> blocks_;
};

} // namespace pypto::runtime
