// Kernel Function: rms_norm_rows
// Example artifact of pypto-build, written in the form of PyPTO's PTO backend

#include <cstdint>

#ifndef __gm__
#define __gm__
#endif

#ifndef __aicore__
#ifdef __CPU_SIM
#define __aicore__
#else
#define __aicore__ [aicore]
#endif
#endif

#include <pto/pto-inst.hpp>
#include "tensor.h"

using namespace pto;

// --- ptoas-generated code ---
enum class PTOAutoSyncTailMode : int {
  kBarrierAll = 0,
};

static __aicore__ inline void ptoas_auto_sync_tail(PTOAutoSyncTailMode mode) {
  if (mode == PTOAutoSyncTailMode::kBarrierAll) {
    pipe_barrier(PIPE_ALL);
  }
}

static __aicore__ void rms_norm_rows(__gm__ bfloat16_t* v1, __gm__ float* v2, __gm__ bfloat16_t* v3, float v4) {
  const int64_t v5 = 64;
  const int64_t v6 = 256;
  const int64_t v7 = 1;
  const int64_t v8 = 0;
  const int64_t v10 = 0;
  const int64_t v14 = 32768;
  const int64_t v16 = 98304;
  const int64_t v18 = 128;
  const int64_t v19 = 163840;
  const int64_t v21 = 165888;
  const float v25 = 0.00390625f;
  using T = float;

  #if defined(__DAV_VEC__)
  set_mask_norm();
  set_vector_mask(-1, -1);
  Tile<TileType::Vec, bfloat16_t, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v9 = Tile<TileType::Vec, bfloat16_t, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v6);
  TASSIGN(v9, v8);
  pto::Shape<1, 1, 1, 64, 256> v11 = pto::Shape<1, 1, 1, 64, 256>();
  pto::Stride<16384, 16384, 16384, 256, 1> v12 = pto::Stride<16384, 16384, 16384, 256, 1>();
  GlobalTensor<bfloat16_t, pto::Shape<1, 1, 1, 64, 256>, pto::Stride<16384, 16384, 16384, 256, 1>, pto::Layout::ND> v13 = GlobalTensor<bfloat16_t, pto::Shape<1, 1, 1, 64, 256>, pto::Stride<16384, 16384, 16384, 256, 1>, pto::Layout::ND>(v1 + (v10 * v6 + v10 * v7), v11, v12);
  TLOAD(v9, v13);
  Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v15 = Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v6);
  TASSIGN(v15, v14);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TCVT(v15, v9, RoundMode::CAST_ROUND, SaturationMode::OFF);
  Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v17 = Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v6);
  TASSIGN(v17, v16);
  pipe_barrier(PIPE_V);
  TMUL(v17, v15, v15);
  Tile<TileType::Vec, float, 64, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v20 = Tile<TileType::Vec, float, 64, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v18);
  TASSIGN(v20, v8);
  Tile<TileType::Vec, float, 64, 1, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v22 = Tile<TileType::Vec, float, 64, 1, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v7);
  TASSIGN(v22, v21);
  pipe_barrier(PIPE_V);
  TROWSUM(v22, v17, v20);
  Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v23 = Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v7, v5);
  TASSIGN(v23, v21);
  Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v24 = Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v7, v5);
  TASSIGN(v24, v21);
  pipe_barrier(PIPE_V);
  TMULS(v24, v23, v25);
  Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v26 = Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v7, v5);
  TASSIGN(v26, v21);
  pipe_barrier(PIPE_V);
  TADDS(v26, v24, v4);
  Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v27 = Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v7, v5);
  TASSIGN(v27, v19);
  pipe_barrier(PIPE_V);
  TRSQRT(v27, v26);
  Tile<TileType::Vec, float, 64, 1, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v28 = Tile<TileType::Vec, float, 64, 1, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v7);
  TASSIGN(v28, v19);
  Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v29 = Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v6);
  TASSIGN(v29, v14);
  pipe_barrier(PIPE_V);
  TROWEXPANDMUL(v29, v15, v28);
  Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v30 = Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v7, v6);
  TASSIGN(v30, v16);
  pto::Shape<1, 1, 1, 1, 256> v31 = pto::Shape<1, 1, 1, 1, 256>();
  pto::Stride<256, 256, 256, 256, 1> v32 = pto::Stride<256, 256, 256, 256, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<256, 256, 256, 256, 1>, pto::Layout::ND> v33 = GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<256, 256, 256, 256, 1>, pto::Layout::ND>(v2 + (v10 * v6 + v10 * v7), v31, v32);
  set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
  TLOAD(v30, v33);
  Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v34 = Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v6);
  TASSIGN(v34, v14);
  pipe_barrier(PIPE_V);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TCOLEXPANDMUL(v34, v29, v30);
  Tile<TileType::Vec, bfloat16_t, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v35 = Tile<TileType::Vec, bfloat16_t, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v6);
  TASSIGN(v35, v8);
  pipe_barrier(PIPE_V);
  TCVT(v35, v34, RoundMode::CAST_RINT, SaturationMode::OFF);
  pto::Shape<1, 1, 1, 64, 256> v36 = pto::Shape<1, 1, 1, 64, 256>();
  pto::Stride<16384, 16384, 16384, 256, 1> v37 = pto::Stride<16384, 16384, 16384, 256, 1>();
  GlobalTensor<bfloat16_t, pto::Shape<1, 1, 1, 64, 256>, pto::Stride<16384, 16384, 16384, 256, 1>, pto::Layout::ND> v38 = GlobalTensor<bfloat16_t, pto::Shape<1, 1, 1, 64, 256>, pto::Stride<16384, 16384, 16384, 256, 1>, pto::Layout::ND>(v3 + (v10 * v6 + v10 * v7), v36, v37);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(v38, v35);
  #endif // __DAV_VEC__

  ptoas_auto_sync_tail(PTOAutoSyncTailMode::kBarrierAll);
  return;
}

// --- Kernel entry point ---
extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t* args) {
#if !defined(__CPU_SIM) && !defined(__COSTMODEL)
    set_atomic_none();
#endif

    // Unpack tensor: x
    __gm__ ChipTensor* x_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[0]);
    __gm__ bfloat16_t* x = reinterpret_cast<__gm__ bfloat16_t*>(x_tensor->buffer.addr) + x_tensor->start_offset;

    // Unpack tensor: gamma
    __gm__ ChipTensor* gamma_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[1]);
    __gm__ float* gamma = reinterpret_cast<__gm__ float*>(gamma_tensor->buffer.addr) + gamma_tensor->start_offset;

    // Unpack tensor: out
    __gm__ ChipTensor* out_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[2]);
    __gm__ bfloat16_t* out = reinterpret_cast<__gm__ bfloat16_t*>(out_tensor->buffer.addr) + out_tensor->start_offset;

    // Unpack scalar: eps
    union { uint64_t u64; float val; } eps_conv;
    eps_conv.u64 = args[3];
    float eps = eps_conv.val;

    // Forward to ptoas-generated function
    rms_norm_rows(x, gamma, out, eps);
}
