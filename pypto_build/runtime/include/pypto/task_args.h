// The arguments of one task, collected before it is submitted.
//
// One class serves every generation: CoreTaskArgs, L0TaskArgs, Arg and PTOParam differ in capacity only. Tensors are
// kept by address, so they must outlive the submission; temporaries are refused at compile time.
#ifndef PYPTO_TASK_ARGS_H
#define PYPTO_TASK_ARGS_H

#include "pypto/entry_args.h"

#include <type_traits>

// An orchestration for both platforms asks for the guard of a5's header, whose setter has another name (pto_types.h of
// its runtime with rings and a tensor map).
#ifdef PYPTO_COUNTS_CORES
#define SRC_A5_RUNTIME_TENSORMAP_AND_RINGBUFFER_RUNTIME_PTO_TYPES_H_
#endif

using CoreTaskPredicate = pypto::Predicate;
using L0TaskPredicate = pypto::Predicate;

/// Number and kind of a task's launches. One setter has the name that the platform and its runtime give it, and no
/// other one does: an orchestration for several platforms may choose by the setter that exists.
struct PTO2LaunchSpec {
    int16_t block_num = 1;
    bool require_sync_start = false;

#ifdef PYPTO_COUNTS_CORES
    void set_core_num(int16_t cores) { block_num = cores; }
    void set_block_num(int16_t blocks) = delete; // this platform calls it set_core_num
#else
    void set_block_num(int16_t blocks) { block_num = blocks; }
    void set_core_num(int16_t cores) = delete; // this platform calls it set_block_num
#endif
    void set_require_sync_start(bool together) { require_sync_start = together; }
};

namespace pypto {

template <typename T> inline constexpr bool kIsLvalue = false;
template <typename T> inline constexpr bool kIsLvalue<T &> = true;

/// The element type a scalar of type T is recorded as; doubles and pointers travel as bits.
template <typename T> constexpr DataType scalar_type() {
    if constexpr (std::is_same_v<T, bool>)
        return DataType::BOOL;
    else if constexpr (std::is_same_v<T, float>)
        return DataType::FLOAT32;
    else if constexpr (!std::is_integral_v<T> || sizeof(T) == 8)
        return std::is_integral_v<T> && std::is_signed_v<T> ? DataType::INT64 : DataType::UINT64;
    else if constexpr (sizeof(T) == 4)
        return std::is_signed_v<T> ? DataType::INT32 : DataType::UINT32;
    else if constexpr (sizeof(T) == 2)
        return std::is_signed_v<T> ? DataType::INT16 : DataType::UINT16;
    else
        return std::is_signed_v<T> ? DataType::INT8 : DataType::UINT8;
}

/// A tensor among a task's arguments.
struct TensorSlot {
    const ChipTensor *tensor;
    const ChipTensor &ref() const { return *tensor; }
};

/// Collects arguments into storage that a derived class provides.
class TaskArgsBase {
public:
    PTO2LaunchSpec launch_spec;

