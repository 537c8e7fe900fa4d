// Copying a rectangle between any two layouts, with conversion between floating-point types on the way.
#ifndef PTO_DETAIL_COPY_HPP
#define PTO_DETAIL_COPY_HPP

#include "plane.hpp"
#include "vector.hpp"

namespace pto::detail {

// Copies of one type move bits: one instance serves all types of a size. Like the rest of the instruction set, which
// sees memory as other types at will, this relies on -fno-strict-aliasing.
template <class T>
using Bits = conditional_t<sizeof(T) == 1, uint8_t,
                           conditional_t<sizeof(T) == 2, uint16_t, conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

template <class D, class S> PTO_INLINE D convert_element(S value) {
    if constexpr (is_same<D, S>)
        return value;
    else if constexpr (is_half<D> && is_half<S>)
        return D(float(value));
    else
        return D(value);
}

// Eight elements as the registers that D is stored from.
template <class D, class S>
inline constexpr bool converts_by_register = (is_float<D> && is_float<S>) || (is_same<D, float> && is_same<S, int8_t>);
template <class D, class S> PTO_INLINE f32x8 load_as(const S *from) {
    if constexpr (is_float<S>) {
        return load(from);
    } else {
        Vector<S, 8> raw;
        __builtin_memcpy(&raw, from, sizeof(raw));
        return __builtin_convertvector(widen_int<S>(raw), f32x8);
    }
}

template <class D> PTO_INLINE void store_from(D *to, f32x8 value) {
    if constexpr (is_same<D, bfloat16_t>) {
        const u16x8 bits = narrow_bf16(value);
        __builtin_memcpy(to, &bits, sizeof(bits));
    } else {
        store(to, value);
    }
}

template <class D, class S> PTO_INLINE void copy_run(D *to, const S *from, int64_t count) {
    if constexpr (is_same<D, S>) {
        const uint64_t bytes = uint64_t(count) * sizeof(D);
        if (bytes == 32) // a line of a box
            __builtin_memmove(to, from, 32);
        else
            __builtin_memmove(to, from, bytes);
    } else if constexpr (converts_by_register<D, S>) {
        int64_t i = 0;
        for (; i + 8 <= count; i += 8)
            store_from(to + i, load_as<D>(from + i));
        for (; i < count; ++i)
            to[i] = convert_element<D>(from[i]);
    } else {
        for (int64_t i = 0; i < count; ++i)
            to[i] = convert_element<D>(from[i]);
    }
}

// Transposes a square of registers. Each stage of the general form interleaves the lanes of the first and the second
// half of the rows, which is one instruction for registers of 16 bytes; as many stages as the number of rows has bits.
template <class V> PTO_INLINE void interleave_stage(V (&rows)[8]) {
    V next[8];
    PTO_UNROLL
    for (int i = 0; i < 4; ++i) {
        next[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
        next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    PTO_UNROLL
    for (int i = 0; i < 8; ++i)
        rows[i] = next[i];
}
template <class V> PTO_INLINE void interleave_stage(V (&rows)[16]) {
    V next[16];
    PTO_UNROLL
    for (int i = 0; i < 8; ++i) {
        next[2 * i] =
            __builtin_shufflevector(rows[i], rows[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        next[2 * i + 1] =
            __builtin_shufflevector(rows[i], rows[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    PTO_UNROLL
    for (int i = 0; i < 16; ++i)
        rows[i] = next[i];
}
template <class V, int n> PTO_INLINE void transpose_registers(V (&rows)[n]) {
    if constexpr (sizeof(V) == 32) { // of 32 bytes: pairs and quads within halves, then the halves
        V pairs[8], quads[8];
        PTO_UNROLL
        for (int i = 0; i < 8; i += 2) {
            pairs[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
            pairs[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
        }
        PTO_UNROLL
        for (int i = 0; i < 4; ++i) { // pairs 0 and 2, 1 and 3, 4 and 6, 5 and 7
            const V first = pairs[i / 2 * 4 + i % 2], second = pairs[i / 2 * 4 + i % 2 + 2];
            quads[2 * i] = __builtin_shufflevector(first, second, 0, 1, 8, 9, 4, 5, 12, 13);
            quads[2 * i + 1] = __builtin_shufflevector(first, second, 2, 3, 10, 11, 6, 7, 14, 15);
        }
        PTO_UNROLL
        for (int i = 0; i < 4; ++i) {
            rows[i] = __builtin_shufflevector(quads[i], quads[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
            rows[i + 4] = __builtin_shufflevector(quads[i], quads[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
        }
    } else {
        PTO_UNROLL
        for (int stage = 1; stage < n; stage *= 2)
            interleave_stage(rows);
    }
}

// to[r * to_stride + c] = from[c * from_stride + r] for a square of registers.
template <class D, class S>
PTO_NOINLINE void transpose_square(D *to, int64_t to_stride, const S *from, int64_t from_stride) {
    if constexpr (is_same<D, S>) {
        constexpr int n = sizeof(D) == 1 ? 16 : 8;
        Vector<conditional_t<sizeof(D) == 1, uint8_t, conditional_t<sizeof(D) == 2, uint16_t, uint32_t>>, n> rows[n];
        PTO_UNROLL
        for (int i = 0; i < n; ++i)
            __builtin_memcpy(&rows[i], from + i * from_stride, sizeof(rows[i]));
        transpose_registers(rows);
        PTO_UNROLL
        for (int i = 0; i < n; ++i)
            __builtin_memcpy(to + i * to_stride, &rows[i], sizeof(rows[i]));
    } else {
        f32x8 rows[8];
        PTO_UNROLL
        for (int i = 0; i < 8; ++i)
            rows[i] = load_as<D>(from + i * from_stride);
        transpose_registers(rows);
        PTO_UNROLL
        for (int i = 0; i < 8; ++i)
            store_from(to + i * to_stride, rows[i]);
    }
}

// Element by element. Not vectorised, which for strides is slow to compile and no faster to run.
template <class D, class S>
PTO_NOINLINE void copy_scattered(D *to, int64_t to_row, int64_t to_col, const S *from, int64_t from_row,
                                 int64_t from_col, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r, to += to_row, from += from_row) {
        D *target = to;
        const S *source = from;
        for (int64_t c = 0; c < cols; ++c, target += to_col, source += from_col) {
            *target = convert_element<D>(*source);
            __asm__ volatile("");
        }
    }
}

// to[r * to_stride + c] = from[c * from_stride + r]
template <class D, class S>
PTO_NOINLINE void copy_transposed(D *to, int64_t to_stride, const S *from, int64_t from_stride, int64_t rows,
                                  int64_t cols) {
    int64_t whole_rows = 0, whole_cols = 0;
    if constexpr ((is_same<D, S> && sizeof(D) <= 4) || converts_by_register<D, S>) {
        constexpr int64_t n = is_same<D, S> && sizeof(D) == 1 ? 16 : 8;
        whole_rows = rows - rows % n;
        whole_cols = cols - cols % n;
        for (int64_t r = 0; r < whole_rows; r += n)
            for (int64_t c = 0; c < whole_cols; c += n)
                transpose_square(to + r * to_stride + c, to_stride, from + c * from_stride + r, from_stride);
    }
    if (whole_cols < cols)
        copy_scattered(to + whole_cols, to_stride, 1, from + whole_cols * from_stride, 1, from_stride, whole_rows,
                       cols - whole_cols);
    if (whole_rows < rows)
        copy_scattered(to + whole_rows * to_stride, to_stride, 1, from + whole_rows, 1, from_stride, rows - whole_rows,
                       cols);
}

// A rectangle between two strided matrices.
template <class D, class S>
PTO_NOINLINE void copy_strided(D *to, int64_t to_row, int64_t to_col, const S *from, int64_t from_row, int64_t from_col,
                               int64_t rows, int64_t cols) {
    if (to_row == 1 && to_col != 1) // see both matrices transposed, so that the destination runs along its columns
        return copy_strided(to, to_col, to_row, from, from_col, from_row, cols, rows);
    if (to_col == 1 && from_row == 1 && from_col != 1)
        return copy_transposed(to, to_row, from, from_col, rows, cols);
    if (to_col != 1 || from_col != 1)
        return copy_scattered(to, to_row, to_col, from, from_row, from_col, rows, cols);
    if (to_row == cols && from_row == cols) {
        cols *= rows;
        rows = rows > 0;
    }
    for (int64_t r = 0; r < rows; ++r)
        copy_run(to + r * to_row, from + r * from_row, cols);
}

struct Position {
    int64_t row, col;
};

// to[at.row + r, at.col + c] = from[start.row + r, start.col + c]: cut at the boxes of both, each piece is strided.
template <class D, class S>
PTO_NOINLINE void copy_plane(D *to, const Plane &tp, Position at, const S *from, const Plane &fp, Position start,
                             int64_t rows, int64_t cols) {
    const auto least = [](int64_t a, int64_t b, int64_t c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); };
    for (int64_t r = 0, h; r < rows; r += h) {
        const int64_t tr = at.row + r, fr = start.row + r;
        h = least(rows - r, tp.rows_left(tr), fp.rows_left(fr));
        D *const to_row = to + tp.row_offset(tr);
        const S *const from_row = from + fp.row_offset(fr);
        for (int64_t c = 0, w; c < cols; c += w) {
            const int64_t tc = at.col + c, fc = start.col + c;
            w = least(cols - c, tp.cols_left(tc), fp.cols_left(fc));
            copy_strided(to_row + tp.col_offset(tc), tp.row_stride, tp.col_stride, from_row + fp.col_offset(fc),
                         fp.row_stride, fp.col_stride, h, w);
        }
    }
}

// The same for any pair of element types; equal types share the code of their size.
template <class D, class S>
PTO_INLINE void copy_elements(D *to, const Plane &tp, Position at, const S *from, const Plane &fp, Position start,
                              int64_t rows, int64_t cols) {
    if constexpr (is_same<remove_cv_t<D>, remove_cv_t<S>>)
        copy_plane((Bits<D> *)to, tp, at, (const Bits<S> *)from, fp, start, rows, cols);
    else
        copy_plane(to, tp, at, from, fp, start, rows, cols);
}

} // namespace pto::detail

#endif
