// The wait of every task, when nothing can run any more.
#include "scheduling/stall.h"

#include "base/clock.h"
#include "base/json_writer.h"

namespace pypto::runtime {

namespace {

constexpr uint64_t kShownTasks = 8;

bool is_awaited(const ProducerLink &link) {
    return link.task->id == link.id && link.task->state != TaskState::Done;
}

void add_task(JsonWriter &json, const Task &task, const TaskGraph &graph, const KernelLibrary &kernels) {
    json.open('{').key("number").number(task.number).key("kernels").text(kernels.names(task.kernels));
    json.key("producers").open('[');
    for (const ProducerLink &link : task.producers)
        if (is_awaited(link))
            json.row(link.task->number, kernels.names(link.task->kernels));
    json.close(']').key("missing").open('[');
    for (const uint64_t id : graph.never_submitted(task))
        json.number(id);
    json.close(']').close('}');
}

} // namespace

void add_occupancy(Fault &fault, const TaskGraph &graph, bool orchestration_done) {
    uint64_t running = 0, ready = 0, waiting = 0;
    graph.for_each_unfinished([&](const Task &task) {
        ++(task.state == TaskState::Running ? running : task.state == TaskState::Ready ? ready : waiting);
    });
    JsonWriter json;
    json.open('{').key("created").number(graph.created()).key("running").number(running).key("ready").number(ready);
    json.key("waiting").number(waiting).key("orchestrated").boolean(orchestration_done).close('}');
    fault.details += ",\"occupancy\":" + json.str();
}

Fault stall_fault(FaultKind kind, std::initializer_list<FaultField> facts, const TaskGraph &graph,
                  const KernelLibrary &kernels, const LastOver &last, bool orchestration_done) {
    Fault fault(kind, facts);
    uint64_t left = 0;
    JsonWriter json;
    json.open('[');
    graph.for_each_unfinished([&](const Task &task) {
        if (left++ == 0) {
            fault.task = task.number;
            fault.task_id = task.id;
            fault.kernel = kernels.names(task.kernels);
        }
        if (left <= kShownTasks)
            add_task(json, task, graph, kernels);
    });
    fault.details = ",\"tasks\":" + json.close(']').str();
    if (last.number != kNoNumber) {
        JsonWriter over;
        over.open('{').key("number").number(last.number).key("kernels").text(kernels.names(last.kernels));
        over.key("ago_ns").number(monotonic_ns() - last.ns).close('}');
        fault.details += ",\"last_over\":" + over.str();
    }
    add_occupancy(fault, graph, orchestration_done);
    return fault;
}

Fault broken_order_fault(const TaskGraph &graph, uint64_t awaited) {
    Fault fault(FaultKind::OrderBroken);
    if (const Task *task = graph.find(awaited))
        for (const ProducerLink &link : task->producers)
            if (is_awaited(link)) {
                fault = Fault(FaultKind::OrderBroken, {{"producer", link.id}});
                break;
            }
    fault.task_id = awaited;
    return fault;
}

} // namespace pypto::runtime
