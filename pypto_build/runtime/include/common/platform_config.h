// Constants of the platform that kernels compute times with.
#ifndef PYPTO_PLATFORM_CONFIG_H
#define PYPTO_PLATFORM_CONFIG_H

#include <stdint.h>

/// Ticks of get_sys_cnt() in a second.
constexpr uint64_t PLATFORM_PROF_SYS_CNT_FREQ = PYPTO_ARCH == 2 ? 50000000 : 1000000000;

#endif
