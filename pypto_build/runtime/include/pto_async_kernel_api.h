// Asynchronous completion: a kernel that has ended leaves counters that its task waits for, or an error.
#ifndef PYPTO_ASYNC_KERNEL_API_H
#define PYPTO_ASYNC_KERNEL_API_H

#include <stdint.h>

#include "intrinsic.h"
#include "pypto/error_codes.h"

#define COMPLETION_ENGINE_SDMA 0u
#define COMPLETION_ENGINE_ROCE 1u
#define COMPLETION_ENGINE_URMA 2u
#define COMPLETION_ENGINE_CCU 3u
#define COMPLETION_TYPE_COUNTER 0
#define COMPLETION_TYPE_SDMA_EVENT_RECORD 1

/// The condition of a wait: the counter at `addr` reaches `expected_value`.
struct CompletionToken {
    uint64_t addr;
    uint32_t expected_value;
    uint32_t engine;
    int32_t completion_type;
    uint64_t backend_cookie;
};

/// The context of the task that this kernel is a part of.
inline AsyncCtx get_async_ctx(const int64_t *args) {
    return pypto_local_context(args)->async_ctx;
}

/// Returns whether the task can wait for anything.
inline bool async_ctx_is_deferred(const AsyncCtx &context) {
    return context.task_token.is_valid() && context.completion_count != nullptr;
}

namespace pto2 {
namespace detail {

/// The task fails with one of the runtime's codes.
inline void defer_error(AsyncCtx &context, int32_t code) {
    if (context.completion_error_code)
        *context.completion_error_code = code;
}
/// Memory is coherent here.
inline void defer_flush(AsyncCtx &) {}

} // namespace detail
} // namespace pto2

/// Let the task wait for one thing more; false, and an error of the task, if there is no room.
inline bool register_completion_condition(AsyncCtx &context, const CompletionToken &token) {
    if (!async_ctx_is_deferred(context))
        return false;
    const uint32_t count = *context.completion_count;
    if (count >= context.completion_capacity) {
        pto2::detail::defer_error(context, PTO2_ERROR_ASYNC_WAIT_OVERFLOW);
        return false;
    }
    volatile DeferredCompletionEntry &entry = context.completion_entries[count];
    entry.addr = token.addr;
    entry.backend_cookie = token.backend_cookie;
    entry.expected_value = token.expected_value;
    entry.engine = token.engine;
    entry.completion_type = token.completion_type;
    *context.completion_count = count + 1;
    return true;
}

#ifdef PTO_DETAIL_COMM_HPP
/// Notify a counter of another rank. For kernels that include the instructions, as upstream's does.
inline void send_notification(volatile void *counter, int32_t value, pto::comm::NotifyOp operation) {
    pto::comm::Signal signal(static_cast<int32_t *>(const_cast<void *>(counter)));
    pto::comm::TNOTIFY(signal, value, operation);
}
#endif

/// Let the task wait until a counter is raised to a value.
inline void save_expected_notification_counter(AsyncCtx &context, volatile void *counter, uint32_t expected) {
    register_completion_condition(
        context, {reinterpret_cast<uint64_t>(counter), expected, COMPLETION_ENGINE_SDMA, COMPLETION_TYPE_COUNTER, 0});
}

#endif
