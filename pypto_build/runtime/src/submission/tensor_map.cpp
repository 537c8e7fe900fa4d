// Compares the overlap of two views of a buffer.
#include "submission/tensor_map.h"

namespace pypto::runtime {

namespace {

struct ByteRange {
    uint64_t begin;
    uint64_t end;
};

ByteRange byte_range(const ChipTensor &tensor) {
    const uint64_t bytes = element_bytes(tensor.dtype);
    return {tensor.start_offset * bytes, (tensor.start_offset + tensor.extent_elem_cache) * bytes};
}

// Coordinates of a tensor's first element in the row-major grid its strides span; false if they span none.
bool grid_origin(const ChipTensor &tensor, uint64_t origin[]) {
    uint64_t rest = tensor.start_offset;
    for (uint32_t d = 0; d < tensor.ndims; ++d) {
        const uint64_t stride = tensor.strides[d];
        if (stride == 0 || (d + 1 == tensor.ndims && stride != 1))
            return false;
        origin[d] = rest / stride;
        rest %= stride;
        if (d == 0)
            continue;
        const uint64_t outer = tensor.strides[d - 1];
        if (outer % stride != 0 || origin[d] + tensor.shapes[d] > outer / stride)
            return false;
    }
    return true;
}

bool same_grid(const ChipTensor &a, const ChipTensor &b) {
    if (a.ndims != b.ndims || element_bytes(a.dtype) != element_bytes(b.dtype))
        return false;
    for (uint32_t d = 0; d < a.ndims; ++d)
        if (a.strides[d] != b.strides[d])
            return false;
    return true;
}

} // namespace

Overlap compare_regions(const ChipTensor &newer, const ChipTensor &older) {
    const ByteRange a = byte_range(newer);
    const ByteRange b = byte_range(older);
    if (a.begin >= b.end || b.begin >= a.end)
        return Overlap::None;
    uint64_t origin_a[MAX_TENSOR_DIMS];
    uint64_t origin_b[MAX_TENSOR_DIMS];
    if (!same_grid(newer, older) || !grid_origin(newer, origin_a) || !grid_origin(older, origin_b))
        return Overlap::Other;
    bool covered = true;
    for (uint32_t d = 0; d < newer.ndims; ++d) {
        const uint64_t end_a = origin_a[d] + newer.shapes[d];
        const uint64_t end_b = origin_b[d] + older.shapes[d];
        if (origin_a[d] >= end_b || origin_b[d] >= end_a)
            return Overlap::None;
        covered &= origin_a[d] <= origin_b[d] && end_a >= end_b;
    }
    return covered ? Overlap::Covered : Overlap::Other;
}

} // namespace pypto::runtime
