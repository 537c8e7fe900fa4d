// Matrix multiplication: operands of any layout are unpacked to contiguous panels, which a small register kernel
// multiplies. A sum of floats is a sequence of fused steps from what was there (C, a bias, zero), each rounded, as on
// the device; upstream's simulator begins with zero, and adds what was there at the end.
#ifndef PTO_DETAIL_MATMUL_HPP
#define PTO_DETAIL_MATMUL_HPP

#include "copy.hpp"
#include "elementwise.hpp"
#include "numerics.hpp"

namespace pto::detail {

constexpr int64_t panel_cols = 16;   // columns of a panel: two registers
constexpr int64_t block_depth = 256; // of K, so that a panel stays in the first-level cache
constexpr int64_t block_rows = 128;  // of M
constexpr int64_t block_cols = 64;   // of N at the full depth, more at a lesser one
constexpr int64_t row_panels = 4;    // that a row by itself is multiplied with side by side

// Addresses of the sums of some rows of panels: a line of 16 each, from the initial values to the destination. Lines
// that are not contiguous in C are kept here meanwhile.
alignas(32) inline constexpr float no_sums[panel_cols] = {};
struct Lines {
    static constexpr int most = 6;
    float *to[most];
    const float *from[most];
    alignas(32) float kept[most][panel_cols];

