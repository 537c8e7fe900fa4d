// Shared objects of an artifact: loaded when they are needed, or ahead of that.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pypto::runtime {

/// A shared object that stays loaded for the life of the process: kernels may leave threads or exit handlers behind.
/// Throws FaultError naming the file.
void *load_shared_object(const std::string &path);

/// Loads a file before it is known to be needed; false where that is not done.
/// `load_shared_object` takes it if the file is unchanged then, and else loads what is there, with nothing of this one
/// left in the process: only files whose loading runs no code of theirs are loaded ahead.
bool load_ahead(const std::string &path);

/// Returns the object loaded ahead of the file at `path`, or null. It can be run only after `renew_ahead`.
void *loaded_ahead_of(const std::string &path);
/// Checks all objects loaded ahead, and unloads those whose files have changed.
void renew_ahead();
/// Returns whether `handle` is of the file at `path`, which was loaded ahead and unchanged at the last look.
bool is_ahead(const std::string &path, const void *handle);
/// Returns the memory of objects loaded ahead, from the first byte to the one behind the last: a process that runs none
/// of it can give that back.
std::vector<std::pair<uintptr_t, uintptr_t>> memory_ahead();

} // namespace pypto::runtime
