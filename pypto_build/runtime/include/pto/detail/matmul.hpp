// Matrix multiplication: operands of any layout are unpacked to contiguous panels, which a small register kernel
// multiplies.
#ifndef PTO_DETAIL_MATMUL_HPP
#define PTO_DETAIL_MATMUL_HPP

#include "copy.hpp"
#include "elementwise.hpp"

namespace pto::detail {

constexpr int64_t panel_cols = 16;   // columns of the register kernel: two registers
constexpr int64_t block_depth = 256; // of K, so that a panel stays in the first-level cache
constexpr int64_t block_rows = 128;  // of M

// Calls finish(i, sum0, sum1) with sum[i][j] = sum over k of a[i * a_stride + k] * b[k * 16 + j].
template <int Rows, class F>
PTO_INLINE void multiply_panel(const float *a, int64_t a_stride, const float *b, int64_t depth, F finish) {
    f32x8 sum[Rows][2] = {};
    for (int64_t k = 0; k < depth; ++k) {
        const f32x8 b0 = load(b + k * panel_cols), b1 = load(b + k * panel_cols + 8);
        PTO_UNROLL
        for (int i = 0; i < Rows; ++i) {
            const f32x8 left = splat<float>(a[i * a_stride + k]);
            sum[i][0] = fma(left, b0, sum[i][0]);
            sum[i][1] = fma(left, b1, sum[i][1]);
        }
    }
    PTO_UNROLL
    for (int i = 0; i < Rows; ++i)
        finish(i, sum[i][0], sum[i][1]);
}

// Operands of a multiplication: C[M, N] = base + A[M, K] B[K, N], where base is a matrix like C, a row, or nothing.
template <class TC, class TA, class TB> struct Multiplication {
    TC *c;
    const TC *base, *bias;
    const TA *a;
    const TB *b;
    const Plane &c_plane, &base_plane, &a_plane, &b_plane;
    int64_t m, n, k;
};

// One line of 16 columns of the result.
template <class TC> struct ResultLine {
    TC *to;
    const TC *from; // null: start from zero
    // Eight sums added to what was there. Products of int8 are exact in float up to a depth of 1024.
    PTO_INLINE void add(int64_t at, f32x8 sum) const {
        using V = Vector<TC, 8>;
        V value{};
        if (from)
            __builtin_memcpy(&value, from + at, sizeof(value));
        if constexpr (is_float<TC>)
            value += sum;
        else
            value = bit_cast<V>(bit_cast<u32x8>(value) + bit_cast<u32x8>(__builtin_convertvector(sum, i32x8)));
        __builtin_memcpy(to + at, &value, sizeof(value));
    }
};

template <class TC, class TA, class TB> PTO_NOINLINE void multiply(const Multiplication<TC, TA, TB> &p) {
    alignas(32) float left[block_rows * block_depth];
    alignas(32) float right[block_depth * panel_cols];
    const Plane right_plane = strided_plane(panel_cols, 1);
    for (int64_t k0 = 0; k0 < p.k || k0 == 0; k0 += block_depth) {
        const int64_t depth = p.k - k0 < block_depth ? p.k - k0 : block_depth;
        const Plane left_plane = strided_plane(depth, 1);
        // After the first block of K, what is there is in C itself.
        const TC *const base = k0 ? p.c : p.base;
        const Plane &base_plane = k0 ? p.c_plane : p.base_plane;
        for (int64_t m0 = 0; m0 < p.m; m0 += block_rows) {
            const int64_t rows = p.m - m0 < block_rows ? p.m - m0 : block_rows;
            copy_elements(left, left_plane, {0, 0}, p.a, p.a_plane, {m0, k0}, rows, depth);
            for (int64_t n0 = 0; n0 < p.n; n0 += panel_cols) {
                const int64_t cols = p.n - n0 < panel_cols ? p.n - n0 : panel_cols;
                if (cols < panel_cols)
                    __builtin_memset(right, 0, sizeof(right));
                copy_elements(right, right_plane, {0, 0}, p.b, p.b_plane, {k0, n0}, depth, cols);
                const bool direct = cols == panel_cols && p.c_plane.col_stride == 1 && base_plane.col_stride == 1 &&
                                    p.c_plane.cols_left(n0) >= panel_cols && base_plane.cols_left(n0) >= panel_cols;
                const int64_t c_col = p.c_plane.col_offset(n0), base_col = base_plane.col_offset(n0);
                const auto finish_row = [&](int64_t row, f32x8 sum0, f32x8 sum1) {
                    if (direct && !(p.bias && !k0)) {
                        const ResultLine<TC> line{p.c + p.c_plane.row_offset(row) + c_col,
                                                  base ? base + base_plane.row_offset(row) + base_col : nullptr};
                        line.add(0, sum0);
                        line.add(8, sum1);
                        return;
                    }
                    TC start[panel_cols] = {};
                    for (int64_t j = 0; j < cols; ++j)
                        start[j] = base ? base[base_plane.offset(row, n0 + j)] : p.bias ? p.bias[n0 + j] : TC(0);
                    const ResultLine<TC> line{start, start};
                    line.add(0, sum0);
                    line.add(8, sum1);
                    for (int64_t j = 0; j < cols; ++j)
                        p.c[p.c_plane.offset(row, n0 + j)] = start[j];
                };
                for (int64_t i = 0; i < rows;) {
                    const float *const a = left + i * depth;
                    const auto finish = [&](int64_t r, f32x8 sum0, f32x8 sum1) { finish_row(m0 + i + r, sum0, sum1); };
                    if (rows - i >= 6) {
                        multiply_panel<6>(a, depth, right, depth, finish);
                        i += 6;
                    } else if (rows - i >= 4) {
                        multiply_panel<4>(a, depth, right, depth, finish);
                        i += 4;
                    } else {
                        multiply_panel<1>(a, depth, right, depth, finish);
                        i += 1;
                    }
                }
            }
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
    multiply<ElementType<C>, ElementType<A>, ElementType<B>>({c.data(), base, bias, a.data(), b.data(), C::plane,
                                                              base_plane, A::plane, B::plane, a.GetValidRow(),
                                                              b.GetValidCol(), a.GetValidCol()});
}

} // namespace pto::detail

namespace pto {

// TMATMUL(c, a, b): c = a b, over the valid rows of a, the valid columns of b and the valid columns of a.
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B, class... Rest>
PTO_INST RecordEvent TMATMUL(C &c, const A &a, const B &b, const Rest &...) {
    PTO_CHECK(TMATMUL, PIPE_M, reads(a), reads(b, {0, 0, a.GetValidCol(), b.GetValidCol()}),
              writes(c, {0, 0, a.GetValidRow(), b.GetValidCol()}));
    detail::multiply_tiles(c, nullptr, C::plane, nullptr, a, b);
    return {};
}

// TMATMUL_ACC(out, in, a, b): out = in + a b. TMATMUL_ACC(c, a, b): c += a b.
template <AccPhase phase = AccPhase::Unspecified, class Out, class In, class A, class B>
PTO_INST RecordEvent TMATMUL_ACC(Out &out, const In &in, const A &a, const B &b) {
    PTO_CHECK(TMATMUL_ACC, PIPE_M, reads(in, {0, 0, a.GetValidRow(), b.GetValidCol()}), reads(a),
              reads(b, {0, 0, a.GetValidCol(), b.GetValidCol()}),
              writes(out, {0, 0, a.GetValidRow(), b.GetValidCol()}));
    detail::multiply_tiles(out, in.data(), In::plane, nullptr, a, b);
    return {};
}
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B>
PTO_INST RecordEvent TMATMUL_ACC(C &c, const A &a, const B &b) {
    return TMATMUL_ACC(c, c, a, b);
}

// TMATMUL_BIAS(c, a, b, bias): bias has one row, which is added to every row of the product.
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B, class Bias, class... Rest>
PTO_INST RecordEvent TMATMUL_BIAS(C &c, const A &a, const B &b, const Bias &bias, const Rest &...) {
    static_assert(Bias::isRowMajor && !Bias::isBoxedLayout, "TMATMUL_BIAS: the bias is row-major without boxes");
    static_assert(detail::is_same<detail::ElementType<Bias>, detail::ElementType<C>>,
                  "TMATMUL_BIAS: the bias has the element type of the accumulator");
    PTO_CHECK(TMATMUL_BIAS, PIPE_M, reads(a), reads(b, {0, 0, a.GetValidCol(), b.GetValidCol()}),
              reads(bias, {0, 0, 1, b.GetValidCol()}), writes(c, {0, 0, a.GetValidRow(), b.GetValidCol()}));
    detail::multiply_tiles(c, nullptr, C::plane, bias.data(), a, b);
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
