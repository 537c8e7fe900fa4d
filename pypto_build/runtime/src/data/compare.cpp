// One pass over both buffers, for as long as everything is close.
#include "data/compare.h"

#include "base/types.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace pypto::runtime {

namespace {

double widen(float value) {
    return value;
}

double widen_bfloat16(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

template <typename Stored, typename Widen>
std::optional<Closeness> compare_floats(const void *actual, const void *expected, uint64_t count, double rtol,
                                        double atol, Widen widen) {
    const auto *left = static_cast<const Stored *>(actual);
    const auto *right = static_cast<const Stored *>(expected);
    Closeness found;
    bool close = true;
    for (uint64_t i = 0; i < count && close; ++i) {
        const double a = widen(left[i]);
        const double e = widen(right[i]);
        const double difference = std::fabs(a - e);
        const double size = std::fabs(e);
        close = size < HUGE_VAL && difference <= atol + rtol * size;
        found.max_abs = std::max(found.max_abs, difference);
        if (size > 0.0)
            found.max_rel = std::max(found.max_rel, difference / size);
    }
    return close ? std::optional(found) : std::nullopt;
}

} // namespace

std::optional<Closeness> compare(DataType type, const void *actual, const void *expected, uint64_t count, double rtol,
                                 double atol) {
    switch (type) {
    case DataType::FLOAT32:
        return compare_floats<float>(actual, expected, count, rtol, atol, widen);
    case DataType::FLOAT16:
        return compare_floats<uint16_t>(actual, expected, count, rtol, atol, half_value);
    case DataType::BFLOAT16:
        return compare_floats<uint16_t>(actual, expected, count, rtol, atol, widen_bfloat16);
    case DataType::INT8:
    case DataType::UINT8:
    case DataType::BOOL:
    case DataType::INT16:
    case DataType::UINT16:
    case DataType::INT32:
    case DataType::UINT32:
    case DataType::INT64:
    case DataType::UINT64:
        if (std::memcmp(actual, expected, count * element_bytes(type)) == 0)
            return Closeness{};
        return std::nullopt;
    default:
        return std::nullopt;
    }
}

} // namespace pypto::runtime
