// map(): one pass over a matrix that applies an operation, one register at a time.
//
// A matrix is contiguous along its columns and strided along its rows. A source is one of the classes below; what they
// have in common is row(r), which gives a cursor with at(i), the register that starts at column i, pair(i), the two
// that do, and part(i, n). Operands may be the same memory: every register is read before the one it produces is
// written.
#ifndef PTO_DETAIL_LOOPS_HPP
#define PTO_DETAIL_LOOPS_HPP

#include "vector.hpp"

namespace pto::detail {

// A matrix.
template <class T> struct Matrix {
    const T *base;
    int64_t stride;

    struct Cursor {
        const T *from;
        PTO_INLINE Register<T> at(int64_t i) const { return load(from + i); }
        PTO_INLINE Pair<T> pair(int64_t i) const { return load_pair(from + i); }
        PTO_INLINE Register<T> part(int64_t i, int64_t n) const { return load_part(from + i, n); }
    };
    PTO_INLINE Cursor row(int64_t r) const { return {base + r * stride}; }
    PTO_INLINE bool dense(int64_t cols) const { return stride == cols; }
};

// One value for all elements.
template <class T> struct Uniform {
    Compute<T> value;

    struct Cursor {
        Register<T> value;
        PTO_INLINE Register<T> at(int64_t) const { return value; }
        PTO_INLINE Pair<T> pair(int64_t) const { return {value, value}; }
        PTO_INLINE Register<T> part(int64_t, int64_t) const { return value; }
    };
    PTO_INLINE Cursor row(int64_t) const { return {splat<T>(value)}; }
    PTO_INLINE bool dense(int64_t) const { return true; }
};

// One value for each row.
template <class T> struct PerRow {
    const T *base;
    int64_t stride;

    PTO_INLINE typename Uniform<T>::Cursor row(int64_t r) const { return {splat<T>(to_compute(base[r * stride]))}; }
    PTO_INLINE bool dense(int64_t) const { return false; }
};

// A block of 32 bytes for each row, repeated along the columns.
template <class T> struct BlockPerRow {
    const T *base;
    int64_t stride;

    struct Cursor {
        const T *from;
        static constexpr int64_t mask = 32 / sizeof(T) - 1;
        PTO_INLINE Register<T> at(int64_t i) const { return load(from + (i & mask)); }
        PTO_INLINE Pair<T> pair(int64_t i) const {
            if constexpr (sizeof(T) == 2)
                return load_pair(from); // the whole block
            else
                return {at(i), at(i + lanes<T>)};
        }
        PTO_INLINE Register<T> part(int64_t i, int64_t) const { return at(i); }
    };
    PTO_INLINE Cursor row(int64_t r) const { return {base + r * stride}; }
    PTO_INLINE bool dense(int64_t) const { return false; }
};

// Columns [i, end), whole registers.
template <class Op, class T, class... Cursors>
PTO_INLINE void map_registers(const Op &op, T *to, int64_t i, int64_t end, Cursors... from) {
    constexpr int64_t step = lanes<T>;
    for (; i + 2 * step <= end; i += 2 * step)
        [&](auto... pair) PTO_LAMBDA_INLINE {
            const Register<T> first = op(pair.first...), second = op(pair.second...);
            store_pair(to + i, first, second);
        }(from.pair(i)...);
    if (i < end)
        store(to + i, op(from.at(i)...));
}

template <class Op, class = void> inline constexpr bool has_usual = false;
template <class Op> inline constexpr bool has_usual<Op, void_t<typename Op::Usual>> = true;

template <class Op, class T, class... Cursors>
PTO_INLINE void map_row(const Op &op, T *to, int64_t cols, Cursors... from) {
    constexpr int64_t step = lanes<T>, block = 32 * step;
    const int64_t whole = cols - cols % step;
    if constexpr (has_usual<Op>) { // decided for a block at a time, so that the loop itself has no branch
        for (int64_t i = 0; i < whole; i += block) {
            const int64_t end = whole - i < block ? whole : i + block;
            auto usual = Op::usual(from.at(i)...);
            for (int64_t k = i + step; k < end; k += step)
                usual &= Op::usual(from.at(k)...);
            if (__builtin_expect(mask_bits(usual) == 0xffu, 1))
                map_registers(typename Op::Usual{}, to, i, end, from...);
            else
                map_registers(op, to, i, end, from...);
        }
    } else {
        map_registers(op, to, 0, whole, from...);
    }
    if (whole < cols)
        store_part(to + whole, op(from.part(whole, cols - whole)...), cols - whole);
}

template <class Op, class T, class... Sources>
PTO_NOINLINE void map(Op op, T *to, int64_t stride, int64_t rows, int64_t cols, Sources... from) {
    if (stride == cols && (from.dense(cols) && ...)) {
        cols *= rows;
        rows = cols > 0;
    }
    for (int64_t r = 0; r < rows; ++r)
        map_row(op, to + r * stride, cols, from.row(r)...);
}

// The same for operands whose layouts have no common contiguous direction: element by element.
template <class T> struct Scattered {
    const T *base;
    int64_t row_stride, col_stride;
    PTO_INLINE Register<T> at(int64_t r, int64_t c) const {
        return load_part(base + r * row_stride + c * col_stride, 1);
    }
};

template <class Op, class T, class... Sources>
PTO_NOINLINE void map_scattered(Op op, T *to, int64_t row_stride, int64_t col_stride, int64_t rows, int64_t cols,
                                Sources... from) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            store_part(to + r * row_stride + c * col_stride, op(from.at(r, c)...), 1);
}

} // namespace pto::detail

#endif
