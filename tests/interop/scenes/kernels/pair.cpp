#include "pto_orchestration_api.h"

extern "C" __attribute__((visibility("default"))) void pair(const ChipTaskArgs &orch_args) {
    CoreTaskArgs task;
    task.add_input(orch_args.tensor(0).ref());
    task.add_output(orch_args.tensor(1).ref());
    task.add_inout(orch_args.tensor(2).ref());
    task.add_scalar(orch_args.scalar(0));
    task.add_scalar(orch_args.scalar(1));
    rt_submit_aiv_task(0, task);
}
