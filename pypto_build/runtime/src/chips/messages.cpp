// Keeps what kernels notified and waited for, and writes it as rows.
#include "chips/messages.h"

#include "execution/core.h"
#include "execution/kernel_library.h"

#include <algorithm>

namespace pypto::runtime {

uint32_t Messages::kernel_of(const Activation &activation) {
    const auto found = std::find(kernels_.begin(), kernels_.end(), activation.kernel->name);
    if (found != kernels_.end())
        return static_cast<uint32_t>(found - kernels_.begin());
    kernels_.push_back(activation.kernel->name);
    return static_cast<uint32_t>(kernels_.size() - 1);
}

void Messages::notified(const Activation &activation, const int32_t *signal, int32_t value, bool set, int32_t after,
                        int64_t time_ns) {
    const std::lock_guard<std::mutex> guard(mutex_);
    notifications_.push_back(
        {time_ns, reinterpret_cast<uint64_t>(signal), value, after, set, activation.task->id, kernel_of(activation)});
}

void Messages::waited(const Activation &activation, const int32_t *signal, int32_t expected, uint32_t comparison,
                      bool held, int64_t begun_ns, int64_t ended_ns) {
    const std::lock_guard<std::mutex> guard(mutex_);
    waits_.push_back({begun_ns, ended_ns, reinterpret_cast<uint64_t>(signal), expected, comparison, held,
                      activation.task->id, kernel_of(activation)});
}

void Messages::write(const std::string &directory, int64_t origin_ns) {
    const std::lock_guard<std::mutex> guard(mutex_);
    JsonWriter json;
    json.open('{').key("origin_ns").number(origin_ns).key("kernels").open('[');
    for (const std::string &kernel : kernels_)
        json.text(kernel);
    json.close(']').key("notifications").open('[');
    for (const Notification &one : notifications_)
        json.newline().row(one.time_ns, one.address, one.value, one.set, one.after, one.task, one.kernel);
    json.close(']').key("waits").open('[');
    for (const Wait &one : waits_)
        json.newline().row(one.begun_ns, one.ended_ns, one.address, one.expected, one.comparison, one.held, one.task,
                           one.kernel);
    json.close(']').close('}').newline();
    make_directories(directory);
    write_file(directory + "/messages.json", json.str());
}

} // namespace pypto::runtime
