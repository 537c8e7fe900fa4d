// Less common arithmetic: remainders, powers, fused forms, and operations on partly valid operands.
#ifndef PTO_DETAIL_ARITHMETIC_HPP
#define PTO_DETAIL_ARITHMETIC_HPP

#include "elementwise.hpp"

namespace pto::detail {

template <class V, class F> PTO_INLINE V lane_by_lane(V a, V b, F f) {
    for (int i = 0; i < lane_count<V>; ++i)
        a[i] = f(a[i], b[i]);
    return a;
}

// The remainder with the sign of the dividend. An integer modulo zero is itself.
struct Fmod {
    template <class V> PTO_INLINE V operator()(V a, V b) const {
        using T = Lane<V>;
        return lane_by_lane(a, b, [](T x, T y) -> T {
            if constexpr (float_lanes<V>)
                return __builtin_fmodf(x, y);
            else
                return y == 0 ? x : (T(-1) < T(0) && y == T(-1)) ? T(0) : T(x % y);
        });
    }
};
// The remainder with the sign of the divisor.
struct Remainder {
    template <class V> PTO_INLINE V operator()(V a, V b) const {
        const V rest = Fmod{}(a, b);
        return ((rest != 0) & ((rest < 0) != (b < 0)) & (b != 0)) ? Add{}(rest, b) : rest;
    }
};
struct Power {
    template <class V> PTO_INLINE V operator()(V a, V b) const {
        using T = Lane<V>;
        return lane_by_lane(a, b, [](T x, T y) -> T {
            if constexpr (float_lanes<V>) {
                return __builtin_powf(x, y);
            } else {
                if (y < 0) // the reciprocal of a whole number, truncated
                    return x == 1 ? T(1) : x == T(-1) ? T(y % 2 ? -1 : 1) : T(0);
                using U = typename UnsignedOf<int(sizeof(T))>::type;
                U result = 1, base = U(x);
                for (U n = U(y); n; n = U(n >> 1), base = U(uint64_t(base) * base))
                    if (n & 1)
                        result = U(uint64_t(result) * base);
                return T(result);
            }
        });
    }
};
struct AddAdd {
    template <class V> PTO_INLINE V operator()(V a, V b, V c) const { return Add{}(Add{}(a, b), c); }
};
struct SubAdd {
    template <class V> PTO_INLINE V operator()(V a, V b, V c) const { return Add{}(Sub{}(a, b), c); }
};
struct MulAdd { // rounded once where the target has such an instruction
    template <class V> PTO_INLINE V operator()(V a, V b, V c) const {
        if constexpr (float_lanes<V>)
            return fma(a, b, c);
        else
            return Add{}(Mul{}(a, b), c);
    }
};
// The product of 16-bit types is rounded before it is added, as the vector unit does.
template <class T> PTO_INLINE f32x8 rounded_to(f32x8 value) {
    if constexpr (is_same<T, half>)
        return widen_f16(narrow_f16(value));
    else
        return widen_bf16(narrow_bf16(value));
}
template <class T> struct MulAddOf {
    template <class V> PTO_INLINE V operator()(V a, V b, V c) const {
        if constexpr (is_half<T>)
            return rounded_to<T>(a * b) + c;
        else
            return MulAdd{}(a, b, c);
    }
};
template <class T> struct MulAddRelu {
    template <class V> PTO_INLINE V operator()(V a, V b, V c) const { return Relu{}(MulAddOf<T>{}(a, b, c)); }
};
struct AddRelu {
    template <class V> PTO_INLINE V operator()(V a, V b) const { return Relu{}(Add{}(a, b)); }
};
struct SubRelu {
    template <class V> PTO_INLINE V operator()(V a, V b) const { return Relu{}(Sub{}(a, b)); }
};
template <class Op, class T> struct WithMiddle {
    Compute<T> middle;
    template <class V> PTO_INLINE V operator()(V a, V c) const { return Op{}(a, splat<T>(middle), c); }
};
template <class T> struct Axpy {
    Compute<T> scale;
    template <class V> PTO_INLINE V operator()(V x, V y) const { return MulAddOf<T>{}(x, splat<T>(scale), y); }
};

// op where both operands are valid, a copy of the valid one elsewhere.
template <class Op, class D, class A, class B> PTO_INLINE void partial(Op op, D &dst, const A &a, const B &b) {
    check_operands<D, A, B>();
    static_assert(D::isRowMajor && A::isRowMajor && B::isRowMajor && !D::isBoxedLayout && !A::isBoxedLayout &&
                      !B::isBoxedLayout,
                  "operation on partly valid operands: row-major tiles without fractals");
    const int64_t rows = dst.GetValidRow(), cols = dst.GetValidCol();
    const auto min = [](int64_t x, int64_t y) { return x < y ? x : y; };
    const int64_t ar = min(a.GetValidRow(), rows), ac = min(a.GetValidCol(), cols);
    const int64_t br = min(b.GetValidRow(), rows), bc = min(b.GetValidCol(), cols);
    const int64_t r = min(ar, br), c = min(ac, bc);
    const auto copy = [&](const auto &from, int64_t stride, int64_t row, int64_t col, int64_t h, int64_t w) {
        if (h > 0 && w > 0)
            map(Copy{}, dst.data() + row * D::Cols + col, D::Cols, h, w,
                Matrix<ElementType<D>>{from.data() + row * stride + col, stride});
    };
    if (r > 0 && c > 0)
        map(op, dst.data(), D::Cols, r, c, as_matrix(a), as_matrix(b));
    copy(a, A::Cols, 0, c, r, ac - c);
    copy(b, B::Cols, 0, c, r, bc - c);
    copy(a, A::Cols, r, 0, ar - r, ac);
    copy(b, B::Cols, r, 0, br - r, bc);
}

} // namespace pto::detail

