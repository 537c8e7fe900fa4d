#include "pto_orchestration_api.h"

// One task leaves something to wait for; with mode 2 another one raises the counter, and a third reads what that found.
extern "C" __attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &args) {
    ChipTensor counter = args.tensor(0).ref();
    const uint64_t mode = args.scalar(0);
    CoreTaskArgs waiting;
    waiting.add_inout(counter);
    waiting.add_scalar(mode);
    rt_submit_aiv_task(1, waiting);
    if (mode == 2) {
        CoreTaskArgs notifying;
        notifying.add_no_dep(counter);
        rt_submit_aiv_task(2, notifying);
        CoreTaskArgs after;
        after.add_inout(counter);
        after.add_scalar(uint64_t{3});
        rt_submit_aiv_task(1, after);
    }
}
