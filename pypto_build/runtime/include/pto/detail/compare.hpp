// Comparisons to packed masks, and selections by them. A mask has one bit for each element, least significant bit
// first, and each of its rows starts a row of the mask tile.
#ifndef PTO_DETAIL_COMPARE_HPP
#define PTO_DETAIL_COMPARE_HPP

#include "copy.hpp"
#include "elementwise.hpp"
#include "numerics.hpp"

namespace pto::detail {

template <class V> PTO_INLINE auto compare(V a, V b, CmpMode mode) {
    switch (mode) {
    case CmpMode::EQ:
        return a == b;
    case CmpMode::NE:
        return a != b;
    case CmpMode::LT:
        return a < b;
    case CmpMode::LE:
        return a <= b;
    case CmpMode::GT:
        return a > b;
    default:
        return a >= b;
    }
}

// TCMPS of upstream's simulator: numbers that are less than 10^-9 apart are equal.
template <class T> PTO_INLINE bool nearly_equal(T a, T b) {
    const double apart = double(a) - double(b);
    return (apart < 0 ? -apart : apart) < 1e-9;
}
template <class T>
PTO_NOINLINE void compare_nearly(uint8_t *to, int64_t to_stride, const T *from, int64_t stride, T value, bool equal,
                                 int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < cols; ++i) {
            uint8_t &byte = to[r * to_stride + i / 8];
            const float a = float(from[r * stride + i]), b = float(value);
            const bool apart = a != a || b != b || (!nearly_equal(a, b) && a - b == a - b);
            byte = uint8_t((i % 8 ? byte : 0) | (equal ? nearly_equal(a, b) : apart) << i % 8);
        }
}

template <class T, class Right>
PTO_NOINLINE void compare_rows(uint8_t *to, int64_t to_stride, const T *from, int64_t stride, Right right, CmpMode mode,
                               int64_t rows, int64_t cols) {
    constexpr int64_t step = lanes<T>; // 8, 16 or 32: whole bytes; 4 for 64-bit elements
    for (int64_t r = 0; r < rows; ++r) {
        const auto b = right.row(r);
        const T *const a = from + r * stride;
        uint8_t *const bits = to + r * to_stride;
        const auto write = [&](int64_t i, uint32_t word, int64_t bytes) {
            if (step < 8 && i % 8)
                bits[i / 8] = uint8_t(bits[i / 8] | word << 4);
            else
                for (int64_t k = 0; k < bytes; ++k)
                    bits[i / 8 + k] = uint8_t(word >> (8 * k));
        };
        int64_t i = 0;
        for (; i + step <= cols; i += step)
            write(i, mask_bits(compare(load(a + i), b.at(i), mode)), (step + 7) / 8);
        if (i < cols) {
            const int64_t left = cols - i;
            const uint32_t word = mask_bits(compare(load_part(a + i, left), b.part(i, left), mode));
            write(i, word & ((1u << left) - 1u), (left + 7) / 8);
        }
    }
}

// to = mask ? a : b, on bits of the elements. A stride of zero repeats eight equal elements.
template <class T>
PTO_NOINLINE void select_rows(T *to, int64_t stride, const uint8_t *mask, int64_t mask_stride, const T *a,
                              int64_t a_stride, const T *b, int64_t b_stride, int64_t rows, int64_t cols) {
    using V = Vector<T, 8>;
    constexpr V weights = {1, 2, 4, 8, 16, 32, 64, 128};
    for (int64_t r = 0; r < rows; ++r) {
        // Through a reference: a register of 64-bit elements is wider than those that functions return.
        const auto eight = [&](V &value, const T *base, int64_t row_stride, int64_t i, int64_t count) {
            const T *const from = base + r * row_stride + (row_stride ? i : 0);
            if (count == 8)
                __builtin_memcpy(&value, from, sizeof(value));
            else
                for (int64_t k = 0; k < count; ++k)
                    value[k] = from[k];
        };
        for (int64_t i = 0; i < cols; i += 8) {
            const int64_t count = cols - i < 8 ? cols - i : 8;
            const V bits = V{} + T(mask[r * mask_stride + i / 8]);
            V set{}, unset{};
            eight(set, a, a_stride, i, count);
            eight(unset, b, b_stride, i, count);
            const V chosen = (bits & weights) != 0 ? set : unset;
            T *const place = to + r * stride + i;
            if (count == 8)
                __builtin_memcpy(place, &chosen, sizeof(chosen));
            else
                for (int64_t k = 0; k < count; ++k)
                    place[k] = chosen[k];
        }
    }
}

// TSEL of upstream's simulator: bits follow each other through the valid part of the mask, whatever the row.
template <class T>
PTO_NOINLINE void select_packed(T *to, int64_t stride, const uint8_t *mask, int64_t mask_stride, int64_t mask_cols,
                                const T *a, int64_t a_stride, const T *b, int64_t b_stride, int64_t rows,
                                int64_t cols) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < cols; ++i) {
            const int64_t bit = r * cols + i, byte = bit / 8;
            const uint8_t word = mask[byte / mask_cols * mask_stride + byte % mask_cols];
            to[r * stride + i] = word >> bit % 8 & 1 ? a[r * a_stride + i] : b[r * b_stride + i];
        }
}

template <class M> PTO_INLINE uint8_t *mask_bytes(const M &mask) {
    return (uint8_t *)mask.data();
}
template <class M> inline constexpr int64_t mask_stride = int64_t(M::Cols) * int64_t(sizeof(typename M::DType));
// Upstream's simulator clears the whole mask first.
template <class M> PTO_INLINE void clear_mask(M &mask) {
    if constexpr (as_simulator)
        __builtin_memset(mask.data(), 0, uint64_t(M::Rows) * uint64_t(mask_stride<M>));
}

