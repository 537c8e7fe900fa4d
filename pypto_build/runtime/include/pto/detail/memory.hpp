// TLOAD and TSTORE: between global memory and tiles of any layout.
#ifndef PTO_DETAIL_MEMORY_HPP
#define PTO_DETAIL_MEMORY_HPP

#include "accumulator.hpp"
#include "copy.hpp"
#include "packed.hpp"
#include "pad.hpp"

namespace pto::detail {

// A five-dimensional view at run time.
struct Extent5 {
    int64_t shape[5], stride[5];
    Layout layout;

    PTO_INLINE int64_t offset(const int64_t *index) const {
        int64_t elements = 0;
        for (int d = 0; d < 5; ++d)
            elements += index[d] * stride[d];
        return elements;
    }
};
template <class G> PTO_INLINE Extent5 extent_of(const G &g) {
    static_assert(G::layout < Layout::NC1HWC0, "global tensor: layouts of convolution are not supported");
    return {{g.GetShape(0), g.GetShape(1), g.GetShape(2), g.GetShape(3), g.GetShape(4)},
            {g.GetStride(0), g.GetStride(1), g.GetStride(2), g.GetStride(3), g.GetStride(4)},
            G::layout};
}

// Calls visit(offset in global memory, position in the tile, rows, cols) for each matrix of dimensions 3 and 4.
// Row-major data stacks them as rows of the tile, column-major data beside each other; NZ data is a grid of blocks,
// columns first.
template <class F> PTO_INLINE void for_each_matrix(const Extent5 &e, int64_t rows, int64_t cols, F visit) {
    const int64_t *n = e.shape;
    for (int64_t i = 0; i < n[0]; ++i)
        for (int64_t j = 0; j < n[1]; ++j)
            for (int64_t k = 0; k < n[2]; ++k) {
                const int64_t index = (i * n[1] + j) * n[2] + k;
                const Position at = e.layout == Layout::NZ   ? Position{k * n[3], (i * n[1] + j) * n[4]}
                                    : e.layout == Layout::DN ? Position{0, index * n[4]}
                                                             : Position{index * n[3], 0};
                const int64_t h = rows - at.row < n[3] ? rows - at.row : n[3];
                const int64_t w = cols - at.col < n[4] ? cols - at.col : n[4];
                if (h > 0 && w > 0)
                    visit(i * e.stride[0] + j * e.stride[1] + k * e.stride[2], at, h, w);
            }
}

template <class T>
PTO_NOINLINE void load_global(T *to, const Plane &plane, const T *from, const Extent5 &extent, int64_t rows,
                              int64_t cols) {
    const Plane global = strided_plane(extent.stride[3], extent.stride[4]);
    for_each_matrix(extent, rows, cols, [&](int64_t offset, Position at, int64_t h, int64_t w) {
        copy_plane(to, plane, at, from + offset, global, {0, 0}, h, w);
    });
}

template <class D, class S>
PTO_NOINLINE void store_global(D *to, const Extent5 &extent, const S *from, const Plane &plane, int64_t rows,
                               int64_t cols) {
    const Plane global = strided_plane(extent.stride[3], extent.stride[4]);
    for_each_matrix(extent, rows, cols, [&](int64_t offset, Position at, int64_t h, int64_t w) {
        copy_plane(to + offset, global, {0, 0}, from, plane, at, h, w);
    });
}

// Adds to global memory so that no addition of another core is lost.
template <class T> PTO_INLINE void atomic_add(T *to, T value) {
    if constexpr (is_int<T>) {
        __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
    } else {
        using B = Bits<T>;
        B *const place = (B *)to;
        B old = __atomic_load_n(place, __ATOMIC_RELAXED), next;
        do {
            next = bit_cast<B>(T(bit_cast<T>(old) + value));
        } while (!__atomic_compare_exchange_n(place, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
}

template <class D, class S>
PTO_NOINLINE void add_global(D *to, const Extent5 &extent, const S *from, const Plane &plane, int64_t rows,
                             int64_t cols) {
    for_each_matrix(extent, rows, cols, [&](int64_t offset, Position at, int64_t h, int64_t w) {
        for (int64_t r = 0; r < h; ++r)
            for (int64_t c = 0; c < w; ++c)
                atomic_add(to + offset + r * extent.stride[3] + c * extent.stride[4],
                           convert_element<D>(from[plane.offset(at.row + r, at.col + c)]));
    });
}

} // namespace pto::detail

namespace pto {

// TLOAD(tile, global): the tile's valid region; a tile with a pad value has it everywhere else.
template <class D, class G, class... Rest> PTO_INST RecordEvent TLOAD(D &dst, const G &src, Rest &...) {
    static_assert(detail::is_tile<D> && detail::is_global_tensor<G>, "TLOAD: from a GlobalTensor to a Tile");
    static_assert(sizeof(typename D::DType) == sizeof(typename G::DType), "TLOAD: operands of one element type");
    if constexpr (detail::has_packed_elements<D>) {
        auto bytes = detail::bytes_of_tile(dst);
        return TLOAD(bytes, detail::bytes_of_view(src));
    } else {
        using B = detail::Bits<typename D::DType>;
        const int64_t rows = dst.GetValidRow(), cols = dst.GetValidCol();
        PTO_CHECK(TLOAD, PIPE_MTE2, loads(src, rows, cols),
                  writes(dst, D::PadVal != PadValue::Null ? whole(dst) : valid(dst)));
        detail::load_global((B *)dst.data(), D::plane(), (const B *)src.data(), detail::extent_of(src), rows, cols);
        if constexpr (D::PadVal != PadValue::Null)
            detail::pad_tile(dst, rows, cols);
        return {};
    }
}

// TSTORE(global, tile): the tile's valid region, converted to the element type of global memory.
template <class S, class G, AtomicType atomic = AtomicType::AtomicNone, class... Rest>
PTO_INST RecordEvent TSTORE(G &dst, const S &src, Rest &...) {
    static_assert(detail::is_tile<S> && detail::is_global_tensor<G>, "TSTORE: from a Tile to a GlobalTensor");
    if constexpr (detail::has_packed_elements<S> && detail::has_packed_elements<G>) {
        auto bytes = detail::bytes_of_view(dst);
        return TSTORE(bytes, detail::bytes_of_tile(src));
    } else {
        using To = detail::ElementType<G>;
        using From = detail::ElementType<S>;
        static_assert(detail::is_same<To, From> ||
                          (sizeof(To) == sizeof(From) && detail::is_int<To> && detail::is_int<From>) ||
                          (S::Loc == TileType::Acc && detail::is_float<To> && detail::is_float<From>),
                      "TSTORE: this conversion of elements needs a scale, or the accumulator as source");
        const int64_t rows = src.GetValidRow(), cols = src.GetValidCol();
        PTO_CHECK(TSTORE, store_pipe(src), reads(src), stores(dst, rows, cols, atomic == AtomicType::AtomicAdd));
        const From *const from = detail::read_elements(src);
        if constexpr (atomic == AtomicType::AtomicAdd)
            detail::add_global(dst.data(), detail::extent_of(dst), from, S::plane(), rows, cols);
        else if constexpr (sizeof(To) == sizeof(From))
            detail::store_global((detail::Bits<To> *)dst.data(), detail::extent_of(dst), (const detail::Bits<To> *)from,
                                 S::plane(), rows, cols);
        else
            detail::store_global(dst.data(), detail::extent_of(dst), from, S::plane(), rows, cols);
        return {};
    }
}

} // namespace pto

#endif
