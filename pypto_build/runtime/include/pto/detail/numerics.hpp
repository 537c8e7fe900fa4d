// Whose arithmetic, where the device and upstream's simulator are known to give different results (docs/agreement.md).
// Kernels are compiled for one of the two, by NUMERICS=: 0 the device's, 1 the simulator's.
#ifndef PTO_DETAIL_NUMERICS_HPP
#define PTO_DETAIL_NUMERICS_HPP

#ifndef PYPTO_NUMERICS
#define PYPTO_NUMERICS 0
#endif

namespace pto::detail {

inline constexpr bool as_simulator = PYPTO_NUMERICS == 1;

} // namespace pto::detail

#endif
