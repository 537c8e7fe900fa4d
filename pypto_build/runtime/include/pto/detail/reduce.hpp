// Reductions along rows and columns. Half and bfloat16 are accumulated in float and rounded once. Of nothing there is
// no result: an empty valid region leaves the destination as it is. Upstream's simulator takes one element after the
// other, rounds all but the sums of rows at each of them, and has a result of nothing.
#ifndef PTO_DETAIL_REDUCE_HPP
#define PTO_DETAIL_REDUCE_HPP

#include "copy.hpp"
#include "elementwise.hpp"
#include "pad.hpp"
#include "reduce_as_device.hpp"
#include "reduce_in_scratch.hpp"

namespace pto::detail {

struct Sum : Add {
    template <class T> static constexpr Compute<T> identity() { return Compute<T>(0); }
};
struct Product : Mul {
    template <class T> static constexpr Compute<T> identity() { return Compute<T>(1); }
};
struct MaxReduction : Max {
    template <class T> static constexpr Compute<T> identity() { return pad_element<Compute<T>>(PadValue::Min); }
};
struct MinReduction : Min {
    template <class T> static constexpr Compute<T> identity() { return pad_element<Compute<T>>(PadValue::Max); }
};

template <class T> PTO_INLINE Register<T> load_part_or(const T *from, int64_t count, Compute<T> other) {
    alignas(32) Compute<T> buffer[lanes<T>];
    for (int64_t i = 0; i < lanes<T>; ++i)
        buffer[i] = i < count ? to_compute(from[i]) : other;
    return load(buffer);
}

// All lanes of a register combined.
template <class Op, class V> PTO_INLINE Lane<V> combine_lanes(V v) {
    const Op op;
    if constexpr (sizeof(V) == 32) {
        using Half = Vector<Lane<V>, lane_count<V> / 2>;
        Half parts[2];
        __builtin_memcpy(parts, &v, sizeof(v));
        return combine_lanes<Op>(op(parts[0], parts[1]));
    } else {
        using Words = Vector<uint64_t, 2>;
        const Words words = bit_cast<Words>(v);
        v = op(v, bit_cast<V>(__builtin_shufflevector(words, words, 1, 0)));
        PTO_UNROLL
        for (int bits = 32; bits >= 8 * int(sizeof(Lane<V>)); bits /= 2)
            v = op(v, bit_cast<V>(bit_cast<Words>(v) >> bits));
        return v[0];
    }
}

// The max or min of half or bfloat16, by their bits: without a sign they are in the order of the numbers, with
// one in the opposite order, and NaN is beyond infinity on both sides. Three integer instructions take 16 elements,
// which is far less than conversions and comparisons that watch for NaN. Zero is above minus zero.
template <class Op, class T> struct Extreme {
    static constexpr int width = 16;
    using I = Vector<int16_t, width>;
    static constexpr bool upwards = is_same<Op, MaxReduction>;
    static constexpr uint16_t infinite = __builtin_bit_cast(uint16_t, pad_element<T>(PadValue::Max)), sign = 0x8000,
                              negative = infinite | sign, nothing = upwards ? negative : infinite;

    u16x16 lowest = u16x16{} + nothing, highest = lowest; // as numbers without a sign
    I high = bit_cast<I>(lowest);                         // the max as numbers with a sign

    PTO_INLINE void merge(const Extreme &other) {
        lowest = other.lowest < lowest ? other.lowest : lowest;
        highest = other.highest > highest ? other.highest : highest;
        high = other.high > high ? other.high : high;
    }
    PTO_INLINE void add(const T *from, int64_t count = width) {
        u16x16 bits = u16x16{} + nothing;
        if (count == width)
            __builtin_memcpy(&bits, from, sizeof(bits));
        else
            __builtin_memcpy(&bits, from, uint64_t(count) * sizeof(T));
        merge({bits, bits, bit_cast<I>(bits)});
    }
    // NaN of the sign that does not win is given the other.
    PTO_INLINE u16x16 result() const {
        if constexpr (upwards)
            return highest > negative ? highest ^ sign : high < 0 ? lowest : bit_cast<u16x16>(high);
        else
            return high > int16_t(infinite) ? bit_cast<u16x16>(high) | sign : highest >= sign ? highest : lowest;
    }
    // Integers with a sign in the order of the numbers, and back.
    template <class V> static PTO_INLINE V in_order(V bits) { return V(bits ^ ((bits >> 15) & int16_t(0x7fff))); }
};
template <class Op, class T>
inline constexpr bool is_extreme = is_half<T> && (is_same<Op, MaxReduction> || is_same<Op, MinReduction>);

template <class Op, class T>
PTO_NOINLINE void extremes_along(T *to, int64_t to_stride, const T *from, int64_t stride, int64_t rows, int64_t cols) {
    constexpr int width = Extreme<Op, T>::width;
    for (int64_t r = 0; r < rows && cols > 0; ++r) {
        const T *const row = from + r * stride;
        Extreme<Op, T> total, other;
        int64_t i = 0;
        for (; i + 2 * width <= cols; i += 2 * width) {
            total.add(row + i);
            other.add(row + i + width);
        }
        for (; i < cols; i += width)
            total.add(row + i, cols - i < width ? cols - i : width);
        total.merge(other);
        const auto bits = bit_cast<Vector<int16_t, width>>(total.result());
        const auto most = combine_lanes<Op>(Extreme<Op, T>::in_order(bits));
        to[r * to_stride] = bit_cast<T>(Extreme<Op, T>::in_order(most));
    }
}

// Columns [c, c + count), which fill n registers, or a part of the only one.
template <int n, class Op, class T>
PTO_INLINE void extremes_of_columns(T *to, int64_t to_stride, const T *from, int64_t stride, int64_t rows,
                                    int64_t count) {
    constexpr int width = Extreme<Op, T>::width;
    Extreme<Op, T> total[n];
    for (int64_t r = 0; r < rows; ++r)
        PTO_EACH total[i].add(from + r * stride + i * width, n > 1 ? width : count);
    T result[n * width];
    PTO_EACH {
        const auto bits = total[i].result();
        __builtin_memcpy(result + i * width, &bits, sizeof(bits));
    }
    if (to_stride == 1 && count == n * width)
        __builtin_memcpy(to, result, sizeof(result));
    else
        for (int64_t i = 0; i < count; ++i)
            to[i * to_stride] = result[i];
}

template <class Op, class T>
PTO_NOINLINE void extremes_across(T *to, int64_t to_stride, const T *from, int64_t stride, int64_t rows, int64_t cols) {
    constexpr int width = Extreme<Op, T>::width, n = 4;
    int64_t c = rows > 0 ? 0 : cols;
    for (; c + n * width <= cols; c += n * width)
        extremes_of_columns<n, Op>(to + c * to_stride, to_stride, from + c, stride, rows, n * width);
    for (; c < cols; c += width)
        extremes_of_columns<1, Op>(to + c * to_stride, to_stride, from + c, stride, rows,
                                   cols - c < width ? cols - c : width);
}

// to[r * to_stride] = the combination of row r.
template <class Op, class T>
PTO_NOINLINE void reduce_along(T *to, int64_t to_stride, const T *from, int64_t stride, int64_t rows, int64_t cols) {
    if constexpr (is_extreme<Op, T>)
        return extremes_along<Op>(to, to_stride, from, stride, rows, cols);
    constexpr int64_t step = lanes<T>;
    const Op op;
    const Register<T> identity = splat<T>(Op::template identity<T>());
    for (int64_t r = 0; r < rows && cols > 0; ++r) {
        const T *row = from + r * stride;
        Register<T> total[4] = {identity, identity, identity, identity};
        int64_t i = 0;
        for (; i + 4 * step <= cols; i += 4 * step) {
            PTO_UNROLL
            for (int k = 0; k < 4; k += 2) {
                const Pair<T> pair = load_pair(row + i + k * step);
                total[k] = op(total[k], pair.first);
                total[k + 1] = op(total[k + 1], pair.second);
            }
        }
        for (; i + step <= cols; i += step)
            total[0] = op(total[0], load(row + i));
        if (i < cols)
            total[1] = op(total[1], load_part_or(row + i, cols - i, Op::template identity<T>()));
        to[r * to_stride] = from_compute<T>(combine_lanes<Op>(op(op(total[0], total[1]), op(total[2], total[3]))));
    }
}

// to[c * to_stride] = the combination of column c.
template <class Op, class T>
PTO_NOINLINE void reduce_across(T *to, int64_t to_stride, const T *from, int64_t stride, int64_t rows, int64_t cols) {
    if constexpr (is_extreme<Op, T>)
        return extremes_across<Op>(to, to_stride, from, stride, rows, cols);
    constexpr int64_t step = lanes<T>;
    const Op op;
    const Register<T> identity = splat<T>(Op::template identity<T>());
    int64_t c = 0;
    const auto write = [&](int64_t at, Register<T> value, int64_t count) {
        if (to_stride == 1 && count == step)
            store(to + at, value);
        else
            for (int64_t i = 0; i < count; ++i)
                to[(at + i) * to_stride] = from_compute<T>(value[i]);
    };
    if (rows == 0)
        return;
    for (; c + 4 * step <= cols; c += 4 * step) {
        Register<T> total[4] = {identity, identity, identity, identity};
        for (int64_t r = 0; r < rows; ++r) {
            PTO_UNROLL
            for (int k = 0; k < 4; ++k)
                total[k] = op(total[k], load(from + r * stride + c + k * step));
        }
        PTO_UNROLL
        for (int k = 0; k < 4; ++k)
            write(c + k * step, total[k], step);
    }
    for (; c < cols; c += step) {
        const int64_t count = cols - c < step ? cols - c : step;
        Register<T> total = identity;
        for (int64_t r = 0; r < rows; ++r)
            total = op(total, count == step ? load(from + r * stride + c) : load_part(from + r * stride + c, count));
        write(c, total, count);
    }
}

// As upstream's simulator: to[i * to_stride] = the combination of `count` elements, the first of them to begin with
// where there is no neutral one.
template <class Op, bool once, class T>
PTO_NOINLINE void reduce_in_sequence(T *to, int64_t to_stride, const T *from, int64_t stride, int64_t step,
                                     int64_t results, int64_t count) {
    constexpr bool sum = is_same<Op, Sum>, product = is_same<Op, Product>, max = is_same<Op, MaxReduction>;
    for (int64_t i = 0; i < results; ++i) {
        const T *const first = from + i * stride;
        Compute<T> total = sum ? Compute<T>(0) : product ? Compute<T>(1) : to_compute(first[0]);
        for (int64_t k = sum || product ? 0 : 1; k < count; ++k) {
            const Compute<T> x = to_compute(first[k * step]);
            total = sum ? total + x : product ? total * x : max ? (total < x ? x : total) : x < total ? x : total;
            if constexpr (!once)
                total = to_compute(from_compute<T>(total));
        }
        to[i * to_stride] = from_compute<T>(total);
    }
}

template <class Op, class D, class S, class... Rest>
PTO_INLINE void reduce_rows(D &dst, const S &src, [[maybe_unused]] const Rest &...rest) {
    check_operands<D, S>();
    static_assert(!D::isBoxedLayout && !S::isBoxedLayout,
                  "row reduction: operands without fractals (SLayout::NoneBox)");
    if constexpr (as_simulator && is_float<ElementType<D>>)
        return reduce_in_sequence<Op, is_same<Op, Sum>>(dst.data(), D::RowStride, src.data(), S::RowStride,
                                                        S::ColStride, src.GetValidRow(), src.GetValidCol());
    if constexpr (as_device && is_float<ElementType<D>> && S::isRowMajor) {
        if constexpr (in_steps && has_scratch<Rest...> && !is_same<Op, Product>)
            if (reduce_in_scratch<Op, is_same<Op, Sum>>(dst, src, scratch_of(rest...)))
                return;
        if constexpr (is_same<Op, Sum>)
            return sum_rows_as_device(dst.data(), D::RowStride, src.data(), S::Cols, src.GetValidRow(),
                                      src.GetValidCol());
        if constexpr (is_same<Op, Product>)
            return multiply_rows_as_device(dst.data(), D::RowStride, src.data(), S::Cols, src.GetValidRow(),
                                           src.GetValidCol());
    }
    if constexpr (S::isRowMajor)
        reduce_along<Op>(dst.data(), D::RowStride, src.data(), S::Cols, src.GetValidRow(), src.GetValidCol());
    else
        reduce_across<Op>(dst.data(), D::RowStride, src.data(), S::Rows, src.GetValidCol(), src.GetValidRow());
}

template <class Op, class D, class S> PTO_INLINE void reduce_cols(D &dst, const S &src, [[maybe_unused]] bool pairs) {
    check_operands<D, S>();
    static_assert(!D::isBoxedLayout && !S::isBoxedLayout,
                  "column reduction: operands without fractals (SLayout::NoneBox)");
    if constexpr (as_simulator && is_float<ElementType<D>>)
        return reduce_in_sequence<Op, false>(dst.data(), D::ColStride, src.data(), S::ColStride, S::RowStride,
                                             src.GetValidCol(), src.GetValidRow());
    if constexpr (as_device && is_float<ElementType<D>> && S::isRowMajor && is_same<Op, Sum>)
        return sum_columns_as_device(dst.data(), D::ColStride, src.data(), S::Cols, src.GetValidRow(),
                                     src.GetValidCol(), pairs);
    if constexpr (S::isRowMajor)
        reduce_across<Op>(dst.data(), D::ColStride, src.data(), S::Cols, src.GetValidRow(), src.GetValidCol());
    else
        reduce_along<Op>(dst.data(), D::ColStride, src.data(), S::Rows, src.GetValidCol(), src.GetValidRow());
}

} // namespace pto::detail

