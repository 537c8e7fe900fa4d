// Memory in size classes, from chunks that the run keeps until its end.
#include "graph/block_pool.h"

#include <sys/mman.h>

namespace pypto::runtime {

namespace {

constexpr uint64_t kChunkBytes = 4u << 20;
constexpr uint64_t kCarveLimit = 1u << 20; // larger blocks are mapped on their own

// Four classes to a power of two, in units of the alignment: 1 2 3 4 5 6 7 8 10 12 14 16 20 …
uint32_t class_of(uint64_t units) {
    if (units <= 8)
        return static_cast<uint32_t>(units - 1);
    const int top = 63 - __builtin_clzll(units - 1);
    const uint64_t step = uint64_t{1} << (top - 2);
    const uint64_t quarter = (units - 1 - (uint64_t{1} << top)) / step;
    return 8 + static_cast<uint32_t>(top - 3) * 4 + static_cast<uint32_t>(quarter);
}

uint64_t class_units(uint32_t size_class) {
    if (size_class < 8)
        return size_class + 1;
    const uint32_t top = (size_class - 8) / 4 + 3;
    return (uint64_t{1} << top) + (uint64_t{1} << (top - 2)) * ((size_class - 8) % 4 + 1);
}

} // namespace

BlockPool::~BlockPool() {
    for (const Chunk &chunk : chunks_)
        munmap(chunk.base, chunk.bytes);
}

Block BlockPool::take(uint64_t bytes) {
    const uint64_t units = bytes ? (bytes + kAlignment - 1) / kAlignment : 1;
    Block block;
    block.bytes = units * kAlignment;
    block.size_class = class_of(units);
    if (block.size_class >= free_.size())
        free_.resize(block.size_class + 1);
    std::vector<uint8_t *> &blocks = free_[block.size_class];
    if (!blocks.empty()) {
        block.base = blocks.back();
        blocks.pop_back();
        return block;
    }
    const uint64_t capacity = class_units(block.size_class) * kAlignment;
    block.base = capacity <= kCarveLimit ? carve(capacity) : map(capacity);
    return block;
}

void BlockPool::give(const Block &block) {
    free_[block.size_class].push_back(block.base);
}

uint8_t *BlockPool::map(uint64_t bytes) {
    void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return nullptr;
    chunks_.push_back({static_cast<uint8_t *>(base), bytes});
    return static_cast<uint8_t *>(base);
}

uint8_t *BlockPool::carve(uint64_t bytes) {
    if (carve_next_ == nullptr || static_cast<uint64_t>(carve_end_ - carve_next_) < bytes) {
        carve_next_ = map(kChunkBytes);
        if (carve_next_ == nullptr)
            return nullptr;
        carve_end_ = carve_next_ + kChunkBytes;
    }
    uint8_t *base = carve_next_;
    carve_next_ += bytes;
    return base;
}

} // namespace pypto::runtime
