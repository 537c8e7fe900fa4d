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

PTO_INLINE i32x8 line_at(const char *from) {
    i32x8 line;
    __builtin_memcpy(&line, from, sizeof(line));
    return line;
}
PTO_INLINE void put_line(char *to, i32x8 line) {
    __builtin_memcpy(to, &line, sizeof(line));
}

// Rows of bytes. Not by memmove: the instruction that it takes for long rows is ten times slower on some processors
// when both addresses lie at the same place of a page, as tiles and tensors often do, and g++ makes calls of short
// ones.
template <class = void>
PTO_NOINLINE void copy_rows(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t rows,
                            int64_t bytes) {
    if (to_stride == bytes && from_stride == bytes) {
        bytes *= rows;
        rows = rows > 0;
    }
    for (; rows > 0; --rows, to += to_stride, from += from_stride) {
        if (bytes == 32) { // a line of a fractal, or of one of the accumulator
            put_line(to, line_at(from));
        } else if (bytes == 64) {
            const i32x8 first = line_at(from), second = line_at(from + 32);
            put_line(to, first);
            put_line(to + 32, second);
        } else if (bytes < 32 || (to > from && to < from + bytes)) {
            __builtin_memmove(to, from, uint64_t(bytes));
        } else {
            const i32x8 last = line_at(from + bytes - 32);
            for (int64_t i = 0; i + 32 <= bytes; i += 32)
                put_line(to + i, line_at(from + i));
            put_line(to + bytes - 32, last);
        }
    }
}

// A row of elements that are converted.
template <class D, class S> PTO_INLINE void copy_run(D *to, const S *from, int64_t count) {
    int64_t i = 0;
    if constexpr (converts_by_register<D, S>)
        for (; i + 8 <= count; i += 8)
            store_from(to + i, load_as<D>(from + i));
    for (; i < count; ++i)
        to[i] = convert_element<D>(from[i]);
}

using u64x2 = Vector<uint64_t, 2>;
using u64x4 = Vector<uint64_t, 4>;

// Interleaves each 16 bytes of a and b: the elements of their first halves, and of their second halves.
using bytes32 = Vector<uint8_t, 32>;
PTO_INLINE bytes32 interleave_low(bytes32 a, bytes32 b) {
    return __builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 16, 48, 17, 49, 18, 50,
                                   19, 51, 20, 52, 21, 53, 22, 54, 23, 55);
}
PTO_INLINE bytes32 interleave_high(bytes32 a, bytes32 b) {
    return __builtin_shufflevector(a, b, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47, 24, 56, 25, 57,
                                   26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
}
PTO_INLINE u16x16 interleave_low(u16x16 a, u16x16 b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27);
}
PTO_INLINE u16x16 interleave_high(u16x16 a, u16x16 b) {
    return __builtin_shufflevector(a, b, 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31);
}
PTO_INLINE u32x8 interleave_low(u32x8 a, u32x8 b) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
PTO_INLINE u32x8 interleave_high(u32x8 a, u32x8 b) {
    return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}

// Blocks to transpose: `lines` lines of 16 bytes, which have `width` elements.
template <class S> inline constexpr int block_lines = sizeof(S) == 4 ? 8 : 16;
template <class S> inline constexpr int block_width = 16 / int(sizeof(S));

PTO_INLINE u64x4 both(u64x2 low, u64x2 high) {
#if defined(__AVX2__) && !defined(__clang__) // g++ 12 takes another instruction, whose operands are not in memory
    using L = Vector<long long, 4>;
    const L lower = bit_cast<L>(__builtin_shufflevector(low, low, 0, 1, -1, -1));
    return bit_cast<u64x4>(__builtin_ia32_insert128i256(lower, bit_cast<Vector<long long, 2>>(high), 1));
#else
    return __builtin_shufflevector(low, high, 0, 1, 2, 3);
#endif
}

