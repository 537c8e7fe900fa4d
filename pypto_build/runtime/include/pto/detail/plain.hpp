// Accesses of plain C++ in a kernel (`pointer[i]`), reported with PYPTO_WEAK: the compiler's
// -fsanitize=thread calls a function before each access, and these are the functions. No library of a sanitizer takes
// part. Atomic operations become calls too; they do what they would have done.
#ifndef PTO_DETAIL_PLAIN_HPP
#define PTO_DETAIL_PLAIN_HPP

#ifdef PYPTO_WEAK

#include "../../pypto/check_abi.h"
#include "../../pypto/core_context.h"
#include "macros.hpp"

namespace pto::detail {

PTO_INLINE PyptoCoreContext &core();

namespace check {

inline __attribute__((visibility("hidden"))) __thread int unseen_depth = 0;

// While one lives, accesses are those of an instruction, which reports them itself.
struct Unseen {
    PTO_INLINE Unseen() { ++unseen_depth; }
    PTO_INLINE ~Unseen() { --unseen_depth; }
    Unseen(const Unseen &) = delete;
    Unseen &operator=(const Unseen &) = delete;
};

__attribute__((no_sanitize("thread"))) inline void plain(const volatile void *address, uint64_t bytes, uint32_t access,
                                                         void *code);

} // namespace check
} // namespace pto::detail

#define PTO_UNSEEN const ::pto::detail::check::Unseen unseen

#define PYPTO_HOOK __attribute__((weak, noinline, used, visibility("hidden"), no_sanitize("thread")))

extern "C" {

#define PYPTO_PLAIN(NAME, BYTES, ACCESS)                                                                               \
    PYPTO_HOOK void __tsan_##NAME(void *address) {                                                                     \
        ::pto::detail::check::plain(address, BYTES, ACCESS, __builtin_return_address(0));                              \
    }
#define PYPTO_PLAIN_BOTH(BYTES)                                                                                        \
    PYPTO_PLAIN(read##BYTES, BYTES, PYPTO_READ)                                                                        \
    PYPTO_PLAIN(write##BYTES, BYTES, PYPTO_WRITE)                                                                      \
    PYPTO_PLAIN(unaligned_read##BYTES, BYTES, PYPTO_READ)                                                              \
    PYPTO_PLAIN(unaligned_write##BYTES, BYTES, PYPTO_WRITE)
PYPTO_PLAIN(read1, 1, PYPTO_READ)
PYPTO_PLAIN(write1, 1, PYPTO_WRITE)
PYPTO_PLAIN_BOTH(2)
PYPTO_PLAIN_BOTH(4)
PYPTO_PLAIN_BOTH(8)
PYPTO_PLAIN_BOTH(16)
#undef PYPTO_PLAIN_BOTH
#undef PYPTO_PLAIN

PYPTO_HOOK void __tsan_read_range(void *address, unsigned long bytes) {
    ::pto::detail::check::plain(address, bytes, PYPTO_READ, __builtin_return_address(0));
}
PYPTO_HOOK void __tsan_write_range(void *address, unsigned long bytes) {
    ::pto::detail::check::plain(address, bytes, PYPTO_WRITE, __builtin_return_address(0));
}
PYPTO_HOOK void __tsan_vptr_read(void *) {}
PYPTO_HOOK void __tsan_vptr_update(void *, void *) {}
PYPTO_HOOK void __tsan_func_entry(void *) {}
PYPTO_HOOK void __tsan_func_exit(void *) {}
PYPTO_HOOK void __tsan_init() {}
// Kernels that bring a dcci and a dsb of their own, for hosts, have a fence in them: it counts as both.
PYPTO_HOOK void __tsan_atomic_thread_fence(int) {
    PyptoCoreContext &context = ::pto::detail::core();
    if (context.check) {
        context.check->clean(&context, nullptr);
        context.check->order(&context, PYPTO_FENCE, 0, 0, 0);
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
PYPTO_HOOK void __tsan_atomic_signal_fence(int) {}

#define PYPTO_ATOMIC_FETCH(BITS, T, NAME)                                                                              \
    PYPTO_HOOK T __tsan_atomic##BITS##_fetch_##NAME(volatile void *place, T value, int) {                              \
        return __atomic_fetch_##NAME((volatile T *)place, value, __ATOMIC_SEQ_CST);                                    \
    }
#define PYPTO_ATOMICS(BITS, T)                                                                                         \
    PYPTO_HOOK T __tsan_atomic##BITS##_load(const volatile void *place, int) {                                         \
        return __atomic_load_n((const volatile T *)place, __ATOMIC_SEQ_CST);                                           \
    }                                                                                                                  \
    PYPTO_HOOK void __tsan_atomic##BITS##_store(volatile void *place, T value, int) {                                  \
        __atomic_store_n((volatile T *)place, value, __ATOMIC_SEQ_CST);                                                \
    }                                                                                                                  \
    PYPTO_HOOK T __tsan_atomic##BITS##_exchange(volatile void *place, T value, int) {                                  \
        return __atomic_exchange_n((volatile T *)place, value, __ATOMIC_SEQ_CST);                                      \
    }                                                                                                                  \
    PYPTO_HOOK bool __tsan_atomic##BITS##_compare_exchange_strong(volatile void *place, void *expected, T value, int,  \
                                                                  int) {                                               \
        return __atomic_compare_exchange_n((volatile T *)place, (T *)expected, value, false, __ATOMIC_SEQ_CST,         \
                                           __ATOMIC_SEQ_CST);                                                          \
    }                                                                                                                  \
    PYPTO_HOOK bool __tsan_atomic##BITS##_compare_exchange_weak(volatile void *place, void *expected, T value, int,    \
                                                                int) {                                                 \
        return __atomic_compare_exchange_n((volatile T *)place, (T *)expected, value, false, __ATOMIC_SEQ_CST,         \
                                           __ATOMIC_SEQ_CST);                                                          \
    }                                                                                                                  \
    PYPTO_ATOMIC_FETCH(BITS, T, add)                                                                                   \
    PYPTO_ATOMIC_FETCH(BITS, T, sub)                                                                                   \
    PYPTO_ATOMIC_FETCH(BITS, T, and)                                                                                   \
    PYPTO_ATOMIC_FETCH(BITS, T, or)                                                                                    \
    PYPTO_ATOMIC_FETCH(BITS, T, xor)
PYPTO_ATOMICS(8, uint8_t)
PYPTO_ATOMICS(16, uint16_t)
PYPTO_ATOMICS(32, uint32_t)
PYPTO_ATOMICS(64, uint64_t)
#undef PYPTO_ATOMICS
#undef PYPTO_ATOMIC_FETCH

} // extern "C"

#else

#define PTO_UNSEEN ((void)0)

#endif

#endif
