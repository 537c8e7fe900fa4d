// The line of a kernel's source that an address belongs to.
#pragma once

#include <string>

namespace pypto::runtime {

/// Returns "kernels/aiv/x.cpp:12" from addr2line for the library that holds the address; empty if unknown.
std::string source_line(const void *address);

} // namespace pypto::runtime
