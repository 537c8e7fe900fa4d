// Arguments of an orchestration entry, under every name and in every form since February 2026.
#ifndef PYPTO_ENTRY_ARGS_H
#define PYPTO_ENTRY_ARGS_H

#include "pypto/tensor_views.h"

namespace pypto {

/// A tensor parameter of the entry.
struct EntryTensor : ChipTensor {
    uint64_t data; // address of the first element
    const ChipTensor &ref() const { return *this; }
    ChipTensor to_tensor() const { return *this; }
};

/// The parameters of the entry: tensors and scalars, each in declaration order.
class EntryArgs {
public:
    EntryArgs(const EntryTensor *tensors, int32_t tensor_count, const uint64_t *scalars, int32_t scalar_count)
        : tensors_(tensors), scalars_(scalars), tensor_count_(tensor_count), scalar_count_(scalar_count) {}

    const EntryTensor &tensor(int32_t i) const {
        if (i < 0 || i >= tensor_count_)
            out_of_range("tensor", i, tensor_count_);
        return tensors_[i];
    }
    uint64_t scalar(int32_t i) const {
        if (i < 0 || i >= scalar_count_)
            out_of_range("scalar", i, scalar_count_);
        return scalars_[i];
    }
    int32_t tensor_count() const { return tensor_count_; }
    int32_t scalar_count() const { return scalar_count_; }

private:
    [[noreturn]] static void out_of_range(const char *kind, int32_t i, int32_t count) {
        binding.ops->no_argument(binding.runtime, kind, i, count);
        __builtin_unreachable();
    }

    const EntryTensor *tensors_;
    const uint64_t *scalars_;
    int32_t tensor_count_;
    int32_t scalar_count_;
};

/// A parameter of the entries of March 2026: tensors and scalars in one array, in declaration order.
struct EntryArg {
    enum Kind : int32_t { TENSOR, SCALAR };
    Kind kind;
    uint64_t scalar; // the value, or the address of the tensor's first element
    EntryTensor tensor;

    ChipTensor to_tensor() const;
    template <typename T> T as() const { return from_u64<T>(scalar); }
    template <typename T> T scalar_as() const { return from_u64<T>(scalar); }
    template <typename T> T *data_as() const { return tensor.data_as<T>(); }
    template <typename T> T *data() const;
    uint64_t nbytes() const { return tensor.nbytes(); }
};

} // namespace pypto

using ChipTaskArgs = pypto::EntryArgs;        // since 2026-08-04
using L2TaskArgs = pypto::EntryArgs;          // 2026-06-23 to 2026-08-03
using ChipStorageTaskArgs = pypto::EntryArgs; // 2026-03-28 to 2026-06-23
using OrchArg = pypto::EntryArg;              // 2026-03-24 to 03-26
using TaskArg = pypto::EntryArg;              // 2026-03-26 to 03-28

struct PTO2OrchestrationConfig {
    int expected_arg_count; // tensors + scalars
};

inline ChipTensor from_tensor_arg(const ChipTensor &tensor, bool manual_dep = false, int32_t version = 0) {
    ChipTensor result = tensor;
    result.manual_dep = manual_dep;
    result.version = version;
    return result;
}

// The entry's parameter list is not part of its symbol. An orchestration that takes one of the older lists reveals it
// by what it calls; those functions keep one of these markers in its symbol table.
extern "C" {
inline __attribute__((visibility("default"))) void pypto_entry_takes_runtime() {}
inline __attribute__((visibility("default"))) void pypto_entry_takes_arg_array() {}
inline __attribute__((visibility("default"))) void pypto_entry_takes_words() {}
inline __attribute__((visibility("default"))) void pypto_entry_builds_graph() {}
}

namespace pypto {
inline void keep_marker(void (*marker)()) {
    asm volatile("" ::"r"(marker));
}
} // namespace pypto

inline ChipTensor pypto::EntryArg::to_tensor() const {
    keep_marker(pypto_entry_takes_arg_array);
    return tensor;
}
template <typename T> T *pypto::EntryArg::data() const {
    keep_marker(pypto_entry_takes_arg_array);
    return tensor.data_as<T>();
}
inline ChipTensor from_task_arg(const pypto::EntryArg &arg) {
    return arg.to_tensor();
}

#endif
