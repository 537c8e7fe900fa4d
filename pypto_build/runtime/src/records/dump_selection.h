// The selection of tasks and arguments for a dump.
#pragma once

#include "execution/kernel_library.h"
#include "graph/task.h"

#include <string>
#include <utility>
#include <vector>

namespace pypto::runtime {

class DumpSelection {
public:
    /// `arguments`: KERNEL or KERNEL:INDEX, where KERNEL may hold * and ?, and INDEX counts as in args[] with tensors
    /// first. `tasks`: N or N-M by number, or 0xID. An empty list selects everything. Throws FaultError.
    DumpSelection(const std::vector<std::string> &arguments, const std::vector<std::string> &tasks);

    bool task(const Task &task) const;
    /// Returns whether argument `slot` of a task is selected by one of its kernels.
    bool argument(const Task &task, uint32_t slot, const KernelLibrary &kernels) const;

private:
    static constexpr int kEvery = -1;
    struct Argument {
        std::string kernel;
        int slot;
    };
    std::vector<Argument> arguments_;
    std::vector<std::pair<uint64_t, uint64_t>> numbers_; // from, to
    std::vector<uint64_t> ids_;
};

} // namespace pypto::runtime
