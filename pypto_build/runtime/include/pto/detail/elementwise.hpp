// Element-wise instructions: tile with tile, tile with scalar, and of one tile. The domain is the destination's valid
// region. A trailing operand that an instruction does not read (a temporary, an event) is accepted and ignored.
#ifndef PTO_DETAIL_ELEMENTWISE_HPP
#define PTO_DETAIL_ELEMENTWISE_HPP

#include "core.hpp"
#include "loops.hpp"
#include "operations.hpp"
#include "sync.hpp"

namespace pto::detail {

template <class T> struct ElementOf {
    using type = remove_cv_t<typename T::DType>;
    static_assert(!is_packed<type>, "elements of four bits: only TLOAD, TSTORE and TCVT take them on the CPU");
};
template <class T> using ElementType = typename ElementOf<T>::type;

template <class T> PTO_INLINE Matrix<ElementType<T>> as_matrix(const T &tile) {
    return {tile.data(), T::isRowMajor ? T::Cols : T::Rows};
}
template <class T> PTO_INLINE Scattered<ElementType<T>> as_scattered(const T &tile) {
    return {tile.data(), T::RowStride, T::ColStride};
}

template <class D, class... S> constexpr void check_operands() {
    static_assert((is_same<ElementType<D>, ElementType<S>> && ...),
                  "element-wise instruction: operands of one element type");
    static_assert(D::Loc == TileType::Vec && ((S::Loc == TileType::Vec) && ...),
                  "element-wise instruction: operands in vector memory (TileType::Vec)");
}

// Tiles of one fractal shape are walked fractal by fractal.
template <class Op, class D, class... S> PTO_INLINE void elementwise_boxed(Op op, D &dst, const S &...src) {
    constexpr Plane p = D::plane();
    static_assert(
        ((S::isBoxedLayout && S::InnerRows == D::InnerRows && S::isInnerRowMajor == D::isInnerRowMajor) && ...),
        "element-wise instruction: a tile of fractals with a tile of another layout; move it to the same layout first");
    const int64_t rows = dst.GetValidRow(), cols = dst.GetValidCol();
    for (int64_t r = 0; r < rows; r += p.fractal_rows())
        for (int64_t c = 0; c < cols; c += p.fractal_cols()) {
            const int64_t h = rows - r < p.fractal_rows() ? rows - r : p.fractal_rows(),
                          w = cols - c < p.fractal_cols() ? cols - c : p.fractal_cols();
            if constexpr (D::isInnerRowMajor)
                map(op, dst.data() + p.offset(r, c), p.row_stride, h, w,
                    Matrix<ElementType<S>>{src.data() + S::plane().offset(r, c), S::plane().row_stride}...);
            else
                map(op, dst.data() + p.offset(r, c), p.col_stride, w, h,
                    Matrix<ElementType<S>>{src.data() + S::plane().offset(r, c), S::plane().col_stride}...);
        }
}

template <class Op, class D, class... S> PTO_INLINE void elementwise(Op op, D &dst, const S &...src) {
    check_operands<D, S...>();
    if constexpr (D::isBoxedLayout || (S::isBoxedLayout || ...))
        elementwise_boxed(op, dst, src...);
    else if constexpr (D::isRowMajor && (S::isRowMajor && ...))
        map(op, dst.data(), D::Cols, dst.GetValidRow(), dst.GetValidCol(), as_matrix(src)...);
    else if constexpr (!D::isRowMajor && (!S::isRowMajor && ...))
        map(op, dst.data(), D::Rows, dst.GetValidCol(), dst.GetValidRow(), as_matrix(src)...);
    else
        map_scattered(op, dst.data(), D::RowStride, D::ColStride, dst.GetValidRow(), dst.GetValidCol(),
                      as_scattered(src)...);
}

// The operation with one operand fixed to a scalar.
template <class Op, class T> struct WithRight {
    Compute<T> right;
    template <class V> PTO_INLINE V operator()(V a) const { return Op{}(a, splat<T>(right)); }
};
template <class Op, class T> struct WithLeft {
    Compute<T> left;
    template <class V> PTO_INLINE V operator()(V a) const { return Op{}(splat<T>(left), a); }
};

template <class T> PTO_NOINLINE void fill(T *to, int64_t stride, int64_t rows, int64_t cols, T value) {
    if (stride == cols) {
        cols *= rows;
        rows = cols > 0;
    }
    for (int64_t r = 0; r < rows; ++r) {
        T *const row = to + r * stride;
        constexpr int64_t step = 32 / sizeof(T);
        T block[step];
        for (T &element : block)
            element = value;
        int64_t i = 0;
        for (; i + step <= cols; i += step)
            __builtin_memcpy(row + i, block, sizeof(block));
        for (; i < cols; ++i)
            row[i] = value;
    }
}

// Fills rows [row, rows) x columns [col, cols) of a tile of any layout.
template <class D>
PTO_INLINE void fill_tile(D &dst, int64_t row, int64_t col, int64_t rows, int64_t cols, ElementType<D> value) {
    constexpr Plane p = D::plane();
    if constexpr (!D::isBoxedLayout) {
        if (D::isRowMajor)
            fill(dst.data() + row * D::Cols + col, D::Cols, rows - row, cols - col, value);
        else
            fill(dst.data() + col * D::Rows + row, D::Rows, cols - col, rows - row, value);
    } else {
        for (int64_t r = row; r < rows; ++r)
            for (int64_t c = col; c < cols; ++c)
                dst.data()[p.offset(r, c)] = value;
    }
}

template <class D> PTO_INLINE void fill_valid(D &dst, ElementType<D> value) {
    fill_tile(dst, 0, 0, dst.GetValidRow(), dst.GetValidCol(), value);
}
struct PositiveOr {
    template <class V> PTO_INLINE V operator()(V a, V b) const { return a > 0 ? a : b; }
};
template <class... Rest> inline constexpr bool has_scratch = false;
template <class First, class... Rest> inline constexpr bool has_scratch<First, Rest...> = is_tile<First>;
template <class First, class... Rest> PTO_INLINE First &scratch_of(First &first, Rest &...) {
    return first;
}

// Two tiles, a tile and a scalar, a scalar over a tile: some of these instructions are several on a2a3 (in_steps).
template <class Op, class D, class A, class B, class... Rest>
PTO_INLINE void combine(D &dst, const A &a, const B &b, [[maybe_unused]] Rest &...rest) {
    if constexpr (in_steps && is_same<Op, Xor> && has_scratch<Rest...>) {
        auto &tmp = scratch_of(rest...);
        elementwise(Or{}, tmp, a, b);
        elementwise(And{}, dst, a, b);
        elementwise(Not{}, dst, dst);
        elementwise(And{}, dst, dst, tmp);
    } else if constexpr (in_steps && is_same<Op, PRelu>) {
        elementwise(Mul{}, dst, a, b);
        elementwise(PositiveOr{}, dst, a, dst);
    } else {
        elementwise(Op{}, dst, a, b);
    }
}
template <class Op, class D, class A, class... Rest>
PTO_INLINE void combine_scalar(D &dst, const A &a, ElementType<D> scalar, [[maybe_unused]] Rest &...rest) {
    if constexpr (in_steps && (is_same<Op, And> || is_same<Op, Or>)) {
        fill_valid(dst, scalar);
        elementwise(Op{}, dst, a, dst);
    } else if constexpr (in_steps && is_same<Op, Xor> && has_scratch<Rest...>) {
        auto &tmp = scratch_of(rest...);
        combine_scalar<Or>(tmp, a, scalar);
        combine_scalar<And>(dst, a, scalar);
        elementwise(Not{}, dst, dst);
        elementwise(And{}, dst, dst, tmp);
    } else {
        elementwise(WithRight<Op, ElementType<D>>{to_compute(scalar)}, dst, a);
    }
}
// scalar / src
template <class D, class A> PTO_INLINE void divide_scalar(D &dst, ElementType<D> scalar, const A &src) {
    if constexpr (in_steps && is_float<ElementType<D>>) {
        fill_valid(dst, scalar);
        elementwise(Div{}, dst, dst, src);
    } else {
        elementwise(WithLeft<Div, ElementType<D>>{to_compute(scalar)}, dst, src);
    }
}

// A scalar operand has the tile's element type; wider C types are converted to it first.
template <class T, class Scalar> PTO_INLINE Compute<T> scalar_operand(Scalar value) {
    return to_compute(T(value));
}

} // namespace pto::detail

