// Moves between tiles: TMOV, TEXTRACT, TINSERT, TTRANS, TCONCAT. Elements go to the same row and column of another
// layout.
#ifndef PTO_DETAIL_MOVE_HPP
#define PTO_DETAIL_MOVE_HPP

#include "copy.hpp"
#include "elementwise.hpp"

namespace pto::detail {

template <class D, class S> constexpr void check_move() {
    static_assert(is_same<ElementType<D>, ElementType<S>> || (is_float<ElementType<D>> && is_float<ElementType<S>>) ||
                      (sizeof(typename D::DType) == sizeof(typename S::DType) && is_int<ElementType<D>> &&
                       is_int<ElementType<S>>),
                  "move between tiles: this conversion of elements needs a scale");
}

template <class D, class A, class B, class I, class J>
PTO_INLINE void concat_counted(D &dst, const A &left, const B &right, const I &left_counts, const J &right_counts) {
    static_assert(is_int<ElementType<I>> && is_int<ElementType<J>>, "TCONCAT: counts are integers");
    PTO_CHECK(TCONCAT, PIPE_V, reads(left), reads(right), reads(left_counts, {0, 0, dst.GetValidRow(), 1}),
              reads(right_counts, {0, 0, dst.GetValidRow(), 1}), writes(dst));
    const int64_t cols = dst.GetValidCol();
    for (int64_t r = 0; r < dst.GetValidRow(); ++r) {
        const auto count = [r](const auto &counts, int64_t size, int64_t most) {
            const int64_t given = int64_t(counts.data()[counts.plane().offset(r, 0)]) / size;
            return given < 0 ? 0 : given < most ? given : most;
        };
        const int64_t room = cols < left.GetValidCol() ? cols : left.GetValidCol();
        const int64_t first = count(left_counts, sizeof(typename I::DType), room);
        const int64_t rest = cols - first < right.GetValidCol() ? cols - first : right.GetValidCol();
        copy_elements(dst.data(), D::plane(), {r, 0}, left.data(), A::plane(), {r, 0}, 1, first);
        copy_elements(dst.data(), D::plane(), {r, first}, right.data(), B::plane(), {r, 0}, 1,
                      count(right_counts, sizeof(typename J::DType), rest));
    }
}

} // namespace pto::detail

namespace pto {

// TEXTRACT(dst, src, row, col): dst[r, c] = src[row + r, col + c] over the valid region of dst.
template <class D, class S, class... Rest>
PTO_INST RecordEvent TEXTRACT(D &dst, const S &src, int64_t row, int64_t col, Rest &...) {
    detail::check_move<D, S>();
    PTO_CHECK(TEXTRACT, move_pipe(dst, src), carries(src, {row, col, dst.GetValidRow(), dst.GetValidCol()}),
              writes(dst));
    detail::copy_elements(dst.data(), D::plane(), {0, 0}, src.data(), S::plane(), {row, col}, dst.GetValidRow(),
                          dst.GetValidCol());
    return {};
}

// TINSERT(dst, src, row, col): dst[row + r, col + c] = src[r, c] over the valid region of src.
template <class D, class S, class... Rest>
PTO_INST RecordEvent TINSERT(D &dst, const S &src, int64_t row, int64_t col, Rest &...) {
    detail::check_move<D, S>();
    PTO_CHECK(TINSERT, move_pipe(dst, src), carries(src, valid(src)),
              writes(dst, {row, col, src.GetValidRow(), src.GetValidCol()}));
    detail::copy_elements(dst.data(), D::plane(), {row, col}, src.data(), S::plane(), {0, 0}, src.GetValidRow(),
                          src.GetValidCol());
    return {};
}

// TMOV(dst, src): over the valid region of dst.
template <class D, class S, class... Rest> PTO_INST RecordEvent TMOV(D &dst, const S &src, Rest &...) {
    return TEXTRACT(dst, src, 0, 0);
}

// TTRANS(dst, src, tmp): dst[c, r] = src[r, c] over the valid region of src.
template <class D, class S, class... Rest>
PTO_INST RecordEvent TTRANS(D &dst, const S &src, [[maybe_unused]] Rest &...rest) {
    static_assert(sizeof(detail::ElementType<D>) == sizeof(detail::ElementType<S>),
                  "TTRANS: operands of one element type");
    constexpr detail::Plane to = D::plane().transposed();
    PTO_CHECK(TTRANS, PIPE_V, reads(src), writes(dst, {0, 0, src.GetValidCol(), src.GetValidRow()}), scratch(rest)...);
    detail::copy_elements(dst.data(), to, {0, 0}, src.data(), S::plane(), {0, 0}, src.GetValidRow(), src.GetValidCol());
    return {};
}

// TCONCAT(dst, left, right): the columns of both, side by side. TCONCAT(dst, left, right, left counts, right counts):
// of each row as many as the first columns of the other two tiles say, in sizes of an element of these tiles.
template <class D, class A, class B, class... Rest>
PTO_INST RecordEvent TCONCAT(D &dst, const A &left, const B &right, Rest &...rest) {
    if constexpr (sizeof...(Rest) == 2 && (detail::is_tile<Rest> && ...)) {
        detail::concat_counted(dst, left, right, rest...);
    } else {
        static_assert(!(detail::is_tile<Rest> || ...),
                      "TCONCAT: counts for both sources, and none for the destination");
        TINSERT(dst, left, 0, 0);
        TINSERT(dst, right, 0, left.GetValidCol());
    }
    return {};
}

} // namespace pto

#endif
