// Gathers and scatters within vector memory, and generated patterns: TGATHER, TGATHERB, TSCATTER, TCI, TTRI.
#ifndef PTO_DETAIL_INDEX_HPP
#define PTO_DETAIL_INDEX_HPP

#include "copy.hpp"
#include "elementwise.hpp"

namespace pto::detail {

// Elements of T from `base` to the end of its memory: indices reach beyond the tile on hardware, but not beyond this.
template <class T> PTO_INLINE uint64_t elements_until_end(const T *base) {
    const PyptoMemory &memory = core().memory[PYPTO_UB];
    return uint64_t(memory.base + memory.size - (const uint8_t *)base) / sizeof(T);
}

template <class T, class I>
PTO_NOINLINE void gather(T *to, int64_t stride, const T *from, uint64_t limit, const I *index, int64_t index_stride,
                         int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
            const uint64_t at = uint64_t(int64_t(index[r * index_stride + c]));
            to[r * stride + c] = at < limit ? from[at] : T{};
        }
}

// The selection of a mask pattern among every `period` elements; the pattern's rightmost digit is the first element.
struct MaskChoice {
    int period, first;
};
constexpr MaskChoice mask_choice(MaskPattern pattern) {
    switch (pattern) {
    case MaskPattern::P0101:
        return {2, 0};
    case MaskPattern::P1010:
        return {2, 1};
    case MaskPattern::P0001:
        return {4, 0};
    case MaskPattern::P0010:
        return {4, 1};
    case MaskPattern::P0100:
        return {4, 2};
    case MaskPattern::P1000:
        return {4, 3};
    default:
        return {1, 0};
    }
}

template <class... T> constexpr void check_plain() {
    static_assert(((T::isRowMajor && !T::isBoxedLayout && T::Loc == TileType::Vec) && ...),
                  "this instruction takes row-major Vec tiles without fractals");
}

} // namespace pto::detail

