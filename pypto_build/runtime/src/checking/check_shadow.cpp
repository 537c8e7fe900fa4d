// Written and read bytes by pipe, and the pipes that have been made to wait for them.
#include "checking/check_shadow.h"

#include <algorithm>
#include <cstring>

namespace pypto::runtime {

namespace {

constexpr int64_t kBlock = 32;

// Calls visit(word, mask) for the words that hold bits [begin, end), until it returns false.
template <typename Visit> void for_each_word(int64_t begin, int64_t end, Visit visit) {
    for (int64_t bit = begin; bit < end;) {
        const int64_t offset = bit & 63, count = std::min<int64_t>(64 - offset, end - bit);
        const uint64_t mask = (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << offset;
        if (!visit(bit >> 6, mask))
            return;
        bit += count;
    }
}

// Returns the result of visit(block) for the first 32 bytes of the runs with one, or null.
template <typename Visit> auto find_block(const Runs &runs, Visit visit) -> decltype(visit(0)) {
    for (int64_t i = 0; i < runs.count; ++i) {
        const int64_t begin = runs.start + i * runs.stride;
        for (int64_t block = begin / kBlock; block <= (begin + runs.length - 1) / kBlock; ++block)
            if (const auto found = visit(block))
                return found;
    }
    return nullptr;
}

Runs joined(Runs runs) {
    if (runs.count > 1 && runs.stride == runs.length)
        return {runs.start, 1, runs.count * runs.length, runs.count * runs.length};
    return runs;
}

void join(PipeClock &into, const PipeClock &from) {
    for (uint32_t i = 0; i < kPipes; ++i)
        into[i] = std::max(into[i], from[i]);
}

} // namespace

Runs runs_of(const PyptoTileAccess &a) {
    const int64_t element = a.element;
    if (a.height <= 0 || a.width <= 0)
        return {0, 0, 0, 0};
    if (!a.fractals && a.row_major)
        return joined({(int64_t{a.row} * a.cols + a.col) * element, a.height, a.cols * element, a.width * element});
    if (!a.fractals)
        return joined({(int64_t{a.col} * a.rows + a.row) * element, a.width, a.rows * element, a.height * element});
    const int64_t fractal = int64_t{a.fractal_rows} * a.fractal_cols * element;
    const int64_t top = a.row / a.fractal_rows, bottom = (a.row + a.height + a.fractal_rows - 1) / a.fractal_rows;
    const int64_t left = a.col / a.fractal_cols, right = (a.col + a.width + a.fractal_cols - 1) / a.fractal_cols;
    const int64_t row_pitch = int64_t{a.fractal_rows} * a.cols * element;
    const int64_t col_pitch = int64_t{a.fractal_cols} * a.rows * element;
    if (a.row_major)
        return joined({top * row_pitch + left * fractal, bottom - top, row_pitch, (right - left) * fractal});
    return joined({left * col_pitch + top * fractal, right - left, col_pitch, (bottom - top) * fractal});
}

void Shadow::forget(Memory &memory) const {
    const auto clear = [&](std::vector<uint32_t> &numbers) {
        std::fill(numbers.begin() + memory.low / kBlock, numbers.begin() + (memory.high - 1) / kBlock + 1, 0);
    };
    std::fill(memory.written.begin() + memory.low / 64, memory.written.begin() + (memory.high - 1) / 64 + 1, 0);
    clear(memory.writers);
    for (std::vector<uint32_t> &numbers : memory.readers)
        if (!numbers.empty())
            clear(numbers);
}

void Shadow::begin(const PyptoCoreContext &context) {
    for (int i = 0; i < PYPTO_SPACE_COUNT; ++i) {
        Memory &memory = memories_[i];
        if (memory.size != context.memory[i].size) {
            memory.size = context.memory[i].size;
            memory.written.assign(memory.size / 64 + 1, 0);
            memory.writers.assign(memory.size / kBlock + 1, 0);
            memory.readers = {};
        } else if (memory.low < memory.high) {
            forget(memory);
        }
        memory.low = INT64_MAX;
        memory.high = 0;
    }
    accesses_.assign(1, {});
    issued_ = {};
    clocks_ = {};
    flags_.clear();
    in_vain_.clear();
    waits_.clear();
    uses_flags_ = orders_ = false;
}

uint32_t Shadow::add(Memory &memory, const ShadowAccess &access) {
    const Runs &runs = access.runs;
    memory.low = std::min(memory.low, runs.start);
    memory.high = std::max(memory.high, runs.start + (runs.count - 1) * runs.stride + runs.length);
    accesses_.push_back(access);
    return static_cast<uint32_t>(accesses_.size() - 1);
}

void Shadow::write(int space, const ShadowAccess &access) {
    const Runs &runs = access.runs;
    if (runs.count == 0)
        return;
    Memory &memory = memories_[space];
    const uint32_t number = add(memory, access);
    for (int64_t i = 0; i < runs.count; ++i) {
        const int64_t begin = runs.start + i * runs.stride, end = begin + runs.length;
        for_each_word(begin, end, [&](int64_t word, uint64_t mask) {
            memory.written[word] |= mask;
            return true;
        });
        std::fill(memory.writers.begin() + begin / kBlock, memory.writers.begin() + (end - 1) / kBlock + 1, number);
    }
}

void Shadow::read(int space, const ShadowAccess &access) {
    const Runs &runs = access.runs;
    if (runs.count == 0)
        return;
    Memory &memory = memories_[space];
    std::vector<uint32_t> &readers = memory.readers[access.pipe];
    if (readers.empty())
        readers.assign(memory.size / kBlock + 1, 0);
    const uint32_t number = add(memory, access);
    for (int64_t i = 0; i < runs.count; ++i) {
        const int64_t begin = runs.start + i * runs.stride, end = begin + runs.length;
        std::fill(readers.begin() + begin / kBlock, readers.begin() + (end - 1) / kBlock + 1, number);
    }
}

int64_t Shadow::first_unwritten(int space, const Runs &runs, bool &any) const {
    const Memory &memory = memories_[space];
    int64_t first = -1;
    any = false;
    for (int64_t i = 0; i < runs.count; ++i) {
        const int64_t begin = runs.start + i * runs.stride;
        for_each_word(begin, begin + runs.length, [&](int64_t word, uint64_t mask) {
            const uint64_t missing = mask & ~memory.written[word];
            any |= missing != mask;
            if (missing && first < 0)
                first = word * 64 + __builtin_ctzll(missing);
            return first < 0 || !any;
        });
        if (first >= 0 && any)
            break;
    }
    return first;
}

ShadowAccess *Shadow::scratch(int space, const Runs &runs) {
    const Memory &memory = memories_[space];
    return find_block(runs, [&](int64_t block) -> ShadowAccess * {
        ShadowAccess &access = accesses_[memory.writers[block]];
        return access.scratch ? &access : nullptr;
    });
}

// Hardware starts a vector instruction while the one before still runs. It is far enough ahead where both go through
// the very same bytes and the first one is long; the compiler leaves the barrier out there.
bool Shadow::waited_for(const ShadowAccess &earlier, const Runs &runs, uint32_t pipe) const {
    constexpr uint32_t kLong = 16;
    if (earlier.clock <= clocks_[pipe][earlier.pipe])
        return true;
    if (earlier.pipe != pipe)
        return false;
    return pipe != kPipeVector || !vector_barriers_ || (earlier.repeats >= kLong && earlier.runs == runs);
}

ShadowConflict Shadow::unordered(int space, const Runs &runs, uint32_t pipe, bool writes) const {
    const Memory &memory = memories_[space];
    const auto against = [&](const std::vector<uint32_t> &numbers) {
        uint32_t last = 0;
        return find_block(runs, [&](int64_t block) -> const ShadowAccess * {
            if (numbers[block] == last)
                return nullptr;
            last = numbers[block];
            const ShadowAccess &earlier = accesses_[last];
            return last && !waited_for(earlier, runs, pipe) ? &earlier : nullptr;
        });
    };
    std::array<ShadowConflict, kPipes + 1> found;
    uint32_t count = 0;
    if (const ShadowAccess *write = against(memory.writers))
        found[count++] = {write, false};
    // The scalar pipe has its reads before the next instruction is issued.
    for (uint32_t reader = kPipeScalar + 1; writes && reader < kPipes; ++reader)
        if (!memory.readers[reader].empty())
            if (const ShadowAccess *read = against(memory.readers[reader]))
                found[count++] = {read, true};
    // Prefers the pipe that has waited for the others: a wait for it orders all of them.
    const auto covers = [&](const ShadowConflict &one) {
        return std::all_of(found.begin(), found.begin() + count, [&](const ShadowConflict &other) {
            const ShadowAccess &a = *one.earlier, &b = *other.earlier;
            return a.pipe == b.pipe ? a.clock >= b.clock : b.clock <= clocks_[a.pipe][b.pipe];
        });
    };
    const auto best = std::find_if(found.begin(), found.begin() + count, covers);
    return best == found.begin() + count ? found[0] : *best;
}

void Shadow::forgive(uint32_t earlier, uint32_t pipe) {
    if (earlier != pipe)
        join(clocks_[pipe], clocks_[earlier]);
    clocks_[pipe][earlier] = issued_[earlier];
}

void Shadow::set_flag(uint32_t from, uint32_t to, uint32_t id, uint32_t site) {
    uses_flags_ = orders_ = true;
    ShadowFlag flag{from, to, id, clocks_[from], site};
    flag.clock[from] = issued_[from];
    flags_.push_back(flag);
}

// A wait in vain orders all the same: what it should have ordered is the same omission.
void Shadow::wait_flag(uint32_t from, uint32_t to, uint32_t id, uint32_t site) {
    uses_flags_ = orders_ = true;
    ShadowWaits &waits = waits_[site];
    ++waits.all;
    const auto flag = std::find_if(flags_.begin(), flags_.end(),
                                   [&](const ShadowFlag &f) { return f.from == from && f.to == to && f.id == id; });
    if (flag != flags_.end()) {
        join(clocks_[to], flag->clock);
        flags_.erase(flag);
        return;
    }
    ++waits.in_vain;
    in_vain_.push_back({from, to, id, {}, site});
    forgive(from, to);
}

ShadowWaits Shadow::waits_at(uint32_t site) const {
    const auto found = waits_.find(site);
    return found == waits_.end() ? ShadowWaits{} : found->second;
}

void Shadow::barrier(uint32_t pipe, bool own) {
    orders_ |= !own;
    if (pipe != kPipeAll) {
        clocks_[pipe][pipe] = issued_[pipe];
        return;
    }
    for (PipeClock &clock : clocks_)
        clock = issued_;
}

} // namespace pypto::runtime
