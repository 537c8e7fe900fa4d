// The embedded runtime: loads the kernels and the orchestration of one artifact and runs it on tensors.
#pragma once

#include "base/fault.h"
#include "base/settings.h"
#include "data/staging.h"
#include "execution/kernel_library.h"
#include "submission/orchestration.h"

#include <memory>
#include <string>
#include <vector>

namespace pypto::runtime {

/// The results of a successful run.
struct RunResult {
    uint64_t tasks = 0; // kernels run
    double run_s = 0;   // from the orchestration's first call to the last task's end
    std::vector<Unwritten> unwritten;
    std::vector<InputWrite> input_writes;
    std::string graph; // the content of deps.json, if asked for
};

/// Bytes that the option `flight` needs for so many cores.
uint64_t flight_bytes(uint32_t cores);

class EmbeddedRuntime {
public:
    /// `threads` 0 uses those of this machine. Throws FaultError for an unknown platform.
    EmbeddedRuntime(const std::string &platform, int threads);

    /// Returns the loaded kernels. The callback of a run may replace one, for the tasks that run from now on.
    KernelLibrary &kernels() { return kernels_; }
    /// Throws FaultError naming the file.
    void load_orchestration(const std::string &path, const std::string &function_name, const std::string &config_name);

    /// Runs the orchestration and every task it submits. Throws FaultError; the outputs then hold what was written so
    /// far.
    RunResult run(const std::vector<TensorParameter> &tensors, const std::vector<uint64_t> &scalars,
                  const Settings &settings);

private:
    const Platform *platform_;
    int threads_;
    KernelLibrary kernels_;
    Orchestration orchestration_;
};

} // namespace pypto::runtime
