// Loads kernels, and checks that they are built for this runtime.
#include "execution/kernel_library.h"

#include "execution/shared_object.h"

#include <algorithm>
#include <dlfcn.h>

namespace pypto::runtime {

namespace {

// The device's table of kernels ends at 1024, which lint says; here larger programs replay too.
constexpr int32_t kMaxFuncId = 16384;

void find_entries(Kernel &kernel, const std::string &path, void *handle) {
    kernel.handle = handle;
    kernel.path = path;
    kernel.entry = reinterpret_cast<void (*)(int64_t *)>(dlsym(kernel.handle, "kernel_entry"));
    if (kernel.entry == nullptr)
        throw_fault(FaultKind::NoKernelEntry, {{"path", path}});
    const auto *abi = static_cast<const uint32_t *>(dlsym(kernel.handle, "pypto_core_abi"));
    if (abi != nullptr && *abi != PYPTO_CORE_ABI)
        throw_fault(FaultKind::KernelAbi, {{"path", path}, {"abi", *abi}, {"own", PYPTO_CORE_ABI}});
    kernel.bind_core = reinterpret_cast<void (*)(PyptoCoreContext *)>(dlsym(kernel.handle, "pypto_bind_core"));
    kernel.checked = dlsym(kernel.handle, "pypto_checked_kernel") != nullptr;
    kernel.flushes_subnormals = dlsym(kernel.handle, "pypto_flushes_subnormals") != nullptr;
}

void open_kernel(Kernel &kernel, const std::string &path) {
    find_entries(kernel, path, load_shared_object(path));
}

Kernel kernel_of(int32_t func_id, const std::string &name, const std::string &core_type) {
    Kernel kernel;
    kernel.func_id = func_id;
    kernel.name = name;
    kernel.vector = core_type == "aiv";
    return kernel;
}

} // namespace

void KernelLibrary::check_new(int32_t func_id, const std::string &name, const std::string &core_type) const {
    if (func_id < 0 || func_id >= kMaxFuncId)
        throw_fault(FaultKind::KernelNumber, {{"name", name}, {"func_id", func_id}, {"last", kMaxFuncId - 1}});
    if (core_type != "aic" && core_type != "aiv")
        throw_fault(FaultKind::KernelCoreType, {{"name", name}, {"core_type", core_type}});
    if (const Kernel *taken = find(func_id))
        throw_fault(FaultKind::KernelNumberTaken, {{"name", name}, {"func_id", func_id}, {"other", taken->name}});
}

void KernelLibrary::add(Kernel kernel) {
    const auto place = static_cast<size_t>(kernel.func_id);
    if (place >= by_id_.size())
        by_id_.resize(place + 1);
    by_id_[place] = std::move(kernel);
}

void KernelLibrary::load(int32_t func_id, const std::string &name, const std::string &core_type,
                         const std::string &path) {
    check_new(func_id, name, core_type);
    Kernel kernel = kernel_of(func_id, name, core_type);
    if (path.empty())
        kernel.entry = [](int64_t *) {}; // a callback stands in for it
    else
        open_kernel(kernel, path);
    add(std::move(kernel));
}

bool KernelLibrary::load_ahead(int32_t func_id, const std::string &name, const std::string &core_type,
                               const std::string &path) {
    void *handle = loaded_ahead_of(path);
    if (handle == nullptr)
        return false;
    check_new(func_id, name, core_type);
    Kernel kernel = kernel_of(func_id, name, core_type);
    find_entries(kernel, path, handle);
    add(std::move(kernel));
    return true;
}

void KernelLibrary::replace(int32_t func_id, const std::string &path) {
    if (find(func_id) != nullptr)
        open_kernel(by_id_[static_cast<size_t>(func_id)], path);
}

std::vector<int32_t> KernelLibrary::renew() {
    renew_ahead();
    std::vector<int32_t> stale;
    for (const Kernel &kernel : by_id_)
        if (kernel.entry && !is_ahead(kernel.path, kernel.handle))
            stale.push_back(kernel.func_id);
    return stale;
}

void KernelLibrary::set_signature(int32_t func_id, std::vector<Direction> signature) {
    if (find(func_id) == nullptr)
        return;
    Kernel &kernel = by_id_[static_cast<size_t>(func_id)];
    kernel.has_signature = true;
    kernel.signature = std::move(signature);
}

bool KernelLibrary::any_checked() const {
    return std::any_of(by_id_.begin(), by_id_.end(), [](const Kernel &kernel) { return kernel.checked; });
}

std::string KernelLibrary::names(const int32_t (&ids)[3]) const {
    std::string names;
    for (int i = 0; i < 3; ++i) {
        const Kernel *kernel = find(ids[i]);
        if (kernel == nullptr || (i == 2 && ids[2] == ids[1]))
            continue;
        names += (names.empty() ? "" : "+") + kernel->name;
    }
    return names.empty() ? "(no kernel)" : names;
}

std::string KernelLibrary::list() const {
    std::string text;
    for (const Kernel &kernel : by_id_)
        if (kernel.entry)
            text += format("%s%d %s", text.empty() ? "" : ", ", kernel.func_id, kernel.name.c_str());
    return text.empty() ? "none" : text;
}

} // namespace pypto::runtime
