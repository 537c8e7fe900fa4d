// Making tensors and looking at parts of them: shape arithmetic on descriptors, no data moves.
#ifndef PYPTO_TENSOR_VIEWS_H
#define PYPTO_TENSOR_VIEWS_H

#include "pypto/orchestration_abi.h"

#include <stdarg.h>
#include <stdio.h>

namespace pypto {

inline uint64_t extent_of(const ChipTensor &tensor) {
    uint64_t extent = 1;
    for (uint32_t d = 0; d < tensor.ndims; ++d) {
        if (tensor.shapes[d] == 0)
            return 0;
        extent += static_cast<uint64_t>(tensor.shapes[d] - 1) * tensor.strides[d];
    }
    return extent;
}

inline bool is_row_major(const ChipTensor &tensor) {
    uint64_t expected = 1;
    for (uint32_t d = tensor.ndims; d-- > 0;) {
        if (tensor.shapes[d] != 1 && tensor.strides[d] != expected)
            return false;
        expected *= tensor.shapes[d];
    }
    return true;
}

inline ChipTensor &refresh(ChipTensor &tensor) {
    tensor.extent_elem_cache = extent_of(tensor);
    tensor.is_contiguous = is_row_major(tensor);
    return tensor;
}

inline void set_row_major(ChipTensor &tensor, const uint32_t shapes[], uint32_t ndims) {
    tensor.ndims = ndims;
    uint64_t stride = 1;
    for (uint32_t d = ndims; d-- > 0;) {
        tensor.shapes[d] = shapes[d];
        tensor.strides[d] = static_cast<uint32_t>(stride);
        stride *= shapes[d] ? shapes[d] : 1;
    }
    refresh(tensor);
}

inline void check_dims(uint32_t ndims) {
    if (ndims == 0 || ndims > MAX_TENSOR_DIMS)
        misuse("a tensor has 1 to 5 dimensions; give scalars the shape {1}");
}

/// "[64, 128]", for messages.
struct SizesText {
    char text[64];
    SizesText(const uint32_t sizes[], uint32_t count) {
        int length = snprintf(text, sizeof(text), "[");
        for (uint32_t d = 0; d < count && d < MAX_TENSOR_DIMS; ++d)
            length += snprintf(text + length, sizeof(text) - static_cast<size_t>(length), d ? ", %u" : "%u", sizes[d]);
        snprintf(text + length, sizeof(text) - static_cast<size_t>(length), "]");
    }
};

/// Ends the run with "OPERATION of [64, 128] " and what is wrong with it, in printf's words.
[[noreturn]] __attribute__((noinline, cold, format(printf, 3, 4))) inline void
misuse_of(const ChipTensor &tensor, const char *operation, const char *pattern, ...) {
    char text[256];
    const int length =
        snprintf(text, sizeof(text), "%s of %s ", operation, SizesText(tensor.shapes, tensor.ndims).text);
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(text + length, sizeof(text) - static_cast<size_t>(length), pattern, arguments);
    va_end(arguments);
    misuse(text);
}

inline void check_axis(const ChipTensor &tensor, uint32_t axis, const char *operation) {
    if (axis >= tensor.ndims)
        misuse_of(tensor, operation, "names dimension %u; the tensor has %u", axis, tensor.ndims);
}

} // namespace pypto

inline ChipTensor ChipTensor::view(const uint32_t view_shapes[], const uint32_t view_offsets[],
                                   bool view_manual_dep) const {
    ChipTensor result = *this;
    // The spelling of a column-major matrix in spring 2026: its two sizes exchanged.
    if (ndims == 2 && view_shapes[0] == shapes[1] && view_shapes[1] == shapes[0] && shapes[0] != shapes[1] &&
        view_offsets[0] == 0 && view_offsets[1] == 0)
        return transpose(0, 1, view_manual_dep);
    bool empty = false;
    for (uint32_t d = 0; d < ndims; ++d)
        empty |= view_shapes[d] == 0;
    for (uint32_t d = 0; d < ndims; ++d) {
        if (!empty && (view_offsets[d] > shapes[d] || view_shapes[d] > shapes[d] - view_offsets[d]))
            pypto::misuse_of(
                *this, "view",
                "reaches outside it: offset %u + %u of %u in dimension %u; clamp its shape to what is left "
                "after the offset",
                view_offsets[d], view_shapes[d], shapes[d], d);
        result.shapes[d] = view_shapes[d];
        result.start_offset += static_cast<uint64_t>(view_offsets[d]) * strides[d];
    }
    result.manual_dep = view_manual_dep;
    return pypto::refresh(result);
}

inline ChipTensor ChipTensor::reshape(const uint32_t new_shapes[], uint32_t new_ndims, bool new_manual_dep) const {
    pypto::check_dims(new_ndims);
    if (!is_contiguous)
        pypto::misuse_of(*this, "reshape", "needs a contiguous tensor; copy the view into a tensor of its own first");
    uint64_t count = 1;
    for (uint32_t d = 0; d < new_ndims; ++d)
        count *= new_shapes[d];
    if (count != numel())
        pypto::misuse_of(*this, "reshape", "to %s changes the number of elements: %llu to %llu",
                         pypto::SizesText(new_shapes, new_ndims).text, static_cast<unsigned long long>(numel()),
                         static_cast<unsigned long long>(count));
    ChipTensor result = *this;
    pypto::set_row_major(result, new_shapes, new_ndims);
    result.manual_dep = new_manual_dep;
    return result;
}

