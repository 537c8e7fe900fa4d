// Cache maintenance of orchestrations that look at memory which kernels write. This machine's caches are coherent; what
// is left is that the compiler must read anew.
#ifndef PYPTO_CACHE_MAINTENANCE_H
#define PYPTO_CACHE_MAINTENANCE_H

#include <sched.h>
#include <stddef.h>

/// Yields in a loop that waits for other threads.
#define SPIN_WAIT_HINT() sched_yield()

inline void cache_invalidate_range(const void *, size_t) {
    __sync_synchronize();
}
inline void cache_flush_range(const void *, size_t) {
    __sync_synchronize();
}

#endif
