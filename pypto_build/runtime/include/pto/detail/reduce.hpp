// Reductions along rows and columns. Half and bfloat16 are accumulated in float and rounded once. Of nothing there is
// no result: an empty valid region leaves the destination as it is.
#ifndef PTO_DETAIL_REDUCE_HPP
#define PTO_DETAIL_REDUCE_HPP

#include "elementwise.hpp"
#include "pad.hpp"

namespace pto::detail {

struct Sum : Add {
    template <class T> static constexpr Compute<T> identity() { return Compute<T>(0); }
};
struct Product : Mul {
    template <class T> static constexpr Compute<T> identity() { return Compute<T>(1); }
};
struct Greatest : Max {
    template <class T> static constexpr Compute<T> identity() { return pad_element<Compute<T>>(PadValue::Min); }
};
struct Least : Min {
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
    } else if constexpr (lane_count<V> == 4) {
        v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
        v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
        return v[0];
    } else {
        V one{};
        one[0] = v[0];
        for (int i = 1; i < lane_count<V>; ++i) {
            V next{};
            next[0] = v[i];
            one = op(one, next);
        }
        return one[0];
    }
}

// to[r * to_stride] = the combination of row r.
template <class Op, class T>
PTO_NOINLINE void reduce_along(T *to, int64_t to_stride, const T *from, int64_t stride, int64_t rows, int64_t cols) {
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

template <class Op, class D, class S> PTO_INLINE void reduce_rows(D &dst, const S &src) {
    check_operands<D, S>();
    static_assert(!D::isBoxedLayout && !S::isBoxedLayout, "row reduction: operands without boxes (SLayout::NoneBox)");
    if constexpr (S::isRowMajor)
        reduce_along<Op>(dst.data(), D::RowStride, src.data(), S::Cols, src.GetValidRow(), src.GetValidCol());
    else
        reduce_across<Op>(dst.data(), D::RowStride, src.data(), S::Rows, src.GetValidCol(), src.GetValidRow());
}

template <class Op, class D, class S> PTO_INLINE void reduce_cols(D &dst, const S &src) {
    check_operands<D, S>();
    static_assert(!D::isBoxedLayout && !S::isBoxedLayout,
                  "column reduction: operands without boxes (SLayout::NoneBox)");
    if constexpr (S::isRowMajor)
        reduce_across<Op>(dst.data(), D::ColStride, src.data(), S::Cols, src.GetValidRow(), src.GetValidCol());
    else
        reduce_along<Op>(dst.data(), D::ColStride, src.data(), S::Rows, src.GetValidCol(), src.GetValidRow());
}

} // namespace pto::detail

namespace pto {

// TROW*(dst, src, tmp): dst[r, 0] over the valid region of src. TCOL*(dst, src[, tmp, ...]): dst[0, c].
#define PTO_REDUCTION(ROW, COL, OPERATION)                                                                             \
    template <class D, class S, class... Rest> PTO_INST RecordEvent ROW(D &dst, const S &src, const Rest &...) {       \
        PTO_CHECK(ROW, PIPE_V, reads(src), writes(dst, line_results(src, true)));                                      \
        detail::reduce_rows<detail::OPERATION>(dst, src);                                                              \
        return {};                                                                                                     \
    }                                                                                                                  \
    template <class D, class S, class... Rest> PTO_INST RecordEvent COL(D &dst, const S &src, const Rest &...) {       \
        PTO_CHECK(COL, PIPE_V, reads(src), writes(dst, line_results(src, false)));                                     \
        detail::reduce_cols<detail::OPERATION>(dst, src);                                                              \
        return {};                                                                                                     \
    }
PTO_REDUCTION(TROWSUM, TCOLSUM, Sum)
PTO_REDUCTION(TROWPROD, TCOLPROD, Product)
PTO_REDUCTION(TROWMAX, TCOLMAX, Greatest)
PTO_REDUCTION(TROWMIN, TCOLMIN, Least)

} // namespace pto

#endif
