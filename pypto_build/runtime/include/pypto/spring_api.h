// The orchestration API of February to May 2026: pto2_ names, the runtime handle in front, parameters as arrays or as
// PTOParam objects, intermediate tensors made without storage. Adaptors over pypto/submit.h.
#ifndef PYPTO_SPRING_API_H
#define PYPTO_SPRING_API_H

#include "pypto/graph_api.h"
#include "pypto/log.h"
#include "pypto/submit.h"

#define debug_assert(condition) ((void)sizeof(!(condition)))
#define always_assert(condition) ((condition) ? (void)0 : ::pypto::misuse("always_assert(" #condition ") fails"))

enum PTO2WorkerType : int32_t { PTO2_WORKER_CUBE = 0, PTO2_WORKER_VECTOR = 1 };

/// One parameter in an array of them (February), or all parameters of a task (from 2026-03-17).
class PTOParam : public pypto::TaskArgs<32, 128> {
public:
    PTOParam() = default;
    PTOParam(const PTOParam &other) : TaskArgs() { append(other); }
    PTOParam &operator=(const PTOParam &other) {
        if (this != &other) {
            reset();
            append(other);
        }
        return *this;
    }

    /// The parameters of an array, passed to the kernel in that order.
    PTOParam(const PTOParam params[], int count) {
        interleaved_ = true;
        for (int i = 0; i < count; ++i)
            append(params[i]);
    }

    using TaskArgs::add_output;
    /// A tensor without storage whose elements start with the low bytes of `value`: 2026-03-27 and 28.
    template <typename Value> std::enable_if_t<std::is_integral_v<Value>> add_output(ChipTensor &tensor, Value value) {
        add_output(tensor);
        if (tensor.address_space != pypto::kUnallocated)
            return record_error("add_output with an initial value takes a tensor without storage; use add_inout");
        pypto::set_initial_value(tensor, static_cast<uint64_t>(value));
    }

private:
    void append(const PTOParam &other) {
        for (uint32_t i = 0; i < other.count(); ++i)
            push(other.entries()[i]);
        launch_spec = other.launch_spec;
        if (other.has_error())
            record_error(other.error_msg());
    }
};

inline PTOParam make_input_param(const ChipTensor &tensor) {
    PTOParam param;
    param.add_input(tensor);
    return param;
}
inline PTOParam make_output_param(const ChipTensor &tensor) {
    PTOParam param;
    param.add_output(tensor);
    return param;
}
inline PTOParam make_inout_param(const ChipTensor &tensor) {
    PTOParam param;
    param.add_inout(tensor);
    return param;
}
template <typename T> PTOParam make_scalar_param(T value) {
    PTOParam param;
    param.add_scalar(value);
    return param;
}

template <typename Count>
ChipTensor::ChipTensor(void *addr, uint64_t bytes, const Count raw_shapes[], const Count view_shapes[],
                       const Count offsets[], uint64_t dims, DataType type, int32_t number, bool, bool)
    : ChipTensor() {
    *this = {};
    pypto::check_dims(static_cast<uint32_t>(dims));
    const bool exchanged = dims == 2 && raw_shapes[0] == view_shapes[1] && raw_shapes[1] == view_shapes[0];
    buffer = {reinterpret_cast<uint64_t>(addr), bytes};
    owner_task_id = PTO2TaskId::invalid();
    version = number;
    ndims = static_cast<uint32_t>(dims);
    dtype = type;
    address_space = addr ? AddressSpace::HOST : pypto::kUnallocated;
    uint64_t stride = 1;
    for (uint32_t i = 0; i < ndims; ++i) {
        const uint32_t d = exchanged ? i : ndims - 1 - i;
        shapes[d] = static_cast<uint32_t>(view_shapes[d]);
        strides[d] = static_cast<uint32_t>(stride);
        start_offset += offsets[d] * stride;
        stride *= exchanged ? view_shapes[d] : raw_shapes[d];
    }
    pypto::refresh(*this);
}

