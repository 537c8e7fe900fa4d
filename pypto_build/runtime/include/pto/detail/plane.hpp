// Plane: where element (row, column) of a tile or of a matrix in global memory lies, for every layout.
//
// A plane is a grid of fractals, each a small strided matrix. Others are one fractal. Layouts of fractals are named by
// the order of fractals and the order within a fractal: NZ (fractals column by column, rows within), ZN (fractals row
// by row, columns within), ZZ (rows in both). Extents of fractals are powers of two. All strides count elements.
#ifndef PTO_DETAIL_PLANE_HPP
#define PTO_DETAIL_PLANE_HPP

#include <cstdint>

namespace pto::detail {

constexpr int log2(int64_t power) {
    return power > 1 ? 1 + log2(power / 2) : 0;
}

struct Plane {
    static constexpr int64_t endless = int64_t(1) << 40;

    int row_shift, col_shift;                       // extent of a fractal, as powers of two
    int64_t fractal_row_stride, fractal_col_stride; // from a fractal to the one below, and to the one at its right
    int64_t row_stride, col_stride;                 // within a fractal

    constexpr int64_t fractal_rows() const { return int64_t(1) << row_shift; }
    constexpr int64_t fractal_cols() const { return int64_t(1) << col_shift; }
    constexpr int64_t row_offset(int64_t row) const {
        return (row >> row_shift) * fractal_row_stride + (row & (fractal_rows() - 1)) * row_stride;
    }
    constexpr int64_t col_offset(int64_t col) const {
        return (col >> col_shift) * fractal_col_stride + (col & (fractal_cols() - 1)) * col_stride;
    }
    constexpr int64_t offset(int64_t row, int64_t col) const { return row_offset(row) + col_offset(col); }
    // Rows and columns from a position to where the stride changes: at the end of its fractal, if fractals do not
    // continue each other.
    constexpr int64_t rows_left(int64_t row) const {
        return fractal_row_stride == row_stride << row_shift ? endless : fractal_rows() - (row & (fractal_rows() - 1));
    }
    constexpr int64_t cols_left(int64_t col) const {
        return fractal_col_stride == col_stride << col_shift ? endless : fractal_cols() - (col & (fractal_cols() - 1));
    }
    constexpr Plane transposed() const {
        return {col_shift, row_shift, fractal_col_stride, fractal_row_stride, col_stride, row_stride};
    }
};

// Without fractals: one that no tile reaches the end of.
constexpr Plane strided_plane(int64_t row_stride, int64_t col_stride) {
    return {40, 40, 0, 0, row_stride, col_stride};
}

} // namespace pto::detail

#endif
