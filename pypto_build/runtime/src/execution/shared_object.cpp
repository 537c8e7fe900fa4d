// Loads shared objects; those that were loaded ahead are known by what the system says of their files.
#include "execution/shared_object.h"

#include "base/fault.h"
#include "execution/file_identity.h"
#include "execution/passive_object.h"

#include <algorithm>
#include <dlfcn.h>
#include <link.h>
#include <set>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pypto::runtime {

namespace {

struct LoadedAhead {
    FileIdentity file;
    void *handle;
    bool written; // to this file, since it was loaded
};

std::unordered_map<std::string, LoadedAhead> loaded_ahead;
std::set<void *> handles_ahead;
bool any_ahead = false; // was loaded since all were last looked at

// Libraries of kernels name none that they need: what the compiler's own libraries define is found here.
void share_system_libraries() {
    static const bool shared = [] {
        for (const char *name : {"libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"})
            dlopen(name, RTLD_LAZY | RTLD_GLOBAL);
        return true;
    }();
    (void)shared;
}

void *open_now(const std::string &path) {
    return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Memory, from its first byte to the one behind its last.
using MemoryRange = std::pair<uintptr_t, uintptr_t>;

/// Collects the address ranges of loaded objects.
int collect_ranges(dl_phdr_info *info, size_t, void *given) {
    auto &[bases, found] = *static_cast<std::pair<std::set<uintptr_t>, std::vector<MemoryRange>> *>(given);
    if (bases.count(info->dlpi_addr) == 0)
        return 0;
    const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    MemoryRange range{~uintptr_t{0}, 0};
    for (int i = 0; i < info->dlpi_phnum; ++i)
        if (const ElfW(Phdr) &segment = info->dlpi_phdr[i]; segment.p_type == PT_LOAD) {
            const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
            range.first = std::min(range.first, begin & ~(page - 1));
            range.second = std::max(range.second, (begin + segment.p_memsz + page - 1) & ~(page - 1));
        }
    if (range.first < range.second)
        found.push_back(range);
    return 0;
}

} // namespace

void *load_shared_object(const std::string &path) {
    share_system_libraries();
    if (any_ahead)
        renew_ahead();
    const auto known = loaded_ahead.find(path);
    if (known != loaded_ahead.end()) {
        if (!(known->second.file == FileIdentity::of(path)))
            throw_fault(FaultKind::NotLoadable, {{"path", path}, {"reason", "it was written to while it was loaded"}});
        return known->second.handle;
    }
    void *handle = open_now(path);
    if (handle == nullptr) {
        const char *reason = dlerror();
        throw_fault(FaultKind::NotLoadable, {{"path", path}, {"reason", reason ? reason : "unknown reason"}});
    }
    return handle;
}

bool load_ahead(const std::string &path) {
    if (loaded_ahead.count(path))
        return any_ahead = true;
    const FileIdentity before = FileIdentity::of(path);
    if (before.size < 0 || !before.is_settled() || !is_passive_object(path))
        return false;
    share_system_libraries();
    void *handle = open_now(path);
    if (handle == nullptr)
        return false;
    // Two names of one file are one object to the loader: none of them could be unloaded alone.
    if (!handles_ahead.insert(handle).second || !(FileIdentity::of(path) == before)) {
        dlclose(handle);
        return false;
    }
    loaded_ahead[path] = {before, handle, false};
    any_ahead = true;
    return true;
}

void *loaded_ahead_of(const std::string &path) {
    const auto known = loaded_ahead.find(path);
    return known != loaded_ahead.end() ? known->second.handle : nullptr;
}

// All of them are looked at before any other is loaded: files may have changed places, and to the loader a file is the
// same under any name. One that was written to while it was loaded stays: its code may be anything.
void renew_ahead() {
    any_ahead = false;
    for (auto entry = loaded_ahead.begin(); entry != loaded_ahead.end();) {
        LoadedAhead &known = entry->second;
        const FileIdentity now = FileIdentity::of(entry->first);
        known.written = !(now == known.file);
        if (!known.written || now.is_same_file(known.file)) {
            ++entry;
        } else {
            handles_ahead.erase(known.handle);
            dlclose(known.handle);
            entry = loaded_ahead.erase(entry);
        }
    }
}

bool is_ahead(const std::string &path, const void *handle) {
    const auto known = loaded_ahead.find(path);
    return known != loaded_ahead.end() && known->second.handle == handle && !known->second.written;
}

std::vector<MemoryRange> memory_ahead() {
    std::pair<std::set<uintptr_t>, std::vector<MemoryRange>> of_these;
    auto &[bases, found] = of_these;
    for (const auto &[path, known] : loaded_ahead)
        if (link_map *object = nullptr; dlinfo(known.handle, RTLD_DI_LINKMAP, &object) == 0)
            bases.insert(object->l_addr);
    dl_iterate_phdr(collect_ranges, &of_these);
    std::sort(found.begin(), found.end());
    std::vector<MemoryRange> whole; // neighbours together
    for (const MemoryRange &range : found)
        if (!whole.empty() && whole.back().second == range.first)
            whole.back().second = range.second;
        else
            whole.push_back(range);
    return whole;
}

} // namespace pypto::runtime