    PTO_INLINE void keep(int i) {
        to[i] = kept[i];
        from[i] = no_sums;
    }
};

// The line of row i and panel p grows by a[i * depth + k] * b[(p * depth + k) * 16 + j], for one k after the other.
// Sums that are `apart` begin with zero, and are kept. Compiled once for all types.
template <int Rows, int Panels, bool apart>
PTO_NOINLINE void multiply_panels(Lines &lines, const float *a, const float *b, int64_t depth) {
    f32x8 left_sums[Rows * Panels], right_sums[Rows * Panels];
    PTO_UNROLL
    for (int i = 0; i < Rows * Panels; ++i) {
        left_sums[i] = apart ? f32x8{} : load(lines.from[i]);
        right_sums[i] = apart ? f32x8{} : load(lines.from[i] + 8);
    }
    for (int64_t k = 0; k < depth; ++k) {
        PTO_UNROLL
        for (int p = 0; p < Panels; ++p) {
            const float *const line = b + (p * depth + k) * panel_cols;
            const f32x8 first = load(line), second = load(line + 8);
            PTO_UNROLL
            for (int i = 0; i < Rows; ++i) {
                const f32x8 left = splat<float>(a[i * depth + k]);
                const int at = i * Panels + p;
                left_sums[at] = fma(left, first, left_sums[at]);
                right_sums[at] = fma(left, second, right_sums[at]);
            }
        }
    }
    PTO_UNROLL
    for (int i = 0; i < Rows * Panels; ++i) {
        float *const to = apart ? lines.kept[i] : lines.to[i];
        __builtin_memcpy(to, &left_sums[i], sizeof(f32x8));
        __builtin_memcpy(to + 8, &right_sums[i], sizeof(f32x8));
    }
}

// Operands of a multiplication: C[M, N] = base + A[row.., K] B[K, col..], where base is a matrix like C, a row, or
// nothing.
template <class TC, class TA, class TB> struct Multiplication {
    TC *c;
    const TC *base, *bias;
    const TA *a;
    const TB *b;
    const Plane &c_plane, &base_plane, &a_plane, &b_plane;
    int64_t m, n, k;
    int64_t row = 0, col = 0;
};

// Columns [col, col + cols) of the result, at most 16.
template <class TC> struct ResultPanel {
    TC *c;
    const TC *base, *bias; // null: start from zero
    const Plane &c_plane, &base_plane;
    int64_t col, cols;

    // Lines `at`.. are those of rows [row, end). Products of int8 are summed apart: they are exact in float up to a
    // depth of 1024.
    PTO_INLINE void begin(int64_t row, int64_t end, Lines &lines, int at) const {
        if constexpr (is_float<TC>) {
            const bool direct = whole(c_plane) && (!base || whole(base_plane)) && (!bias || cols == panel_cols);
            const int64_t c_col = c_plane.col_offset(col), base_col = direct && base ? base_plane.col_offset(col) : 0;
            for (; direct && row < end; ++row, ++at) {
                lines.to[at] = c + c_plane.row_offset(row) + c_col;
                lines.from[at] = base ? base + base_plane.row_offset(row) + base_col : bias ? bias + col : no_sums;
            }
            for (; row < end; ++row, ++at) {
                lines.keep(at);
                if (base || bias)
                    lines.from[at] = line_of(row, lines.kept[at]);
            }
        }
    }
    PTO_INLINE void finish(int64_t row, int64_t end, const Lines &lines, int at) const {
        if constexpr (!is_float<TC>)
            add(row, end, lines, at);
        else if (lines.to[at] == lines.kept[at])
            write(row, end, lines, at);
    }

private:
    PTO_INLINE bool whole(const Plane &plane) const {
        return cols == panel_cols && plane.col_stride == 1 && plane.cols_left(col) >= panel_cols;
    }
    PTO_NOINLINE const TC *line_of(int64_t row, TC *line) const {
        for (int64_t j = 0; j < panel_cols; ++j)
            line[j] = j >= cols ? TC(0)
                      : base    ? base[base_plane.row_offset(row) + base_plane.col_offset(col + j)]
                      : bias    ? bias[col + j]
                                : TC(0);
        return line;
    }
    PTO_NOINLINE void write(int64_t row, int64_t end, const Lines &lines, int at) const {
        for (; row < end; ++row, ++at)
            for (int64_t j = 0; j < cols; ++j)
                c[c_plane.row_offset(row) + c_plane.col_offset(col + j)] = TC(lines.kept[at][j]);
    }
    // Eight sums added to what was there.
    static PTO_INLINE void add_eight(TC *to, const TC *from, const float *sums) {
        using V = Vector<TC, 8>;
        V value;
        __builtin_memcpy(&value, from, sizeof(value));
        const V sum = __builtin_convertvector(load(sums), V);
        value = bit_cast<V>(bit_cast<u32x8>(value) + bit_cast<u32x8>(sum));
        __builtin_memcpy(to, &value, sizeof(value));
    }
    PTO_NOINLINE void add(int64_t row, int64_t end, const Lines &lines, int at) const {
        const bool direct = base && !bias && whole(c_plane) && whole(base_plane);
        const int64_t c_col = c_plane.col_offset(col), base_col = base_plane.col_offset(col);
        for (; direct && row < end; ++row, ++at) {
            TC *const to = c + c_plane.row_offset(row) + c_col;
            const TC *const from = base + base_plane.row_offset(row) + base_col;
            add_eight(to, from, lines.kept[at]);
            add_eight(to + 8, from + 8, lines.kept[at] + 8);
        }
        for (; row < end; ++row, ++at) {
            TC line[panel_cols];
            line_of(row, line);
            add_eight(line, line, lines.kept[at]);
            add_eight(line + 8, line + 8, lines.kept[at] + 8);
            for (int64_t j = 0; j < cols; ++j)
                c[c_plane.row_offset(row) + c_plane.col_offset(col + j)] = line[j];
        }
    }
};

// The block of C at row `row`: `left` has `rows` rows of A, `right` panels of B.
template <bool apart, class At>
PTO_INLINE void multiply_block(const float *left, const float *right, int64_t depth, int64_t row, int64_t rows,
                               int64_t panels, At panel_at) {
    Lines lines;
    const int64_t alone = rows % 6 < 4 ? rows % 6 : rows % 6 - 4, together = rows - alone;
    for (int64_t n = 0; n < panels && together > 0; ++n) {
        const auto panel = panel_at(n);
        for (int64_t i = 0, step; i < together; i += step) {
            step = together - i >= 6 ? 6 : 4;
            const auto multiply = step == 6 ? multiply_panels<6, 1, apart> : multiply_panels<4, 1, apart>;
            panel.begin(row + i, row + i + step, lines, 0);
            multiply(lines, left + i * depth, right + n * depth * panel_cols, depth);
            panel.finish(row + i, row + i + step, lines, 0);
        }
    }
    for (int64_t i = together; i < rows; ++i)
        for (int64_t n = 0, step; n < panels; n += step) {
            step = panels - n >= row_panels ? row_panels : 1;
            const auto multiply = step > 1 ? multiply_panels<1, row_panels, apart> : multiply_panels<1, 1, apart>;
            for (int64_t p = 0; p < step; ++p)
                panel_at(n + p).begin(row + i, row + i + 1, lines, int(p));
            multiply(lines, left + i * depth, right + n * depth * panel_cols, depth);
            for (int64_t p = 0; p < step; ++p)
                panel_at(n + p).finish(row + i, row + i + 1, lines, int(p));
        }
}

template <class TC, class TA, class TB> PTO_NOINLINE void multiply(const Multiplication<TC, TA, TB> &p) {
    alignas(32) float left[block_rows * block_depth];
    alignas(32) float right[block_cols * block_depth];
    const auto least = [](int64_t a, int64_t b) { return a < b ? a : b; };
    for (int64_t k0 = 0; k0 < p.k || k0 == 0; k0 += block_depth) {
        const int64_t depth = least(p.k - k0, block_depth);
        const int64_t width = block_cols * (depth ? block_depth / depth : 1);
        const Plane left_plane = strided_plane(depth, 1);
        const Plane right_plane = {40, log2(panel_cols), 0, depth * panel_cols, panel_cols, 1};
        // After the first block of K, what is there is in C itself.
        const TC *const base = k0 ? p.c : p.base;
        const Plane &base_plane = k0 ? p.c_plane : p.base_plane;
        for (int64_t m0 = 0; m0 < p.m; m0 += block_rows) {
            const int64_t rows = least(p.m - m0, block_rows);
            copy_elements(left, left_plane, {0, 0}, p.a, p.a_plane, {p.row + m0, k0}, rows, depth);
            for (int64_t n0 = 0; n0 < p.n; n0 += width) {
                const int64_t cols = least(p.n - n0, width), panels = (cols + panel_cols - 1) / panel_cols;
                if (cols < panels * panel_cols)
                    __builtin_memset(right + (panels - 1) * depth * panel_cols, 0, depth * panel_cols * sizeof(float));
                copy_elements(right, right_plane, {0, 0}, p.b, p.b_plane, {k0, p.col + n0}, depth, cols);
                const auto panel_at = [&](int64_t n) PTO_LAMBDA_INLINE {
                    const int64_t col = n0 + n * panel_cols;
                    return ResultPanel<TC>{p.c,        base, k0 ? nullptr : p.bias,       p.c_plane,
                                           base_plane, col,  least(p.n - col, panel_cols)};
                };
                multiply_block<!is_float<TC>>(left, right, depth, m0, rows, panels, panel_at);
            }
        }
    }
}

// As upstream's simulator does: the sum of all products by itself, then what was there.
template <class TC, class TA, class TB> PTO_NOINLINE void multiply_apart(const Multiplication<TC, TA, TB> &p) {
    const auto least = [](int64_t a, int64_t b) { return a < b ? a : b; };
    alignas(32) TC product[block_rows * block_cols];
    const Plane plane = strided_plane(block_cols, 1);
    for (int64_t m0 = 0; m0 < p.m; m0 += block_rows)
        for (int64_t n0 = 0; n0 < p.n; n0 += block_cols) {
            const int64_t rows = least(p.m - m0, block_rows), cols = least(p.n - n0, block_cols);
            multiply<TC, TA, TB>(
                {product, nullptr, nullptr, p.a, p.b, plane, plane, p.a_plane, p.b_plane, rows, cols, p.k, m0, n0});
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < cols; ++j) {
                    const TC *const from =
                        p.base ? p.base + p.base_plane.row_offset(m0 + i) + p.base_plane.col_offset(n0 + j)
                               : p.bias + n0 + j;
                    p.c[p.c_plane.row_offset(m0 + i) + p.c_plane.col_offset(n0 + j)] =
                        *from + product[i * block_cols + j];
                }
        }
}

