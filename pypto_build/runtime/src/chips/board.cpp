// A rank's messages to the others, and its sleep until one of them sends one.
#include "chips/board.h"

#include "base/json_writer.h"
#include "base/settings.h"
#include "checking/check_record.h"
#include "checking/source_line.h"
#include "execution/core.h"
#include "execution/kernel_library.h"

#include <algorithm>
#include <cstring>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace pypto::runtime {

namespace {

// Waiters look by themselves after this long: plain stores to a signal wake no thread.
constexpr long kLookNs = 20'000'000;

void copy_name(char (&place)[64], const Activation &activation) {
    std::strncpy(place, activation.kernel->name.c_str(), sizeof(place) - 1);
}

constexpr uint32_t kProbes = 64; // of an open table

uint64_t slot_of(uint64_t address, uint32_t rank) {
    return (address / 4 * 0x9e3779b97f4a7c15ull + rank * 0xc2b2ae3d27d4eb4full) >> 40;
}

} // namespace

RankSignals::RankSignals(const Settings &settings) : rank_(settings.rank), windows_(settings.windows) {
    if (settings.board == nullptr || settings.board_bytes < kBoardBytes || rank_ >= kBoardRanks)
        return;
    board_ = static_cast<Board *>(settings.board);
    board_->magic = kBoardMagic;
    own_ = &board_->ranks[rank_];
    traces_ = settings.accesses;
    weak_ = !settings.memory.empty() && !traces_;
    seed_ = settings.seed;
    if (settings.order == Order::Shuffled)
        chance_.store(settings.seed * kBoardRanks + rank_ + 1);
    if (settings.swimlane > 0)
        messages_ = std::make_unique<Messages>();
}

bool RankSignals::in_window(uint64_t address) const {
    for (size_t i = 0; i + 1 < windows_.size(); i += 2)
        if (address >= windows_[i] && address - windows_[i] < windows_[i + 1])
            return true;
    return false;
}

SignalClock *RankSignals::clock_of(uint64_t address) {
    const uint64_t start = slot_of(address, 0);
    for (uint32_t probe = 0; probe < kProbes; ++probe) {
        SignalClock &clock = board_->clocks[(start + probe) % kBoardClocks];
        uint64_t found = 0;
        if (clock.address.load() == address || clock.address.compare_exchange_strong(found, address) ||
            found == address) {
            while (clock.locked.exchange(1))
                sched_yield();
            return &clock;
        }
    }
    return nullptr;
}

// This rank's actions come before the actions of a rank that sees the notification. Taking credits back notifies
// no rank.
void RankSignals::release(uint64_t address, int32_t value, bool set) {
    if (!traces_)
        return;
    const std::lock_guard<std::mutex> guard(mutex_);
    if (SignalClock *signal = clock_of(address)) {
        if (!set && value < 0) {
            signal->taken -= value;
        } else {
            signal->sets += set;
            signal->added += set ? 0 : value;
            const uint32_t *before = signal->clock[(signal->count + kBoardHistory - 1) % kBoardHistory];
            uint32_t *clock = signal->clock[signal->count % kBoardHistory];
            for (uint32_t i = 0; i < kBoardRanks; ++i)
                clock[i] = std::max(signal->count ? before[i] : 0, own_->clock[i]);
            signal->reached[signal->count % kBoardHistory] = signal->added;
            ++signal->count;
        }
        signal->locked.store(0);
    }
    ++own_->clock[rank_];
}

// A wait is ordered after the notification that satisfies it, and not after those that happened to come as well.
void RankSignals::acquire(uint64_t address, int32_t expected, uint32_t comparison) {
    if (!traces_)
        return;
    const std::lock_guard<std::mutex> guard(mutex_);
    SignalClock *signal = clock_of(address);
    if (signal == nullptr)
        return;
    const bool counts = signal->sets == 0 && (comparison == 0 || comparison == 2 || comparison == 3);
    const int64_t needed = signal->taken + expected + (comparison == 2);
    uint64_t number = signal->count; // of the notification, from 1
    if (counts) {
        const uint64_t oldest = signal->count > kBoardHistory ? signal->count - kBoardHistory + 1 : 1;
        while (number > oldest && signal->reached[(number - 2) % kBoardHistory] >= needed)
            --number;
        if (needed <= 0)
            number = 0;
    }
    if (number)
        for (uint32_t i = 0; i < kBoardRanks; ++i)
            own_->clock[i] = std::max(own_->clock[i], signal->clock[(number - 1) % kBoardHistory][i]);
    signal->locked.store(0);
}

// The number of the clock as it is; the lock is held.
uint32_t RankSignals::stamp() {
    if (clocks_.empty() || std::memcmp(clocks_.back().data(), own_->clock, sizeof(own_->clock)) != 0) {
        clocks_.emplace_back();
        std::memcpy(clocks_.back().data(), own_->clock, sizeof(own_->clock));
    }
    return static_cast<uint32_t>(clocks_.size() - 1);
}

uint32_t RankSignals::now() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return stamp();
}

void RankSignals::not_visible(uint64_t number) {
    const std::lock_guard<std::mutex> guard(mutex_);
    accesses_[number].visible = ~0u;
}

void RankSignals::visible(uint64_t number) {
    const std::lock_guard<std::mutex> guard(mutex_);
    accesses_[number].visible = stamp();
}

