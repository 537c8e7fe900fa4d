// MGATHER and MSCATTER: indexed rows or elements of global memory.
#ifndef PTO_DETAIL_GLOBAL_INDEX_HPP
#define PTO_DETAIL_GLOBAL_INDEX_HPP

#include "memory.hpp"

namespace pto::detail {

// Returns the position of an index, or -1 if the access is skipped.
PTO_INLINE int64_t gathered_position(int64_t index, int64_t capacity, GatherOOB mode) {
    if (mode == GatherOOB::Undefined || (index >= 0 && index < capacity))
        return index;
    if (mode == GatherOOB::Zero || capacity == 0)
        return -1;
    if (mode == GatherOOB::Clamp)
        return index < 0 ? 0 : capacity - 1;
    return (index % capacity + capacity) % capacity;
}
constexpr GatherOOB as_gather(ScatterOOB mode) {
    return mode == ScatterOOB::Skip    ? GatherOOB::Zero
           : mode == ScatterOOB::Clamp ? GatherOOB::Clamp
           : mode == ScatterOOB::Wrap  ? GatherOOB::Wrap
                                       : GatherOOB::Undefined;
}

// Offset of the start of a row of a view: rows are counted over the dimensions 0 to 3, and go on beyond the outermost
// dimension that has more than one.
PTO_INLINE int64_t row_offset(const Extent5 &e, int64_t row) {
    int outermost = 0;
    while (outermost < 3 && e.shape[outermost] == 1)
        ++outermost;
    int64_t offset = 0;
    for (int d = 3; d > outermost; --d) {
        offset += row % e.shape[d] * e.stride[d];
        row /= e.shape[d];
    }
    return offset + row * e.stride[outermost];
}
// NZ blocks are seen as the matrix they hold.
PTO_INLINE int64_t element_offset(const Extent5 &e, int64_t row, int64_t col) {
    if (e.layout == Layout::NZ)
        return col / e.shape[4] / e.shape[1] * e.stride[0] + col / e.shape[4] % e.shape[1] * e.stride[1] +
               row / e.shape[3] * e.stride[2] + row % e.shape[3] * e.stride[3] + col % e.shape[4] * e.stride[4];
    return row_offset(e, row) + col * e.stride[4];
}
PTO_INLINE int64_t row_count(const Extent5 &e) {
    return e.layout == Layout::NZ ? e.shape[2] * e.shape[3] : e.shape[0] * e.shape[1] * e.shape[2] * e.shape[3];
}
PTO_INLINE int64_t col_count(const Extent5 &e) {
    return e.layout == Layout::NZ ? e.shape[0] * e.shape[1] * e.shape[4] : e.shape[4];
}

template <ScatterAtomicOp op, class T> PTO_INLINE void combine_global(T *to, T value) {
    if constexpr (op == ScatterAtomicOp::None) {
        *to = value;
    } else if constexpr (op == ScatterAtomicOp::Add) {
        atomic_add(to, value);
    } else {
        using B = Bits<T>;
        B *const place = (B *)to;
        B old = __atomic_load_n(place, __ATOMIC_RELAXED);
        while (op == ScatterAtomicOp::Max ? to_compute(bit_cast<T>(old)) < to_compute(value)
                                          : to_compute(bit_cast<T>(old)) > to_compute(value))
            if (__atomic_compare_exchange_n(place, &old, bit_cast<B>(value), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                break;
    }
}

// The index of element (r, c), from a tile or from global memory.
template <class I> PTO_INLINE int64_t index_at(const I &index, int64_t r, int64_t c) {
    if constexpr (is_global_tensor<I>)
        return int64_t(index.data()[element_offset(extent_of(index), r, c)]);
    else
        return int64_t(index.data()[I::GetOffset(r, c)]);
}

// The index of tile row r: indices of one row or of one column.
template <class I> PTO_INLINE int64_t row_index(const I &index, int64_t r) {
    bool column;
    if constexpr (is_global_tensor<I>)
        column = row_count(extent_of(index)) > 1;
    else
        column = I::Cols == 1 || (I::Rows > 1 && I::isRowMajor);
    return column ? index_at(index, r, 0) : index_at(index, 0, r);
}

} // namespace pto::detail

namespace pto {

// MGATHER<coalesce, out of bounds>(tile, table, index[, tmp]). By rows: tile[r, :] = table row index[r]. By elements:
// tile[r, c] = table element index[r, c] in row-major order.
template <Coalesce coalesce = Coalesce::Row, GatherOOB oob = GatherOOB::Undefined, class D, class G, class I,
          class... Rest>
PTO_INST RecordEvent MGATHER(D &dst, const G &table, const I &index, Rest &...) {
    static_assert(sizeof(typename D::DType) == sizeof(typename G::DType), "MGATHER: operands of one element type");
    PTO_UNSEEN;
    using T = detail::ElementType<D>;
    const detail::Extent5 e = detail::extent_of(table);
    const int64_t rows = dst.GetValidRow(), cols = dst.GetValidCol(), width = detail::col_count(e);
    const T *const from = (const T *)table.data();
    if constexpr (detail::is_global_tensor<I>)
        PTO_CHECK(MGATHER, PIPE_S, loads(index, all, all));
    else
        PTO_CHECK(MGATHER, PIPE_S, carries(index, valid(index)));
    PTO_CHECK(MGATHER, coalesce == Coalesce::Elem ? PIPE_S : PIPE_MTE2, writes(dst));
    for (int64_t r = 0; r < rows; ++r) {
        if constexpr (coalesce == Coalesce::Row) {
            const int64_t row = detail::gathered_position(detail::row_index(index, r), detail::row_count(e), oob);
            if (row >= 0)
                PTO_CHECK(MGATHER, PIPE_MTE2, run(from + detail::element_offset(e, row, 0), cols, PYPTO_READ));
            for (int64_t c = 0; c < cols; ++c)
                dst.data()[D::plane().offset(r, c)] = row < 0 ? T{} : from[detail::element_offset(e, row, c)];
        } else {
            for (int64_t c = 0; c < cols; ++c) {
                const int64_t at =
                    detail::gathered_position(detail::index_at(index, r, c), detail::row_count(e) * width, oob);
                if (at >= 0)
                    PTO_CHECK(MGATHER, PIPE_MTE2,
                              run(from + detail::element_offset(e, at / width, at % width), 1, PYPTO_READ));
                dst.data()[D::plane().offset(r, c)] =
                    at < 0 ? T{} : from[detail::element_offset(e, at / width, at % width)];
            }
        }
    }
    return {};
}
template <GatherOOB oob, class D, class G, class I, class... Rest>
PTO_INST RecordEvent MGATHER(D &dst, const G &table, const I &index, Rest &...) {
    return MGATHER<Coalesce::Row, oob>(dst, table, index);
}

// MSCATTER<coalesce, atomic, out of bounds>(table, tile, index): the opposite way. Of equal indices the last one wins.
template <Coalesce coalesce = Coalesce::Row, ScatterAtomicOp atomic = ScatterAtomicOp::None,
          ScatterOOB oob = ScatterOOB::Undefined, ScatterConflict conflict = ScatterConflict::Last, class G, class S,
          class I, class... Rest>
PTO_INST RecordEvent MSCATTER(G &table, const S &src, const I &index, Rest &...) {
    static_assert(sizeof(typename S::DType) == sizeof(typename G::DType), "MSCATTER: operands of one element type");
    PTO_UNSEEN;
    using T = detail::ElementType<S>;
    static_assert(atomic == ScatterAtomicOp::None || detail::is_number<T>,
                  "MSCATTER: elements that are not computed with do not combine atomically");
    const detail::Extent5 e = detail::extent_of(table);
    const int64_t rows = src.GetValidRow(), cols = src.GetValidCol(), width = detail::col_count(e);
    constexpr GatherOOB mode = detail::as_gather(oob);
    T *const to = (T *)table.data();
#ifdef PYPTO_CHECK
    constexpr int kind = PYPTO_WRITE | (atomic == ScatterAtomicOp::None ? 0 : PYPTO_ATOMIC);
#endif
    PTO_CHECK(MSCATTER, PIPE_MTE3, reads(src));
    for (int64_t r = 0; r < rows; ++r) {
        if constexpr (coalesce == Coalesce::Row) {
            const int64_t row = detail::gathered_position(detail::row_index(index, r), detail::row_count(e), mode);
            if (row >= 0)
                PTO_CHECK(MSCATTER, PIPE_MTE3, run(to + detail::element_offset(e, row, 0), cols, kind));
            for (int64_t c = 0; c < cols && row >= 0; ++c)
                detail::combine_global<atomic>(to + detail::element_offset(e, row, c),
                                               src.data()[S::plane().offset(r, c)]);
        } else {
            for (int64_t c = 0; c < cols; ++c) {
                const int64_t at = detail::gathered_position(int64_t(index.data()[I::plane().offset(r, c)]),
                                                             detail::row_count(e) * width, mode);
                if (at >= 0)
                    PTO_CHECK(MSCATTER, PIPE_MTE3,
                              run(to + detail::element_offset(e, at / width, at % width), 1, kind));
                if (at >= 0)
                    detail::combine_global<atomic>(to + detail::element_offset(e, at / width, at % width),
                                                   src.data()[S::plane().offset(r, c)]);
            }
        }
    }
    return {};
}

} // namespace pto

#endif
