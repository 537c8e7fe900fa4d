// Layout of the argument array a kernel_entry(args) receives.
//
// Tensors first, as addresses of 128-byte descriptors, then scalars as raw 64-bit words (orchestrations before
// 2026-03-17: in the order they were given). The contexts follow at fixed slots, which differed for three weeks.
#ifndef PYPTO_KERNEL_ARGS_H
#define PYPTO_KERNEL_ARGS_H

#include <stdint.h>

#include "pypto/task_id.h"

/// A counter in memory, and the value that it has to reach.
struct DeferredCompletionEntry {
    uint64_t addr;
    uint64_t backend_cookie;
    uint32_t expected_value;
    uint32_t engine;
    int32_t completion_type;
    uint32_t reserved;
};

// A kernel's conditions for the end of its task. Generated kernels read the fields.
struct AsyncCtx {
    volatile uint32_t *completion_count;
    volatile int32_t *completion_error_code;
    volatile DeferredCompletionEntry *completion_entries;
    uint32_t completion_capacity;
    PTO2TaskId task_token;
};

inline constexpr int32_t MAX_COMPLETIONS_PER_TASK = 64;

struct LocalContext {
    int32_t block_idx;
    int32_t block_num;
    AsyncCtx async_ctx;
};

struct GlobalContext {
    int32_t sub_block_id;
    uint64_t dma_workspace[2];
};

static_assert(sizeof(LocalContext) == 48 && sizeof(GlobalContext) == 24, "kernel context layout");

namespace pypto {

inline constexpr uint32_t kLateContextSlot = 48;   // since 2026-04-20: 32 tensors + 16 scalars come before
inline constexpr uint32_t kEarlyContextSlot = 144; // 2026-03-31 to 2026-04-20: 16 tensors + 128 scalars
inline constexpr uint32_t kMaxArguments = 144;     // the most any generation allowed

// The runtime fills both; the early one is free whatever the arguments are.
inline constexpr uint32_t kLocalContextSlot = kEarlyContextSlot;
inline constexpr uint32_t kGlobalContextSlot = kLocalContextSlot + 1;
inline constexpr uint32_t kSlots = kGlobalContextSlot + 1;

// Stand-ins for missing arguments: addresses at which no process has memory, so that an access to one identifies the
// argument.
inline constexpr uint64_t kNoArguments = 0x1000;
inline constexpr uint64_t kNoArgumentBytes = 0x100;

inline constexpr int64_t no_argument(uint32_t slot) {
    return static_cast<int64_t>(kNoArguments + slot * kNoArgumentBytes);
}

} // namespace pypto

#endif
