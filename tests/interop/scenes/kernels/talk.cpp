// Answers what the host asks by a region: counter 0 counts questions, counter 64 answers. A question is a word that
// says what to do, then 16 numbers, which are doubled in place.
#include "aicpu/worker_chip_orch_endpoint.h"
#include "pto_orchestration_api.h"

namespace {

enum : int64_t { DOUBLE = 1, LEAVE, REPORT, CRASH, READ_OUTSIDE, WRITE_BEHIND, SAY_NOTHING, BREAK_KERNEL, LET_FAIL };
constexpr uint64_t kNumbers = 64; // where they begin

void report(const WorkerChipOrchEndpoint &host) {
    const WorkerChipEndpointError &error = host.error();
    rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "%s kind=%u region=%llu at=%llu operand=%d observed=%d: %s",
                    worker_chip_endpoint_op_to_string(error.op), static_cast<unsigned>(error.kind),
                    static_cast<unsigned long long>(error.region_id),
                    static_cast<unsigned long long>(error.counter_addr - host.descriptor().counter_base),
                    error.counter_operand, error.observed_counter, error.message);
}

void twice(uint64_t address, int32_t kernel) {
    const uint32_t shape[1] = {16}, first[1] = {0};
    ChipTensor numbers = make_tensor_external(reinterpret_cast<void *>(address), shape, 1, DataType::FLOAT32);
    CoreTaskArgs task;
    task.add_inout(numbers);
    rt_submit_aiv_task(kernel, task);
    if (kernel == 9)
        return; // the next question is waited for, in vain
    (void)get_tensor_data<float>(numbers, 1, first);
}

bool answer(WorkerChipOrchEndpoint &host, int64_t wish) {
    WorkerChipOrchPayloadView view{};
    if (wish == REPORT) {
        rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "no rows left");
        return false;
    }
    if (wish == CRASH)
        *reinterpret_cast<volatile int *>(8) = 1;
    if (wish == WRITE_BEHIND)
        reinterpret_cast<volatile char *>(host.descriptor().payload_base)[1 << 12] = 1;
    if (!host.payload_read(wish == READ_OUTSIDE ? 120 : kNumbers, 64, view)) {
        report(host);
        return false;
    }
    twice(view.gm_addr, wish == BREAK_KERNEL ? 5 : wish == LET_FAIL ? 9 : 7);
    return true;
}

} // namespace

extern "C" __attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &args) {
    uint64_t scalars[WORKER_CHIP_ORCH_REGION_DESC_SCALAR_COUNT];
    for (int i = 0; i < 6; ++i)
        scalars[i] = args.scalar(i);
    WorkerChipOrchEndpoint host(scalars, args.scalar(6));
    uint64_t asked = 0, answered = 0;
    if (!host.counter_addr(0, asked) || !host.counter_addr(64, answered))
        return report(host);
    for (int32_t number = 1;; ++number) {
        int32_t observed = 0;
        WorkerChipOrchPayloadView view{};
        if (!host.signal_wait(asked, number, WorkerChipOrchWaitCmp::GE, args.scalar(7), observed) ||
            !host.payload_read(0, 8, view))
            return report(host);
        const int64_t wish = *reinterpret_cast<const int64_t *>(view.gm_addr);
        if (wish == SAY_NOTHING)
            continue;
        if (wish != LEAVE && !answer(host, wish))
            return;
        host.signal_notify(answered, 1, WorkerChipOrchNotifyOp::Add);
        if (wish == LEAVE)
            return;
    }
}
