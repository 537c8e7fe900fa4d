// NaN, or a pattern where a type has none, and how much of it is left.
#include "data/poison.h"

#include "base/types.h"

#include <algorithm>

namespace pypto::runtime {

namespace {

constexpr uint64_t kRun = 8; // equal bytes in a row that cannot be chance

// Signaling NaNs: copies keep them, arithmetic turns them into the quiet NaN of the same payload, which tells
// unwritten elements from results computed of them. Integers get a pattern that is no plausible value.
uint64_t pattern_of(DataType dtype) {
    switch (dtype) {
    case DataType::FLOAT32:
        return 0x7f85a5a5u;
    case DataType::FLOAT16:
        return 0x7ca5u;
    case DataType::BFLOAT16:
        return 0x7fa5u;
    case DataType::FP8E4M3FN:
        return 0x7fu;
    case DataType::FP8E8M0:
        return 0xffu;
    default:
        return 0xa5a5a5a5a5a5a5a5ull;
    }
}

// Returns whether any of kStep elements matches: no branches, so that the compiler compares them side by side.
constexpr uint64_t kStep = 64;
template <typename T> bool any_of(const T *elements, T wanted) {
    T all = 1;
    for (uint64_t i = 0; i < kStep; ++i)
        all &= static_cast<T>(elements[i] != wanted);
    return !all;
}

template <typename T, typename Visit>
void find_runs(const uint8_t *memory, uint64_t count, uint64_t pattern, Visit visit) {
    const T *elements = reinterpret_cast<const T *>(memory);
    const T wanted = static_cast<T>(pattern);
    for (uint64_t i = 0; i < count;) {
        while (i + kStep <= count && !any_of(elements + i, wanted)) // nearly all memory has been written
            i += kStep;
        if (i == count)
            return;
        if (elements[i] != wanted) {
            ++i;
            continue;
        }
        uint64_t end = i + 1;
        while (end < count && elements[end] == wanted)
            ++end;
        visit(i, end);
        i = end;
    }
}

} // namespace

void fill_with_poison(uint8_t *memory, uint64_t bytes, DataType dtype) {
    fill_with_value(memory, bytes / element_bytes(dtype), dtype, pattern_of(dtype));
}

void fill_with_value(uint8_t *memory, uint64_t count, DataType dtype, uint64_t value) {
    with_word(dtype, [&](auto word) {
        using Word = decltype(word);
        std::fill_n(reinterpret_cast<Word *>(memory), count, static_cast<Word>(value));
    });
}

uint64_t find_poison(const uint8_t *memory, uint64_t count, DataType dtype, uint32_t limit,
                     std::vector<uint64_t> &first) {
    uint64_t found = 0;
    const uint64_t shortest = element_bytes(dtype) == 1 && dtype != DataType::BOOL ? kRun : 1;
    const auto visit = [&](uint64_t begin, uint64_t end) {
        if (end - begin < shortest && end - begin < count)
            return;
        found += end - begin;
        for (uint64_t i = begin; i < end && first.size() < limit; ++i)
            first.push_back(i);
    };
    with_word(dtype, [&](auto word) { find_runs<decltype(word)>(memory, count, pattern_of(dtype), visit); });
    return found;
}

} // namespace pypto::runtime
