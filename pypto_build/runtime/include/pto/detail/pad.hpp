// Padding: the values named by PadValue, and TFILLPAD.
#ifndef PTO_DETAIL_PAD_HPP
#define PTO_DETAIL_PAD_HPP

#include "copy.hpp"
#include "elementwise.hpp"

namespace pto::detail {

template <class T> constexpr T from_bits(uint32_t bits) {
    if constexpr (is_same<T, float>)
        return bits_float(bits);
    else if constexpr (is_same<T, bfloat16_t>)
        return bfloat16_t::from_bits(uint16_t(bits));
    else if constexpr (is_same<T, half>)
        return __builtin_bit_cast(half, uint16_t(bits));
    else
        return T(bits);
}

template <class T> constexpr T pad_number(PadValue pad) {
    constexpr bool is_signed = !is_float<T> && T(-1) < T(0);
    constexpr uint64_t ones = ~uint64_t(0) >> (64 - 8 * sizeof(T));
    if (uint64_t(pad) >> 32)
        return from_bits<T>(uint32_t(uint64_t(pad)));
    if constexpr (is_float<T>)
        return pad == PadValue::Max ? T(__builtin_inff()) : pad == PadValue::Min ? T(-__builtin_inff()) : T(0.0f);
    else
        return pad == PadValue::Max   ? T(is_signed ? ones >> 1 : ones)
               : pad == PadValue::Min ? T(is_signed ? (ones >> 1) + 1 : 0)
                                      : T(0);
}

// Elements of at most eight bits that are floating-point numbers are padded with zeros, whatever the pad value.
template <class T> constexpr T pad_element(PadValue pad) {
    if constexpr (!is_number<T>)
        return T{};
    else
        return pad_number<T>(pad);
}

// Everything of a tile outside its first rows x cols.
template <class D> PTO_INLINE void pad_tile(D &dst, int64_t rows, int64_t cols) {
    constexpr auto value = pad_element<ElementType<D>>(D::PadVal);
    if (cols < D::Cols)
        fill_tile(dst, 0, cols, rows, D::Cols, value);
    if (rows < D::Rows)
        fill_tile(dst, rows, 0, D::Rows, D::Cols, value);
}

} // namespace pto::detail

namespace pto {

// TFILLPAD(dst, src): the valid region of src, and the pad value of dst everywhere else in dst.
template <TFillPadMode mode = TFillPadMode::Normal, class D, class S, class... Rest>
PTO_INST RecordEvent TFILLPAD(D &dst, const S &src, Rest &...) {
    static_assert(D::PadVal != PadValue::Null, "TFILLPAD: the destination names no pad value (PadValue::Null)");
    static_assert(sizeof(typename D::DType) == sizeof(typename S::DType), "TFILLPAD: operands of one element type");
    const int64_t rows = src.GetValidRow(), cols = src.GetValidCol();
    PTO_CHECK(TFILLPAD, PIPE_V, carries(src, valid(src)), writes(dst, whole(dst)));
    if ((const void *)dst.data() != (const void *)src.data())
        detail::copy_elements(dst.data(), D::plane(), {0, 0}, src.data(), S::plane(), {0, 0}, rows, cols);
    detail::pad_tile(dst, rows, cols);
    return {};
}
template <class D, class S, class... Rest> PTO_INST RecordEvent TFILLPAD_INPLACE(D &dst, const S &src, Rest &...) {
    return TFILLPAD(dst, src);
}
template <class D, class S, class... Rest> PTO_INST RecordEvent TFILLPAD_EXPAND(D &dst, const S &src, Rest &...) {
    return TFILLPAD(dst, src);
}

} // namespace pto

#endif
