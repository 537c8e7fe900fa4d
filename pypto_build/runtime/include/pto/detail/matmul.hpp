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

// result[i][j] = sum over k of a[i * a_stride + k] * b[k * 16 + j]
template <int Rows, class X>
PTO_INLINE void multiply_panel(Vector<X, 8> (&result)[6][2], const X *a, int64_t a_stride, const X *b, int64_t depth) {
    using V = Vector<X, 8>;
    V sum[Rows][2] = {};
    for (int64_t k = 0; k < depth; ++k) {
        V b0, b1;
        __builtin_memcpy(&b0, b + k * panel_cols, sizeof(b0));
        __builtin_memcpy(&b1, b + k * panel_cols + 8, sizeof(b1));
        for (int i = 0; i < Rows; ++i) {
            const V left = a[i * a_stride + k] - V{};
            sum[i][0] += left * b0;
            sum[i][1] += left * b1;
        }
    }
    for (int i = 0; i < Rows; ++i) {
        result[i][0] = sum[i][0];
        result[i][1] = sum[i][1];
    }
}

// Operands of a multiplication: C[M, N] = base + A[M, K] B[K, N], where base is a matrix like C, a row, or nothing.
template <class TC, class TA, class TB> struct Product3 {
    TC *c;
    const TC *base, *bias;
    const TA *a;
    const TB *b;
    const Plane &c_plane, &base_plane, &a_plane, &b_plane;
    int64_t m, n, k;
};

template <class TC, class TA, class TB> PTO_NOINLINE void multiply(const Product3<TC, TA, TB> &p) {
    // Integers are accumulated modulo 2^32.
    using X = conditional_t<is_float<TC>, float, uint32_t>;
    using Unpacked = conditional_t<is_float<TC>, float, int32_t>;
    alignas(32) Unpacked left[block_rows * block_depth];
    alignas(32) Unpacked right[block_depth * panel_cols];
    const Plane right_plane = strided_plane(panel_cols, 1);
    for (int64_t k0 = 0; k0 < p.k || k0 == 0; k0 += block_depth) {
        const int64_t depth = p.k - k0 < block_depth ? p.k - k0 : block_depth;
        const Plane left_plane = strided_plane(depth, 1);
        for (int64_t m0 = 0; m0 < p.m; m0 += block_rows) {
            const int64_t rows = p.m - m0 < block_rows ? p.m - m0 : block_rows;
            copy_elements(left, left_plane, {0, 0}, p.a, p.a_plane, {m0, k0}, rows, depth);
            for (int64_t n0 = 0; n0 < p.n; n0 += panel_cols) {
                const int64_t cols = p.n - n0 < panel_cols ? p.n - n0 : panel_cols;
                if (cols < panel_cols)
                    __builtin_memset(right, 0, sizeof(right));
                copy_elements(right, right_plane, {0, 0}, p.b, p.b_plane, {k0, n0}, depth, cols);
                for (int64_t i = 0; i < rows;) {
                    Vector<X, 8> sum[6][2];
                    const int64_t height = rows - i >= 6 ? 6 : rows - i >= 4 ? 4 : rows - i >= 2 ? 2 : 1;
                    const X *const a = (const X *)left + i * depth, *const b = (const X *)right;
                    switch (height) {
                    case 6:
                        multiply_panel<6, X>(sum, a, depth, b, depth);
                        break;
                    case 4:
                        multiply_panel<4, X>(sum, a, depth, b, depth);
                        break;
                    case 2:
                        multiply_panel<2, X>(sum, a, depth, b, depth);
                        break;
                    default:
                        multiply_panel<1, X>(sum, a, depth, b, depth);
                    }
                    for (int64_t r = 0; r < height; ++r) {
                        const int64_t row = m0 + i + r;
                        alignas(32) X line[panel_cols] = {};
                        const TC *const base = k0 ? p.c : p.base;
                        const Plane &base_plane = k0 ? p.c_plane : p.base_plane;
                        for (int64_t j = 0; j < cols; ++j)
                            line[j] = base     ? X(base[base_plane.offset(row, n0 + j)])
                                      : p.bias ? X(p.bias[n0 + j])
                                               : X(0);
                        for (int half_line = 0; half_line < 2; ++half_line) {
                            Vector<X, 8> start;
                            __builtin_memcpy(&start, line + 8 * half_line, sizeof(start));
                            start += sum[r][half_line];
                            __builtin_memcpy(line + 8 * half_line, &start, sizeof(start));
                        }
                        for (int64_t j = 0; j < cols; ++j)
                            p.c[p.c_plane.offset(row, n0 + j)] = TC(line[j]);
                    }
                    i += height;
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
                      (is_same<TC, float> && is_float8<TA> && is_float8<TB>) ||
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
    detail::multiply_tiles(c, nullptr, C::plane, nullptr, a, b);
    return {};
}

// TMATMUL_ACC(out, in, a, b): out = in + a b. TMATMUL_ACC(c, a, b): c += a b.
template <AccPhase phase = AccPhase::Unspecified, class Out, class In, class A, class B>
PTO_INST RecordEvent TMATMUL_ACC(Out &out, const In &in, const A &a, const B &b) {
    detail::multiply_tiles(out, in.data(), In::plane, nullptr, a, b);
    return {};
}
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B>
PTO_INST RecordEvent TMATMUL_ACC(C &c, const A &a, const B &b) {
    PTO_CHECK(TMATMUL, PIPE_M, reads(a), reads(b, {0, 0, a.GetValidCol(), b.GetValidCol()}),
              writes(c, {0, 0, a.GetValidRow(), b.GetValidCol()}));
    return TMATMUL_ACC(c, c, a, b);
}

// TMATMUL_BIAS(c, a, b, bias): bias has one row, which is added to every row of the product.
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B, class Bias, class... Rest>
PTO_INST RecordEvent TMATMUL_BIAS(C &c, const A &a, const B &b, const Bias &bias, const Rest &...) {
    static_assert(Bias::isRowMajor && !Bias::isBoxedLayout, "TMATMUL_BIAS: the bias is row-major without boxes");
    PTO_CHECK(TMATMUL_ACC, PIPE_M, reads(in, {0, 0, a.GetValidRow(), b.GetValidCol()}), reads(a),
              reads(b, {0, 0, a.GetValidCol(), b.GetValidCol()}),
              writes(out, {0, 0, a.GetValidRow(), b.GetValidCol()}));
    static_assert(detail::is_same<detail::ElementType<Bias>, detail::ElementType<C>>,
                  "TMATMUL_BIAS: the bias has the element type of the accumulator");
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
    PTO_CHECK(TMATMUL_BIAS, PIPE_M, reads(a), reads(b, {0, 0, a.GetValidCol(), b.GetValidCol()}),
              reads(bias, {0, 0, 1, b.GetValidCol()}), writes(c, {0, 0, a.GetValidRow(), b.GetValidCol()}));
}
template <AccPhase phase = AccPhase::Unspecified, class C, class A, class B, class Bias, class... Rest>
PTO_INST RecordEvent TGEMV_BIAS(C &c, const A &a, const B &b, const Bias &bias, const Rest &...) {
    return TMATMUL_BIAS(c, a, b, bias);
}

} // namespace pto

#endif
