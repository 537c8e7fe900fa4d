// Submitting tasks, allocating tensors, opening scopes: the calls of an orchestration, in the spelling since 2026-05.
#ifndef PYPTO_SUBMIT_H
#define PYPTO_SUBMIT_H

#include "pypto/task_args.h"

#include <stdio.h>

inline constexpr int32_t INVALID_KERNEL_ID = -1;

/// The kernels of one group: a cube core and up to two vector cores that run together.
struct MixedKernels {
    int32_t aic_kernel_id = INVALID_KERNEL_ID;
    int32_t aiv0_kernel_id = INVALID_KERNEL_ID;
    int32_t aiv1_kernel_id = INVALID_KERNEL_ID;
};

/// Names a submitted task and the tensors the runtime allocated for it, valid inside the submitting scope.
class TaskOutputTensors {
public:
    TaskOutputTensors() : outputs_{PTO2TaskId::invalid(), 0, {}} {}

    PYPTO_OUT_OF_LINE ChipTensor &get_ref(uint32_t i) const & {
        if (i >= outputs_.count) {
            char text[128];
            snprintf(text, sizeof(text), "get_ref(%u) is out of range: the runtime allocated %u tensor%s in that call",
                     i, outputs_.count, outputs_.count == 1 ? "" : "s");
            pypto::misuse(text);
        }
        return *outputs_.tensors[i];
    }
    ChipTensor &get_ref(uint32_t i) const && = delete; // name the TaskOutputTensors first
    PTO2TaskId task_id() const { return outputs_.task; }
    uint32_t size() const { return outputs_.count; }
    bool empty() const { return outputs_.count == 0; }

    pypto::Outputs *storage() { return &outputs_; }

private:
    pypto::Outputs outputs_;
};

namespace pypto {

inline TaskOutputTensors submit(const MixedKernels &kernels, const TaskArgsBase &args) {
    Submission task = args.describe();
    task.kernels[0] = kernels.aic_kernel_id;
    task.kernels[1] = kernels.aiv0_kernel_id;
    task.kernels[2] = kernels.aiv1_kernel_id;
    TaskOutputTensors outputs;
    binding.ops->submit(binding.runtime, &task, outputs.storage());
    return outputs;
}

inline TaskOutputTensors allocate(const ArgEntry *entries, uint32_t count) {
    TaskOutputTensors outputs;
    binding.ops->allocate(binding.runtime, entries, count, outputs.storage());
    return outputs;
}

inline ArgEntry create_entry(const TensorCreateInfo &info) {
    return {ArgEntry::CREATE, 0, {}, TensorArgType::OUTPUT, reinterpret_cast<uint64_t>(&info)};
}

/// Opens a scope for its own lifetime.
class ScopeGuard {
public:
    explicit ScopeGuard(const char *file = __builtin_FILE(), int line = __builtin_LINE())
        : ScopeGuard(PTO2ScopeMode::AUTO, file, line) {}
    explicit ScopeGuard(PTO2Runtime *, const char *file = __builtin_FILE(), int line = __builtin_LINE());
    explicit ScopeGuard(PTO2ScopeMode mode, const char *file = __builtin_FILE(), int line = __builtin_LINE())
        : file_(file), line_(line) {
        binding.ops->scope_begin(binding.runtime, mode, file, line);
    }
    ~ScopeGuard() { binding.ops->scope_end(binding.runtime, file_, line_); }
    ScopeGuard(const ScopeGuard &) = delete;
    ScopeGuard &operator=(const ScopeGuard &) = delete;

private:
    const char *file_;
    int line_;
};

} // namespace pypto

PYPTO_OUT_OF_LINE inline TaskOutputTensors rt_submit_aic_task(int32_t kernel_id, const pypto::TaskArgsBase &args) {
    return pypto::submit({kernel_id, INVALID_KERNEL_ID, INVALID_KERNEL_ID}, args);
}
PYPTO_OUT_OF_LINE inline TaskOutputTensors rt_submit_aiv_task(int32_t kernel_id, const pypto::TaskArgsBase &args) {
    return pypto::submit({INVALID_KERNEL_ID, kernel_id, INVALID_KERNEL_ID}, args);
}
PYPTO_OUT_OF_LINE inline TaskOutputTensors rt_submit_task(const MixedKernels &kernels,
                                                          const pypto::TaskArgsBase &args) {
    return pypto::submit(kernels, args);
}
/// A task without a kernel: it only joins dependencies.
PYPTO_OUT_OF_LINE inline TaskOutputTensors rt_submit_dummy_task(const pypto::TaskArgsBase &args) {
    return pypto::submit({}, args);
}

