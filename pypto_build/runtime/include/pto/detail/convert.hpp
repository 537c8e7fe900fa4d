// TCVT: conversion of element types with every rounding and saturation mode.
#ifndef PTO_DETAIL_CONVERT_HPP
#define PTO_DETAIL_CONVERT_HPP

#include "convert_float8.hpp"
#include "copy.hpp"
#include "elementwise.hpp"
#include "numerics.hpp"

namespace pto::detail {

// Eight bf16 in the given rounding direction.
template <Rounding mode> PTO_INLINE u16x8 round_bf16(f32x8 value) {
    if constexpr (mode == Rounding::NearestEven)
        return narrow_bf16(value);
    const u32x8 bits = bit_cast<u32x8>(value);
    const u32x8 negative = bit_cast<u32x8>(bit_cast<i32x8>(bits) >> 31);
    u32x8 kept;
    if constexpr (mode == Rounding::NearestAway)
        kept = (bits + 0x8000u) >> 16;
    else if constexpr (mode == Rounding::Floor)
        kept = (bits + (negative & 0xffffu)) >> 16;
    else if constexpr (mode == Rounding::Ceil)
        kept = (bits + (~negative & 0xffffu)) >> 16;
    else if constexpr (mode == Rounding::Odd)
        kept = (bits | (((bits & 0xffffu) + 0xffffu) & 0x10000u)) >> 16;
    else
        kept = bits >> 16;
    return bit_cast<u16x8>(pack_words(bit_cast<i32x8>(value == value ? kept : (bits >> 16) | 0x40u)));
}

// `whole`: the numbers are integers.
template <Rounding mode, bool whole> PTO_INLINE u16x8 round_f16(f32x8 value) {
#ifdef __F16C__
    if constexpr (mode == Rounding::NearestEven)
        return narrow_f16(value);
    if constexpr (mode == Rounding::Floor)
        return narrow_f16_in<1>(value);
    if constexpr (mode == Rounding::Ceil)
        return narrow_f16_in<2>(value);
    if constexpr (mode == Rounding::NearestAway) {
        // For a normal result, adding half a unit to the bits and cutting them off rounds so.
        const f32x8 rounded = bit_cast<f32x8>((bit_cast<u32x8>(value) + 0x1000u) & ~0x1fffu);
        if constexpr (whole)
            return narrow_f16(rounded);
        const i32x8 subnormal = (fabs(value) < 6.103515625e-05f) & (value != 0.0f);
        if (__builtin_expect(mask_bits(subnormal) == 0, 1))
            return narrow_f16(value == value ? rounded : value);
    }
    const u16x8 kept = narrow_f16_in<3>(value);
    const f32x8 low = widen_f16(kept);
    if constexpr (mode == Rounding::NearestAway) { // the number above, or where that would be infinity 2^16
        const f32x8 next = widen_f16(kept + 1),
                    high = fabs(next) == infinity ? copysign(f32x8{} + 65536.0f, next) : next;
        const i32x8 up = fabs(value) >= fabs(0.5f * (low + high));
        return kept - bit_cast<u16x8>(narrow_int<uint16_t>(up));
    } else if constexpr (mode == Rounding::Odd) {
        const i32x8 inexact = (low != value) & (value == value);
        return kept | (bit_cast<u16x8>(narrow_int<uint16_t>(inexact)) & 1);
    }
    return kept;
#else
    u16x8 bits{};
    for (int i = 0; i < 8; ++i)
        bits[i] = float_to_f16_bits(value[i], mode);
    return bits;
#endif
}

#ifdef __AVX__
// The nearest int32 in the given direction; out of range, and for NaN, the lowest.
template <Rounding mode> PTO_INLINE i32x8 nearest_i32(f32x8 value) {
    if constexpr (mode == Rounding::NearestEven)
        return __builtin_ia32_cvtps2dq256(value);
    else if constexpr (mode == Rounding::Floor || mode == Rounding::Ceil)
        return __builtin_ia32_cvttps2dq256(__builtin_ia32_roundps256(value, mode == Rounding::Floor ? 9 : 10));
    else if constexpr (mode == Rounding::NearestAway) // the largest number below one half: sums round to what is wanted
        return __builtin_ia32_cvttps2dq256(value + copysign(f32x8{} + 0.49999997f, value));
    else
        return __builtin_ia32_cvttps2dq256(value);
}
#endif

// The nearest int32 in the given direction; out of range gives the nearest end, NaN gives zero.
template <Rounding mode> PTO_INLINE i32x8 round_i32(f32x8 value) {
    const auto high = value >= 2147483648.0f;
#ifdef __AVX__
    if constexpr (mode != Rounding::Odd) {
        const i32x8 whole = nearest_i32<mode>(value) & (value == value);
        return high ? i32x8{} + 2147483647 : whole;
    }
#endif
    const auto low = value < -2147483648.0f;
    const f32x8 inside = (high | low | (value != value)) ? f32x8{} : value;
    i32x8 whole = __builtin_convertvector(inside, i32x8); // truncates
    const f32x8 rest = inside - __builtin_convertvector(whole, f32x8);
    // Comparisons are -1 where they hold: subtracting one adds a unit.
    const i32x8 odd = -(whole & 1);
    if constexpr (mode == Rounding::NearestEven)
        whole += ((rest < -0.5f) | ((rest == -0.5f) & odd)) - ((rest > 0.5f) | ((rest == 0.5f) & odd));
    else if constexpr (mode == Rounding::NearestAway)
        whole += (rest <= -0.5f) - (rest >= 0.5f);
    else if constexpr (mode == Rounding::Floor)
        whole += rest < 0.0f;
    else if constexpr (mode == Rounding::Ceil)
        whole -= rest > 0.0f;
    else if constexpr (mode == Rounding::Odd)
        whole += ~odd & ((rest < 0.0f) - (rest > 0.0f));
    return high ? i32x8{} + 2147483647 : low ? i32x8{} - 2147483647 - 1 : whole;
}

// A float rounded to an integral float.
template <Rounding mode> PTO_INLINE f32x8 round_integral(f32x8 value) {
    const f32x8 rounded = __builtin_convertvector(round_i32<mode>(value), f32x8);
    const f32x8 magnitude = fabs(value);
    return magnitude < 8388608.0f ? copysign(rounded, value) : value;
}

// An integer as float, rounded in the given direction.
PTO_INLINE float int_to_float(uint64_t magnitude, bool negative, Rounding mode) {
    if (magnitude == 0)
        return 0.0f;
    const int top = 63 - __builtin_clzll(magnitude);
    uint32_t significand;
    if (top <= 23) {
        significand = uint32_t(magnitude << (23 - top));
    } else {
        const int shift = top - 23;
        const uint64_t dropped = magnitude & ((uint64_t(1) << shift) - 1), half = uint64_t(1) << (shift - 1);
        significand = uint32_t(magnitude >> shift);
        // Only the order of dropped and half matters: bring both into 32 bits.
        const uint32_t order = dropped == 0 ? 0 : dropped < half ? 1 : dropped == half ? 2 : 3;
        significand += round_up(order, 2, significand & 1u, negative, mode);
    }
    // A carry out of the significand goes into the exponent, as it should.
    const uint32_t bits = (uint32_t(top + 126) << 23) + significand;
    return bits_float(bits | (negative ? 0x80000000u : 0u));
}
template <class T> PTO_INLINE float int_to_float(T value, Rounding mode) {
    const bool negative = value < T(0);
    return int_to_float(negative ? uint64_t(0) - uint64_t(value) : uint64_t(value), negative, mode);
}

template <class = void>
PTO_NOINLINE void round_f32_each(float *result, const int32_t *value, int count, Rounding mode) {
    for (int i = 0; i < count; ++i)
        result[i] = int_to_float(value[i], mode);
}
template <Rounding mode, int n> PTO_INLINE void round_f32(f32x8 (&result)[n], const i32x8 (&value)[n]) {
    PTO_EACH result[i] = __builtin_convertvector(value[i], f32x8);
    if constexpr (mode != Rounding::NearestEven) {
        u32x8 largest = bit_cast<u32x8>(value[0]) + (1u << 24); // up to there, integers are floats
        PTO_EACH largest = lane_max(largest, bit_cast<u32x8>(value[i]) + (1u << 24));
        if (__builtin_expect(mask_bits(largest > 1u << 25) != 0, 0)) {
            int32_t source[8 * n];
            float target[8 * n];
            __builtin_memcpy(source, value, sizeof(source));
            round_f32_each(target, source, 8 * n, mode);
            __builtin_memcpy(result, target, sizeof(target));
        }
    }
}

template <class D, bool saturate> PTO_INLINE void store_int(D *to, i32x8 value) {
    if constexpr (saturate && sizeof(D) < 4) {
        constexpr int32_t low = D(-1) < D(0) ? -(1 << (8 * sizeof(D) - 1)) : 0;
        constexpr int32_t high = D(-1) < D(0) ? (1 << (8 * sizeof(D) - 1)) - 1 : (1 << (8 * sizeof(D))) - 1;
        value = value < low ? i32x8{} + low : value > high ? i32x8{} + high : value;
    }
    const auto narrow = narrow_int<D>(value);
    __builtin_memcpy(to, &narrow, sizeof(narrow));
}
template <class D, bool saturate, int n> PTO_INLINE void store_ints(D *to, i32x8 (&value)[n]) {
#ifdef __AVX2__
    if constexpr (n == 4 && sizeof(D) == 1) { // the instructions narrow each half of a register
        constexpr bool is_signed = D(-1) < D(0);
        Vector<int16_t, 16> words[2];
        PTO_UNROLL
        for (int i = 0; i < 2; ++i)
            words[i] = saturate ? __builtin_ia32_packssdw256(value[2 * i], value[2 * i + 1])
                                : __builtin_ia32_packusdw256(value[2 * i] & 0xff, value[2 * i + 1] & 0xff);
        const auto bytes = bit_cast<i32x8>(saturate && is_signed ? __builtin_ia32_packsswb256(words[0], words[1])
                                                                 : __builtin_ia32_packuswb256(words[0], words[1]));
        const i32x8 ordered = __builtin_shufflevector(bytes, bytes, 0, 4, 1, 5, 2, 6, 3, 7);
        __builtin_memcpy(to, &ordered, sizeof(ordered));
        return;
    }
#endif
    PTO_EACH store_int<D, saturate>(to + 8 * i, value[i]);
}
// Rounds halves, wrapped to 8 or 16 bits: all bits of infinity are set, and none of NaN.
template <Rounding mode> PTO_INLINE i32x8 round_half_to_wrap(f32x8 value) {
#ifdef __AVX__
    if constexpr (mode != Rounding::Odd)
        return nearest_i32<mode>(__builtin_ia32_minps256(splat<float>(65535.0f), value));
#endif
    return round_i32<mode>(value);
}

// Pairs with an element type of 64 bits or uint32 go one by one.
template <class T> inline constexpr bool is_wide = is_one_of<T, uint32_t, int64_t, uint64_t>;

template <class D, Rounding mode, bool saturate, class S> PTO_INLINE D convert_one(S value) {
    if constexpr (is_int<S> && is_int<D>) {
        if constexpr (saturate) {
            constexpr uint64_t ones = ~uint64_t(0) >> (64 - 8 * sizeof(D));
            constexpr uint64_t high = D(-1) < D(0) ? ones >> 1 : ones;
            if (value < S(0))
                return D(-1) < D(0) ? (int64_t(value) < -int64_t(high) - 1 ? D(high + 1) : D(value)) : D(0);
            return uint64_t(value) > high ? D(high) : D(value);
        }
        return D(value);
    } else if constexpr (is_int<S>) {
        if constexpr (is_same<D, float>)
            return int_to_float(value, mode);
        else if constexpr (is_same<D, half>)
            return bit_cast<half>(float_to_f16_bits(int_to_float(value, Rounding::Odd), mode));
        else
            return bfloat16_t::from_bits(float_to_bf16_bits(int_to_float(value, Rounding::Odd), mode));
    } else {
        const float x = float(value);
        if (x != x)
            return D(0);
        double whole = double(int64_t(x > -9.2e18f && x < 9.2e18f ? x : 0.0f));
        const double rest = x > -9.2e18f && x < 9.2e18f ? double(x) - whole : 0.0;
        const bool odd = int64_t(whole) & 1;
        const double away = rest < 0 ? -1.0 : 1.0, size = rest < 0 ? -rest : rest;
        const bool step = mode == Rounding::NearestEven   ? size > 0.5 || (size == 0.5 && odd)
                          : mode == Rounding::NearestAway ? size >= 0.5
                          : mode == Rounding::Floor       ? rest < 0
                          : mode == Rounding::Ceil        ? rest > 0
                          : mode == Rounding::Odd         ? size > 0 && !odd
                                                          : false;
        whole = (x > -9.2e18f && x < 9.2e18f ? whole : double(x)) + (step ? away : 0.0);
        constexpr bool is_signed = D(-1) < D(0);
        constexpr double limit = double(uint64_t(1) << (8 * sizeof(D) - 1)) * (is_signed ? 1.0 : 2.0);
        if (whole >= limit)
            return D(~uint64_t(0) >> (64 - 8 * sizeof(D) + (is_signed ? 1 : 0)));
        if (whole < (is_signed ? -limit : 0.0))
            return is_signed ? D(uint64_t(1) << (8 * sizeof(D) - 1)) : D(0);
        return D(whole);
    }
}

template <class D, Rounding mode, bool whole = false> PTO_INLINE void store_float(D *to, f32x8 value) {
    if constexpr (is_half<D>) {
        u16x8 bits;
        if constexpr (is_same<D, half>)
            bits = round_f16<mode, whole>(value);
        else
            bits = round_bf16<mode>(value);
        __builtin_memcpy(to, &bits, sizeof(bits));
    } else {
        store(to, value);
    }
}

// 8 n elements.
template <class D, class S, Rounding mode, bool saturate, int n = 1>
PTO_INLINE void convert_block(D *to, const S *from) {
    if constexpr (is_wide<D> || is_wide<S>) {
        D result[8];
        for (int i = 0; i < 8; ++i)
            result[i] = convert_one<D, mode, saturate>(from[i]);
        __builtin_memcpy(to, result, sizeof(result));
    } else if constexpr (is_float<S> && is_float<D>) {
        const f32x8 value = load(from);
        if constexpr (is_same<S, float> && is_same<D, float> && mode != Rounding::None)
            store(to, round_integral<mode>(value));
        else
            store_float<D, mode>(to, value);
    } else {
        i32x8 value[n];
        PTO_EACH {
            if constexpr (is_same<S, half> && sizeof(D) < 4 && !saturate) {
                value[i] = round_half_to_wrap<mode>(load(from + 8 * i));
            } else if constexpr (is_float<S>) {
                value[i] = round_i32<mode>(load(from + 8 * i));
            } else {
                Vector<S, 8> raw;
                __builtin_memcpy(&raw, from + 8 * i, sizeof(raw));
                value[i] = widen_int<S>(raw);
            }
        }
        if constexpr (is_int<D>) {
            store_ints<D, saturate>(to, value);
        } else { // to bfloat16 through float rounded to odd, which the second rounding cannot tell from the exact
                 // number
            constexpr Rounding first = is_same<D, float>                   ? mode
                                       : is_same<D, half> || sizeof(S) < 4 ? Rounding::NearestEven
                                                                           : Rounding::Odd;
            if constexpr (is_same<D, half> && sizeof(S) == 4) // what half cannot tell from 2^17; the rest is exact
                PTO_EACH value[i] = value[i] > 131072    ? i32x8{} + 131072
                                    : value[i] < -131072 ? i32x8{} - 131072
                                                         : value[i];
            f32x8 result[n];
            round_f32<first>(result, value);
            PTO_EACH store_float<D, mode, true>(to + 8 * i, result[i]);
        }
    }
}
// The common part of several registers.
template <class D, class S>
inline constexpr int blocks_at_once =
    !is_wide<D> && !is_wide<S> && ((is_int<D> && sizeof(D) == 1) || (is_same<S, int32_t> && is_float<D>)) ? 4 : 1;

template <class D, class S, Rounding mode, bool saturate>
PTO_INLINE void convert_part(D *to, const S *from, int64_t count) {
    S source[8] = {};
    D result[8];
    for (int64_t i = 0; i < count; ++i)
        source[i] = from[i];
    convert_block<D, S, mode, saturate>(result, source);
    for (int64_t i = 0; i < count; ++i)
        to[i] = result[i];
}

// Source and destination may start at the same address: narrowing goes forward, widening goes backward, so that nothing
// is overwritten before it is read.
template <class D, class S, Rounding mode, bool saturate>
PTO_NOINLINE void convert_matrix(D *to, int64_t to_stride, const S *from, int64_t from_stride, int64_t rows,
                                 int64_t cols) {
    if (to_stride == cols && from_stride == cols) {
        cols *= rows;
        rows = cols > 0;
    }
    constexpr int at_once = blocks_at_once<D, S>;
    const int64_t whole = cols & ~int64_t(7);
    if constexpr (sizeof(D) > sizeof(S)) {
        const uintptr_t a = uintptr_t(to), b = uintptr_t(from);
        if (a <= b && b < a + uintptr_t(rows * to_stride) * sizeof(D)) {
            for (int64_t r = rows - 1; r >= 0; --r) {
                if (whole < cols)
                    convert_part<D, S, mode, saturate>(to + r * to_stride + whole, from + r * from_stride + whole,
                                                       cols - whole);
                for (int64_t i = whole - 8; i >= 0; i -= 8)
                    convert_block<D, S, mode, saturate>(to + r * to_stride + i, from + r * from_stride + i);
            }
            return;
        }
    }
    for (int64_t r = 0; r < rows; ++r) {
        int64_t i = 0;
        if constexpr (at_once > 1)
            for (; i + 8 * at_once <= whole; i += 8 * at_once)
                convert_block<D, S, mode, saturate, at_once>(to + r * to_stride + i, from + r * from_stride + i);
        for (; i < whole; i += 8)
            convert_block<D, S, mode, saturate>(to + r * to_stride + i, from + r * from_stride + i);
        if (whole < cols)
            convert_part<D, S, mode, saturate>(to + r * to_stride + whole, from + r * from_stride + whole,
                                               cols - whole);
    }
}

template <Rounding mode, bool saturate, class D, class S> PTO_INLINE void convert_tile(D &dst, const S &src) {
    const int64_t rows = src.GetValidRow(), cols = src.GetValidCol();
    using To = ElementType<D>;
    using From = ElementType<S>;
    if constexpr (D::isRowMajor)
        convert_matrix<To, From, mode, saturate>(dst.data(), D::Cols, src.data(), S::Cols, rows, cols);
    else
        convert_matrix<To, From, mode, saturate>(dst.data(), D::Rows, src.data(), S::Rows, cols, rows);
}

// Conversions that are exact, or never round, have one instance whatever the mode.
template <class D, class S>
inline constexpr bool rounds =
    (is_float<S> && is_int<D>) || (is_same<S, float> && is_float<D>) || (is_half<S> && is_half<D> && !is_same<S, D>) ||
    (is_int<S> && is_float<D> && sizeof(S) >= 2);
template <class D, class S>
inline constexpr bool saturates =
    is_int<D> && (is_float<S> ? sizeof(D) < 4 : sizeof(D) < sizeof(S) || (D(-1) < D(0)) != (S(-1) < S(0)));

// To floating-point types upstream's simulator rounds to the nearest whatever the mode, and copies float to float.
template <bool saturate, class D, class S> PTO_INLINE void convert_in_mode(D &dst, const S &src, RoundMode mode) {
    using To = ElementType<D>;
    using From = ElementType<S>;
    if constexpr (!rounds<To, From>) {
        convert_tile<Rounding::NearestEven, saturate>(dst, src);
    } else if constexpr (as_simulator && is_float<To>) {
        convert_tile<is_same<To, From> ? Rounding::None : Rounding::NearestEven, saturate>(dst, src);
    } else {
        switch (mode) {
        case RoundMode::CAST_ROUND:
            return convert_tile<Rounding::NearestAway, saturate>(dst, src);
        case RoundMode::CAST_FLOOR:
            return convert_tile<Rounding::Floor, saturate>(dst, src);
        case RoundMode::CAST_CEIL:
            return convert_tile<Rounding::Ceil, saturate>(dst, src);
        case RoundMode::CAST_TRUNC:
            return convert_tile<Rounding::Trunc, saturate>(dst, src);
        case RoundMode::CAST_ODD:
            return convert_tile<Rounding::Odd, saturate>(dst, src);
        case RoundMode::CAST_RINT:
            return convert_tile<Rounding::NearestEven, saturate>(dst, src);
        default: // to integers truncate, between floating-point types round to nearest even, float to float copies
            return convert_tile<is_int<To>          ? Rounding::Trunc
                                : is_same<To, From> ? Rounding::None
                                                    : Rounding::NearestEven,
                                saturate>(dst, src);
        }
    }
}

} // namespace pto::detail

