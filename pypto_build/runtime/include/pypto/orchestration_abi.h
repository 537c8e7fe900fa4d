// C ABI between an orchestration .so and the runtime that executes it.
//
// An orchestration links against nothing: the runtime calls the exported pypto_bind_orchestration() once after loading
// and everything goes through the table it hands over. What each generation of the API wrote down differently (argument
// arrays, argument objects, with or without the runtime handle) arrives here in one form.
#ifndef PYPTO_ORCHESTRATION_ABI_H
#define PYPTO_ORCHESTRATION_ABI_H

#include "pypto/error_codes.h"

#include <stdarg.h>
#include <stdint.h>

#include "tensor.h"

// Marks functions that orchestrations call thousands of times: inlined, they cost half as much memory and compile time
// again, and twice the code.
#define PYPTO_OUT_OF_LINE __attribute__((noinline))

struct PTO2Runtime; // the handle orchestrations of spring 2026 pass around; the runtime's own

enum class TensorArgType : int32_t { INPUT = 0, OUTPUT = 1, INOUT = 2, OUTPUT_EXISTING = 3, NO_DEP = 4 };
enum class PTO2ScopeMode : uint8_t { AUTO = 0, MANUAL = 1 };
enum class PredicateOp : int32_t { NONE = 0, EQ = 1, NE = 2, GT = 3, LT = 4, GE = 5, LE = 6 };
enum DepFlags : uint8_t { DEP_WAIT = 1, DEP_RETAIN = 2 };

/// A tensor that the runtime allocates at submission: shape, element type and, optionally, the initial value.
struct alignas(64) TensorCreateInfo {
    uint64_t initial_value = 0;
    bool has_initial_value = false;
    bool manual_dep = false;
    DataType dtype = DataType::FLOAT32;
    uint32_t ndims = 0;
    int32_t version = 0;
    uint32_t shapes[MAX_TENSOR_DIMS] = {};

    TensorCreateInfo() = default;
    PYPTO_OUT_OF_LINE TensorCreateInfo(const uint32_t create_shapes[], uint32_t create_ndims,
                                       DataType create_dtype = DataType::FLOAT32, bool create_manual_dep = false,
                                       int32_t create_version = 0)
        : manual_dep(create_manual_dep), dtype(create_dtype), ndims(create_ndims), version(create_version) {
        for (uint32_t d = 0; d < create_ndims && d < MAX_TENSOR_DIMS; ++d)
            shapes[d] = create_shapes[d];
    }

    uint64_t buffer_size_bytes() const {
        uint64_t bytes = pypto::element_bytes(dtype);
        for (uint32_t d = 0; d < ndims; ++d)
            bytes *= shapes[d];
        return bytes;
    }
    template <typename T> void set_initial_value(T value) {
        static_assert(sizeof(T) <= sizeof(initial_value), "initial values are scalars of at most 8 bytes");
        initial_value = 0;
        __builtin_memcpy(&initial_value, &value, sizeof(value));
        has_initial_value = true;
    }
};

namespace pypto {

inline constexpr uint32_t kOrchestrationAbi = 5;
inline constexpr AddressSpace kUnallocated = static_cast<AddressSpace>(255); // made without storage
inline constexpr uint32_t kMaxOutputs = 32; // tensors one submission or one alloc_tensors may allocate

/// Initial value of a tensor that was made without storage; kept in the tensor itself until it is allocated.
inline void set_initial_value(ChipTensor &tensor, uint64_t value) {
    tensor.reserved_words[0] = 1;
    __builtin_memcpy(&tensor.reserved_words[1], &value, sizeof(value));
}
inline bool initial_value(const ChipTensor &tensor, uint64_t *value) {
    __builtin_memcpy(value, &tensor.reserved_words[1], sizeof(*value));
    return tensor.reserved_words[0] != 0;
}

/// Names since 2026-08; V0 to V9 are those before, of which V5 was the usual one.
enum class LogLevel : int32_t {
    Debug = 10,
    V0 = 15,
    V1,
    V2,
    V3,
    V4,
    V5,
    V6,
    V7,
    V8,
    V9,
    Info = V5,
    Timing = 25,
    Warn = 30,
    Error = 40,
    None = 60
};

/// One entry of a submission, in the order it was given.
struct ArgEntry {
    enum Kind : uint8_t { TENSOR, CREATE, SCALAR };
    Kind kind;
    uint8_t dump;      // marked for the selective argument dump; 2: by a variable that was added more than once
    DataType dtype;    // scalars only: what the orchestration passed
    TensorArgType tag; // tensors only
    uint64_t value;    // address of a ChipTensor or TensorCreateInfo, or the scalar itself

