// Orchestration Function: stage_one
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
        .expected_arg_count = 5,
    };
}

__attribute__((visibility("default")))
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
    // External tensors
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_slots = orch_args.tensor(1).ref();
    const ChipTensor& ext_full = orch_args.tensor(2).ref();
    const ChipTensor& ext_free_ = orch_args.tensor(3).ref();

    PTO2_SCOPE() {
        // Task 0: scale_and_send
        CoreTaskArgs params_t0;
        params_t0.add_input(ext_x);
        params_t0.add_inout(ext_slots);
        params_t0.add_inout(ext_full);
        params_t0.add_inout(ext_free_);
        params_t0.add_scalar(orch_args.scalar(0));
        rt_submit_aiv_task(0, params_t0);
    }
}

}  // extern "C"