namespace pto {

PTO_BINARY(TFMOD, Fmod, is_number, "TFMOD: unsupported element type")
PTO_BINARY(TREM, Remainder, is_number, "TREM: unsupported element type")
PTO_BINARY(TPOW, Power, is_number, "TPOW: unsupported element type")
PTO_BINARY(TADDRELU, AddRelu, is_number, "TADDRELU: unsupported element type")
PTO_BINARY(TSUBRELU, SubRelu, is_number, "TSUBRELU: unsupported element type")
PTO_WITH_SCALAR(TFMODS, Fmod, is_number, "TFMODS: unsupported element type")
PTO_WITH_SCALAR(TREMS, Remainder, is_number, "TREMS: unsupported element type")
PTO_WITH_SCALAR(TPOWS, Power, is_number, "TPOWS: unsupported element type")

// TADDC(dst, a, b, c) = a + b + c, TSUBC = a - b + c; TADDSC and TSUBSC have a scalar in place of b.
#define PTO_TERNARY(NAME, OPERATION)                                                                                   \
    template <class D, class A, class B, class C, class... Rest>                                                       \
    PTO_INST RecordEvent NAME(D &dst, const A &a, const B &b, const C &c, Rest &...) {                                 \
        PTO_CHECK(NAME, PIPE_V, reads(a, valid(dst)), reads(b, valid(dst)), reads(c, valid(dst)), writes(dst));        \
        detail::elementwise(detail::OPERATION{}, dst, a, b, c);                                                        \
        return {};                                                                                                     \
    }
#define PTO_TERNARY_WITH_SCALAR(NAME, OPERATION)                                                                       \
    template <class D, class A, class Scalar, class C, class... Rest>                                                  \
    PTO_INST RecordEvent NAME(D &dst, const A &a, Scalar scalar, const C &c, Rest &...) {                              \
        using T = detail::ElementType<D>;                                                                              \
        PTO_CHECK(NAME, PIPE_V, reads(a, valid(dst)), reads(c, valid(dst)), writes(dst));                              \
        detail::elementwise(detail::WithMiddle<detail::OPERATION, T>{detail::scalar_operand<T>(scalar)}, dst, a, c);   \
        return {};                                                                                                     \
    }
PTO_TERNARY(TADDC, AddAdd)
PTO_TERNARY(TSUBC, SubAdd)
PTO_TERNARY_WITH_SCALAR(TADDSC, AddAdd)
PTO_TERNARY_WITH_SCALAR(TSUBSC, SubAdd)

// TAXPY(dst, src, scalar): dst += scalar * src. A float destination may take a half source.
template <class D, class A, class Scalar, class... Rest>
PTO_INST RecordEvent TAXPY(D &dst, const A &src, Scalar scalar, Rest &...) {
    using T = detail::ElementType<D>;
    using S = detail::ElementType<A>;
    static_assert(detail::is_float<T> && detail::is_float<S>, "TAXPY: the element types are floating-point types");
    const auto scale = detail::scalar_operand<S>(scalar);
    PTO_CHECK(TAXPY, PIPE_V, reads(src, valid(dst)), reads(dst), writes(dst));
    if constexpr (detail::is_same<T, S>) {
        detail::elementwise(detail::Axpy<T>{scale}, dst, src, dst);
    } else {
        static_assert(D::isRowMajor && A::isRowMajor && !D::isBoxedLayout && !A::isBoxedLayout &&
                          detail::is_same<T, float>,
                      "TAXPY: operands of two element types are row-major, and the destination is float");
        detail::map(detail::Axpy<T>{scale}, dst.data(), D::Cols, dst.GetValidRow(), dst.GetValidCol(),
                    detail::as_matrix(src), detail::as_matrix(dst));
    }
    return {};
}

// TFUSEDMULADD(dst, a, b): dst = a * dst + b. TMULADDDST(dst, a, b): dst = a * b + dst.
#define PTO_MULTIPLY_ADD(NAME, OPERATION, factor, summand)                                                             \
    template <class D, class A, class B, class... Rest>                                                                \
    PTO_INST RecordEvent NAME(D &dst, const A &a, const B &b, Rest &...) {                                             \
        PTO_CHECK(NAME, PIPE_V, reads(a, valid(dst)), reads(b, valid(dst)), reads(dst), writes(dst));                  \
        detail::elementwise(detail::OPERATION<detail::ElementType<D>>{}, dst, a, factor, summand);                     \
        return {};                                                                                                     \
    }
PTO_MULTIPLY_ADD(TFUSEDMULADD, MulAddOf, dst, b)
PTO_MULTIPLY_ADD(TFUSEDMULADDRELU, MulAddRelu, dst, b)
PTO_MULTIPLY_ADD(TMULADDDST, MulAddOf, b, dst)

// TPART*(dst, src0, src1): the operation where both sources are valid, a copy where one is.
#define PTO_PARTIAL(NAME, OPERATION)                                                                                   \
    template <class D, class A, class B, class... Rest>                                                                \
    PTO_INST RecordEvent NAME(D &dst, const A &src0, const B &src1, Rest &...) {                                       \
        PTO_CHECK(NAME, PIPE_V, reads(src0), reads(src1), writes(dst));                                                \
        detail::partial(detail::OPERATION{}, dst, src0, src1);                                                         \
        return {};                                                                                                     \
    }
PTO_PARTIAL(TPARTADD, Add)
PTO_PARTIAL(TPARTMUL, Mul)
PTO_PARTIAL(TPARTMAX, Max)
PTO_PARTIAL(TPARTMIN, Min)

} // namespace pto

#endif
