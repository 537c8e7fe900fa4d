// Tiles and views of numbers of four bits, seen as the bytes they lie in.
#ifndef PTO_DETAIL_PACKED_HPP
#define PTO_DETAIL_PACKED_HPP

#include "tile.hpp"

namespace pto::detail {

template <class T> inline constexpr bool has_packed_elements = is_packed<remove_cv_t<typename T::DType>>;

// A row of floating-point numbers has half as many bytes as numbers, one of integers has as many, of which the first
// half is used. A column-major tile has its pairs along columns. Padding is zeros, whatever the pad value.
template <class T>
inline constexpr int packed_cols =
    !T::isRowMajor || is_same<remove_cv_t<typename T::DType>, int4b_t> ? T::Cols : T::Cols / 2;
template <class T>
using PackedBytes = Tile<T::Loc, uint8_t, T::isRowMajor ? T::Rows : T::Rows / 2, packed_cols<T>, T::BFractal, DYNAMIC,
                         DYNAMIC, SLayout::NoneBox, 512, T::PadVal == PadValue::Null ? PadValue::Null : PadValue::Zero>;

// The last one of an odd number of columns (or rows) is not touched.
template <class T> PTO_INLINE PackedBytes<T> bytes_of_tile(const T &tile) {
    constexpr bool rows = T::isRowMajor;
    static_assert(T::Loc == TileType::Vec && !T::isBoxedLayout &&
                      (rows || !is_same<remove_cv_t<typename T::DType>, int4b_t>),
                  "elements of four bits: tiles without fractals in vector memory, row-major if they are integers");
    PackedBytes<T> bytes(rows ? tile.GetValidRow() : tile.GetValidRow() / 2,
                         rows ? tile.GetValidCol() / 2 : tile.GetValidCol());
    bytes.data() = (uint8_t *)tile.data();
    return bytes;
}

template <class G> PTO_INLINE auto bytes_of_view(const G &view) {
    static_assert((G::layout == Layout::ND || G::layout == Layout::DN) && !is_same<typename G::RawDType, int4b_t>,
                  "elements of four bits: floating-point numbers in rows or columns in global memory");
    constexpr int along = G::layout == Layout::ND ? 4 : 3; // the dimension of the pairs
    const auto shape = [&](int i) { return i == along ? view.GetShape(i) / 2 : view.GetShape(i); };
    const auto stride = [&](int i) { return i == along ? int64_t(1) : view.GetStride(i) / 2; };
    return GlobalTensor<uint8_t, Shape<>, Stride<>, G::layout>(
        (uint8_t *)view.data(), Shape<>(shape(0), shape(1), shape(2), shape(3), shape(4)),
        Stride<>(stride(0), stride(1), stride(2), stride(3), stride(4)));
}

} // namespace pto::detail

#endif
