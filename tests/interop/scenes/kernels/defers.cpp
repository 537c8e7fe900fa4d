#include <pto/pto-inst.hpp>

#include "pto_async_kernel_api.h"
#include "tensor.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args) {
    __gm__ ChipTensor *tensor = reinterpret_cast<__gm__ ChipTensor *>(args[0]);
    __gm__ int32_t *counter = reinterpret_cast<__gm__ int32_t *>(tensor->buffer.addr) + tensor->start_offset;
    AsyncCtx context = get_async_ctx(args);
    switch (args[1]) {
    case 0:
        pto2::detail::defer_error(context, PTO2_ERROR_ASYNC_COMPLETION_INVALID);
        break;
    case 1:
        for (int i = 0; i <= MAX_COMPLETIONS_PER_TASK; ++i)
            register_completion_condition(context, {0x1000, 1, COMPLETION_ENGINE_SDMA, COMPLETION_TYPE_COUNTER, 0});
        break;
    case 2:
        save_expected_notification_counter(context, counter, 3);
        break;
    default:
        counter[1] = counter[0] + 1;
    }
    pto2::detail::defer_flush(context);
}
