// torch's names of element types.
#pragma once

#include "pypto/data_type.h"

#include <string>

namespace pypto::runtime {

/// "float32" and the like; "?" for a value outside the enum.
const char *torch_name(DataType dtype);
/// False if no element type has that name.
bool parse_type(const std::string &name, DataType &dtype);

} // namespace pypto::runtime
