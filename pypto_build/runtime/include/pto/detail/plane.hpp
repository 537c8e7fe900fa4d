// Plane: where element (row, column) of a tile or of a matrix in global memory lies, for every layout.
//
// A plane is a grid of boxes, each a small strided matrix. Unboxed layouts are one box. Boxed layouts are named by the
// order of boxes and the order within a box: NZ (boxes column by column, rows within), ZN (boxes row by row, columns
// within), ZZ (rows in both). Extents of boxes are powers of two. All strides count elements.
#ifndef PTO_DETAIL_PLANE_HPP
#define PTO_DETAIL_PLANE_HPP

#include <cstdint>

namespace pto::detail {

constexpr int log2(int64_t power) {
    return power > 1 ? 1 + log2(power / 2) : 0;
}

struct Plane {
    static constexpr int64_t endless = int64_t(1) << 40;

    int row_shift, col_shift;               // extent of a box, as powers of two
    int64_t box_row_stride, box_col_stride; // from a box to the one below, and to the one at its right
    int64_t row_stride, col_stride;         // within a box

    constexpr int64_t box_rows() const { return int64_t(1) << row_shift; }
    constexpr int64_t box_cols() const { return int64_t(1) << col_shift; }
    constexpr int64_t row_offset(int64_t row) const {
        return (row >> row_shift) * box_row_stride + (row & (box_rows() - 1)) * row_stride;
    }
    constexpr int64_t col_offset(int64_t col) const {
        return (col >> col_shift) * box_col_stride + (col & (box_cols() - 1)) * col_stride;
    }
    constexpr int64_t offset(int64_t row, int64_t col) const { return row_offset(row) + col_offset(col); }
    // Rows and columns from a position to where the stride changes: at the end of its box, if boxes do not continue
    // each other.
    constexpr int64_t rows_left(int64_t row) const {
        return box_row_stride == row_stride << row_shift ? endless : box_rows() - (row & (box_rows() - 1));
    }
    constexpr int64_t cols_left(int64_t col) const {
        return box_col_stride == col_stride << col_shift ? endless : box_cols() - (col & (box_cols() - 1));
    }
    constexpr Plane transposed() const {
        return {col_shift, row_shift, box_col_stride, box_row_stride, col_stride, row_stride};
    }
};

// Without boxes: one that no tile reaches the end of.
constexpr Plane strided_plane(int64_t row_stride, int64_t col_stride) {
    return {40, 40, 0, 0, row_stride, col_stride};
}

} // namespace pto::detail

#endif
