// TSORT32 and TMRGSORT: sorting and merging of (value, index) records in descending order of value.
#ifndef PTO_DETAIL_SORT_HPP
#define PTO_DETAIL_SORT_HPP

#include "index.hpp"
#include "vector.hpp"

namespace pto::detail {

// A record of eight bytes: a float, or a half and two bytes of zero, then a 32-bit index.
struct SortRecord {
    uint32_t value, index;
};

// Order of the values as signed integers: NaN above all numbers, the two zeros equal.
template <class T> PTO_INLINE int32_t sort_key(uint32_t value) {
    uint32_t bits = value;
    if constexpr (!is_same<T, float>)
        bits = float_bits(f16_bits_to_float(uint16_t(value)));
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fffffff;
    const int32_t key = int32_t(bits) ^ ((int32_t(bits) >> 31) & 0x7fffffff);
    return key == -1 ? 0 : key;
}

// The bits of minus infinity.
template <class T> inline constexpr uint32_t sort_lowest = is_same<T, float> ? 0xff800000u : 0xfc00u;

// Sorts `count` <= 32 values with their indices; equal values keep their order. A record's place is the number of those
// before it, which takes no branch on the data.
template <class T>
PTO_NOINLINE void sort_group(SortRecord *to, const T *values, const uint32_t *indices, int64_t count) {
    using Lanes = Vector<int64_t, 4>;
    SortRecord records[32] = {};
    int64_t keys[32], places[32];
    for (int64_t i = 0; i < count; ++i) {
        __builtin_memcpy(&records[i].value, values + i, sizeof(T));
        records[i].index = indices[i];
    }
    for (int64_t i = 0; i < 32; ++i) // of values that are not there: below all others
        keys[i] = int64_t(sort_key<T>(i < count ? records[i].value : sort_lowest<T>)) * 64 - i;
    for (int64_t i = 0; i < 32; i += 8) {
        Lanes low, high, before_low{}, before_high{};
        __builtin_memcpy(&low, keys + i, sizeof(low));
        __builtin_memcpy(&high, keys + i + 4, sizeof(high));
        for (int64_t j = 0; j < 32; ++j) {
            before_low -= (keys[j] + Lanes{}) > low;
            before_high -= (keys[j] + Lanes{}) > high;
        }
        __builtin_memcpy(places + i, &before_low, sizeof(low));
        __builtin_memcpy(places + i + 4, &before_high, sizeof(high));
    }
    for (int64_t i = 0; i < count; ++i)
        to[places[i]] = records[i];
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

struct KeyedRecord {
    int64_t key;
    SortRecord record;
    operator SortRecord() const { return record; }
};

// Merges two lists of the same length from both ends at once, without a branch on the data: in as many steps as a list
// is long, neither end runs out of it.
template <class Out>
PTO_INLINE void merge_two(Out *to, const KeyedRecord *first, const KeyedRecord *second, int64_t length) {
    const KeyedRecord *last_first = first + length - 1, *last_second = second + length - 1;
    Out *end = to + 2 * length - 1;
    for (int64_t n = 0; n < length; ++n) {
        const bool takes_first = first->key >= second->key;
        *to++ = takes_first ? *first : *second;
        first += takes_first;
        second += !takes_first;
        const bool ends_second = last_first->key >= last_second->key;
        *end-- = ends_second ? *last_second : *last_first;
        last_second -= ends_second;
        last_first -= !ends_second;
    }
}

inline constexpr int64_t most_merged_keyed = 2048;

// Merges four lists of `length` records each that lie one after the other.
template <class T> PTO_NOINLINE void merge_four(SortRecord *to, const SortRecord *from, int64_t length) {
    KeyedRecord keyed[most_merged_keyed], pairs[most_merged_keyed];
    for (int64_t i = 0; i < 4 * length; ++i)
        keyed[i] = {sort_key<T>(from[i].value), from[i]};
    merge_two(pairs, keyed, keyed + length, length);
    merge_two(pairs + 2 * length, keyed + 2 * length, keyed + 3 * length, length);
    merge_two(to, pairs, pairs + 2 * length, 2 * length);
}

template <class T> inline constexpr int64_t elements_a_record = 8 / int64_t(sizeof(T));

template <class T> inline constexpr bool sorts = is_one_of<T, float, half>;

} // namespace pto::detail

namespace pto {

// TSORT32(dst, src, index[, tmp]): each group of 32 columns of src is sorted; dst holds records.
template <class D, class S, class I, class... Rest>
PTO_INST RecordEvent TSORT32(D &dst, const S &src, const I &index, [[maybe_unused]] Rest &...rest) {
    using T = detail::ElementType<S>;
    static_assert(detail::sorts<T>, "TSORT32 and TMRGSORT: values are float or half");
    detail::check_plain<D, S, I>();
    static_assert(sizeof(typename I::DType) == 4, "TSORT32: the indices have 32 bits");
    const int64_t cols = src.GetValidCol();
    PTO_CHECK(TSORT32, PIPE_V, reads(src), reads(index, {0, 0, I::Rows == 1 ? 1 : src.GetValidRow(), cols}),
              writes(dst, whole(dst)), scratch(rest)...);
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
        if (start + 4 * length <= records && 4 * length <= detail::most_merged_keyed) {
            detail::merge_four<T>((SortRecord *)dst.data() + start, from + start, length);
            continue;
        }
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
