// The chips, and limits from the environment.
#include "base/settings.h"

#include "base/fault.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace pypto::runtime {

namespace {

constexpr uint32_t KiB = 1024;

// UB, L1, L0A, L0B, L0C, bias, fixpipe parameters, scales beside L0A and L0B.
constexpr Platform kA2A3{"a2a3",
                         {192 * KiB, 512 * KiB, 64 * KiB, 64 * KiB, 128 * KiB, 1 * KiB, 4 * KiB, 4 * KiB, 4 * KiB},
                         24,
                         50'000'000,
                         true};
constexpr Platform kA5{"a5",
                       {256 * KiB, 512 * KiB, 64 * KiB, 64 * KiB, 256 * KiB, 4 * KiB, 4 * KiB, 4 * KiB, 4 * KiB},
                       36,
                       1'000'000'000,
                       false};

struct LimitRule {
    const char *variable;
    const char *meaning;
    uint64_t min;
    uint64_t max;
    bool power_of_two;

    bool accepts(uint64_t value) const {
        return value >= min && value <= max && (!power_of_two || (value & (value - 1)) == 0);
    }
};

constexpr LimitRule kWindow{"PTO2_RING_TASK_WINDOW", "a power of two of at least 4", 4, 1u << 30, true};
constexpr LimitRule kHeap{"PTO2_RING_HEAP", "at least 1024 bytes", 1024, uint64_t{1} << 46, false};
constexpr LimitRule kPool{"PTO2_RING_DEP_POOL", "at least 4", 4, 1u << 30, false};

// One number, or four with commas between them; false if the text is anything else.
bool parse_four(const char *text, const LimitRule &rule, uint64_t values[kRings]) {
    uint32_t count = 0;
    while (count < kRings) {
        char *end = nullptr;
        errno = 0;
        values[count] = std::strtoull(text, &end, 10);
        if (end == text || errno != 0 || *text == '-' || !rule.accepts(values[count]))
            return false;
        ++count;
        if (*end != ',') {
            if (count == 1)
                std::fill_n(values + 1, kRings - 1, values[0]);
            return *end == 0 && (count == 1 || count == kRings);
        }
        text = end + 1;
    }
    return false;
}

template <typename T> void read_variable(const LimitRule &rule, T (&limits)[kRings]) {
    const char *text = std::getenv(rule.variable);
    if (text == nullptr || *text == 0)
        return;
    uint64_t values[kRings];
    if (!parse_four(text, rule, values)) {
        std::fprintf(stderr, "[WARN] %s=%s is ignored: give one number, or four separated by commas, each %s\n",
                     rule.variable, text, rule.meaning);
        return;
    }
    for (uint32_t ring = 0; ring < kRings; ++ring)
        limits[ring] = static_cast<T>(values[ring]);
}

template <typename T> void check(const LimitRule &rule, const char *option, const T (&limits)[kRings]) {
    for (const T value : limits)
        if (!rule.accepts(value))
            throw_fault(FaultKind::RingLimit, {{"name", option}, {"value", value}, {"allowed", rule.meaning}});
}

} // namespace

RingLimits limits_from_environment() {
    RingLimits limits;
    read_variable(kWindow, limits.task_window);
    read_variable(kHeap, limits.heap_bytes);
    read_variable(kPool, limits.dependency_pool);
    return limits;
}

void check_limits(const RingLimits &limits) {
    check(kWindow, "ring_task_window", limits.task_window);
    check(kHeap, "ring_heap", limits.heap_bytes);
    check(kPool, "ring_dep_pool", limits.dependency_pool);
}

const Platform *find_platform(const std::string &name) {
    if (name == "a2a3" || name == "a2a3sim")
        return &kA2A3;
    if (name == "a5" || name == "a5sim")
        return &kA5;
    return nullptr;
}

} // namespace pypto::runtime
