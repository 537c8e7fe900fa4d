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
        PTO_INLINE u16x16 bits(int64_t i) const { // of halves
            u16x16 value;
            __builtin_memcpy(&value, from + i, sizeof(value));
            return value;
        }
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
            if constexpr (is_half<T>)
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

// The function that an operation is on elements of type T; void for one that is simple arithmetic.
template <class Op, class T, class = void> struct FunctionOf {
    using type = void;
};
template <class Op, class T> struct FunctionOf<Op, T, void_t<decltype(Op::template Function<T>::limit)>> {
    using type = typename Op::template Function<T>;
};

constexpr int side_by_side = 4; // registers

template <class Function> PTO_NOINLINE void apply_to_any(f32x8 *memory) {
    constexpr int n = side_by_side;
    f32x8 x[n];
    PTO_EACH x[i] = memory[i];
    Function::any(x);
    PTO_EACH memory[i] = x[i];
}
// x: the elements from i on, of one operand or computed of two.
template <class Function, class... Cursors>
PTO_INLINE void apply(f32x8 (&x)[side_by_side], int64_t i, Cursors... from) {
    constexpr int n = side_by_side;
    bool easy;
    if constexpr (is_same<typename Function::Raw, u16x16>) {
        const u16x16 largest = lane_max(Function::rank(from.bits(i)...), Function::rank(from.bits(i + 16)...));
        easy = mask_bits(bit_cast<Vector<char, 32>>(largest < Function::limit)) == 0xffffffffu;
    } else {
        u32x8 largest = Function::rank(bit_cast<u32x8>(x[0]));
        PTO_EACH largest = lane_max(largest, Function::rank(bit_cast<u32x8>(x[i])));
        easy = mask_bits(largest < Function::limit) == 0xffu;
    }
    if (__builtin_expect(easy, 1))
        return Function::several(x);
    f32x8 memory[n];
    PTO_EACH memory[i] = x[i];
    apply_to_any<Function>(memory);
    PTO_EACH x[i] = memory[i];
}

template <class Op, class T, class... Cursors>
PTO_INLINE void map_row(const Op &op, T *to, int64_t cols, Cursors... from) {
    constexpr int64_t step = lanes<T>;
    using Function = typename FunctionOf<Op, T>::type;
    if constexpr (is_same<Function, void>) {
        const int64_t whole = cols - cols % step;
        map_registers(op, to, 0, whole, from...);
        if (whole < cols)
            store_part(to + whole, op(from.part(whole, cols - whole)...), cols - whole);
    } else {
        constexpr int n = side_by_side;
        int64_t i = 0;
        for (; i + n * step <= cols; i += n * step) {
            f32x8 x[n];
            PTO_UNROLL
            for (int k = 0; k < n; k += 2)
                [&](auto... pair) PTO_LAMBDA_INLINE {
                    x[k] = Op::argument(pair.first...);
                    x[k + 1] = Op::argument(pair.second...);
                }(from.pair(i + k * step)...);
            apply<Function>(x, i, from...);
            PTO_UNROLL
            for (int k = 0; k < n; k += 2)
                store_pair<T, false>(to + i + k * step, x[k], x[k + 1]);
        }
        if (i == cols)
            return;
        f32x8 rest[n] = {};
        const int64_t whole = (cols - i) / step, count = (cols - i) % step;
        for (int64_t k = 0; k < whole; ++k)
            rest[k] = Op::argument(from.at(i + k * step)...);
        if (count > 0)
            rest[whole] = Op::argument(from.part(i + whole * step, count)...);
        apply_to_any<Function>(rest);
        for (int64_t k = 0; k < whole; ++k)
            store<T, false>(to + i + k * step, rest[k]);
        if (count > 0)
            store_part<T, false>(to + i + whole * step, rest[whole], count);
    }
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
