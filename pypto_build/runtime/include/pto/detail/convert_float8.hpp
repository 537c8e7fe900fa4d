// TCVT between float and the floating-point types of eight bits.
#ifndef PTO_DETAIL_CONVERT_FLOAT8_HPP
#define PTO_DETAIL_CONVERT_FLOAT8_HPP

#include "float8.hpp"
#include "vector.hpp"

namespace pto::detail {

// Source and destination may start at the same address: narrowing goes forward, widening backward.
template <class T>
PTO_NOINLINE void narrow_float8(T *to, int64_t to_stride, const float *from, int64_t from_stride, int64_t rows,
                                int64_t cols, Rounding mode, bool saturate) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            to[r * to_stride + c].bits =
                float_to_f8_bits<typename T::Format>(from[r * from_stride + c], mode, saturate);
}

template <class T>
PTO_NOINLINE void widen_float8(float *to, int64_t to_stride, const T *from, int64_t from_stride, int64_t rows,
                               int64_t cols) {
    for (int64_t r = rows - 1; r >= 0; --r)
        for (int64_t c = cols - 1; c >= 0; --c)
            to[r * to_stride + c] = float(from[r * from_stride + c]);
}

template <class D, class S> PTO_INLINE void convert_float8(D &dst, const S &src, Rounding mode, bool saturate) {
    using To = remove_cv_t<typename D::DType>;
    using From = remove_cv_t<typename S::DType>;
    constexpr int64_t to_stride = D::isRowMajor ? D::Cols : D::Rows, from_stride = D::isRowMajor ? S::Cols : S::Rows;
    const int64_t rows = D::isRowMajor ? src.GetValidRow() : src.GetValidCol();
    const int64_t cols = D::isRowMajor ? src.GetValidCol() : src.GetValidRow();
    if constexpr (is_same<From, float>) {
        narrow_float8<To>(dst.data(), to_stride, src.data(), from_stride, rows, cols, mode, saturate);
    } else {
        static_assert(is_same<To, float>, "TCVT: eight-bit floating-point types convert to and from float only");
        widen_float8<From>(dst.data(), to_stride, src.data(), from_stride, rows, cols);
    }
}

} // namespace pto::detail

#endif