/// A tensor without storage: the runtime allocates it when a task first writes it.
inline ChipTensor make_tensor(const uint32_t shapes[], uint32_t ndims, DataType dtype = DataType::FLOAT32,
                              bool manual_dep = false, int32_t version = 0) {
    ChipTensor tensor = make_tensor_external(nullptr, shapes, ndims, dtype, manual_dep, version);
    tensor.address_space = pypto::kUnallocated;
    return tensor;
}
template <typename Shape> ChipTensor make_tensor(const Shape shapes[], uint32_t ndims, DataType dtype) {
    uint32_t narrow[MAX_TENSOR_DIMS] = {};
    pypto::check_dims(ndims);
    for (uint32_t d = 0; d < ndims; ++d)
        narrow[d] = static_cast<uint32_t>(shapes[d]);
    return make_tensor(narrow, ndims, dtype);
}
template <typename Shape>
ChipTensor make_tensor_external(void *addr, const Shape shapes[], uint32_t ndims, DataType dtype = DataType::FLOAT32) {
    uint32_t narrow[MAX_TENSOR_DIMS] = {};
    pypto::check_dims(ndims);
    for (uint32_t d = 0; d < ndims; ++d)
        narrow[d] = static_cast<uint32_t>(shapes[d]);
    return make_tensor_external(addr, narrow, ndims, dtype);
}
/// One-dimensional tensors of early February, measured in bytes.
inline ChipTensor make_tensor_external(void *addr, uint64_t bytes, DataType dtype = DataType::FLOAT32) {
    const uint32_t shape[1] = {static_cast<uint32_t>(bytes / pypto::element_bytes(dtype))};
    return make_tensor_external(addr, shape, 1, dtype);
}
inline ChipTensor make_tensor(uint64_t bytes, DataType dtype = DataType::FLOAT32) {
    const uint32_t shape[1] = {static_cast<uint32_t>(bytes / pypto::element_bytes(dtype))};
    return make_tensor(shape, 1, dtype);
}

// --- without the runtime handle: 2026-03-22 to 2026-05 ---

inline TaskOutputTensors pto2_rt_submit_aic_task(int32_t kernel_id, const pypto::TaskArgsBase &args) {
    return rt_submit_aic_task(kernel_id, args);
}
inline TaskOutputTensors pto2_rt_submit_aiv_task(int32_t kernel_id, const pypto::TaskArgsBase &args) {
    return rt_submit_aiv_task(kernel_id, args);
}
inline TaskOutputTensors pto2_rt_submit_task(const MixedKernels &kernels, const pypto::TaskArgsBase &args) {
    return rt_submit_task(kernels, args);
}
// PTOParam objects without the handle: the entry takes (uint64_t *args, int arg_count, …).
inline TaskOutputTensors pto2_rt_submit_aic_task(int32_t kernel_id, const PTOParam &args) {
    pypto::keep_marker(pypto_entry_takes_words);
    return rt_submit_aic_task(kernel_id, args);
}
inline TaskOutputTensors pto2_rt_submit_aiv_task(int32_t kernel_id, const PTOParam &args) {
    pypto::keep_marker(pypto_entry_takes_words);
    return rt_submit_aiv_task(kernel_id, args);
}
inline TaskOutputTensors pto2_rt_submit_task(const MixedKernels &kernels, const PTOParam &args) {
    pypto::keep_marker(pypto_entry_takes_words);
    return rt_submit_task(kernels, args);
}
#define pto2_rt_report_fatal(...) rt_report_fatal(__VA_ARGS__)
inline bool pto2_rt_is_fatal() {
    return rt_is_fatal();
}
inline void enable_dump_tensor_selective() {} // the dump level decides
inline void pto2_rt_scope_begin() {
    rt_scope_begin();
}
inline void pto2_rt_scope_end() {
    rt_scope_end();
}
inline void pto2_rt_orchestration_done() {
    rt_orchestration_done();
}

