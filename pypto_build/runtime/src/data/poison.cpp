// NaN, or a pattern where a type has none, and how much of it is left.
#include "data/poison.h"

#include <cstring>

namespace pypto::runtime {

namespace {

constexpr uint64_t kRun = 8; // equal bytes in a row that cannot be chance

// Signaling NaNs: copies keep them, arithmetic turns them into the quiet NaN of the same payload, which tells elements
// that nobody wrote from results computed of such. Integers get a pattern that is no plausible value.
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

template <typename T> void fill(uint8_t *memory, uint64_t count, uint64_t value) {
    T *elements = reinterpret_cast<T *>(memory);
    for (uint64_t i = 0; i < count; ++i)
        elements[i] = static_cast<T>(value);
}

void fill_elements(uint8_t *memory, uint64_t count, uint32_t bytes, uint64_t value) {
    switch (bytes) {
    case 8:
        return fill<uint64_t>(memory, count, value);
    case 4:
        return fill<uint32_t>(memory, count, value);
    case 2:
        return fill<uint16_t>(memory, count, value);
    default:
        std::memset(memory, static_cast<int>(value & 0xff), count);
    }
}

// Whether any of kStep elements is wanted: no branches, so that the compiler compares them side by side.
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
    const uint32_t size = element_bytes(dtype);
    fill_elements(memory, bytes / size, size, pattern_of(dtype));
}

void fill_with_value(uint8_t *memory, uint64_t count, DataType dtype, uint64_t value) {
    fill_elements(memory, count, element_bytes(dtype), value);
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
    const uint64_t pattern = pattern_of(dtype);
    switch (element_bytes(dtype)) {
    case 8:
        find_runs<uint64_t>(memory, count, pattern, visit);
        break;
    case 4:
        find_runs<uint32_t>(memory, count, pattern, visit);
        break;
    case 2:
        find_runs<uint16_t>(memory, count, pattern, visit);
        break;
    default:
        find_runs<uint8_t>(memory, count, pattern, visit);
    }
    return found;
}

} // namespace pypto::runtime
