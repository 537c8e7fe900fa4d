// Writers of the parts of buffers, and the test whether two parts overlap.
//
// Owned by the orchestration's thread. Rules as in simpler's tensor map: entries are found by buffer address, compared
// by byte range, then exactly where both are plain row-major rectangles.
#pragma once

#include "pypto/orchestration_abi.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pypto::runtime {

enum class Overlap {
    None,
    Covered, // the newer region contains the older one entirely
    Other,   // they overlap, or nothing exact can be said
};

/// Returns the position of `newer` over `older`; both are in the same buffer.
Overlap compare_regions(const ChipTensor &newer, const ChipTensor &older);

/// The part of a descriptor that says which bytes it addresses, and who wrote them.
struct WriterEntry {
    ChipTensor region;
    uint64_t task;
};

class TensorMap {
public:
    TensorMap() : buckets_(kBuckets) {}

    /// Calls visit(entry, overlap) for each entry that overlaps `tensor`, oldest first; an entry for which it returns
    /// true is removed. Entries of tasks for which gone(task) holds, and of a buffer that lay here before, are dropped.
    template <typename Gone, typename Visit> void lookup(const ChipTensor &tensor, Gone gone, Visit visit) {
        filter(bucket(tensor.buffer.addr), [&](const WriterEntry &entry) {
            if (entry.region.buffer.addr != tensor.buffer.addr)
                return false;
            if (entry.region.owner_task_id != tensor.owner_task_id || gone(entry.task))
                return true;
            const Overlap overlap = compare_regions(tensor, entry.region);
            return overlap != Overlap::None && visit(entry, overlap);
        });
    }

    void insert(const ChipTensor &tensor, uint64_t task) {
        bucket(tensor.buffer.addr).push_back({tensor, task});
        ++size_;
    }

    /// Drops the entries for which `dead(task)` holds.
    template <typename Dead> void sweep(Dead dead) {
        for (std::vector<WriterEntry> &entries : buckets_)
            filter(entries, [&](const WriterEntry &entry) { return dead(entry.task); });
    }

    size_t size() const { return size_; }

private:
    template <typename Remove> void filter(std::vector<WriterEntry> &entries, Remove remove) {
        size_t kept = 0;
        for (size_t i = 0; i < entries.size(); ++i) {
            if (remove(entries[i]))
                continue;
            if (kept != i)
                entries[kept] = entries[i];
            ++kept;
        }
        size_ -= entries.size() - kept;
        entries.resize(kept);
    }

    static constexpr size_t kBuckets = 4096;

    std::vector<WriterEntry> &bucket(uint64_t addr) { return buckets_[((addr >> 6) * 0x9E3779B97F4A7C15ull) >> 52]; }

    std::vector<std::vector<WriterEntry>> buckets_;
    size_t size_ = 0;
};

} // namespace pypto::runtime
