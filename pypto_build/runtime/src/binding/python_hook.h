// A Python callable in place of the kernels of every task, and what it sees of a task.
#pragma once

#include "execution/kernel_library.h"
#include "records/observers.h"

#include <pybind11/pybind11.h>

#include <exception>
#include <variant>
#include <vector>

namespace pypto::runtime {

/// One tensor of a task, for Python.
struct TensorArgument {
    ChipTensor tensor;
    const char *direction;
    bool allocated; // by the runtime, for this task
};

/// One scalar of a task: the 64-bit word the kernel gets, and the type the orchestration passed.
struct ScalarArgument {
    uint64_t bits;
    DataType dtype;
};

/// One call of the callable: a task's kernels on one block, or on all blocks when they start together.
struct TaskCall {
    uint64_t number;
    uint64_t task_id;
    int32_t block; // -1: all
    int32_t block_num;
    pybind11::list kernels;                                         // (role, func_id, name)
    std::vector<std::variant<TensorArgument, ScalarArgument>> args; // copies: they outlive the call
    const TaskHook::Kernels *run;                                   // null once the call is over
    const Task *task;
    const Kernel *kernel; // the first
    RankSignals *signals;
};

class PythonHook : public TaskHook {
public:
    PythonHook(pybind11::object callable, const KernelLibrary &kernels)
        : callable_(std::move(callable)), kernels_(kernels) {}

    bool execute(const Task &task, int32_t block, const Kernels &kernels, RankSignals &signals) override;
    /// Throws what the callable raised, if it did. With the interpreter's lock.
    void rethrow() const {
        if (raised_)
            std::rethrow_exception(raised_);
    }

private:
    pybind11::object describe(const Task &task, int32_t block, const Kernels &kernels, RankSignals &signals) const;

    pybind11::object callable_;
    const KernelLibrary &kernels_;
    std::exception_ptr raised_;
};

/// Adds the classes to the module.
void define_hook(pybind11::module_ &module);

} // namespace pypto::runtime
