// Instructions that turn ordinary numbers into NaN, infinity, a denormal number, or what does not fit its type.
#pragma once

#include "pypto/check_abi.h"

#include <string>
#include <vector>

namespace pypto::runtime {

class Trap {
public:
    /// `what`: nan, inf, saturate, denormal.
    explicit Trap(const std::vector<std::string> &what);

    bool armed() const { return wanted_ != 0; }
    /// An instruction is about to begin: looks at what it reads.
    void before(const char *instruction, const PyptoTileAccess *operands, uint32_t count);
    /// It is over: what it made, in words with its operands, or nothing.
    std::string after();

private:
    std::string operands(int32_t row, int32_t col) const;

    uint32_t wanted_ = 0;  // of the kinds of numbers
    uint32_t allowed_ = 0; // those that were there before
    const char *instruction_ = "";
    std::vector<PyptoTileAccess> read_, written_;
    std::vector<std::string> before_; // each operand's elements as they were, in place of which results may lie
};

} // namespace pypto::runtime
