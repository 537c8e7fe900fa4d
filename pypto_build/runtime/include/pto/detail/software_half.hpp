// half for compilers without a type of that format: two bytes, computed in float and rounded to nearest even, which
// gives the same bits as an operation on halves does.
#ifndef PTO_DETAIL_SOFTWARE_HALF_HPP
#define PTO_DETAIL_SOFTWARE_HALF_HPP

struct half {
    uint16_t bits;

    half() = default;
    constexpr half(float value) : bits(pto::detail::float_to_f16_bits(value)) {}
    constexpr half(double value) : bits(pto::detail::float_to_f16_bits(pto::detail::to_float_odd(value))) {}
    template <class T, class = pto::detail::enable_if_t<pto::detail::is_integer<T>>>
    constexpr half(T value) : half(double(value)) {} // from 2^16 up all are infinity, however they are rounded first
    constexpr operator float() const { return pto::detail::f16_bits_to_float(bits); }

    static constexpr half from_bits(uint16_t bits) {
        half value(0.0f);
        value.bits = bits;
        return value;
    }

    constexpr half operator+() const { return *this; }
    constexpr half operator-() const {
        half value(*this);
        value.bits ^= 0x8000u;
        return value;
    }
    template <class T> half &operator+=(T other) { return *this = half(*this + other); }
    template <class T> half &operator-=(T other) { return *this = half(*this - other); }
    template <class T> half &operator*=(T other) { return *this = half(*this * other); }
    template <class T> half &operator/=(T other) { return *this = half(*this / other); }
    half &operator++() { return *this += 1; }
    half &operator--() { return *this -= 1; }
    half operator++(int) {
        const half before(*this);
        ++*this;
        return before;
    }
    half operator--(int) {
        const half before(*this);
        --*this;
        return before;
    }
};

// With a half or an integer the result is a half; with a wider number it is of that type.
#define PTO_HALF_OPERATOR(operation)                                                                                   \
    constexpr half operator operation(half a, half b) {                                                                \
        return float(a) operation float(b);                                                                            \
    }                                                                                                                  \
    template <class T> constexpr pto::detail::WithHalf<T> operator operation(half a, T b) {                            \
        return pto::detail::WithHalf<T>(a) operation pto::detail::WithHalf<T>(b);                                      \
    }                                                                                                                  \
    template <class T> constexpr pto::detail::WithHalf<T> operator operation(T a, half b) {                            \
        return pto::detail::WithHalf<T>(a) operation pto::detail::WithHalf<T>(b);                                      \
    }
namespace pto::detail {
template <class T>
using WithHalf = enable_if_t<is_integer<T> || is_one_of<T, float, double>, conditional_t<is_integer<T>, ::half, T>>;
}
PTO_HALF_OPERATOR(+)
PTO_HALF_OPERATOR(-)
PTO_HALF_OPERATOR(*)
PTO_HALF_OPERATOR(/)
#undef PTO_HALF_OPERATOR

#endif
