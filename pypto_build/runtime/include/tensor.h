// The 128-byte tensor descriptor: what a kernel finds behind args[i] and what an orchestration passes around.
//
// One layout serves every generation; `Tensor` and `TensorData` are the names it had before 2026-08. Kernels read
// buffer.addr, start_offset and shapes. The view functions are for orchestrations and are defined in
// pypto/tensor_views.h, so a kernel that includes this file parses little.
#ifndef PYPTO_TENSOR_H
#define PYPTO_TENSOR_H

#include <stdint.h>

#include "pypto/data_type.h"
#include "pypto/task_id.h"

namespace pypto {
struct TensorText;
}

inline constexpr uint32_t MAX_TENSOR_DIMS = 5;
inline constexpr uint32_t RUNTIME_MAX_TENSOR_DIMS = MAX_TENSOR_DIMS; // its name in spring 2026

enum class AddressSpace : uint8_t { HOST = 0, DEVICE = 1 };

struct TensorBuffer {
    uint64_t addr; // bytes address
    uint64_t size; // bytes of the whole allocation
};

struct alignas(64) ChipTensor {
    TensorBuffer buffer;
    PTO2TaskId owner_task_id; // task that allocated the buffer; invalid for tensors from outside
    uint64_t start_offset;    // elements from buffer.addr
    int32_t version;
    uint32_t ndims;
    DataType dtype;
    bool manual_dep; // true: the runtime tracks no reads or writes of it
    bool is_contiguous;
    AddressSpace address_space;
    uint32_t shapes[MAX_TENSOR_DIMS];
    uint64_t extent_elem_cache; // elements from the first to one past the last addressed
    uint32_t strides[MAX_TENSOR_DIMS];
    uint32_t reserved_words[9];

    ChipTensor() = default;
    /// A rectangle of a row-major buffer, as orchestrations of spring 2026 make it (pypto/spring_api.h). With the two
    /// sizes of a matrix exchanged in `raw_shapes` it is column-major. The flags were shortcuts of its layout then.
    template <typename Count>
    ChipTensor(void *addr, uint64_t bytes, const Count raw_shapes[], const Count view_shapes[], const Count offsets[],
               uint64_t dims, DataType type, int32_t number = 0, bool no_offsets = false, bool whole = false);

    uint64_t numel() const {
        uint64_t count = 1;
        for (uint32_t d = 0; d < ndims; ++d)
            count *= shapes[d];
        return count;
    }
    uint64_t nbytes() const { return numel() * pypto::element_bytes(dtype); }
    uint64_t extent_elem() const { return extent_elem_cache; }
    bool is_valid() const { return ndims > 0; }

    /// Address of the first element.
    template <typename T> T *data_as() const {
        return reinterpret_cast<T *>(buffer.addr + start_offset * pypto::element_bytes(dtype));
    }

    ChipTensor view(const uint32_t view_shapes[], const uint32_t view_offsets[], bool view_manual_dep = false) const;
    template <typename Count>
    ChipTensor view(const Count view_shapes[], const Count view_offsets[], bool view_manual_dep = false) const {
        uint32_t narrow[2][MAX_TENSOR_DIMS] = {};
        for (uint32_t d = 0; d < ndims; ++d) {
            narrow[0][d] = static_cast<uint32_t>(view_shapes[d]);
            narrow[1][d] = static_cast<uint32_t>(view_offsets[d]);
        }
        return view(static_cast<const uint32_t *>(narrow[0]), static_cast<const uint32_t *>(narrow[1]),
                    view_manual_dep);
    }
    template <uint32_t Dims>
    ChipTensor view(const uint64_t (&&view_shapes)[Dims], const uint64_t (&&view_offsets)[Dims]) const {
        return view<uint64_t>(view_shapes, view_offsets, false);
    }
    ChipTensor reshape(const uint32_t new_shapes[], uint32_t new_ndims, bool new_manual_dep = false) const;
    ChipTensor transpose(uint32_t x, uint32_t y, bool new_manual_dep = false) const;
    ChipTensor permute(const uint32_t order[]) const;
    ChipTensor slice(uint32_t dim, uint32_t start, uint32_t end, uint32_t step = 1) const;
    pypto::TensorText dump() const; // for a log line
};

static_assert(sizeof(ChipTensor) == 128, "tensor descriptors are 128 bytes");
static_assert(__builtin_offsetof(ChipTensor, owner_task_id) == 16 &&
                  __builtin_offsetof(ChipTensor, start_offset) == 24 && __builtin_offsetof(ChipTensor, dtype) == 40 &&
                  __builtin_offsetof(ChipTensor, shapes) == 44 &&
                  __builtin_offsetof(ChipTensor, extent_elem_cache) == 64 &&
                  __builtin_offsetof(ChipTensor, strides) == 72,
              "tensor descriptor layout");

using Tensor = ChipTensor;
using TensorData = ChipTensor;

#endif
