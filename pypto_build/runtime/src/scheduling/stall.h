// Says why nothing can run although tasks are left. All of it is called under the scheduler's lock.
#pragma once

#include "base/fault.h"
#include "execution/kernel_library.h"
#include "graph/task_graph.h"

namespace pypto::runtime {

/// Adds where every task is.
void add_occupancy(Fault &fault, const TaskGraph &graph, bool orchestration_done);

/// The task that was over last.
struct LastOver {
    uint64_t number = kNoNumber; // there was none yet
    int32_t kernels[3] = {-1, -1, -1};
    int64_t ns = 0; // CLOCK_MONOTONIC
};

/// A fault of this kind: the unfinished tasks, what each waits for, and what was over last.
Fault stall_fault(FaultKind kind, std::initializer_list<FaultField> facts, const TaskGraph &graph,
                  const KernelLibrary &kernels, const LastOver &last, bool orchestration_done);
/// The given order names a task that cannot come next.
Fault broken_order_fault(const TaskGraph &graph, uint64_t awaited);

} // namespace pypto::runtime
