// Elements of tensors, reports and log lines of an orchestration.
#include "submission/orchestrator.h"

#include "data/poison.h"
#include "pypto/tensor_views.h"
#include "scheduling/predicate.h"
#include "scheduling/stall.h"
#include "submission/call_frames.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace pypto::runtime {

void Orchestrator::wait_for_writers(const ChipTensor &tensor, bool and_readers, const char *what) {
    if (is_fatal())
        leave();
    if (tensor.owner_task_id.is_valid() && !graph_.submitted(tensor.owner_task_id.raw))
        end_with(FaultKind::ArgumentMisuse,
                 {{"number", numbered_}, {"text", format("%s: the tensor's owner is no task", what)}});
    edges_.clear();
    writers_of(tensor);
    FlightWait told(recorder_.orchestration(),
                    {0, FlightEvent::WaitsForTasks, 0, 0, and_readers, 0, ~0u, static_cast<int32_t>(edges_.size()), 0});
    Scheduler::Lock lock = scheduler_.lock();
    const Scheduler::Outcome outcome = scheduler_.run_until(lock, [&] {
        for (const ProducerEdge &edge : edges_) {
            const Task *task = graph_.find(edge.task);
            if (task && (task->state != TaskState::Done || (and_readers && task->unfinished_consumers > 0))) {
                told.begins();
                return false;
            }
        }
        return true;
    });
    const bool stalled = outcome == Scheduler::Outcome::Stalled;
    Fault fault;
    if (stalled)
        fault = stall_fault(FaultKind::TensorWait, {{"name", what}}, graph_, kernels_, scheduler_.last_over(), false);
    lock.unlock();
    if (stalled)
        end_with(std::move(fault));
    if (outcome == Scheduler::Outcome::Failed)
        leave();
    told.ends();
    for (OrchestrationObserver *observer : observers_)
        observer->waited(edges_, and_readers);
}

uint8_t *Orchestrator::element(const ChipTensor &tensor, uint32_t ndims, const uint32_t *indices) {
    if (ndims != tensor.ndims)
        end_with(FaultKind::IndexCount, {{"count", ndims}, {"dimensions", tensor.ndims}});
    for (uint32_t d = 0; d < ndims; ++d)
        if (indices[d] >= tensor.shapes[d])
            end_with(FaultKind::IndexOutside, {{"index", indices[d]}, {"dimension", d}, {"size", tensor.shapes[d]}});
    check_tensor(tensor, 0);
    return element_address(tensor, ndims, indices);
}

void Orchestrator::read(const ChipTensor &tensor, uint32_t ndims, const uint32_t *indices, void *value, uint32_t size) {
    uint8_t *address = element(tensor, ndims, indices);
    wait_for_writers(tensor, false, "get_tensor_data");
    warn_of_poison(address, tensor.dtype);
    std::memcpy(value, address, std::min(size, element_bytes(tensor.dtype)));
}

void Orchestrator::write(const ChipTensor &tensor, uint32_t ndims, const uint32_t *indices, const void *value,
                         uint32_t size) {
    uint8_t *address = element(tensor, ndims, indices);
    wait_for_writers(tensor, true, "set_tensor_data");
    std::memcpy(address, value, std::min(size, element_bytes(tensor.dtype)));
}

// Single bytes may equal the pattern by chance.
void Orchestrator::warn_of_poison(const uint8_t *element, DataType dtype) {
    std::vector<uint64_t> first;
    if (!settings_.poison || warned_of_poison_ || !log_.wants(LogLevel::Warn) || element_bytes(dtype) == 1 ||
        find_poison(element, 1, dtype, 0, first) == 0)
        return;
    warned_of_poison_ = true;
    log_.line(LogLevel::Warn, "orchestration: get_tensor_data reads an element that nobody has written");
}

void Orchestrator::report_fatal(int code, std::string message) {
    Fault fault(FaultKind::ReportedFatal, {{"code", code}, {"text", std::move(message)}});
    fault.details = ",\"frames\":" + call_frames();
    scheduler_.fail(std::move(fault));
}

void Orchestrator::log(LogLevel level, const char *file, int line, const std::string &message) const {
    const char *base = std::strrchr(file, '/');
    log_.line(level, format("orchestration: [%s:%d] ", base ? base + 1 : file, line) + message);
}

} // namespace pypto::runtime
