// What a rank tells the others, and how it sleeps until one of them has told something.
#include "chips/board.h"

#include "execution/core.h"
#include "execution/kernel_library.h"

#include <cstring>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace pypto::runtime {

namespace {

// Waiters look by themselves after this long: plain stores to a signal wake nobody.
constexpr long kLookNs = 20'000'000;

void copy_name(char (&place)[64], const Activation &activation) {
    std::strncpy(place, activation.kernel->name.c_str(), sizeof(place) - 1);
}

uint64_t slot_of(uint64_t address, uint32_t rank) {
    return (address / 4 * 0x9e3779b97f4a7c15ull + rank * 0xc2b2ae3d27d4eb4full) >> 40;
}

} // namespace

bool signal_holds(int32_t value, int32_t expected, uint32_t comparison) {
    switch (comparison) {
    case 0:
        return value == expected;
    case 1:
        return value != expected;
    case 2:
        return value > expected;
    case 3:
        return value >= expected;
    case 4:
        return value < expected;
    default:
        return value <= expected;
    }
}

RankSignals::RankSignals(void *board, uint64_t bytes, uint32_t rank) : rank_(rank) {
    if (board == nullptr || bytes < kBoardBytes || rank >= kBoardRanks)
        return;
    board_ = static_cast<Board *>(board);
    board_->magic = kBoardMagic;
    own_ = &board_->ranks[rank];
}

void RankSignals::begin() {
    if (own_)
        own_->busy.store(1);
}

void RankSignals::end() {
    if (own_)
        own_->busy.store(0);
}

SignalWait *RankSignals::announce(const Activation &activation, const int32_t *signal, int32_t expected,
                                  uint32_t comparison) {
    for (SignalWait &wait : own_->waits) {
        uint32_t free = 0;
        if (!wait.state.compare_exchange_strong(free, 1))
            continue;
        wait.expected = expected;
        wait.comparison = comparison;
        wait.block = activation.context.block_idx;
        wait.address = reinterpret_cast<uint64_t>(signal);
        wait.task = activation.task->number;
        copy_name(wait.kernel, activation);
        wait.state.store(2);
        add_busy(-1);
        return &wait;
    }
    add_busy(-1);
    return nullptr;
}

void RankSignals::sleep(uint32_t epoch) {
    const timespec longest{0, kLookNs};
    board_->waiters.fetch_add(1);
    syscall(SYS_futex, &board_->epoch, FUTEX_WAIT, epoch, &longest, nullptr, 0);
    board_->waiters.fetch_sub(1);
}

void RankSignals::notify(const Activation &activation, int32_t *signal, int32_t value, bool set) {
    const uint64_t address = reinterpret_cast<uint64_t>(signal);
    const uint64_t start = slot_of(address, rank_);
    for (uint32_t probe = 0; probe < 64; ++probe) {
        SignalNote &note = board_->notes[(start + probe) % kBoardNotes];
        uint64_t found = note.address.load();
        if (found == 0 && note.address.compare_exchange_strong(found, address)) {
            note.rank.store(rank_ + 1);
            found = address;
        } else if (found != address || note.rank.load() != rank_ + 1) {
            continue;
        }
        note.count.fetch_add(1);
        copy_name(note.kernel, activation);
        if (set) {
            note.sets.fetch_add(1);
            note.last = value;
        } else {
            note.sum.fetch_add(value);
        }
        break;
    }
    if (set)
        __atomic_store_n(signal, value, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_add(signal, value, __ATOMIC_SEQ_CST);
    board_->epoch.fetch_add(1);
    if (board_->waiters.load())
        syscall(SYS_futex, &board_->epoch, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

} // namespace pypto::runtime
