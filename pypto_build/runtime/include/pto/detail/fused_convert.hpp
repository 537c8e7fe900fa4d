// Sums made positive and narrowed in one step: TADDRELUCONV, TSUBRELUCONV, TADDDEQRELU.
#ifndef PTO_DETAIL_FUSED_CONVERT_HPP
#define PTO_DETAIL_FUSED_CONVERT_HPP

#include "convert.hpp"

namespace pto::detail {

// To nearest even; beyond the largest half, or the largest int8, these.
PTO_INLINE half narrow_positive(float value) {
    return half(value > 65504.0f ? 65504.0f : value > 0.0f ? value : 0.0f);
}
PTO_INLINE int8_t narrow_positive(half value) {
    return convert_one<int8_t, Rounding::NearestEven, true>(value > half(0) ? value : half(0));
}
PTO_INLINE int8_t narrow_positive(int32_t value) {
    return int8_t(value > 127 ? 127 : value > 0 ? value : 0);
}

// The sum of two elements: of integers without overflow, of floating-point numbers in their type.
PTO_INLINE int32_t sum_of(int16_t a, int16_t b, int32_t sign) {
    return a + sign * b;
}
template <class T> PTO_INLINE T sum_of(T a, T b, int32_t sign) {
    return T(float(a) + float(sign) * float(b));
}

template <class To, class From>
PTO_NOINLINE void add_relu_convert(To *to, int64_t to_stride, const From *a, int64_t a_stride, const From *b,
                                   int64_t b_stride, int64_t rows, int64_t cols, int32_t sign) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            to[r * to_stride + c] = narrow_positive(sum_of(a[r * a_stride + c], b[r * b_stride + c], sign));
}

template <class... T> constexpr void check_fused() {
    static_assert(((T::Loc == TileType::Vec && T::isRowMajor && !T::isBoxedLayout) && ...),
                  "TADDRELUCONV, TSUBRELUCONV and TADDDEQRELU: row-major tiles without fractals in vector memory");
}
template <class D, class A, class B> PTO_INLINE void add_relu_convert(D &dst, const A &a, const B &b, int32_t sign) {
    using To = ElementType<D>;
    using From = ElementType<A>;
    check_fused<D, A, B>();
    static_assert(is_same<From, ElementType<B>> && ((is_same<From, float> && is_same<To, half>) ||
                                                    (is_one_of<From, half, int16_t> && is_same<To, int8_t>)),
                  "TADDRELUCONV and TSUBRELUCONV: from float to half, or from half or int16_t to int8_t");
    add_relu_convert(dst.data(), D::Cols, a.data(), A::Cols, b.data(), B::Cols, dst.GetValidRow(), dst.GetValidCol(),
                     sign);
}

// The sum wraps; the scale is applied to the sum made small, so that the product of the two does not overflow.
template <class = void>
PTO_NOINLINE void add_dequantize_relu(half *to, int64_t to_stride, const int32_t *a, int64_t a_stride, const int32_t *b,
                                      int64_t b_stride, int64_t rows, int64_t cols, float scale) {
    constexpr float small = 1.0f / 131072.0f;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
            const int32_t sum = int32_t(uint32_t(a[r * a_stride + c]) + uint32_t(b[r * b_stride + c]));
            to[r * to_stride + c] = narrow_positive(float(sum) * small * scale * 131072.0f);
        }
}

} // namespace pto::detail

namespace pto {

// TADDRELUCONV(dst, src0, src1): max(src0 + src1, 0) in dst's type, to nearest even, saturated.
template <class D, class A, class B, class... Rest>
PTO_INST RecordEvent TADDRELUCONV(D &dst, const A &src0, const B &src1, Rest &...) {
    PTO_CHECK(TADDRELUCONV, PIPE_V, reads(src0, valid(dst)), reads(src1, valid(dst)), writes(dst));
    detail::add_relu_convert(dst, src0, src1, 1);
    return {};
}
template <class D, class A, class B, class... Rest>
PTO_INST RecordEvent TSUBRELUCONV(D &dst, const A &src0, const B &src1, Rest &...) {
    PTO_CHECK(TSUBRELUCONV, PIPE_V, reads(src0, valid(dst)), reads(src1, valid(dst)), writes(dst));
    detail::add_relu_convert(dst, src0, src1, -1);
    return {};
}

// TADDDEQRELU(dst, src0, src1, scale, tmp): max((src0 + src1) * scale, 0) as half, to nearest even, saturated.
template <class D, class A, class B, class... Rest>
PTO_INST RecordEvent TADDDEQRELU(D &dst, const A &src0, const B &src1, float scale, [[maybe_unused]] Rest &...rest) {
    detail::check_fused<D, A, B>();
    static_assert(detail::is_same<detail::ElementType<A>, int32_t> &&
                      detail::is_same<detail::ElementType<B>, int32_t> && detail::is_same<detail::ElementType<D>, half>,
                  "TADDDEQRELU: from int32_t tiles to a half tile");
    PTO_CHECK(TADDDEQRELU, PIPE_V, reads(src0, valid(dst)), reads(src1, valid(dst)), writes(dst), scratch(rest)...);
    detail::add_dequantize_relu(dst.data(), D::Cols, src0.data(), A::Cols, src1.data(), B::Cols, dst.GetValidRow(),
                                dst.GetValidCol(), scale);
    return {};
}

} // namespace pto

#endif
