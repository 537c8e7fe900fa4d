// Kernel Function: gemm_silu_aiv
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

using namespace pto;

// --- ptoas-generated code ---
static __aicore__ void gemm_silu_aic(__gm__ bfloat16_t* arg0, __gm__ bfloat16_t* arg1, __gm__ float* arg2, __gm__ float* arg3, __gm__ float* arg4, int64_t arg5) {
#if defined(__DAV_CUBE__)
    auto pipe0 = TPipe<0, Direction::DIR_C2V, 4096, 2, 2, true>(arg4, 0, 0);
    Tile<TileType::Mat, bfloat16_t, 16, 128, BLayout::ColMajor, -1, -1, SLayout::RowMajor, 512, PadValue::Null, CompactMode::Null> x__ssa_v0(16, 128);
    TASSIGN(x__ssa_v0, 0);
    GlobalTensor<bfloat16_t, pto::Shape<1, 1, 1, 16, 128>, pto::Stride<2048, 2048, 2048, 128, 1>, pto::Layout::ND> a__ssa_v0_pview_tensor(arg0 + arg5 * 128, pto::Shape<1, 1, 1, 16, 128>(), pto::Stride<2048, 2048, 2048, 128, 1>());
    TLOAD(x__ssa_v0, a__ssa_v0_pview_tensor);
    for (int64_t col__idx_v0 = 0; col__idx_v0 < 128; col__idx_v0 += 64) {
        Tile<TileType::Mat, bfloat16_t, 128, 64, BLayout::ColMajor, -1, -1, SLayout::RowMajor, 512, PadValue::Null, CompactMode::Null> tmp0__ssa_v0(128, 64);
        TASSIGN(tmp0__ssa_v0, 4096);
        GlobalTensor<bfloat16_t, pto::Shape<1, 1, 1, 128, 64>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND> b__ssa_v0_pview_1_tensor(arg1 + col__idx_v0, pto::Shape<1, 1, 1, 128, 64>(), pto::Stride<16384, 16384, 16384, 128, 1>());
        TLOAD(tmp0__ssa_v0, b__ssa_v0_pview_1_tensor);
        Tile<TileType::Left, bfloat16_t, 16, 128, BLayout::RowMajor, -1, -1, SLayout::RowMajor, 512, PadValue::Null, CompactMode::Null> x__ssa_v0_Left(16, 128);
        TASSIGN(x__ssa_v0_Left, 0);
        TMOV(x__ssa_v0_Left, x__ssa_v0);
        Tile<TileType::Right, bfloat16_t, 128, 64, BLayout::RowMajor, -1, -1, SLayout::ColMajor, 512, PadValue::Null, CompactMode::Null> tmp0__ssa_v0_Right(128, 64);
        TASSIGN(tmp0__ssa_v0_Right, 0);
        TMOV(tmp0__ssa_v0_Right, tmp0__ssa_v0);
        Tile<TileType::Acc, float, 16, 64, BLayout::ColMajor, -1, -1, SLayout::RowMajor, 1024, PadValue::Null, CompactMode::Null> product__ssa_v0(16, 64);
        TASSIGN(product__ssa_v0, 0);
        TMATMUL(product__ssa_v0, x__ssa_v0_Left, tmp0__ssa_v0_Right);
        TPUSH<decltype(pipe0), decltype(product__ssa_v0), TileSplitAxis::TILE_NO_SPLIT>(pipe0, product__ssa_v0);
    }
#endif // __DAV_CUBE__
}

