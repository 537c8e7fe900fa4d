// Reductions of rows on a2a3 whose scratch tile is too small, which breaks a rule of the device (NUMERICS=device).
//
// The device combines rows of over 256 bytes (a repeat) in the scratch tile, in instructions that take one repeat of
// all rows each. It writes past a scratch tile with too few rows, and rows of a narrow one lie on each other.
#ifndef PTO_DETAIL_REDUCE_IN_SCRATCH_HPP
#define PTO_DETAIL_REDUCE_IN_SCRATCH_HPP

#include "reduce_as_device.hpp"

namespace pto::detail {

template <class Op, bool is_sum, class D, class S, class Tmp> struct ScratchReduction {
    using T = ElementType<S>;
    static constexpr int64_t block = 32 / sizeof(T), width = 256 / sizeof(T), stride = Tmp::Cols / block * block;

    D &dst;
    const S &src;
    T *const tmp;
    const int64_t rows, whole, rest; // whole repeats of a row, and elements behind them

    static bool is_too_small(const S &src) {
        const int64_t rows = src.GetValidRow(), cols = src.GetValidCol(), pairs = is_sum ? cols / width / 2 : 1;
        return cols > width && (Tmp::Rows < rows || Tmp::Cols < width * (pairs > 1 ? pairs : 1));
    }

    void run() const {
        if (whole == 1) {
            if (S::Cols < width || Tmp::Cols < width)
                return; // the headers do nothing
            each([&](int64_t r, int64_t i) { at(r)[i] = row(r)[i]; }, width);
        } else if (is_sum) {
            for (int64_t k = 0; k < whole / 2; ++k)
                each([&](int64_t r, int64_t i) { at(r, k)[i] = both(row(r, 2 * k)[i], row(r, 2 * k + 1)[i]); }, width);
            if (whole % 2)
                add(whole - 1, width);
        } else {
            each([&](int64_t r, int64_t i) { at(r)[i] = both(row(r)[i], row(r, 1)[i]); }, width);
        }
        if (rest > 0)
            add(whole, rest);
        if (is_sum)
            add_pairs();
        else
            for (int64_t k = 2; k < whole; ++k)
                add(k, width);
        for (int64_t r = 0; r < rows; ++r)
            dst.data()[r * D::RowStride] = result(at(r));
    }

private:
    static T both(T a, T b) { return from_compute<T>(Op{}(splat<T>(to_compute(a)), splat<T>(to_compute(b)))[0]); }
    T *at(int64_t row, int64_t repeat = 0) const { return tmp + row * stride + repeat * width; }
    const T *row(int64_t row, int64_t repeat = 0) const { return src.data() + row * S::Cols + repeat * width; }
    template <class F> void each(F step, int64_t count) const {
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < count; ++i)
                step(r, i);
    }
    void add(int64_t repeat, int64_t count) const {
        each([&](int64_t r, int64_t i) { at(r)[i] = both(at(r)[i], row(r, repeat)[i]); }, count);
    }
    // The sums of pairs of repeats as a tree, whose odd ends join the sum before them.
    void add_pairs() const {
        for (int64_t count = whole / 2; count > 1;) {
            for (int64_t k = 0; k < count / 2; ++k)
                each([&](int64_t r, int64_t i) { at(r, k)[i] = both(at(r, 2 * k)[i], at(r, 2 * k + 1)[i]); }, width);
            const bool odd = count % 2;
            count /= 2;
            if (odd)
                each(
                    [&](int64_t r, int64_t i) { at(r, count - 1)[i] = both(at(r, count - 1)[i], at(r, 2 * count)[i]); },
                    width);
        }
    }
    static T result(const T *repeat) {
        if constexpr (is_sum) {
            float lane[width];
            for (int64_t i = 0; i < width; ++i)
                lane[i] = to_compute(repeat[i]);
            return from_compute<T>(sum_of_neighbours<T>(lane, width));
        }
        T value = repeat[0];
        for (int64_t i = 1; i < width; ++i)
            value = both(value, repeat[i]);
        return value;
    }
};

// Returns whether the rows were reduced in a scratch tile that is too small.
template <class Op, bool is_sum, class D, class S, class Tmp>
PTO_INLINE bool reduce_in_scratch(D &dst, const S &src, const Tmp &tmp) {
    using T = ElementType<S>;
    using Reduction = ScratchReduction<Op, is_sum, D, S, Tmp>;
    if (!Reduction::is_too_small(src))
        return false;
    const int64_t cols = src.GetValidCol();
    Reduction{dst, src, (T *)tmp.data(), src.GetValidRow(), cols / Reduction::width, cols % Reduction::width}.run();
    return true;
}

} // namespace pto::detail

#endif
