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

// x within bounds; NaN stays.
PTO_INLINE f32x8 clamp(f32x8 x, float low, float high) {
#ifdef __AVX__ // these instructions give their second operand when either is NaN
    return __builtin_ia32_maxps256(splat<float>(low), __builtin_ia32_minps256(splat<float>(high), x));
#else
    return x > high ? f32x8{} + high : x < low ? f32x8{} + low : x;
#endif
}

PTO_INLINE f32x8 fabs(f32x8 x) {
    return bit_cast<f32x8>(bit_cast<u32x8>(x) & 0x7fffffffu);
}

PTO_INLINE f32x8 copysign(f32x8 magnitude, f32x8 sign) {
    return bit_cast<f32x8>((bit_cast<u32x8>(magnitude) & 0x7fffffffu) | (bit_cast<u32x8>(sign) & 0x80000000u));
}

PTO_INLINE f32x8 power_of_two(u32x8 exponent) {
    return bit_cast<f32x8>((exponent + 127u) << 23);
}

// Elementary functions. The steps of one wait for each other, so they are taken for several registers side by side.
// A function is a class: `several` computes it for numbers whose rank is below `limit`, which need no special care, and
// `any` for all, with the same results. Ranks are of bits as they lie in memory: Raw is a register of them. Half and
// bfloat16 have shorter polynomials, whose coefficients are such that
// every number of the type gives the correctly rounded result (but for one half of TEXP).
template <class Function> PTO_INLINE f32x8 any_of(f32x8 x) {
    f32x8 value[1] = {x};
    Function::any(value);
    return value[0];
}

// Coefficients of a polynomial, the highest power's first.
template <int n, int terms>
PTO_INLINE void evaluate(f32x8 (&sum)[n], const f32x8 (&x)[n], const float (&coefficients)[terms]) {
    PTO_EACH sum[i] = splat<float>(coefficients[0]);
    PTO_UNROLL
    for (int k = 1; k < terms; ++k)
        PTO_EACH sum[i] = fma(sum[i], x[i], splat<float>(coefficients[k]));
}

constexpr float to_whole = 12582912.0f; // added to |x| < 2^22 it leaves the nearest integer in the low bits
constexpr float log2_of_e = 1.44269504088896341f;

PTO_INLINE f32x8 add_exponent(f32x8 value, f32x8 shifted) {
    return bit_cast<f32x8>(bit_cast<u32x8>(value) + (bit_cast<u32x8>(shifted) << 23));
}

// exp(x) = 2^n exp(r), |r| <= ln(2)/2.
template <class T> struct ExpOf {
    using Raw = u32x8;
    static constexpr uint32_t limit = 2 * 0x42ae0000u; // |x| < 87: the result is normal
    static PTO_INLINE Raw rank(Raw bits) { return bits << 1; }

    // Makes exp(r) of x, by a polynomial that is within 2^-28 of it. ln(2) is in two parts: the first has few enough
    // bits that n times it is exact.
    template <int n> static PTO_INLINE void reduce(f32x8 (&x)[n], f32x8 (&shifted)[n]) {
        constexpr float series[] = {0.0013814466850192635f,
                                    0.008368780548090251f,
                                    0.041668394224340426f,
                                    0.1666652010664463f,
                                    0.49999993412415317f,
                                    1.0f,
                                    1.0f};
        f32x8 r[n];
        PTO_EACH shifted[i] = fma(x[i], splat<float>(log2_of_e), splat<float>(to_whole));
        PTO_EACH r[i] = fma(shifted[i] - to_whole, splat<float>(-0.693145751953125f), x[i]);
        PTO_EACH r[i] = fma(shifted[i] - to_whole, splat<float>(-1.42860682030941723212e-6f), r[i]);
        evaluate(x, r, series);
    }
    template <int n> static PTO_INLINE void several(f32x8 (&x)[n]) {
        f32x8 shifted[n];
        reduce(x, shifted);
        PTO_EACH x[i] = add_exponent(x[i], shifted[i]);
    }
    // 2^n is in two factors, so that it neither overflows nor loses a subnormal result.
    // Terms that become zero are left out: arithmetic on subnormal numbers is slow.
    template <int n> static PTO_INLINE void any(f32x8 (&x)[n]) {
        f32x8 shifted[n];
        i32x8 zero[n];
        PTO_EACH {
            zero[i] = x[i] < -104.0f;
            x[i] = clamp(zero[i] ? f32x8{} : x[i], -104.0f, 89.0f);
        }
        reduce(x, shifted);
        PTO_EACH {
            const u32x8 exponent = bit_cast<u32x8>(shifted[i]) - 0x4b400000u;
            const u32x8 half_exponent = bit_cast<u32x8>(bit_cast<i32x8>(exponent) >> 1);
            x[i] = zero[i] ? f32x8{} : (x[i] * power_of_two(half_exponent)) * power_of_two(exponent - half_exponent);
        }
    }
};

