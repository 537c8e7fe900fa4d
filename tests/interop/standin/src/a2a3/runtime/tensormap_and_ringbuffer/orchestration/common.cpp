// Stand-in for what simpler compiles into every orchestration.
#include "pto_orchestration_api.h"

extern "C" void framework_bind_runtime(void *) {}
