// The kernels of an artifact: shared objects by func_id.
#pragma once

#include "base/fault.h"
#include "pypto/core_context.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pypto::runtime {

enum class Direction : uint8_t { In, Out, InOut };

struct Kernel {
    int32_t func_id = -1;
    std::string name;
    bool vector = true; // AIV; false: AIC
    void (*entry)(int64_t *args) = nullptr;
    void (*bind_core)(PyptoCoreContext *) = nullptr; // null: the kernel uses no on-chip memory of ours
    void *handle = nullptr;
    std::string path;     // of its library
    bool checked = false; // compiled with PYPTO_CHECK
    bool flushes_subnormals = false;
    bool has_signature = false;
    std::vector<Direction> signature; // of its tensors
};

class KernelLibrary {
public:
    /// Loads a kernel; without a path it does nothing when run, for kernels that a callback executes. Throws
    /// FaultError: unknown core type, file that cannot be loaded, missing kernel_entry, func_id taken.
    void load(int32_t func_id, const std::string &name, const std::string &core_type, const std::string &path);
    /// Loads a kernel whose library was loaded ahead, if it was; `renew` tells later whether it is still the one.
    bool load_ahead(int32_t func_id, const std::string &name, const std::string &core_type, const std::string &path);
    /// Puts another build of a loaded kernel in its place, for what runs from now on. Throws FaultError.
    void replace(int32_t func_id, const std::string &path);
    /// The kernels, by func_id, whose libraries are others by now than when they were loaded ahead, or were not. They
    /// have to be loaded once more before anything is run.
    std::vector<int32_t> renew();
    /// Declares what the kernel does with each of its tensors; used to label dumps.
    void set_signature(int32_t func_id, std::vector<Direction> signature);

    const Kernel *find(int32_t func_id) const {
        return func_id >= 0 && static_cast<size_t>(func_id) < by_id_.size() && by_id_[func_id].entry
                   ? &by_id_[static_cast<size_t>(func_id)]
                   : nullptr;
    }
    /// Greater than every func_id.
    int32_t end() const { return static_cast<int32_t>(by_id_.size()); }
    /// Returns whether any kernel reports its accesses.
    bool any_checked() const;
    /// "0 add, 1 mul", for messages.
    std::string list() const;
    /// Names of a task's kernels, joined with '+'.
    std::string names(const int32_t (&ids)[3]) const;

private:
    void check_new(int32_t func_id, const std::string &name, const std::string &core_type) const;
    void add(Kernel kernel);

    std::vector<Kernel> by_id_;
};

} // namespace pypto::runtime