namespace pto {

// TCVT(dst, src, round mode[, saturation mode]), over the valid region of src. Without saturation integers wrap.
template <class D, class S>
PTO_INST RecordEvent TCVT(D &dst, const S &src, RoundMode mode, SaturationMode saturation = SaturationMode::OFF) {
    static_assert(D::isRowMajor == S::isRowMajor && !D::isBoxedLayout && !S::isBoxedLayout,
                  "TCVT: operands of one layout, without fractals");
    if constexpr (detail::has_packed_elements<D> || detail::has_packed_elements<S>) {
        detail::convert_packed(dst, src, detail::Rounding(mode));
    } else {
        using To = detail::ElementType<D>;
        using From = detail::ElementType<S>;
        static_assert((detail::is_number<To> || detail::is_float8<To>) &&
                          (detail::is_number<From> || detail::is_float8<From>),
                      "TCVT: no conversion between these element types");
        PTO_CHECK(TCVT, PIPE_V, reads(src), writes(dst, valid(src)));
        if constexpr (detail::is_float8<To> || detail::is_float8<From>) {
            detail::convert_float8(dst, src, detail::Rounding(mode), saturation == SaturationMode::ON);
        } else if constexpr (detail::saturates<To, From>) {
            if (saturation == SaturationMode::ON)
                detail::convert_in_mode<true>(dst, src, mode);
            else
                detail::convert_in_mode<false>(dst, src, mode);
        } else {
            detail::convert_in_mode<false>(dst, src, mode);
        }
    }
    return {};
}
// With a temporary tile, which is not needed.
template <class D, class S, class Tmp, class = detail::enable_if_t<detail::is_tile<Tmp>>>
PTO_INST RecordEvent TCVT(D &dst, const S &src, const Tmp &, RoundMode mode,
                          SaturationMode saturation = SaturationMode::OFF) {
    return TCVT(dst, src, mode, saturation);
}

} // namespace pto

#endif
