// Orchestration Function: publish
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
        .expected_arg_count = 3,
    };
}

__attribute__((visibility("default")))
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
    // External tensors
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_partial = orch_args.tensor(1).ref();

    // Scalar params
    float scale = from_u64<float>(orch_args.scalar(0));

    PTO2_SCOPE() {
        // Task 0: scale_rows
        CoreTaskArgs params_t0;
        params_t0.add_input(ext_x);
        params_t0.add_output(ext_partial);
        params_t0.add_scalar(to_u64(scale));
        rt_submit_aiv_task(0, params_t0);
    }
}

}  // extern "C"
