// Whose results, where the device, upstream's simulator and what is fast on a CPU are known to differ
// (docs/lookup/agreement.md). Kernels are compiled for one of these, by NUMERICS=: 0 those of the device where they
// cost no time, 1 the device's, 2 the simulator's.
#ifndef PTO_DETAIL_NUMERICS_HPP
#define PTO_DETAIL_NUMERICS_HPP

#include "macros.hpp"

#ifndef PYPTO_NUMERICS
#define PYPTO_NUMERICS 0
#endif

namespace pto::detail {

inline constexpr bool as_device = PYPTO_NUMERICS == 1, as_simulator = PYPTO_NUMERICS == 2;
// Instructions that a2a3 makes of several, with a barrier between them: computed in the same steps, which decide the
// result where a kernel breaks a rule of the device and two operands share bytes, or one is too small.
inline constexpr bool in_steps = as_device && PYPTO_ARCH == 2;

} // namespace pto::detail

#if PYPTO_NUMERICS == 1 // the runtime calls such kernels with zeros in the place of subnormal numbers
extern "C" __attribute__((weak, used, visibility("default"))) const int pypto_flushes_subnormals = 1;
#endif

#endif
