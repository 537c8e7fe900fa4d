// map(): one pass over a matrix that applies an operation, one register at a time.
//
// A matrix is contiguous along its columns and strided along its rows. A source is one of the classes below; what they
// have in common is row(r), which gives a cursor with at(i), the register that starts at column i, and part(i, n).
// Operands may be the same memory: every register is read before the one it produces is written.
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
        PTO_INLINE Register<T> part(int64_t i, int64_t) const { return at(i); }
    };
    PTO_INLINE Cursor row(int64_t r) const { return {base + r * stride}; }
    PTO_INLINE bool dense(int64_t) const { return false; }
};

template <class Op, class T, class... Cursors>
PTO_INLINE void map_row(const Op &op, T *to, int64_t cols, Cursors... from) {
    constexpr int64_t step = lanes<T>;
    int64_t i = 0;
    for (; i + 2 * step <= cols; i += 2 * step) {
        const Register<T> first = op(from.at(i)...), second = op(from.at(i + step)...);
        store(to + i, first);
        store(to + i + step, second);
    }
    if (i + step <= cols) {
        store(to + i, op(from.at(i)...));
        i += step;
    }
    if (i < cols)
        store_part(to + i, op(from.part(i, cols - i)...), cols - i);
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
