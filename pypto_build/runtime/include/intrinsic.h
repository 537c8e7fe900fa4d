// A kernel's position in its task: block of an SPMD launch, lane in a group, DMA workspace.
//
// The contexts sit behind the argument list. Functions taking args never clash with the nullary ones of pto-inst.hpp.
#ifndef PYPTO_INTRINSIC_H
#define PYPTO_INTRINSIC_H

#include <stdint.h>

#include "pypto/kernel_args.h"

inline const LocalContext *pypto_local_context(const int64_t *args) {
    return reinterpret_cast<const LocalContext *>(args[pypto::kLocalContextSlot]);
}
inline const GlobalContext *pypto_global_context(const int64_t *args) {
    return reinterpret_cast<const GlobalContext *>(args[pypto::kGlobalContextSlot]);
}

/// Number of this block, 0 … get_block_num(args) - 1.
inline int32_t get_block_idx(const int64_t *args) {
    return pypto_local_context(args)->block_idx;
}
/// Blocks of the task's SPMD launch; 1 without one.
inline int32_t get_block_num(const int64_t *args) {
    return pypto_local_context(args)->block_num;
}
/// Lane of an AIV core in its group: 0 or 1.
inline int32_t get_sub_block_id(const int64_t *args) {
    return pypto_global_context(args)->sub_block_id;
}
/// Scratch memory of a DMA engine (0 SDMA, 1 URMA); 0 when the run has none.
template <typename Kind> inline uint64_t get_dma_workspace(const int64_t *args, Kind kind) {
    return pypto_global_context(args)->dma_workspace[static_cast<int>(kind)];
}

#endif
