// Kernel Function: scale_rows
// Compiled by pypto-build, in the form of PyPTO's PTO backend.

#include <cstdint>

#ifndef __gm__
#define __gm__
#endif

#ifndef __aicore__
#if defined(__CPU_SIM)
#define __aicore__
#else
#define __aicore__ [aicore]
#endif
#endif

#include <pto/pto-inst.hpp>
#include "tensor.h"
#include "intrinsic.h"

using namespace pto;

// --- ptoas-generated code ---
static __aicore__ void scale_rows(__gm__ float* arg0, __gm__ float* arg1, int32_t __pypto_spmd_block_idx, int32_t __pypto_spmd_block_num) {
#if defined(__DAV_VEC__)
    set_mask_norm();
    set_vector_mask(-1, -1);
    const int64_t tmp0__ssa_v0 = (int64_t)__pypto_spmd_block_num;
    const int64_t share__ssa_v0 = 256 / tmp0__ssa_v0;
    const int64_t tmp1__ssa_v0 = (int64_t)__pypto_spmd_block_idx;
    const int64_t first__ssa_v0 = tmp1__ssa_v0 * share__ssa_v0;
    const int64_t tmp2__ssa_v0 = first__ssa_v0 + share__ssa_v0;
    for (int64_t row__idx_v0 = first__ssa_v0; row__idx_v0 < tmp2__ssa_v0; row__idx_v0 += 16) {
        Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> tile__ssa_v0(16, 64);
        TASSIGN(tile__ssa_v0, 0);
        GlobalTensor<float, pto::Shape<1, 1, 1, 16, 64>, pto::Stride<1024, 1024, 1024, 64, 1>, pto::Layout::ND> x__ssa_v0_pview_tensor(arg0 + row__idx_v0 * 64, pto::Shape<1, 1, 1, 16, 64>(), pto::Stride<1024, 1024, 1024, 64, 1>());
        TLOAD(tile__ssa_v0, x__ssa_v0_pview_tensor);
        Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> tmp4__ssa_v0__scratch(16, 64);
        TASSIGN(tmp4__ssa_v0__scratch, 4096);
        Tile<TileType::Vec, float, 16, 1, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> tmp4__ssa_v0(16, 1);
        TASSIGN(tmp4__ssa_v0, 8192);
        TROWSUM(tmp4__ssa_v0, tile__ssa_v0, tmp4__ssa_v0__scratch);
        Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> tmp3__ssa_v0(16, 64);
        TASSIGN(tmp3__ssa_v0, 4096);
        TROWEXPANDMUL(tmp3__ssa_v0, tile__ssa_v0, tmp4__ssa_v0);
        GlobalTensor<float, pto::Shape<1, 1, 1, 16, 64>, pto::Stride<1024, 1024, 1024, 64, 1>, pto::Layout::ND> y__ssa_v0_pview_1_tensor(arg1 + row__idx_v0 * 64, pto::Shape<1, 1, 1, 16, 64>(), pto::Stride<1024, 1024, 1024, 64, 1>());
        TSTORE(y__ssa_v0_pview_1_tensor, tmp3__ssa_v0);
    }
#endif // __DAV_VEC__
}

// --- Kernel entry point ---
extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t* args) {
#if !defined(__CPU_SIM) && !defined(__COSTMODEL)
    set_atomic_none();
#endif

    int32_t __pypto_spmd_block_idx = get_block_idx(args);
    int32_t __pypto_spmd_block_num = get_block_num(args);

    // Unpack tensor: x__ssa_v0
    __gm__ ChipTensor* x__ssa_v0_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[0]);
    __gm__ float* x__ssa_v0 = reinterpret_cast<__gm__ float*>(x__ssa_v0_tensor->buffer.addr) + x__ssa_v0_tensor->start_offset;

    // Unpack tensor: y__ssa_v0
    __gm__ ChipTensor* y__ssa_v0_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[1]);
    __gm__ float* y__ssa_v0 = reinterpret_cast<__gm__ float*>(y__ssa_v0_tensor->buffer.addr) + y__ssa_v0_tensor->start_offset;

    // Forward to ptoas-generated function
    scale_rows(x__ssa_v0, y__ssa_v0, __pypto_spmd_block_idx, __pypto_spmd_block_num);
}
