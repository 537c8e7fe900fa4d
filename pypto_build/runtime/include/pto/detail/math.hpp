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

// exp(r) for |r| <= ln(2)/2, by a polynomial that is within 2^-28 of it.
PTO_INLINE f32x8 exp_reduced(f32x8 r) {
    f32x8 tail = f32x8{} + 0.0013814466850192635f;
    tail = tail * r + 0.008368780548090251f;
    tail = tail * r + 0.041668394224340426f;
    tail = tail * r + 0.1666652010664463f;
    tail = tail * r + 0.49999993412415317f;
    return (tail * (r * r) + r) + 1.0f;
}
// x - n ln(2), with ln(2) in two parts: the first has few enough bits that n times it is exact.
PTO_INLINE f32x8 less_ln2(f32x8 x, f32x8 n) {
    return (x - n * 0.693145751953125f) - n * 1.42860682030941723212e-6f;
}

// exp(x) = 2^n exp(r). The scaling is in two factors, so that it neither overflows nor loses a subnormal result.
PTO_INLINE f32x8 exp(f32x8 x) {
    const f32x8 bounded = x > 89.0f ? f32x8{} + 89.0f : x < -104.0f ? f32x8{} - 104.0f : x;
    const f32x8 n = round_small(bounded * 1.44269504088896341f);
    const f32x8 value = exp_reduced(less_ln2(bounded, n)), valid_n = n == n ? n : f32x8{};
    const i32x8 exponent = __builtin_convertvector(valid_n, i32x8), half_exponent = exponent >> 1;
    return (value * power_of_two(half_exponent)) * power_of_two(exponent - half_exponent);
}

// The same for numbers whose result is normal, which n is simply added to the exponent of; and where that is so.
PTO_INLINE f32x8 exp_usual(f32x8 x) {
    const f32x8 shifted = x * 1.44269504088896341f + 12582912.0f; // n in the low bits
    const f32x8 value = exp_reduced(less_ln2(x, shifted - 12582912.0f));
    return bit_cast<f32x8>(bit_cast<u32x8>(value) + (bit_cast<u32x8>(shifted) << 23));
}
PTO_INLINE i32x8 exp_is_usual(f32x8 x) {
    return fabs(x) < 87.0f;
}

// log(2^e (1 + f)) with sqrt(1/2) <= 1 + f < sqrt(2) of positive normal numbers, e raised by `more`. The polynomial is
// within 2^-30 of (log(1 + f) - f + f^2/2) / f^3.
PTO_INLINE f32x8 log_normal(f32x8 x, i32x8 more) {
    // The exponent is counted from sqrt(1/2).
    const i32x8 shifted = bit_cast<i32x8>(bit_cast<u32x8>(x) - 0x3f3504f3u);
    const f32x8 e = __builtin_convertvector((shifted >> 23) + more, f32x8);
    const f32x8 f = bit_cast<f32x8>((shifted & 0x7fffff) + 0x3f3504f3) - 1.0f, square = f * f;
    f32x8 series = f32x8{} + 0.06746641779201919f;
    series = series * f - 0.11675657478493379f;
    series = series * f + 0.11888164831260373f;
    series = series * f - 0.12405588232431888f;
    series = series * f + 0.14219551937970648f;
    series = series * f - 0.16667995874063057f;
    series = series * f + 0.20002118679312322f;
    series = series * f - 0.25000009599362816f;
    series = series * f + 0.33333312603777976f;
    const f32x8 low = (series * (square * f) + e * 1.42860682030941723212e-6f) - 0.5f * square;
    return (f + low) + e * 0.693145751953125f;
}

PTO_INLINE f32x8 log(f32x8 x) {
    const i32x8 subnormal = x < 1.17549435e-38f;
    const f32x8 value = log_normal(subnormal ? x * 8388608.0f : x, subnormal & -23);
    const f32x8 finite = x == 0.0f ? f32x8{} - infinity : x < 0.0f ? f32x8{} + __builtin_nanf("") : value;
    return ((x == x) & (x != infinity)) ? finite : x;
}

PTO_INLINE i32x8 log_is_usual(f32x8 x) {
    return (x >= 1.17549435e-38f) & (x < infinity);
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