inline ChipTensor ChipTensor::transpose(uint32_t x, uint32_t y, bool new_manual_dep) const {
    pypto::check_axis(*this, x > y ? x : y, "transpose");
    ChipTensor result = *this;
    result.shapes[x] = shapes[y];
    result.shapes[y] = shapes[x];
    result.strides[x] = strides[y];
    result.strides[y] = strides[x];
    result.manual_dep = new_manual_dep;
    return pypto::refresh(result);
}

inline ChipTensor ChipTensor::permute(const uint32_t order[]) const {
    ChipTensor result = *this;
    result.manual_dep = false;
    uint32_t seen = 0;
    for (uint32_t d = 0; d < ndims; ++d) {
        pypto::check_axis(*this, order[d], "permute");
        seen |= 1u << order[d];
        result.shapes[d] = shapes[order[d]];
        result.strides[d] = strides[order[d]];
    }
    if (seen != (1u << ndims) - 1)
        pypto::misuse_of(*this, "permute", "by %s does not name each dimension once",
                         pypto::SizesText(order, ndims).text);
    return pypto::refresh(result);
}

inline ChipTensor ChipTensor::slice(uint32_t dim, uint32_t start, uint32_t end, uint32_t step) const {
    pypto::check_axis(*this, dim, "slice");
    if (step == 0 || start > end || end > shapes[dim])
        pypto::misuse_of(*this, "slice",
                         "from %u to %u by %u in dimension %u: give start <= end <= %u and a positive step", start, end,
                         step, dim, shapes[dim]);
    ChipTensor result = *this;
    result.start_offset += static_cast<uint64_t>(start) * strides[dim];
    result.shapes[dim] = (end - start + step - 1) / step;
    result.strides[dim] = strides[dim] * step;
    result.manual_dep = false;
    return pypto::refresh(result);
}

namespace pypto {

/// The result of ChipTensor::dump(); turns into any string class.
struct TensorText {
    char text[256];
    const char *c_str() const { return text; }
    template <typename String> operator String() const { return String(static_cast<const char *>(text)); }
};

} // namespace pypto

inline pypto::TensorText ChipTensor::dump() const {
    pypto::TensorText result;
    int length =
        snprintf(result.text, sizeof(result.text), "%s at 0x%llx + %llu, shape (strides):", get_dtype_name(dtype),
                 static_cast<unsigned long long>(buffer.addr), static_cast<unsigned long long>(start_offset));
    for (uint32_t d = 0; d < ndims && d < MAX_TENSOR_DIMS; ++d)
        length += snprintf(result.text + length, sizeof(result.text) - static_cast<size_t>(length), " %u (%u)",
                           shapes[d], strides[d]);
    return result;
}

/// A tensor over memory from outside the runtime: row-major, `shapes` in elements.
inline ChipTensor make_tensor_external(void *addr, const uint32_t shapes[], uint32_t ndims,
                                       DataType dtype = DataType::FLOAT32, bool manual_dep = false, int32_t version = 0,
                                       AddressSpace space = AddressSpace::HOST) {
    pypto::check_dims(ndims);
    ChipTensor tensor{};
    tensor.buffer.addr = reinterpret_cast<uint64_t>(addr);
    tensor.owner_task_id = PTO2TaskId::invalid();
    tensor.version = version;
    tensor.dtype = dtype;
    tensor.manual_dep = manual_dep;
    tensor.address_space = space;
    pypto::set_row_major(tensor, shapes, ndims);
    tensor.buffer.size = tensor.nbytes();
    return tensor;
}

/// Lays the tensor that `info` describes over given memory.
inline void init_tensor_from_create_info(ChipTensor &tensor, const TensorCreateInfo &info, void *addr, uint64_t size) {
    tensor = make_tensor_external(addr, info.shapes, info.ndims, info.dtype, info.manual_dep, info.version,
                                  AddressSpace::DEVICE);
    tensor.buffer.size = size;
}

/// As make_tensor_external, with strides in elements.
inline ChipTensor make_tensor_strided(void *addr, const uint32_t shapes[], const uint32_t strides[], uint32_t ndims,
                                      DataType dtype = DataType::FLOAT32, bool manual_dep = false, int32_t version = 0,
                                      AddressSpace space = AddressSpace::HOST) {
    ChipTensor tensor = make_tensor_external(addr, shapes, ndims, dtype, manual_dep, version, space);
    for (uint32_t d = 0; d < ndims; ++d)
        tensor.strides[d] = strides[d];
    pypto::refresh(tensor);
    tensor.buffer.size = tensor.extent_elem_cache * pypto::element_bytes(dtype);
    return tensor;
}

#endif
