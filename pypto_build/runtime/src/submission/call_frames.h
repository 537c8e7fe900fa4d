// The stack of an orchestration that called the runtime.
#pragma once

#include <string>

namespace pypto::runtime {

/// Returns the frames outside the runtime and the system, innermost first, as a JSON list of `[object, offset]`. An
/// offset lies inside the call.
std::string call_frames();

} // namespace pypto::runtime
