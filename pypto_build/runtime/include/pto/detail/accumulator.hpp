// Accumulators as the device reads them (NUMERICS=device).
//
// A product writes columns of fractals of as many rows as it has, rounded up to 16. What reads an accumulator takes all
// rows of its tile for the height of a column, unless the tile is compact. Here every tile lies by all its rows. So
// only a reader that breaks the rule is given a copy: the accumulator as the product leaves it on the device.
#ifndef PTO_DETAIL_ACCUMULATOR_HPP
#define PTO_DETAIL_ACCUMULATOR_HPP

#include "copy.hpp"
#include "numerics.hpp"

namespace pto::detail {

template <class T>
inline constexpr bool may_be_packed = as_device && T::Loc == TileType::Acc && T::isBoxedLayout && !T::isRowMajor &&
                                      T::ValidRow == DYNAMIC && T::Rows > 16;

// The elements to read a tile at. `is_compact`: whether its valid rows are taken for the height of a column.
template <class T> PTO_INLINE const typename T::DType *read_elements(const T &tile, bool is_compact) {
    if constexpr (may_be_packed<T>) {
        using E = typename T::DType;
        const int64_t rows = tile.GetValidRow(), height = (rows + 15) / 16 * 16;
        if (is_compact || rows == 0 || height >= T::Rows)
            return tile.data();
        static thread_local E copy[T::Numel];
        __builtin_memset(copy, 0xff, sizeof(copy)); // NaN where the product writes nothing
        Plane packed = T::plane();
        packed.fractal_col_stride = T::BoxCols * height;
        copy_elements(copy, packed, {0, 0}, tile.data(), T::plane(), {0, 0}, rows, tile.GetValidCol());
        return copy;
    } else {
        return tile.data();
    }
}
template <class T> PTO_INLINE const typename T::DType *read_elements(const T &tile) {
    return read_elements(tile, T::Compact == CompactMode::Normal);
}

} // namespace pto::detail

#endif
