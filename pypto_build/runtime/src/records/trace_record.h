// A line for each task that is submitted, each kernel that begins, and each task that is over: LOG_LEVEL=v0.
#pragma once

#include "base/log.h"
#include "execution/kernel_library.h"
#include "records/observers.h"

#include <string>

namespace pypto::runtime {

class TraceRecord : public OrchestrationObserver, public TaskObserver {
public:
    static constexpr LogLevel kLevel = LogLevel::V0;

    TraceRecord(const Log &log, const KernelLibrary &kernels) : log_(log), kernels_(kernels) {}

    void edge(const Edge &edge) override;
    void submitted(const Task &task) override;
    void starting(const Task &task, int member, int32_t block, int core) override;
    void over(const Task &task) override;

private:
    void line(const char *what, const Task &task, const std::string &more) const;

    const Log &log_;
    const KernelLibrary &kernels_;
    std::vector<uint64_t> producers_; // of the task being submitted
};

} // namespace pypto::runtime
