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

} // namespace detail

// TRANDOM<rounds>(dst, key, counter): element i, counted along the rows of the valid region, is word i % 4 of the block
// whose counter is `counter` + i / 4 (128 bits, least significant word first).
template <uint16_t rounds = 10, class D, class... Rest>
PTO_INST RecordEvent TRANDOM(D &dst, const TRandomKey &key, const TRandomCounter &counter, Rest &...) {
    static_assert(detail::is_int<detail::ElementType<D>> && sizeof(typename D::DType) == 4 && D::isRowMajor &&
                      !D::isBoxedLayout,
                  "TRANDOM: the destination has 32-bit integers, row-major without boxes");
    static_assert(rounds == 7 || rounds == 10, "TRANDOM: seven or ten rounds");
    PTO_CHECK(TRANDOM, PIPE_V, writes(dst));
    uint32_t word[4] = {};
    uint64_t i = 0;
    for (int64_t r = 0; r < dst.GetValidRow(); ++r)
        for (int64_t c = 0; c < dst.GetValidCol(); ++c, ++i) {
            if (i % 4 == 0) {
                uint64_t carry = i / 4;
                for (int k = 0; k < 4; ++k) {
                    carry += counter[k];
                    word[k] = uint32_t(carry);
                    carry >>= 32;
                }
                detail::philox(word, key[0], key[1], rounds);
            }
            dst.data()[r * D::Cols + c] = typename D::DType(word[i % 4]);
        }
    return {};
}

} // namespace pto

#endif