namespace pto {

// TROW*(dst, src, tmp): dst[r, 0] over the valid region of src. TCOL*(dst, src[, tmp, ...]): dst[0, c].
#define PTO_REDUCTION(ROW, COL, OPERATION)                                                                             \
    template <class D, class S, class... Rest>                                                                         \
    PTO_INST RecordEvent ROW(D &dst, const S &src, [[maybe_unused]] const Rest &...rest) {                             \
        PTO_CHECK(ROW, PIPE_V, reads(src), writes(dst, line_results(src, true)), scratch(rest)...);                    \
        detail::reduce_rows<detail::OPERATION>(dst, src, rest...);                                                     \
        return {};                                                                                                     \
    }                                                                                                                  \
    template <class D, class S, class... Rest>                                                                         \
    PTO_INST RecordEvent COL(D &dst, const S &src, [[maybe_unused]] const Rest &...rest) {                             \
        PTO_CHECK(COL, PIPE_V, reads(src), writes(dst, line_results(src, false)), pairwise_scratch(rest...));          \
        detail::reduce_cols<detail::OPERATION>(dst, src, detail::adds_pairs(rest...));                                 \
        return {};                                                                                                     \
    }
PTO_REDUCTION(TROWSUM, TCOLSUM, Sum)
PTO_REDUCTION(TROWPROD, TCOLPROD, Product)
PTO_REDUCTION(TROWMAX, TCOLMAX, MaxReduction)
PTO_REDUCTION(TROWMIN, TCOLMIN, MinReduction)

} // namespace pto

#endif
