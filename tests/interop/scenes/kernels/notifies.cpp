#include <pto/pto-inst.hpp>

#include "tensor.h"

extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args) {
    __gm__ ChipTensor *tensor = reinterpret_cast<__gm__ ChipTensor *>(args[0]);
    __gm__ int32_t *counter = reinterpret_cast<__gm__ int32_t *>(tensor->buffer.addr) + tensor->start_offset;
    __atomic_store_n(counter, 3, __ATOMIC_RELEASE);
}
