// The few type traits that the headers need; <type_traits> costs more to parse than the rest of a small header.
#ifndef PTO_DETAIL_TRAITS_HPP
#define PTO_DETAIL_TRAITS_HPP

namespace pto::detail {

template <class A, class B> inline constexpr bool is_same = false;
template <class A> inline constexpr bool is_same<A, A> = true;

template <class T, class... Of> inline constexpr bool is_one_of = (is_same<T, Of> || ...);

template <class T>
inline constexpr bool is_integer = is_one_of<T, bool, char, signed char, unsigned char, short, unsigned short, int,
                                             unsigned, long, unsigned long, long long, unsigned long long>;

template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> {
    using type = T;
};
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;

template <class...> using void_t = void;

template <bool B, class T, class F> struct conditional {
    using type = T;
};
template <class T, class F> struct conditional<false, T, F> {
    using type = F;
};
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;

template <class T> struct remove_cv {
    using type = T;
};
template <class T> struct remove_cv<const T> {
    using type = T;
};
template <class T> struct remove_cv<volatile T> {
    using type = T;
};
template <class T> struct remove_cv<const volatile T> {
    using type = T;
};
template <class T> using remove_cv_t = typename remove_cv<T>::type;

template <class T> struct remove_ref {
    using type = T;
};
template <class T> struct remove_ref<T &> {
    using type = T;
};
template <class T> struct remove_ref<T &&> {
    using type = T;
};
template <class T> using remove_ref_t = typename remove_ref<T>::type;

// True if T is a Tile; specialized at the definition of tiles.
template <class T> inline constexpr bool is_tile = false;

// For static_assert in a branch that only a wrong instantiation reaches.
template <class...> inline constexpr bool always_false = false;

} // namespace pto::detail

#endif
