// What the checked build knows of one core's on-chip memories during one kernel call: which bytes were written, by
// which instruction on which pipe, and which pipes have waited for it since.
#pragma once

#include "pypto/check_abi.h"
#include "pypto/core_context.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace pypto::runtime {

inline constexpr uint32_t kPipes = 11; // pipe_t, of which PIPE_ALL is none
inline constexpr uint32_t kPipeScalar = 0, kPipeAll = 6;

/// Pieces of one length at equal distances, in bytes from the start of a memory.
struct Runs {
    int64_t start, count, stride, length;
};
/// The bytes of a rectangle of a tile, counted from the tile's address. Whole fractals where the layout has fractals.
Runs runs_of(const PyptoTileAccess &access);

/// For each pipe the last of its instructions that is known to be over.
using PipeClock = std::array<uint32_t, kPipes>;

/// One instruction that wrote on-chip memory.
struct ShadowWrite {
    uint32_t pipe, clock, site;
};

class Shadow {
public:
    /// A kernel starts: nothing is written yet.
    void begin(const PyptoCoreContext &context);

    // Both take runs inside the memory.
    void write(int space, const Runs &runs, uint32_t pipe, uint32_t site);
    /// The first byte that was never written, or -1; `any`: whether one was.
    int64_t first_unwritten(int space, const Runs &runs, bool &any) const;
    /// A write on another pipe that `pipe` has not waited for, or null.
    const ShadowWrite *unordered(int space, const Runs &runs, uint32_t pipe) const;
    /// From here on `pipe` counts as having waited for a write, so that one missing flag is one error.
    void forgive(const ShadowWrite &write, uint32_t pipe);

    void next_instruction(uint32_t pipe) { ++clocks_[pipe][pipe]; }
    void set_flag(uint32_t from, uint32_t to, uint32_t id);
    void wait_flag(uint32_t from, uint32_t to, uint32_t id);
    void barrier(uint32_t pipe);
    /// Whether the kernel orders its pipes itself.
    bool uses_flags() const { return uses_flags_; }

private:
    struct Memory {
        uint64_t size = 0;
        std::vector<uint64_t> written; // a bit a byte
        std::vector<uint32_t> writers; // for each 32 bytes the number of a write, or 0
        int64_t low = INT64_MAX, high = 0;
    };
    struct Flag {
        uint32_t key;
        PipeClock clock;
    };

    Memory memories_[PYPTO_SPACE_COUNT];
    std::vector<ShadowWrite> writes_;
    std::array<PipeClock, kPipes> clocks_{};
    std::vector<Flag> flags_; // set and not yet waited for
    bool uses_flags_ = false;
};

} // namespace pypto::runtime
