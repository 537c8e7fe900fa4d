// Written by hand in the form used between 2026-03-24 and 2026-03-25.
#include "pto_orchestration_api.h"

extern "C" {

__attribute__((visibility("default"))) void aicpu_orchestration_entry(OrchArg* orch_args, int orch_thread_num,
                                                                      int orch_thread_index) {
    Tensor ext_x = orch_args[0].to_tensor();
    Tensor ext_w = orch_args[1].to_tensor();
    Tensor ext_y = orch_args[2].to_tensor();
    float alpha = from_u64<float>(orch_args[3].scalar);

    PTO2_SCOPE() {
        uint32_t t_shapes[2] = {64, 64};
        Tensor t = make_tensor(t_shapes, 2, DataType::FLOAT32);
        PTOParam params_t0;
        params_t0.add_input(ext_x);
        params_t0.add_input(ext_w);
        params_t0.add_output(t);
        pto2_rt_submit_aic_task(0, params_t0);
        PTOParam params_t1;
        params_t1.add_input(t);
        params_t1.add_output(ext_y);
        params_t1.add_scalar(float_to_u64(alpha));
        pto2_rt_submit_aiv_task(1, params_t1);
    }
}

}