template <class C, class A, class B> constexpr void check_matmul() {
    using TC = ElementType<C>;
    using TA = ElementType<A>;
    using TB = ElementType<B>;
    static_assert(C::Loc == TileType::Acc && A::Loc == TileType::Left && B::Loc == TileType::Right,
                  "TMATMUL: the operands are an Acc, a Left and a Right tile");
    static_assert((is_same<TC, float> && is_float<TA> && is_same<TA, TB>) ||
                      (is_same<TC, float> && is_float8<TA> && is_float8<TB> &&
                       is_same<TA, hifloat8_t> == is_same<TB, hifloat8_t>) ||
                      (is_same<TC, int32_t> && is_same<TA, int8_t> && is_same<TB, int8_t>),
                  "TMATMUL: element types are f32 from two f32, two f16, two bf16 or two f8, or i32 from two i8");
}

template <class C, class A, class B>
PTO_INLINE void multiply_tiles(C &c, const ElementType<C> *base, const Plane &base_plane, const ElementType<C> *bias,
                               const A &a, const B &b) {
    check_matmul<C, A, B>();
    using TC = ElementType<C>;
    const Multiplication<TC, ElementType<A>, ElementType<B>> all = {
        c.data(),   base,       bias,       a.data(),        b.data(),        C::plane(),
        base_plane, A::plane(), B::plane(), a.GetValidRow(), b.GetValidCol(), a.GetValidCol()};
    if constexpr (as_simulator && is_float<TC>) {
        if (base || bias)
            return multiply_apart(all);
    }
    multiply(all);
}

} // namespace pto::detail

