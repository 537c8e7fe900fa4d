#include "pto_orchestration_api.h"

// One of the two is there, by platform and runtime.
template <typename Spec> static auto launch(Spec &spec, int16_t blocks) -> decltype(spec.set_block_num(blocks)) {
    return spec.set_block_num(blocks);
}
template <typename Spec> static auto launch(Spec &spec, int16_t cores) -> decltype(spec.set_core_num(cores)) {
    return spec.set_core_num(cores);
}

extern "C" {

__attribute__((visibility("default"))) PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs &) {
    return PTO2OrchestrationConfig{.expected_arg_count = 4};
}

__attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &orch_args) {
    const ChipTensor &x = orch_args.tensor(0).ref();
    const ChipTensor &y = orch_args.tensor(1).ref();
    const ChipTensor &z = orch_args.tensor(2).ref();
    PTO2_SCOPE() {
        CoreTaskArgs first;
        first.add_input(x);
        first.add_output(y);
        first.add_inout(z);
        first.add_scalar(orch_args.scalar(0));
        first.set_task_timing_slot(3);
        launch(first.launch_spec, 1);
        rt_submit_aiv_task(3, first);

        CoreTaskArgs second;
        second.add_inout(y);
        rt_submit_aiv_task(7, second);
    }
}
}
