// Tiles and views of numbers of four bits, seen as the bytes they lie in.
#ifndef PTO_DETAIL_PACKED_HPP
#define PTO_DETAIL_PACKED_HPP

#include "tile.hpp"

namespace pto::detail {

template <class T> inline constexpr bool has_packed_elements = is_packed<remove_cv_t<typename T::DType>>;

// A row of floating-point numbers has half as many bytes as numbers, one of integers has as many, of which the first
// half is used.
template <class T>
inline constexpr int packed_cols = is_same<remove_cv_t<typename T::DType>, int4b_t> ? T::Cols : T::Cols / 2;
template <class T>
using PackedBytes = Tile<T::Loc, uint8_t, T::Rows, packed_cols<T>, BLayout::RowMajor, DYNAMIC, DYNAMIC,
                         SLayout::NoneBox, 512, T::PadVal>;

// The last column of an odd number of them is not touched.
template <class T> PTO_INLINE PackedBytes<T> bytes_of_tile(const T &tile) {
    static_assert(T::Loc == TileType::Vec && T::isRowMajor && !T::isBoxedLayout &&
                      (T::PadVal == PadValue::Null || T::PadVal == PadValue::Zero),
                  "elements of four bits: row-major tiles without boxes in vector memory, padded with zeros at most");
    PackedBytes<T> bytes(tile.GetValidRow(), tile.GetValidCol() / 2);
    bytes.data() = (uint8_t *)tile.data();
    return bytes;
}

template <class G> PTO_INLINE auto bytes_of_view(const G &view) {
    static_assert(G::layout == Layout::ND && !is_same<typename G::RawDType, int4b_t>,
                  "elements of four bits: floating-point numbers in rows (Layout::ND) in global memory");
    return GlobalTensor<uint8_t, Shape<>, Stride<>>(
        (uint8_t *)view.data(),
        Shape<>(view.GetShape(0), view.GetShape(1), view.GetShape(2), view.GetShape(3), view.GetShape(4) / 2),
        Stride<>(view.GetStride(0) / 2, view.GetStride(1) / 2, view.GetStride(2) / 2, view.GetStride(3) / 2, 1));
}

} // namespace pto::detail

#endif