// exp(x) = 2^n 2^f, |f| <= 1/2.
template <int n, int terms> PTO_INLINE void exp_short(f32x8 (&x)[n], const float (&coefficients)[terms]) {
    f32x8 shifted[n], sum[n];
    PTO_EACH shifted[i] = fma(x[i], splat<float>(log2_of_e), splat<float>(to_whole));
    PTO_EACH x[i] = fma(x[i], splat<float>(log2_of_e), to_whole - shifted[i]);
    evaluate(sum, x, coefficients);
    PTO_EACH x[i] = add_exponent(sum[i], shifted[i]);
}
template <> struct ExpOf<bfloat16_t> : ExpOf<float> {
    using Raw = u16x16;
    static constexpr uint16_t limit = 2 * 0x42ae;
    static PTO_INLINE Raw rank(Raw bits) { return bits << 1; }
    template <int n> static PTO_INLINE void several(f32x8 (&x)[n]) {
        constexpr float two_to[] = {0.00961111486f, 0.0559169315f, 0.240237251f, 0.693119884f, 1.0f};
        exp_short(x, two_to);
    }
};
template <> struct ExpOf<half> {
    using Raw = u16x16;
    static constexpr uint16_t limit = 2 * 0x5570; // |x| < 87: storing a half overflows and underflows
    static PTO_INLINE Raw rank(Raw bits) { return bits << 1; }
    template <int n> static PTO_INLINE void several(f32x8 (&x)[n]) {
        constexpr float two_to[] = {0.0013178807f, 0.00968000293f, 0.0555186309f, 0.240222514f, 0.693146288f, 1.0f};
        exp_short(x, two_to);
    }
    template <int n> static PTO_INLINE void any(f32x8 (&x)[n]) {
        PTO_EACH x[i] = clamp(x[i], -18.0f, 12.0f);
        several(x);
    }
};

// x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), of positive normal numbers: makes f of x, and 2^23 e.
template <int n> PTO_INLINE void split_exponent(f32x8 (&x)[n], i32x8 (&exponent)[n]) {
    PTO_EACH {
        const u32x8 bits = bit_cast<u32x8>(x[i]), e = (bits - 0x3f3504f3u) & 0xff800000u;
        x[i] = bit_cast<f32x8>(bits - e) - 1.0f;
        exponent[i] = bit_cast<i32x8>(e);
    }
}
// log(1 + f) + e ln(2) of f. In float log(1 + f) is f + f^2 times a polynomial, off by less than 2^-26; in half and
// bfloat16 it is f times one.
constexpr float ln2_of_exponent = 0.69314718056f * 1.1920928955078125e-07f; // times 2^23 e
template <int n> PTO_INLINE void finish_log(float, f32x8 (&f)[n], const i32x8 (&exponent)[n]) {
    constexpr float series[] = {-0.0763426349f, 0.127614826f,  -0.131602257f, 0.142017737f, -0.16623354f,
                                0.200012267f,   -0.250008225f, 0.333333313f,  -0.5f};
    f32x8 sum[n];
    evaluate(sum, f, series);
    PTO_EACH f[i] =
        fma(__builtin_convertvector(exponent[i], f32x8), splat<float>(ln2_of_exponent), fma(sum[i], f[i] * f[i], f[i]));
}
template <int n, int terms>
PTO_INLINE void finish_log(f32x8 (&f)[n], const i32x8 (&exponent)[n], const float (&coefficients)[terms]) {
    f32x8 sum[n];
    evaluate(sum, f, coefficients);
    PTO_EACH f[i] = fma(__builtin_convertvector(exponent[i], f32x8), splat<float>(ln2_of_exponent), f[i] * sum[i]);
}
template <int n> PTO_INLINE void finish_log(bfloat16_t, f32x8 (&f)[n], const i32x8 (&exponent)[n]) {
    finish_log(f, exponent, {-0.142301947f, 0.223252654f, -0.25685212f, 0.33224234f, -0.499844044f, 1.00000131f});
}
template <int n> PTO_INLINE void finish_log(half, f32x8 (&f)[n], const i32x8 (&exponent)[n]) {
    finish_log(f, exponent,
               {-0.101340562f, 0.162341893f, -0.17241627f, 0.198985651f, -0.249697238f, 0.333351284f, -0.500003636f,
                1.00000012f});
}