void RankSignals::fetched(uint64_t number, uint64_t clock) {
    const std::lock_guard<std::mutex> guard(mutex_);
    accesses_[number].visible = static_cast<uint32_t>(clock);
}

uint64_t RankSignals::access(const AccessRecord &record, const Activation &activation, const char *instruction,
                             const void *code) {
    if (!traces_)
        return kNowhere;
    const std::lock_guard<std::mutex> guard(mutex_);
    const uint32_t clock = stamp();
    uint32_t site = 0;
    while (site < sites_.size() && sites_[site].code != code)
        ++site;
    if (site == sites_.size())
        sites_.push_back({code, activation.kernel->name, instruction});
    accesses_.push_back({record.base, record.stride, record.length, record.rows, record.kind, site, clock, clock,
                         activation.task->number});
    return accesses_.size() - 1;
}

void RankSignals::write(const std::string &directory, int64_t timeline_ns) {
    if (traces_)
        write_windows(directory);
    if (messages_)
        messages_->write(directory, timeline_ns);
}

void RankSignals::write_windows(const std::string &directory) {
    JsonWriter json;
    json.open('{').key("sites").open('[');
    for (const Site &site : sites_)
        json.row(site.kernel, site.instruction, source_line(site.code)).newline();
    json.close(']').key("clocks").open('[');
    for (const auto &clock : clocks_)
        json.list(clock.data(), kBoardRanks).newline();
    json.close(']').key("accesses").open('[');
    for (const WindowAccess &one : accesses_)
        json.row(one.base, one.stride, one.length, one.rows, one.kind, one.site, one.clock,
                 one.visible == ~0u ? -1 : int64_t{one.visible}, one.task)
            .newline();
    json.close(']').close('}').newline();
    make_directories(directory);
    write_file(directory + "/windows.json", json.str());
}

// Half of the times not at all, else up to half a millisecond: short against what people wait for, long against what
// a kernel does between two messages.
void RankSignals::hold_back() {
    if (chance_.load(std::memory_order_relaxed) == 0)
        return;
    uint64_t drawn = chance_.fetch_add(0x9e3779b97f4a7c15ull);
    drawn = (drawn ^ (drawn >> 30)) * 0xbf58476d1ce4e5b9ull;
    drawn = (drawn ^ (drawn >> 27)) * 0x94d049bb133111ebull;
    drawn ^= drawn >> 31;
    if (drawn & 1)
        usleep(1u << (drawn >> 1) % 10);
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

// Lets one of two ranks that signal each other stay behind, so that the other reads data that is too early.
void RankSignals::let_others_pass() {
    constexpr long kStepNs = 1'000'000;
    constexpr int kIdle = 40, kLongest = 1000; // steps
    if (board_ == nullptr || ((rank_ + seed_) & 1) || passes_left_.fetch_sub(1) <= 0)
        return;
    for (int step = 0, idle = 0; step < kLongest && idle < kIdle; ++step) {
        bool busy = false;
        for (uint32_t other = (rank_ + 1) & 1; other < kBoardRanks; other += 2)
            busy |= board_->ranks[other].busy.load() > 0;
        idle = busy ? 0 : idle + 1;
        const timespec pause{0, kStepNs};
        nanosleep(&pause, nullptr);
    }
}

// The line is fetched, changed and written back whole: what others notify beside the signal meanwhile is lost.
void RankSignals::set_line(int32_t *signal, int32_t value) {
    constexpr int kCells = 16;
    int32_t *const line = signal - (reinterpret_cast<uint64_t>(signal) / sizeof(int32_t)) % kCells;
    int32_t before[kCells] = {};
    for (int i = 0; i < kCells; ++i)
        if (in_window(reinterpret_cast<uint64_t>(line + i)))
            before[i] = __atomic_load_n(line + i, __ATOMIC_SEQ_CST);
    let_others_pass();
    for (int i = 0; i < kCells; ++i)
        if (line + i != signal && in_window(reinterpret_cast<uint64_t>(line + i)))
            __atomic_store_n(line + i, before[i], __ATOMIC_SEQ_CST);
    __atomic_store_n(signal, value, __ATOMIC_SEQ_CST);
}

void RankSignals::notify(const Activation &activation, int32_t *signal, int32_t value, bool set, int64_t now) {
    const uint64_t address = reinterpret_cast<uint64_t>(signal);
    const uint64_t start = slot_of(address, rank_);
    for (uint32_t probe = 0; probe < kProbes; ++probe) {
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
        note.last = value;
        note.last_ns = now;
        note.task = activation.task->number;
        if (set)
            note.sets.fetch_add(1);
        else
            note.sum.fetch_add(value);
        break;
    }
    hold_back();
    release(address, value, set);
    const int64_t begun_ns = messages_ ? monotonic_ns() : 0;
    int32_t after = value;
    if (set && weak_)
        set_line(signal, value);
    else if (set)
        __atomic_store_n(signal, value, __ATOMIC_SEQ_CST);
    else
        after = __atomic_add_fetch(signal, value, __ATOMIC_SEQ_CST);
    if (messages_)
        messages_->notified(activation, signal, value, set, after, begun_ns);
    board_->epoch.fetch_add(1);
    if (board_->waiters.load())
        syscall(SYS_futex, &board_->epoch, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

} // namespace pypto::runtime
