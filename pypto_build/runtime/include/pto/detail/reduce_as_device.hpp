// Sums and products of rows and columns in the order, and with the roundings, of the device (NUMERICS=device): as the
// headers for it issue instructions, and as its pages describe these. docs/lookup/agreement.md has the sources.
#ifndef PTO_DETAIL_REDUCE_AS_DEVICE_HPP
#define PTO_DETAIL_REDUCE_AS_DEVICE_HPP

#include "elementwise.hpp"

namespace pto::detail {

// In the element's own type.
template <class T> PTO_INLINE float rounded_sum(float a, float b) {
    return to_compute(from_compute<T>(a + b));
}
template <class T> PTO_INLINE float rounded_product(float a, float b) {
    return to_compute(from_compute<T>(a * b));
}

// Reduces the lanes of a vector as the device does: a tree of neighbours. Sums of halves end at 65504.
template <class T> PTO_INLINE float sum_of_neighbours(float *lane, int64_t count) {
    for (; count > 1; count /= 2)
        for (int64_t i = 0; i < count / 2; ++i) {
            const float sum = rounded_sum<T>(lane[2 * i], lane[2 * i + 1]);
            lane[i] = !is_same<T, half> ? sum : sum > 65504 ? 65504 : sum < -65504 ? -65504 : sum;
        }
    return lane[0];
}

// Row `first` adds its pairs of whole vectors, the last one of an odd number and what is left over to the first pair,
// then these sums as a tree, whose odd ends join the sum before them (a2a3).
template <class T> PTO_INLINE float sum_of_lane(const T *first, int64_t whole, int64_t width, bool left_over) {
    constexpr int64_t most = 512; // pairs: a row fills the vector memory
    float sum[most];
    for (int64_t i = 0; i < whole / 2; ++i)
        sum[i] = rounded_sum<T>(to_compute(first[2 * i * width]), to_compute(first[(2 * i + 1) * width]));
    if (whole == 1)
        sum[0] = to_compute(first[0]);
    else if (whole % 2)
        sum[0] = rounded_sum<T>(sum[0], to_compute(first[(whole - 1) * width]));
    if (left_over)
        sum[0] = rounded_sum<T>(sum[0], to_compute(first[whole * width]));
    for (int64_t count = whole / 2; count > 1;) {
        for (int64_t i = 0; i < count / 2; ++i)
            sum[i] = rounded_sum<T>(sum[2 * i], sum[2 * i + 1]);
        const bool odd = count % 2;
        count /= 2;
        if (odd)
            sum[count - 1] = rounded_sum<T>(sum[count - 1], sum[2 * count]);
    }
    return sum[0];
}

template <class T> PTO_INLINE float sum_of_row_as_device(const T *row, int64_t cols) {
    constexpr int64_t width = 256 / int64_t(sizeof(T));
    float lane[width];
    if (PYPTO_ARCH == 2 && cols > width) {
        const int64_t whole = cols / width;
        for (int64_t i = 0; i < width; ++i)
            lane[i] = sum_of_lane(row + i, whole, width, i < cols % width);
        return sum_of_neighbours<T>(lane, width);
    }
    float total = 0;
    for (int64_t at = 0; at < cols; at += width) { // a5 adds one vector's sum after the other
        for (int64_t i = 0; i < width; ++i)
            lane[i] = at + i < cols ? to_compute(row[at + i]) : 0.0f;
        const float sum = sum_of_neighbours<T>(lane, width);
        total = at ? rounded_sum<T>(total, sum) : sum;
    }
    return total;
}

template <class T>
PTO_NOINLINE void sum_rows_as_device(T *to, int64_t to_stride, const T *from, int64_t stride, int64_t rows,
                                     int64_t cols) {
    for (int64_t r = 0; r < rows && cols > 0; ++r)
        to[r * to_stride] = from_compute<T>(sum_of_row_as_device(from + r * stride, cols));
}

// One row after the other, or, where `pairs`, pairs of rows, then pairs of these; an odd one joins the first pair.
template <class T> PTO_INLINE float sum_of_column_as_device(const T *column, int64_t stride, int64_t rows, bool pairs) {
    if (!pairs) {
        float total = to_compute(column[0]);
        for (int64_t r = 1; r < rows; ++r)
            total = rounded_sum<T>(total, to_compute(column[r * stride]));
        return total;
    }
    float sum[4096];
    for (int64_t r = 0; r < rows; ++r)
        sum[r] = to_compute(column[r * stride]);
    for (int64_t count = rows; count > 1; count /= 2) {
        for (int64_t i = 0; i < count / 2; ++i)
            sum[i] = rounded_sum<T>(sum[2 * i], sum[2 * i + 1]);
        if (count % 2)
            sum[0] = rounded_sum<T>(sum[0], sum[count - 1]);
    }
    return sum[0];
}
template <class T>
PTO_NOINLINE void sum_columns_as_device(T *to, int64_t to_stride, const T *from, int64_t stride, int64_t rows,
                                        int64_t cols, bool pairs) {
    for (int64_t c = 0; c < cols && rows > 0; ++c)
        to[c * to_stride] = from_compute<T>(sum_of_column_as_device(from + c, stride, rows, pairs && rows <= 4096));
}

// The lanes of a block side by side, then these one after the other.
template <class T>
PTO_NOINLINE void multiply_rows_as_device(T *to, int64_t to_stride, const T *from, int64_t stride, int64_t rows,
                                          int64_t cols) {
    constexpr int64_t width = 32 / int64_t(sizeof(T));
    for (int64_t r = 0; r < rows && cols > 0; ++r) {
        float lane[width], product = 1;
        for (float &each : lane)
            each = 1;
        for (int64_t c = 0; c < cols; ++c)
            lane[c % width] = rounded_product<T>(lane[c % width], to_compute(from[r * stride + c]));
        for (const float each : lane)
            product = rounded_product<T>(product, each);
        to[r * to_stride] = from_compute<T>(product);
    }
}

// Returns whether TCOLSUM adds pairs of rows.
PTO_INLINE bool adds_pairs() {
    return false;
}
template <class First, class... Rest> PTO_INLINE bool adds_pairs(const First &first, const Rest &...rest) {
    if constexpr (is_same<First, bool>)
        return first;
    else
        return adds_pairs(rest...);
}

} // namespace pto::detail

#endif
