// TCVT between floating-point types and those of eight and four bits.
#ifndef PTO_DETAIL_CONVERT_FLOAT8_HPP
#define PTO_DETAIL_CONVERT_FLOAT8_HPP

#include "elementwise.hpp"
#include "packed.hpp"

namespace pto::detail {

template <class T> PTO_INLINE uint8_t small_bits(float value, Rounding mode, bool saturate) {
    if constexpr (is_same<T, hifloat8_t>) {
        return float_to_hif8_bits(value, saturate);
    } else if constexpr (is_same<T, int4b_t>) {
        const float inside = value > 7.0f ? 7.0f : value >= -8.0f ? value : value < -8.0f ? -8.0f : 0.0f;
        const float magnitude = inside < 0 ? -inside : inside;
        const int whole = int(magnitude);
        // Eighths are enough to tell how the rest compares with one half and with nothing.
        const float rest = (magnitude - float(whole)) * 8.0f;
        const uint32_t dropped = uint32_t(rest) | uint32_t(rest != float(uint32_t(rest)));
        const Rounding direction = mode == Rounding::None ? Rounding::Trunc : mode;
        const int rounded = whole + round_up(dropped, 4, whole & 1, inside < 0, direction);
        return uint8_t((inside < 0 ? -rounded : rounded) & 15);
    } else {
        return float_to_small_bits<typename T::Format>(value, mode, saturate);
    }
}
template <class T> PTO_INLINE float small_to_float(uint32_t bits) {
    if constexpr (is_same<T, int4b_t>)
        return float(int8_t(int4b_t(int32_t(bits))));
    else
        return small_bits_to_float<typename T::Format>(bits);
}

// Source and destination may start at the same address: narrowing goes forward, widening backward.
template <class T, class From>
PTO_NOINLINE void narrow_float8(T *to, int64_t to_stride, const From *from, int64_t from_stride, int64_t rows,
                                int64_t cols, Rounding mode, bool saturate) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            to[r * to_stride + c].bits = small_bits<T>(float(from[r * from_stride + c]), mode, saturate);
}

template <class T>
PTO_NOINLINE void widen_float8(float *to, int64_t to_stride, const T *from, int64_t from_stride, int64_t rows,
                               int64_t cols) {
    for (int64_t r = rows - 1; r >= 0; --r)
        for (int64_t c = cols - 1; c >= 0; --c)
            to[r * to_stride + c] = float(from[r * from_stride + c]);
}

// A byte from two numbers, and two numbers from a byte.
template <class T, class From>
PTO_NOINLINE void pack_pairs(uint8_t *to, int64_t to_stride, const From *from, int64_t from_stride, int64_t rows,
                             int64_t cols, Rounding mode) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
            const From *const pair = from + r * from_stride + 2 * c;
            const uint32_t low = small_bits<T>(float(pair[0]), mode, true);
            to[r * to_stride + c] = uint8_t(low | uint32_t(small_bits<T>(float(pair[1]), mode, true)) << 4);
        }
}
template <class T, class To>
PTO_NOINLINE void unpack_pairs(To *to, int64_t to_stride, const uint8_t *from, int64_t from_stride, int64_t rows,
                               int64_t cols) {
    for (int64_t r = rows - 1; r >= 0; --r)
        for (int64_t c = cols - 1; c >= 0; --c) {
            const uint32_t byte = from[r * from_stride + c / 2];
            to[r * to_stride + c] = To(small_to_float<T>(c % 2 ? byte >> 4 : byte & 15u));
        }
}

// To and from an element type of eight bits.
template <class D, class S> PTO_INLINE void convert_float8(D &dst, const S &src, Rounding mode, bool saturate) {
    using To = ElementType<D>;
    using From = ElementType<S>;
    constexpr int64_t to_stride = D::isRowMajor ? D::Cols : D::Rows, from_stride = D::isRowMajor ? S::Cols : S::Rows;
    const int64_t rows = D::isRowMajor ? src.GetValidRow() : src.GetValidCol();
    const int64_t cols = D::isRowMajor ? src.GetValidCol() : src.GetValidRow();
    if constexpr (is_same<From, float> || (is_same<From, half> && is_same<To, hifloat8_t>)) {
        narrow_float8<To>(dst.data(), to_stride, src.data(), from_stride, rows, cols, mode, saturate);
    } else {
        static_assert(is_same<To, float>, "TCVT: eight-bit floating-point types convert to and from float only");
        widen_float8<From>(dst.data(), to_stride, src.data(), from_stride, rows, cols);
    }
}

// To and from an element type of four bits, which saturates. Of an odd number of columns the last one is not written.
template <class D, class S> PTO_INLINE void convert_packed(D &dst, const S &src, Rounding mode) {
    if constexpr (has_packed_elements<D>) {
        static_assert(is_float<ElementType<S>>, "TCVT: four-bit types convert to and from floating-point types only");
        auto bytes = bytes_of_tile(dst);
        PTO_CHECK(TCVT, PIPE_V, reads(src), writes(bytes, {0, 0, src.GetValidRow(), src.GetValidCol() / 2}));
        pack_pairs<remove_cv_t<typename D::DType>>(bytes.data(), packed_cols<D>, src.data(), S::Cols, src.GetValidRow(),
                                                   src.GetValidCol() / 2, mode);
    } else {
        static_assert(is_float<ElementType<D>>, "TCVT: four-bit types convert to and from floating-point types only");
        const auto bytes = bytes_of_tile(src);
        PTO_CHECK(TCVT, PIPE_V, reads(bytes, {0, 0, src.GetValidRow(), (src.GetValidCol() + 1) / 2}),
                  writes(dst, valid(src)));
        unpack_pairs<remove_cv_t<typename S::DType>>(dst.data(), D::Cols, bytes.data(), packed_cols<S>,
                                                     src.GetValidRow(), src.GetValidCol());
    }
}

} // namespace pto::detail

#endif
