// __builtin_bit_cast for g++ 10: a copy at run time, arithmetic in constants.
#ifndef PTO_DETAIL_SOFTWARE_BIT_CAST_HPP
#define PTO_DETAIL_SOFTWARE_BIT_CAST_HPP

#include <cstdint>

#include "traits.hpp"

namespace pto::detail {

constexpr float constant_float(uint32_t bits) {
    const uint32_t exponent = (bits >> 23) & 0xffu, fraction = bits & 0x7fffffu;
    if (exponent == 0xff)
        return fraction ? __builtin_nanf("") : bits >> 31 ? -__builtin_inff() : __builtin_inff();
    double value = exponent ? fraction | 0x800000u : fraction;
    for (uint32_t power = exponent ? exponent : 1; power < 150; ++power)
        value *= 0.5;
    for (uint32_t power = exponent; power > 150; --power)
        value *= 2;
    return float(bits >> 31 ? -value : value);
}

constexpr uint32_t constant_bits(float value) {
    const uint32_t sign = __builtin_signbitf(value) ? 0x80000000u : 0u;
    if (value != value)
        return sign | 0x7fc00000u;
    double magnitude = value < 0 ? -double(value) : double(value);
    if (magnitude > 3.5e38)
        return sign | 0x7f800000u;
    uint32_t exponent = 150; // of the lowest bit of 24
    for (; magnitude >= 0x1p24; ++exponent)
        magnitude *= 0.5;
    for (; magnitude < 0x1p23 && exponent > 1; --exponent)
        magnitude *= 2;
    const uint32_t fraction = uint32_t(magnitude);
    return sign | (fraction & 0x800000u ? exponent << 23 : 0u) | (fraction & 0x7fffffu);
}

template <class To, class From> constexpr To software_bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From));
    if (__builtin_is_constant_evaluated()) {
        if constexpr (is_same<To, float>)
            return constant_float(uint32_t(from));
        else if constexpr (is_same<From, float>)
            return To(constant_bits(from));
        else if constexpr (is_integer<From> && is_integer<To>)
            return To(from);
        else if constexpr (is_integer<From>)
            return To::from_bits(from);
        else
            return To(from.bits);
    }
    To to{};
    __builtin_memcpy(&to, &from, sizeof(to));
    return to;
}

} // namespace pto::detail

#define __builtin_bit_cast(type, value) ::pto::detail::software_bit_cast<type>(value)

#endif
