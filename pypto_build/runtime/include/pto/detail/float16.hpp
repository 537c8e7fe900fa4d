// Half precision and bfloat16, right to the bit: conversions from float for every rounding direction.
#ifndef PTO_DETAIL_FLOAT16_HPP
#define PTO_DETAIL_FLOAT16_HPP

#include <cstdint>

#include "macros.hpp"
#include "traits.hpp"
#if !__has_builtin(__builtin_bit_cast)
#include "software_bit_cast.hpp"
#endif

namespace pto::detail {

// Rounding directions of a conversion; the values are those of pto::RoundMode.
enum class Rounding : int { None = 0, NearestEven = 1, NearestAway = 2, Floor = 3, Ceil = 4, Trunc = 5, Odd = 6 };

PTO_INLINE constexpr uint32_t float_bits(float value) {
    return __builtin_bit_cast(uint32_t, value);
}
PTO_INLINE constexpr float bits_float(uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}

// Returns whether a magnitude is rounded up; its kept part ends in `lsb`, `half` is the weight of half a unit in
// `dropped`.
PTO_INLINE constexpr bool round_up(uint32_t dropped, uint32_t half, bool lsb, bool negative, Rounding mode) {
    switch (mode) {
    case Rounding::NearestAway:
        return dropped >= half;
    case Rounding::Floor:
        return negative && dropped != 0;
    case Rounding::Ceil:
        return !negative && dropped != 0;
    case Rounding::Trunc:
        return false;
    case Rounding::Odd:
        return !lsb && dropped != 0;
    default:
        return dropped > half || (dropped == half && lsb);
    }
}

PTO_INLINE constexpr uint16_t float_to_bf16_bits(float value, Rounding mode = Rounding::NearestEven) {
    const uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return uint16_t((bits >> 16) | 0x40u);
    const uint32_t kept = bits >> 16;
    return uint16_t(kept + round_up(bits & 0xffffu, 0x8000u, kept & 1u, bits >> 31, mode));
}

PTO_INLINE constexpr float bf16_bits_to_float(uint16_t bits) {
    return bits_float(uint32_t(bits) << 16);
}

PTO_INLINE constexpr uint16_t float_to_f16_bits(float value, Rounding mode = Rounding::NearestEven) {
    const uint32_t bits = float_bits(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const bool negative = bits >> 31;
    const uint16_t sign = uint16_t((bits >> 16) & 0x8000u);
    if (magnitude > 0x7f800000u)
        return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude == 0x7f800000u)
        return uint16_t(sign | 0x7c00u);
    if (magnitude >= 0x47800000u) { // at least 2^16: infinity, or the largest number for the modes that stay below
        const bool up = mode == Rounding::NearestEven || mode == Rounding::NearestAway || mode == Rounding::None ||
                        (mode == Rounding::Floor && negative) || (mode == Rounding::Ceil && !negative);
        return uint16_t(sign | (up ? 0x7c00u : 0x7bffu));
    }
    if (magnitude == 0)
        return sign;
    // Align the significand so that the kept part is the f16 encoding: normal numbers drop 13 bits, subnormals more.
    const int exponent = int(magnitude >> 23) - 127;
    uint32_t kept = 0, dropped = 0, half = 0;
    if (exponent >= -14) {
        kept = (magnitude >> 13) - (112u << 10);
        dropped = magnitude & 0x1fffu;
        half = 0x1000u;
    } else {
        const int shift = -1 - exponent; // 14 at 2^-15
        const uint32_t significand = (magnitude & 0x7fffffu) | (magnitude >> 23 ? 0x800000u : 0u);
        if (shift > 30) {
            kept = 0;
            dropped = 1;
            half = 2;
        } else {
            kept = shift < 25 ? significand >> shift : 0;
            dropped = significand & ((1u << shift) - 1u);
            half = 1u << (shift - 1);
        }
    }
    return uint16_t(sign | (kept + round_up(dropped, half, kept & 1u, negative, mode)));
}

PTO_INLINE constexpr float f16_bits_to_float(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 0x1f) // a signalling NaN becomes quiet, as the hardware conversions do
        return bits_float(sign | 0x7f800000u | (fraction << 13) | (fraction ? 0x400000u : 0u));
    if (exponent != 0)
        return bits_float(sign | ((exponent + 112u) << 23) | (fraction << 13));
    const float tiny = float(int32_t(fraction)) * 5.9604644775390625e-08f; // 2^-24, exact
    return bits_float(sign | float_bits(tiny));
}

// The float that a wider number becomes when rounded to odd: rounding it once more, to 22 bits or fewer, is then exact.
template <class T> PTO_INLINE constexpr float to_float_odd(T value) {
    const float nearest = float(value);
    if (T(nearest) == value || nearest != nearest)
        return nearest;
    const uint32_t bits = float_bits(nearest);
    if (bits & 1u)
        return nearest;
    const bool too_far = nearest > 0 ? T(nearest) > value : T(nearest) < value;
    return bits_float(too_far ? bits - 1u : bits + 1u);
}

} // namespace pto::detail

// bfloat16 with the storage and arithmetic of a device scalar: two bytes, computed in float, rounded to nearest even.
struct bfloat16_t {
    uint16_t bits;

    bfloat16_t() = default;
    constexpr bfloat16_t(float value) : bits(pto::detail::float_to_bf16_bits(value)) {}
    constexpr bfloat16_t(double value) : bits(pto::detail::float_to_bf16_bits(pto::detail::to_float_odd(value))) {}
    constexpr bfloat16_t(int value) : bfloat16_t(double(value)) {}
    constexpr bfloat16_t(unsigned value) : bfloat16_t(double(value)) {}
    constexpr bfloat16_t(long value) : bfloat16_t(float(value)) {}
    constexpr bfloat16_t(unsigned long value) : bfloat16_t(float(value)) {}
    constexpr bfloat16_t(long long value) : bfloat16_t(float(value)) {}
    constexpr bfloat16_t(unsigned long long value) : bfloat16_t(float(value)) {}
    constexpr operator float() const { return pto::detail::bf16_bits_to_float(bits); }

    static constexpr bfloat16_t from_bits(uint16_t bits) {
        bfloat16_t value(0.0f);
        value.bits = bits;
        return value;
    }
    bfloat16_t &operator+=(float other) { return *this = bfloat16_t(float(*this) + other); }
    bfloat16_t &operator-=(float other) { return *this = bfloat16_t(float(*this) - other); }
    bfloat16_t &operator*=(float other) { return *this = bfloat16_t(float(*this) * other); }
    bfloat16_t &operator/=(float other) { return *this = bfloat16_t(float(*this) / other); }
};

// IEEE binary16, whose operations round to half each. g++ has _Float16 since 12 on x86-64 and 13 on aarch64; elsewhere
// a class stands for it.
#if defined(__clang__) || __GNUC__ >= 13 || (__GNUC__ == 12 && !defined(__aarch64__))
using half = _Float16;
#else
#include "software_half.hpp"
#endif
using float16_t = half;
using aclFloat16 = half;
using float32_t = float;

namespace pto {
using ::bfloat16_t;
using ::half;
} // namespace pto

#endif