static __aicore__ void gemm_silu_aiv(__gm__ bfloat16_t* arg0, __gm__ bfloat16_t* arg1, __gm__ float* arg2, __gm__ float* arg3, __gm__ float* arg4, int64_t arg5) {
#if defined(__DAV_VEC__)
    set_mask_norm();
    set_vector_mask(-1, -1);
    const float cst = 1.0f;
    auto pipe0 = TPipe<0, Direction::DIR_C2V, 4096, 2, 2, true>(arg4, 0, 0);
    for (int64_t col__idx_v0 = 0; col__idx_v0 < 128; col__idx_v0 += 64) {
        Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> product__ssa_v0__Vec(16, 64);
        TPOP<decltype(pipe0), decltype(product__ssa_v0__Vec), TileSplitAxis::TILE_NO_SPLIT>(pipe0, product__ssa_v0__Vec);
        Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> tmp3_3__ssa_v0(16, 64);
        TASSIGN(tmp3_3__ssa_v0, 8192);
        TNEG(tmp3_3__ssa_v0, product__ssa_v0__Vec);
        Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> tmp2_2__ssa_v0(16, 64);
        TASSIGN(tmp2_2__ssa_v0, 8192);
        TEXP(tmp2_2__ssa_v0, tmp3_3__ssa_v0);
        Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> tmp1_1__ssa_v0(16, 64);
        TASSIGN(tmp1_1__ssa_v0, 8192);
        TADDS(tmp1_1__ssa_v0, tmp2_2__ssa_v0, cst);
        Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> tmp0_0__ssa_v0(16, 64);
        TASSIGN(tmp0_0__ssa_v0, 8192);
        TDIV(tmp0_0__ssa_v0, product__ssa_v0__Vec, tmp1_1__ssa_v0);
        TFREE<decltype(pipe0), TileSplitAxis::TILE_NO_SPLIT>(pipe0);
        Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> tmp3__ssa_v0(16, 64);
        TASSIGN(tmp3__ssa_v0, 12288);
        GlobalTensor<float, pto::Shape<1, 1, 1, 16, 64>, pto::Stride<2048, 2048, 2048, 128, 1>, pto::Layout::ND> residual__ssa_v0_pview_tensor(arg2 + (arg5 * 128 + col__idx_v0), pto::Shape<1, 1, 1, 16, 64>(), pto::Stride<2048, 2048, 2048, 128, 1>());
        TLOAD(tmp3__ssa_v0, residual__ssa_v0_pview_tensor);
        Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> tmp1__ssa_v0(16, 64);
        TASSIGN(tmp1__ssa_v0, 8192);
        TADD(tmp1__ssa_v0, tmp0_0__ssa_v0, tmp3__ssa_v0);
        GlobalTensor<float, pto::Shape<1, 1, 1, 16, 64>, pto::Stride<2048, 2048, 2048, 128, 1>, pto::Layout::ND> out__ssa_v0_pview_1_tensor(arg3 + (arg5 * 128 + col__idx_v0), pto::Shape<1, 1, 1, 16, 64>(), pto::Stride<2048, 2048, 2048, 128, 1>());
        TSTORE(out__ssa_v0_pview_1_tensor, tmp1__ssa_v0);
    }
#endif // __DAV_VEC__
}

// --- Kernel entry point ---
extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t* args) {
#if !defined(__CPU_SIM) && !defined(__COSTMODEL)
    set_atomic_none();
#endif

    // Unpack tensor: a__ssa_v0
    __gm__ ChipTensor* a__ssa_v0_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[0]);
    __gm__ bfloat16_t* a__ssa_v0 = reinterpret_cast<__gm__ bfloat16_t*>(a__ssa_v0_tensor->buffer.addr) + a__ssa_v0_tensor->start_offset;

    // Unpack tensor: b__ssa_v0
    __gm__ ChipTensor* b__ssa_v0_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[1]);
    __gm__ bfloat16_t* b__ssa_v0 = reinterpret_cast<__gm__ bfloat16_t*>(b__ssa_v0_tensor->buffer.addr) + b__ssa_v0_tensor->start_offset;

    // Unpack tensor: residual__ssa_v0
    __gm__ ChipTensor* residual__ssa_v0_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[2]);
    __gm__ float* residual__ssa_v0 = reinterpret_cast<__gm__ float*>(residual__ssa_v0_tensor->buffer.addr) + residual__ssa_v0_tensor->start_offset;

    // Unpack tensor: out__ssa_v0
    __gm__ ChipTensor* out__ssa_v0_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[3]);
    __gm__ float* out__ssa_v0 = reinterpret_cast<__gm__ float*>(out__ssa_v0_tensor->buffer.addr) + out__ssa_v0_tensor->start_offset;

    // Unpack tensor: __gm_pipe_buffer
    __gm__ ChipTensor* __gm_pipe_buffer_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[4]);
    __gm__ float* __gm_pipe_buffer = reinterpret_cast<__gm__ float*>(__gm_pipe_buffer_tensor->buffer.addr) + __gm_pipe_buffer_tensor->start_offset;

    // Unpack scalar: row__ssa_v0
    union { uint64_t u64; int64_t val; } row__ssa_v0_conv;
    row__ssa_v0_conv.u64 = args[5];
    int64_t row__ssa_v0 = row__ssa_v0_conv.val;

    // Forward to ptoas-generated function
    gemm_silu_aiv(a__ssa_v0, b__ssa_v0, residual__ssa_v0, out__ssa_v0, __gm_pipe_buffer, row__ssa_v0);
}
