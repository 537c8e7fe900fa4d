// Explains why nothing can run although tasks are left.
#pragma once

#include "execution/executor.h"
#include "graph/task_graph.h"

namespace pypto::runtime {

/// Where every task is, in the words of simpler's own line, so that its documentation applies.
std::string occupancy(const TaskGraph &graph, const char *sub_class, bool orchestration_done);

/// A fault of kind "hang": the unfinished tasks, what each waits for, and the likely cause. Under the scheduler's lock.
Fault describe_stall(const TaskGraph &graph, const KernelLibrary &kernels, bool orchestration_done);
/// A fault of kind "usage_error": the given order names a task that cannot come next. Under the scheduler's lock.
Fault describe_broken_order(const TaskGraph &graph, uint64_t awaited);

} // namespace pypto::runtime
