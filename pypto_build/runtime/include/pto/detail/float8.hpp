// Types of eight and four bits: floating-point as the Open Compute Project defines it, HiFloat8, integers of four bits.
// They are storage: they are loaded, moved, converted to and from float, and some multiplied by the cube core.
#ifndef PTO_DETAIL_FLOAT8_HPP
#define PTO_DETAIL_FLOAT8_HPP

#include "float16.hpp"

namespace pto::detail {

// Four exponent and three fraction bits without infinities, or five and two with them. `largest` is the code of the
// largest finite number, `beyond` of what lies beyond it.
template <int FractionBits> struct Float8Format {
    static constexpr int fraction_bits = FractionBits, bias = FractionBits == 3 ? 7 : 15, sign_shift = 24;
    static constexpr uint32_t largest = FractionBits == 3 ? 0x7e : 0x7b, beyond = FractionBits == 3 ? 0x7f : 0x7c;
    static constexpr uint32_t not_a_number = 0x7f;
};
// Four bits: a sign, one or two exponent bits, the rest fraction; every code is a number.
template <int FractionBits> struct Float4Format {
    static constexpr int fraction_bits = FractionBits, bias = 1, sign_shift = 28;
    static constexpr uint32_t largest = 7, beyond = 7, not_a_number = 0;
};

// The code of a number in a format of at most eight bits, the sign its highest bit.
template <class Format> PTO_INLINE constexpr uint8_t float_to_small_bits(float value, Rounding mode, bool saturate) {
    const uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffffu;
    const uint32_t sign = (bits & 0x80000000u) >> Format::sign_shift;
    if (magnitude > 0x7f800000u)
        return uint8_t(Format::not_a_number ? sign | Format::not_a_number : 0);
    constexpr int lowest = 1 - Format::bias, shift = 23 - Format::fraction_bits;
    const int exponent = int(magnitude >> 23) - 127;
    uint32_t kept = 0, dropped = magnitude != 0, half = 2;
    if (exponent >= lowest) {
        kept = (magnitude >> shift) - (uint32_t(127 - Format::bias) << Format::fraction_bits);
        dropped = magnitude & ((1u << shift) - 1u);
        half = 1u << (shift - 1);
    } else if (shift + lowest - exponent < 31) { // a subnormal result drops more bits of the whole significand
        const int more = shift + lowest - exponent;
        const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
        kept = significand >> more;
        dropped = significand & ((1u << more) - 1u);
        half = 1u << (more - 1);
    }
    uint32_t code = kept + round_up(dropped, half, kept & 1u, sign != 0, mode);
    if (code > Format::largest)
        code = saturate ? Format::largest : Format::beyond;
    return uint8_t(sign | code);
}

// The number of a code in a format without infinities.
template <class Format> PTO_INLINE constexpr float small_bits_to_float(uint32_t bits) {
    constexpr uint32_t sign_bit = 0x80000000u >> Format::sign_shift;
    const uint32_t sign = (bits & sign_bit) << Format::sign_shift, code = bits & (sign_bit - 1u);
    const uint32_t exponent = code >> Format::fraction_bits;
    const uint32_t fraction = code & ((1u << Format::fraction_bits) - 1u);
    if (Format::not_a_number && code == Format::not_a_number)
        return bits_float(sign | 0x7fc00000u);
    if (exponent == 0)
        return bits_float(sign |
                          float_bits(float(int(fraction)) / float(1 << (Format::bias - 1 + Format::fraction_bits))));
    return bits_float(sign | ((exponent + 127u - Format::bias) << 23) | (fraction << (23 - Format::fraction_bits)));
}

// HiFloat8 (arXiv 2409.16626): after the sign, a prefix that says how many bits the exponent has, the exponent as sign
// and magnitude without its leading one, and one to three bits of fraction; without exponent bits seven powers of two
// from 2^-22. Zero has no sign: its code is that of what is not a number.
constexpr uint8_t hif8_infinity = 0x6f, hif8_largest = 0x6e, hif8_not_a_number = 0x80;

// To nearest, halves away from zero, which is the only direction that hardware has for it.
PTO_INLINE constexpr uint8_t float_to_hif8_bits(float value, bool saturate) {
    const uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffffu, sign = bits >> 24 & 0x80u;
    if (magnitude > 0x7f800000u)
        return hif8_not_a_number;
    const auto fraction_bits = [](int exponent) {
        const int size = exponent < 0 ? -exponent : exponent;
        return exponent < -15 ? 0 : size < 4 ? 3 : size < 8 ? 2 : 1;
    };
    if (magnitude < 0x34000000u) // less than half of the smallest, 2^-22
        return 0;
    const int kept_bits = fraction_bits(int(magnitude >> 23) - 127);
    const uint32_t rounded = magnitude + (0x400000u >> kept_bits);
    const int exponent = int(rounded >> 23) - 127; // a carry leaves a fraction of zero
    const uint32_t fraction = (rounded & 0x7fffffu) >> (23 - fraction_bits(exponent));
    if (exponent > 15 || (exponent == 15 && fraction))
        return uint8_t(sign | (saturate ? hif8_largest : hif8_infinity));
    if (exponent < -15) // 2^-23 itself is half of the smallest, and rounds up to it
        return uint8_t(sign | uint32_t(exponent < -22 ? 1 : exponent + 23));
    const uint32_t size = uint32_t(exponent < 0 ? -exponent : exponent), negative = exponent < 0;
    const uint32_t code = size == 0  ? 0x08u
                          : size < 2 ? 0x10u | negative << 3
                          : size < 4 ? 0x20u | negative << 4 | (size & 1u) << 3
                          : size < 8 ? 0x40u | negative << 4 | (size & 3u) << 2
                                     : 0x60u | negative << 4 | (size & 7u) << 1;
    return uint8_t(sign | code | fraction);
}

PTO_INLINE constexpr float hif8_bits_to_float(uint8_t bits) {
    const uint32_t sign = uint32_t(bits & 0x80u) << 24, code = bits & 0x7fu;
    if (code == 0)
        return bits_float(sign ? 0x7fc00000u : 0u);
    if (code == hif8_infinity)
        return bits_float(sign | 0x7f800000u);
    const auto power = [](uint32_t exponent_sign, uint32_t size) { return exponent_sign ? -int(size) : int(size); };
    const uint32_t fraction_bits = code < 0x08 ? 0u : code < 0x40 ? 3u : code < 0x60 ? 2u : 1u;
    const int exponent = code < 0x08   ? int(code) - 23
                         : code < 0x10 ? 0
                         : code < 0x20 ? power(code & 8u, 1)
                         : code < 0x40 ? power(code & 16u, 2u | (code >> 3 & 1u))
                         : code < 0x60 ? power(code & 16u, 4u | (code >> 2 & 3u))
                                       : power(code & 16u, 8u | (code >> 1 & 7u));
    const uint32_t fraction = code & ((1u << fraction_bits) - 1u);
    return bits_float(sign | uint32_t(exponent + 127) << 23 | fraction << (23 - fraction_bits));
}

} // namespace pto::detail

