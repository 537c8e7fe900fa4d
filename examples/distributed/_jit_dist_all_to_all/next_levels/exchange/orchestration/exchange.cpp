// Orchestration Function: exchange
// Example artifact of pypto-build, written in the form of PyPTO's PTO backend

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pto_orchestration_api.h"

extern "C" {

__attribute__((visibility("default")))
PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {
    (void)orch_args;
    return PTO2OrchestrationConfig{
        .expected_arg_count = 6,
    };
}

__attribute__((visibility("default")))
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
    // External tensors
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_inbox = orch_args.tensor(1).ref();
    const ChipTensor& ext_arrived = orch_args.tensor(2).ref();
    const ChipTensor& ext_y = orch_args.tensor(3).ref();

    PTO2_SCOPE() {
        // Task 0: put_parts
        CoreTaskArgs params_t0;
        params_t0.add_input(ext_x);
        params_t0.add_inout(ext_inbox);
        params_t0.add_inout(ext_arrived);
        params_t0.add_output(ext_y);
        params_t0.add_scalar(orch_args.scalar(0));
        params_t0.add_scalar(orch_args.scalar(1));
        rt_submit_aiv_task(0, params_t0);
    }
}

}  // extern "C"
