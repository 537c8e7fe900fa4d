// Comparisons of a signal or a counter with the expected value: one list of numbers under the names of every API.
#ifndef PYPTO_COMPARISON_H
#define PYPTO_COMPARISON_H

#include <stdint.h>

namespace pypto {

/// `comparison`: 0 EQ, 1 NE, 2 GT, 3 GE, 4 LT, 5 LE. Any other holds whatever the value is.
inline bool compares(int32_t value, int32_t expected, uint32_t comparison) {
    switch (comparison) {
    case 0:
        return value == expected;
    case 1:
        return value != expected;
    case 2:
        return value > expected;
    case 3:
        return value >= expected;
    case 4:
        return value < expected;
    case 5:
        return value <= expected;
    default:
        return true;
    }
}

} // namespace pypto

#endif
