#include "pto_orchestration_api.h"

extern "C" __attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &) {
    rt_report_fatal(PTO2_ERROR_INVALID_ARGS, "geometry %d", 3);
}
