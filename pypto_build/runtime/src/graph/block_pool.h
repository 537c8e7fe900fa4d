// Memory of the tensors the runtime allocates: blocks by size class, handed out again last-in first-out so that a
// loop's intermediates stay in cache. How much a ring may hold is the task ring's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pypto::runtime {

struct Block {
    uint8_t *base = nullptr;
    uint64_t bytes = 0; // what was asked for, in units of kAlignment
    uint32_t size_class = 0;
};

class BlockPool {
public:
    static constexpr uint64_t kAlignment = 1024; // each output of a task starts on one

    BlockPool() = default;
    ~BlockPool();
    BlockPool(const BlockPool &) = delete;
    BlockPool &operator=(const BlockPool &) = delete;

    /// A block of at least `bytes` bytes; base is null when the machine has no more memory.
    Block take(uint64_t bytes);
    void give(const Block &block);
    /// Calls visit(base, bytes) for all memory that there is.
    template <typename Visit> void for_each_chunk(Visit visit) const {
        for (const Chunk &chunk : chunks_)
            visit(chunk.base, chunk.bytes);
    }

private:
    struct Chunk {
        uint8_t *base;
        uint64_t bytes;
    };
    uint8_t *map(uint64_t bytes);
    uint8_t *carve(uint64_t bytes);

    std::vector<std::vector<uint8_t *>> free_;
    std::vector<Chunk> chunks_;
    uint8_t *carve_next_ = nullptr;
    uint8_t *carve_end_ = nullptr;
};

} // namespace pypto::runtime
