// The element-wise instructions, on registers of any element type.
#ifndef PTO_DETAIL_OPERATIONS_HPP
#define PTO_DETAIL_OPERATIONS_HPP

#include "math.hpp"
#include "numerics.hpp"

namespace pto::detail {

// Integer arithmetic wraps: it is done in the unsigned type of the same size.
template <int Size> struct UnsignedOf;
template <> struct UnsignedOf<1> {
    using type = uint8_t;
};
template <> struct UnsignedOf<2> {
    using type = uint16_t;
};
template <> struct UnsignedOf<4> {
    using type = uint32_t;
};
template <> struct UnsignedOf<8> {
    using type = uint64_t;
};
template <class V> inline constexpr bool float_lanes = is_same<Lane<V>, float>;
template <class V> using Unsigned = Vector<typename UnsignedOf<int(sizeof(Lane<V>))>::type, lane_count<V>>;

#define PTO_WRAPPING(NAME, OPERATOR)                                                                                   \
    struct NAME {                                                                                                      \
        template <class V> PTO_INLINE V operator()(V a, V b) const {                                                   \
            if constexpr (float_lanes<V>)                                                                              \
                return a OPERATOR b;                                                                                   \
            else                                                                                                       \
                return bit_cast<V>(bit_cast<Unsigned<V>>(a) OPERATOR bit_cast<Unsigned<V>>(b));                        \
        }                                                                                                              \
    };
PTO_WRAPPING(Add, +)
PTO_WRAPPING(Sub, -)
PTO_WRAPPING(Mul, *)
// Integer quotients truncate; x / 0 is -1 (all bits set), and the most negative number / -1 is itself.
struct Div {
    template <class V> PTO_INLINE V operator()(V a, V b) const {
        if constexpr (float_lanes<V>) {
            return a / b;
        } else {
            using T = Lane<V>;
            for (int i = 0; i < lane_count<V>; ++i) {
                if (b[i] == 0)
                    a[i] = T(-1);
                else if (T(-1) < T(0) && b[i] == T(-1))
                    a[i] = T(0 - typename UnsignedOf<int(sizeof(T))>::type(a[i]));
                else
                    a[i] = T(a[i] / b[i]);
            }
            return a;
        }
    }
};
// NaN if either operand is; as upstream's simulator if the first is.
struct Max {
    template <class V> PTO_INLINE V operator()(V a, V b) const {
        if constexpr (as_simulator)
            return a < b ? b : a;
#ifdef __AVX__
        if constexpr (is_same<V, f32x8>) // the instruction gives its second operand when either is NaN
            return b == b ? __builtin_ia32_maxps256(b, a) : b;
#endif
        if constexpr (float_lanes<V>)
            return ((a > b) | (a != a)) ? a : b;
        else
            return a > b ? a : b;
    }
};
struct Min {
    template <class V> PTO_INLINE V operator()(V a, V b) const {
        if constexpr (as_simulator)
            return b < a ? b : a;
#ifdef __AVX__
        if constexpr (is_same<V, f32x8>)
            return b == b ? __builtin_ia32_minps256(b, a) : b;
#endif
        if constexpr (float_lanes<V>)
            return ((a < b) | (a != a)) ? a : b;
        else
            return a < b ? a : b;
    }
};
struct And {
    template <class V> PTO_INLINE V operator()(V a, V b) const { return a & b; }
};
struct Or {
    template <class V> PTO_INLINE V operator()(V a, V b) const { return a | b; }
};
struct Xor {
    template <class V> PTO_INLINE V operator()(V a, V b) const { return a ^ b; }
};
// A shift by the width or more leaves what shifting bit by bit would: zeros, or copies of the sign.
struct ShiftLeft {
    template <class V> PTO_INLINE V operator()(V a, V b) const {
        constexpr int width = 8 * int(sizeof(Lane<V>));
        using U = Unsigned<V>;
        const U by = bit_cast<U>(b), inside = by & (width - 1);
        return bit_cast<V>(by < width ? bit_cast<U>(a) << inside : U{});
    }
};
struct ShiftRight {
    template <class V> PTO_INLINE V operator()(V a, V b) const {
        constexpr int width = 8 * int(sizeof(Lane<V>));
        using U = Unsigned<V>;
        const U by = bit_cast<U>(b), most = U{} + (width - 1);
        const V inside = bit_cast<V>(by < width ? by : most);
        const V shifted = a >> inside;
        if constexpr (Lane<V>(-1) < Lane<V>(0))
            return shifted;
        else
            return bit_cast<V>(by < width ? bit_cast<U>(shifted) : U{});
    }
};
// Elementary functions: the class that computes them on elements of type T, and what it is given of the operands. As
// upstream's simulator they are those of the C library in double, rounded once.
#if PYPTO_NUMERICS == 2
template <double (*function)(double)> struct InDouble {
    template <class V> PTO_INLINE V operator()(V a) const {
        return each_lane([](float x) { return float(function(double(x))); }, a);
    }
};
inline double exp_of(double x) {
    return __builtin_exp(x);
}
inline double log_of(double x) {
    return __builtin_log(x);
}
inline double rsqrt_of(double x) {
    return 1.0 / __builtin_sqrt(x);
}
struct Exp : InDouble<exp_of> {};
struct Log : InDouble<log_of> {};
struct Rsqrt : InDouble<rsqrt_of> {};
struct ExpDif {
    template <class V> PTO_INLINE V operator()(V a, V b) const { return Exp{}(a - b); }
};
#else
struct ExpDif {
    template <class T> using Function = ExpOf<float>;
    static PTO_INLINE f32x8 argument(f32x8 a, f32x8 b) { return a - b; }
    PTO_INLINE f32x8 operator()(f32x8 a, f32x8 b) const { return any_of<ExpOf<float>>(a - b); }
};
struct Exp {
    template <class T> using Function = ExpOf<T>;
    static PTO_INLINE f32x8 argument(f32x8 a) { return a; }
    PTO_INLINE f32x8 operator()(f32x8 a) const { return any_of<ExpOf<float>>(a); }
};
struct Log {
    template <class T> using Function = LogOf<T>;
    static PTO_INLINE f32x8 argument(f32x8 a) { return a; }
    PTO_INLINE f32x8 operator()(f32x8 a) const { return any_of<LogOf<float>>(a); }
};
struct Rsqrt {
    template <class V> PTO_INLINE V operator()(V a) const { return 1.0f / sqrt(a); }
};
#endif
struct PRelu {
    template <class V> PTO_INLINE V operator()(V a, V slope) const { return a > 0 ? a : a * slope; }
};

struct Copy {
    template <class V> PTO_INLINE V operator()(V a) const { return a; }
};
struct Sqrt {
    template <class T> using Function = SqrtOf<T>;
    static PTO_INLINE f32x8 argument(f32x8 a) { return a; }
    template <class V> PTO_INLINE V operator()(V a) const { return sqrt(a); }
};
struct Neg {
    template <class V> PTO_INLINE V operator()(V a) const {
        if constexpr (float_lanes<V>)
            return -a;
        else
            return bit_cast<V>(-bit_cast<Unsigned<V>>(a));
    }
};
struct Abs {
    template <class V> PTO_INLINE V operator()(V a) const {
        if constexpr (float_lanes<V>)
            return fabs(a);
        else if constexpr (Lane<V>(-1) < Lane<V>(0))
            return a < 0 ? Neg{}(a) : a;
        else
            return a;
    }
};
struct Relu {
    template <class V> PTO_INLINE V operator()(V a) const {
        if constexpr (as_simulator)
            return a < 0 ? V{} : a; // minus zero stays
        return ((a > 0) | (a != a)) ? a : V{};
    }
};
struct Not {
    template <class V> PTO_INLINE V operator()(V a) const { return ~a; }
};

} // namespace pto::detail

#endif
