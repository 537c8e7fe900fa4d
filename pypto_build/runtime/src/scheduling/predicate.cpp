// Whether a task's predicate holds, read from its tensor just before the task would run.
#include "scheduling/predicate.h"

#include <cstring>

namespace pypto::runtime {

namespace {

template <typename T> int64_t load(const uint8_t *address) {
    T value;
    std::memcpy(&value, address, sizeof(value));
    return static_cast<int64_t>(value);
}

// simpler compares the element's bits as a signed integer of its width, whatever its type.
int64_t element_value(const uint8_t *address, DataType dtype) {
    switch (element_bytes(dtype)) {
    case 8:
        return load<int64_t>(address);
    case 4:
        return load<int32_t>(address);
    case 2:
        return load<int16_t>(address);
    default:
        return load<int8_t>(address);
    }
}

} // namespace

bool predicate_holds(const Predicate &predicate, const ChipTensor &tensor) {
    const int64_t value =
        element_value(element_address(tensor, predicate.operand.ndims, predicate.operand.indices), tensor.dtype);
    switch (predicate.op) {
    case PredicateOp::EQ:
        return value == predicate.target;
    case PredicateOp::NE:
        return value != predicate.target;
    case PredicateOp::GT:
        return value > predicate.target;
    case PredicateOp::LT:
        return value < predicate.target;
    case PredicateOp::GE:
        return value >= predicate.target;
    case PredicateOp::LE:
        return value <= predicate.target;
    case PredicateOp::NONE:
        break;
    }
    return true;
}

} // namespace pypto::runtime
