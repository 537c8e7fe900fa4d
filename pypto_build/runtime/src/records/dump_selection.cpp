// The selection of tasks and arguments for a dump.
#include "records/dump_selection.h"

#include "base/fault.h"

#include <algorithm>
#include <cstdlib>
#include <fnmatch.h>

namespace pypto::runtime {

namespace {

bool parse_number(const std::string &text, int base, uint64_t &value) {
    char *end = nullptr;
    value = std::strtoull(text.c_str(), &end, base);
    return !text.empty() && text[0] != '-' && text[0] != '+' && *end == 0;
}

} // namespace

DumpSelection::DumpSelection(const std::vector<std::string> &arguments, const std::vector<std::string> &tasks) {
    for (const std::string &text : arguments) {
        const size_t colon = text.rfind(':');
        uint64_t slot = 0;
        if (text.empty() || colon == 0 ||
            (colon != std::string::npos && (!parse_number(text.substr(colon + 1), 10, slot) || slot > 1000)))
            throw_fault(FaultKind::DumpSelect, {{"value", text}});
        arguments_.push_back({text.substr(0, colon), colon == std::string::npos ? kEvery : static_cast<int>(slot)});
    }
    for (const std::string &text : tasks) {
        const size_t dash = text.find('-', 1);
        uint64_t from = 0;
        uint64_t to = 0;
        if (text.rfind("0x", 0) == 0 && parse_number(text, 16, from))
            ids_.push_back(from);
        else if (parse_number(text.substr(0, dash), 10, from) &&
                 parse_number(dash == std::string::npos ? text : text.substr(dash + 1), 10, to))
            numbers_.emplace_back(from, to);
        else
            throw_fault(FaultKind::DumpTasks, {{"value", text}});
    }
}

bool DumpSelection::task(const Task &task) const {
    const auto holds = [&](const auto &range) { return task.number >= range.first && task.number <= range.second; };
    return (numbers_.empty() && ids_.empty()) || std::any_of(numbers_.begin(), numbers_.end(), holds) ||
           std::find(ids_.begin(), ids_.end(), task.id) != ids_.end();
}

bool DumpSelection::argument(const Task &task, uint32_t slot, const KernelLibrary &kernels) const {
    if (arguments_.empty())
        return true;
    for (const Argument &wanted : arguments_) {
        if (wanted.slot != kEvery && wanted.slot != static_cast<int>(slot))
            continue;
        for (const int32_t id : task.kernels)
            if (const Kernel *kernel = kernels.find(id);
                kernel && fnmatch(wanted.kernel.c_str(), kernel->name.c_str(), 0) == 0)
                return true;
    }
    return false;
}

} // namespace pypto::runtime