template <class T> struct LogOf {
    // Positive and normal. As floats all halves but zero are normal.
    using Raw = conditional_t<is_half<T>, u16x16, u32x8>;
    static constexpr Lane<Raw> first = is_same<T, half> ? 1
                                       : is_half<T>     ? 0x80
                                                        : 0x00800000,
                               infinite = is_same<T, half> ? 0x7c00
                                          : is_half<T>     ? 0x7f80
                                                           : 0x7f800000,
                               limit = infinite - first;
    static PTO_INLINE Raw rank(Raw bits) { return bits - first; }

    template <int n> static PTO_INLINE void several(f32x8 (&x)[n]) {
        i32x8 exponent[n];
        split_exponent(x, exponent);
        finish_log(T{}, x, exponent);
    }
    template <int n> static PTO_INLINE void any(f32x8 (&x)[n]) {
        f32x8 value[n];
        i32x8 exponent[n];
        PTO_EACH value[i] = x[i] < 1.17549435e-38f ? x[i] * 8388608.0f : x[i];
        split_exponent(value, exponent);
        PTO_EACH {
            const u32x8 scaled = bit_cast<u32x8>(x[i] < 1.17549435e-38f) & (23u << 23);
            exponent[i] = bit_cast<i32x8>(bit_cast<u32x8>(exponent[i]) - scaled);
        }
        finish_log(T{}, value, exponent);
        PTO_EACH {
            const f32x8 negative = f32x8{} + __builtin_nanf("");
            const f32x8 finite = x[i] == 0.0f ? f32x8{} - infinity : x[i] < 0.0f ? negative : value[i];
            x[i] = ((x[i] == x[i]) & (x[i] != infinity)) ? finite : x[i];
        }
    }
};

// The processor's square roots are slow, but exact to the last bit. Half and bfloat16 need less: an estimate to within
// 1.5 * 2^-12 and one step of Newton's method are too low by up to 2^-22.2, and the nearest place below a root of a
// half where rounding changes is 2^-22.1 away.
template <class T> struct SqrtOf {}; // the instruction
#ifdef __AVX__
template <class T> struct SqrtByNewton {
    using Raw = u16x16;
    static constexpr uint16_t limit = LogOf<T>::limit;
    static PTO_INLINE Raw rank(Raw bits) { return LogOf<T>::rank(bits); }
    template <int n> static PTO_INLINE void several(f32x8 (&x)[n]) {
        PTO_EACH {
            const f32x8 inverse = __builtin_ia32_rsqrtps256(x[i]), root = x[i] * inverse;
            x[i] = fma(fma(-root, root, x[i]), 0.5f * inverse, root);
        }
    }
    template <int n> static PTO_INLINE void any(f32x8 (&x)[n]) { PTO_EACH x[i] = sqrt(x[i]); }
};
template <> struct SqrtOf<half> : SqrtByNewton<half> {};
template <> struct SqrtOf<bfloat16_t> : SqrtByNewton<bfloat16_t> {};
#endif

// Applies a function of the C library lane by lane, for operations that are too rare for a vector form.
template <class F> PTO_INLINE f32x8 each_lane(F f, f32x8 a) {
    for (int i = 0; i < 8; ++i)
        a[i] = f(a[i]);
    return a;
}

} // namespace pto::detail

#endif
