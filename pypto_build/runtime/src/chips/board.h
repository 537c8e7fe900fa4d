// The board: memory shared by the processes of all ranks, in which each tells whether it can go on, what its kernels
// wait for, and the notifier of every signal. The driver of the ranks sees there that no rank can go on any more.
//
// pypto_build/replay/chips/board.py reads it.
#pragma once

#include "base/clock.h"
#include "chips/messages.h"
#include "layouts.h"
#include "pypto/comparison.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace pypto::runtime {

struct Activation;
struct Settings;

/// An access of a kernel to a window: regions of memory, who touched them, and what came before.
struct WindowAccess {
    uint64_t base, stride, length;
    uint32_t rows;
    uint8_t kind; // PyptoAccessKind
    uint32_t site, clock;
    uint32_t visible; // the clock from which on others see what is written; of what is read, that of its line
    uint64_t task;
};

/// A rank's access to the board; without a board it does nothing, and kernels look at signals by themselves.
class RankSignals {
public:
    explicit RankSignals(const Settings &settings);

    explicit operator bool() const { return board_ != nullptr; }
    /// More, or less, can go on by itself.
    void add_busy(int32_t count) {
        if (board_)
            own_->busy.fetch_add(count);
    }
    void add_other_wait(int32_t count) {
        if (board_)
            own_->other_waits.fetch_add(static_cast<uint32_t>(count));
    }
    /// In a seeded schedule: lets a rank come late now and then, where others may overtake it.
    void hold_back();
    /// A run begins, with its orchestration, or ends.
    void set_busy(bool busy) {
        if (board_)
            own_->busy.store(busy);
    }

    /// Adds to a signal, or sets it, and wakes who waits.
    void notify(const Activation &activation, int32_t *signal, int32_t value, bool set, int64_t now);
    /// Sleeps until a signal is as expected, or `ended` says that the run is over: then false.
    template <typename Ended>
    bool wait(const Activation &activation, const int32_t *signal, int32_t expected, uint32_t comparison, Ended ended);

    /// A signal is out before what was stored is visible: lets every second rank go as far as it gets meanwhile.
    void let_others_pass();

    /// Returns whether an address lies in a window of any rank.
    bool in_window(uint64_t address) const;
    static constexpr uint64_t kNowhere = ~uint64_t{0};
    /// Notes an access to a window, by the instruction that `code` returns to; its number.
    uint64_t access(const AccessRecord &record, const Activation &activation, const char *instruction,
                    const void *code);
    /// The number of the clock as it is now.
    uint32_t now();
    // A noted access: others do not see it yet; they do from now on; it reads data as old as that clock.
    void not_visible(uint64_t number);
    void visible(uint64_t number);
    void fetched(uint64_t number, uint64_t clock);
    /// windows.json, if accesses were to be recorded, and messages.json, if there is a timeline, which begins at
    /// `timeline_ns`. Throws FaultError naming the path.
    void write(const std::string &directory, int64_t timeline_ns);

private:
    static constexpr int kPasses = 64; // of a run: each takes a moment
    struct Site {
        const void *code;
        std::string kernel;
        const char *instruction;
    };

    void write_windows(const std::string &directory);
    SignalClock *clock_of(uint64_t address);
    uint32_t stamp();
    void set_line(int32_t *signal, int32_t value);
    void release(uint64_t address, int32_t value, bool set);
    void acquire(uint64_t address, int32_t expected, uint32_t comparison);
    SignalWait *announce(const Activation &activation, const int32_t *signal, int32_t expected, uint32_t comparison);
    void sleep(uint32_t epoch);

    Board *board_ = nullptr;
    RankBoard *own_ = nullptr;
    uint32_t rank_ = 0;
    bool weak_ = false; // a signal that is set takes its line along
    uint64_t seed_ = 0;
    std::vector<uint64_t> windows_; // address and size of each
    bool traces_ = false;
    std::atomic<int> passes_left_{kPasses};
    std::atomic<uint64_t> chance_{0};    // of being held back; 0: the schedule is not seeded
    std::unique_ptr<Messages> messages_; // null unless requested
    std::mutex mutex_;                   // guards the clock and what follows
    std::vector<std::array<uint32_t, kBoardRanks>> clocks_;
    std::vector<Site> sites_;
    std::vector<WindowAccess> accesses_;
};

template <typename Ended>
bool RankSignals::wait(const Activation &activation, const int32_t *signal, int32_t expected, uint32_t comparison,
                       Ended ended) {
    const auto holds = [&] { return compares(__atomic_load_n(signal, __ATOMIC_SEQ_CST), expected, comparison); };
    const int64_t begun_ns = messages_ ? monotonic_ns() : 0;
    const auto over = [&](bool held) {
        if (held)
            acquire(reinterpret_cast<uint64_t>(signal), expected, comparison);
        if (messages_)
            messages_->waited(activation, signal, expected, comparison, held, begun_ns, monotonic_ns());
        return held;
    };
    if (holds())
        return over(true);
    SignalWait *told = announce(activation, signal, expected, comparison);
    bool held = false;
    while (true) {
        const uint32_t epoch = board_->epoch.load();
        if ((held = holds()) || ended())
            break;
        sleep(epoch);
    }
    if (told)
        told->state.store(0);
    add_busy(1);
    hold_back();
    return over(held);
}

} // namespace pypto::runtime
