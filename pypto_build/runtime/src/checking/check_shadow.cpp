// Which bytes were written, by which pipe, and which pipes have been made to wait for them.
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

void Shadow::begin(const PyptoCoreContext &context) {
    for (int i = 0; i < PYPTO_SPACE_COUNT; ++i) {
        Memory &memory = memories_[i];
        if (memory.size != context.memory[i].size) {
            memory.size = context.memory[i].size;
            memory.written.assign(memory.size / 64 + 1, 0);
            memory.writers.assign(memory.size / kBlock + 1, 0);
        } else if (memory.low < memory.high) {
            std::fill(memory.written.begin() + memory.low / 64, memory.written.begin() + (memory.high - 1) / 64 + 1, 0);
            std::fill(memory.writers.begin() + memory.low / kBlock,
                      memory.writers.begin() + (memory.high - 1) / kBlock + 1, 0);
        }
        memory.low = INT64_MAX;
        memory.high = 0;
    }
    writes_.assign(1, {});
    clocks_ = {};
    flags_.clear();
    uses_flags_ = false;
}

void Shadow::write(int space, const Runs &runs, uint32_t pipe, uint32_t site) {
    if (runs.count == 0)
        return;
    Memory &memory = memories_[space];
    const uint32_t number = static_cast<uint32_t>(writes_.size());
    writes_.push_back({pipe, clocks_[pipe][pipe], site});
    memory.low = std::min(memory.low, runs.start);
    memory.high = std::max(memory.high, runs.start + (runs.count - 1) * runs.stride + runs.length);
    for (int64_t i = 0; i < runs.count; ++i) {
        const int64_t begin = runs.start + i * runs.stride, end = begin + runs.length;
        for_each_word(begin, end, [&](int64_t word, uint64_t mask) {
            memory.written[word] |= mask;
            return true;
        });
        std::fill(memory.writers.begin() + begin / kBlock, memory.writers.begin() + (end - 1) / kBlock + 1, number);
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

const ShadowWrite *Shadow::unordered(int space, const Runs &runs, uint32_t pipe) const {
    const Memory &memory = memories_[space];
    const PipeClock &known = clocks_[pipe];
    uint32_t last = 0;
    for (int64_t i = 0; i < runs.count; ++i) {
        const int64_t begin = runs.start + i * runs.stride;
        for (int64_t block = begin / kBlock; block <= (begin + runs.length - 1) / kBlock; ++block) {
            const uint32_t number = memory.writers[block];
            if (number == last)
                continue;
            last = number;
            const ShadowWrite &write = writes_[number];
            if (number && write.pipe != pipe && write.clock > known[write.pipe])
                return &write;
        }
    }
    return nullptr;
}

void Shadow::forgive(const ShadowWrite &write, uint32_t pipe) {
    clocks_[pipe][write.pipe] = std::max(clocks_[pipe][write.pipe], write.clock);
}

void Shadow::set_flag(uint32_t from, uint32_t to, uint32_t id) {
    uses_flags_ = true;
    flags_.push_back({from << 16 | to << 8 | (id & 0xff), clocks_[from]});
}

void Shadow::wait_flag(uint32_t from, uint32_t to, uint32_t id) {
    uses_flags_ = true;
    const uint32_t key = from << 16 | to << 8 | (id & 0xff);
    const auto flag = std::find_if(flags_.begin(), flags_.end(), [&](const Flag &f) { return f.key == key; });
    if (flag == flags_.end())
        return;
    join(clocks_[to], flag->clock);
    flags_.erase(flag);
}

void Shadow::barrier(uint32_t pipe) {
    if (pipe != kPipeAll)
        return;
    PipeClock all{};
    for (const PipeClock &clock : clocks_)
        join(all, clock);
    clocks_.fill(all);
}

} // namespace pypto::runtime
