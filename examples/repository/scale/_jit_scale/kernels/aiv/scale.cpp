// Kernel Function: scale
#include <cstdint>

#include "factor.h"
#include "tensor.h"

extern "C" void kernel_entry(int64_t* args) {
    ChipTensor* x = reinterpret_cast<ChipTensor*>(args[0]);
    ChipTensor* y = reinterpret_cast<ChipTensor*>(args[1]);
    const float* in = reinterpret_cast<const float*>(x->buffer.addr) + x->start_offset;
    float* out = reinterpret_cast<float*>(y->buffer.addr) + y->start_offset;
    for (uint32_t i = 0; i < x->shapes[0]; ++i) out[i] = FACTOR * in[i];
}