    ChipTensor *tensor() const { return reinterpret_cast<ChipTensor *>(value); }
    const TensorCreateInfo *create_info() const { return reinterpret_cast<const TensorCreateInfo *>(value); }
};

struct Dependency {
    PTO2TaskId task;
    uint8_t flags; // DepFlags
};

struct PredicateOperand {
    const ChipTensor *tensor = nullptr;
    uint32_t ndims = 0;
    uint32_t indices[MAX_TENSOR_DIMS] = {};
};

struct Predicate {
    PredicateOperand operand;
    PredicateOp op = PredicateOp::NONE;
    int64_t target = 0;
};

/// One task as the orchestration describes it.
struct Submission {
    int32_t kernels[3]; // AIC, AIV0, AIV1; -1 for none
    bool interleaved;   // args[] follows the given order instead of tensors first
    bool require_sync_start;
    bool allow_early_resolve;
    int32_t block_num;   // SPMD blocks
    int32_t timing_slot; // -1: none
    uint32_t arg_count;
    uint32_t dependency_count;
    const ArgEntry *args;
    const Dependency *dependencies;
    uint32_t listed_count; // further dependencies, as parallel arrays
    const PTO2TaskId *listed;
    const uint8_t *listed_flags; // null: wait and retain
    const Predicate *predicate;
    const char *error; // first misuse recorded while the arguments were collected
};

/// Tensors the runtime allocated for a submission, in the order they were asked for.
struct Outputs {
    PTO2TaskId task;
    uint32_t count;
    ChipTensor *tensors[kMaxOutputs];
};

struct Operations {
    uint32_t abi;
    void (*submit)(PTO2Runtime *, const Submission *, Outputs *);
    void (*allocate)(PTO2Runtime *, const ArgEntry *, uint32_t count, Outputs *);
    void (*scope_begin)(PTO2Runtime *, PTO2ScopeMode, const char *file, int line);
    void (*scope_end)(PTO2Runtime *, const char *file, int line);
    void (*read)(PTO2Runtime *, const ChipTensor *, uint32_t ndims, const uint32_t *indices, void *value,
                 uint32_t size);
    void (*write)(PTO2Runtime *, const ChipTensor *, uint32_t ndims, const uint32_t *indices, const void *value,
                  uint32_t size);
    void (*done)(PTO2Runtime *);
    int (*is_fatal)(PTO2Runtime *);
    void (*report_fatal)(PTO2Runtime *, int code, const char *format, va_list);
    void (*log)(PTO2Runtime *, LogLevel, const char *file, int line, const char *format, va_list);
    int (*cluster_count)(PTO2Runtime *);
    int (*aiv_count)(PTO2Runtime *);
    // Ends the orchestration with an invalid-arguments fault; does not return.
    void (*misuse)(PTO2Runtime *, const char *message);
    // Graphs listed task by task.
    int (*graph_task)(PTO2Runtime *, const uint64_t *words, int count, int func_id, bool vector);
    void (*graph_edge)(PTO2Runtime *, int from, int to);
    int (*graph_size)(PTO2Runtime *);
    void (*graph_timing_slot)(PTO2Runtime *, int task, int slot);
    void *(*graph_memory)(PTO2Runtime *, uint64_t bytes);
    void (*graph_result)(PTO2Runtime *, void *host, const void *device, uint64_t bytes);
    // The same for an argument of the entry ("tensor" or "scalar") that there is none of; does not return.
    void (*no_argument)(PTO2Runtime *, const char *kind, int32_t index, int32_t count);
};

/// The runtime's binding of this orchestration. Hidden, so that two orchestrations in one process keep their own.
struct Binding {
    const Operations *ops = nullptr;
    PTO2Runtime *runtime = nullptr;
};
inline __attribute__((visibility("hidden"))) Binding binding;

[[noreturn]] inline void misuse(const char *message) {
    binding.ops->misuse(binding.runtime, message);
    __builtin_unreachable();
}

} // namespace pypto

extern "C" {

/// Called by the runtime after loading. Returns the ABI this orchestration was compiled against.
inline __attribute__((used, visibility("default"))) uint32_t pypto_bind_orchestration(const pypto::Operations *ops,
                                                                                      PTO2Runtime *runtime) {
    pypto::binding.ops = ops;
    pypto::binding.runtime = runtime;
    return pypto::kOrchestrationAbi;
}
}

#endif