    template <typename... Tensors> PYPTO_OUT_OF_LINE void add_input(Tensors &&...tensors) {
        (add_tensor(TensorArgType::INPUT, static_cast<Tensors &&>(tensors)), ...);
    }
    /// A TensorCreateInfo asks the runtime for a new tensor; a tensor is written in place.
    template <typename... Items> PYPTO_OUT_OF_LINE void add_output(Items &&...items) {
        (add_out(static_cast<Items &&>(items)), ...);
    }
    template <typename... Tensors> PYPTO_OUT_OF_LINE void add_inout(Tensors &&...tensors) {
        (add_tensor(TensorArgType::INOUT, static_cast<Tensors &&>(tensors)), ...);
    }
    template <typename... Tensors> PYPTO_OUT_OF_LINE void add_no_dep(Tensors &&...tensors) {
        (add_tensor(TensorArgType::NO_DEP, static_cast<Tensors &&>(tensors)), ...);
    }
    template <typename... Values> PYPTO_OUT_OF_LINE void add_scalar(Values &&...values) {
        (push_named_scalar(static_cast<Values &&>(values)), ...);
    }
    void add_scalars(const uint64_t *values, int count) {
        for (int i = 0; i < count; ++i)
            push_scalar(values[i], DataType::UINT64);
    }
    void add_scalars_i32(const int32_t *values, int count) {
        for (int i = 0; i < count; ++i)
            push_scalar(static_cast<uint32_t>(values[i]), DataType::INT32);
    }
    void copy_scalars_from(const TaskArgsBase &source, int offset, int count) {
        int scalar = 0;
        for (uint32_t i = 0; i < source.count_; ++i) {
            if (source.entries_[i].kind != ArgEntry::SCALAR)
                continue;
            if (scalar >= offset && scalar < offset + count)
                push_scalar(source.entries_[i].value, source.entries_[i].dtype);
            ++scalar;
        }
        if (scalar < offset + count)
            record_error("copy_scalars_from reaches past the scalars of its source");
    }

    /// Tasks that must be over before this one starts. The arrays must outlive the submission.
    void set_dependencies(const PTO2TaskId *tasks, uint32_t count) {
        set_dependencies_with_kinds(tasks, static_cast<const uint8_t *>(nullptr), count);
    }
    template <typename Kind>
    void set_dependencies_with_kinds(const PTO2TaskId *tasks, const Kind *kinds, uint32_t count) {
        static_assert(sizeof(Kind) == 1, "dependency kinds are bytes of DepFlags");
        if (count != 0 && listed_count_ != 0)
            record_error("set_dependencies is called once a task; collect the task ids in one array");
        if (count != 0 && tasks == nullptr)
            record_error("set_dependencies has a count and no array of task ids");
        listed_ = tasks;
        listed_kinds_ = reinterpret_cast<const uint8_t *>(kinds);
        listed_count_ = tasks ? count : 0;
    }
    template <typename... Ids> void add_dep(Ids... ids) { (push_dependency(ids, DEP_WAIT | DEP_RETAIN), ...); }
    template <typename... Ids> void add_dep_wait(Ids... ids) { (push_dependency(ids, DEP_WAIT), ...); }

    void set_allow_early_resolve(bool allow) { allow_early_resolve_ = allow; }
    void set_predicate(const Predicate &predicate) { predicate_ = predicate; }
    void set_task_timing_slot(int slot) {
        if (slot < 0 || slot > 15)
            record_error("timing slots are 0 to 15");
        timing_slot_ = slot;
    }

    /// Marks arguments for the selective dump: tensors, and scalars by the variables that were added; without
    /// arguments, all of them.
    template <typename... Items> void dump(Items &&...items) {
        static_assert((kIsLvalue<Items> && ...), "name the variable that was added to mark it for the dump");
        if constexpr (sizeof...(Items) == 0) {
            for (uint32_t i = 0; i < count_; ++i)
                entries_[i].dump = 1;
        } else {
            (mark_dump(items), ...);
        }
    }

    /// The i-th tensor and the i-th scalar added, for functions that receive their own arguments this way.
    TensorSlot tensor(int i) const {
        const ArgEntry *entry = nth(i, false);
        if (entry == nullptr || entry->kind != ArgEntry::TENSOR)
            misuse("tensor(i) of a task's arguments is out of range, or an output that is not yet allocated");
        return {entry->tensor()};
    }
    uint64_t scalar(int i) const {
        const ArgEntry *entry = nth(i, true);
        if (entry == nullptr)
            misuse("scalar(i) of a task's arguments is out of range");
        return entry->value;
    }

    bool has_error() const { return error_ != nullptr; }
    const char *error_msg() const { return error_; }
    int tensor_count() const { return static_cast<int>(tensors_); }
    int scalar_count() const { return static_cast<int>(count_ - tensors_); }

