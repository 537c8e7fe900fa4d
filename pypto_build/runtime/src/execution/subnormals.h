// Numbers of float below the normal ones: the device takes and gives zeros in their place (docs/lookup/agreement.md).
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace pypto::runtime {

/// While it lives, this thread computes with zeros in their place, if `flush`.
class FlushedSubnormals {
public:
    explicit FlushedSubnormals(bool flush) : flush_(flush) {
        if (!flush_)
            return;
        before_ = control();
        set_control(before_ | kBits);
    }
    ~FlushedSubnormals() {
        if (flush_)
            set_control(before_);
    }
    FlushedSubnormals(const FlushedSubnormals &) = delete;
    FlushedSubnormals &operator=(const FlushedSubnormals &) = delete;

private:
#if defined(__SSE2__)
    static constexpr uint64_t kBits = 0x8040; // results, and operands
    static uint64_t control() { return _mm_getcsr(); }
    static void set_control(uint64_t word) { _mm_setcsr(static_cast<uint32_t>(word)); }
#elif defined(__aarch64__)
    static constexpr uint64_t kBits = uint64_t(1) << 24; // both
    static uint64_t control() {
        uint64_t word;
        __asm__ volatile("mrs %0, fpcr" : "=r"(word));
        return word;
    }
    static void set_control(uint64_t word) { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }
#else
    static constexpr uint64_t kBits = 0;
    static uint64_t control() { return 0; }
    static void set_control(uint64_t) {}
#endif

    const bool flush_;
    uint64_t before_ = 0;
};

} // namespace pypto::runtime
