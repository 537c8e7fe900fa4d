// The line of a kernel's source that an address belongs to.
#pragma once

#include <string>

namespace pypto::runtime {

/// "kernels/aiv/x.cpp:12", by what addr2line says of the library that holds the address; empty if nobody knows.
std::string source_line(const void *address);

} // namespace pypto::runtime
