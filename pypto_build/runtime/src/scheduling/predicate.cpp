// Evaluates a task's predicate, from its tensor, just before the task would run.
#include "scheduling/predicate.h"

#include "base/types.h"

#include <cstring>
#include <type_traits>

namespace pypto::runtime {

namespace {

// simpler compares the element's bits as a signed integer of its width, whatever its type.
int64_t element_value(const uint8_t *address, DataType dtype) {
    return with_word(dtype, [address](auto word) {
        std::memcpy(&word, address, sizeof(word));
        return static_cast<int64_t>(static_cast<std::make_signed_t<decltype(word)>>(word));
    });
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