// --- with the runtime handle in front: until 2026-03-22 ---

inline pypto::ScopeGuard::ScopeGuard(PTO2Runtime *, const char *file, int line)
    : ScopeGuard(PTO2ScopeMode::AUTO, file, line) {
    keep_marker(pypto_entry_takes_runtime);
}

namespace pypto {

inline MixedKernels one_kernel(PTO2WorkerType worker, int32_t kernel_id) {
    return worker == PTO2_WORKER_CUBE ? MixedKernels{kernel_id, INVALID_KERNEL_ID, INVALID_KERNEL_ID}
                                      : MixedKernels{INVALID_KERNEL_ID, kernel_id, INVALID_KERNEL_ID};
}

inline TaskOutputTensors submit_with_handle(const MixedKernels &kernels, const TaskArgsBase &args) {
    keep_marker(pypto_entry_takes_runtime);
    return submit(kernels, args);
}

} // namespace pypto

inline TaskOutputTensors pto2_rt_submit_task(PTO2Runtime *, int32_t kernel_id, PTO2WorkerType worker, const char *,
                                             const PTOParam params[], int count) {
    return pypto::submit_with_handle(pypto::one_kernel(worker, kernel_id), PTOParam(params, count));
}
inline TaskOutputTensors pto2_rt_submit_task(PTO2Runtime *, int32_t kernel_id, PTO2WorkerType worker,
                                             const PTOParam params[], int count) {
    return pypto::submit_with_handle(pypto::one_kernel(worker, kernel_id), PTOParam(params, count));
}
inline TaskOutputTensors pto2_rt_submit_task(PTO2Runtime *, const MixedKernels &kernels, const PTOParam params[],
                                             int count) {
    return pypto::submit_with_handle(kernels, PTOParam(params, count));
}
inline TaskOutputTensors pto2_rt_submit_aic_task(PTO2Runtime *, int32_t kernel_id, const PTOParam params[], int count) {
    return pypto::submit_with_handle(pypto::one_kernel(PTO2_WORKER_CUBE, kernel_id), PTOParam(params, count));
}
inline TaskOutputTensors pto2_rt_submit_aiv_task(PTO2Runtime *, int32_t kernel_id, const PTOParam params[], int count) {
    return pypto::submit_with_handle(pypto::one_kernel(PTO2_WORKER_VECTOR, kernel_id), PTOParam(params, count));
}
inline TaskOutputTensors pto2_rt_submit_task(PTO2Runtime *, const MixedKernels &kernels,
                                             const pypto::TaskArgsBase &args) {
    return pypto::submit_with_handle(kernels, args);
}
inline TaskOutputTensors pto2_rt_submit_aic_task(PTO2Runtime *, int32_t kernel_id, const pypto::TaskArgsBase &args) {
    return pypto::submit_with_handle(pypto::one_kernel(PTO2_WORKER_CUBE, kernel_id), args);
}
inline TaskOutputTensors pto2_rt_submit_aiv_task(PTO2Runtime *, int32_t kernel_id, const pypto::TaskArgsBase &args) {
    return pypto::submit_with_handle(pypto::one_kernel(PTO2_WORKER_VECTOR, kernel_id), args);
}
inline void pto2_rt_init_tensor_pool(PTO2Runtime *) {
    pypto::keep_marker(pypto_entry_takes_runtime);
}
inline void pto2_rt_scope_begin(PTO2Runtime *) {
    pypto::keep_marker(pypto_entry_takes_runtime);
    rt_scope_begin();
}
inline void pto2_rt_scope_end(PTO2Runtime *) {
    rt_scope_end();
}
inline void pto2_rt_orchestration_done(PTO2Runtime *) {
    pypto::keep_marker(pypto_entry_takes_runtime);
    rt_orchestration_done();
}
inline bool pto2_rt_is_fatal(PTO2Runtime *) {
    return rt_is_fatal();
}

#endif
