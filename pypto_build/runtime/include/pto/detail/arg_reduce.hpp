// Reductions that report where the extreme value is: TROWARGMAX/MIN, TCOLARGMAX/MIN, TPARTARGMAX/MIN. Of equal values
// the first one counts; a NaN counts as extreme.
#ifndef PTO_DETAIL_ARG_REDUCE_HPP
#define PTO_DETAIL_ARG_REDUCE_HPP

#include "elementwise.hpp"

namespace pto::detail {

template <bool largest, class T> PTO_INLINE bool precedes(T candidate, T best) {
    const auto a = to_compute(candidate), b = to_compute(best);
    if constexpr (is_float<T>) {
        if (b != b)
            return false;
        if (a != a)
            return true;
    }
    return largest ? a > b : a < b;
}

// `lines` rows or columns of `length` elements; results go to position i * stride, the values only where asked for.
template <bool largest, class T, class I>
PTO_NOINLINE void arg_reduce(T *value, int64_t value_stride, I *index, int64_t index_stride, const T *from,
                             int64_t line_stride, int64_t step, int64_t lines, int64_t length) {
    for (int64_t i = 0; i < lines && length > 0; ++i) {
        const T *const line = from + i * line_stride;
        int64_t best = 0;
        for (int64_t k = 1; k < length; ++k)
            if (precedes<largest>(line[k * step], line[best * step]))
                best = k;
        index[i * index_stride] = I(best);
        if (value)
            value[i * value_stride] = line[best * step];
    }
}

template <bool largest, bool rows, class I, class S, class V>
PTO_INLINE void arg_reduce_tile(V *value, int64_t value_stride, I &index, const S &src) {
    static_assert(!S::isBoxedLayout && !I::isBoxedLayout, "argmax and argmin: tiles without fractals");
    static_assert(is_int<ElementType<I>>, "argmax and argmin: the index is an integer tile");
    static_assert(is_same<V, ElementType<S>>, "argmax and argmin: the values have the source's element type");
    const int64_t r = src.GetValidRow(), c = src.GetValidCol();
    if constexpr (rows)
        arg_reduce<largest>(value, value_stride, index.data(), I::RowStride, src.data(), S::RowStride, S::ColStride, r,
                            c);
    else
        arg_reduce<largest>(value, value_stride, index.data(), I::ColStride, src.data(), S::ColStride, S::RowStride, c,
                            r);
}

template <bool largest, class D, class A, class B, class DI, class AI, class BI>
PTO_INLINE void part_arg(D &dst, const A &a, const B &b, DI &dst_index, const AI &a_index, const BI &b_index) {
    for (int64_t r = 0; r < dst.GetValidRow(); ++r)
        for (int64_t c = 0; c < dst.GetValidCol(); ++c) {
            const bool in_a = r < a.GetValidRow() && c < a.GetValidCol(),
                       in_b = r < b.GetValidRow() && c < b.GetValidCol();
            if (!in_a && !in_b)
                continue;
            // Elements outside a valid region may lie outside the tile: they are not looked at.
            const auto x = in_a ? a.data()[A::plane().offset(r, c)] : ElementType<A>{};
            const auto y = in_b ? b.data()[B::plane().offset(r, c)] : ElementType<B>{};
            const bool take_a = in_a && (!in_b || (largest ? x >= y : x <= y));
            dst.data()[D::plane().offset(r, c)] = take_a ? x : y;
            dst_index.data()[DI::plane().offset(r, c)] =
                take_a ? a_index.data()[AI::plane().offset(r, c)] : b_index.data()[BI::plane().offset(r, c)];
        }
}

} // namespace pto::detail

namespace pto {

// NAME(index, src, tmp) and NAME(value, index, src, tmp).
#define PTO_ARG_REDUCTION(NAME, largest, rows)                                                                         \
    template <class I, class S, class Tmp>                                                                             \
    PTO_INST RecordEvent NAME(I &index, const S &src, [[maybe_unused]] Tmp &tmp) {                                     \
        PTO_CHECK(NAME, PIPE_V, reads(src), writes(index, line_results(src, rows)), scratch(tmp));                     \
        detail::arg_reduce_tile<largest, rows>((typename S::DType *)nullptr, 0, index, src);                           \
        return {};                                                                                                     \
    }                                                                                                                  \
    template <class V, class I, class S, class Tmp>                                                                    \
    PTO_INST auto NAME(V &value, I &index, const S &src, [[maybe_unused]] Tmp &tmp)                                    \
        -> detail::enable_if_t<detail::is_tile<Tmp>, RecordEvent> {                                                    \
        static_assert(!V::isBoxedLayout, "argmax and argmin: tiles without fractals");                                 \
        PTO_CHECK(NAME, PIPE_V, reads(src), writes(index, line_results(src, rows)),                                    \
                  writes(value, line_results(src, rows)), scratch(tmp));                                               \
        detail::arg_reduce_tile<largest, rows>(value.data(), rows ? V::RowStride : V::ColStride, index, src);          \
        return {};                                                                                                     \
    }
PTO_ARG_REDUCTION(TROWARGMAX, true, true)
PTO_ARG_REDUCTION(TROWARGMIN, false, true)
PTO_ARG_REDUCTION(TCOLARGMAX, true, false)
PTO_ARG_REDUCTION(TCOLARGMIN, false, false)

// TPARTARG*(value, src0, src1, index, index0, index1): where both sources are valid the first one wins ties.
#define PTO_PARTIAL_ARG(NAME, largest)                                                                                 \
    template <class D, class A, class B, class DI, class AI, class BI, class... Rest>                                  \
    PTO_INST RecordEvent NAME(D &dst, const A &a, const B &b, DI &index, const AI &ai, const BI &bi, Rest &...) {      \
        PTO_CHECK(NAME, PIPE_V, reads(a), reads(b), reads(ai, valid(a)), reads(bi, valid(b)), writes(dst),             \
                  writes(index, valid(dst)));                                                                          \
        detail::part_arg<largest>(dst, a, b, index, ai, bi);                                                           \
        return {};                                                                                                     \
    }
PTO_PARTIAL_ARG(TPARTARGMAX, true)
PTO_PARTIAL_ARG(TPARTARGMIN, false)

} // namespace pto

#endif
