// Element types of tensors, with the numbers every generation of the orchestration API and of the dump files uses.
#ifndef PYPTO_DATA_TYPE_H
#define PYPTO_DATA_TYPE_H

#include <stdint.h>

enum class DataType : uint8_t {
    FLOAT32 = 0,
    FLOAT16 = 1,
    INT32 = 2,
    INT16 = 3,
    INT8 = 4,
    UINT8 = 5,
    BFLOAT16 = 6,
    INT64 = 7,
    UINT64 = 8,
    UINT16 = 9,
    UINT32 = 10,
    BOOL = 11,
    FP8E4M3FN = 12,
    FP8E8M0 = 13,
    FP4E2M1 = 14, // two values a byte: a shape counts bytes
};

namespace pypto {

inline constexpr uint32_t kDataTypeCount = 15;
inline constexpr uint32_t kElementBytes[kDataTypeCount] = {4, 2, 4, 2, 1, 1, 2, 8, 8, 2, 4, 1, 1, 1, 1};

/// Bytes of one element; 1 for a value outside the enum.
constexpr uint32_t element_bytes(DataType dtype) {
    return static_cast<uint32_t>(dtype) < kDataTypeCount ? kElementBytes[static_cast<uint32_t>(dtype)] : 1;
}

} // namespace pypto

inline const char *get_dtype_name(DataType dtype) {
    constexpr const char *kNames[pypto::kDataTypeCount] = {"FLOAT32", "FLOAT16",  "INT32",     "INT16",   "INT8",
                                                           "UINT8",   "BFLOAT16", "INT64",     "UINT64",  "UINT16",
                                                           "UINT32",  "BOOL",     "FP8E4M3FN", "FP8E8M0", "FP4E2M1"};
    return static_cast<uint32_t>(dtype) < pypto::kDataTypeCount ? kNames[static_cast<uint32_t>(dtype)] : "UNKNOWN";
}
inline constexpr uint64_t get_element_size(DataType dtype) {
    return pypto::element_bytes(dtype);
}

/// The low bytes of `value` as a T: how scalars travel in 64-bit words.
template <typename T> inline T from_u64(uint64_t value) {
    static_assert(sizeof(T) <= sizeof(value), "scalars have at most 8 bytes");
    T result;
    __builtin_memcpy(&result, &value, sizeof(result));
    return result;
}

/// The bytes of `value`, zero-extended to 64 bits.
template <typename T> inline uint64_t to_u64(T value) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "scalars have at most 8 bytes");
    uint64_t result = 0;
    __builtin_memcpy(&result, &value, sizeof(value));
    return result;
}

#endif
