// Comparison of a run's output with its golden, for the usual case that everything is close.
#pragma once

#include "pypto/data_type.h"

#include <cstdint>
#include <optional>

namespace pypto::runtime {

/// The largest differences of two tensors that agree.
struct Closeness {
    double max_abs = 0.0; // |actual - expected|
    double max_rel = 0.0; // the same over |expected|, where that is not zero
};

/// Whether every one of `count` elements satisfies |actual - expected| <= atol + rtol * |expected| (integers: equal).
/// Nothing if some element does not, is not finite, or if `type` is not compared here; a slower comparison then says
/// what differs. Computes in double, as that comparison does.
std::optional<Closeness> compare(DataType type, const void *actual, const void *expected, uint64_t count, double rtol,
                                 double atol);

} // namespace pypto::runtime
