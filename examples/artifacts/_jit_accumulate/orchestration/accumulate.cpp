// Orchestration Function: accumulate
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
        .expected_arg_count = 4,
    };
}

__attribute__((visibility("default")))
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
    // External tensors
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_y = orch_args.tensor(1).ref();
    const ChipTensor& ext_acc = orch_args.tensor(2).ref();

    // Scalar params
    float alpha = from_u64<float>(orch_args.scalar(0));

    PTO2_SCOPE() {

        // Task 0: axpy_acc
        CoreTaskArgs params_t0;
        params_t0.add_input(ext_x);
        params_t0.add_inout(ext_acc);
        params_t0.add_scalar(to_u64(alpha));
        rt_submit_aiv_task(0, params_t0);

        // Task 1: axpy_acc
        CoreTaskArgs params_t1;
        params_t1.add_input(ext_y);
        params_t1.add_inout(ext_acc);
        params_t1.add_scalar(to_u64(-0.500000f));
        rt_submit_aiv_task(0, params_t1);
    }
}

}  // extern "C"
