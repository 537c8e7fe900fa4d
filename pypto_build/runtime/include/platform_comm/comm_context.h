// A communication domain as a rank sees it: its number and the address of every member's window. The layout is
// upstream's, which kernels also read by offsets.
#ifndef PYPTO_COMM_CONTEXT_H
#define PYPTO_COMM_CONTEXT_H

#include <stdint.h>

static constexpr uint32_t COMM_MAX_RANK_NUM = 64;

struct CommContext {
    uint64_t workSpace;
    uint64_t workSpaceSize; // bytes
    uint32_t rankId;
    uint32_t rankNum;
    uint64_t winSize; // bytes of one window
    uint64_t windowsIn[COMM_MAX_RANK_NUM];
    uint64_t windowsOut[COMM_MAX_RANK_NUM];
};
static_assert(sizeof(CommContext) == 1056, "CommContext: kernels read it by offsets");

#endif
