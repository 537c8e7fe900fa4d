#include "scheduling/stall.h"

namespace pypto::runtime {

namespace {

constexpr int kShownTasks = 8;

bool is_task_id(uint64_t id) {
    return id >> 32 < kRings;
}

std::string task_id_text(uint64_t id) {
    if (!is_task_id(id))
        return format("0x%llx, which is no task id", static_cast<unsigned long long>(id));
    return format("task id %llu of ring %llu", static_cast<unsigned long long>(id & 0xffffffffu),
                  static_cast<unsigned long long>(id >> 32));
}

} // namespace

std::string occupancy(const TaskGraph &graph, const char *sub_class, bool orchestration_done) {
    unsigned long long running = 0, ready = 0, waiting = 0;
    graph.for_each_unfinished([&](const Task &task) {
        ++(task.state == TaskState::Running ? running : task.state == TaskState::Ready ? ready : waiting);
    });
    const unsigned long long created = graph.created();
    return format("sub_class=%s completed=%llu/%llu running=%llu ready=%llu waiting=%llu orch_done=%d", sub_class,
                  created - running - ready - waiting, created, running, ready, waiting, orchestration_done);
}

Fault describe_stall(const TaskGraph &graph, const KernelLibrary &kernels, bool orchestration_done) {
    Fault fault = make_fault(Code::SchedulerTimeout, "");
    fault.kind = "hang";
    uint64_t left = 0;
    std::string lines;
    uint64_t missing = kNoTask;
    graph.for_each_unfinished([&](const Task &task) {
        if (left++ == 0) {
            fault.task = task.number;
            fault.task_id = task.id;
            fault.kernel = kernel_names(task, kernels);
        }
        if (left > kShownTasks)
            return;
        lines += "; " + describe_task(task, kernels) + " waits for ";
        std::string waits;
        for (const ProducerLink &link : task.producers)
            if (link.task->id == link.id && link.task->state != TaskState::Done)
                waits += (waits.empty() ? "" : ", ") + describe_task(*link.task, kernels);
        for (const uint64_t id : graph.never_submitted(task)) {
            waits +=
                (waits.empty() ? "" : ", ") + task_id_text(id) + (is_task_id(id) ? ", which was never submitted" : "");
            missing = id;
        }
        lines += waits.empty() ? "nothing" : waits;
    });
    if (left > kShownTasks)
        lines += format("; and %llu more", static_cast<unsigned long long>(left - kShownTasks));
    fault.message = format("nothing can run and %llu task%s left%s; %s", static_cast<unsigned long long>(left),
                           left == 1 ? " is" : "s are", lines.c_str(),
                           occupancy(graph, "S4:dependency-deadlock", orchestration_done).c_str());
    fault.hint = missing != kNoTask && !is_task_id(missing)
                     ? "a tensor or a task id is used that was never set, or after the scope it is valid in"
                 : missing != kNoTask
                     ? "a dependency names a task that was never submitted: check where the task id comes from"
                     : "explicit dependencies form a cycle: a task cannot wait for one submitted after it";
    return fault;
}

Fault describe_broken_order(const TaskGraph &graph, uint64_t awaited) {
    std::string reason = "has not been submitted when it should run";
    if (const Task *task = graph.find(awaited))
        for (const ProducerLink &link : task->producers)
            if (link.task->id == link.id && link.task->state != TaskState::Done) {
                reason = "waits for " + task_id_text(link.id);
                break;
            }
    Fault fault =
        make_fault(Code::InvalidArgs, "option order cannot be followed: " + task_id_text(awaited) + " " + reason,
                   "name each task after those it waits for, and no task that does not exist");
    fault.kind = "usage_error";
    fault.task_id = awaited;
    return fault;
}

} // namespace pypto::runtime
