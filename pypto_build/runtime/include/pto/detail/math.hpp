// Elementary functions on a register of floats, to within about one unit in the last place over the whole range,
// including subnormal numbers, infinities and NaN.
#ifndef PTO_DETAIL_MATH_HPP
#define PTO_DETAIL_MATH_HPP

#include "vector.hpp"

namespace pto::detail {

constexpr float infinity = __builtin_inff();

PTO_INLINE f32x8 sqrt(f32x8 x) {
#ifdef __AVX__
    return __builtin_ia32_sqrtps256(x);
#else
    for (int i = 0; i < 8; ++i)
        x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

PTO_INLINE f32x8 fabs(f32x8 x) {
    return bit_cast<f32x8>(bit_cast<u32x8>(x) & 0x7fffffffu);
}

PTO_INLINE f32x8 copysign(f32x8 magnitude, f32x8 sign) {
    return bit_cast<f32x8>((bit_cast<u32x8>(magnitude) & 0x7fffffffu) | (bit_cast<u32x8>(sign) & 0x80000000u));
}

// Nearest integer, ties to even, for |x| < 2^22.
PTO_INLINE f32x8 round_small(f32x8 x) {
    return (x + 12582912.0f) - 12582912.0f;
}

PTO_INLINE f32x8 power_of_two(i32x8 exponent) {
    return bit_cast<f32x8>((exponent + 127) << 23);
}

// exp(x) = 2^n exp(r) with |r| <= ln(2)/2; the series of exp(r) is cut where its rest is below 2^-27.
PTO_INLINE f32x8 exp(f32x8 x) {
    const f32x8 bounded = x > 89.0f ? f32x8{} + 89.0f : x < -104.0f ? f32x8{} - 104.0f : x;
    const f32x8 n = round_small(bounded * 1.44269504088896341f);
    // ln(2) in two parts, the first with few enough bits that n times it is exact.
    const f32x8 r = (bounded - n * 0.693145751953125f) - n * 1.42860682030941723212e-6f;
    f32x8 tail = f32x8{} + 1.0f / 5040;
    tail = tail * r + 1.0f / 720;
    tail = tail * r + 1.0f / 120;
    tail = tail * r + 1.0f / 24;
    tail = tail * r + 1.0f / 6;
    tail = tail * r + 0.5f;
    const f32x8 value = (tail * (r * r) + r) + 1.0f;
    // In two factors, so that the scaling neither overflows nor loses a subnormal result.
    const f32x8 valid_n = n == n ? n : f32x8{};
    const i32x8 exponent = __builtin_convertvector(valid_n, i32x8), half_exponent = exponent >> 1;
    return (value * power_of_two(half_exponent)) * power_of_two(exponent - half_exponent);
}

// log(2^e (1 + f)) with sqrt(1/2) <= 1 + f < sqrt(2): the series of the inverse hyperbolic tangent in s = f / (2 + f).
PTO_INLINE f32x8 log(f32x8 x) {
    const auto subnormal = x < 1.17549435e-38f;
    const f32x8 scaled = subnormal ? x * 8388608.0f : x;
    const i32x8 bits = bit_cast<i32x8>(scaled);
    // The exponent is counted from sqrt(1/2).
    const i32x8 shifted = bits - 0x3f3504f3;
    const f32x8 e = __builtin_convertvector((shifted >> 23) - (subnormal & 23), f32x8);
    const f32x8 f = bit_cast<f32x8>((shifted & 0x7fffff) + 0x3f3504f3) - 1.0f;
    const f32x8 s = f / (f + 2.0f), z = s * s, half_square = 0.5f * f * f;
    f32x8 series = f32x8{} + 2.0f / 11;
    series = series * z + 2.0f / 9;
    series = series * z + 2.0f / 7;
    series = series * z + 2.0f / 5;
    series = series * z + 2.0f / 3;
    series = series * z;
    const f32x8 low = s * (half_square + series) + e * 1.42860682030941723212e-6f;
    const f32x8 value = e * 0.693145751953125f - ((half_square - low) - f);
    const f32x8 nan = f32x8{} + __builtin_nanf("");
    const f32x8 finite = x == 0.0f ? f32x8{} - infinity : x < 0.0f ? nan : value;
    return ((x == x) & (x != infinity)) ? finite : x;
}

// Applies a function of the C library lane by lane, for operations that are too rare for a vector form.
template <class F> PTO_INLINE f32x8 each_lane(F f, f32x8 a) {
    for (int i = 0; i < 8; ++i)
        a[i] = f(a[i]);
    return a;
}
template <class F> PTO_INLINE f32x8 each_lane(F f, f32x8 a, f32x8 b) {
    for (int i = 0; i < 8; ++i)
        a[i] = f(a[i], b[i]);
    return a;
}

} // namespace pto::detail

#endif
