// Holds back a core's stores, and serves its plain reads from lines that may be out of date.
#include "checking/weak_memory.h"

#include <algorithm>
#include <cstring>

namespace pypto::runtime {

namespace {

uint8_t *at(uint64_t address) {
    return reinterpret_cast<uint8_t *>(address);
}

/// The bits of bytes [begin, end) of a line, which begins at `line`.
uint64_t bits(uint64_t line, uint64_t begin, uint64_t end) {
    begin = std::max(begin, line) - line;
    end = std::min(end, line + kLineBytes) - line;
    if (begin >= end)
        return 0;
    const uint64_t below = end == kLineBytes ? ~uint64_t{0} : (uint64_t{1} << end) - 1;
    return below & ~((uint64_t{1} << begin) - 1);
}

/// Returns the bits of the pieces that lie in a line.
uint64_t bits(uint64_t line, const GlobalRuns &runs) {
    if (runs.end() <= line || runs.base >= line + kLineBytes)
        return 0;
    uint64_t found = 0;
    const uint64_t before = line > runs.base && runs.rows > 1 ? (line - runs.base) / runs.stride : 0;
    for (uint64_t row = before ? before - 1 : 0; row < runs.rows; ++row) {
        const uint64_t begin = runs.base + row * runs.stride;
        if (begin >= line + kLineBytes)
            break;
        found |= bits(line, begin, begin + runs.length);
    }
    return found;
}

bool overlap(const GlobalRuns &one, const GlobalRuns &other) {
    if (one.end() <= other.base || other.end() <= one.base)
        return false;
    const GlobalRuns &few = one.rows <= other.rows ? one : other, &many = &few == &one ? other : one;
    for (uint64_t row = 0; row < few.rows; ++row) {
        const uint64_t begin = few.base + row * few.stride, end = begin + few.length;
        if (many.end() <= begin || end <= many.base)
            continue;
        if (many.rows == 1)
            return true;
        uint64_t next = begin > many.base ? (begin - many.base) / many.stride : 0; // the last that begins before
        for (; next < many.rows && many.base + next * many.stride < end; ++next)
            if (many.base + next * many.stride + many.length > begin)
                return true;
    }
    return false;
}

constexpr uint64_t kPageBytes = 4096;

/// The lines, or pages, that the pieces touch, by their first byte; some more than once.
template <uint64_t Bytes, typename Visit> void for_each_piece(const GlobalRuns &runs, Visit visit) {
    uint64_t last = ~uint64_t{0};
    for (uint64_t row = 0; row < runs.rows; ++row) {
        const uint64_t begin = runs.base + row * runs.stride;
        for (uint64_t piece = begin / Bytes; piece <= (begin + runs.length - 1) / Bytes; ++piece)
            if (piece != last)
                visit((last = piece) * Bytes);
    }
}

std::string copied(const GlobalRuns &runs) {
    std::string bytes;
    bytes.reserve(runs.rows * runs.length);
    for (uint64_t row = 0; row < runs.rows; ++row)
        bytes.append(reinterpret_cast<const char *>(at(runs.base + row * runs.stride)), runs.length);
    return bytes;
}

/// Only where they differ: inputs cannot be written.
void put(uint64_t address, const void *bytes, uint64_t count) {
    if (std::memcmp(at(address), bytes, count) != 0)
        std::memcpy(at(address), bytes, count);
}

} // namespace

void WeakMemory::begin(std::vector<std::pair<uint64_t, uint64_t>> memory, uint64_t call) {
    memory_ = std::move(memory);
    buffer_ = {};
    random_.seed(seed_ * 0x9e3779b97f4a7c15ull + call);
    pending_.clear();
    forget_landed();
    cache_.clear();
    swapped_.clear();
}

// Decides whether an allowed event happens now.
bool WeakMemory::chance() {
    return seed_ != 0 && effects_ && random_() % 4 == 0;
}

bool WeakMemory::known(uint64_t address, uint64_t bytes) {
    const auto holds = [&](const auto &one) { return address >= one.first && address + bytes <= one.second; };
    if (holds(buffer_))
        return true;
    const auto found = std::find_if(memory_.begin(), memory_.end(), holds);
    if (found == memory_.end())
        return false;
    buffer_ = *found;
    return true;
}

// Puts the bytes of a line where they belong to a tensor: the others beside it belong to others.
void WeakMemory::put_line(uint64_t line, const uint8_t *bytes) {
    for (const auto &[low, high] : memory_) {
        const uint64_t begin = std::max(line, low), end = std::min(line + kLineBytes, high);
        if (begin < end)
            put(begin, bytes + (begin - line), end - begin);
    }
}

// --- stores of pipes ---

const WeakMemory::Store *WeakMemory::held(const GlobalRuns &runs) {
    const Store *last = nullptr;
    uint32_t newest = 0; // plus one
    if (!pending_.empty())
        for_each_piece<kPageBytes>(runs, [&](uint64_t page) {
            const auto found = pages_.find(page);
            if (found == pages_.end())
                return;
            for (auto number = found->second.rbegin(); number != found->second.rend() && *number >= newest; ++number)
                if (overlap(pending_[*number].runs, runs)) {
                    newest = *number + 1;
                    last = &pending_[*number];
                    return;
                }
        });
    return last;
}

void WeakMemory::index(uint32_t number) {
    for_each_piece<kPageBytes>(pending_[number].runs, [&](uint64_t page) {
        std::vector<uint32_t> &stores = pages_[page];
        if (stores.empty() || stores.back() != number)
            stores.push_back(number);
    });
}

void WeakMemory::add(Store store) {
    pending_.push_back(std::move(store));
    index(static_cast<uint32_t>(pending_.size() - 1));
}

void WeakMemory::land(Store &store) {
    store.landed = true;
    landed_.insert(landed_.end(), store.notes.begin(), store.notes.end());
    put_pieces(store.pieces);
}

void WeakMemory::put_pieces(const std::vector<Piece> &pieces) {
    for (const Piece &piece : pieces)
        put(piece.address, piece.bytes.data(), piece.bytes.size());
}

void WeakMemory::forget_landed() {
    const auto landed = [](const Store &store) { return store.landed; };
    const auto kept = std::remove_if(pending_.begin(), pending_.end(), landed);
    if (kept == pending_.end() && !pending_.empty())
        return;
    pending_.erase(kept, pending_.end());
    pages_.clear();
    for (uint32_t number = 0; number < pending_.size(); ++number)
        index(number);
}

void WeakMemory::settle() {
    for (const Swapped &one : swapped_) {
        if (one.written)
            std::memcpy(cache_.at(one.line).bytes.data(), at(one.line), kLineBytes);
        put_line(one.line, one.memory.data());
    }
    swapped_.clear();
    for (auto store = pending_.rbegin(); store != pending_.rend() && store->open; ++store) {
        const GlobalRuns &runs = store->runs;
        for (uint64_t row = 0; row < runs.rows; ++row) {
            const uint64_t address = runs.base + row * runs.stride;
            store->pieces.push_back({address, std::string(reinterpret_cast<const char *>(at(address)), runs.length)});
            put(address, store->before.data() + row * runs.length, runs.length);
        }
        store->before.clear();
        store->open = false;
    }
    if (chance() && !pending_.empty()) {
        const size_t count = random_() % pending_.size() + 1; // the oldest
        for (size_t i = 0; i < count; ++i)
            land(pending_[i]);
        forget_landed();
    }
}

std::optional<Omission> WeakMemory::dirty_in(const GlobalRuns &runs, uint32_t site) {
    std::optional<Omission> found;
    const auto look = [&](uint64_t line, const Line &cached) {
        if (!found && cached.dirty & bits(line, runs))
            found = Omission{Omission::UncleanLoad, site, cached.site, kPipeScalar, line, line + kLineBytes};
    };
    if (cache_.size() < runs.rows * (runs.length / kLineBytes + 1)) {
        for (const auto &[line, cached] : cache_)
            look(line, cached);
        return found;
    }
    for_each_piece<kLineBytes>(runs, [&](uint64_t line) {
        if (const auto cached = cache_.find(line); cached != cache_.end())
            look(line, cached->second);
    });
    return found;
}

std::optional<Omission> WeakMemory::load(const GlobalRuns &runs, const Shadow &shadow, uint32_t site) {
    settle();
    if (!shadow.orders())
        hand_over();
    if (const Store *store = held(runs)) {
        const uint64_t begin = std::max(runs.base, store->runs.base), end = std::min(runs.end(), store->runs.end());
        if (store->pipe == kPipeScalar)
            return Omission{Omission::UncleanLoad, site, store->site, store->pipe, begin, end, true, true};
        return Omission{Omission::StaleLoad, site, store->site, store->pipe, begin, end};
    }
    return cache_.empty() ? std::nullopt : dirty_in(runs, site);
}

void WeakMemory::store(const GlobalRuns &runs, uint32_t pipe, uint32_t clock, bool atomic, uint32_t site) {
    if (pending_.empty() || !pending_.back().open || pending_.back().site != site)
        settle();
    const bool holds = effects_ && !atomic;
    add({runs, pipe, clock, site, false, holds, holds ? copied(runs) : std::string(), {}, {}});
    wrote_plain_ = false;
    if (cache_.empty())
        return;
    for_each_piece<kLineBytes>(runs, [&](uint64_t line) {
        if (const auto cached = cache_.find(line); cached != cache_.end()) {
            cached->second.stale |= bits(line, runs);
            cached->second.stale_site = site;
            cached->second.stored_over = cached->second.dirty != 0;
        }
    });
}

void WeakMemory::fence(const Shadow &shadow) {
    settle();
    for (Store &store : pending_)
        if (store.clock <= shadow.over(store.pipe))
            land(store);
    forget_landed();
}

void WeakMemory::hand_over() {
    settle();
    for (Store &store : pending_)
        if (store.pipe != kPipeScalar)
            land(store);
    forget_landed();
}

// --- the data cache ---

WeakMemory::Line &WeakMemory::fetch(uint64_t line, uint32_t site) {
    const auto [place, fresh] = cache_.try_emplace(line);
    Line &cached = place->second;
    if (!fresh)
        return cached;
    std::memcpy(cached.bytes.data(), at(line), kLineBytes); // whole: it lies in one page
    cached.dirty = cached.stale = 0;
    cached.stored_over = false;
    cached.site = cached.stale_site = site;
    const GlobalRuns whole{line, 1, 0, kLineBytes};
    if (const Store *store = held(whole)) {
        cached.stale = bits(line, store->runs);
        cached.stale_site = store->site;
    }
    return cached;
}

// Lets the next plain access see the line as the cache has it.
void WeakMemory::swap_in(uint64_t line, bool written) {
    Swapped one{line, {}, written};
    std::memcpy(one.memory.data(), at(line), kLineBytes);
    put_line(line, cache_.at(line).bytes.data());
    swapped_.push_back(one);
}

std::optional<Omission> WeakMemory::read(uint64_t address, uint64_t bytes, uint32_t site) {
    settle();
    std::optional<Omission> found;
    for (uint64_t line = address & ~(kLineBytes - 1); line < address + bytes; line += kLineBytes) {
        Line &cached = fetch(line, site);
        if (const uint64_t old = cached.stale & bits(line, address, address + bytes); old && !found) {
            const Store *store = held({address, 1, 0, bytes});
            const uint32_t pipe = store ? store->pipe : kPipeScalar;
            found = Omission{Omission::StaleRead, site, cached.stale_site, pipe, address, address + bytes,
                             store != nullptr};
        }
        if (effects_)
            swap_in(line, false);
    }
    return found;
}

void WeakMemory::write(uint64_t address, uint64_t bytes, uint32_t site) {
    settle();
    for (uint64_t line = address & ~(kLineBytes - 1); line < address + bytes; line += kLineBytes) {
        Line &cached = fetch(line, site);
        const uint64_t own = bits(line, address, address + bytes);
        cached.dirty |= own;
        cached.stale &= ~own;
        cached.site = site;
        written_ = line;
        wrote_plain_ = true;
        if (effects_)
            swap_in(line, true);
    }
}

void WeakMemory::note(uint64_t number) {
    if (wrote_plain_)
        cache_.at(written_).notes.push_back(number);
    else
        pending_.back().notes.push_back(number);
}

uint64_t WeakMemory::fetched(uint64_t address, uint64_t now) {
    const auto cached = cache_.find(address & ~(kLineBytes - 1));
    if (cached == cache_.end())
        return now;
    if (!cached->second.fetched)
        cached->second.fetched = now;
    return *cached->second.fetched;
}

// From the first byte that is dirty to the last.
GlobalRuns WeakMemory::dirty_bytes(uint64_t line, const Line &cached) {
    const uint64_t first = line + static_cast<uint64_t>(__builtin_ctzll(cached.dirty));
    const uint64_t end = line + kLineBytes - static_cast<uint64_t>(__builtin_clzll(cached.dirty));
    return {first, 1, 0, end - first};
}

std::optional<Omission> WeakMemory::write_back(uint64_t line, const Line &cached) {
    if (!cached.dirty)
        return std::nullopt;
    Store back{dirty_bytes(line, cached), kPipeScalar, 0, cached.site, false, false, {}, {}, {}};
    for (const auto &[low, high] : memory_) {
        const uint64_t begin = std::max(line, low), end = std::min(line + kLineBytes, high);
        if (effects_ && begin < end)
            back.pieces.push_back(
                {begin, {reinterpret_cast<const char *>(cached.bytes.data() + (begin - line)), end - begin}});
    }
    back.notes = cached.notes;
    if (!cached.stale) {
        add(std::move(back));
        return std::nullopt;
    }
    const Store *store = held({line, 1, 0, kLineBytes});
    if (store && store->pipe == kPipeScalar)
        store = nullptr;
    Omission lost{Omission::LostStore, cached.site,     cached.stale_site, store ? store->pipe : kPipeScalar, line,
                  line + kLineBytes,   store != nullptr};
    lost.before = cached.stored_over;
    if (lost.before)
        std::swap(lost.site, lost.other);
    add(std::move(back));
    return lost;
}

std::vector<uint64_t> WeakMemory::dirty_lines() const {
    std::vector<uint64_t> lines;
    for (const auto &[line, cached] : cache_)
        if (cached.dirty)
            lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
}

std::optional<Omission> WeakMemory::clean(uint64_t address) {
    settle();
    std::optional<Omission> found;
    if (address) {
        const auto cached = cache_.find(address & ~(kLineBytes - 1));
        if (cached == cache_.end())
            return std::nullopt;
        found = write_back(cached->first, cached->second);
        cache_.erase(cached);
        return found;
    }
    for (const uint64_t line : dirty_lines())
        if (const auto one = write_back(line, cache_.at(line)); one && !found)
            found = one;
    cache_.clear();
    return found;
}

// --- the end of a call ---

std::vector<std::pair<uint32_t, GlobalRuns>> WeakMemory::unseen() const {
    std::vector<std::pair<uint32_t, GlobalRuns>> found;
    for (const Store &store : pending_)
        found.emplace_back(store.site, store.runs);
    for (const uint64_t line : dirty_lines()) {
        const Line &cached = cache_.at(line);
        found.emplace_back(cached.site, dirty_bytes(line, cached));
    }
    return found;
}

std::vector<Omission> WeakMemory::end(const Shadow &shadow) {
    settle();
    std::vector<Omission> found;
    for (Store &store : pending_) {
        if (!shadow.orders() || store.clock <= shadow.waited_for(store.pipe)) { // lines written back among them
            land(store);
            continue;
        }
        found.push_back({Omission::UnfinishedStore, store.site, ~0u, store.pipe, store.runs.base, store.runs.end()});
        std::move(store.pieces.begin(), store.pieces.end(), std::back_inserter(left_));
    }
    pending_.clear();
    pages_.clear();
    for (const uint64_t line : dirty_lines()) {
        const Line &cached = cache_.at(line);
        found.push_back({Omission::UncleanStore, cached.site, ~0u, kPipeScalar, line, line + kLineBytes});
        if (effects_)
            write_back(line, cached);
    }
    for (Store &store : pending_)
        std::move(store.pieces.begin(), store.pieces.end(), std::back_inserter(left_lines_));
    pending_.clear();
    cache_.clear();
    forget_landed();
    return found;
}

void WeakMemory::land_left(bool lost) {
    put_pieces(left_);
    if (!lost)
        put_pieces(left_lines_);
    left_.clear();
    left_lines_.clear();
}

} // namespace pypto::runtime