namespace pto {

// NAME<algorithm>(...): which of hardware's algorithms computes it is of no consequence here.
#define PTO_WITH_ALGORITHM(NAME)                                                                                       \
    template <auto algorithm, class D, class... A> PTO_INST RecordEvent NAME(D &dst, const A &...operands) {           \
        return NAME(dst, operands...);                                                                                 \
    }
// NAME(dst, src0, src1): dst = src0 op src1. `accepts` is a trait of the element type.
#define PTO_BINARY(NAME, OPERATION, accepts, message)                                                                  \
    template <class D, class A, class B, class... Rest>                                                                \
    PTO_INST RecordEvent NAME(D &dst, const A &src0, const B &src1, [[maybe_unused]] Rest &...rest) {                  \
        static_assert(detail::accepts<detail::ElementType<D>>, message);                                               \
        PTO_CHECK(NAME, PIPE_V, reads(src0, valid(dst)), reads(src1, valid(dst)), writes(dst), scratch(rest)...);      \
        detail::combine<detail::OPERATION>(dst, src0, src1, rest...);                                                  \
        return {};                                                                                                     \
    }                                                                                                                  \
    PTO_WITH_ALGORITHM(NAME)
// NAME(dst, src, scalar): dst = src op scalar.
#define PTO_WITH_SCALAR(NAME, OPERATION, accepts, message)                                                             \
    template <class D, class A, class Scalar, class... Rest>                                                           \
    PTO_INST RecordEvent NAME(D &dst, const A &src, Scalar scalar, [[maybe_unused]] Rest &...rest) {                   \
        using T = detail::ElementType<D>;                                                                              \
        static_assert(detail::accepts<T>, message);                                                                    \
        PTO_CHECK(NAME, PIPE_V, reads(src, valid(dst)), writes(dst), scratch(rest)...);                                \
        detail::combine_scalar<detail::OPERATION>(dst, src, T(scalar), rest...);                                       \
        return {};                                                                                                     \
    }                                                                                                                  \
    PTO_WITH_ALGORITHM(NAME)
// NAME(dst, src): dst = op src.
#define PTO_UNARY(NAME, OPERATION, accepts, message)                                                                   \
    template <class D, class A, class... Rest>                                                                         \
    PTO_INST RecordEvent NAME(D &dst, const A &src, [[maybe_unused]] Rest &...rest) {                                  \
        static_assert(detail::accepts<detail::ElementType<D>>, message);                                               \
        PTO_CHECK(NAME, PIPE_V, reads(src, valid(dst)), writes(dst), scratch(rest)...);                                \
        detail::elementwise(detail::OPERATION{}, dst, src);                                                            \
        return {};                                                                                                     \
    }                                                                                                                  \
    PTO_WITH_ALGORITHM(NAME)

namespace detail {
template <class T> inline constexpr bool is_number = is_float<T> || is_int<T>;
}

PTO_BINARY(TADD, Add, is_number, "TADD: unsupported element type")
PTO_BINARY(TSUB, Sub, is_number, "TSUB: unsupported element type")
PTO_BINARY(TMUL, Mul, is_number, "TMUL: unsupported element type")
PTO_BINARY(TDIV, Div, is_number, "TDIV: unsupported element type")
PTO_BINARY(TMAX, Max, is_number, "TMAX: unsupported element type")
PTO_BINARY(TMIN, Min, is_number, "TMIN: unsupported element type")
PTO_BINARY(TAND, And, is_int, "TAND: the element type is an integer")
PTO_BINARY(TOR, Or, is_int, "TOR: the element type is an integer")
PTO_BINARY(TXOR, Xor, is_int, "TXOR: the element type is an integer")
PTO_BINARY(TSHL, ShiftLeft, is_int, "TSHL: the element type is an integer")
PTO_BINARY(TSHR, ShiftRight, is_int, "TSHR: the element type is an integer")
PTO_BINARY(TPRELU, PRelu, is_float, "TPRELU: the element type is a floating-point type")

PTO_WITH_SCALAR(TADDS, Add, is_number, "TADDS: unsupported element type")
PTO_WITH_SCALAR(TSUBS, Sub, is_number, "TSUBS: unsupported element type")
PTO_WITH_SCALAR(TMULS, Mul, is_number, "TMULS: unsupported element type")
PTO_WITH_SCALAR(TMAXS, Max, is_number, "TMAXS: unsupported element type")
PTO_WITH_SCALAR(TMINS, Min, is_number, "TMINS: unsupported element type")
PTO_WITH_SCALAR(TANDS, And, is_int, "TANDS: the element type is an integer")
PTO_WITH_SCALAR(TORS, Or, is_int, "TORS: the element type is an integer")
PTO_WITH_SCALAR(TXORS, Xor, is_int, "TXORS: the element type is an integer")
PTO_WITH_SCALAR(TSHLS, ShiftLeft, is_int, "TSHLS: the element type is an integer")
PTO_WITH_SCALAR(TSHRS, ShiftRight, is_int, "TSHRS: the element type is an integer")
PTO_WITH_SCALAR(TLRELU, PRelu, is_float, "TLRELU: the element type is a floating-point type")

// TDIVS(dst, src, scalar) and TDIVS(dst, scalar, src).
PTO_WITH_ALGORITHM(TDIVS)
template <class D, class A, class B, class... Rest>
PTO_INST RecordEvent TDIVS(D &dst, const A &left, const B &right, Rest &...) {
    using T = detail::ElementType<D>;
    static_assert(detail::is_number<T>, "TDIVS: unsupported element type");
    if constexpr (detail::is_tile<A>) {
        PTO_CHECK(TDIVS, PIPE_V, reads(left, valid(dst)), writes(dst));
        if (detail::in_steps && detail::is_float<T> && (const void *)dst.data() == (const void *)left.data())
            detail::combine_scalar<detail::Mul>(dst, left, T(1.0f / float(T(right)))); // a2a3 does so in place
        else
            detail::combine_scalar<detail::Div>(dst, left, T(right));
    } else {
        PTO_CHECK(TDIVS, PIPE_V, reads(right, valid(dst)), writes(dst));
        detail::divide_scalar(dst, T(left), right);
    }
    return {};
}

PTO_UNARY(TEXP, Exp, is_float, "TEXP: the element type is a floating-point type")
PTO_UNARY(TLOG, Log, is_float, "TLOG: the element type is a floating-point type")
PTO_UNARY(TSQRT, Sqrt, is_float, "TSQRT: the element type is a floating-point type")
PTO_UNARY(TRSQRT, Rsqrt, is_float, "TRSQRT: the element type is a floating-point type")
// TRECIP(dst, src): 1 / src, of integers too.
PTO_WITH_ALGORITHM(TRECIP)
template <class D, class A, class... Rest> PTO_INST RecordEvent TRECIP(D &dst, const A &src, Rest &...) {
    using T = detail::ElementType<D>;
    static_assert(detail::is_number<T>, "TRECIP: unsupported element type");
    PTO_CHECK(TRECIP, PIPE_V, reads(src, valid(dst)), writes(dst));
    detail::divide_scalar(dst, T(1), src);
    return {};
}
PTO_UNARY(TNEG, Neg, is_number, "TNEG: unsupported element type")
PTO_UNARY(TABS, Abs, is_number, "TABS: unsupported element type")
PTO_UNARY(TRELU, Relu, is_number, "TRELU: unsupported element type")
PTO_UNARY(TNOT, Not, is_int, "TNOT: the element type is an integer")

// TEXPANDS(dst, scalar): every element of the valid region is the scalar.
template <class D, class Scalar, class... Rest> PTO_INST RecordEvent TEXPANDS(D &dst, Scalar scalar, Rest &...) {
    PTO_CHECK(TEXPANDS, PIPE_V, writes(dst));
    detail::fill_tile(dst, 0, 0, dst.GetValidRow(), dst.GetValidCol(), detail::ElementType<D>(scalar));
    return {};
}

} // namespace pto

#endif