    void reset() {
        launch_spec = {};
        predicate_ = {};
        error_ = nullptr;
        count_ = tensors_ = dependency_count_ = listed_count_ = 0;
        timing_slot_ = -1;
        allow_early_resolve_ = false;
    }
    void clear() { reset(); }

    const ArgEntry *entries() const { return entries_; }
    uint32_t count() const { return count_; }

    /// Everything but the kernels.
    Submission describe() const {
        Submission task{};
        task.interleaved = interleaved_;
        task.require_sync_start = launch_spec.require_sync_start;
        task.allow_early_resolve = allow_early_resolve_;
        task.block_num = launch_spec.block_num;
        task.timing_slot = timing_slot_;
        task.arg_count = count_;
        task.dependency_count = dependency_count_;
        task.args = entries_;
        task.dependencies = dependencies_;
        task.listed_count = listed_count_;
        task.listed = listed_;
        task.listed_flags = listed_kinds_;
        task.predicate = predicate_.op == PredicateOp::NONE ? nullptr : &predicate_;
        task.error = error_;
        return task;
    }

protected:
    struct Limits {
        uint32_t tensors;
        uint32_t scalars;
        uint32_t dependencies;
    };

    TaskArgsBase(ArgEntry *entries, const void **variables, Dependency *dependencies, Limits limits)
        : entries_(entries), variables_(variables), dependencies_(dependencies), limits_(limits) {}
    TaskArgsBase(const TaskArgsBase &) = delete;
    TaskArgsBase &operator=(const TaskArgsBase &) = delete;

    void push(const ArgEntry &entry) {
        const bool scalar = entry.kind == ArgEntry::SCALAR;
        if (scalar && count_ - tensors_ >= limits_.scalars)
            return record_error("too many scalars for one task; pack them into a tensor");
        if (!scalar && tensors_ >= limits_.tensors)
            return record_error("too many tensors for one task; split the kernel or pass views of one buffer");
        if (!scalar && !interleaved_ && count_ != tensors_)
            return record_error("a tensor is added after a scalar; add all tensors first");
        entries_[count_++] = entry;
        tensors_ += !scalar;
    }
    void record_error(const char *message) {
        if (!error_)
            error_ = message;
    }

    bool interleaved_ = false;

private:
    template <typename T> void add_tensor(TensorArgType tag, T &&tensor) {
        static_assert(kIsLvalue<T>, "a task keeps its tensors by address: give the view a name before adding it");
        push({ArgEntry::TENSOR, 0, {}, tag, address(tensor)});
    }
    template <typename T> void add_out(T &&item) {
        static_assert(
            kIsLvalue<T>,
            "a task keeps its tensors by address: give the tensor or TensorCreateInfo a name before adding it");
        push_out(item);
    }
    void push_out(const ChipTensor &tensor) {
        push({ArgEntry::TENSOR, 0, {}, TensorArgType::OUTPUT_EXISTING, address(tensor)});
    }
    void push_out(const TensorCreateInfo &info) {
        push({ArgEntry::CREATE, 0, {}, TensorArgType::OUTPUT, reinterpret_cast<uint64_t>(&info)});
    }
    void push_scalar(uint64_t value, DataType dtype, const void *variable = nullptr) {
        const uint32_t scalar = count_ - tensors_;
        push({ArgEntry::SCALAR, 0, dtype, TensorArgType::INPUT, value});
        if (count_ - tensors_ > scalar)
            variables_[scalar] = variable;
    }
    template <typename T> void push_named_scalar(T &&value) {
        using Value = std::remove_cv_t<std::remove_reference_t<T>>;
        const void *variable = nullptr;
        if constexpr (kIsLvalue<T>)
            variable = const_cast<const Value *>(&value);
        push_scalar(to_u64(static_cast<Value>(value)), scalar_type<Value>(), variable);
    }
    void push_dependency(PTO2TaskId task, uint8_t flags) {
        if (dependency_count_ >= limits_.dependencies)
            return record_error("too many explicit dependencies for one task; join them with rt_submit_dummy_task");
        dependencies_[dependency_count_++] = {task, flags};
    }
    void mark_dump(const ChipTensor &tensor) { mark_dump_address(address(tensor)); }
    void mark_dump(const TensorCreateInfo &info) { mark_dump_address(reinterpret_cast<uint64_t>(&info)); }
    void mark_dump_address(uint64_t item) {
        bool found = false;
        for (uint32_t i = 0; i < count_; ++i)
            if (entries_[i].kind != ArgEntry::SCALAR && entries_[i].value == item)
                entries_[i].dump = found = true;
        if (!found)
            record_error("dump(...) names a tensor that was not added; add it first");
    }