struct float8_e4m3_t {
    using Format = pto::detail::Float8Format<3>;
    uint8_t bits;

    float8_e4m3_t() = default;
    explicit constexpr float8_e4m3_t(float value)
        : bits(pto::detail::float_to_small_bits<Format>(value, pto::detail::Rounding::NearestEven, false)) {}
    constexpr operator float() const { return pto::detail::small_bits_to_float<Format>(bits); }
};

struct float8_e5m2_t {
    using Format = pto::detail::Float8Format<2>;
    uint8_t bits;

    float8_e5m2_t() = default;
    explicit constexpr float8_e5m2_t(float value)
        : bits(pto::detail::float_to_small_bits<Format>(value, pto::detail::Rounding::NearestEven, false)) {}
    // The upper half of a binary16 number.
    constexpr operator float() const { return pto::detail::f16_bits_to_float(uint16_t(bits << 8)); }
};

// A power of two, the scale of a block of numbers; 255 is not a number.
struct float8_e8m0_t {
    uint8_t bits;

    constexpr operator float() const {
        return pto::detail::bits_float(bits == 255 ? 0x7fc00000u : bits == 0 ? 0x00400000u : uint32_t(bits) << 23);
    }
};

// Eight bits with an exponent of variable length.
struct hifloat8_t {
    uint8_t bits;

    hifloat8_t() = default;
    explicit constexpr hifloat8_t(float value) : bits(pto::detail::float_to_hif8_bits(value, false)) {}
    constexpr operator float() const { return pto::detail::hif8_bits_to_float(bits); }
};

// Two numbers of four bits, the first in the lower half of the byte. A tile or a view of them counts numbers.
struct float4_e2m1x2_t {
    using Format = pto::detail::Float4Format<1>;
    uint8_t bits;
};
struct float4_e1m2x2_t {
    using Format = pto::detail::Float4Format<2>;
    uint8_t bits;
};

namespace pto {
using ::float4_e1m2x2_t;
using ::float4_e2m1x2_t;
using ::float8_e4m3_t;
using ::float8_e5m2_t;
using ::float8_e8m0_t;
using ::hifloat8_t;

// Two integers of four bits. A tile of them counts integers, and has as many bytes a row.
struct int4b_t {
    uint8_t storage;

    int4b_t() = default;
    explicit constexpr int4b_t(int32_t value) : storage(uint8_t(value & 15)) {}
    constexpr operator int8_t() const { return int8_t((storage & 15) - (storage << 1 & 16)); }
};

namespace detail {
template <class T> inline constexpr bool is_float8 = is_one_of<T, float8_e4m3_t, float8_e5m2_t, hifloat8_t>;
template <class T> inline constexpr bool is_packed = is_one_of<T, int4b_t, float4_e2m1x2_t, float4_e1m2x2_t>;
} // namespace detail
} // namespace pto

#endif
