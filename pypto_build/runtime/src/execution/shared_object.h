// Shared objects of an artifact: loaded when they are needed, or ahead of that.
#pragma once

#include <string>

namespace pypto::runtime {

/// A shared object that stays loaded for the life of the process: kernels may leave threads or exit handlers behind.
/// Throws FaultError naming the file.
void *load_shared_object(const std::string &path);

/// Loads a file before anybody knows whether it is the one that will be needed; false where that is not done.
/// `load_shared_object` takes it if the file is unchanged then, and else loads what is there, with nothing of this one
/// left in the process: only files whose loading runs no code of theirs are loaded ahead.
bool load_ahead(const std::string &path);

} // namespace pypto::runtime
