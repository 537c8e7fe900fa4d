// Tasks that run only if an element of a tensor compares as asked.
#pragma once

#include "pypto/orchestration_abi.h"

namespace pypto::runtime {

/// Address of one element of a tensor.
inline uint8_t *element_address(const ChipTensor &tensor, uint32_t ndims, const uint32_t *indices) {
    uint64_t offset = tensor.start_offset;
    for (uint32_t d = 0; d < ndims && d < tensor.ndims; ++d)
        offset += static_cast<uint64_t>(indices[d]) * tensor.strides[d];
    return reinterpret_cast<uint8_t *>(tensor.buffer.addr) + offset * element_bytes(tensor.dtype);
}

bool predicate_holds(const Predicate &predicate, const ChipTensor &tensor);

} // namespace pypto::runtime
