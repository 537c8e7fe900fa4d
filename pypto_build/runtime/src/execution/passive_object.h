// Shared objects that do nothing when they are loaded, and leave nothing when they are unloaded.
#pragma once

#include <string>

namespace pypto::runtime {

/// Whether loading and unloading the file runs nothing but what the C library puts into every shared object, and
/// touches nothing outside of it. Where that cannot be told, it is not.
bool is_passive_object(const std::string &path);

} // namespace pypto::runtime
