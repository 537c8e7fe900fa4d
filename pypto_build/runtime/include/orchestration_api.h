// The first API of the host_build_graph runtime (until 2026-07 on a2a3, 2026-08 on a5): tasks and edges are listed one
// by one, kernels receive raw addresses and scalars, and everything runs after the function has returned 0. Until
// 2026-04-03 its calls are methods.
#ifndef PYPTO_ORCHESTRATION_API_H
#define PYPTO_ORCHESTRATION_API_H

#include "pypto/entry_args.h"

#include <stddef.h>

enum class CoreType : int32_t { AIC = 0, AIV = 1 };
using OrchestrationRuntime = PTO2Runtime;

/// Adds a task whose kernel sees exactly these words; returns its number.
inline int add_task(OrchestrationRuntime *rt, uint64_t *args, int num_args, int func_id, CoreType core_type) {
    pypto::keep_marker(pypto_entry_builds_graph);
    return pypto::binding.ops->graph_task(rt, args, num_args, func_id, core_type == CoreType::AIV);
}
/// Makes task `to` wait for task `from`.
inline void add_successor(OrchestrationRuntime *rt, int from, int to) {
    pypto::binding.ops->graph_edge(rt, from, to);
}
inline int get_task_count(OrchestrationRuntime *rt) {
    return pypto::binding.ops->graph_size(rt);
}
inline void set_task_timing_slot(OrchestrationRuntime *rt, int task, int slot) {
    pypto::binding.ops->graph_timing_slot(rt, task, slot);
}
inline void print_runtime(OrchestrationRuntime *) {}

/// Memory that lives until the run is over.
inline void *device_malloc(OrchestrationRuntime *rt, size_t size) {
    pypto::keep_marker(pypto_entry_builds_graph);
    return pypto::binding.ops->graph_memory(rt, size);
}
inline void device_free(OrchestrationRuntime *, void *) {}
inline int copy_to_device(OrchestrationRuntime *, void *device, const void *host, size_t size) {
    __builtin_memcpy(device, host, size);
    return 0;
}
inline int copy_from_device(OrchestrationRuntime *, void *host, const void *device, size_t size) {
    __builtin_memcpy(host, device, size);
    return 0;
}
/// Copies `device` back to `host` when every task is over.
inline void record_tensor_pair(OrchestrationRuntime *rt, void *host, void *device, size_t size) {
    pypto::binding.ops->graph_result(rt, host, device, size);
}

// Tensor descriptions served the argument dump only.
using TensorInfo = ChipTensor;
inline TensorInfo make_tensor_info_from_tensor_arg(const ChipTensor &tensor) {
    return tensor;
}
template <typename... Info> void set_tensor_info_to_task(OrchestrationRuntime *, int, const Info &...) {}
template <typename... Info>
int add_task_with_tensor_info(OrchestrationRuntime *rt, uint64_t *args, int num_args, int func_id, CoreType core_type,
                              const Info &...) {
    return add_task(rt, args, num_args, func_id, core_type);
}

/// The calls above as orchestrations until 2026-04-03 write them. The object behind it is another: nothing is read.
class Runtime {
public:
    struct HostApi {
        static void *device_malloc(size_t size) { return ::device_malloc(pypto::binding.runtime, size); }
        static void device_free(void *) {}
        static int copy_to_device(void *device, const void *host, size_t size) {
            return ::copy_to_device(pypto::binding.runtime, device, host, size);
        }
        static int copy_from_device(void *host, const void *device, size_t size) {
            return ::copy_from_device(pypto::binding.runtime, host, device, size);
        }
    };
    HostApi host_api;

    int add_task(uint64_t *args, int num_args, int func_id, CoreType core_type = CoreType::AIC) {
        return ::add_task(pypto::binding.runtime, args, num_args, func_id, core_type);
    }
    void add_successor(int from, int to) { ::add_successor(pypto::binding.runtime, from, to); }
    int get_task_count() const { return ::get_task_count(pypto::binding.runtime); }
    void record_tensor_pair(void *host, void *device, size_t size) {
        ::record_tensor_pair(pypto::binding.runtime, host, device, size);
    }
    void print_runtime() const {}
};

#endif
