// The table of torch's names, and what halves are.
#include "base/types.h"

#include <cmath>

namespace pypto::runtime {

namespace {

struct TypeRow {
    const char *name;
    DataType dtype;
};

// The first row of a type is its name; float8_e5m2 travels as the other eight-bit float.
constexpr TypeRow kTypes[] = {
    {"float32", DataType::FLOAT32},
    {"float16", DataType::FLOAT16},
    {"int32", DataType::INT32},
    {"int16", DataType::INT16},
    {"int8", DataType::INT8},
    {"uint8", DataType::UINT8},
    {"bfloat16", DataType::BFLOAT16},
    {"int64", DataType::INT64},
    {"uint64", DataType::UINT64},
    {"uint16", DataType::UINT16},
    {"uint32", DataType::UINT32},
    {"bool", DataType::BOOL},
    {"float8_e4m3fn", DataType::FP8E4M3FN},
    {"float8_e5m2", DataType::FP8E4M3FN},
    {"float8_e8m0fnu", DataType::FP8E8M0},
    {"float4_e2m1fn_x2", DataType::FP4E2M1},
};

} // namespace

const char *torch_name(DataType dtype) {
    for (const TypeRow &row : kTypes)
        if (row.dtype == dtype)
            return row.name;
    return "?";
}

double half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                        : exponent == 0 ? std::ldexp(fraction, -24)
                                        : std::ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -size : size;
}

bool parse_type(const std::string &name, DataType &dtype) {
    for (const TypeRow &row : kTypes)
        if (name == row.name) {
            dtype = row.dtype;
            return true;
        }
    return false;
}

} // namespace pypto::runtime
