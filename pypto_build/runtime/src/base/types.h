// Element types: torch's names, and their bits.
#pragma once

#include "pypto/data_type.h"

#include <cstdint>
#include <string>

namespace pypto::runtime {

/// "float32" and the like; "?" for a value outside the enum.
const char *torch_name(DataType dtype);
/// False if no element type has that name.
bool parse_type(const std::string &name, DataType &dtype);

/// Calls `visit` with a zero of the unsigned integer type that is as large as an element.
template <typename Visit> auto with_word(DataType dtype, Visit visit) {
    switch (element_bytes(dtype)) {
    case 8:
        return visit(uint64_t{0});
    case 4:
        return visit(uint32_t{0});
    case 2:
        return visit(uint16_t{0});
    default:
        return visit(uint8_t{0});
    }
}

/// The number that the bits of a half stand for.
double half_value(uint16_t bits);

} // namespace pypto::runtime
