// Written by hand in the form used between 2026-03-11 and 2026-03-16.
#include "pto_orchestration_api.h"

#define ARG_PTR_X 0
#define ARG_PTR_W 1
#define ARG_PTR_Y 2
#define ARG_ALPHA 3

extern "C" {

__attribute__((visibility("default"))) void aicpu_orchestration_entry(PTO2Runtime* rt, uint64_t* args, int arg_count, int orch_thread_num, int orch_thread_index) {
    void* arg_x_ptr = reinterpret_cast<void*>(args[ARG_PTR_X]);
    void* arg_w_ptr = reinterpret_cast<void*>(args[ARG_PTR_W]);
    void* arg_y_ptr = reinterpret_cast<void*>(args[ARG_PTR_Y]);
    union {
        uint64_t u64;
        float val;
    } alpha_conv;
    alpha_conv.u64 = args[ARG_ALPHA];
    float alpha = alpha_conv.val;

    uint32_t x_shapes[2] = {64, 64};
    Tensor ext_x = make_tensor_external(arg_x_ptr, x_shapes, 2, DataType::FLOAT32);
    Tensor ext_w = make_tensor_external(arg_w_ptr, x_shapes, 2, DataType::FLOAT16);
    Tensor ext_y = make_tensor_external(arg_y_ptr, x_shapes, 2, DataType::FLOAT32);

    PTO2_SCOPE(rt) {
        Tensor t = make_tensor(x_shapes, 2, DataType::FLOAT32);
        PTOParam params_t0[] = {
            make_input_param(ext_x),
            make_input_param(ext_w),
            make_output_param(t),
        };
        pto2_rt_submit_aic_task(rt, 0, params_t0, 3);
        PTOParam params_t1[] = {
            make_input_param(t),
            make_output_param(ext_y),
            make_scalar_param(float_to_u64(alpha)),
        };
        pto2_rt_submit_aiv_task(rt, 1, params_t1, 3);
    }
}

}
