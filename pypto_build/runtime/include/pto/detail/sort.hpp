// TSORT32 and TMRGSORT: sorting and merging of (value, index) records in descending order of value.
#ifndef PTO_DETAIL_SORT_HPP
#define PTO_DETAIL_SORT_HPP

#include "index.hpp"

namespace pto::detail {

// A record of eight bytes: a float, or a half and two bytes of zero, then a 32-bit index.
struct SortRecord {
    uint32_t value, index;
};

// Order of the values as signed integers: NaN above all numbers, the two zeros equal.
template <class T> PTO_INLINE int32_t sort_key(uint32_t value) {
    float number;
    if constexpr (is_same<T, float>)
        number = bits_float(value);
    else
        number = f16_bits_to_float(uint16_t(value));
    if (number != number)
        return 0x7fffffff;
    const int32_t bits = int32_t(float_bits(number + 0.0f));
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

// Sorts `count` <= 32 values with their indices; equal values keep their order.
template <class T>
PTO_NOINLINE void sort_group(SortRecord *to, const T *values, const uint32_t *indices, int64_t count) {
    uint64_t keys[32];
    for (int64_t i = 0; i < count; ++i) {
        uint32_t bits = 0;
        __builtin_memcpy(&bits, values + i, sizeof(T));
        // Ascending order of (reversed key, position) is descending order of values.
        const uint64_t key = (uint64_t(~uint32_t(sort_key<T>(bits)) ^ 0x80000000u) << 32) | uint64_t(i);
        int64_t j = i;
        for (; j > 0 && keys[j - 1] > key; --j)
            keys[j] = keys[j - 1];
        keys[j] = key;
    }
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t from = uint32_t(keys[i]);
        uint32_t bits = 0;
        __builtin_memcpy(&bits, values + from, sizeof(T));
        to[i] = {bits, indices[from]};
    }
}

// Up to four sorted lists of records.
struct SortLists {
    const SortRecord *list[4];
    int64_t length[4], used[4];
    int count;
};

// Merges until `limit` records are out, or, when `stop_early`, until one list is used up. Of equal values, the one of
// the first list comes first.
template <class T> PTO_NOINLINE int64_t merge_lists(SortRecord *to, SortLists &lists, int64_t limit, bool stop_early) {
    int32_t head[4];
    bool open[4];
    for (int k = 0; k < 4; ++k) {
        open[k] = k < lists.count && lists.length[k] > 0;
        head[k] = open[k] ? sort_key<T>(lists.list[k][0].value) : 0;
        lists.used[k] = 0;
    }
    int64_t written = 0;
    while (written < limit) {
        int best = -1;
        for (int k = 0; k < lists.count; ++k)
            if (open[k] && (best < 0 || head[k] > head[best]))
                best = k;
        if (best < 0)
            break;
        to[written++] = lists.list[best][lists.used[best]++];
        open[best] = lists.used[best] < lists.length[best];
        if (open[best])
            head[best] = sort_key<T>(lists.list[best][lists.used[best]].value);
        else if (stop_early)
            break;
    }
    return written;
}

template <class T> inline constexpr int64_t elements_a_record = 8 / int64_t(sizeof(T));

template <class T> inline constexpr bool sorts = is_one_of<T, float, half>;

} // namespace pto::detail