namespace pto {

// TMATMUL(c, a, b): c = a b, over the valid rows of a, the valid columns of b and the valid columns of a.
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B, class... Rest>
PTO_INST RecordEvent TMATMUL(C &c, const A &a, const B &b, const Rest &...) {
    PTO_CHECK(TMATMUL, PIPE_M, reads(a), reads(b, {0, 0, a.GetValidCol(), b.GetValidCol()}),
              writes(c, {0, 0, a.GetValidRow(), b.GetValidCol()}));
    detail::multiply_tiles(c, nullptr, C::plane(), nullptr, a, b);
    return {};
}

// TMATMUL_ACC(out, in, a, b): out = in + a b. TMATMUL_ACC(c, a, b): c += a b.
template <AccPhase phase = AccPhase::Unspecified, class Out, class In, class A, class B>
PTO_INST RecordEvent TMATMUL_ACC(Out &out, const In &in, const A &a, const B &b) {
    PTO_CHECK(TMATMUL_ACC, PIPE_M, reads(in, {0, 0, a.GetValidRow(), b.GetValidCol()}), reads(a),
              reads(b, {0, 0, a.GetValidCol(), b.GetValidCol()}),
              writes(out, {0, 0, a.GetValidRow(), b.GetValidCol()}));
    if constexpr (detail::as_device) // the cube reads the accumulator that it writes
        detail::multiply_tiles(out, out.data(), Out::plane(), nullptr, a, b);
    else
        detail::multiply_tiles(out, in.data(), In::plane(), nullptr, a, b);
    return {};
}
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B>
PTO_INST RecordEvent TMATMUL_ACC(C &c, const A &a, const B &b) {
    return TMATMUL_ACC(c, c, a, b);
}

// TMATMUL_BIAS(c, a, b, bias): bias has one row, which is added to every row of the product.
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B, class Bias, class... Rest>
PTO_INST RecordEvent TMATMUL_BIAS(C &c, const A &a, const B &b, const Bias &bias, const Rest &...) {
    static_assert(Bias::isRowMajor && !Bias::isBoxedLayout, "TMATMUL_BIAS: the bias is row-major without fractals");
    static_assert(detail::is_same<detail::ElementType<Bias>, detail::ElementType<C>>,
                  "TMATMUL_BIAS: the bias has the element type of the accumulator");
    PTO_CHECK(TMATMUL_BIAS, PIPE_M, reads(a), reads(b, {0, 0, a.GetValidCol(), b.GetValidCol()}),
              reads(bias, {0, 0, 1, b.GetValidCol()}), writes(c, {0, 0, a.GetValidRow(), b.GetValidCol()}));
    detail::multiply_tiles(c, nullptr, C::plane(), bias.data(), a, b);
    return {};
}

// The products of a vector (one row) and a matrix.
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B, class... Rest>
PTO_INST RecordEvent TGEMV(C &c, const A &a, const B &b, const Rest &...) {
    return TMATMUL(c, a, b);
}
template <AccPhase phase = AccPhase::Unspecified, class Out, class In, class A, class B, class... Rest>
PTO_INST RecordEvent TGEMV_ACC(Out &out, const In &in, const A &a, const B &b, const Rest &...) {
    return TMATMUL_ACC(out, in, a, b);
}
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B, class Bias, class... Rest>
PTO_INST RecordEvent TGEMV_BIAS(C &c, const A &a, const B &b, const Bias &bias, const Rest &...) {
    return TMATMUL_BIAS(c, a, b, bias);
}

} // namespace pto

#endif
