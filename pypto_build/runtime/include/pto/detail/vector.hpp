// Vectors of one register: loading, storing and converting the element types of tiles.
//
// Written with the vector extensions that g++ and clang share, so that loops vectorise at -O2 with either compiler and
// on every target, and every lane computes what IEEE 754 says. Half and bfloat16 are computed in float.
#ifndef PTO_DETAIL_VECTOR_HPP
#define PTO_DETAIL_VECTOR_HPP

#include <cstdint>

#include "float16.hpp"
#include "macros.hpp"

namespace pto::detail {

// For each of n registers.
#define PTO_EACH                                                                                                       \
    PTO_UNROLL                                                                                                         \
    for (int i = 0; i < n; ++i)

template <class T, int N> struct VectorOf {
    typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T, int N> using Vector = typename VectorOf<T, N>::type;

using f32x8 = Vector<float, 8>;
using i32x8 = Vector<int32_t, 8>;
using u32x8 = Vector<uint32_t, 8>;
using u16x8 = Vector<uint16_t, 8>;
using u16x16 = Vector<uint16_t, 16>;

template <class T> inline constexpr bool is_half = is_one_of<T, half, bfloat16_t>;
template <class T> inline constexpr bool is_float = is_one_of<T, float, half, bfloat16_t>;
template <class T>
inline constexpr bool is_int = is_one_of<T, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>;

// The type that arithmetic on T is done in, and the number of elements of T handled at a time.
template <class T> using Compute = conditional_t<is_half<T>, float, T>;
template <class T> inline constexpr int lanes = 32 / int(sizeof(Compute<T>));
template <class T> using Register = Vector<Compute<T>, lanes<T>>;

template <class To, class From> PTO_INLINE To bit_cast(const From &from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

template <class V> using Lane = remove_cv_t<remove_ref_t<decltype(V{}[0])>>;
template <class V> inline constexpr int lane_count = int(sizeof(V) / sizeof(Lane<V>));

// g++ before 12 has no such builtin. A lane below zero may hold anything.
#if !__has_builtin(__builtin_shufflevector)
template <int... lane, class V> PTO_INLINE Vector<Lane<V>, sizeof...(lane)> shuffle(V a, V b) {
    constexpr int last = lane_count<V> - 1;
    return Vector<Lane<V>, sizeof...(lane)>{(lane <= last ? a[lane & last] : b[lane & last])...};
}
#define __builtin_shufflevector(a, b, ...) ::pto::detail::shuffle<__VA_ARGS__>(a, b)
#endif

// a * b + c, rounded once where the target can. The kernels are compiled without contraction, so that sums of products
// have the same bits from every compiler: what is to be fused says so.
PTO_INLINE f32x8 fma(f32x8 a, f32x8 b, f32x8 c) {
#if defined(__FMA__)
    return __builtin_ia32_vfmaddps256(a, b, c);
#elif defined(__FP_FAST_FMAF)
    for (int i = 0; i < 8; ++i)
        c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
}

// A comparison as bits, lane 0 the least significant.
template <class M> PTO_INLINE uint32_t mask_bits(M mask) {
#ifdef __AVX2__
    if constexpr (lane_count<M> == 8)
        return uint32_t(__builtin_ia32_movmskps256(bit_cast<f32x8>(mask)));
    else if constexpr (lane_count<M> == 32)
        return uint32_t(__builtin_ia32_pmovmskb256(bit_cast<Vector<char, 32>>(mask)));
#endif
    uint32_t bits = 0;
    for (int i = 0; i < lane_count<M>; ++i)
        bits |= (mask[i] ? 1u : 0u) << i;
    return bits;
}

template <class V> PTO_INLINE V lane_max(V a, V b) {
    return a > b ? a : b;
}

// Eight integers of 8 or 16 bits as 32 bits, and the low bits of eight integers. g++ 12 needs to be told the
// instructions.
template <class T> PTO_INLINE i32x8 widen_int(Vector<T, 8> value) {
#if defined(__AVX2__) && !defined(__clang__)
    if constexpr (sizeof(T) == 1) {
        const auto bytes = bit_cast<Vector<char, 16>>(Vector<int64_t, 2>{bit_cast<int64_t>(value), 0});
        return T(-1) < T(0) ? __builtin_ia32_pmovsxbd256(bytes) : __builtin_ia32_pmovzxbd256(bytes);
    } else if constexpr (sizeof(T) == 2) {
        const auto words = bit_cast<Vector<int16_t, 8>>(value);
        return T(-1) < T(0) ? __builtin_ia32_pmovsxwd256(words) : __builtin_ia32_pmovzxwd256(words);
    }
#endif
    return __builtin_convertvector(value, i32x8);
}

// Eight numbers below 2^16 as 16 bits each.
PTO_INLINE Vector<int16_t, 8> pack_words(i32x8 value) {
#ifdef __AVX2__
    Vector<int32_t, 4> half[2];
    __builtin_memcpy(half, &value, sizeof(value));
    return __builtin_ia32_packusdw128(half[0], half[1]);
#else
    return __builtin_convertvector(value, Vector<int16_t, 8>);
#endif
}

template <class T> PTO_INLINE Vector<T, 8> narrow_int(i32x8 value) {
#ifdef __AVX2__
    if constexpr (sizeof(T) == 2) {
        return bit_cast<Vector<T, 8>>(pack_words(value & 0xffff));
    } else if constexpr (sizeof(T) == 1) {
        const Vector<int16_t, 8> words = pack_words(value & 0xff);
        return bit_cast<Vector<T, 8>>(bit_cast<Vector<int64_t, 2>>(__builtin_ia32_packuswb128(words, words))[0]);
    }
#endif
    return __builtin_convertvector(value, Vector<T, 8>);
}

PTO_INLINE f32x8 widen_bf16(u16x8 bits) {
    return bit_cast<f32x8>(widen_int<uint16_t>(bits) << 16);
}

// Floats whose upper halves are the nearest bfloat16. Not for NaN with bits in the lower half, which could carry over;
// results of arithmetic on bfloat16 have none. Without ties there is less to do.
template <bool ties = true> PTO_INLINE u32x8 round_to_upper(f32x8 value) {
    const u32x8 bits = bit_cast<u32x8>(value);
    if constexpr (ties)
        return bits + 0x7fffu + ((bits >> 16) & 1u);
    else
        return bits + 0x8000u;
}

PTO_INLINE u16x8 narrow_bf16(f32x8 value) {
    const u32x8 nan = bit_cast<u32x8>(value) | 0x400000u;
    return bit_cast<u16x8>(pack_words(bit_cast<i32x8>((value == value ? round_to_upper(value) : nan) >> 16)));
}

PTO_INLINE f32x8 widen_f16(u16x8 bits) {
#ifdef __F16C__
    return __builtin_ia32_vcvtph2ps256(bit_cast<Vector<int16_t, 8>>(bits));
#else
    f32x8 value;
    for (int i = 0; i < 8; ++i)
        value[i] = f16_bits_to_float(bits[i]);
    return value;
#endif
}

#ifdef __F16C__
// To a register, and then to memory if need be: the instruction that does both takes twice as long on some processors.
template <int direction> PTO_INLINE u16x8 narrow_f16_in(f32x8 value) {
    auto bits = __builtin_ia32_vcvtps2ph256(value, direction);
    __asm__("" : "+x"(bits));
    return bit_cast<u16x8>(bits);
}
#endif

PTO_INLINE u16x8 narrow_f16(f32x8 value) {
#ifdef __F16C__
    return narrow_f16_in<0>(value);
#else
    u16x8 bits;
    for (int i = 0; i < 8; ++i)
        bits[i] = float_to_f16_bits(value[i]);
    return bits;
#endif
}

template <class T> PTO_INLINE Register<T> load(const T *from) {
    if constexpr (is_half<T>) {
        u16x8 bits;
        __builtin_memcpy(&bits, from, sizeof(bits));
        if constexpr (is_same<T, half>)
            return widen_f16(bits);
        else
            return widen_bf16(bits);
    } else {
        Register<T> value;
        __builtin_memcpy(&value, from, sizeof(value));
        return value;
    }
}

// Results of arithmetic.
template <class T, bool ties = true> PTO_INLINE void store(T *to, Register<T> value) {
    if constexpr (is_half<T>) {
        u16x8 bits;
        if constexpr (is_same<T, half>)
            bits = narrow_f16(value);
        else
            bits = bit_cast<u16x8>(pack_words(bit_cast<i32x8>(round_to_upper<ties>(value) >> 16)));
        __builtin_memcpy(to, &bits, sizeof(bits));
    } else {
        __builtin_memcpy(to, &value, sizeof(value));
    }
}

// Two registers of consecutive elements, for operations that treat all lanes alike. Of bfloat16 they are the even and
// the odd ones, which costs least: each is the upper half of 32 bits.
template <class T> struct Pair {
    Register<T> first, second;
};
template <class T> PTO_INLINE Pair<T> load_pair(const T *from) {
#ifdef __AVX2__
    if constexpr (is_same<T, bfloat16_t>) {
        u32x8 both;
        __builtin_memcpy(&both, from, sizeof(both));
        return {bit_cast<f32x8>(both << 16), bit_cast<f32x8>(both & 0xffff0000u)};
    }
#endif
    return {load(from), load(from + lanes<T>)};
}
template <class T, bool ties = true> PTO_INLINE void store_pair(T *to, Register<T> first, Register<T> second) {
#ifdef __AVX2__
    if constexpr (is_same<T, bfloat16_t>) {
        const auto even = bit_cast<u16x16>(round_to_upper<ties>(first) >> 16);
        const auto odd = bit_cast<u16x16>(round_to_upper<ties>(second));
        const u16x16 both =
            __builtin_shufflevector(even, odd, 0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31);
        __builtin_memcpy(to, &both, sizeof(both));
        return;
    }
#endif
    store<T, ties>(to, first);
    store<T, ties>(to + lanes<T>, second);
}

// The first `count` lanes, which are fewer than a register holds; the other lanes are zero.
template <class T> PTO_INLINE Register<T> load_part(const T *from, int64_t count) {
    if (count < 0 || count >= lanes<T>)
        __builtin_unreachable();
    alignas(32) T buffer[lanes<T>] = {};
    for (int64_t i = 0; i < count; ++i)
        buffer[i] = from[i];
    return load(buffer);
}

template <class T, bool ties = true> PTO_INLINE void store_part(T *to, Register<T> value, int64_t count) {
    if (count < 0 || count >= lanes<T>)
        __builtin_unreachable();
    alignas(32) T buffer[lanes<T>];
    store<T, ties>(buffer, value);
    for (int64_t i = 0; i < count; ++i)
        to[i] = buffer[i];
}

// From an element to the type it is computed in, and back.
template <class T> PTO_INLINE Compute<T> to_compute(T value) {
    return Compute<T>(value);
}
template <class T> PTO_INLINE T from_compute(Compute<T> value) {
    return T(value);
}

template <class T> PTO_INLINE Register<T> splat(Compute<T> value) {
    return value - Register<T>{};
}

} // namespace pto::detail

#endif
