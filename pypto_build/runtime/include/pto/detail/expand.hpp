// Broadcasts: an operand with one value for each row, or with one row for all.
#ifndef PTO_DETAIL_EXPAND_HPP
#define PTO_DETAIL_EXPAND_HPP

#include "elementwise.hpp"

namespace pto::detail {

template <class D> constexpr void check_expand() {
    static_assert(D::isRowMajor && !D::isBoxedLayout,
                  "row or column expansion: the destination is row-major without fractals");
}

// A tile holds one value a row as a column vector, or as a block of 32 bytes a row.
template <class T> inline constexpr bool is_column = !T::isRowMajor && !T::isBoxedLayout;
template <class T> inline constexpr bool is_block = T::isRowMajor && T::Cols * int(sizeof(typename T::DType)) == 32;

template <class S> PTO_INLINE PerRow<ElementType<S>> per_row(const S &src) {
    static_assert(!S::isBoxedLayout, "row expansion: the operand with a value a row is without fractals");
    return {src.data(), S::RowStride};
}

// Calls run(source) with the source that gives src's value of each row.
template <class S, class F> PTO_INLINE void with_row_values(const S &src, F run) {
    if constexpr (is_block<S>) {
        if (src.GetValidCol() > 1)
            return run(BlockPerRow<ElementType<S>>{src.data(), S::Cols});
    }
    run(per_row(src));
}

template <class Op, class D, class A, class B> PTO_INLINE void row_expand(D &dst, const A &a, const B &b) {
    check_operands<D, A, B>();
    check_expand<D>();
    const int64_t rows = dst.GetValidRow(), cols = dst.GetValidCol();
    constexpr bool right_is_narrow = is_column<B> || (!is_column<A> && !(is_block<A> && !is_block<B>));
    if constexpr (right_is_narrow) {
        static_assert(A::isRowMajor && !A::isBoxedLayout,
                      "row expansion: the full operand is row-major without fractals");
        with_row_values(b, [&](auto values) { map(Op{}, dst.data(), D::Cols, rows, cols, as_matrix(a), values); });
    } else {
        static_assert(B::isRowMajor && !B::isBoxedLayout,
                      "row expansion: the full operand is row-major without fractals");
        with_row_values(a, [&](auto values) { map(Op{}, dst.data(), D::Cols, rows, cols, values, as_matrix(b)); });
    }
}

template <class Op, class D, class A, class B> PTO_INLINE void col_expand(D &dst, const A &a, const B &b) {
    check_operands<D, A, B>();
    check_expand<D>();
    check_expand<A>();
    check_expand<B>();
    map(Op{}, dst.data(), D::Cols, dst.GetValidRow(), dst.GetValidCol(), as_matrix(a),
        Matrix<ElementType<B>>{b.data(), 0});
}

} // namespace pto::detail

namespace pto {

// TROWEXPAND(dst, src): dst[r, c] = src[r, 0].
template <class D, class S, class... Rest>
PTO_INST RecordEvent TROWEXPAND(D &dst, const S &src, [[maybe_unused]] const Rest &...rest) {
    detail::check_operands<D, S>();
    detail::check_expand<D>();
    PTO_CHECK(TROWEXPAND, PIPE_V, reads(src, {0, 0, dst.GetValidRow(), 1}), writes(dst), scratch(rest)...);
    detail::map(detail::Copy{}, dst.data(), D::Cols, dst.GetValidRow(), dst.GetValidCol(), detail::per_row(src));
    return {};
}

// TCOLEXPAND(dst, src): dst[r, c] = src[0, c].
template <class D, class S, class... Rest> PTO_INST RecordEvent TCOLEXPAND(D &dst, const S &src, const Rest &...) {
    detail::check_operands<D, S>();
    detail::check_expand<D>();
    detail::check_expand<S>();
    PTO_CHECK(TCOLEXPAND, PIPE_V, reads(src, {0, 0, 1, dst.GetValidCol()}), writes(dst));
    detail::map(detail::Copy{}, dst.data(), D::Cols, dst.GetValidRow(), dst.GetValidCol(),
                detail::Matrix<detail::ElementType<S>>{src.data(), 0});
    return {};
}

// TROWEXPAND*(dst, src0, src1[, tmp]): one of the sources has one value a row. TCOLEXPAND*(dst, src0, src1): src1 is a
// row.
#define PTO_EXPANSION(SUFFIX, OPERATION, accepts, message)                                                             \
    template <class D, class A, class B, class... Rest>                                                                \
    PTO_INST RecordEvent TROWEXPAND##SUFFIX(D &dst, const A &src0, const B &src1,                                      \
                                            [[maybe_unused]] const Rest &...rest) {                                    \
        static_assert(detail::accepts<detail::ElementType<D>>, "TROWEXPAND" #SUFFIX message);                          \
        PTO_CHECK(TROWEXPAND##SUFFIX, PIPE_V, reads(src0, row_operand(src0, dst)),                                     \
                  reads(src1, row_operand(src1, dst)), writes(dst), scratch(rest)...);                                 \
        detail::row_expand<detail::OPERATION>(dst, src0, src1);                                                        \
        return {};                                                                                                     \
    }                                                                                                                  \
    template <class D, class A, class B, class... Rest>                                                                \
    PTO_INST RecordEvent TCOLEXPAND##SUFFIX(D &dst, const A &src0, const B &src1,                                      \
                                            [[maybe_unused]] const Rest &...rest) {                                    \
        static_assert(detail::accepts<detail::ElementType<D>>, "TCOLEXPAND" #SUFFIX message);                          \
        PTO_CHECK(TCOLEXPAND##SUFFIX, PIPE_V, reads(src0, valid(dst)), reads(src1, {0, 0, 1, dst.GetValidCol()}),      \
                  writes(dst));                                                                                        \
        detail::col_expand<detail::OPERATION>(dst, src0, src1);                                                        \
        return {};                                                                                                     \
    }                                                                                                                  \
    PTO_WITH_ALGORITHM(TROWEXPAND##SUFFIX)                                                                             \
    PTO_WITH_ALGORITHM(TCOLEXPAND##SUFFIX)
PTO_EXPANSION(ADD, Add, is_number, ": unsupported element type")
PTO_EXPANSION(SUB, Sub, is_number, ": unsupported element type")
PTO_EXPANSION(MUL, Mul, is_number, ": unsupported element type")
PTO_EXPANSION(DIV, Div, is_number, ": unsupported element type")
PTO_EXPANSION(MAX, Max, is_number, ": unsupported element type")
PTO_EXPANSION(MIN, Min, is_number, ": unsupported element type")
PTO_EXPANSION(EXPDIF, ExpDif, is_float, ": the element type is a floating-point type")

} // namespace pto

#endif
