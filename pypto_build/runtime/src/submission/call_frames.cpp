#include "submission/call_frames.h"

#include "base/json_writer.h"
#include "crash/samples.h"

#include <dlfcn.h>
#include <execinfo.h>

namespace pypto::runtime {

namespace {

constexpr int kFramesSeen = 48;

} // namespace

std::string call_frames() {
    void *addresses[kFramesSeen];
    Dl_info own{}, info{};
    dladdr(reinterpret_cast<const void *>(&call_frames), &own);
    const int count = backtrace(addresses, kFramesSeen);
    JsonWriter json;
    json.open('[');
    bool reached = false;
    for (int i = 0; i < count; ++i) {
        if (dladdr(addresses[i], &info) == 0 || info.dli_fname == nullptr || is_of_the_system(info.dli_fname))
            continue;
        const bool outside = info.dli_fbase != own.dli_fbase;
        if (reached && !outside)
            break; // the runtime's call of the orchestration
        reached |= outside;
        if (outside)
            json.row(std::string(info.dli_fname),
                     reinterpret_cast<uint64_t>(addresses[i]) - reinterpret_cast<uint64_t>(info.dli_fbase) - 1);
    }
    return json.close(']').str();
}

} // namespace pypto::runtime
