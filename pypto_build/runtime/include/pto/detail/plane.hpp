// Plane: where element (row, column) of a tile or of a matrix in global memory lies, for every layout.
//
// A plane is a grid of boxes, each a small strided matrix. Unboxed layouts are one box. Boxed layouts are named by the
// order of boxes and the order within a box: NZ (boxes column by column, rows within), ZN (boxes row by row, columns
// within), ZZ (rows in both). All strides count elements.
#ifndef PTO_DETAIL_PLANE_HPP
#define PTO_DETAIL_PLANE_HPP

#include <cstdint>

namespace pto::detail {

constexpr int64_t unboxed = int64_t(1) << 40;

struct Plane {
    int64_t box_rows, box_cols;             // extent of a box
    int64_t box_row_stride, box_col_stride; // from a box to the one below, and to the one at its right
    int64_t row_stride, col_stride;         // within a box

    constexpr int64_t offset(int64_t row, int64_t col) const {
        if (box_rows == unboxed)
            return row * row_stride + col * col_stride;
        return row / box_rows * box_row_stride + col / box_cols * box_col_stride + row % box_rows * row_stride +
               col % box_cols * col_stride;
    }
    constexpr bool boxed() const { return box_rows != unboxed; }
    constexpr Plane transposed() const {
        return {box_cols, box_rows, box_col_stride, box_row_stride, col_stride, row_stride};
    }
};

constexpr Plane strided_plane(int64_t row_stride, int64_t col_stride) {
    return {unboxed, unboxed, 0, 0, row_stride, col_stride};
}

} // namespace pto::detail

#endif