namespace pto {

// TGATHER(dst, src, index[, tmp]): dst[r, c] = the element of src at physical position index[r, c]; positions beyond
// the memory give zero.
template <class D, class S, class I, class... Rest>
PTO_INST auto TGATHER(D &dst, const S &src, const I &index, [[maybe_unused]] Rest &...rest)
    -> detail::enable_if_t<detail::is_tile<D> && detail::is_tile<I>, RecordEvent> {
    detail::check_plain<D, I>();
    static_assert(sizeof(detail::ElementType<D>) == sizeof(typename S::DType), "TGATHER: operands of one element type");
    static_assert(detail::is_int<detail::ElementType<I>>, "TGATHER: the index is an integer tile");
    using B = detail::Bits<detail::ElementType<D>>;
    const B *const from = (const B *)src.data();
    PTO_CHECK(TGATHER, PIPE_V, carries(src, valid(src)), reads(index, valid(dst)), writes(dst), scratch(rest)...);
    detail::gather((B *)dst.data(), D::Cols, from, detail::elements_until_end(from), index.data(), I::Cols,
                   dst.GetValidRow(), dst.GetValidCol());
    return {};
}

// TGATHER<D, S, pattern[, axis]>(dst, src): the selected columns of src (or rows). Those of one row follow those of the
// row before at once, whatever the width of dst, as hardware compresses its operand.
template <class D, class S, MaskPattern pattern, GatherAxis axis = GatherAxis::ROW, class... Rest>
PTO_INST RecordEvent TGATHER(D &dst, const S &src, Rest &...) {
    detail::check_plain<D, S>();
    static_assert(sizeof(typename D::DType) == sizeof(typename S::DType),
                  "TGATHER with a mask pattern: operands with elements of one size");
    using B = detail::Bits<detail::ElementType<D>>;
    constexpr detail::MaskChoice choice = detail::mask_choice(pattern);
    constexpr bool by_column = axis == GatherAxis::ROW;
    const int64_t all_rows = src.GetValidRow(), all_cols = src.GetValidCol(), rest = choice.period - 1 - choice.first;
    const int64_t rows = by_column ? all_rows : (all_rows + rest) / choice.period,
                  cols = by_column ? (all_cols + rest) / choice.period : all_cols;
    const int64_t stride = by_column ? cols : int64_t(D::Cols);
    PTO_CHECK(TGATHER, PIPE_V, reads(src),
              writes(dst, {0, 0, (rows * stride + D::Cols - 1) / D::Cols, rows > 1 ? int64_t(D::Cols) : cols}));
    const detail::Plane every =
        detail::strided_plane(by_column ? S::Cols : S::Cols * choice.period, by_column ? choice.period : 1);
    detail::copy_plane((B *)dst.data(), detail::strided_plane(stride, 1), {0, 0},
                       (const B *)src.data() + choice.first * (by_column ? 1 : S::Cols), every, {0, 0}, rows, cols);
    return {};
}

// TGATHER<D, S, K, C, Tmp, mode>(dst, src, threshold, count, tmp, offset): for each row, the positions of the elements
// that compare with the row's threshold, and how many there are. Positions count from `offset` on along all rows.
template <class D, class S, class K, class C, class Tmp, CmpMode mode, class... Rest>
PTO_INST RecordEvent TGATHER(D &dst, const S &src, const K &threshold, C &count, [[maybe_unused]] Tmp &tmp,
                             uint32_t offset, Rest &...) {
    static_assert(mode == CmpMode::GT || mode == CmpMode::EQ, "TGATHER by comparison: the mode is GT or EQ");
    detail::check_plain<D, S>();
    using T = detail::ElementType<S>;
    static_assert(sizeof(T) <= sizeof(typename K::DType),
                  "TGATHER by comparison: the threshold is as wide as the source");
    PTO_CHECK(TGATHER, PIPE_V, reads(src), carries(threshold, valid(threshold)), writes(dst, whole(dst)), writes(count),
              scratch(tmp));
    for (int64_t r = 0; r < src.GetValidRow(); ++r) {
        T limit;
        __builtin_memcpy(&limit,
                         threshold.data() + K::plane().offset(K::isRowMajor && K::Rows == 1 ? 0 : r,
                                                              K::isRowMajor && K::Rows == 1 ? r : 0),
                         sizeof(limit));
        int64_t found = 0;
        for (int64_t c = 0; c < src.GetValidCol(); ++c) {
            const T value = src.data()[r * S::Cols + c];
            if (mode == CmpMode::GT ? value > limit : value == limit) {
                if (found < D::Cols)
                    dst.data()[r * D::Cols + found] = typename D::DType(offset + uint32_t(r * S::Cols + c));
                ++found;
            }
        }
        count.data()[C::plane().offset(C::isRowMajor && C::Rows == 1 ? 0 : r, C::isRowMajor && C::Rows == 1 ? r : 0)] =
            typename C::DType(found);
    }
    return {};
}

// TGATHERB(dst, src, offset): every offset selects 32 bytes of src by their distance in bytes.
template <class D, class S, class O, class... Rest>
PTO_INST RecordEvent TGATHERB(D &dst, const S &src, const O &offset, Rest &...) {
    detail::check_plain<D, O>();
    constexpr int64_t block = 32 / sizeof(detail::ElementType<D>);
    PTO_CHECK(TGATHERB, PIPE_V, carries(src, valid(src)),
              reads(offset, {0, 0, dst.GetValidRow(), (dst.GetValidCol() + block - 1) / block}), writes(dst));
    const uint8_t *const from = (const uint8_t *)src.data();
    const uint64_t limit = detail::elements_until_end(from);
    const int64_t cols = dst.GetValidCol();
    for (int64_t r = 0; r < dst.GetValidRow(); ++r)
        for (int64_t c = 0; c < cols; c += block) {
            const uint64_t at = uint32_t(offset.data()[r * O::Cols + c / block]);
            const uint64_t bytes = uint64_t(cols - c < block ? cols - c : block) * sizeof(typename D::DType);
            if (at + bytes <= limit)
                __builtin_memmove(dst.data() + r * D::Cols + c, from + at, bytes);
        }
    return {};
}

// TSCATTER(dst, src, index): dst at physical position index[r, c] becomes src[r, c], over the valid region of index;
// the last of equal indices wins.
template <class D, class S, class I, class... Rest>
PTO_INST auto TSCATTER(D &dst, const S &src, const I &index, Rest &...)
    -> detail::enable_if_t<detail::is_tile<D> && detail::is_tile<I>, RecordEvent> {
    detail::check_plain<S, I>();
    static_assert(sizeof(detail::ElementType<D>) == sizeof(typename S::DType),
                  "TSCATTER: operands of one element type");
    PTO_CHECK(TSCATTER, PIPE_S, reads(src, valid(index)), reads(index), writes(dst, whole(dst)));
    const uint64_t limit = detail::elements_until_end(dst.data());
    for (int64_t r = 0; r < index.GetValidRow(); ++r)
        for (int64_t c = 0; c < index.GetValidCol(); ++c) {
            const uint64_t at = uint64_t(int64_t(index.data()[r * I::Cols + c]));
            if (at < limit)
                dst.data()[at] = src.data()[r * S::Cols + c];
        }
    return {};
}

// TSCATTER<pattern[, axis]>(dst, src): the elements of src go to the selected columns (or rows), zeros everywhere else
// in the tile, whatever of it is valid.
template <MaskPattern pattern, auto axis = ScatterAxis::ROW, class D, class S>
PTO_INST RecordEvent TSCATTER(D &dst, const S &src) {
    detail::check_plain<D, S>();
    constexpr detail::MaskChoice choice = detail::mask_choice(pattern);
    constexpr bool by_column = int(axis) == int(ScatterAxis::ROW);
    PTO_CHECK(TSCATTER, PIPE_V, reads(src), writes(dst, whole(dst)));
    using T = detail::ElementType<D>;
    if constexpr (choice.period > 1)
        detail::fill_tile(dst, 0, 0, D::Rows, D::Cols, T{});
    for (int64_t r = 0; r < src.GetValidRow(); ++r)
        for (int64_t c = 0; c < src.GetValidCol(); ++c)
            dst.data()[by_column ? r * D::Cols + c * choice.period + choice.first
                                 : (r * choice.period + choice.first) * D::Cols + c] = src.data()[r * S::Cols + c];
    return {};
}

// TCI<Tile, T, descending>(dst, start[, tmp]): start, start + 1, ... (or - 1) along the first row.
template <class D, class T, int descending, class Start, class... Rest>
PTO_INST RecordEvent TCI(D &dst, Start start, Rest &...) {
    static_assert((D::isRowMajor || D::Cols == 1) && !D::isBoxedLayout,
                  "TCI: the destination is one row, row-major without fractals");
    PTO_CHECK(TCI, PIPE_S, writes(dst));
    for (int64_t i = 0; i < dst.GetValidCol(); ++i)
        dst.data()[i] = typename D::DType(descending ? T(start) - T(i) : T(start) + T(i));
    return {};
}
template <class D, class Tmp, class T, int descending, class Start, class... Rest>
PTO_INST RecordEvent TCI(D &dst, Start start, Tmp &, Rest &...) {
    return TCI<D, T, descending>(dst, start);
}

// TTRI<Tile, upper>(dst, diagonal): ones on and below (or above) the diagonal, zeros elsewhere.
template <class D, int upper, class... Rest> PTO_INST RecordEvent TTRI(D &dst, int64_t diagonal, Rest &...) {
    detail::check_plain<D>();
    PTO_CHECK(TTRI, PIPE_V, writes(dst));
    using T = typename D::DType;
    for (int64_t r = 0; r < dst.GetValidRow(); ++r)
        for (int64_t c = 0; c < dst.GetValidCol(); ++c)
            dst.data()[r * D::Cols + c] = (upper ? c >= r + diagonal : c <= r + diagonal) ? T(1) : T(0);
    return {};
}

} // namespace pto

#endif
