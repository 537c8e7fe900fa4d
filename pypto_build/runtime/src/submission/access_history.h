// Readers and writers of bytes: the extra ordering of STRICT runs.
#pragma once

#include "submission/tensor_map.h"

#include <unordered_map>

namespace pypto::runtime {

/// Orders every pair of overlapping accesses of which one writes; declarations do not matter.
class AccessHistory {
public:
    /// Calls edge(task) for each earlier access that conflicts; then remembers this one.
    template <typename Edge> void access(const ChipTensor &tensor, uint64_t task, bool writes, Edge edge) {
        std::vector<Entry> &entries = buffers_[tensor.buffer.addr];
        size_t kept = 0;
        for (size_t i = 0; i < entries.size(); ++i) {
            const Entry &entry = entries[i];
            const Overlap overlap = entry.task == task ? Overlap::None : compare_regions(tensor, entry.region);
            if (overlap != Overlap::None && (writes || entry.writes))
                edge(entry.task);
            if (!(writes && overlap == Overlap::Covered)) // later accesses are ordered through this one
                entries[kept++] = entries[i];
        }
        entries.resize(kept);
        entries.push_back({tensor, task, writes});
    }

private:
    struct Entry {
        ChipTensor region;
        uint64_t task;
        bool writes;
    };
    std::unordered_map<uint64_t, std::vector<Entry>> buffers_;
};

} // namespace pypto::runtime
