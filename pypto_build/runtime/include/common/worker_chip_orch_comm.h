// Regions: memory that a host's Python and the orchestration of a chip share while both run. A region has bytes of
// payload and 32-bit counters; the orchestration gets it as six scalars.
#ifndef PYPTO_WORKER_CHIP_ORCH_COMM_H
#define PYPTO_WORKER_CHIP_ORCH_COMM_H

#include <stddef.h>
#include <stdint.h>

inline constexpr uint32_t WORKER_CHIP_ORCH_COMM_MAGIC = 0x4C334C32u;
inline constexpr uint16_t WORKER_CHIP_ORCH_COMM_ABI_MAJOR = 3;
inline constexpr uint16_t WORKER_CHIP_ORCH_COMM_ABI_MINOR = 0;
inline constexpr size_t WORKER_CHIP_ORCH_REGION_DESC_SCALAR_COUNT = 6;
inline constexpr uint64_t WORKER_CHIP_ORCH_COMM_COUNTER_BYTES = sizeof(int32_t);
inline constexpr uint64_t WORKER_CHIP_ORCH_COMM_COUNTER_BASE_ALIGNMENT = 64;

/// A region, in the order of its scalars. Sizes are in bytes, bases are addresses in the chip's process.
struct WorkerChipOrchRegionDesc {
    uint64_t magic_version;
    uint64_t region_id; // not 0
    uint64_t payload_base;
    uint64_t payload_bytes;
    uint64_t counter_base;
    uint64_t counter_bytes;
};

enum class WorkerChipOrchNotifyOp : uint32_t { Set = 0, Add = 1 };
enum class WorkerChipOrchWaitCmp : uint32_t { EQ = 0, NE = 1, GT = 2, GE = 3, LT = 4, LE = 5 };

struct WorkerChipOrchSignalTestResult {
    bool matched;
    int32_t observed;
};

enum class WorkerChipOrchCommValidationError : uint32_t {
    OK = 0,
    BAD_MAGIC_VERSION = 1,
    BAD_REGION_ID = 2,
    BAD_PAYLOAD_RANGE = 3,
    BAD_COUNTER_RANGE = 4,
    OUT_OF_BOUNDS = 5,
    BAD_SCALAR_COUNT = 6,
    NULL_POINTER = 7,
};

constexpr uint64_t worker_chip_orch_comm_pack_magic_version(uint32_t magic, uint16_t major, uint16_t minor) {
    return uint64_t{magic} << 32 | uint64_t{major} << 16 | minor;
}

inline constexpr uint64_t WORKER_CHIP_ORCH_COMM_MAGIC_VERSION = worker_chip_orch_comm_pack_magic_version(
    WORKER_CHIP_ORCH_COMM_MAGIC, WORKER_CHIP_ORCH_COMM_ABI_MAJOR, WORKER_CHIP_ORCH_COMM_ABI_MINOR);

namespace pypto {

/// Returns whether `nbytes` from `offset` on, at least one, lie within `size` bytes.
constexpr bool within(uint64_t offset, uint64_t nbytes, uint64_t size) {
    return nbytes != 0 && nbytes <= size && offset <= size - nbytes;
}

constexpr bool is_range(uint64_t base, uint64_t nbytes) {
    return nbytes != 0 && nbytes <= UINT64_MAX - base;
}

} // namespace pypto

/// Returns the fault of a descriptor; another minor version is accepted.
inline WorkerChipOrchCommValidationError worker_chip_orch_comm_validate_desc(const WorkerChipOrchRegionDesc &desc) {
    using Error = WorkerChipOrchCommValidationError;
    if (desc.magic_version >> 16 != WORKER_CHIP_ORCH_COMM_MAGIC_VERSION >> 16)
        return Error::BAD_MAGIC_VERSION;
    if (desc.region_id == 0)
        return Error::BAD_REGION_ID;
    if (!pypto::is_range(desc.payload_base, desc.payload_bytes))
        return Error::BAD_PAYLOAD_RANGE;
    const bool apart = desc.payload_base + desc.payload_bytes <= desc.counter_base ||
                       desc.counter_base + desc.counter_bytes <= desc.payload_base;
    if (!pypto::is_range(desc.counter_base, desc.counter_bytes) || !apart ||
        desc.counter_base % WORKER_CHIP_ORCH_COMM_COUNTER_BASE_ALIGNMENT != 0 ||
        desc.counter_bytes % WORKER_CHIP_ORCH_COMM_COUNTER_BYTES != 0)
        return Error::BAD_COUNTER_RANGE;
    return Error::OK;
}

#endif
