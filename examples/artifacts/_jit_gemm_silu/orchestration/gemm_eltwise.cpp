// Orchestration Function: gemm_eltwise
// Compiled by pypto-build, in the form of PyPTO's PTO backend.

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
    const ChipTensor& ext_a = orch_args.tensor(0).ref();
    const ChipTensor& ext_b = orch_args.tensor(1).ref();
    const ChipTensor& ext_residual = orch_args.tensor(2).ref();
    const ChipTensor& ext_out = orch_args.tensor(3).ref();

    PTO2_SCOPE() {
        for (int64_t row = 0; row < 64; row += 16) {
            PTO2_SCOPE() {
                uint32_t gm_pipe_buffer_0_ci_shapes[1] = {2048};
                TensorCreateInfo gm_pipe_buffer_0_ci(gm_pipe_buffer_0_ci_shapes, 1, DataType::FLOAT32, /*manual_dep=*/true);
                TaskOutputTensors alloc_0 = alloc_tensors(gm_pipe_buffer_0_ci);
                const ChipTensor& gm_pipe_buffer_0 = alloc_0.get_ref(0);

                // Group gemm_silu: MixedKernels (AIC + AIV lanes)
                CoreTaskArgs params_t0;
                params_t0.add_input(ext_a);
                params_t0.add_input(ext_b);
                params_t0.add_input(ext_residual);
                params_t0.add_output(ext_out);
                params_t0.add_output(gm_pipe_buffer_0);
                params_t0.add_scalar(row);
                MixedKernels mixed_0 = {0, 1, INVALID_KERNEL_ID};
                rt_submit_task(mixed_0, params_t0);
            }
        }
    }
}

}  // extern "C"
