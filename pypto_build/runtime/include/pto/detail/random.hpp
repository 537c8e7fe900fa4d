// TRANDOM: the counter-based generator Philox 4x32 with seven or ten rounds.
#ifndef PTO_DETAIL_RANDOM_HPP
#define PTO_DETAIL_RANDOM_HPP

#include "elementwise.hpp"

namespace pto {

using TRandomKey = uint32_t[2];
using TRandomCounter = uint32_t[4];

namespace detail {

PTO_INLINE void philox(uint32_t (&word)[4], uint32_t key0, uint32_t key1, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        const uint64_t a = uint64_t(0xD2511F53u) * word[0], b = uint64_t(0xCD9E8D57u) * word[2];
        const uint32_t next[4] = {uint32_t(b >> 32) ^ word[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ word[3] ^ key1,
                                  uint32_t(a)};
        for (int k = 0; k < 4; ++k)
            word[k] = next[k];
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

template <class = void>
PTO_NOINLINE void random_rows(uint32_t *to, int64_t stride, int64_t rows, int64_t cols, const TRandomKey &key,
                              const TRandomCounter &counter, int rounds) {
    constexpr int64_t lanes = 64, group = 4 * lanes;
    uint64_t block = 0;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t start = 0; start < cols; start += group, block += uint64_t(stride / 4)) {
            const int64_t width = cols - start < group ? cols - start : group;
            for (int64_t lane = 0; lane < lanes && lane < width; ++lane) {
                uint32_t word[4];
                uint64_t carry = block + uint64_t(lane);
                for (int k = 0; k < 4; ++k) {
                    carry += counter[k];
                    word[k] = uint32_t(carry);
                    carry >>= 32;
                }
                philox(word, key[0], key[1], rounds);
                for (int64_t k = 0; k * lanes + lane < width; ++k)
                    to[r * stride + start + k * lanes + lane] = word[k];
            }
        }
}

} // namespace detail

// TRANDOM<rounds>(dst, key, counter): of a row's first 256 columns, columns j, j + 64, j + 128 and j + 192 are the four
// words of the block whose counter is `counter` + j (128 bits, least significant word first). The next 256 columns, or
// the next row, count on from there by a quarter of the tile's columns.
template <uint16_t rounds = 10, class D, class... Rest>
PTO_INST RecordEvent TRANDOM(D &dst, const TRandomKey &key, const TRandomCounter &counter, Rest &...) {
    static_assert(detail::is_int<detail::ElementType<D>> && sizeof(typename D::DType) == 4 && D::isRowMajor &&
                      !D::isBoxedLayout,
                  "TRANDOM: the destination has 32-bit integers, row-major without fractals");
    static_assert(rounds == 7 || rounds == 10, "TRANDOM: seven or ten rounds");
    PTO_CHECK(TRANDOM, PIPE_V, writes(dst));
    detail::random_rows((uint32_t *)dst.data(), D::Cols, dst.GetValidRow(), dst.GetValidCol(), key, counter, rounds);
    return {};
}

} // namespace pto

#endif
