// Stand-in for simpler's header: as much of a tensor as the kernels of the tests look at.
#pragma once
#include <cstdint>

struct Buffer {
    uint64_t addr;
};

struct ChipTensor {
    Buffer buffer;
    uint64_t start_offset;
    uint32_t shapes[5];
};
