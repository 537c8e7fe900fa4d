// The checked build's model of one core's on-chip memories during one kernel call: written and
// read bytes by instruction and pipe, the pipes that have waited for them since, and the flags that are set.
#pragma once

#include "pypto/check_abi.h"
#include "pypto/core_context.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace pypto::runtime {

inline constexpr uint32_t kPipes = 11; // pipe_t, of which PIPE_ALL is none
inline constexpr uint32_t kPipeScalar = 0, kPipeVector = 1, kPipeLoads = 4, kPipeStores = 5, kPipeAll = 6;

/// Pieces of one length at equal distances, in bytes from the start of a memory.
struct Runs {
    int64_t start, count, stride, length;
    bool operator==(const Runs &other) const {
        return start == other.start && count == other.count && stride == other.stride && length == other.length;
    }
};
/// The bytes of a rectangle of a tile, counted from the tile's address. Whole fractals where the layout has fractals.
Runs runs_of(const PyptoTileAccess &access);

/// For each pipe the last of its instructions that is known to be over.
using PipeClock = std::array<uint32_t, kPipes>;

/// One instruction's access to on-chip memory.
struct ShadowAccess {
    uint32_t pipe, clock, site;
    uint32_t repeats; // pieces of 256 bytes that a vector instruction goes through
    Runs runs;
    bool scratch; // written without meaning
};

/// An earlier access that nothing orders before a new one to the same bytes.
struct ShadowConflict {
    const ShadowAccess *earlier = nullptr;
    bool was_read = false;
    explicit operator bool() const { return earlier != nullptr; }
};

/// A flag that was set, or waited for, without its counterpart.
struct ShadowFlag {
    uint32_t from, to, id;
    PipeClock clock;
    uint32_t site;
};

/// Number of waits for a flag at one source line, and of those without a set flag.
struct ShadowWaits {
    uint32_t all = 0, in_vain = 0;
};

class Shadow {
public:
    /// With `vector_barriers` vector instructions overlap unless a barrier lies between.
    explicit Shadow(bool vector_barriers) : vector_barriers_(vector_barriers) {}

    /// A kernel starts: nothing is written yet.
    void begin(const PyptoCoreContext &context);

    // All take runs inside the memory.
    void write(int space, const ShadowAccess &access);
    void read(int space, const ShadowAccess &access);
    /// The first byte that was never written, or -1; `any`: whether one was.
    int64_t first_unwritten(int space, const Runs &runs, bool &any) const;
    /// The instruction whose scratch the bytes are, or null.
    ShadowAccess *scratch(int space, const Runs &runs);
    /// An access that an instruction on `pipe` has to wait for before it reads, or `writes`, and does not.
    ShadowConflict unordered(int space, const Runs &runs, uint32_t pipe, bool writes) const;
    /// From here on `pipe` counts as having waited for all that `earlier` was given, by a flag, or by a barrier of its
    /// own: what the missing one would have ordered too is the same omission.
    void forgive(uint32_t earlier, uint32_t pipe);

    /// Its number on the pipe.
    uint32_t next_instruction(uint32_t pipe) { return ++issued_[pipe]; }
    void set_flag(uint32_t from, uint32_t to, uint32_t id, uint32_t site);
    void wait_flag(uint32_t from, uint32_t to, uint32_t id, uint32_t site);
    /// `own`: an instruction has it in itself.
    void barrier(uint32_t pipe, bool own = false);
    /// The last instruction of a pipe that is over when the scalar unit comes to what follows: it has waited for a
    /// flag, or the pipe had a barrier.
    uint32_t over(uint32_t pipe) const { return std::max(clocks_[kPipeScalar][pipe], clocks_[pipe][pipe]); }
    /// The last instruction of a pipe that any pipe has waited for.
    uint32_t waited_for(uint32_t pipe) const {
        uint32_t last = 0;
        for (const PipeClock &clock : clocks_)
            last = std::max(last, clock[pipe]);
        return last;
    }
    /// Flags without a wait, and waits for a flag that was not set, in the order of the program.
    const std::vector<ShadowFlag> &left_set() const { return flags_; }
    const std::vector<ShadowFlag> &in_vain() const { return in_vain_; }
    ShadowWaits waits_at(uint32_t site) const;
    /// Returns whether the kernel orders its pipes itself.
    bool uses_flags() const { return uses_flags_; }
    /// The same so far, by flags or barriers.
    bool orders() const { return orders_; }

private:
    struct Memory {
        uint64_t size = 0;
        std::vector<uint64_t> written;                     // a bit a byte
        std::vector<uint32_t> writers;                     // for each 32 bytes the number of an access, or 0
        std::array<std::vector<uint32_t>, kPipes> readers; // by pipe, empty where it has read nothing
        int64_t low = INT64_MAX, high = 0;
    };

    void forget(Memory &memory) const;
    uint32_t add(Memory &memory, const ShadowAccess &access);
    bool waited_for(const ShadowAccess &earlier, const Runs &runs, uint32_t pipe) const;

    const bool vector_barriers_;
    Memory memories_[PYPTO_SPACE_COUNT];
    std::vector<ShadowAccess> accesses_;
    std::array<uint32_t, kPipes> issued_{};           // instructions of each pipe
    std::array<PipeClock, kPipes> clocks_{};          // of each pipe; what it knows of itself is up to its last barrier
    std::vector<ShadowFlag> flags_, in_vain_;         // set and not yet waited for; waited for and not set
    std::unordered_map<uint32_t, ShadowWaits> waits_; // by site
    bool uses_flags_ = false, orders_ = false;
};

} // namespace pypto::runtime
