// Rearrangements of rows and counts of bytes: TINTERLEAVE, TDEINTERLEAVE, TPAIRREDUCESUM, TPACK, THISTOGRAM.
#ifndef PTO_DETAIL_REARRANGE_HPP
#define PTO_DETAIL_REARRANGE_HPP

#include "index.hpp"

namespace pto {

// TINTERLEAVE(dst1, dst0, src1, src0): src0[0], src1[0], src0[1], ... of each row; its first half is dst0, its second
// dst1.
template <class D, class S, class... Rest>
PTO_INST RecordEvent TINTERLEAVE(D &dst1, D &dst0, const S &src1, const S &src0, Rest &...) {
    detail::check_plain<D, S>();
    const int64_t cols = dst0.GetValidCol();
    PTO_CHECK(TINTERLEAVE, PIPE_V, reads(src0, valid(dst0)), reads(src1, valid(dst0)), writes(dst0),
              writes(dst1, valid(dst0)));
    detail::ElementType<D> line[2 * D::Cols];
    for (int64_t r = 0; r < dst0.GetValidRow(); ++r) {
        for (int64_t c = 0; c < cols; ++c) {
            line[2 * c] = src0.data()[r * S::Cols + c];
            line[2 * c + 1] = src1.data()[r * S::Cols + c];
        }
        for (int64_t c = 0; c < cols; ++c) {
            dst0.data()[r * D::Cols + c] = line[c];
            dst1.data()[r * D::Cols + c] = line[cols + c];
        }
    }
    return {};
}

// TDEINTERLEAVE(dst1, dst0, src1, src0): the opposite; TDEINTERLEAVE(dst1, dst0, src) takes one row of both halves.
template <class D, class S, class... Rest>
PTO_INST auto TDEINTERLEAVE(D &dst1, D &dst0, const S &src1, const S &src0, Rest &...) -> RecordEvent {
    detail::check_plain<D, S>();
    const int64_t cols = dst0.GetValidCol();
    PTO_CHECK(TDEINTERLEAVE, PIPE_V, reads(src0, valid(dst0)), reads(src1, valid(dst0)), writes(dst0),
              writes(dst1, valid(dst0)));
    detail::ElementType<D> line[2 * D::Cols];
    for (int64_t r = 0; r < dst0.GetValidRow(); ++r) {
        for (int64_t c = 0; c < cols; ++c) {
            line[c] = src0.data()[r * S::Cols + c];
            line[cols + c] = src1.data()[r * S::Cols + c];
        }
        for (int64_t c = 0; c < cols; ++c) {
            dst0.data()[r * D::Cols + c] = line[2 * c];
            dst1.data()[r * D::Cols + c] = line[2 * c + 1];
        }
    }
    return {};
}
template <class D, class S> PTO_INST RecordEvent TDEINTERLEAVE(D &dst1, D &dst0, const S &src) {
    detail::check_plain<D, S>();
    PTO_CHECK(TDEINTERLEAVE, PIPE_V, reads(src), writes(dst0, {0, 0, src.GetValidRow(), src.GetValidCol() / 2}),
              writes(dst1, {0, 0, src.GetValidRow(), src.GetValidCol() / 2}));
    for (int64_t r = 0; r < src.GetValidRow(); ++r)
        for (int64_t c = 0; c < src.GetValidCol() / 2; ++c) {
            const auto first = src.data()[r * S::Cols + 2 * c], second = src.data()[r * S::Cols + 2 * c + 1];
            dst0.data()[r * D::Cols + c] = first;
            dst1.data()[r * D::Cols + c] = second;
        }
    return {};
}

// TPAIRREDUCESUM(dst, src): sums of neighbours in the first half of each row, zeros in the rest.
template <class D, class S, class... Rest> PTO_INST RecordEvent TPAIRREDUCESUM(D &dst, const S &src, Rest &...) {
    detail::check_plain<D, S>();
    using T = detail::ElementType<D>;
    const int64_t cols = dst.GetValidCol(), pairs = (cols + 1) / 2;
    PTO_CHECK(TPAIRREDUCESUM, PIPE_V, reads(src, valid(dst)), writes(dst));
    for (int64_t r = 0; r < dst.GetValidRow(); ++r) {
        const T *const from = src.data() + r * S::Cols;
        T *const to = dst.data() + r * D::Cols;
        for (int64_t c = 0; c < cols; ++c) {
            const T first = c < pairs ? from[2 * c] : T(0), second = 2 * c + 1 < cols ? from[2 * c + 1] : T(0);
            if constexpr (detail::is_float<T>)
                to[c] = detail::from_compute<T>(detail::to_compute(first) + detail::to_compute(second));
            else // wraps
                to[c] = T(uint64_t(first) + uint64_t(second));
        }
    }
    return {};
}

// TPACK(dst, src): the low bits of each element, as many as an element of dst has.
template <class D, class S, class... Rest> PTO_INST RecordEvent TPACK(D &dst, const S &src, Rest &...) {
    detail::check_plain<D, S>();
    static_assert(sizeof(typename D::DType) < sizeof(typename S::DType) && sizeof(typename S::DType) <= 4,
                  "TPACK: from 32 to 16 or 8 bits, or from 16 to 8");
    PTO_CHECK(TPACK, PIPE_V, reads(src), writes(dst, valid(src)));
    using To = detail::Bits<typename D::DType>;
    const auto *const from = (const detail::Bits<typename S::DType> *)src.data();
    for (int64_t r = 0; r < src.GetValidRow(); ++r)
        for (int64_t c = 0; c < src.GetValidCol(); ++c)
            ((To *)dst.data())[r * D::Cols + c] = To(from[r * S::Cols + c]);
    return {};
}

// THISTOGRAM<byte>(dst, src, index): for each row and each b, how many of the elements whose more significant bytes are
// those that index names have a byte of at most b: counts that add up. The most significant byte comes first in index:
// of 16-bit elements there is one for each row, in a column; of 32-bit elements one for each column, a row of them for
// each byte.
template <HistByte byte, class D, class S, class I, class... Rest>
PTO_INST RecordEvent THISTOGRAM(D &dst, const S &src, const I &index, Rest &...) {
    detail::check_plain<D, S>();
    constexpr int bytes = int(sizeof(typename S::DType)), chosen = int(byte);
    static_assert(detail::is_one_of<detail::ElementType<S>, uint16_t, uint32_t>,
                  "THISTOGRAM: the source has unsigned integers of 16 or 32 bits");
    static_assert(chosen < bytes, "THISTOGRAM: the byte lies beyond the source's elements");
    static_assert(D::Cols >= 256 && sizeof(typename D::DType) == 4,
                  "THISTOGRAM: the destination has 256 counters of 32 bits");
    PTO_CHECK(THISTOGRAM, PIPE_V, reads(src), carries(index, valid(index)),
              writes(dst, {0, 0, src.GetValidRow(), 256}));
    for (int64_t r = 0; r < src.GetValidRow(); ++r) {
        uint32_t count[256] = {};
        for (int64_t c = 0; c < src.GetValidCol(); ++c) {
            const uint32_t value = uint32_t(src.data()[r * S::Cols + c]);
            bool counts = true;
            for (int k = bytes - 1; k > chosen; --k) {
                const int64_t at = bytes == 2 ? I::plane().offset(r, 0) : I::plane().offset(bytes - 1 - k, c);
                counts = counts && ((value >> (8 * k)) & 255u) == uint8_t(index.data()[at]);
            }
            if (counts)
                ++count[(value >> (8 * chosen)) & 255u];
        }
        uint32_t sum = 0;
        for (int64_t b = 0; b < 256; ++b)
            dst.data()[r * D::Cols + b] = typename D::DType(sum += count[b]);
    }
    return {};
}

} // namespace pto

#endif