    // The first scalar that was added from this variable; more than one cannot be told apart.
    template <typename T> void mark_dump(const T &variable) {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>, "dump(...) takes tensors and scalars");
        ArgEntry *first = nullptr;
        for (uint32_t i = 0, scalar = 0; i < count_; ++i) {
            if (entries_[i].kind != ArgEntry::SCALAR || variables_[scalar++] != &variable)
                continue;
            if (first)
                first->dump = 2;
            else
                (first = &entries_[i])->dump = 1;
        }
        if (first == nullptr)
            record_error("dump(...) names a scalar that was not added from that variable; add it first");
    }
    const ArgEntry *nth(int wanted, bool scalar) const {
        for (uint32_t i = 0; i < count_; ++i)
            if ((entries_[i].kind == ArgEntry::SCALAR) == scalar && wanted-- == 0)
                return &entries_[i];
        return nullptr;
    }

    static uint64_t address(const ChipTensor &tensor) { return reinterpret_cast<uint64_t>(&tensor); }

    ArgEntry *entries_;
    const void **variables_; // that scalars were added from
    Dependency *dependencies_;
    Limits limits_;
    Predicate predicate_;
    const PTO2TaskId *listed_ = nullptr;
    const uint8_t *listed_kinds_ = nullptr;
    uint32_t listed_count_ = 0;
    const char *error_ = nullptr;
    uint32_t count_ = 0;
    uint32_t tensors_ = 0;
    uint32_t dependency_count_ = 0;
    int32_t timing_slot_ = -1;
    bool allow_early_resolve_ = false;
};

/// A task's arguments: at most Tensors tensors, Scalars scalars and Dependencies explicit dependencies.
template <uint32_t Tensors, uint32_t Scalars, uint32_t Dependencies = 16> class TaskArgs : public TaskArgsBase {
public:
    PYPTO_OUT_OF_LINE TaskArgs()
        : TaskArgsBase(entries_, variables_, dependencies_, {Tensors, Scalars, Dependencies}) {}

private:
    ArgEntry entries_[Tensors + Scalars];
    const void *variables_[Scalars];
    Dependency dependencies_[Dependencies];
};

} // namespace pypto

using CoreTaskArgs = pypto::TaskArgs<32, 16>;   // since 2026-08-04
using L0TaskArgs = pypto::TaskArgs<32, 16>;     // 2026-06-23 to 2026-08-03
using Arg = pypto::TaskArgs<32, 128>;           // 2026-03-28 to 2026-06-23
using GraphTaskArgs = pypto::TaskArgs<128, 64>; // graphs of the host_build_graph runtime
template <uint32_t Dependencies = 16> using ArgWithDeps = pypto::TaskArgs<32, 128, Dependencies>;
template <uint32_t Dependencies = 16> using CoreTaskArgsWithDeps = pypto::TaskArgs<32, 16, Dependencies>;
template <uint32_t Dependencies = 16> using L0TaskArgsWithDeps = pypto::TaskArgs<32, 16, Dependencies>;

#endif
