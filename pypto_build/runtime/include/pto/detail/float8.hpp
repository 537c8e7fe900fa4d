// Floating-point types of eight bits, as the Open Compute Project defines them. They are storage: they are loaded,
// moved, converted to and from float, and multiplied by the cube core.
#ifndef PTO_DETAIL_FLOAT8_HPP
#define PTO_DETAIL_FLOAT8_HPP

#include "float16.hpp"

namespace pto::detail {

// Four exponent and three fraction bits without infinities, or five and two with them. `largest` is the code of the
// largest finite number, `beyond` of what lies beyond it.
template <int FractionBits> struct Float8Format {
    static constexpr int fraction_bits = FractionBits, bias = FractionBits == 3 ? 7 : 15;
    static constexpr uint32_t largest = FractionBits == 3 ? 0x7e : 0x7b, beyond = FractionBits == 3 ? 0x7f : 0x7c;
};

template <class Format> PTO_INLINE constexpr uint8_t float_to_f8_bits(float value, Rounding mode, bool saturate) {
    const uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffffu, sign = bits >> 24 & 0x80u;
    if (magnitude > 0x7f800000u)
        return uint8_t(sign | 0x7fu);
    constexpr int least = 1 - Format::bias, shift = 23 - Format::fraction_bits;
    const int exponent = int(magnitude >> 23) - 127;
    uint32_t kept = 0, dropped = magnitude != 0, half = 2;
    if (exponent >= least) {
        kept = (magnitude >> shift) - (uint32_t(127 - Format::bias) << Format::fraction_bits);
        dropped = magnitude & ((1u << shift) - 1u);
        half = 1u << (shift - 1);
    } else if (shift + least - exponent < 31) { // a subnormal result drops more bits of the whole significand
        const int more = shift + least - exponent;
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

PTO_INLINE constexpr float e4m3_bits_to_float(uint8_t bits) {
    const uint32_t sign = uint32_t(bits & 0x80u) << 24, exponent = bits >> 3 & 15u, fraction = bits & 7u;
    if ((bits & 0x7fu) == 0x7fu)
        return bits_float(sign | 0x7fc00000u);
    if (exponent == 0)
        return bits_float(sign | float_bits(float(int(fraction)) * 0.001953125f)); // 2^-9
    return bits_float(sign | ((exponent + 120u) << 23) | (fraction << 20));
}

} // namespace pto::detail

struct float8_e4m3_t {
    using Format = pto::detail::Float8Format<3>;
    uint8_t bits;

    float8_e4m3_t() = default;
    explicit constexpr float8_e4m3_t(float value)
        : bits(pto::detail::float_to_f8_bits<Format>(value, pto::detail::Rounding::NearestEven, false)) {}
    constexpr operator float() const { return pto::detail::e4m3_bits_to_float(bits); }
};

struct float8_e5m2_t {
    using Format = pto::detail::Float8Format<2>;
    uint8_t bits;

    float8_e5m2_t() = default;
    explicit constexpr float8_e5m2_t(float value)
        : bits(pto::detail::float_to_f8_bits<Format>(value, pto::detail::Rounding::NearestEven, false)) {}
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

// Eight bits with an exponent of variable length: stored and moved, but not computed with.
struct hifloat8_t {
    uint8_t bits;
};

// Two numbers of four bits: not supported, which a tile of them says.
struct float4_e2m1x2_t {
    uint8_t bits;
};
struct float4_e1m2x2_t {
    uint8_t bits;
};

namespace pto {
using ::float4_e1m2x2_t;
using ::float4_e2m1x2_t;
using ::float8_e4m3_t;
using ::float8_e5m2_t;
using ::float8_e8m0_t;
using ::hifloat8_t;

namespace detail {
template <class T> inline constexpr bool is_float8 = is_one_of<T, float8_e4m3_t, float8_e5m2_t>;
}
} // namespace pto

#endif
