#include <cstdint>

#include "tensor.h"

// y = factor * x, z = z + x
extern "C" void kernel_entry(int64_t *args) {
    ChipTensor *x = reinterpret_cast<ChipTensor *>(args[0]);
    ChipTensor *y = reinterpret_cast<ChipTensor *>(args[1]);
    ChipTensor *z = reinterpret_cast<ChipTensor *>(args[2]);
    float factor = from_u64<float>(static_cast<uint64_t>(args[3]));
    const float *in = reinterpret_cast<const float *>(x->buffer.addr) + x->start_offset;
    float *out = reinterpret_cast<float *>(y->buffer.addr) + y->start_offset;
    float *sum = reinterpret_cast<float *>(z->buffer.addr) + z->start_offset;
    for (uint32_t i = 0; i < x->shapes[0]; ++i) {
        out[i] = factor * in[i];
        sum[i] = sum[i] + in[i];
    }
}
