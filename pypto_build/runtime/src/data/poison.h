// Poison for unwritten memory: a NaN no computation produces, or a pattern, and the search for the rest of it.
#pragma once

#include "pypto/data_type.h"

#include <cstdint>
#include <vector>

namespace pypto::runtime {

/// Fills with NaN (float types) or 0xA5 bytes.
void fill_with_poison(uint8_t *memory, uint64_t bytes, DataType dtype);
/// Fills `count` elements with the low bytes of `value`.
void fill_with_value(uint8_t *memory, uint64_t count, DataType dtype, uint64_t value);

/// Elements, as flat indices, that still hold poison. Of one-byte types only runs of 8 or more count, since a byte may
/// equal the pattern by chance; `first` receives at most `limit` indices. Returns the number found.
uint64_t find_poison(const uint8_t *memory, uint64_t count, DataType dtype, uint32_t limit,
                     std::vector<uint64_t> &first);

} // namespace pypto::runtime
