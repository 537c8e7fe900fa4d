// Global memory as one core has it (MEMORY=weak): stores of its pipes that are not visible to others yet, and
// the lines of its data cache, which may be out of date and are written back whole.
//
// docs/dev/memory.md has the rules and where they come from. With effects, memory holds what others see: a store's
// bytes are taken back after the instruction and put there when it becomes visible; without, only omissions are found.
#pragma once

#include "checking/check_shadow.h"

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pypto::runtime {

inline constexpr uint64_t kLineBytes = 64;

/// Pieces of global memory of one length at equal distances.
struct GlobalRuns {
    uint64_t base, rows, stride, length;
    uint64_t end() const { return base + (rows - 1) * stride + length; }
};

/// A marker that is missing between two accesses, or after one.
struct Omission {
    enum Kind {
        StaleLoad,       // a pipe loads what another has stored, and the store need not be visible
        UncleanLoad,     // a pipe loads what the scalar unit has stored into its data cache
        StaleRead,       // the scalar unit reads a line of its cache, or a store, that is out of date
        LostStore,       // a line written back overwrites what was stored beside it
        UncleanStore,    // the kernel ends with a line that only its data cache has
        UnfinishedStore, // the kernel ends before a pipe's store is over
    } kind;
    uint32_t site, other; // of the access; of the earlier one, or ~0
    uint32_t pipe;        // of the store
    uint64_t begin, end;  // the bytes
    bool pending = true;  // whether the store may still be under way
    bool cleaned = false; // whether only the fence is missing
    bool before = false;  // LostStore: whether the line was dirty before the other store
};

class WeakMemory {
public:
    /// With `effects` stores are held back; `seed` 0: as long as is allowed.
    WeakMemory(bool effects, uint64_t seed) : effects_(effects), seed_(seed) {}

    /// A call of a kernel begins, on tensors at these addresses (first and one past the last byte).
    void begin(std::vector<std::pair<uint64_t, uint64_t>> memory, uint64_t call);
    bool effects() const { return effects_; }
    bool holds_back() const { return !pending_.empty(); }

    // Before an instruction loads or stores; `clock` is its number on the pipe.
    std::optional<Omission> load(const GlobalRuns &runs, const Shadow &shadow, uint32_t site);
    void store(const GlobalRuns &runs, uint32_t pipe, uint32_t clock, bool atomic, uint32_t site);
    // Before C++ itself reads or writes.
    std::optional<Omission> read(uint64_t address, uint64_t bytes, uint32_t site);
    void write(uint64_t address, uint64_t bytes, uint32_t site);
    /// Returns whether an address belongs to a tensor of the task, or to a window.
    bool known(uint64_t address, uint64_t bytes);

    /// Gives the last store, or plain write, a number that is among `landed()` once it is visible.
    void note(uint64_t number);
    /// Numbers of what has become visible since this was asked last.
    std::vector<uint64_t> landed() { return std::exchange(landed_, {}); }
    /// The number that plain reads of a line have: `now` if it is fetched by this one, else that of then.
    uint64_t fetched(uint64_t address, uint64_t now);
    /// dcci of one line, or of all where `address` is 0.
    std::optional<Omission> clean(uint64_t address);
    /// dsb: what is over, as the scalar unit knows it, is visible.
    void fence(const Shadow &shadow);
    /// Hands all stores so far to another core of the group, with a slot.
    void hand_over();
    /// The instruction before is over: what it wrote is taken back.
    void settle();
    /// Returns sites and bytes of the core's stores that others need not see yet.
    std::vector<std::pair<uint32_t, GlobalRuns>> unseen() const;
    /// The kernel has returned.
    std::vector<Omission> end(const Shadow &shadow);
    /// Lets the rest of the last call reach memory, late; `lost`: the content of its cache does not.
    void land_left(bool lost);

private:
    struct Piece {
        uint64_t address;
        std::string bytes;
    };
    struct Store {
        GlobalRuns runs;
        uint32_t pipe, clock, site;
        bool landed, open;
        std::string before;          // of an open one
        std::vector<Piece> pieces;   // what lands
        std::vector<uint64_t> notes; // of what it stores
    };
    struct Line {
        std::array<uint8_t, kLineBytes> bytes;
        uint64_t dirty, stale; // a bit a byte; stale: stored elsewhere since
        uint32_t site, stale_site;
        bool stored_over; // it was dirty when that happened
        std::vector<uint64_t> notes;
        std::optional<uint64_t> fetched;
    };
    struct Swapped {
        uint64_t line;
        std::array<uint8_t, kLineBytes> memory;
        bool written;
    };

    void put_line(uint64_t line, const uint8_t *bytes);
    static void put_pieces(const std::vector<Piece> &pieces);
    Line &fetch(uint64_t line, uint32_t site);
    const Store *held(const GlobalRuns &runs);
    std::optional<Omission> dirty_in(const GlobalRuns &runs, uint32_t site);
    std::vector<uint64_t> dirty_lines() const;
    static GlobalRuns dirty_bytes(uint64_t line, const Line &cached);
    void swap_in(uint64_t line, bool written);
    void add(Store store);
    void index(uint32_t number);
    void land(Store &store);
    void forget_landed();
    std::optional<Omission> write_back(uint64_t line, const Line &cached);
    bool chance();

    const bool effects_;
    const uint64_t seed_;
    std::mt19937_64 random_;
    std::vector<std::pair<uint64_t, uint64_t>> memory_;
    std::pair<uint64_t, uint64_t> buffer_{};                    // that was touched last
    std::deque<Store> pending_;                                 // in the order of the program
    std::unordered_map<uint64_t, std::vector<uint32_t>> pages_; // which of them touch a page
    std::unordered_map<uint64_t, Line> cache_;
    std::vector<Swapped> swapped_;
    std::vector<Piece> left_, left_lines_;
    std::vector<uint64_t> landed_;
    uint64_t written_ = 0; // the line that was written last
    bool wrote_plain_ = false;
};

} // namespace pypto::runtime
