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

/// Returns how close they are if all of `count` elements satisfy |actual - expected| <= atol + rtol * |expected|.
/// Integers have to be equal. Nothing if an element differs, is not finite, or has another `type`; a slower comparison
/// then finds the difference. Computes in double, as that comparison does.
std::optional<Closeness> compare(DataType type, const void *actual, const void *expected, uint64_t count, double rtol,
                                 double atol);

} // namespace pypto::runtime