// to[c * to_stride + r] = from[r * from_stride + c]. Lines r and r + n share a register. A stage interleaves the first
// half of the registers with the second; then each half of a register has n elements of a column, or of two.
template <class S> PTO_INLINE void transpose_block(S *to, int64_t to_stride, const S *from, int64_t from_stride) {
    constexpr int lines = block_lines<S>, n = lines / 2, columns = block_width<S> / n;
    using V = Vector<Bits<S>, 32 / sizeof(S)>;
    V row[n], next[n];
    PTO_EACH {
        u64x2 low, high;
        __builtin_memcpy(&low, from + i * from_stride, sizeof(low));
        __builtin_memcpy(&high, from + (i + n) * from_stride, sizeof(high));
        row[i] = bit_cast<V>(both(low, high));
    }
    PTO_UNROLL
    for (int stage = 1; stage < n; stage *= 2) {
        PTO_EACH next[i] =
            i % 2 ? interleave_high(row[i / 2], row[(i + n) / 2]) : interleave_low(row[i / 2], row[(i + n) / 2]);
        PTO_EACH row[i] = next[i];
    }
    PTO_EACH {
        u64x4 line = bit_cast<u64x4>(row[i]);
        if constexpr (columns == 2)
            line = __builtin_shufflevector(line, line, 0, 2, 1, 3);
        S *const target = to + i * columns * to_stride;
        if constexpr (columns == 1)
            __builtin_memcpy(target, &line, sizeof(line));
        else
            PTO_UNROLL
        for (int c = 0; c < columns; ++c)
            __builtin_memcpy(target + c * to_stride, (const char *)&line + 16 * c, 16);
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

template <class D, class S>
inline constexpr bool transposes_by_block = (is_same<D, S> && sizeof(D) <= 4) || converts_by_register<D, S>;

// Transpositions go by squares of 64 bytes, so that lines of the cache are read and written whole.
constexpr int64_t square(int64_t size) {
    return 64 / size;
}

// Rectangles of equal extents, and how far each is from the one before.
struct Pieces {
    int64_t count, to_step, from_step;
};

// to[r * to_stride + c] = from[c * from_stride + r], of whole blocks.
template <class D, class S>
PTO_NOINLINE void transpose_blocks(D *to, int64_t to_stride, const S *from, int64_t from_stride, int64_t rows,
                                   int64_t cols, const Pieces &pieces) {
    for (int64_t p = 0; p < pieces.count; ++p, to += pieces.to_step, from += pieces.from_step)
        if constexpr (is_same<D, S>) {
            for (int64_t r = 0; r < rows; r += block_width<S>)
                for (int64_t c = 0; c < cols; c += block_lines<S>)
                    transpose_block(to + r * to_stride + c, to_stride, from + c * from_stride + r, from_stride);
        } else {
            constexpr int64_t most = square(sizeof(S));
            Bits<S> turned[most * most];
            transpose_blocks(turned, cols, (const Bits<S> *)from, from_stride, rows, cols, {1, 0, 0});
            for (int64_t r = 0; r < rows; ++r)
                copy_run(to + r * to_stride, (const S *)turned + r * cols, cols);
        }
}

// Rows that are contiguous in both matrices.
template <class D, class S>
PTO_INLINE void copy_contiguous(D *to, int64_t to_row, const S *from, int64_t from_row, int64_t rows, int64_t cols) {
    if constexpr (is_same<D, S>) {
        copy_rows((char *)to, to_row * int64_t(sizeof(D)), (const char *)from, from_row * int64_t(sizeof(D)), rows,
                  cols * int64_t(sizeof(D)));
    } else {
        if (to_row == cols && from_row == cols) {
            cols *= rows;
            rows = rows > 0;
        }
        for (int64_t r = 0; r < rows; ++r)
            copy_run(to + r * to_row, from + r * from_row, cols);
    }
}

// Returns whether the contiguous direction of the destination is across the source's.
PTO_INLINE bool is_transposition(const Plane &tp, const Plane &fp) {
    if (tp.row_stride == 1 && tp.col_stride != 1)
        return fp.col_stride == 1 && fp.row_stride != 1;
    return tp.col_stride == 1 && fp.row_stride == 1 && fp.col_stride != 1;
}

// Pieces of one fractal or several of each plane, from the given elements on. Transpositions are of squares at most.
template <class D, class S>
PTO_NOINLINE void copy_pieces(void *to_base, int64_t to_at, const Plane &tp, const void *from_base, int64_t from_at,
                              const Plane &fp, int64_t rows, int64_t cols, const Pieces &pieces) {
    D *to = (D *)to_base + to_at;
    const S *from = (const S *)from_base + from_at;
    int64_t to_row = tp.row_stride, to_col = tp.col_stride, from_row = fp.row_stride, from_col = fp.col_stride;
    if (to_row == 1 && to_col != 1) { // see both matrices transposed, so that the destination runs along its columns
        const int64_t height = rows, along = from_row;
        to_row = to_col, to_col = 1, from_row = from_col, from_col = along, rows = cols, cols = height;
    }
    const bool transposed = is_transposition(tp, fp);
    int64_t whole_rows = 0, whole_cols = 0; // that are transposed by blocks
    if constexpr (transposes_by_block<D, S>)
        if (transposed) {
            whole_rows = rows - rows % block_width<S>;
            whole_cols = cols - cols % block_lines<S>;
            transpose_blocks(to, to_row, from, from_col, whole_rows, whole_cols, pieces);
            if (whole_rows == rows && whole_cols == cols)
                return;
        }
    for (int64_t p = 0; p < pieces.count; ++p, to += pieces.to_step, from += pieces.from_step)
        if (to_col == 1 && from_col == 1) {
            copy_contiguous(to, to_row, from, from_row, rows, cols);
        } else { // what is right of the blocks, and what is below; everything without blocks
            copy_scattered(to + whole_cols * to_col, to_row, to_col, from + whole_cols * from_col, from_row, from_col,
                           whole_rows, cols - whole_cols);
            copy_scattered(to + whole_rows * to_row, to_row, to_col, from + whole_rows * from_row, from_row, from_col,
                           rows - whole_rows, cols);
        }
}

struct Position {
    int64_t row, col;
};

// Calls copy for pieces that have the same strides throughout: cut at the fractals of both planes. Compiled once for
// all types.
using CopyPieces = void (*)(void *to, int64_t to_at, const Plane &tp, const void *from, int64_t from_at,
                            const Plane &fp, int64_t rows, int64_t cols, const Pieces &pieces);
template <class = void>
PTO_NOINLINE void cut_at_boxes(CopyPieces copy, int64_t size, void *to, const Plane &tp, Position at, const void *from,
                               const Plane &fp, Position start, int64_t rows, int64_t cols) {
    const auto min = [](int64_t a, int64_t b, int64_t c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); };
    const bool transposed = is_transposition(tp, fp);
    // Rows of a piece that are far apart share few places of the first-level cache: not more than these hold.
    const bool far = tp.row_stride * size >= 1024 || fp.row_stride * size >= 1024;
    const int64_t high = transposed ? square(size) : far ? 16 : Plane::endless;
    const int64_t wide = transposed ? square(size) : Plane::endless;
    // If fractals end at the same columns, or continue each other, those of a row are alike.
    const int64_t tw = tp.cols_left(0), fw = fp.cols_left(0), width = min(tw, fw, wide);
    const bool alike = (tw == width || tw == Plane::endless) && (fw == width || fw == Plane::endless);
    for (int64_t r = 0, h; r < rows; r += h) {
        const int64_t tr = at.row + r, fr = start.row + r;
        h = min(rows - r < high ? rows - r : high, tp.rows_left(tr), fp.rows_left(fr));
        for (int64_t c = 0, w, n; c < cols; c += w * n) {
            const int64_t tc = at.col + c, fc = start.col + c, to_col = tp.col_offset(tc), from_col = fp.col_offset(fc);
            w = min(cols - c < wide ? cols - c : wide, tp.cols_left(tc), fp.cols_left(fc));
            n = alike && w == width ? (cols - c) / width : 1;
            copy(to, tp.row_offset(tr) + to_col, tp, from, fp.row_offset(fr) + from_col, fp, h, w,
                 {n, tp.col_offset(tc + w) - to_col, fp.col_offset(fc + w) - from_col});
        }
    }
}

// to[at.row + r, at.col + c] = from[start.row + r, start.col + c]
template <class D, class S>
PTO_INLINE void copy_plane(D *to, const Plane &tp, Position at, const S *from, const Plane &fp, Position start,
                           int64_t rows, int64_t cols) {
    constexpr int64_t size = sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S);
    cut_at_boxes(copy_pieces<D, S>, size, to, tp, at, from, fp, start, rows, cols);
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