// The vector unit of a2a3 has no ordered comparison of int32: whatever the mode, it compares for equality.
template <class T> PTO_INLINE CmpMode effective_mode(CmpMode mode) {
    return !as_simulator && PYPTO_ARCH == 2 && is_same<T, int32_t> ? CmpMode::EQ : mode;
}

template <class... T> constexpr void check_rows() {
    static_assert(((T::isRowMajor && !T::isBoxedLayout) && ...),
                  "comparison or selection: row-major tiles without fractals");
}

} // namespace pto::detail

namespace pto {

// TCMP(mask, src0, src1, mode), over the valid region of src0.
template <class M, class A, class B, class... Rest>
PTO_INST RecordEvent TCMP(M &mask, const A &src0, const B &src1, CmpMode mode, Rest &...) {
    detail::check_rows<M, A, B>();
    using T = detail::ElementType<A>;
    static_assert(detail::is_number<T> && detail::is_same<T, detail::ElementType<B>>,
                  "TCMP: operands of one element type, which is a number");
    PTO_CHECK(TCMP, PIPE_V, reads(src0), reads(src1, valid(src0)), writes(mask, bits_of(mask, src0)));
    detail::clear_mask(mask);
    detail::compare_rows(detail::mask_bytes(mask), detail::mask_stride<M>, src0.data(), A::Cols,
                         detail::as_matrix(src1), detail::effective_mode<T>(mode), src0.GetValidRow(),
                         src0.GetValidCol());
    return {};
}

// TCMPS(mask, src, scalar, mode).
template <class M, class A, class Scalar, class... Rest>
PTO_INST RecordEvent TCMPS(M &mask, const A &src, const Scalar &scalar, CmpMode mode, Rest &...) {
    detail::check_rows<M, A>();
    using T = detail::ElementType<A>;
    T value;
    static_assert(detail::is_number<T>, "TCMPS: unsupported element type");
    PTO_CHECK(TCMPS, PIPE_V, reads(src), writes(mask, bits_of(mask, src)));
    detail::clear_mask(mask);
    if constexpr (detail::is_tile<Scalar>)
        value = scalar.data()[0];
    else
        value = T(scalar);
    if constexpr (detail::as_simulator && detail::is_float<T>)
        if (mode == CmpMode::EQ || mode == CmpMode::NE) {
            detail::compare_nearly(detail::mask_bytes(mask), detail::mask_stride<M>, src.data(), A::Cols, value,
                                   mode == CmpMode::EQ, src.GetValidRow(), src.GetValidCol());
            return {};
        }
    detail::compare_rows(detail::mask_bytes(mask), detail::mask_stride<M>, src.data(), A::Cols,
                         detail::Uniform<T>{detail::to_compute(value)}, detail::effective_mode<T>(mode),
                         src.GetValidRow(), src.GetValidCol());
    return {};
}

// TSEL(dst, mask, src0, src1[, tmp]): src0 where the mask's bit is set, else src1.
template <class D, class M, class A, class B, class... Rest>
PTO_INST RecordEvent TSEL(D &dst, const M &mask, const A &src0, const B &src1, [[maybe_unused]] Rest &...rest) {
    detail::check_rows<D, M, A, B>();
    detail::check_operands<D, A, B>();
    using T = detail::Bits<typename D::DType>;
    PTO_CHECK(TSEL, PIPE_V, reads(mask, bits_of(mask, dst)), reads(src0, valid(dst)), reads(src1, valid(dst)),
              writes(dst), scratch(rest)...);
    if constexpr (detail::as_simulator && sizeof(typename M::DType) == 1)
        if (mask.GetValidCol() > 0) {
            detail::select_packed((T *)dst.data(), D::Cols, detail::mask_bytes(mask), detail::mask_stride<M>,
                                  mask.GetValidCol(), (const T *)src0.data(), A::Cols, (const T *)src1.data(), B::Cols,
                                  dst.GetValidRow(), dst.GetValidCol());
            return {};
        }
    detail::select_rows((T *)dst.data(), D::Cols, detail::mask_bytes(mask), detail::mask_stride<M>,
                        (const T *)src0.data(), A::Cols, (const T *)src1.data(), B::Cols, dst.GetValidRow(),
                        dst.GetValidCol());
    return {};
}

// TSELS(dst, mask, src, tmp, scalar): src where the mask's bit is set, else the scalar.
template <class D, class M, class A, class Tmp, class Scalar, class... Rest>
PTO_INST RecordEvent TSELS(D &dst, const M &mask, const A &src, [[maybe_unused]] const Tmp &tmp, Scalar scalar,
                           Rest &...) {
    detail::check_rows<D, M, A>();
    detail::check_operands<D, A>();
    using T = detail::Bits<typename D::DType>;
    PTO_CHECK(TSELS, PIPE_V, reads(mask, bits_of(mask, dst)), reads(src, valid(dst)), writes(dst), scratch(tmp));
    T other[8];
    for (T &element : other)
        element = detail::bit_cast<T>(detail::ElementType<D>(scalar));
    detail::select_rows((T *)dst.data(), D::Cols, detail::mask_bytes(mask), detail::mask_stride<M>,
                        (const T *)src.data(), A::Cols, (const T *)other, 0, dst.GetValidRow(), dst.GetValidCol());
    return {};
}

} // namespace pto

#endif