/// Allocates one tensor for each TensorCreateInfo; they live as long as the scope and their readers.
template <typename... Infos> TaskOutputTensors alloc_tensors(const TensorCreateInfo &first, const Infos &...rest) {
    const pypto::ArgEntry entries[] = {pypto::create_entry(first), pypto::create_entry(rest)...};
    return pypto::allocate(entries, 1 + sizeof...(rest));
}
inline TaskOutputTensors alloc_tensors(const TensorCreateInfo infos[], uint32_t count) {
    pypto::ArgEntry entries[pypto::kMaxOutputs];
    if (count > pypto::kMaxOutputs)
        pypto::misuse("alloc_tensors takes at most 32 tensors; allocate the rest in a second call");
    for (uint32_t i = 0; i < count; ++i)
        entries[i] = pypto::create_entry(infos[i]);
    return pypto::allocate(entries, count);
}
inline TaskOutputTensors alloc_tensors(const pypto::TaskArgsBase &args) {
    if (args.has_error())
        pypto::misuse(args.error_msg());
    return pypto::allocate(args.entries(), args.count());
}

inline void rt_scope_begin(PTO2ScopeMode mode = PTO2ScopeMode::AUTO, const char *file = __builtin_FILE(),
                           int line = __builtin_LINE()) {
    pypto::binding.ops->scope_begin(pypto::binding.runtime, mode, file, line);
}
inline void rt_scope_end(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    pypto::binding.ops->scope_end(pypto::binding.runtime, file, line);
}

#define PYPTO_JOIN_(a, b) a##b
#define PYPTO_JOIN(a, b) PYPTO_JOIN_(a, b)
#define PTO2_SCOPE(...) if (const ::pypto::ScopeGuard pypto_scope_guard{__VA_ARGS__}; true)
#define PTO2_SCOPE_GUARD(...)                                                                                          \
    const ::pypto::ScopeGuard PYPTO_JOIN(pypto_scope_guard_, __LINE__) {                                               \
        __VA_ARGS__                                                                                                    \
    }

/// One element of a tensor, after every task that writes it.
template <typename T = uint64_t, typename Index>
T get_tensor_data(const ChipTensor &tensor, uint32_t ndims, const Index indices[]) {
    uint32_t index[MAX_TENSOR_DIMS] = {};
    for (uint32_t d = 0; d < ndims && d < MAX_TENSOR_DIMS; ++d)
        index[d] = static_cast<uint32_t>(indices[d]);
    T value{};
    pypto::binding.ops->read(pypto::binding.runtime, &tensor, ndims, index, &value, sizeof(value));
    return value;
}

/// Sets one element of a tensor, after every task that writes or reads it.
template <typename T, typename Index>
void set_tensor_data(const ChipTensor &tensor, uint32_t ndims, const Index indices[], T value) {
    uint32_t index[MAX_TENSOR_DIMS] = {};
    for (uint32_t d = 0; d < ndims && d < MAX_TENSOR_DIMS; ++d)
        index[d] = static_cast<uint32_t>(indices[d]);
    pypto::binding.ops->write(pypto::binding.runtime, &tensor, ndims, index, &value, sizeof(value));
}

inline int rt_available_cluster_count() {
    return pypto::binding.ops->cluster_count(pypto::binding.runtime);
}
inline int rt_available_aiv_count() {
    return pypto::binding.ops->aiv_count(pypto::binding.runtime);
}
inline bool rt_is_fatal() {
    return pypto::binding.ops->is_fatal(pypto::binding.runtime) != 0;
}
inline void rt_orchestration_done() {
    pypto::binding.ops->done(pypto::binding.runtime);
}
inline PTO2Runtime *current_runtime() {
    return pypto::binding.runtime;
}
__attribute__((format(printf, 2, 3))) inline void rt_report_fatal(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pypto::binding.ops->report_fatal(pypto::binding.runtime, code, format, arguments);
    va_end(arguments);
}

#endif
