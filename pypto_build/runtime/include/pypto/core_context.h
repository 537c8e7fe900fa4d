// C ABI between a kernel .so and the runtime that executes it.
//
// The runtime owns one set of on-chip memories per core thread and hands it to the kernel through this context, so a
// thousand loaded kernels cost no memory of their own. Before every kernel_entry() the executing thread calls the
// kernel's exported pypto_bind_core(). Fields are only ever appended; PYPTO_CORE_ABI changes when an old one moves.
#ifndef PYPTO_CORE_CONTEXT_H
#define PYPTO_CORE_CONTEXT_H

#include <stdint.h>

#define PYPTO_CORE_ABI 1u
#define PYPTO_SEEN 6u

enum PyptoSpace {
    PYPTO_UB,      // unified buffer of a vector core
    PYPTO_L1,      // "Mat"
    PYPTO_L0A,     // "Left"
    PYPTO_L0B,     // "Right"
    PYPTO_L0C,     // "Acc"
    PYPTO_BIAS,    // bias table
    PYPTO_FBUF,    // "Scaling": fixpipe parameters
    PYPTO_SCALE_A, // mx scales beside Left
    PYPTO_SCALE_B, // mx scales beside Right
    PYPTO_SPACE_COUNT
};

struct PyptoMemory {
    uint8_t *base; // 128-byte aligned
    uint64_t size; // bytes
};

struct PyptoCheck;
struct PyptoPipe; // a ring shared by the members of one group; lives in the runtime

struct PyptoPipeSpec {
    uint32_t flag_id;     // first template argument of TPipe
    uint32_t slot_bytes;  // bytes of one slot
    uint32_t slot_count;  // slots of the ring
    uint32_t direction;   // Direction enum value: 1 cube to vector, 2 vector to cube, 3 both
    uint32_t local_slots; // consumer-side slots (a5), 0 when the pipe goes through GM
    uint32_t no_split;    // 1: only sub-block 0 takes part
};

struct PyptoCoreContext {
    uint32_t abi;          // PYPTO_CORE_ABI of the runtime
    uint32_t is_vector;    // 1 on an AIV core, 0 on an AIC core
    int32_t sub_block;     // lane of an AIV core in its group: 0 or 1
    int32_t sub_block_dim; // AIV lanes in the group
    int32_t block_idx;     // SPMD block
    int32_t block_num;     // SPMD blocks of the task
    struct PyptoMemory memory[PYPTO_SPACE_COUNT];

    // Cross-core pipes. `to_vector` is 1 for cube-to-vector traffic. The acquiring calls block until the slot is there
    // and return its address; every call is made by the member that takes part, lanes that do not must not call.
    struct PyptoPipe *(*pipe_open)(struct PyptoCoreContext *, const struct PyptoPipeSpec *);
    uint8_t *(*pipe_acquire)(struct PyptoCoreContext *, struct PyptoPipe *, int to_vector); // producer: next free slot
    void (*pipe_commit)(struct PyptoCoreContext *, struct PyptoPipe *, int to_vector);      // producer: slot is full
    uint8_t *(*pipe_front)(struct PyptoCoreContext *, struct PyptoPipe *, int to_vector);   // consumer: next full slot
    void (*pipe_release)(struct PyptoCoreContext *, struct PyptoPipe *, int to_vector); // consumer: oldest slot is free

    // Ends the task with a message; does not return.
    void (*fault)(struct PyptoCoreContext *, const char *message, const char *file, int line);

    void *runtime; // the runtime's own bookkeeping

    // SYNCALL: returns when every block of the task has called it. `cores` is 0 for vector cores only, 1 for cube cores
    // only, 2 for both. Null in a runtime without such a barrier.
    void (*sync_all)(struct PyptoCoreContext *, uint32_t cores);

    // Receiver of a checked kernel's accesses (pypto/check_abi.h); null without one.
    const struct PyptoCheck *check;

    // Signals between ranks; null where there is one chip. A wait returns when the signal compares as expected
    // (0 EQ, 1 NE, 2 GT, 3 GE, 4 LT, 5 LE, and PYPTO_SEEN: whatever it is); a notification adds `value`, or sets it.
    void (*signal_wait)(struct PyptoCoreContext *, const int32_t *signal, int32_t expected, uint32_t comparison);
    void (*signal_notify)(struct PyptoCoreContext *, int32_t *signal, int32_t value, int set);
};

#ifdef __cplusplus
extern "C" {
#endif
void pypto_bind_core(struct PyptoCoreContext *context);
#ifdef __cplusplus
}
#endif

#endif
