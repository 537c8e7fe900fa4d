// Shared objects that do nothing when they are loaded, and leave nothing when they are unloaded.
#pragma once

#include <string>

namespace pypto::runtime {

/// Returns whether loading and unloading the file runs only the C library's code in every shared object, and
/// touches nothing outside of it; false if unknown.
bool is_passive_object(const std::string &path);

} // namespace pypto::runtime
