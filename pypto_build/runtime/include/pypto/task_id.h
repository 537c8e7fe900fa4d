// Name of a submitted task: the ring it lives in and its running number there.
#ifndef PYPTO_TASK_ID_H
#define PYPTO_TASK_ID_H

#include <stdint.h>

struct PTO2TaskId {
    uint64_t raw;

    static constexpr PTO2TaskId make(uint32_t ring, uint32_t local) {
        return PTO2TaskId{(static_cast<uint64_t>(ring) << 32) | local};
    }
    static constexpr PTO2TaskId invalid() { return PTO2TaskId{~uint64_t{0}}; }

    constexpr uint32_t ring() const { return static_cast<uint32_t>(raw >> 32); }
    constexpr uint32_t local() const { return static_cast<uint32_t>(raw); }
    constexpr bool is_valid() const { return raw != ~uint64_t{0}; }
    constexpr bool operator==(const PTO2TaskId &other) const { return raw == other.raw; }
    constexpr bool operator!=(const PTO2TaskId &other) const { return raw != other.raw; }
};

#endif