namespace pto {

// TSORT32(dst, src, index[, tmp]): each group of 32 columns of src is sorted; dst holds records.
template <class D, class S, class I, class... Rest>
PTO_INST RecordEvent TSORT32(D &dst, const S &src, const I &index, Rest &...) {
    using T = detail::ElementType<S>;
    static_assert(detail::sorts<T>, "TSORT32 and TMRGSORT: values are float or half");
    detail::check_plain<D, S, I>();
    static_assert(sizeof(typename I::DType) == 4, "TSORT32: the indices have 32 bits");
    const int64_t cols = src.GetValidCol();
    PTO_CHECK(TSORT32, PIPE_V, reads(src), reads(index, {0, 0, I::Rows == 1 ? 1 : src.GetValidRow(), cols}),
              writes(dst, whole(dst)));
    for (int64_t r = 0; r < src.GetValidRow(); ++r)
        for (int64_t c = 0; c < cols; c += 32)
            detail::sort_group((detail::SortRecord *)(dst.data() + r * D::Cols) + c, src.data() + r * S::Cols + c,
                               (const uint32_t *)index.data() + (I::Rows == 1 ? 0 : r * I::Cols) + c,
                               cols - c < 32 ? cols - c : 32);
    return {};
}

// TMRGSORT(dst, src, block): each four consecutive sorted blocks of `block` elements are merged.
template <class D, class S, class Block, class... Rest>
PTO_INST auto TMRGSORT(D &dst, const S &src, Block block, Rest &...)
    -> detail::enable_if_t<!detail::is_tile<Block>, RecordEvent> {
    using T = detail::ElementType<S>;
    static_assert(detail::sorts<T>, "TSORT32 and TMRGSORT: values are float or half");
    detail::check_plain<D, S>();
    using detail::SortRecord;
    const int64_t records = src.GetValidCol() / detail::elements_a_record<T>;
    const int64_t length = int64_t(block) / detail::elements_a_record<T>;
    const SortRecord *const from = (const SortRecord *)src.data();
    PTO_CHECK(TMRGSORT, PIPE_V, reads(src, {0, 0, 1, src.GetValidCol()}), writes(dst, whole(dst)));
    for (int64_t start = 0; start < records && length > 0; start += 4 * length) {
        detail::SortLists lists{};
        for (lists.count = 0; lists.count < 4 && start + lists.count * length < records; ++lists.count) {
            const int64_t begin = start + lists.count * length;
            lists.list[lists.count] = from + begin;
            lists.length[lists.count] = records - begin < length ? records - begin : length;
        }
        detail::merge_lists<T>((SortRecord *)dst.data() + start, lists, 4 * length, false);
    }
    return {};
}

// TMRGSORT<..., exhausted>(dst, executed, tmp, src0, src1[, src2[, src3]]): merges two to four sorted lists by way of
// tmp. With `exhausted` it stops when a list is used up; `executed` gets the number of records taken from each.
namespace detail {
template <bool exhausted, class D, class Tmp, class... S>
PTO_INLINE void merge_tiles(D &dst, MrgSortExecutedNumList &executed, Tmp &tmp, const S &...src) {
    using T = ElementType<D>;
    static_assert(sorts<T>, "TSORT32 and TMRGSORT: values are float or half");
    check_plain<D, Tmp, S...>();
    constexpr int64_t per = elements_a_record<T>;
    PTO_CHECK(TMRGSORT, PIPE_V, reads(src, {0, 0, 1, src.GetValidCol()})..., writes(dst, whole(dst)),
              writes(tmp, whole(tmp)));
    SortLists lists{{(const SortRecord *)src.data()...}, {src.GetValidCol() / per...}, {}, int(sizeof...(S))};
    const int64_t written = merge_lists<T>((SortRecord *)tmp.data(), lists, dst.GetValidCol() / per, exhausted);
    __builtin_memmove(dst.data(), tmp.data(), uint64_t(written) * sizeof(SortRecord));
    executed = {uint16_t(lists.used[0]), uint16_t(lists.used[1]), uint16_t(lists.used[2]), uint16_t(lists.used[3])};
}
} // namespace detail
template <class D, class Tmp, class A, class B, class C, class E, bool exhausted, class... Rest>
PTO_INST RecordEvent TMRGSORT(D &dst, MrgSortExecutedNumList &executed, Tmp &tmp, A &a, B &b, C &c, E &e, Rest &...) {
    detail::merge_tiles<exhausted>(dst, executed, tmp, a, b, c, e);
    return {};
}
template <class D, class Tmp, class A, class B, class C, bool exhausted, class... Rest>
PTO_INST RecordEvent TMRGSORT(D &dst, MrgSortExecutedNumList &executed, Tmp &tmp, A &a, B &b, C &c, Rest &...) {
    detail::merge_tiles<exhausted>(dst, executed, tmp, a, b, c);
    return {};
}
template <class D, class Tmp, class A, class B, bool exhausted, class... Rest>
PTO_INST RecordEvent TMRGSORT(D &dst, MrgSortExecutedNumList &executed, Tmp &tmp, A &a, B &b, Rest &...) {
    detail::merge_tiles<exhausted>(dst, executed, tmp, a, b);
    return {};
}

} // namespace pto

#endif
